//! Datagrams in: opened, told apart, handed to the part they concern.

use std::net::SocketAddr;

use ctcp_units::{Duration, Instant, PathId, SymbolId, millis};

use super::{
    Connection, ConnectionError, Event, Fate, PathEvent, PathState, Phase, Violation, close_code,
};
use crate::Ecn;
use crate::block::Insertion;
use crate::crypto::{OpenError, Opened, ReplayWindow};
use crate::path::{Candidate, Cargo, Control, Path, PathUse, Resolved};
use crate::stream::{Side, StreamViolation, Streams};
use crate::trace::{TraceContent, TraceEvent};
use crate::wire::{
    AckView, Flags, Frame, FrameIter, Header, Reader, ReportsView, SYMBOL_LEN_PREFIX,
    SymbolTruncation, symbol_content_max,
};

/// Challenges sent to a new address before it is given up.
const CHALLENGES: u8 = 5;
/// Time between them, if a probe timeout is not less.
const CHALLENGE_PAUSE: Duration = millis(500);
/// Challenges of the peer answered at most at a time.
const RESPONSES_MAX: usize = 8;

/// Where and when a packet came in.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    now: Instant,
    /// A frame may close it, or another: its index is not to be relied on.
    path: PathId,
    from: SocketAddr,
    flags: Flags,
    number: u64,
    /// UDP payload.
    len: usize,
}

impl Connection {
    /// A datagram that the endpoint found to be for `path` of this connection.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        path: PathId,
        from: SocketAddr,
        ecn: Option<Ecn>,
        datagram: &mut [u8],
    ) {
        self.advance(now);
        if datagram.first().is_some_and(|first| first & 0x80 != 0) {
            return self.handle_reply(now, from, datagram);
        }
        match &mut self.phase {
            Phase::Unproven { .. } | Phase::Open => {}
            Phase::Closing {
                next_path, heard, ..
            } => {
                // Ever more rarely, as whoever sends may not be the peer.
                *heard = heard.saturating_add(1);
                if heard.is_power_of_two() {
                    *next_path = 0;
                }
                return;
            }
            Phase::Hello(_) | Phase::Draining { .. } | Phase::Gone => return,
        }
        let Some((index, opened)) = self.open(now, path, from, datagram) else {
            return;
        };
        self.on_proven();
        self.last_received = now;
        self.paths[index].on_received(now, datagram.len());
        self.received.bytes += datagram.len() as u64;
        let flags = Flags(opened.flags);
        let number = opened.number.0;
        let path = &mut self.paths[index];
        let is_newest = path.arrivals.on_packet(now, number, ecn);
        if from != path.remote || !path.is_validated {
            if is_newest && (from != path.remote || self.side == Side::Server) {
                self.on_new_address(now, index, from);
            }
            self.paths[index].on_unproven_bytes(from, datagram.len());
        }
        let arrival = Arrival {
            now,
            path: self.paths[index].id,
            from,
            flags,
            number,
            len: datagram.len(),
        };
        if let Err(violation) = self.handle_packet(arrival, &datagram[opened.payload]) {
            let reason = violation.to_string();
            let error = ConnectionError::Violation(violation);
            self.end(now, close_code::VIOLATION, &reason, error);
        }
    }

    /// Opens a packet; the first authentic one of a path makes the path.
    fn open(
        &mut self,
        now: Instant,
        id: PathId,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Option<(usize, Opened)> {
        let known = self.paths.iter().position(|path| path.id == id);
        let mut fresh = ReplayWindow::new();
        let replay = match known {
            Some(index) => &mut self.paths[index].replay,
            None if self.is_open() && self.may_begin(id) => &mut fresh,
            None => {
                self.stats.unexpected += 1;
                return None;
            }
        };
        let keys = self.keys.as_mut()?;
        match keys.open_in_place(id, replay, datagram) {
            Ok(opened) => {
                if opened.key_phase_changed {
                    let until = now + self.drain_span();
                    self.keys.as_mut()?.hold_previous_until(until);
                }
                let index = match known {
                    Some(index) => index,
                    None => self.begin_path(now, id, from, fresh)?,
                };
                Some((index, opened))
            }
            Err(error) => {
                self.on_not_opened(now, error);
                None
            }
        }
    }

    fn on_not_opened(&mut self, now: Instant, error: OpenError) {
        match error {
            OpenError::Replay(_) => self.stats.replayed += 1,
            OpenError::UpdateTooEarly => {
                let error = ConnectionError::Violation(Violation::KeyUpdate);
                self.end(now, close_code::VIOLATION, "keys updated too early", error);
            }
            OpenError::TooManyForged => {
                let code = close_code::KEYS_WORN_OUT;
                let error = ConnectionError::KeysWornOut;
                self.end(now, code, "too many forgeries", error);
            }
            OpenError::Truncated { .. } | OpenError::NotProtected | OpenError::Forged => {
                self.stats.forged += 1;
            }
        }
    }

    /// The newest packet of a path came from elsewhere: the address is followed
    /// once it is proven.
    fn on_new_address(&mut self, now: Instant, index: usize, from: SocketAddr) {
        let path = &mut self.paths[index];
        if path.candidate.is_none_or(|known| known.address != from) {
            let pause = CHALLENGE_PAUSE.min(path.probe_timeout());
            path.candidate = Some(Candidate {
                address: from,
                challenge: self.random.array(),
                due: now,
                tries_left: CHALLENGES,
                pause,
                bytes_left: 0,
            });
        }
    }

    pub(super) fn change_address(&mut self, now: Instant, index: usize, remote: SocketAddr) {
        let (path, fates) = (&mut self.paths[index], &mut self.fates);
        path.on_address_changed(now, remote, |resolved, has_arrived| {
            note(fates, resolved, has_arrived);
        });
        self.stats.address_changes += 1;
        self.bottlenecks.forget(self.paths[index].slot);
        self.couple(now);
        self.settle_fates(index);
        self.fit_blocks_to_mtu();
    }

    fn handle_packet(&mut self, arrival: Arrival, payload: &[u8]) -> Result<(), Violation> {
        let truncation = SymbolTruncation {
            reference: self.receiver.base(),
        };
        let mut reader = Reader::new(payload);
        let header = Header::parse(arrival.flags, &mut reader, truncation)?;
        let content_len = reader.rest().len();
        let recovered_before = self.receiver.recovered();
        let mut is_innovative = true;
        let is_eliciting = match header {
            Header::Control => {
                self.received.control += 1;
                self.handle_frames(arrival, reader.rest())?
            }
            Header::Systematic {
                symbol,
                index,
                is_last,
            } => {
                self.received.systematic += 1;
                let mut broken = Ok(());
                let streams = &mut self.streams;
                let insertion = self.receiver.on_systematic(
                    arrival.now,
                    symbol,
                    index,
                    is_last,
                    reader.rest(),
                    |content| deliver(streams, content, &mut broken),
                )?;
                broken?;
                is_innovative = insertion == Insertion::Innovative;
                self.count(arrival, insertion, content_len, false);
                true
            }
            Header::Coded {
                first,
                count,
                is_final,
                repair,
            } => {
                self.received.coded += 1;
                let mut broken = Ok(());
                let streams = &mut self.streams;
                let insertion = self.receiver.on_coded(
                    arrival.now,
                    first,
                    count,
                    is_final,
                    repair,
                    reader.rest(),
                    |content| deliver(streams, content, &mut broken),
                )?;
                broken?;
                is_innovative = insertion == Insertion::Innovative;
                self.count(arrival, insertion, content_len, true);
                true
            }
        };
        self.trace(&TraceEvent::Received {
            path: arrival.path,
            number: arrival.number,
            len: arrival.len,
            content: traced(header),
            is_innovative,
            recovered: self.receiver.recovered() - recovered_before,
        });
        if header != Header::Control
            && let Some(index) = self.path_index(arrival.path)
        {
            self.paths[index].quiet_asked = 0;
            self.paths[index].last_symbol = arrival.now;
        }
        if is_eliciting && let Some(index) = self.path_index(arrival.path) {
            let wants_ack_now = arrival.flags.wants_ack_now();
            self.paths[index]
                .arrivals
                .on_ack_eliciting(arrival.now, wants_ack_now);
        }
        Ok(())
    }

    fn count(
        &mut self,
        arrival: Arrival,
        insertion: Insertion,
        content_len: usize,
        is_coded: bool,
    ) {
        match insertion {
            Insertion::Innovative => {
                self.stats.coded_innovative += u64::from(is_coded);
                if let Some(index) = self.path_index(arrival.path) {
                    self.paths[index].on_useful(content_len);
                }
            }
            Insertion::Useless => self.stats.useless += 1,
            Insertion::OutsideWindow => self.stats.outside_window += 1,
        }
    }

    /// Control frames; returns whether one of them asks for an ACK.
    fn handle_frames(&mut self, arrival: Arrival, payload: &[u8]) -> Result<bool, Violation> {
        let mut is_eliciting = false;
        for frame in FrameIter::new(payload) {
            let frame = frame?;
            is_eliciting |= frame.is_ack_eliciting();
            self.handle_frame(arrival, &frame)?;
            if !self.is_open() {
                break;
            }
        }
        Ok(is_eliciting)
    }

    fn handle_frame(&mut self, arrival: Arrival, frame: &Frame<'_>) -> Result<(), Violation> {
        match *frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => {
                self.trace(&TraceEvent::Ack(&ack));
                self.handle_ack(arrival, &ack)?;
            }
            Frame::Generations {
                base,
                window_end,
                reports,
            } => self.handle_report(base, window_end, reports),
            Frame::AckFloor { path, floor } => {
                if let Some(index) = self.path_index(path) {
                    self.paths[index].arrivals.forget_below(floor);
                }
            }
            Frame::MaxData(max) => self.streams.on_max_data(max),
            Frame::MaxStreams(max) => self.streams.on_max_streams(max),
            Frame::MaxStreamData { stream, max } => self.streams.on_max_stream_data(stream, max)?,
            Frame::ResetStream {
                stream,
                code,
                final_offset,
            } => self.streams.on_reset_stream(stream, code, final_offset)?,
            Frame::StopSending { stream, code } => self.streams.on_stop_sending(stream, code)?,
            Frame::Abandon { first, count } => self.receiver.on_abandon(first, count)?,
            Frame::Datagram { stream, data } => self.on_datagram(stream, data),
            Frame::NumberedDatagram { number, content } => {
                self.on_numbered_datagram(number, content)?;
            }
            Frame::DatagramRepair {
                first,
                count,
                repair,
                payload,
            } => self.on_datagram_repair((first, count), repair, payload)?,
            Frame::PathChallenge(data) => {
                if self.responses.len() < RESPONSES_MAX {
                    let path = arrival.path;
                    self.responses.push_back((path, arrival.from, data));
                }
            }
            Frame::PathResponse(data) => {
                if let Some(index) = self.path_index(arrival.path)
                    && let Some(candidate) = self.paths[index].candidate
                    && candidate.challenge == data
                    && candidate.address == arrival.from
                {
                    self.on_address_proven(arrival.now, index, candidate.address);
                }
            }
            Frame::PathId { path, id } => self.on_path_id(path, id),
            Frame::PathUse {
                path,
                sequence,
                is_backup,
                cost,
            } => self.on_path_use(
                path,
                PathUse {
                    sequence,
                    is_backup,
                    cost,
                },
            ),
            Frame::PathClose(path) => self.on_path_close(path),
            Frame::Close { code, reason } => {
                let until = arrival.now + self.drain_span();
                self.phase = Phase::Draining { until };
                self.held = None;
                self.trace(&TraceEvent::Closed {
                    is_local: false,
                    reason,
                });
                let reason = reason.to_owned();
                self.events
                    .push_back(Event::Closed(ConnectionError::PeerClosed { code, reason }));
            }
        }
        Ok(())
    }

    fn on_address_proven(&mut self, now: Instant, index: usize, remote: SocketAddr) {
        if !self.paths[index].is_validated {
            return self.on_path_validated(now, index, remote);
        }
        self.change_address(now, index, remote);
        let path = self.paths[index].id;
        self.tell_path(PathEvent::AddressChanged { path, remote });
    }

    fn handle_ack(&mut self, arrival: Arrival, ack: &AckView<'_>) -> Result<(), Violation> {
        let unsent = Violation::UnsentAcknowledged(ack.path);
        let Some(index) = self.path_index(ack.path) else {
            // Sent before the path was closed.
            return if self.was_path_opened(ack.path) {
                Ok(())
            } else {
                Err(unsent)
            };
        };
        let is_same_path = ack.path == arrival.path;
        let was_active = self.paths[index].state() == PathState::Active;
        let (path, fates) = (&mut self.paths[index], &mut self.fates);
        let is_mtu_fallen = path
            .on_ack(arrival.now, ack, is_same_path, |resolved, has_arrived| {
                note(fates, resolved, has_arrived);
            })
            .ok_or(unsent)?;
        if let Some(keys) = &mut self.keys {
            keys.on_acknowledged(ack.path, ctcp_units::PacketNumber(ack.ranges.largest()));
        }
        if let Some(floor) = self.paths[index].take_floor() {
            let path = ack.path;
            self.controls.push_back(Control::AckFloor { path, floor });
        }
        self.settle_fates(index);
        self.age_path(index, arrival.now);
        self.hear_news(arrival.now, index);
        self.fit_span(arrival.now);
        let path = &self.paths[index];
        if !was_active && path.state() == PathState::Active {
            self.tell_path(PathEvent::Recovered(path.id));
        }
        if is_mtu_fallen {
            self.fit_blocks_to_mtu();
        }
        if self.trace.is_some() {
            let stats = self.paths[index].stats();
            self.trace(&TraceEvent::Metrics(&stats));
        }
        Ok(())
    }

    /// Tells blocks and control frames what became of the packets just noted.
    pub(super) fn settle_fates(&mut self, index: usize) {
        let path = &mut self.paths[index];
        let slot = path.slot;
        self.sender.set_loss(slot, path.loss_process());
        let mut fates = core::mem::take(&mut self.fates);
        for fate in fates.drain(..) {
            if !fate.has_arrived {
                self.trace(&TraceEvent::Lost {
                    path: self.paths[index].id,
                    number: fate.number,
                    is_symbol: matches!(fate.cargo, Cargo::Symbol { .. }),
                });
            }
            match fate.cargo {
                Cargo::Symbol { block } if fate.has_arrived => {
                    self.sender.on_acked(block, slot, fate.was_aged);
                }
                Cargo::Symbol { block } => self.sender.on_gone(block, slot, fate.was_aged),
                Cargo::Control => {
                    while let Some(control) = self.paths[index].control_log.take(fate.number) {
                        self.on_control_fate(control, fate.has_arrived);
                    }
                }
                Cargo::AckOnly | Cargo::MtuProbe(_) | Cargo::Datagram | Cargo::DatagramRepair => {}
            }
        }
        self.fates = fates;
    }

    pub(super) fn on_control_fate(&mut self, control: Control, has_arrived: bool) {
        match control {
            Control::Stream(said) if has_arrived => self.streams.on_control_acked(said),
            Control::Stream(said) => self.streams.on_control_lost(said),
            Control::Abandon { .. } if !has_arrived => self.controls.push_back(control),
            Control::PathId { .. } | Control::PathUse { .. } | Control::PathClose(_) => {
                if !has_arrived && self.is_path_control_wanted(control) {
                    self.controls.push_back(control);
                } else {
                    self.path_controls = self.path_controls.saturating_sub(1);
                }
            }
            Control::Abandon { .. } | Control::Ping | Control::AckFloor { .. } => {}
        }
    }

    pub(super) fn age_path(&mut self, index: usize, now: Instant) {
        let path = &mut self.paths[index];
        let (slot, sender) = (path.slot, &mut self.sender);
        path.age(now, |block| sender.on_gone(block, slot, false));
    }

    fn handle_report(&mut self, base: SymbolId, window_end: SymbolId, reports: ReportsView<'_>) {
        self.sender.open_window(window_end);
        self.sender.on_report(base, reports);
        self.streams.on_symbols_complete(self.sender.base());
    }

    /// Gives up blocks that no path can carry any more.
    pub(super) fn fit_blocks_to_mtu(&mut self) {
        let is_alive = |path: &&Path| path.state() <= PathState::Degraded;
        let alive = self.paths.iter().filter(is_alive);
        let widest = alive.map(Path::udp_payload_max).max().or_else(|| {
            // All silent: whichever comes back first must do.
            self.paths.iter().map(Path::udp_payload_max).max()
        });
        let symbol_len_max = symbol_content_max(widest.unwrap_or(0)) + SYMBOL_LEN_PREFIX;
        let (streams, controls, stats) = (&mut self.streams, &mut self.controls, &mut self.stats);
        self.sender.abandon_longer_than(
            symbol_len_max,
            |content| streams.requeue(content),
            |first, count| {
                stats.generations_abandoned += 1;
                controls.push_back(Control::Abandon { first, count });
            },
        );
    }
}

/// What the packet carries, as traces tell it.
pub(super) fn traced(header: Header) -> TraceContent {
    match header {
        Header::Control => TraceContent::Control,
        Header::Systematic { symbol, index, .. } => TraceContent::Systematic { symbol, index },
        Header::Coded { first, count, .. } => TraceContent::Coded { first, count },
    }
}

pub(super) fn note(fates: &mut Vec<Fate>, resolved: &Resolved, has_arrived: bool) {
    fates.push(Fate {
        number: resolved.number.0,
        cargo: resolved.packet.cargo,
        has_arrived,
        was_aged: resolved.was_aged,
    });
}

fn deliver(streams: &mut Streams, content: &[u8], broken: &mut Result<(), StreamViolation>) {
    if broken.is_ok() {
        *broken = streams.on_symbol(content);
    }
}

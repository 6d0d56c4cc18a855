//! Datagrams in: opened, told apart, handed to the part they concern.

use std::net::SocketAddr;

use ctcp_units::{Instant, PathId, SymbolId};

use super::{Connection, ConnectionError, Event, Fate, Phase, Violation, close_code};
use crate::Ecn;
use crate::block::Insertion;
use crate::crypto::OpenError;
use crate::path::{Candidate, Cargo, Control, Resolved};
use crate::stream::{StreamViolation, Streams};
use crate::wire::{
    AckView, Flags, Frame, FrameIter, Header, Reader, ReportsView, SYMBOL_LEN_PREFIX,
    SymbolTruncation, symbol_content_max,
};

/// Challenges sent to a new address before it is given up.
const CHALLENGES: u8 = 5;
/// Challenges of the peer answered at most at a time.
const RESPONSES_MAX: usize = 8;

/// Where and when a packet came in.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    now: Instant,
    /// Index of the path.
    path: usize,
    from: SocketAddr,
    flags: Flags,
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
            Phase::Closing { is_due, heard, .. } => {
                // Ever more rarely, as whoever sends may not be the peer.
                *heard = heard.saturating_add(1);
                *is_due |= heard.is_power_of_two();
                return;
            }
            Phase::Hello(_) | Phase::Draining { .. } | Phase::Gone => return,
        }
        let Some(index) = self.path_index(path) else {
            self.stats.unexpected += 1;
            return;
        };
        let Some(opened) = self.open(now, index, datagram) else {
            return;
        };
        self.on_proven();
        self.last_received = now;
        self.received.bytes += datagram.len() as u64;
        let flags = Flags(opened.flags);
        let number = opened.number.0;
        let is_newest = self.paths[index].arrivals.on_packet(now, number, ecn);
        if from != self.paths[index].remote {
            if is_newest {
                self.on_new_address(now, index, from);
            }
            self.paths[index].on_unproven_bytes(from, datagram.len());
        }
        let arrival = Arrival {
            now,
            path: index,
            from,
            flags,
        };
        if let Err(violation) = self.handle_packet(arrival, &datagram[opened.payload]) {
            let reason = violation.to_string();
            let error = ConnectionError::Violation(violation);
            self.end(now, close_code::VIOLATION, &reason, error);
        }
    }

    fn open(
        &mut self,
        now: Instant,
        index: usize,
        datagram: &mut [u8],
    ) -> Option<crate::crypto::Opened> {
        let keys = self.keys.as_mut()?;
        let path = &mut self.paths[index];
        match keys.open_in_place(path.id, &mut path.replay, datagram) {
            Ok(opened) => {
                if opened.key_phase_changed {
                    let until = now + self.drain_span();
                    self.keys.as_mut()?.hold_previous_until(until);
                }
                Some(opened)
            }
            Err(error) => {
                match error {
                    OpenError::Replay(_) => self.stats.replayed += 1,
                    OpenError::UpdateTooEarly => {
                        let error = ConnectionError::Violation(Violation::KeyUpdate);
                        self.end(now, close_code::VIOLATION, "keys updated too early", error);
                    }
                    OpenError::TooManyForged => {
                        let code = close_code::KEYS_WORN_OUT;
                        self.end(
                            now,
                            code,
                            "too many forgeries",
                            ConnectionError::KeysWornOut,
                        );
                    }
                    OpenError::Truncated { .. } | OpenError::NotProtected | OpenError::Forged => {
                        self.stats.forged += 1;
                    }
                }
                None
            }
        }
    }

    /// The newest packet of a path came from elsewhere: the address is followed
    /// once it is proven.
    fn on_new_address(&mut self, now: Instant, index: usize, from: SocketAddr) {
        let path = &mut self.paths[index];
        if path.candidate.is_none_or(|known| known.address != from) {
            path.candidate = Some(Candidate {
                address: from,
                challenge: self.random.array(),
                due: now,
                tries_left: CHALLENGES,
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
        self.settle_fates(index);
        self.fit_blocks_to_mtu();
    }

    fn handle_packet(&mut self, arrival: Arrival, payload: &[u8]) -> Result<(), Violation> {
        let truncation = SymbolTruncation {
            reference: self.receiver.base(),
        };
        let mut reader = Reader::new(payload);
        let header = Header::parse(arrival.flags, &mut reader, truncation)?;
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
                    symbol,
                    index,
                    is_last,
                    reader.rest(),
                    |content| deliver(streams, content, &mut broken),
                )?;
                broken?;
                self.count(insertion, false);
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
                    first,
                    count,
                    is_final,
                    repair,
                    reader.rest(),
                    |content| deliver(streams, content, &mut broken),
                )?;
                broken?;
                self.count(insertion, true);
                true
            }
        };
        if header != Header::Control {
            self.quiet_asked = 0;
        }
        if is_eliciting {
            let wants_ack_now = arrival.flags.wants_ack_now();
            self.paths[arrival.path]
                .arrivals
                .on_ack_eliciting(arrival.now, wants_ack_now);
        }
        Ok(())
    }

    fn count(&mut self, insertion: Insertion, is_coded: bool) {
        match insertion {
            Insertion::Innovative => self.stats.coded_innovative += u64::from(is_coded),
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
            Frame::Ack(ack) => self.handle_ack(arrival, &ack)?,
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
            Frame::PathChallenge(data) => {
                if self.responses.len() < RESPONSES_MAX {
                    let id = self.paths[arrival.path].id;
                    self.responses.push_back((id, arrival.from, data));
                }
            }
            Frame::PathResponse(data) => {
                let proven = self.paths[arrival.path].candidate.filter(|candidate| {
                    candidate.challenge == data && candidate.address == arrival.from
                });
                if let Some(candidate) = proven {
                    self.change_address(arrival.now, arrival.path, candidate.address);
                }
            }
            Frame::Close { code, reason } => {
                let until = arrival.now + self.drain_span();
                self.phase = Phase::Draining { until };
                self.held = None;
                let reason = reason.to_owned();
                self.events
                    .push_back(Event::Closed(ConnectionError::PeerClosed { code, reason }));
            }
        }
        Ok(())
    }

    fn handle_ack(&mut self, arrival: Arrival, ack: &AckView<'_>) -> Result<(), Violation> {
        let unsent = Violation::UnsentAcknowledged(ack.path);
        let index = self.path_index(ack.path).ok_or(unsent)?;
        let is_same_path = index == arrival.path;
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
        if is_mtu_fallen {
            self.fit_blocks_to_mtu();
        }
        Ok(())
    }

    /// Tells blocks and control frames what became of the packets just noted.
    pub(super) fn settle_fates(&mut self, index: usize) {
        let path = &mut self.paths[index];
        let slot = path.slot;
        self.sender.set_loss(slot, path.planning_rate());
        let mut fates = core::mem::take(&mut self.fates);
        for fate in fates.drain(..) {
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
                Cargo::AckOnly | Cargo::MtuProbe(_) => {}
            }
        }
        self.fates = fates;
    }

    pub(super) fn on_control_fate(&mut self, control: Control, has_arrived: bool) {
        match control {
            Control::Stream(said) if has_arrived => self.streams.on_control_acked(said),
            Control::Stream(said) => self.streams.on_control_lost(said),
            Control::Abandon { .. } if !has_arrived => self.controls.push_back(control),
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
        let widest = self.paths.iter().map(|path| path.udp_payload_max()).max();
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

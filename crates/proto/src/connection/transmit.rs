//! Datagrams out: what leaves first, and how a packet is made.
//!
//! Order: a close; challenges and answers to them; acknowledgements and control
//! frames, which no window holds back (architecture 7); probes; datagrams and then
//! symbols, as far as tokens and pacer go. Symbols of the same kind leave in batches of equal
//! length, for segmentation offload.

use std::net::SocketAddr;

use ctcp_units::{Duration, Instant, seconds};

use super::paths::OPENING_PAUSE_MAX;
use super::plan::Choice;
use super::receive::traced;
use super::{Connection, ConnectionError, PathState, Phase, close_code};
use crate::path::{Cargo, Control, Path, PathUse};
use crate::schedule::Copied;
use crate::stream::{Side, StreamControl};
use crate::trace::{TraceContent, TraceEvent};
use crate::wire::{CLEAR_HEADER_LEN, CONTROL_OVERHEAD, Flags, Frame, Header, TAG_LEN};
use crate::{Ecn, Transmit};

/// Room kept for what the receiver of blocks reports beside an ACK.
///
/// It holds [`REPORTS_MAX`](crate::wire::REPORTS_MAX) reports whatever their
/// distances: five bytes each, and 19 before them. So a report with fewer is
/// known to be complete.
const REPORT_ROOM: usize = 19 + 5 * crate::wire::REPORTS_MAX;
/// Frames per control packet at most, so that one ledger entry stays small.
const CONTROLS_MAX: usize = 32;
/// A batch never grows beyond what one UDP send can carry.
const BATCH_BYTES_MAX: usize = 65_000;

/// With challenges so far apart, four seconds have passed without an answer.
const UNANSWERED_PAUSE: Duration = seconds(4);

/// A packet with a challenge, or the answer to one.
const CHALLENGE_LEN: usize = CLEAR_HEADER_LEN + 9 + TAG_LEN;

impl Connection {
    /// The next datagrams to be sent: `out` is cleared and filled with up to
    /// `segments_max` of them, all of the same length but the last.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        segments_max: usize,
    ) -> Option<Transmit> {
        self.advance(now);
        out.clear();
        if let Some((transmit, bytes)) = self.held.take() {
            out.extend_from_slice(&bytes);
            return Some(transmit);
        }
        match self.phase {
            Phase::Hello(_) => self.transmit_hello(now, out),
            Phase::Closing { .. } => self.transmit_close(now, out),
            Phase::Open => {
                let order = self.path_order(now);
                order.iter().find_map(|index| {
                    if self.paths[index].is_blocked {
                        return None;
                    }
                    out.clear();
                    self.transmit_on(now, index, index == order.lead(), out, segments_max.max(1))
                })
            }
            _ => None,
        }
    }

    /// Says on every path that the connection ends.
    fn transmit_close(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let Phase::Closing { next_path, .. } = &mut self.phase else {
                return None;
            };
            let index = *next_path;
            let path = self.paths.get(index)?;
            *next_path += 1;
            if !path.is_validated || path.remote_id.is_none() {
                continue;
            }
            let remote = path.remote;
            let (code, reason) = core::mem::take(&mut self.close);
            self.begin(index, out);
            Frame::Close {
                code,
                reason: &reason,
            }
            .write(out);
            self.close = (code, reason);
            self.seal(now, index, out, 0, Header::Control.flags(), Cargo::AckOnly)?;
            return Some(self.single(index, remote, out));
        }
    }

    /// `is_lead`: control frames take this path.
    fn transmit_on(
        &mut self,
        now: Instant,
        index: usize,
        is_lead: bool,
        out: &mut Vec<u8>,
        segments_max: usize,
    ) -> Option<Transmit> {
        self.paths[index].remote_id?;
        let unproven = self
            .transmit_response(now, index, out)
            .or_else(|| self.transmit_challenge(now, index, out));
        if unproven.is_some() || !self.paths[index].is_validated {
            return unproven;
        }
        self.transmit_control(now, index, is_lead, out)
            .or_else(|| self.transmit_mtu_probe(now, index, out))
            .or_else(|| self.transmit_datagram(now, index, out))
            .or_else(|| self.transmit_symbols(now, index, out, segments_max))
            .or_else(|| self.transmit_ping(now, index, out))
    }

    /// A probe that found nothing better to say. It must go out all the same:
    /// the next one counts from it.
    fn transmit_ping(&mut self, now: Instant, index: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if core::mem::take(&mut self.paths[index].probes_due) == 0 {
            return None;
        }
        out.clear();
        self.begin(index, out);
        Frame::Ping.write(out);
        let flags = Header::Control.flags().with_ack_now(true);
        self.seal(now, index, out, 0, flags, Cargo::Control)?;
        Some(self.single(index, self.paths[index].remote, out))
    }

    pub(super) fn single(&self, index: usize, remote: SocketAddr, out: &[u8]) -> Transmit {
        Transmit {
            path: self.paths[index].id,
            remote,
            ecn: None,
            segment_len: out.len(),
            len: out.len(),
        }
    }

    /// Begins a packet at the end of `out`; returns where.
    pub(super) fn begin(&self, index: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.push(0);
        let id = self.paths[index].remote_id;
        out.extend_from_slice(&id.expect("nothing is sent before the id is known").0);
        out.extend_from_slice(&[0; 3]);
        start
    }

    /// Seals the packet that begins at `start` and enters it into the ledger.
    /// `None`: the keys are worn out and the connection ends.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
        start: usize,
        flags: Flags,
        cargo: Cargo,
    ) -> Option<()> {
        out.resize(out.len() + TAG_LEN, 0);
        out[start] = flags.0;
        let path = &mut self.paths[index];
        let keys = self.keys.as_mut()?;
        let number = path.next_number();
        let packet = &mut out[start..];
        let len = packet.len();
        if keys.seal_in_place(path.id, number, packet).is_err() {
            out.truncate(start);
            let code = close_code::KEYS_WORN_OUT;
            self.end(now, code, "keys worn out", ConnectionError::KeysWornOut);
            return None;
        }
        let is_marked = matches!(cargo, Cargo::Symbol { .. }) && path.marks_packets();
        path.on_sent(now, len as u16, cargo, is_marked);
        self.sent.bytes += len as u64;
        match cargo {
            Cargo::Symbol { .. } => {}
            Cargo::AckOnly
            | Cargo::Control
            | Cargo::MtuProbe(_)
            | Cargo::Datagram
            | Cargo::DatagramRepair => {
                match cargo {
                    Cargo::Datagram => self.sent.datagrams += 1,
                    Cargo::DatagramRepair => self.sent.datagram_repairs += 1,
                    _ => self.sent.control += 1,
                }
                self.trace_sent(index, number.0, len, TraceContent::Control);
            }
        }
        Some(())
    }

    fn trace_sent(&mut self, index: usize, number: u64, len: usize, content: TraceContent) {
        self.trace(&TraceEvent::Sent {
            path: self.paths[index].id,
            number,
            len,
            content,
        });
    }

    /// An answer to a challenge of the peer, to where the challenge came from.
    fn transmit_response(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let id = self.paths[index].id;
        let place = self.responses.iter().position(|entry| entry.0 == id)?;
        let (_, address, data) = self.responses.remove(place)?;
        // Proven by this answer, the path can bring a first sample of the round
        // trip.
        self.paths[index].is_ping_due |= !self.paths[index].has_rtt();
        self.transmit_unproven(now, index, address, Frame::PathResponse(data), out)
    }

    /// A challenge or an answer to one, if the bytes that came from `address`
    /// allow it.
    fn transmit_unproven(
        &mut self,
        now: Instant,
        index: usize,
        address: SocketAddr,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.paths[index].spend_unproven(address, CHALLENGE_LEN) {
            return None;
        }
        self.begin(index, out);
        frame.write(out);
        debug_assert_eq!(out.len() + TAG_LEN, CHALLENGE_LEN);
        self.seal(now, index, out, 0, Header::Control.flags(), Cargo::Control)?;
        Some(self.single(index, address, out))
    }

    /// A challenge to an address that has yet to be proven: smaller than what
    /// came from there, and a few times only.
    fn transmit_challenge(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let is_opening = self.side == Side::Client && !self.paths[index].is_validated;
        let candidate = self.paths[index].candidate.as_mut()?;
        if now < candidate.due {
            return None;
        }
        if candidate.tries_left == 0 {
            self.paths[index].candidate = None;
            return None;
        }
        candidate.due = now + candidate.pause;
        let (address, challenge) = (candidate.address, candidate.challenge);
        if is_opening {
            return self.transmit_opening(now, index, challenge, out);
        }
        candidate.tries_left -= 1;
        self.transmit_unproven(now, index, address, Frame::PathChallenge(challenge), out)
    }

    /// The first packet of a path: who we are there, how it is to be used, and a
    /// challenge. It goes out until it is answered or the path is closed.
    fn transmit_opening(
        &mut self,
        now: Instant,
        index: usize,
        challenge: [u8; 8],
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = &mut self.paths[index];
        let (id, remote, usage) = (path.id, path.remote, path.usage);
        if let Some(candidate) = &mut path.candidate {
            let before = candidate.pause;
            candidate.pause = (before * 2).min(OPENING_PAUSE_MAX);
            if before < UNANSWERED_PAUSE && candidate.pause >= UNANSWERED_PAUSE {
                self.note_unanswered(index);
            }
        }
        self.begin(index, out);
        Frame::PathId {
            path: id,
            id: self.local_path_id(id),
        }
        .write(out);
        if usage != PathUse::default() {
            Frame::PathUse {
                path: id,
                sequence: usage.sequence,
                is_backup: usage.is_backup,
                cost: usage.cost,
            }
            .write(out);
        }
        Frame::PathChallenge(challenge).write(out);
        self.seal(now, index, out, 0, Header::Control.flags(), Cargo::Control)?;
        Some(self.single(index, remote, out))
    }

    /// Acknowledgements and control frames.
    fn transmit_control(
        &mut self,
        now: Instant,
        index: usize,
        is_lead: bool,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let acked = self.path_to_acknowledge(now, index, is_lead);
        let has_controls = is_lead && (!self.controls.is_empty() || self.streams.has_control());
        let is_spared = self.is_spared(index);
        let path = &mut self.paths[index];
        let is_wanted = core::mem::take(&mut path.is_ping_wanted);
        let is_ping = core::mem::take(&mut path.is_ping_due) || is_wanted;
        let is_probe = is_ping
            || path.probes_due > 0
                && (is_spared
                    || self.sender.oldest_open().is_none()
                    || path.probes_due == 1 && path.wants_small_probe());
        if acked.is_none() && !has_controls && !is_probe {
            return None;
        }
        let start = self.begin(index, out);
        let room = self.paths[index].udp_payload_max() - CONTROL_OVERHEAD;
        // What waits is acknowledged along with the rest.
        if let Some(acked) = acked.or_else(|| self.has_unacknowledged(index)) {
            self.write_ack(now, acked, out, room);
        }
        let number = self.paths[index].next_number().0;
        let limit = start + CLEAR_HEADER_LEN + room;
        let mut count = 0;
        while is_lead && count < CONTROLS_MAX && out.len() + StreamControl::LEN_MAX <= limit {
            let Some(control) = self.next_control() else {
                break;
            };
            control.frame().write(out);
            self.paths[index].control_log.push(number, control);
            count += 1;
        }
        if is_probe && count == 0 {
            Frame::Ping.write(out);
            count += 1;
        }
        if is_probe {
            let path = &mut self.paths[index];
            path.probes_due = path.probes_due.saturating_sub(1);
        }
        if out.len() == start + CLEAR_HEADER_LEN {
            out.clear();
            return None;
        }
        let (cargo, flags) = if count > 0 {
            let flags = Header::Control.flags().with_ack_now(is_probe);
            (Cargo::Control, flags)
        } else {
            (Cargo::AckOnly, Header::Control.flags())
        };
        self.seal(now, index, out, start, flags, cargo)?;
        if is_wanted {
            let path = self.paths[index].id;
            self.trace(&TraceEvent::Ping { path, number });
        }
        Some(self.single(index, self.paths[index].remote, out))
    }

    fn has_unacknowledged(&self, index: usize) -> Option<usize> {
        self.paths[index].arrivals.due().map(|_| index)
    }

    /// The path whose arrivals are to be acknowledged on path `index` now: its
    /// own, as only that gives a round-trip sample; and, on the lead, those of
    /// paths that cannot be relied on for it.
    fn path_to_acknowledge(&self, now: Instant, index: usize, is_lead: bool) -> Option<usize> {
        let is_due = |path: &Path| path.arrivals.due().is_some_and(|due| due <= now);
        if is_due(&self.paths[index]) {
            return Some(index);
        }
        if !is_lead || self.paths.len() == 1 {
            return None;
        }
        let stuck = |path: &Path| {
            let is_unreliable = path.state() != PathState::Active || path.is_blocked;
            is_due(path) && (is_unreliable || path.remote_id.is_none())
        };
        self.paths.iter().position(stuck)
    }

    fn next_control(&mut self) -> Option<Control> {
        self.controls
            .pop_front()
            .or_else(|| self.streams.poll_control().map(Control::Stream))
    }

    fn write_ack(&mut self, now: Instant, index: usize, out: &mut Vec<u8>, room: usize) {
        let path = &mut self.paths[index];
        let ack_room = room - REPORT_ROOM;
        if path.arrivals.write_ack(now, path.id, out, ack_room) {
            Frame::write_generations(
                out,
                self.receiver.base(),
                self.receiver.window_end(),
                self.receiver.reports(),
                REPORT_ROOM,
            );
        }
    }

    /// A packet of a size that is being tried out.
    fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let size = self.paths[index].mtu.poll_probe(now)?;
        self.begin(index, out);
        Frame::Ping.write(out);
        Frame::Padding.write(out);
        out.resize(usize::from(size) - TAG_LEN, 0);
        let flags = Header::Control.flags().with_ack_now(true);
        self.seal(now, index, out, 0, flags, Cargo::MtuProbe(size))?;
        Some(self.single(index, self.paths[index].remote, out))
    }

    fn transmit_symbols(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
        segments_max: usize,
    ) -> Option<Transmit> {
        let content_max = self.content_max();
        // A path that is silent while others are not gets a ping: whatever block
        // a probe took along, would wait for it.
        let may_probe = !self.is_spared(index);
        let mut segment_len = 0;
        let mut kind = Choice::Nothing;
        let is_marked = self.paths[index].marks_packets();
        for _ in 0..segments_max {
            let path = &mut self.paths[index];
            let is_probe = may_probe && path.probes_due > u32::from(path.wants_small_probe());
            if !is_probe {
                if !path.has_token() {
                    path.is_app_limited = false;
                    break;
                }
                if !path.may_send(now) {
                    break;
                }
            }
            let choice = self.choose(now, index, content_max, is_probe);
            let same_kind = matches!(
                (kind, choice),
                (Choice::Nothing, _)
                    | (
                        Choice::Systematic | Choice::Copy(_),
                        Choice::Systematic | Choice::Copy(_)
                    )
                    | (Choice::Coded(_), Choice::Coded(_))
            );
            if choice == Choice::Nothing {
                let path = &mut self.paths[index];
                path.is_app_limited = true;
                break;
            }
            if !same_kind || self.paths[index].marks_packets() != is_marked {
                break;
            }
            kind = choice;
            let start = out.len();
            if !self.write_symbol(now, index, choice, content_max, out)? {
                break;
            }
            let path = &mut self.paths[index];
            path.probes_due = path.probes_due.saturating_sub(1);
            let len = out.len() - start;
            if segment_len == 0 {
                segment_len = len;
            }
            if len > segment_len {
                let bytes = out.split_off(start);
                self.held = Some((self.symbol_transmit(index, is_marked, len, len), bytes));
                break;
            }
            if len < segment_len || out.len() + segment_len > BATCH_BYTES_MAX {
                break;
            }
        }
        (!out.is_empty()).then(|| self.symbol_transmit(index, is_marked, segment_len, out.len()))
    }

    fn symbol_transmit(
        &self,
        index: usize,
        is_marked: bool,
        segment_len: usize,
        len: usize,
    ) -> Transmit {
        Transmit {
            path: self.paths[index].id,
            remote: self.paths[index].remote,
            ecn: is_marked.then_some(Ecn::Ect0),
            segment_len,
            len,
        }
    }

    /// Appends one sealed symbol packet. `Some(false)`: there was nothing after
    /// all; `None`: the connection has ended.
    fn write_symbol(
        &mut self,
        now: Instant,
        index: usize,
        choice: Choice,
        content_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let slot = self.paths[index].slot;
        let start = self.begin(index, out);
        let written = match choice {
            Choice::Coded(block) => self
                .sender
                .write_coded(block, slot, out)
                .map(|header| (block, header)),
            Choice::Systematic => {
                self.sender
                    .write_systematic(slot, content_max, out, &mut self.streams)
            }
            Choice::Copy(Copied { block, place }) => {
                self.copies.pop(slot);
                let header = self.sender.write_copy(block, place, slot, out);
                header.map(|header| (block, header))
            }
            Choice::Nothing => None,
        };
        let Some((block, header)) = written else {
            out.truncate(start);
            return Some(false);
        };
        match header {
            Header::Systematic { index: place, .. } => {
                self.sent.systematic += 1;
                if choice == Choice::Systematic {
                    self.copy_symbol(index, Copied { block, place });
                }
            }
            Header::Coded { .. } => self.sent.coded += 1,
            Header::Control => {}
        }
        // The last packet before a pause asks for its ACK at once.
        let flags = header.flags().with_ack_now(!self.has_symbols_to_send());
        let number = self.paths[index].next_number().0;
        self.seal(now, index, out, start, flags, Cargo::Symbol { block })?;
        self.trace_sent(index, number, out.len() - start, traced(header));
        Some(true)
    }
}

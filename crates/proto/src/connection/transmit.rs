//! Datagrams out: what leaves first, and how a packet is made.
//!
//! Order: a close; challenges and answers to them; acknowledgements and control
//! frames, which no window holds back (architecture 7); probes; symbols, as far
//! as tokens and pacer go. Symbols of the same kind leave in batches of equal
//! length, for segmentation offload.

use std::net::SocketAddr;

use ctcp_units::{Duration, Instant};

use super::{Connection, ConnectionError, Phase, close_code};
use crate::path::{Cargo, Control};
use crate::stream::StreamControl;
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

/// A packet with a challenge, or the answer to one.
const CHALLENGE_LEN: usize = CLEAR_HEADER_LEN + 9 + TAG_LEN;

/// What the next token pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// A combination of this block.
    Coded(u64),
    /// A new symbol.
    Systematic,
    /// Nothing to send, or nothing that may be sent.
    Nothing,
}

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
            Phase::Closing { is_due: true, .. } => self.transmit_close(now, out),
            Phase::Open => (0..self.paths.len()).find_map(|index| {
                out.clear();
                self.transmit_on(now, index, out, segments_max.max(1))
            }),
            _ => None,
        }
    }

    fn transmit_close(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Phase::Closing { is_due, .. } = &mut self.phase {
            *is_due = false;
        }
        let remote = self.paths[0].remote;
        let (code, reason) = core::mem::take(&mut self.close);
        self.begin(0, out);
        Frame::Close {
            code,
            reason: &reason,
        }
        .write(out);
        self.close = (code, reason);
        self.seal(now, 0, out, 0, Header::Control.flags(), Cargo::AckOnly)?;
        Some(self.single(0, remote, out))
    }

    fn transmit_on(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
        segments_max: usize,
    ) -> Option<Transmit> {
        if !self.paths[index].is_validated {
            return None;
        }
        self.transmit_response(now, index, out)
            .or_else(|| self.transmit_challenge(now, index, out))
            .or_else(|| self.transmit_control(now, index, out))
            .or_else(|| self.transmit_mtu_probe(now, index, out))
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

    fn single(&self, index: usize, remote: SocketAddr, out: &[u8]) -> Transmit {
        Transmit {
            path: self.paths[index].id,
            remote,
            ecn: None,
            segment_len: out.len(),
            len: out.len(),
        }
    }

    /// Begins a packet at the end of `out`; returns where.
    fn begin(&self, index: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.push(0);
        out.extend_from_slice(&self.paths[index].remote_id.0);
        out.extend_from_slice(&[0; 3]);
        start
    }

    /// Seals the packet that begins at `start` and enters it into the ledger.
    /// `None`: the keys are worn out and the connection ends.
    fn seal(
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
            Cargo::AckOnly | Cargo::Control | Cargo::MtuProbe(_) => self.sent.control += 1,
        }
        Some(())
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
        let pause = self.paths[index]
            .probe_timeout()
            .min(Duration::from_millis(500));
        let candidate = self.paths[index].candidate.as_mut()?;
        if now < candidate.due {
            return None;
        }
        if candidate.tries_left == 0 {
            self.paths[index].candidate = None;
            return None;
        }
        candidate.tries_left -= 1;
        candidate.due = now + pause;
        let (address, challenge) = (candidate.address, candidate.challenge);
        self.transmit_unproven(now, index, address, Frame::PathChallenge(challenge), out)
    }

    /// Acknowledgements and control frames.
    fn transmit_control(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let has_ack = self.paths[index]
            .arrivals
            .due()
            .is_some_and(|due| due <= now);
        let has_controls = !self.controls.is_empty() || self.streams.has_control();
        let path = &self.paths[index];
        let is_probe = path.probes_due > 0
            && (self.sender.oldest_open().is_none()
                || path.probes_due == 1 && path.wants_small_probe());
        if !has_ack && !has_controls && !is_probe {
            return None;
        }
        let start = self.begin(index, out);
        let room = self.paths[index].udp_payload_max() - CONTROL_OVERHEAD;
        // What waits is acknowledged along with the rest.
        if self.paths[index].arrivals.due().is_some() {
            self.write_ack(now, index, out, room);
        }
        let number = self.paths[index].next_number().0;
        let limit = start + CLEAR_HEADER_LEN + room;
        let mut count = 0;
        while count < CONTROLS_MAX && out.len() + StreamControl::LEN_MAX <= limit {
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
            self.paths[index].probes_due -= 1;
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
        Some(self.single(index, self.paths[index].remote, out))
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

    /// Whether a token would find something to pay for.
    pub(super) fn has_symbols_to_send(&self) -> bool {
        self.sender.oldest_ready().is_some()
            || self.streams.can_fill() && self.sender.has_room_for_symbol(self.content_max())
    }

    /// What the next token pays for: the oldest block that wants a packet
    /// ([MP12] Algorithm 3), else new data.
    fn choose(&mut self, content_max: usize, is_probe: bool) -> Choice {
        if let Some(block) = self.sender.oldest_ready() {
            return Choice::Coded(block);
        }
        let has_data = self.streams.can_fill();
        if has_data && self.sender.has_room_for_symbol(content_max) {
            return Choice::Systematic;
        }
        // Whatever holds data back, the open block has its final count.
        self.sender.close_open_block();
        match self.sender.oldest_ready() {
            Some(block) => Choice::Coded(block),
            // Complete, it may have made room.
            None if has_data && self.sender.has_room_for_symbol(content_max) => Choice::Systematic,
            None if is_probe => (self.sender.oldest_open()).map_or(Choice::Nothing, Choice::Coded),
            None => Choice::Nothing,
        }
    }

    fn transmit_symbols(
        &mut self,
        now: Instant,
        index: usize,
        out: &mut Vec<u8>,
        segments_max: usize,
    ) -> Option<Transmit> {
        let content_max = self.content_max();
        let mut segment_len = 0;
        let mut kind = Choice::Nothing;
        let is_marked = self.paths[index].marks_packets();
        for _ in 0..segments_max {
            let path = &mut self.paths[index];
            let is_probe = path.probes_due > u32::from(path.wants_small_probe());
            if !is_probe {
                if !path.has_token() {
                    path.is_app_limited = false;
                    break;
                }
                if !path.may_send(now) {
                    break;
                }
            }
            let choice = self.choose(content_max, is_probe);
            let same_kind = matches!(
                (kind, choice),
                (Choice::Nothing, _)
                    | (Choice::Systematic, Choice::Systematic)
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
            Choice::Nothing => None,
        };
        let Some((block, header)) = written else {
            out.truncate(start);
            return Some(false);
        };
        match header {
            Header::Systematic { .. } => self.sent.systematic += 1,
            Header::Coded { .. } => self.sent.coded += 1,
            Header::Control => {}
        }
        // The last packet before a pause asks for its ACK at once.
        let flags = header.flags().with_ack_now(!self.has_symbols_to_send());
        self.seal(now, index, out, start, flags, Cargo::Symbol { block })?;
        Some(true)
    }
}

//! A network that loses, repeats and reorders symbols and control frames.

use std::collections::BTreeMap;

use ctcp_units::{Random, SymbolId};

use crate::stream::{FILL_ROOM_MIN, StreamControl, StreamViolation, Streams};

/// Gives a control frame of the peer to `streams`.
pub(super) fn hear(streams: &mut Streams, said: StreamControl) -> Result<(), StreamViolation> {
    match said {
        StreamControl::MaxData(max) => streams.on_max_data(max),
        StreamControl::MaxStreams(max) => streams.on_max_streams(max),
        StreamControl::MaxStreamData { id, max } => streams.on_max_stream_data(id, max)?,
        StreamControl::Reset {
            id,
            code,
            final_offset,
        } => streams.on_reset_stream(id, code, final_offset)?,
        StreamControl::Stop { id, code } => streams.on_stop_sending(id, code)?,
    }
    Ok(())
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Network {
    next: SymbolId,
    /// Symbols the sender keeps, and whether they arrived.
    window: BTreeMap<SymbolId, (Vec<u8>, bool)>,
    /// Symbols that may still arrive, however late.
    underway: Vec<Vec<u8>>,
    control: Vec<StreamControl>,
}

/// Symbols underway at most.
const WINDOW: usize = 40;

impl Network {
    pub(super) fn is_empty(&self) -> bool {
        self.window.is_empty() && self.control.is_empty()
    }

    /// Sends something if there is something to send.
    pub(super) fn send(&mut self, random: &mut Random, from: &mut Streams) {
        if let Some(said) = from.poll_control() {
            let mut bytes = Vec::new();
            said.frame().write(&mut bytes);
            assert!(bytes.len() <= StreamControl::LEN_MAX);
            self.control.push(said);
        }
        if self.window.len() >= WINDOW {
            return;
        }
        let spread = if random.chance(0.5) { 60 } else { 1500 };
        let room = FILL_ROOM_MIN + random.below(spread) as usize;
        let mut content = Vec::new();
        let can_fill = from.can_fill();
        let len = from.fill_symbol(self.next, room, &mut content);
        assert_eq!(len, content.len());
        assert_eq!(can_fill, len > 0, "can_fill agrees with fill_symbol");
        assert!(len <= room);
        if len > 0 {
            self.window.insert(self.next, (content, false));
            self.next = self.next.next();
        }
    }

    /// Something happens to what is underway: at random, or nothing but good
    /// things.
    pub(super) fn step(
        &mut self,
        random: &mut Random,
        is_fair: bool,
        from: &mut Streams,
        to: &mut Streams,
    ) {
        if !self.control.is_empty() {
            let index = random.below(self.control.len() as u64) as usize;
            let said = self.control.swap_remove(index);
            let fate = if is_fair { 0 } else { random.below(4) };
            if fate < 2 {
                hear(to, said).expect("an honest peer");
            }
            match fate {
                0 => from.on_control_acked(said),
                // Arrived but thought lost, or lost.
                1 | 2 => from.on_control_lost(said),
                _ => self.control.push(said),
            }
        }
        if !self.window.is_empty() {
            let index = random.below(self.window.len() as u64) as usize;
            let fate = if is_fair { 0 } else { random.below(8) };
            let symbol = *self.window.keys().nth(index).expect("an index within");
            let (content, has_arrived) = self.window.get_mut(&symbol).expect("it was listed");
            match fate {
                0..3 => {
                    to.on_symbol(content).expect("an honest peer");
                    *has_arrived = true;
                }
                3 if !*has_arrived => {
                    // Abandoned, and perhaps only late.
                    from.requeue(content);
                    let late = core::mem::take(content);
                    *has_arrived = true;
                    self.underway.push(late);
                }
                _ => {}
            }
        }
        if !self.underway.is_empty() && random.chance(0.2) {
            let index = random.below(self.underway.len() as u64) as usize;
            if random.chance(0.3) {
                let late = self.underway.swap_remove(index);
                to.on_symbol(&late).expect("an honest peer");
            } else if random.chance(0.5) {
                to.on_symbol(&self.underway[index]).expect("an honest peer");
            }
        }
        if is_fair || random.chance(0.3) {
            while let Some(first) = self.window.first_entry()
                && first.get().1
            {
                first.remove();
            }
            let base = self.window.keys().next().copied().unwrap_or(self.next);
            from.on_symbols_complete(base);
        }
    }
}

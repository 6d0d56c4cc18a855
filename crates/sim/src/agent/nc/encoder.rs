//! The sender's coding window.

use std::collections::VecDeque;

use ctcp_gf256::Kernel;
use ctcp_units::Random;

use super::{CONTENT_LEN, Combination, ROW_LEN, SPAN, content, place};
use crate::engine::Datagram;

/// Packets passed down by TCP and not acknowledged.
#[derive(Debug)]
pub(crate) struct Encoder {
    first: u64,
    /// Content, and application bytes before the end, of each.
    window: VecDeque<([u8; CONTENT_LEN], u64)>,
    /// Application bytes passed down.
    bytes: u64,
    random: Random,
    scratch: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            first: 0,
            window: VecDeque::new(),
            bytes: 0,
            random,
            scratch: Vec::new(),
        }
    }

    /// TCP passed down packet `number`; one sent again is there already.
    pub(crate) fn push(&mut self, number: u64, len: u32) {
        if number == self.first + self.window.len() as u64 {
            self.bytes += u64::from(len);
            self.window.push_back((content(number), self.bytes));
        }
    }

    /// Everything before `number` was seen.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        while self.first < number && self.window.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// A random combination of the whole window; none of an empty one.
    pub(crate) fn combine(&mut self) -> Option<Combination> {
        let (_, bytes) = *self.window.back()?;
        self.scratch.clear();
        self.scratch.resize(ROW_LEN, 0);
        let kernel = Kernel::active();
        for (index, (packet, _)) in self.window.iter().enumerate() {
            let coefficient = 1 + self.random.below(255) as u8;
            self.scratch[place(self.first + index as u64)] = coefficient;
            kernel.mul_add(&mut self.scratch[SPAN..], coefficient, packet);
        }
        Some(Combination {
            from: self.first,
            to: self.first + self.window.len() as u64,
            bytes,
            row: Datagram::take(&mut self.scratch),
        })
    }
}

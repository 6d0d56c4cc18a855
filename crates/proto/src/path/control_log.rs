//! Control frames on their way: which packet carries what, until its fate is
//! known (architecture 7).

use std::collections::VecDeque;

use ctcp_units::{PathId, SymbolId};

use crate::stream::StreamControl;
use crate::wire::{ConnectionId, Frame};

/// A control frame that is repeated until a packet with it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// What streams have to say.
    Stream(StreamControl),
    /// A sign of life is wanted. Not repeated: the probe timeout asks again.
    Ping,
    /// Symbols given up.
    Abandon { first: SymbolId, count: u8 },
    /// Packets to us on `path` carry this id.
    PathId { path: PathId, id: ConnectionId },
    /// How the peer is to use a path.
    PathUse {
        path: PathId,
        sequence: u64,
        is_backup: bool,
        cost: u8,
    },
    /// A path is gone.
    PathClose(PathId),
    /// Ranges below are of no interest. Not repeated: the next one says more.
    AckFloor { path: PathId, floor: u64 },
}

impl Control {
    pub(crate) const fn frame(self) -> Frame<'static> {
        match self {
            Self::Stream(control) => control.frame(),
            Self::Ping => Frame::Ping,
            Self::Abandon { first, count } => Frame::Abandon { first, count },
            Self::PathId { path, id } => Frame::PathId { path, id },
            Self::PathUse {
                path,
                sequence,
                is_backup,
                cost,
            } => Frame::PathUse {
                path,
                sequence,
                is_backup,
                cost,
            },
            Self::PathClose(path) => Frame::PathClose(path),
            Self::AckFloor { path, floor } => Frame::AckFloor { path, floor },
        }
    }
}

/// Frames by the number of the packet that carries them, ascending.
#[derive(Debug, Default)]
pub(crate) struct ControlLog {
    entries: VecDeque<(u64, Option<Control>)>,
}

impl ControlLog {
    /// Packet `number` carries `control`; numbers come in order.
    pub(crate) fn push(&mut self, number: u64, control: Control) {
        self.entries.push_back((number, Some(control)));
    }

    /// Takes the oldest frame out, whatever has become of its packet.
    pub(crate) fn take_oldest(&mut self) -> Option<Control> {
        core::iter::from_fn(|| self.entries.pop_front()).find_map(|(_, control)| control)
    }

    /// Takes the frames of packet `number` out, one a call.
    pub(crate) fn take(&mut self, number: u64) -> Option<Control> {
        let start = self.entries.partition_point(|(entry, _)| *entry < number);
        let taken = self
            .entries
            .range_mut(start..)
            .take_while(|(entry, _)| *entry == number)
            .find_map(|(_, control)| control.take());
        while self.entries.front().is_some_and(|(_, c)| c.is_none()) {
            self.entries.pop_front();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_once_by_the_number_of_their_packet() {
        let mut log = ControlLog::default();
        let abandon = |n| Control::Abandon {
            first: SymbolId(n),
            count: 1,
        };
        log.push(3, abandon(1));
        log.push(5, abandon(2));
        log.push(5, abandon(3));
        log.push(9, abandon(4));
        assert_eq!(log.take(4), None);
        assert_eq!(log.take(5), Some(abandon(2)));
        assert_eq!(log.take(5), Some(abandon(3)));
        assert_eq!(log.take(5), None);
        assert_eq!(log.take_oldest(), Some(abandon(1)));
        assert_eq!(log.take(3), None);
        assert_eq!(log.take(9), Some(abandon(4)));
        assert!(log.entries.is_empty());
    }
}

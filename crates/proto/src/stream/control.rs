//! Control frames of streams to be sent: state that the peer must get to know.

use ctcp_units::StreamId;

use super::Streams;
use super::flow::{Announced, Notice};
use super::receive::ReceiveState;
use super::send::SendState;
use crate::wire::Frame;

/// What is to be said; how it stands is looked up when it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    MaxData,
    MaxStreams,
    MaxStreamData(StreamId),
    Reset(StreamId),
    Stop(StreamId),
}

impl Topic {
    pub(super) const fn stream(self) -> Option<StreamId> {
        match self {
            Self::MaxData | Self::MaxStreams => None,
            Self::MaxStreamData(id) | Self::Reset(id) | Self::Stop(id) => Some(id),
        }
    }
}

/// A control frame of a stream as the ledger of sent packets keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamControl {
    /// Credit of the connection, bytes.
    MaxData(u64),
    /// Streams the peer may open in all.
    MaxStreams(u64),
    /// Credit of a stream.
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// Offset not to be passed.
        max: u64,
    },
    /// Our sending half is given up.
    Reset {
        /// The stream.
        id: StreamId,
        /// Why.
        code: u32,
        /// Offset after the last byte that was ever sent.
        final_offset: u64,
    },
    /// We want no more.
    Stop {
        /// The stream.
        id: StreamId,
        /// Why.
        code: u32,
    },
}

impl StreamControl {
    /// Bytes that any of these takes in a packet, at most.
    pub const LEN_MAX: usize = 1 + 8 + 4 + 8;

    /// The frame to be written.
    pub const fn frame(self) -> Frame<'static> {
        match self {
            Self::MaxData(max) => Frame::MaxData(max),
            Self::MaxStreams(max) => Frame::MaxStreams(max),
            Self::MaxStreamData { id, max } => Frame::MaxStreamData { stream: id, max },
            Self::Reset {
                id,
                code,
                final_offset,
            } => Frame::ResetStream {
                stream: id,
                code,
                final_offset,
            },
            Self::Stop { id, code } => Frame::StopSending { stream: id, code },
        }
    }
}

impl Streams {
    /// Whether [`poll_control`](Self::poll_control) may have something to say.
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// The next control frame to be sent, with the newest value; at most
    /// [`StreamControl::LEN_MAX`] bytes. Whoever takes it tells what became of
    /// the packet.
    pub fn poll_control(&mut self) -> Option<StreamControl> {
        while let Some(topic) = self.control.pop_front() {
            let said = self.say(topic);
            if said.is_some() {
                return said;
            }
        }
        None
    }

    /// The frame for a topic; none if there is nothing to say any more.
    fn say(&mut self, topic: Topic) -> Option<StreamControl> {
        let send = |limit: &mut Announced| limit.is_queued().then(|| limit.send());
        match topic {
            Topic::MaxData => send(&mut self.receive_credit.announced).map(StreamControl::MaxData),
            Topic::MaxStreams => send(&mut self.max_streams).map(StreamControl::MaxStreams),
            Topic::MaxStreamData(id) => {
                let half = &mut self.streams.get_mut(&id)?.receive;
                let max = send(&mut half.credit)?;
                let is_of_use = half.state == ReceiveState::Open && half.final_offset.is_none();
                is_of_use.then_some(StreamControl::MaxStreamData { id, max })
            }
            Topic::Reset(id) => {
                let half = &mut self.streams.get_mut(&id)?.send;
                let SendState::Reset { code, .. } = half.state else {
                    return None;
                };
                half.reset.say().then_some(StreamControl::Reset {
                    id,
                    code,
                    final_offset: half.sent(),
                })
            }
            Topic::Stop(id) => {
                let half = &mut self.streams.get_mut(&id)?.receive;
                let is_said = half.stop.say();
                let ReceiveState::Stopped { code } = half.state else {
                    return None;
                };
                is_said.then_some(StreamControl::Stop { id, code })
            }
        }
    }

    /// A packet with `said` was lost: it is said again if it is still news.
    pub fn on_control_lost(&mut self, said: StreamControl) {
        let topic = match said {
            StreamControl::MaxData(max) => self
                .receive_credit
                .announced
                .on_lost(max)
                .then_some(Topic::MaxData),
            StreamControl::MaxStreams(max) => {
                self.max_streams.on_lost(max).then_some(Topic::MaxStreams)
            }
            StreamControl::MaxStreamData { id, max } => self
                .streams
                .get_mut(&id)
                .is_some_and(|stream| stream.receive.credit.on_lost(max))
                .then_some(Topic::MaxStreamData(id)),
            StreamControl::Reset { id, .. } => self
                .streams
                .get_mut(&id)
                .is_some_and(|stream| stream.send.reset.on_lost())
                .then_some(Topic::Reset(id)),
            StreamControl::Stop { id, .. } => self
                .streams
                .get_mut(&id)
                .is_some_and(|stream| stream.receive.stop.on_lost())
                .then_some(Topic::Stop(id)),
        };
        self.control.extend(topic);
    }

    /// A packet with `said` reached the peer.
    pub fn on_control_acked(&mut self, said: StreamControl) {
        match said {
            StreamControl::MaxData(max) => self.receive_credit.announced.on_acked(max),
            StreamControl::MaxStreams(max) => self.max_streams.on_acked(max),
            StreamControl::MaxStreamData { id, max } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.receive.credit.on_acked(max);
                }
            }
            StreamControl::Reset { id, .. } => self.on_reset_acked(id),
            StreamControl::Stop { id, .. } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.receive.stop = Notice::Acked;
                }
            }
        }
    }
}

//! What travels over the links of a simulation.

use std::cell::RefCell;

use crate::agent::nc::Combination;
use crate::agent::tcp::{Ack, Segment};

/// One way through the network: a list of links in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteId(pub(crate) u32);

/// A packet in the network.
#[derive(Debug, Clone)]
pub(crate) struct SimPacket {
    pub(crate) route: RouteId,
    /// Links of the route already passed.
    pub(crate) hop: u32,
    /// Place among the packets sent on the route, from 0.
    pub(crate) index: u64,
    pub(crate) payload: Payload,
}

/// What a packet carries.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    /// A client asks for a connection with this number.
    Syn(u32),
    /// The answer.
    SynAck(u32),
    /// TCP data.
    Segment(Segment),
    /// TCP acknowledgement.
    Ack(Ack),
    /// A datagram whose content does not matter.
    Filler,
    /// A combination of TCP/NC.
    Combination(Combination),
    /// A datagram of the real transport.
    Datagram(Datagram),
}

/// Bytes of a datagram. Its memory goes back to a pool when it is dropped, also
/// when a link loses it, so that a simulation allocates no memory per packet.
#[derive(Debug)]
pub(crate) struct Datagram(Vec<u8>);

/// Buffers kept for reuse per thread.
const POOL_MAX: usize = 4096;

thread_local! {
    /// Only memory is shared through it, never content: it cannot be observed.
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl Datagram {
    /// A datagram that takes the content of `bytes` and leaves it empty.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Self {
        Self(core::mem::replace(bytes, pooled()))
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Clone for Datagram {
    fn clone(&self) -> Self {
        let mut copy = pooled();
        copy.extend_from_slice(&self.0);
        Self(copy)
    }
}

/// An empty buffer.
fn pooled() -> Vec<u8> {
    let mut buffer = POOL
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| Vec::with_capacity(1600));
    buffer.clear();
    buffer
}

impl Drop for Datagram {
    fn drop(&mut self) {
        let buffer = core::mem::take(&mut self.0);
        // At the end of a thread the pool may be gone: then so is the buffer.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOL_MAX {
                pool.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_and_its_own_memory() {
        let mut bytes = b"hello".to_vec();
        let one = Datagram::take(&mut bytes);
        let mut two = one.clone();
        two.bytes_mut()[0] = b'j';
        assert_eq!((one.bytes(), two.bytes()), (&b"hello"[..], &b"jello"[..]));
        assert!(bytes.is_empty());
    }
}

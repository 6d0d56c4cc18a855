//! What an endpoint remembers of its peers' paths after a connection has ended, so
//! that the next one over a long path does not start from nothing.
//!
//! Plain data, in memory alone: a rate and a round trip for each peer and address
//! of it, for ten minutes. The controller decides what it dares to do with it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ctcp_congestion::Remembered;
use ctcp_units::{Duration, Instant, seconds};

use crate::crypto::PublicKey;

/// Paths that are remembered at most; the oldest goes first.
const PATHS_MAX: usize = 1024;
/// For how long: paths change with the hour, and addresses change hands.
const LIFE: Duration = seconds(600);

/// What a connection found out about the path to a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathMemory {
    /// Who was at its far end, proven by the handshake.
    pub peer: PublicKey,
    /// Where.
    pub address: IpAddr,
    /// What the path carried.
    pub learnt: Remembered,
}

/// The paths of an endpoint's past connections.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    paths: BTreeMap<([u8; 32], IpAddr), (Instant, Remembered)>,
}

impl Memories {
    /// Takes in what a connection found out; the newest counts.
    pub(crate) fn remember(&mut self, now: Instant, memory: &PathMemory) {
        self.paths
            .retain(|_, (at, _)| now.saturating_since(*at) < LIFE);
        let key = (*memory.peer.as_bytes(), memory.address);
        if self.paths.len() >= PATHS_MAX && !self.paths.contains_key(&key) {
            let oldest = self.paths.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.paths.remove(&oldest);
            }
        }
        self.paths.insert(key, (now, memory.learnt));
    }

    /// What is known of the path to this peer at this address.
    pub(crate) fn of(&self, now: Instant, peer: &PublicKey, address: IpAddr) -> Option<Remembered> {
        let (at, learnt) = self.paths.get(&(*peer.as_bytes(), address))?;
        (now.saturating_since(*at) < LIFE).then_some(*learnt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn memory(peer: u8, host: u32, rate: f64) -> PathMemory {
        PathMemory {
            peer: PublicKey::from_bytes([peer; 32]),
            address: Ipv4Addr::from_bits(host).into(),
            learnt: Remembered {
                packets_per_second: rate,
                rtt: seconds(1),
            },
        }
    }

    fn at(span: Duration) -> Instant {
        Instant::EPOCH + span
    }

    #[test]
    fn a_path_is_known_by_peer_and_address_for_ten_minutes() {
        let mut memories = Memories::default();
        let one = memory(1, 7, 100.0);
        memories.remember(at(seconds(5)), &one);
        let known = |now, peer: u8, host| {
            let who = memory(peer, host, 0.0);
            memories.of(at(now), &who.peer, who.address)
        };
        assert_eq!(known(seconds(600), 1, 7), Some(one.learnt));
        assert_eq!(known(seconds(605), 1, 7), None, "it is too old");
        assert_eq!(known(seconds(6), 2, 7), None, "another peer");
        assert_eq!(known(seconds(6), 1, 8), None, "another address");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut memories = Memories::default();
        for host in 0..=PATHS_MAX as u32 {
            let now = at(Duration::from_millis(u64::from(host)));
            memories.remember(now, &memory(1, host, 1.0));
        }
        assert_eq!(memories.paths.len(), PATHS_MAX);
        let first = memory(1, 0, 1.0);
        assert_eq!(
            memories.of(at(seconds(2)), &first.peer, first.address),
            None
        );
        let last = memory(1, PATHS_MAX as u32, 1.0);
        assert!(
            memories
                .of(at(seconds(2)), &last.peer, last.address)
                .is_some()
        );
    }
}

//! A link that carries bytes: what relay and router have in common.

use ctcp_link::{ConfigError, Delivered, Ecn, Link, LinkConfig, Packet};
use ctcp_units::Instant;

use crate::buffer::Buffer;

/// The bytes of one packet inside a link, and what its driver knows it by.
#[derive(Debug, Clone)]
pub(crate) struct Carried<K> {
    pub(crate) key: K,
    pub(crate) bytes: Buffer,
}

/// One direction of a link and the bytes in it.
#[derive(Debug)]
pub(crate) struct Line<K> {
    link: Link<Carried<K>>,
    /// The link has been told of this moment.
    told: Instant,
}

impl<K: Copy> Line<K> {
    pub(crate) fn new(config: LinkConfig, seed: u64, now: Instant) -> Result<Self, ConfigError> {
        Ok(Self {
            link: Link::new(config, seed, now)?,
            told: now,
        })
    }

    pub(crate) fn link(&self) -> &Link<Carried<K>> {
        &self.link
    }

    /// The link has been told of this moment and will not go back.
    pub(crate) fn told(&self) -> Instant {
        self.told
    }

    /// Lets happen what happens up to `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.told = self.told.max(now);
        self.link.advance(self.told);
    }

    pub(crate) fn reconfigure(
        &mut self,
        now: Instant,
        config: LinkConfig,
    ) -> Result<(), ConfigError> {
        self.told = self.told.max(now);
        self.link.reconfigure(self.told, config)
    }

    /// Takes in a packet that came at `at` and for which the link charges
    /// `len_bytes`.
    pub(crate) fn offer(&mut self, at: Instant, len_bytes: u32, ecn: Ecn, carried: Carried<K>) {
        self.told = self.told.max(at);
        self.link
            .send(self.told, Packet::new(len_bytes, carried).ecn(ecn));
    }

    /// The next packet due by `now`. Corruption asked for by the link is left to
    /// the caller, who knows which bytes are the packet's.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Delivered<Carried<K>>> {
        self.told = self.told.max(now);
        self.link.poll_delivery(self.told)
    }
}

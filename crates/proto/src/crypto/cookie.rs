//! The cookie of a server under load: proof that a client receives at the
//! address it sends from, at no cost in memory.
//!
//! A cookie is a MAC over address, client connection id and the present
//! two-minute period, under a secret that only the server has. The client puts
//! a second MAC on its hello, keyed by the cookie. Both a cookie of this period
//! and one of the last are good.
//!
//! The packet that brings the cookie is in turn MACed with the key that follows
//! from the server's public key, over `mac1` of the hello it answers: only who
//! saw that hello can send one. Whoever sees it can read the cookie too, but
//! that one receives at this address anyway.

use core::fmt;

use ctcp_units::{Duration, Instant, seconds};
use zeroize::Zeroizing;

use super::hello::{COOKIE_TYPE, ConnectionId, HelloId, MAC2, REPLY_HEADER_LEN};
use super::mac::{MAC_LEN, Mac, Mac1Key, is_mac, mac};
use super::secret_random::SecretRandom;

/// A cookie is good for at least this long, and at most for twice as long.
pub const COOKIE_LIFETIME: Duration = seconds(120);

/// Bytes of a cookie packet. The hello that asks for it is 29 times as long.
pub(super) const COOKIE_PACKET_LEN: usize = REPLY_HEADER_LEN + 2 * MAC_LEN;

/// What a server's cookies are made with.
pub struct CookieSecret(Zeroizing<[u8; 32]>);

impl CookieSecret {
    /// A new one, drawn from `random`.
    pub fn generate(random: &mut SecretRandom) -> Self {
        Self(Zeroizing::new(random.array()))
    }

    /// The cookie of a client in a period.
    fn cookie(&self, source: &[u8], client_id: &ConnectionId, period: u64) -> Mac {
        let parts = [b"ctcp cookie", &period.to_be_bytes()[..], client_id, source];
        mac(self.0.as_ref(), &parts)
    }

    /// The packet that brings a client its cookie.
    pub(super) fn packet(
        &self,
        key: &Mac1Key,
        source: &[u8],
        client_id: &ConnectionId,
        hello: &HelloId,
        now: Instant,
    ) -> [u8; COOKIE_PACKET_LEN] {
        let mut packet = [0; COOKIE_PACKET_LEN];
        packet[0] = COOKIE_TYPE;
        packet[1..REPLY_HEADER_LEN].copy_from_slice(client_id);
        let (body, tag) = packet.split_at_mut(REPLY_HEADER_LEN + MAC_LEN);
        body[REPLY_HEADER_LEN..].copy_from_slice(&self.cookie(source, client_id, period(now)));
        tag.copy_from_slice(&key.mac(&[body, &hello.0]));
        packet
    }

    /// Whether `mac2` of a hello (of its full length) was made with a cookie
    /// for this source.
    pub(super) fn proves(
        &self,
        source: &[u8],
        client_id: &ConnectionId,
        hello: &[u8],
        now: Instant,
    ) -> bool {
        let (body, found) = hello.split_at(MAC2.start);
        let present = period(now);
        let candidates = [Some(present), present.checked_sub(1)];
        candidates
            .into_iter()
            .flatten()
            .any(|period| is_mac(&self.cookie(source, client_id, period), &[body], found))
    }
}

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(..)")
    }
}

/// The cookie in a packet that answers the hello `hello`, if it is one.
pub(super) fn read_packet(key: &Mac1Key, hello: &HelloId, packet: &[u8]) -> Option<Mac> {
    if packet.len() != COOKIE_PACKET_LEN {
        return None;
    }
    let (body, tag) = packet.split_at(REPLY_HEADER_LEN + MAC_LEN);
    if !key.is_mac(&[body, &hello.0], tag) {
        return None;
    }
    body[REPLY_HEADER_LEN..].try_into().ok()
}

/// `mac2` of a hello whose bytes before it are `body`.
pub(super) fn proof(cookie: &Mac, body: &[u8]) -> Mac {
    mac(cookie, &[body])
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / COOKIE_LIFETIME.as_nanos() as u64
}

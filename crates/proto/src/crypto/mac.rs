//! The keyed hash of the handshake packets: BLAKE2s with a key and 16 bytes of
//! output.

use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, KeyInit, Update};
use blake2::{Blake2s256, Blake2sMac, Digest};
use subtle::ConstantTimeEq;

use super::identity::PublicKey;

/// Bytes of a MAC and of a cookie.
pub(super) const MAC_LEN: usize = 16;

/// A MAC, compared in constant time by [`is_mac`] only.
pub(super) type Mac = [u8; MAC_LEN];

/// The MAC of the parts one after the other. A part whose length varies must
/// come last or bring its length along.
pub(super) fn mac(key: &[u8], parts: &[&[u8]]) -> Mac {
    let mut state =
        Blake2sMac::<U16>::new_from_slice(key).expect("keys have 16 or 32 bytes, 32 are allowed");
    for part in parts {
        Update::update(&mut state, part);
    }
    state.finalize_fixed().into()
}

/// Whether `found` is the MAC of the parts; takes the same time either way.
pub(super) fn is_mac(key: &[u8], parts: &[&[u8]], found: &[u8]) -> bool {
    mac(key, parts).ct_eq(found).into()
}

/// The key of `mac1` and of cookie packets. It follows from the server's public
/// key: knowing that is what these MACs prove.
#[derive(Clone)]
pub(super) struct Mac1Key([u8; 32]);

impl Mac1Key {
    pub(super) fn of(server: &PublicKey) -> Self {
        let mut state = Blake2s256::new();
        Digest::update(&mut state, b"ctcp mac1");
        Digest::update(&mut state, server.as_bytes());
        Self(state.finalize().into())
    }

    pub(super) fn mac(&self, parts: &[&[u8]]) -> Mac {
        mac(&self.0, parts)
    }

    pub(super) fn is_mac(&self, parts: &[&[u8]], found: &[u8]) -> bool {
        is_mac(&self.0, parts, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hashlib.blake2s(b"abcdef", key=bytes(range(32)),
    /// digest_size=16)`.
    #[test]
    fn the_mac_is_keyed_blake2s() {
        let key: [u8; 32] = core::array::from_fn(|at| at as u8);
        let expected = [
            0xa3, 0x9f, 0xaa, 0x4a, 0x9e, 0xc3, 0x39, 0xb8, 0x95, 0x34, 0x22, 0xc2, 0xd1, 0xb8,
            0x46, 0xb4,
        ];
        assert_eq!(mac(&key, &[b"abc", b"def"]), expected);
        assert!(is_mac(&key, &[b"abcdef"], &expected));
        assert!(!is_mac(&key, &[b"abcdeg"], &expected));
        assert!(!is_mac(&key, &[b"abcdef"], &expected[..15]));
    }
}

//! One AEAD key with its IV.
//!
//! The nonce is the IV XORed with `path id:4 | packet number:8`; path ids are
//! never reused and numbers never repeat on a path, so no nonce does.

use ctcp_units::{PacketNumber, PathId};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::keys::{HEADER_LEN, TAG_LEN};
use super::schedule::Suite;

pub(super) struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

/// The tag does not fit the packet.
pub(super) struct Forged;

impl PacketKey {
    pub(super) fn new(suite: Suite, key: &[u8], iv: [u8; NONCE_LEN]) -> Self {
        let key = UnboundKey::new(suite.aead(), key).expect("the key has the suite's length");
        Self {
            key: LessSafeKey::new(key),
            iv,
        }
    }

    /// Encrypts what lies between header and tag, and writes the tag.
    pub(super) fn seal(&self, path: PathId, number: PacketNumber, packet: &mut [u8]) {
        let (header, body) = packet.split_at_mut(HEADER_LEN);
        let (text, tag) = body.split_at_mut(body.len() - TAG_LEN);
        let sealed = self
            .key
            .seal_in_place_separate_tag(self.nonce(path, number), Aad::from(&*header), text)
            .expect("a datagram is far below the cipher's length limit");
        tag.copy_from_slice(sealed.as_ref());
    }

    /// Decrypts what lies between header and tag. If that fails, it is garbage.
    pub(super) fn open(
        &self,
        path: PathId,
        number: PacketNumber,
        packet: &mut [u8],
    ) -> Result<(), Forged> {
        let (header, body) = packet.split_at_mut(HEADER_LEN);
        self.key
            .open_in_place(self.nonce(path, number), Aad::from(&*header), body)
            .map_err(|_| Forged)?;
        Ok(())
    }

    fn nonce(&self, path: PathId, number: PacketNumber) -> Nonce {
        let mut nonce = self.iv;
        let (high, low) = nonce.split_at_mut(4);
        xor(high, &path.0.to_be_bytes());
        xor(low, &number.0.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

fn xor(into: &mut [u8], from: &[u8]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into ^= from;
    }
}

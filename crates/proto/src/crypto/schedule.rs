//! From the handshake's secret to the keys of packets.
//!
//! Each direction has a traffic secret. Of each come an AEAD key and an IV, one
//! header-protection key for the life of the connection, and the traffic secret
//! of the next key phase. All are separate outputs of HKDF-Expand ([RFC5869]
//! §2.3) with SHA-256, each under its own label, laid out like the `HkdfLabel`
//! of [RFC8446] §7.1:
//!
//! ```text
//! output length:2 | label length:1 | label | context length:1 | context
//! ```

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Algorithm, CHACHA20_POLY1305};
use ring::hkdf;
use zeroize::Zeroizing;

use super::aead::PacketKey;

const TRAFFIC: &[u8] = b"ctcp traffic";
const KEY: &[u8] = b"ctcp key";
const IV: &[u8] = b"ctcp iv";
const HEADER: &[u8] = b"ctcp hp";
const UPDATE: &[u8] = b"ctcp update";

/// The cipher of a connection's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-128-GCM: fastest where the CPU has instructions for AES.
    Aes128Gcm,
    /// ChaCha20-Poly1305: fastest, and free of timing leaks, elsewhere.
    ChaCha20Poly1305,
}

impl Suite {
    /// AES if both sides have instructions for it, else ChaCha20.
    pub const fn choose(client_has_aes: bool, server_has_aes: bool) -> Self {
        if client_has_aes && server_has_aes {
            Self::Aes128Gcm
        } else {
            Self::ChaCha20Poly1305
        }
    }

    /// Its code point in the server hello.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Aes128Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    /// The suite of a code point.
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes128Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// How many packets one key may seal: [RFC9001] §6.6. The limit of
    /// ChaCha20-Poly1305 lies above the highest packet number.
    pub(super) const fn sealed_max(self) -> u64 {
        match self {
            Self::Aes128Gcm => 1 << 23,
            Self::ChaCha20Poly1305 => u64::MAX,
        }
    }

    /// How many forged packets a connection may see before it must end:
    /// [RFC9001] §6.6.
    pub(super) const fn forged_max(self) -> u64 {
        match self {
            Self::Aes128Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }

    pub(super) fn aead(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    fn header_protection(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

/// The secret of one direction in one key phase.
pub(super) struct TrafficSecret(Zeroizing<[u8; 32]>);

impl TrafficSecret {
    /// The first one: of one half of the handshake's split and of the hash of
    /// all that was said in the handshake.
    pub(super) fn of_handshake(split: &[u8; 32], handshake_hash: &[u8]) -> Self {
        Self(expand(split, TRAFFIC, handshake_hash))
    }

    /// That of the next key phase. This one cannot be computed from it.
    pub(super) fn next(&self) -> Self {
        Self(expand(&self.0, UPDATE, &[]))
    }

    /// The key of packets.
    pub(super) fn packet_key(&self, suite: Suite) -> PacketKey {
        let iv = expand(&self.0, IV, &[]);
        match suite {
            Suite::Aes128Gcm => {
                PacketKey::new(suite, expand::<16>(&self.0, KEY, &[]).as_ref(), *iv)
            }
            Suite::ChaCha20Poly1305 => {
                PacketKey::new(suite, expand::<32>(&self.0, KEY, &[]).as_ref(), *iv)
            }
        }
    }

    /// The key of packet headers; only that of the first secret is used.
    pub(super) fn header_key(&self, suite: Suite) -> HeaderProtectionKey {
        let algorithm = suite.header_protection();
        let bytes = expand::<32>(&self.0, HEADER, &[]);
        HeaderProtectionKey::new(algorithm, &bytes[..algorithm.key_len()])
            .expect("the key has the algorithm's length")
    }
}

struct Len(usize);

impl hkdf::KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(secret: &[u8; 32], label: &[u8], context: &[u8]) -> Zeroizing<[u8; N]> {
    let short = |len: usize| u8::try_from(len).expect("labels and hashes are short");
    let out_len = u16::from(short(N)).to_be_bytes();
    let (label_len, context_len) = ([short(label.len())], [short(context.len())]);
    let info = [&out_len[..], &label_len, label, &context_len, context];
    let mut out = Zeroizing::new([0; N]);
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
        .expand(&info, Len(N))
        .and_then(|okm| okm.fill(out.as_mut()))
        .expect("outputs are far below 255 hashes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [0x5A; 32];

    /// Computed with an independent implementation over Python's `hmac`.
    #[test]
    fn derived_bytes_are_pinned() {
        let first = TrafficSecret::of_handshake(&SECRET, &[0x11; 32]);
        assert_eq!(
            hex(first.0.as_ref()),
            "5f36dbb8f931d0da49949a146bd4e3455827f471b1f25a32f2c771f41f7a475e"
        );
        assert_eq!(
            hex(first.next().0.as_ref()),
            "6ccf8c21128cf9913554ce49e1f6a0b84eef0857305a218b6e0a44f248891398"
        );
        let key = expand::<16>(&SECRET, KEY, &[]);
        assert_eq!(hex(key.as_ref()), "187bdb02a7f7254566c0cf257934797e");
        let key = expand::<32>(&SECRET, KEY, &[]);
        assert_eq!(
            hex(key.as_ref()),
            "56851afbe642af5b4c1a8ec89558c04b3b3cfa147c6b9f470cf60bba082b844e"
        );
        let iv = expand::<12>(&SECRET, IV, &[]);
        assert_eq!(hex(iv.as_ref()), "e7117c3075a8e3e6858b425a");
        let header = expand::<32>(&SECRET, HEADER, &[]);
        assert_eq!(
            hex(header.as_ref()),
            "7b0d5b77f040adf7cfe9ced7d41868d27d42c42a437038bf4e02942d594e54eb"
        );
    }

    #[test]
    fn another_handshake_hash_gives_another_secret() {
        let one = TrafficSecret::of_handshake(&SECRET, &[1; 32]);
        let two = TrafficSecret::of_handshake(&SECRET, &[2; 32]);
        assert_ne!(*one.0, *two.0);
    }

    #[test]
    fn code_points_come_back() {
        for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305] {
            assert_eq!(Suite::from_code(suite.code()), Some(suite));
        }
        assert_eq!((Suite::from_code(0), Suite::from_code(3)), (None, None));
    }

    #[test]
    fn aes_is_chosen_only_if_both_sides_have_it() {
        assert_eq!(Suite::choose(true, true), Suite::Aes128Gcm);
        assert_eq!(Suite::choose(true, false), Suite::ChaCha20Poly1305);
        assert_eq!(Suite::choose(false, true), Suite::ChaCha20Poly1305);
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

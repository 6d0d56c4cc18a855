//! Handshake, keys, sealing and opening of datagrams, replay windows and the
//! cookie of a server under load.
//!
//! Nothing here reads a clock, a socket or the system's randomness: time and
//! addresses are arguments, secrets come from a [`SecretRandom`] that the
//! caller seeds. The module takes and returns plain bytes.
//!
//! # What is on the wire
//!
//! The highest bit of the first byte tells handshake packets from the others.
//! In all packets but the client hello, bytes 1 to 8 are the receiver's
//! connection id. Numbers are big-endian.
//!
//! ```text
//! protected     0 flags:7 | connection id:8 | number:3 | ciphertext | tag:16
//! client hello  0x81 | version:4 | client id:8 | noise:1155 | mac1:16 | mac2:16
//! server hello  0x82 | client id:8 | noise
//! cookie        0x83 | client id:8 | cookie:16 | mac:16
//! ```
//!
//! # The handshake
//!
//! `Noise_IK_25519_ChaChaPoly_BLAKE2s` ([NOISE] §7.5): the client knows the
//! server's static key, one round trip authenticates both, and the client's
//! key is hidden from whoever watches. Its prologue holds the name of the
//! protocol and the client hello's header, so that neither can be changed.
//!
//! A client hello always has 1200 bytes: no answer is longer than its request.
//! Before any work on the curve the server checks `mac1`, whose key is made of
//! the server's public key; whoever does not know that gets silence. Under load
//! it also wants `mac2`, which only a client that receives at its address can
//! make: see [`CookieSecret`].
//!
//! The first message can be recorded and sent again by anyone. Three things
//! follow, for whoever drives this module:
//!
//! - the [`TimestampGuard`] decides whether a hello of an allowed key is new;
//! - a hello that asks again for a connection still opening is recognised by
//!   its [`HelloId`] and answered with the same bytes;
//! - a server sends no stream data, and ends no older connection of that
//!   client, before a protected packet has proven that the client is there.
//!
//! # Packet protection
//!
//! AES-128-GCM or ChaCha20-Poly1305 with the nonce (path id, packet number) and
//! header protection as in [RFC9001] §5.4, see [`Keys`].
//!
//! # What is not wiped
//!
//! Static, ephemeral and traffic secrets are zeroed when dropped. The expanded
//! keys inside `ring` and the chaining key inside `snow` are not: neither
//! library offers it.

mod aead;
mod base64url;
mod client;
mod cookie;
mod first_numbers;
mod hello;
mod id_cipher;
mod identity;
mod keys;
mod mac;
mod noise;
mod number;
mod replay;
mod schedule;
mod secret_random;
mod server;
mod timestamp;

pub use client::{
    ClientAccepted, ClientConfig, ClientError, ClientHandshake, ClientProgress, ReplyError,
};
pub use cookie::{COOKIE_LIFETIME, CookieSecret};
pub use hello::{
    HELLO_LEN, HELLO_PAYLOAD_MAX, HandshakeKind, HelloId, PROTOCOL_VERSION, REPLY_PARAMS_MAX,
    Refusal,
};
pub use id_cipher::IdCipher;
pub use identity::{Identity, KeyTextError, PublicKey, SecretKey};
pub use keys::{HEADER_LEN, KEY_PHASE, Keys, MIN_PACKET_LEN, OpenError, Opened, TAG_LEN};
pub use keys::{SealError, UpdateError};
pub use number::{fits_truncated, recover_number};
pub use replay::{REPLAY_WINDOW, ReplayError, ReplayWindow};
pub use schedule::Suite;
pub use secret_random::SecretRandom;
pub use server::{HelloError, HelloRead, Incoming, ParamsTooLong, Responder, ServerAccepted};
pub use timestamp::{StaleTimestamp, TimestampGuard};

#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod keys_tests;
#[cfg(test)]
mod test_support;

//! The Noise library with our randomness and a stricter curve.
//!
//! Two departures from `snow`'s own resolver: random bytes come from a
//! [`SecretRandom`], and a Diffie–Hellman result of zero is an error. [NOISE]
//! §12.1 leaves that check to the application; with it nobody can force a known
//! shared secret by a point of small order.

use core::cell::Cell;

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::identity::{PublicKey, SecretKey};
use super::secret_random::SecretRandom;

/// What a Noise message of the pattern IK adds to the payload of the client's
/// message: ephemeral key, encrypted static key and its tag, payload tag.
pub(super) const FIRST_MESSAGE_OVERHEAD: usize = 32 + 48 + 16;

/// The same for the server's message: ephemeral key, payload tag.
pub(super) const SECOND_MESSAGE_OVERHEAD: usize = 32 + 16;

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";

/// The protocol's name inside the prologue.
const PROLOGUE: &[u8] = b"ctcp handshake";

/// The client's side. `header` is bound into the handshake.
pub(super) fn initiator(
    own: &SecretKey,
    server: &PublicKey,
    header: &[u8],
    random: &mut SecretRandom,
) -> HandshakeState {
    let prologue = [PROLOGUE, header].concat();
    builder(random)
        .prologue(&prologue)
        .and_then(|b| b.local_private_key(own.as_bytes()))
        .and_then(|b| b.remote_public_key(server.as_bytes()))
        .and_then(Builder::build_initiator)
        .expect("pattern, keys and resolver fit each other")
}

/// The server's side.
pub(super) fn responder(
    own: &SecretKey,
    header: &[u8],
    random: &mut SecretRandom,
) -> HandshakeState {
    let prologue = [PROLOGUE, header].concat();
    builder(random)
        .prologue(&prologue)
        .and_then(|b| b.local_private_key(own.as_bytes()))
        .and_then(Builder::build_responder)
        .expect("pattern, keys and resolver fit each other")
}

/// The two secrets of a finished handshake: client to server, server to client.
pub(super) fn split(noise: &mut HandshakeState) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>) {
    let (upstream, downstream) = noise.dangerously_get_raw_split();
    (Zeroizing::new(upstream), Zeroizing::new(downstream))
}

/// The public key of a secret one.
pub(super) fn public_of(secret: &[u8; 32]) -> [u8; 32] {
    let mut dh = StrictDh::new();
    dh.set(secret);
    dh.pubkey().try_into().expect("a point has 32 bytes")
}

fn builder<'a>(random: &mut SecretRandom) -> Builder<'a> {
    let params: NoiseParams = PATTERN.parse().expect("the pattern is known");
    let resolver = Resolver {
        random: Cell::new(Some(random.fork())),
    };
    Builder::with_resolver(params, Box::new(resolver))
}

struct Resolver {
    /// Taken by the one call of `resolve_rng`, which has only `&self`.
    random: Cell<Option<SecretRandom>>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SeededRandom(self.random.take()?)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(StrictDh::new())),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

struct SeededRandom(SecretRandom);

impl Random for SeededRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

/// Curve25519 that refuses points of small order and forgets its key.
struct StrictDh(Box<dyn Dh>);

impl StrictDh {
    fn new() -> Self {
        let inner = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("the library is built with Curve25519");
        Self(inner)
    }
}

impl Drop for StrictDh {
    fn drop(&mut self) {
        // The library does not wipe keys; overwriting them does.
        self.0.set(&[0; 32]);
    }
}

impl Dh for StrictDh {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, secret: &[u8]) {
        self.0.set(secret);
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        self.0.generate(random)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        self.0.dh(public, out)?;
        if bool::from(out[..32].ct_eq(&[0; 32])) {
            out.zeroize();
            return Err(Error::Dh);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_small_order_is_refused() {
        let mut dh = StrictDh::new();
        dh.set(&[9; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        let mut out = [0; 32];
        assert_eq!(dh.dh(&[0; 32], &mut out), Err(Error::Dh));
        assert_eq!(dh.dh(&one, &mut out), Err(Error::Dh));
        assert_eq!(dh.dh(&public_of(&[5; 32]), &mut out), Ok(()));
    }
}

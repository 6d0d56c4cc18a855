//! Static keys of both sides, and their text form.

use core::fmt;
use core::str::FromStr;

use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::base64url;
use super::noise::public_of;
use super::secret_random::SecretRandom;

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyTextError {
    /// Too short or too long: part of the key is missing, or more was copied.
    #[error(
        "a key has 43 characters, this has {found}: copy the whole key, without quotes or spaces"
    )]
    Length {
        /// Characters found.
        found: usize,
    },
    /// A character that base64 does not have. It is not shown: the text may be
    /// a secret.
    #[error(
        "character {} of the key is none of A-Z a-z 0-9 - _: copy the key again",
        index + 1
    )]
    Character {
        /// Which byte of the text, from 0.
        index: usize,
    },
    /// The last character stands for more bits than a key has.
    #[error("the last character of the key cannot stand there: a character was lost or changed")]
    LooseBits,
}

/// A static public key: who someone is. 32 bytes, a point of Curve25519.
///
/// Prints and parses as 43 characters of base64url; [`Identity::generate`]
/// makes none that begins with `-`, which a command line would take for an
/// option.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = base64url::encode(&self.0);
        f.write_str(core::str::from_utf8(&text).expect("base64 is ASCII"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        base64url::decode(text).map(Self)
    }
}

/// A static secret key. Zeroed when dropped, never printed by `Debug`,
/// compared in constant time.
#[derive(Clone)]
pub struct SecretKey(Zeroizing<[u8; 32]>);

impl SecretKey {
    /// The key of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes. Keep them where no one reads them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The text form, 43 characters of base64url, for a key file.
    pub fn to_text(&self) -> Zeroizing<String> {
        let text = Zeroizing::new(base64url::encode(&self.0));
        Zeroizing::new(
            core::str::from_utf8(text.as_ref())
                .expect("base64 is ASCII")
                .to_owned(),
        )
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        PublicKey(public_of(&self.0))
    }
}

impl PartialEq for SecretKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(other.0.as_ref()).into()
    }
}

impl Eq for SecretKey {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl FromStr for SecretKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        base64url::decode(text).map(Self::from_bytes)
    }
}

/// A secret key with its public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    secret: SecretKey,
    public: PublicKey,
}

impl Identity {
    /// A new one.
    pub fn generate(random: &mut SecretRandom) -> Self {
        loop {
            let identity = Self::from_secret(SecretKey::from_bytes(random.array()));
            // One key in 64 begins with `-`, and every command line that takes
            // it would read an option.
            if identity.public.0[0] >> 2 != 62 {
                return identity;
            }
        }
    }

    /// The identity of a known secret.
    pub fn from_secret(secret: SecretKey) -> Self {
        let public = secret.public();
        Self { secret, public }
    }

    /// The secret half.
    pub const fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// The public half.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> [u8; 32] {
        core::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
    }

    /// RFC 7748 §6.1, Alice's keys.
    #[test]
    fn the_public_key_is_that_of_the_rfc() {
        let secret = SecretKey::from_bytes(hex(
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
        ));
        let public = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        assert_eq!(secret.public().as_bytes(), &public);
    }

    #[test]
    fn text_forms_come_back() {
        let identity = Identity::generate(&mut SecretRandom::from_test_seed(4));
        let public = identity.public().to_string();
        assert_eq!(public.len(), 43);
        assert_eq!(public.parse(), Ok(*identity.public()));
        let secret = identity.secret().to_text();
        assert_eq!(secret.parse(), Ok(identity.secret().clone()));
        assert_ne!(
            secret.parse::<SecretKey>().unwrap(),
            SecretKey::from_bytes([0; 32])
        );
    }

    #[test]
    fn a_text_that_is_no_key_says_what_is_wrong() {
        let good = PublicKey::from_bytes([7; 32]).to_string();
        let parse = |text: &str| text.parse::<PublicKey>().unwrap_err();
        assert_eq!(parse(""), KeyTextError::Length { found: 0 });
        assert_eq!(parse(&good[1..]), KeyTextError::Length { found: 42 });
        let longer = format!("{good}AA");
        assert_eq!(parse(&longer), KeyTextError::Length { found: 45 });
        let spaced = format!("{} {}", &good[..5], &good[6..]);
        assert_eq!(parse(&spaced), KeyTextError::Character { index: 5 });
        let loose = format!("{}B", &good[..42]);
        assert_eq!(parse(&loose), KeyTextError::LooseBits);
        let accents = "é".repeat(43);
        assert_eq!(parse(&accents), KeyTextError::Character { index: 0 });
        assert!(parse(&spaced).to_string().contains("character 6"));
    }

    #[test]
    fn generated_keys_do_not_look_like_options() {
        let mut random = SecretRandom::from_test_seed(5);
        for _ in 0..500 {
            let text = Identity::generate(&mut random).public().to_string();
            assert!(!text.starts_with('-'), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let identity = Identity::generate(&mut SecretRandom::from_test_seed(6));
        let shown = format!("{identity:?}");
        assert!(shown.contains("SecretKey(..)"));
        assert!(!shown.contains(identity.secret().to_text().as_str()));
    }
}

//! User and password that applications must give, if set.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// One user and password, held as hashes.
#[derive(Clone)]
pub struct Credentials {
    user: [u8; 32],
    password: [u8; 32],
}

/// Why a user and password cannot be required of SOCKS applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// RFC 1929 wants 1 to 255 bytes.
    #[error("the SOCKS user has {len} bytes; 1 to 255 are possible")]
    UserLen {
        /// Bytes given.
        len: usize,
    },
    /// RFC 1929 wants 1 to 255 bytes.
    #[error("the SOCKS password has {len} bytes; 1 to 255 are possible")]
    PasswordLen {
        /// Bytes given.
        len: usize,
    },
    /// No colon parts user from password.
    #[error("SOCKS credentials are written USER:PASSWORD")]
    NoColon,
}

impl Credentials {
    /// Credentials of 1 to 255 bytes each.
    ///
    /// # Errors
    /// [`CredentialsError`] if one is too short or too long.
    pub fn new(user: &str, password: &str) -> Result<Self, CredentialsError> {
        if !(1..=255).contains(&user.len()) {
            return Err(CredentialsError::UserLen { len: user.len() });
        }
        if !(1..=255).contains(&password.len()) {
            return Err(CredentialsError::PasswordLen {
                len: password.len(),
            });
        }
        Ok(Self {
            user: hash(user.as_bytes()),
            password: hash(password.as_bytes()),
        })
    }

    /// Reads `USER:PASSWORD`; the first colon parts them.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub fn parse(text: &str) -> Result<Self, CredentialsError> {
        let (user, password) = text.split_once(':').ok_or(CredentialsError::NoColon)?;
        Self::new(user, password)
    }

    /// Whether these are the ones. Hashes of equal length are compared, so the
    /// time tells nothing about where a wrong guess differs.
    pub fn admit(&self, user: &[u8], password: &[u8]) -> bool {
        bool::from(hash(user).ct_eq(&self.user) & hash(password).ct_eq(&self.password))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_pair_is_admitted() {
        let credentials = Credentials::parse("anna:se:cret").expect("a pair");
        assert!(credentials.admit(b"anna", b"se:cret"));
        assert!(!credentials.admit(b"anna", b"se:cre"));
        assert!(!credentials.admit(b"ann", b"se:cret"));
        assert!(!credentials.admit(b"", b""));
    }

    #[test]
    fn lengths_that_socks_cannot_carry_are_refused() {
        assert!(Credentials::new(&"u".repeat(255), &"p".repeat(255)).is_ok());
        assert_eq!(
            Credentials::new(&"u".repeat(256), "p").err(),
            Some(CredentialsError::UserLen { len: 256 })
        );
        assert_eq!(
            Credentials::parse("anna:").err(),
            Some(CredentialsError::PasswordLen { len: 0 })
        );
        assert_eq!(
            Credentials::parse("anna").err(),
            Some(CredentialsError::NoColon)
        );
    }
}

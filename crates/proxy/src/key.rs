//! Public keys as text: 32 bytes, 43 characters of base64url.

use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE_NO_PAD, URL_SAFE_NO_PAD_INDIFFERENT};
use thiserror::Error;

/// A public key, X25519.
pub type Key = [u8; 32];

/// Why text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// A character that base64 does not have.
    #[error(
        "`{character}` does not occur in a key; a key is the 43 characters that `ctcp keygen` prints"
    )]
    BadCharacter {
        /// The first such character.
        character: char,
    },
    /// Not 32 bytes: cut off, or something else altogether.
    #[error("a key has 43 characters, this has {len}; was it cut off?")]
    BadLength {
        /// Characters given, padding not counted.
        len: usize,
    },
    /// 43 characters, the last of which carries bits that no key has.
    #[error("the last character of the key is wrong; was it mistyped?")]
    BadEnd,
}

/// The key as text: 43 characters of base64url without padding.
pub fn format_key(key: &Key) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// Reads a key, in the base64url or the standard alphabet, with padding or
/// without.
///
/// # Errors
/// [`KeyError`].
pub fn parse_key(text: &str) -> Result<Key, KeyError> {
    let digits = text.trim_end_matches('=');
    if let Some(character) = digits.chars().find(|&c| !is_base64(c)) {
        return Err(KeyError::BadCharacter { character });
    }
    let len = digits.len();
    if len != 43 || text.len() > 44 {
        return Err(KeyError::BadLength { len });
    }
    let bytes = decode_base64(digits).ok_or(KeyError::BadEnd)?;
    bytes.try_into().map_err(|_| KeyError::BadLength { len })
}

/// Whether the character occurs in either alphabet.
pub(crate) fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_+/".contains(c)
}

/// Decodes either alphabet, with or without padding.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let url_safe = text.replace('+', "-").replace('/', "_");
    URL_SAFE_NO_PAD_INDIFFERENT.decode(url_safe).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes whose text has both characters in which the alphabets differ.
    const KEY: Key = [0xFB; 32];

    #[test]
    fn keys_read_back_in_every_usual_form() {
        let text = format_key(&KEY);
        assert_eq!(text, "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        assert_eq!(parse_key(&text), Ok(KEY));
        assert_eq!(parse_key(&format!("{text}=")), Ok(KEY));
        let standard = text.replace('-', "+").replace('_', "/");
        assert_eq!(parse_key(&standard), Ok(KEY));
        assert_eq!(parse_key(&format!("{standard}=")), Ok(KEY));
    }

    #[test]
    fn what_is_no_key_is_told_apart() {
        let text = format_key(&KEY);
        for (text, error) in [
            (text[..42].to_owned(), KeyError::BadLength { len: 42 }),
            (format!("{text}A"), KeyError::BadLength { len: 44 }),
            (format!("{text}=="), KeyError::BadLength { len: 43 }),
            (String::new(), KeyError::BadLength { len: 0 }),
            (text.replace('s', "t"), KeyError::BadEnd),
            (
                text.replace('s', "!"),
                KeyError::BadCharacter { character: '!' },
            ),
        ] {
            assert_eq!(parse_key(&text), Err(error), "{text}");
        }
    }
}

//! Names of files: one component of a path, as bytes.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use thiserror::Error;

/// Longest name, bytes: what common file systems take.
pub const NAME_LEN_MAX: usize = 255;

/// How names of unfinished files begin and end.
const PART_PREFIX: &[u8] = b".ctcp-";
const PART_SUFFIX: &[u8] = b".part";

/// The name of a file or folder in its folder: it cannot lead anywhere else.
///
/// 1 to [`NAME_LEN_MAX`] bytes, without `/` and NUL, neither `.` nor `..`, and
/// not a name that unfinished files have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

/// Why bytes are no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    /// No bytes at all.
    #[error("a name is empty")]
    Empty,
    /// Longer than [`NAME_LEN_MAX`].
    #[error("a name has {0} bytes, {NAME_LEN_MAX} are allowed")]
    TooLong(usize),
    /// `.` or `..`.
    #[error("a name is `.` or `..`: it would lead out of its folder")]
    Dots,
    /// It holds a `/`.
    #[error("a name holds `/`: it would lead out of its folder")]
    Slash,
    /// It holds a NUL.
    #[error("a name holds a zero byte")]
    Nul,
    /// It is one that unfinished files have.
    #[error("a name is kept for unfinished files")]
    Reserved,
}

impl Name {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        match bytes {
            [] => Err(NameError::Empty),
            _ if bytes.len() > NAME_LEN_MAX => Err(NameError::TooLong(bytes.len())),
            b"." | b".." => Err(NameError::Dots),
            _ if bytes.contains(&b'/') => Err(NameError::Slash),
            _ if bytes.contains(&0) => Err(NameError::Nul),
            _ if bytes.starts_with(PART_PREFIX) && bytes.ends_with(PART_SUFFIX) => {
                Err(NameError::Reserved)
            }
            _ => Ok(Self(bytes.into())),
        }
    }

    /// The name's bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as the system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// What the file of this name is called until it is whole. Half of a hash of
    /// 16 bytes: two names of one folder will not meet by chance, and who makes
    /// them meet gains a transfer that fails its check.
    pub(crate) fn part(&self) -> String {
        let hash = blake3::hash(&self.0).to_hex();
        format!(".ctcp-{}.part", &hash[..16])
    }
}

/// Bytes of a path or a message of the peer, safe to print: control characters,
/// which could steer a terminal, are escaped, and broken UTF-8 is replaced.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for character in String::from_utf8_lossy(self.0).chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component() {
        for good in [
            "a", "..a", "...", " ", "-", "ü", "a\nb", ".ctcp-x", "x.part",
        ] {
            assert_eq!(
                Name::new(good.as_bytes()).map(|name| name.0.to_vec()),
                Ok(good.as_bytes().to_vec())
            );
        }
        for (bad, error) in [
            (&b""[..], NameError::Empty),
            (b".", NameError::Dots),
            (b"..", NameError::Dots),
            (b"a/b", NameError::Slash),
            (b"/", NameError::Slash),
            (b"a\0", NameError::Nul),
            (b".ctcp-0123456789abcdef.part", NameError::Reserved),
        ] {
            assert_eq!(Name::new(bad), Err(error));
        }
        assert!(Name::new(&[b'x'; NAME_LEN_MAX]).is_ok());
        assert_eq!(
            Name::new(&[b'x'; NAME_LEN_MAX + 1]),
            Err(NameError::TooLong(256))
        );
    }

    #[test]
    fn an_unfinished_file_has_a_name_that_no_sender_may_use() {
        let name = Name::new(&[b'x'; NAME_LEN_MAX]).expect("good");
        assert_eq!(
            Name::new(name.part().as_bytes()),
            Err(NameError::Reserved),
            "{}",
            name.part()
        );
    }

    #[test]
    fn a_name_does_not_steer_the_terminal() {
        assert_eq!(Shown(b"a\x1b[2J\xff").to_string(), "a\\u{1b}[2J\u{fffd}");
    }
}

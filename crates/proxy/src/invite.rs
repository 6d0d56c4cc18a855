//! Invites: one line that pairs a new client with a server.
//!
//! ```text
//! ctcp://TOKEN.SERVERKEY@HOST:PORT
//! ```
//!
//! The token is a secret of at least 16 random bytes, good for one enrolment
//! within 24 hours. The server keeps its hash only, in an [`InviteBook`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::allowlist::{NameError, check_name};
use crate::key::{Key, KeyError, decode_base64, format_key, is_base64, parse_key};
use crate::target::{Target, TargetError};

/// Fewest bytes of a token; guessing 128 bits is hopeless.
pub const TOKEN_LEN_MIN: usize = 16;

/// Most bytes of a token.
pub const TOKEN_LEN_MAX: usize = 64;

/// How long an invite is good for, in seconds: 24 hours.
pub const VALID_SECONDS: u64 = 24 * 60 * 60;

/// Invites outstanding at once; a person issues a handful.
pub const INVITES_MAX: usize = 1024;

const SCHEME: &str = "ctcp://";

/// The secret of an invite. Does not show itself when debugged.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl Token {
    /// The token of these random bytes; `None` unless there are
    /// [`TOKEN_LEN_MIN`] to [`TOKEN_LEN_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let fits = (TOKEN_LEN_MIN..=TOKEN_LEN_MAX).contains(&bytes.len());
        fits.then(|| Self(bytes.to_vec()))
    }

    /// The bytes, as the client shows them to the server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// What an invite says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// The secret that the server takes once.
    pub token: Token,
    /// The server's public key.
    pub server_key: Key,
    /// Where the server listens.
    pub server: Target,
}

/// Why text is no invite. No message repeats the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InviteError {
    /// It does not begin with `ctcp://`.
    #[error("not an invite: one begins with ctcp:// and is printed by `ctcp server --invite NAME`")]
    Scheme,
    /// No `@`: the server's address is missing.
    #[error("the invite has no @HOST:PORT at its end; was it cut off?")]
    NoServer,
    /// No dot between token and key.
    #[error("the invite lacks the server's key: it reads ctcp://TOKEN.SERVERKEY@HOST:PORT")]
    NoKey,
    /// The token is not base64url of 16 to 64 bytes.
    #[error("the invite's token is damaged; copy the whole line again")]
    BadToken,
    /// The key is none.
    #[error("the invite's server key is damaged: {0}")]
    BadKey(#[from] KeyError),
    /// The address is none.
    #[error("the invite's server address is damaged: {0}")]
    BadServer(#[from] TargetError),
}

impl fmt::Display for Invite {
    /// The line itself, token included: it is what a person copies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = URL_SAFE_NO_PAD.encode(&self.token.0);
        let key = format_key(&self.server_key);
        write!(f, "{SCHEME}{token}.{key}@{}", self.server)
    }
}

impl FromStr for Invite {
    type Err = InviteError;

    /// Reads an invite; white space around it and a `/` at its end are forgiven.
    fn from_str(text: &str) -> Result<Self, InviteError> {
        let text = text.trim();
        let rest = text.strip_prefix(SCHEME).ok_or(InviteError::Scheme)?;
        let (secrets, server) = rest.split_once('@').ok_or(InviteError::NoServer)?;
        let (token, key) = secrets.split_once('.').ok_or(InviteError::NoKey)?;
        let token = Some(token)
            .filter(|token| token.chars().all(is_base64))
            .and_then(decode_base64)
            .and_then(|bytes| Token::from_bytes(&bytes))
            .ok_or(InviteError::BadToken)?;
        Ok(Self {
            token,
            server_key: parse_key(key)?,
            server: server.strip_suffix('/').unwrap_or(server).parse()?,
        })
    }
}

/// The invites that a server has issued and that nobody has used yet.
///
/// Keeps hashes of tokens, so that whoever reads the book cannot enrol. Times are
/// seconds of any clock that only the caller knows, the same for all calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InviteBook {
    invites: BTreeMap<[u8; 32], Issued>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Issued {
    expires_at: u64,
    name: Option<String>,
}

/// Why an invite was not issued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IssueError {
    /// [`INVITES_MAX`] are outstanding, none of them expired.
    #[error("{INVITES_MAX} invites are outstanding; wait until some are used or expire")]
    Full,
    /// The token was issued before: the randomness is broken.
    #[error("this token was issued before; the random source repeats itself")]
    Repeated,
    /// The client's name cannot stand in an allow-list.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Why a token was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RedeemError {
    /// Never issued, used before, or expired long ago.
    #[error(
        "the invite is not known to the server: it was used before, or it is not from here; ask for a new one"
    )]
    Unknown,
    /// Its 24 hours are over.
    #[error("the invite has expired; ask for a new one")]
    Expired,
}

/// Why the text of a book does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("line {line} of the invites is damaged; delete it, and issue that invite anew")]
pub struct BookError {
    /// The line, counted from 1.
    pub line: usize,
}

impl InviteBook {
    /// Notes an invite for a client that will be called `name`; it is good until
    /// `now` + [`VALID_SECONDS`], that moment not included.
    ///
    /// # Errors
    /// [`IssueError`].
    pub fn issue(&mut self, token: &Token, name: Option<&str>, now: u64) -> Result<(), IssueError> {
        if let Some(name) = name {
            check_name(name)?;
        }
        if self.invites.len() >= INVITES_MAX {
            self.forget_expired(now);
        }
        if self.invites.len() >= INVITES_MAX {
            return Err(IssueError::Full);
        }
        match self.invites.entry(hash(&token.0)) {
            Entry::Occupied(_) => Err(IssueError::Repeated),
            Entry::Vacant(vacant) => {
                vacant.insert(Issued {
                    expires_at: now.saturating_add(VALID_SECONDS),
                    name: name.map(str::to_owned),
                });
                Ok(())
            }
        }
    }

    /// Takes a token: it is gone afterwards. Returns the name given with it.
    ///
    /// # Errors
    /// [`RedeemError`].
    pub fn redeem(&mut self, token: &[u8], now: u64) -> Result<Option<String>, RedeemError> {
        // Looking up a hash tells no one how near a guess was.
        let issued = self.invites.remove(&hash(token));
        match issued {
            None => Err(RedeemError::Unknown),
            Some(issued) if issued.expires_at <= now => Err(RedeemError::Expired),
            Some(issued) => Ok(issued.name),
        }
    }

    /// Drops what has expired.
    pub fn forget_expired(&mut self, now: u64) {
        self.invites.retain(|_, issued| issued.expires_at > now);
    }

    /// Invites outstanding, expired ones included.
    pub fn len(&self) -> usize {
        self.invites.len()
    }

    /// Whether none is outstanding.
    pub fn is_empty(&self) -> bool {
        self.invites.is_empty()
    }

    /// The book as lines `HASH EXPIRES [NAME]`, for a file that survives a restart.
    pub fn to_text(&self) -> String {
        let line = |(hash, issued): (&[u8; 32], &Issued)| {
            let name = issued.name.as_deref().unwrap_or("");
            let line = format!("{} {} {name}", format_key(hash), issued.expires_at);
            line.trim_end().to_owned() + "\n"
        };
        self.invites.iter().map(line).collect()
    }

    /// Reads what [`InviteBook::to_text`] wrote.
    ///
    /// # Errors
    /// [`BookError`] names the first line that does not read, or the first past
    /// [`INVITES_MAX`].
    pub fn from_text(text: &str) -> Result<Self, BookError> {
        let mut book = Self::default();
        for (index, line) in text.lines().enumerate() {
            let bad = BookError { line: index + 1 };
            let mut words = line.splitn(3, ' ');
            let (Some(hash), Some(expires_at)) = (words.next(), words.next()) else {
                return Err(bad);
            };
            let hash = parse_key(hash).map_err(|_| bad)?;
            let name = words.next().map(str::to_owned);
            if name
                .as_deref()
                .is_some_and(|name| check_name(name).is_err())
                || book.invites.len() >= INVITES_MAX
            {
                return Err(bad);
            }
            let expires_at = expires_at.parse().map_err(|_| bad)?;
            book.invites.insert(hash, Issued { expires_at, name });
        }
        Ok(book)
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(fill: u8) -> Token {
        Token::from_bytes(&[fill; 16]).expect("sixteen bytes")
    }

    fn invite(server: &str) -> Invite {
        Invite {
            token: token(1),
            server_key: [2; 32],
            server: server.parse().expect(server),
        }
    }

    #[test]
    fn the_text_of_an_invite_is_pinned() {
        let text = "ctcp://AQEBAQEBAQEBAQEBAQEBAQ.AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI@vpn.example:4500";
        assert_eq!(invite("vpn.example:4500").to_string(), text);
        for server in ["vpn.example:4500", "192.0.2.1:1", "[2001:db8::1]:4500"] {
            let invite = invite(server);
            assert_eq!(invite.to_string().parse(), Ok(invite.clone()));
            assert_eq!(format!(" {invite}/\n").parse(), Ok(invite));
        }
    }

    #[test]
    fn an_error_says_what_is_wrong_and_keeps_the_secret() {
        let good = invite("vpn.example:4500").to_string();
        let token = "AQEBAQEBAQEBAQEBAQEBAQ";
        for (bad, part) in [
            (good.replace("ctcp", "http"), "begins with ctcp://"),
            (good[..60].to_owned(), "cut off"),
            (good.replace('.', ""), "server's key"),
            (good.replace(token, "AQEB"), "token is damaged"),
            (
                good.replace(token, "AQEBAQEBAQEBAQEBAQEB!Q"),
                "token is damaged",
            ),
            (good.replace("AgI@", "@"), "40"),
            (good.replace(":4500", ""), "has no port"),
            (good.replace(":4500", ":0"), "1 to 65535"),
            (String::new(), "not an invite"),
        ] {
            let error = bad.parse::<Invite>().expect_err(&bad).to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("AQEB"), "{error}");
        }
        assert!(!format!("{:?}", invite("vpn.example:4500")).contains("AQEB"));
    }

    #[test]
    fn a_token_has_a_shortest_and_a_longest_length() {
        assert!(Token::from_bytes(&[0; 15]).is_none());
        assert!(Token::from_bytes(&[0; 16]).is_some());
        assert!(Token::from_bytes(&[0; 64]).is_some());
        assert!(Token::from_bytes(&[0; 65]).is_none());
    }

    #[test]
    fn a_token_is_taken_once() {
        let mut book = InviteBook::default();
        book.issue(&token(1), Some("anna"), 1000).expect("room");
        assert_eq!(
            book.redeem(token(2).as_bytes(), 1000),
            Err(RedeemError::Unknown)
        );
        assert_eq!(
            book.redeem(token(1).as_bytes(), 1000),
            Ok(Some("anna".into()))
        );
        assert_eq!(
            book.redeem(token(1).as_bytes(), 1000),
            Err(RedeemError::Unknown)
        );
    }

    #[test]
    fn a_token_is_good_for_a_day() {
        let mut book = InviteBook::default();
        for fill in [1, 2] {
            book.issue(&token(fill), None, 1000).expect("room");
        }
        let last = 1000 + VALID_SECONDS - 1;
        assert_eq!(book.redeem(token(1).as_bytes(), last), Ok(None));
        assert_eq!(
            book.redeem(token(2).as_bytes(), last + 1),
            Err(RedeemError::Expired)
        );
    }

    #[test]
    fn the_book_is_bounded_and_makes_room_of_what_expired() {
        let mut book = InviteBook::default();
        for number in 0..INVITES_MAX as u32 {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            let token = Token::from_bytes(&bytes).expect("sixteen");
            book.issue(&token, None, 0).expect("room");
        }
        let late = token(0xFF);
        assert_eq!(book.issue(&late, None, 1), Err(IssueError::Full));
        assert_eq!(book.issue(&late, None, VALID_SECONDS), Ok(()));
        assert_eq!(book.len(), 1);
        assert_eq!(book.issue(&late, None, 1), Err(IssueError::Repeated));
    }

    #[test]
    fn the_book_survives_as_text_without_its_tokens() {
        let mut book = InviteBook::default();
        book.issue(&token(1), Some("anna's laptop"), 1000)
            .expect("room");
        book.issue(&token(2), None, 1000).expect("room");
        let text = book.to_text();
        assert!(!text.contains("AQEB"));
        assert_eq!(InviteBook::from_text(&text), Ok(book));
        assert_eq!(
            InviteBook::from_text(&format!("{text}garbage\n")),
            Err(BookError { line: 3 })
        );
    }
}

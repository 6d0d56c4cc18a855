//! SOCKS4, SOCKS4a, SOCKS5 and HTTP CONNECT on one port, told apart by the first
//! byte: a negotiation as a state machine without I/O.
//!
//! [RFC1928] (SOCKS5), [RFC1929] (user and password); SOCKS4 and 4a as their
//! authors published them; [`super::http`]. Bytes go in by [`Negotiation::feed`],
//! what to do comes out of [`Negotiation::step`]. The longest message of SOCKS has
//! [`MESSAGE_LEN_MAX`] bytes, of HTTP [`HEAD_LEN_MAX`]; what is fed beyond a
//! complete request is early data of the application and comes back by
//! [`Negotiation::into_early_data`].

use std::net::{IpAddr, Ipv4Addr};

use thiserror::Error;

use super::auth::Credentials;
use super::http::{self, HEAD_LEN_MAX};
use super::reply::{Dialect, ReplyCode};
use crate::request::{self, ParseError};
use crate::target::{Host, HostError, Target};

/// Longest single message of SOCKS in bytes: SOCKS4a with user id and name of 255 bytes
/// each; RFC 1929's has one byte less.
pub const MESSAGE_LEN_MAX: usize = 8 + 256 + 256;

const METHOD_NONE: u8 = 0;
const METHOD_PASSWORD: u8 = 2;
const METHOD_NO_ACCEPTABLE: u8 = 0xFF;

const COMMAND_CONNECT: u8 = 1;
const COMMAND_ASSOCIATE: u8 = 3;

/// What the driver has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read from the application and feed what came.
    Read,
    /// Send this to the application, then step again.
    Write(Vec<u8>),
    /// The application asks for this target; answer by [`super::reply::reply`].
    Connect {
        /// In whose words to answer.
        dialect: Dialect,
        /// What it wants to reach.
        target: Target,
    },
    /// The application asks by SOCKS5 for an association of UDP.
    Associate {
        /// Where its datagrams will come from, as far as it knows: address and port
        /// may be zero.
        from: Target,
    },
    /// Send this, if anything, and close.
    Refuse {
        /// The answer in the application's dialect; empty if there is none.
        bytes: Vec<u8>,
        /// For the log.
        error: SocksError,
    },
}

/// Why a negotiation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SocksError {
    /// The first byte belongs to no dialect.
    #[error("neither SOCKS nor HTTP: the first byte is {first:#04x}")]
    NotSocks {
        /// The byte.
        first: u8,
    },
    /// An HTTP request other than CONNECT. The application should be told
    /// `socks5h://`, not `http://`.
    #[error("an HTTP request other than CONNECT: set this port as a SOCKS proxy")]
    HttpMethod,
    /// HTTP that cannot be read.
    #[error("a malformed HTTP request")]
    HttpHead,
    /// The head of an HTTP request does not end, or has too many fields.
    #[error("the head of an HTTP request is longer than 8 KiB or 64 fields")]
    HttpTooLong,
    /// CONNECT without HOST:PORT.
    #[error("an HTTP CONNECT that names no HOST:PORT")]
    HttpTarget,
    /// The application offers no method that this side accepts.
    #[error("no acceptable authentication method: user and password are required")]
    NoAcceptableMethod,
    /// User or password are wrong.
    #[error("wrong user or password")]
    WrongPassword,
    /// A version byte inside the negotiation is wrong.
    #[error("version byte {version} in the middle of a negotiation")]
    Version {
        /// The byte.
        version: u8,
    },
    /// BIND or something unknown; UDP ASSOCIATE outside SOCKS5.
    #[error("command {command} is not supported; CONNECT is, and UDP ASSOCIATE by SOCKS5")]
    Command {
        /// The command byte.
        command: u8,
    },
    /// Not IPv4, IPv6 or a name.
    #[error("address type {kind} is unknown")]
    AddressType {
        /// The type byte.
        kind: u8,
    },
    /// The name of the target is none.
    #[error("the target's name is malformed: {0}")]
    Name(HostError),
    /// A user id or name of SOCKS4 without an end.
    #[error("a field of the SOCKS4 request has no end within 255 bytes")]
    Unterminated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is known but the first byte.
    Start,
    /// SOCKS5, user and password awaited; checked only where they are required.
    Password,
    /// SOCKS5, request awaited.
    Request5,
    /// `Connect` or `Refuse` was said.
    Done,
}

/// One application's negotiation.
#[derive(Debug)]
pub struct Negotiation<'a> {
    /// Required of every application, if set. SOCKS4 is then refused, as it has
    /// no password.
    credentials: Option<&'a Credentials>,
    state: State,
    buf: Vec<u8>,
    /// Bytes of an HTTP head that were searched for its end.
    searched: usize,
}

impl<'a> Negotiation<'a> {
    /// A negotiation that asks for `credentials`, or for none.
    pub fn new(credentials: Option<&'a Credentials>) -> Self {
        Self {
            credentials,
            state: State::Start,
            buf: Vec::new(),
            searched: 0,
        }
    }

    /// Takes what the application sent.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// What to do next. While it answers [`Step::Read`], fewer than
    /// [`MESSAGE_LEN_MAX`] bytes are held, [`HEAD_LEN_MAX`] of HTTP.
    ///
    /// # Panics
    /// If called again after [`Step::Connect`], [`Step::Associate`] or
    /// [`Step::Refuse`].
    pub fn step(&mut self) -> Step {
        assert!(self.state != State::Done, "the negotiation has ended");
        let step = match self.state {
            State::Start => self.start(),
            State::Password => self.password(),
            State::Request5 | State::Done => self.request5(),
        };
        if !matches!(step, Step::Read | Step::Write(_)) {
            self.state = State::Done;
        }
        step
    }

    /// What the application sent after its request, without waiting.
    pub fn into_early_data(self) -> Vec<u8> {
        self.buf
    }

    fn start(&mut self) -> Step {
        match self.buf.first() {
            None => Step::Read,
            Some(4) => self.request4(),
            Some(5) => self.greeting5(),
            Some(first) if first.is_ascii_uppercase() => self.request_http(),
            Some(&first) => Step::Refuse {
                bytes: Vec::new(),
                error: SocksError::NotSocks { first },
            },
        }
    }

    /// `5 | n | n methods`.
    fn greeting5(&mut self) -> Step {
        let Some(methods) = self
            .buf
            .get(1)
            .and_then(|&count| self.buf.get(2..2 + usize::from(count)))
        else {
            return Step::Read;
        };
        // Where no password is required, an application that insists on sending
        // one may.
        let method = match self.credentials {
            None if methods.contains(&METHOD_NONE) => METHOD_NONE,
            _ if methods.contains(&METHOD_PASSWORD) => METHOD_PASSWORD,
            _ => METHOD_NO_ACCEPTABLE,
        };
        let len = 2 + methods.len();
        self.buf.drain(..len);
        let bytes = vec![5, method];
        self.state = match method {
            METHOD_NONE => State::Request5,
            METHOD_PASSWORD => State::Password,
            _ => {
                return Step::Refuse {
                    bytes,
                    error: SocksError::NoAcceptableMethod,
                };
            }
        };
        Step::Write(bytes)
    }

    /// `1 | len | user | len | password`, RFC 1929.
    fn password(&mut self) -> Step {
        let bytes = &self.buf;
        match bytes.first() {
            None => return Step::Read,
            Some(1) => {}
            Some(&version) => {
                return Step::Refuse {
                    bytes: vec![1, 1],
                    error: SocksError::Version { version },
                };
            }
        }
        let Some((user, user_end)) = counted(bytes, 1) else {
            return Step::Read;
        };
        let Some((password, end)) = counted(bytes, user_end) else {
            return Step::Read;
        };
        if self.credentials.is_some_and(|c| !c.admit(user, password)) {
            return Step::Refuse {
                bytes: vec![1, 1],
                error: SocksError::WrongPassword,
            };
        }
        self.buf.drain(..end);
        self.state = State::Request5;
        Step::Write(vec![1, 0])
    }

    /// `5 | command | 0 | type | address | port`.
    fn request5(&mut self) -> Step {
        let refuse = |code, error| Step::Refuse {
            bytes: super::reply::reply(Dialect::Socks5, code, None),
            error,
        };
        let Some((&version, rest)) = self.buf.split_first() else {
            return Step::Read;
        };
        if version != 5 {
            return refuse(ReplyCode::General, SocksError::Version { version });
        }
        let [command, _reserved, address @ ..] = rest else {
            return Step::Read;
        };
        // The address is read first, so that the refusal of a command is not
        // lost in the reset that unread bytes would cause.
        match request::parse_target(address) {
            Ok(None) => Step::Read,
            Ok(Some((from, len))) if *command == COMMAND_ASSOCIATE => {
                self.buf.drain(..3 + len);
                Step::Associate { from }
            }
            Ok(Some(_)) if *command != COMMAND_CONNECT => refuse(
                ReplyCode::CommandNotSupported,
                SocksError::Command { command: *command },
            ),
            Ok(Some((target, len))) => {
                self.buf.drain(..3 + len);
                Step::Connect {
                    dialect: Dialect::Socks5,
                    target,
                }
            }
            Err(ParseError::AddressType { kind }) => refuse(
                ReplyCode::AddressTypeNotSupported,
                SocksError::AddressType { kind },
            ),
            Err(ParseError::Name(e)) => refuse(ReplyCode::HostUnreachable, SocksError::Name(e)),
            Err(_) => refuse(ReplyCode::General, SocksError::Version { version }),
        }
    }

    /// `4 | command | port | address | user id … 0`, and for 4a (address
    /// 0.0.0.x, x ≠ 0) `name … 0`.
    fn request4(&mut self) -> Step {
        let refuse = |error| Step::Refuse {
            bytes: super::reply::reply(Dialect::Socks4, ReplyCode::General, None),
            error,
        };
        let Some(head) = self.buf.get(..8) else {
            return Step::Read;
        };
        let (command, port) = (head[1], u16::from_be_bytes([head[2], head[3]]));
        let address = Ipv4Addr::new(head[4], head[5], head[6], head[7]);
        let user_end = match terminated(&self.buf, 8) {
            Ok(Some(end)) => end,
            Ok(None) => return Step::Read,
            Err(error) => return refuse(error),
        };
        let is_4a = head[4..7] == [0, 0, 0] && head[7] != 0;
        let (host, end) = if is_4a {
            let end = match terminated(&self.buf, user_end) {
                Ok(Some(end)) => end,
                Ok(None) => return Step::Read,
                Err(error) => return refuse(error),
            };
            match Host::from_name(&self.buf[user_end..end - 1]) {
                Ok(host) => (host, end),
                Err(error) => return refuse(SocksError::Name(error)),
            }
        } else {
            (Host::Ip(IpAddr::V4(address)), user_end)
        };
        if command != COMMAND_CONNECT {
            return refuse(SocksError::Command { command });
        }
        if self.credentials.is_some() {
            return refuse(SocksError::NoAcceptableMethod);
        }
        self.buf.drain(..end);
        Step::Connect {
            dialect: Dialect::Socks4,
            target: Target { host, port },
        }
    }

    /// A request of HTTP, whose head ends with an empty line.
    fn request_http(&mut self) -> Step {
        let refuse = |(bytes, error)| Step::Refuse { bytes, error };
        let window = &self.buf[..self.buf.len().min(HEAD_LEN_MAX)];
        let Some(end) = http::head_end(window, self.searched) else {
            self.searched = window.len();
            return match window.len() {
                HEAD_LEN_MAX => refuse(http::too_long()),
                _ => Step::Read,
            };
        };
        match http::target(&self.buf[..end], self.credentials) {
            Ok(target) => {
                self.buf.drain(..end);
                Step::Connect {
                    dialect: Dialect::Http,
                    target,
                }
            }
            Err(refusal) => refuse(refusal),
        }
    }
}

/// The field whose length byte stands at `at`, and where it ends.
fn counted(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let len = usize::from(*bytes.get(at)?);
    let end = at + 1 + len;
    Some((bytes.get(at + 1..end)?, end))
}

/// Where the zero-terminated field that starts at `start` ends, behind its
/// zero; `None` while the zero is missing.
fn terminated(bytes: &[u8], start: usize) -> Result<Option<usize>, SocksError> {
    let field = &bytes[start..];
    match field.iter().take(256).position(|&byte| byte == 0) {
        Some(len) => Ok(Some(start + len + 1)),
        None if field.len() >= 256 => Err(SocksError::Unterminated),
        None => Ok(None),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

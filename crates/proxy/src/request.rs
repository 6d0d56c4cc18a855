//! The request that opens each tunnel stream, and its reply: parse and write,
//! no I/O.
//!
//! ```text
//! request   version:u8 = 1 | command:u8 | address | port:u16 | application data …
//!           version:u8 = 1 | 3                                  UDP
//!           version:u8 = 1 | 128 | direction:u8 | milliseconds:u32 | bytes:u64
//! reply     status:u8 = 0  | address | port:u16              | target's data …
//!           status:u8 ≠ 0  | len:u8 | reason: len bytes UTF-8, then the end
//! address   1 | 4 bytes   IPv4
//!           3 | len:u8 | len bytes   name, 1 to 255 bytes
//!           4 | 16 bytes  IPv6
//! command   1 = connect by TCP; 3 = an association for UDP ([`crate::udp`]);
//!           128 = a speed test ([`crate::speedtest`])
//! ```
//!
//! Numbers are big-endian; address types, commands and the statuses up to 8 are
//! those of SOCKS5 [RFC1928] §4–6. The application's data may follow the request
//! without waiting for the reply; that saves a round trip. A server that does
//! not know the version answers [`Status::VersionUnknown`] and reads no further.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use crate::speedtest::{Direction, Speedtest};
use crate::target::{Host, HostError, Target};

/// The version that this code writes and reads.
pub const VERSION: u8 = 1;

/// Longest request in bytes: the header, a name of 255 bytes, the port.
pub const REQUEST_LEN_MAX: usize = 2 + 2 + 255 + 2;

/// Longest reply in bytes: status, length, 255 bytes of reason.
pub const REPLY_LEN_MAX: usize = 2 + 255;

const COMMAND_CONNECT: u8 = 1;
const COMMAND_ASSOCIATE: u8 = 3;
/// Beyond what SOCKS may still define.
const COMMAND_SPEEDTEST: u8 = 128;

/// Bytes of a speed test's request.
const SPEEDTEST_LEN: usize = 2 + 1 + 4 + 8;

/// Address types of [RFC1928] §5, shared with the SOCKS parsers.
pub(crate) const ADDRESS_IPV4: u8 = 1;
pub(crate) const ADDRESS_NAME: u8 = 3;
pub(crate) const ADDRESS_IPV6: u8 = 4;

/// What the client asks of the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Connect to the target by TCP and relay.
    Connect(Target),
    /// Carry datagrams beside the stream.
    Associate,
    /// Move bytes that lead nowhere.
    Speedtest(Speedtest),
}

/// What became of a request. The number is the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Connected; the target's bytes follow.
    Ok = 0,
    /// A failure that no other status describes.
    General = 1,
    /// The server's egress policy forbids the target.
    NotAllowed = 2,
    /// No route from the server to the target's network.
    NetUnreachable = 3,
    /// No way from the server to the target's host.
    HostUnreachable = 4,
    /// The target refused the connection.
    Refused = 5,
    /// The target did not answer in time.
    TimedOut = 6,
    /// The server does not know the command.
    CommandUnknown = 7,
    /// The server does not know the address type.
    AddressTypeUnknown = 8,
    /// The name does not resolve at the server.
    NameUnknown = 9,
    /// The server is at its limit of connections.
    Busy = 10,
    /// The server does not speak this version of the request.
    VersionUnknown = 11,
    /// The request made no sense.
    Malformed = 12,
}

impl Status {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::General,
        Self::NotAllowed,
        Self::NetUnreachable,
        Self::HostUnreachable,
        Self::Refused,
        Self::TimedOut,
        Self::CommandUnknown,
        Self::AddressTypeUnknown,
        Self::NameUnknown,
        Self::Busy,
        Self::VersionUnknown,
        Self::Malformed,
    ];

    /// The status with this number; numbers of a later version read as
    /// [`Status::General`].
    pub fn from_byte(byte: u8) -> Self {
        *Self::ALL.get(usize::from(byte)).unwrap_or(&Self::General)
    }

    /// What it means, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "connected",
            Self::General => "the server failed",
            Self::NotAllowed => "the server's egress policy forbids the target",
            Self::NetUnreachable => "the server has no route to the target's network",
            Self::HostUnreachable => "the target's host is unreachable",
            Self::Refused => "the target refused the connection",
            Self::TimedOut => "the target did not answer in time",
            Self::CommandUnknown => "the server does not know the command; update it",
            Self::AddressTypeUnknown => "the server does not know the address type",
            Self::NameUnknown => "the server cannot resolve the name",
            Self::Busy => "the server is at its limit of connections",
            Self::VersionUnknown => "the server does not speak this request version; update it",
            Self::Malformed => "the server could not read the request",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Connected, from this address of the server.
    Connected(SocketAddr),
    /// Not connected.
    Failed(Failure),
}

/// A reply that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Failure {
    /// What kind of failure; never [`Status::Ok`].
    pub status: Status,
    /// More about it; may be empty. At most 255 bytes travel.
    pub reason: String,
}

impl Failure {
    /// A failure of this kind with words of its own.
    ///
    /// # Panics
    /// If `status` is [`Status::Ok`].
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        assert!(status != Status::Ok, "a failure is not a success");
        Self {
            status,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.is_empty() {
            write!(f, "{}", self.status)
        } else {
            write!(f, "{}: {}", self.status, self.reason)
        }
    }
}

/// Why bytes are no request or reply. The stream that carried them ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// A version that this code does not speak.
    #[error("request version {version}; this side speaks version 1")]
    Version {
        /// The version byte.
        version: u8,
    },
    /// A command other than connect.
    #[error("command {command} is unknown")]
    Command {
        /// The command byte.
        command: u8,
    },
    /// Neither up nor down.
    #[error("direction {direction} of a speed test is unknown")]
    Direction {
        /// The direction's byte.
        direction: u8,
    },
    /// An address type other than IPv4, IPv6 or name.
    #[error("address type {kind} is unknown")]
    AddressType {
        /// The type byte.
        kind: u8,
    },
    /// A name that is none.
    #[error("the target's name is malformed: {0}")]
    Name(HostError),
    /// A reply that carries a name where an address belongs.
    #[error("the reply carries no address")]
    ReplyAddress,
}

impl ParseError {
    /// The status with which a server answers it.
    pub fn status(self) -> Status {
        match self {
            Self::Version { .. } => Status::VersionUnknown,
            Self::Command { .. } => Status::CommandUnknown,
            Self::AddressType { .. } => Status::AddressTypeUnknown,
            Self::Name(_) | Self::ReplyAddress | Self::Direction { .. } => Status::Malformed,
        }
    }
}

/// What a parser of a growing buffer says: `None` while bytes are missing, else
/// the value and the bytes it took from the front.
pub type Parsed<T> = Option<(T, usize)>;

impl Request {
    /// Appends the request to `out`: at most [`REQUEST_LEN_MAX`] bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match self {
            Self::Connect(target) => {
                out.push(COMMAND_CONNECT);
                write_host(&target.host, out);
                out.extend(target.port.to_be_bytes());
            }
            Self::Associate => out.push(COMMAND_ASSOCIATE),
            Self::Speedtest(test) => {
                out.extend([COMMAND_SPEEDTEST, test.direction as u8]);
                let milliseconds = u32::try_from(test.time.as_millis()).unwrap_or(u32::MAX);
                out.extend(milliseconds.to_be_bytes());
                out.extend(test.bytes.to_be_bytes());
            }
        }
    }

    /// Reads a request from the front of `bytes`. Errors show as early as the
    /// bytes allow; [`REQUEST_LEN_MAX`] bytes always suffice for a verdict.
    ///
    /// # Errors
    /// [`ParseError`], each with the status to answer.
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, ParseError> {
        let Some(&version) = bytes.first() else {
            return Ok(None);
        };
        if version != VERSION {
            return Err(ParseError::Version { version });
        }
        let Some(&command) = bytes.get(1) else {
            return Ok(None);
        };
        match command {
            COMMAND_CONNECT => {
                let parsed = parse_target(&bytes[2..])?;
                Ok(parsed.map(|(target, len)| (Self::Connect(target), 2 + len)))
            }
            COMMAND_ASSOCIATE => Ok(Some((Self::Associate, 2))),
            COMMAND_SPEEDTEST => parse_speedtest(bytes),
            command => Err(ParseError::Command { command }),
        }
    }
}

impl Reply {
    /// Appends the reply to `out`: at most [`REPLY_LEN_MAX`] bytes. A longer
    /// reason is cut at a character's border.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Connected(address) => {
                out.push(Status::Ok as u8);
                write_host(&Host::Ip(address.ip()), out);
                out.extend(address.port().to_be_bytes());
            }
            Self::Failed(failure) => {
                let reason = cut_to(&failure.reason, 255);
                out.extend([failure.status as u8, reason.len() as u8]);
                out.extend(reason.as_bytes());
            }
        }
    }

    /// Reads a reply from the front of `bytes`; [`REPLY_LEN_MAX`] bytes always
    /// suffice for a verdict. Control characters in a reason are dropped, so it
    /// can be shown.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, ParseError> {
        let Some(&status) = bytes.first() else {
            return Ok(None);
        };
        if status == Status::Ok as u8 {
            return match parse_target(&bytes[1..])? {
                None => Ok(None),
                Some((Target { host, port }, len)) => match host {
                    Host::Ip(ip) => Ok(Some((Self::Connected(SocketAddr::new(ip, port)), 1 + len))),
                    Host::Name(_) => Err(ParseError::ReplyAddress),
                },
            };
        }
        let Some(reason) = bytes
            .get(1)
            .and_then(|&len| bytes.get(2..2 + usize::from(len)))
        else {
            return Ok(None);
        };
        let failure = Failure {
            status: Status::from_byte(status),
            reason: String::from_utf8_lossy(reason)
                .chars()
                .filter(|c| !c.is_control())
                .collect(),
        };
        Ok(Some((Self::Failed(failure), 2 + reason.len())))
    }
}

/// The longest prefix of `text` within `len` bytes that ends between characters.
fn cut_to(text: &str, len: usize) -> &str {
    let end = (0..=len.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

fn parse_speedtest(bytes: &[u8]) -> Result<Parsed<Request>, ParseError> {
    let direction = match bytes.get(2) {
        None => return Ok(None),
        Some(0) => Direction::Up,
        Some(1) => Direction::Down,
        Some(&direction) => return Err(ParseError::Direction { direction }),
    };
    let Some(numbers) = bytes.get(3..SPEEDTEST_LEN) else {
        return Ok(None);
    };
    let (time, count) = numbers.split_at(4);
    let time = u32::from_be_bytes(time.try_into().expect("four bytes were taken"));
    let test = Speedtest {
        direction,
        time: Duration::from_millis(time.into()),
        bytes: u64::from_be_bytes(count.try_into().expect("eight bytes were taken")),
    };
    Ok(Some((Request::Speedtest(test), SPEEDTEST_LEN)))
}

pub(crate) fn write_host(host: &Host, out: &mut Vec<u8>) {
    match host {
        Host::Ip(IpAddr::V4(address)) => {
            out.push(ADDRESS_IPV4);
            out.extend(address.octets());
        }
        Host::Ip(IpAddr::V6(address)) => {
            out.push(ADDRESS_IPV6);
            out.extend(address.octets());
        }
        Host::Name(name) => {
            let bytes = name.as_str().as_bytes();
            // A `HostName` has 1 to 255 bytes.
            out.extend([ADDRESS_NAME, bytes.len() as u8]);
            out.extend(bytes);
        }
    }
}

/// Reads `type | address | port`, the form that SOCKS5 and the tunnel share.
pub(crate) fn parse_target(bytes: &[u8]) -> Result<Parsed<Target>, ParseError> {
    let Some(&kind) = bytes.first() else {
        return Ok(None);
    };
    let (start, len) = match kind {
        ADDRESS_IPV4 => (1, 4),
        ADDRESS_IPV6 => (1, 16),
        ADDRESS_NAME => match bytes.get(1) {
            None => return Ok(None),
            Some(0) => return Err(ParseError::Name(HostError::Empty)),
            Some(&len) => (2, usize::from(len)),
        },
        kind => return Err(ParseError::AddressType { kind }),
    };
    let end = start + len;
    let (Some(address), Some(port)) = (bytes.get(start..end), bytes.get(end..end + 2)) else {
        return Ok(None);
    };
    let port = u16::from_be_bytes([port[0], port[1]]);
    let host = match kind {
        ADDRESS_NAME => Host::from_name(address).map_err(ParseError::Name)?,
        ADDRESS_IPV4 => {
            let octets: [u8; 4] = address.try_into().expect("four bytes were taken");
            Host::Ip(Ipv4Addr::from(octets).into())
        }
        _ => {
            let octets: [u8; 16] = address.try_into().expect("sixteen bytes were taken");
            Host::Ip(Ipv6Addr::from(octets).into())
        }
    };
    Ok(Some((Target { host, port }, end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;

    fn target(text: &str) -> Target {
        text.parse().expect(text)
    }

    fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// The wire format: changing any of these needs a new version.
    #[test]
    fn the_bytes_of_requests_are_pinned() {
        let golden: [(&str, &[u8]); 3] = [
            ("192.0.2.7:80", b"\x01\x01\x01\xC0\x00\x02\x07\x00\x50"),
            ("a.example:443", b"\x01\x01\x03\x09a.example\x01\xBB"),
            (
                "[2001:db8::1]:22",
                b"\x01\x01\x04\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16",
            ),
        ];
        for (text, bytes) in golden {
            let request = Request::Connect(target(text));
            assert_eq!(written(|out| request.write(out)), bytes, "{text}");
            assert_eq!(Request::parse(bytes), Ok(Some((request, bytes.len()))));
        }
    }

    #[test]
    fn the_bytes_of_other_requests_are_pinned() {
        let test = Speedtest {
            direction: Direction::Down,
            time: Duration::from_millis(10_000),
            bytes: 1 << 32,
        };
        let golden: [(Request, &[u8]); 2] = [
            (Request::Associate, b"\x01\x03"),
            (
                Request::Speedtest(test),
                b"\x01\x80\x01\0\0\x27\x10\0\0\0\x01\0\0\0\0",
            ),
        ];
        for (request, bytes) in golden {
            assert_eq!(written(|out| request.write(out)), bytes);
            for end in 0..bytes.len() {
                assert_eq!(Request::parse(&bytes[..end]), Ok(None));
            }
            assert_eq!(Request::parse(bytes), Ok(Some((request, bytes.len()))));
        }
        let error = Request::parse(b"\x01\x80\x02");
        assert_eq!(error, Err(ParseError::Direction { direction: 2 }));
    }

    #[test]
    fn the_bytes_of_replies_are_pinned() {
        let connected = Reply::Connected("192.0.2.1:5000".parse().expect("literal"));
        let refused = Reply::Failed(Failure::new(Status::Refused, "no"));
        let golden: [(Reply, &[u8]); 2] = [
            (connected, b"\x00\x01\xC0\x00\x02\x01\x13\x88"),
            (refused, b"\x05\x02no"),
        ];
        for (reply, bytes) in golden {
            assert_eq!(written(|out| reply.write(out)), bytes);
            assert_eq!(Reply::parse(bytes), Ok(Some((reply, bytes.len()))));
        }
        let numbers: Vec<u8> = Status::ALL.iter().map(|&status| status as u8).collect();
        assert_eq!(numbers, (0..13).collect::<Vec<u8>>());
    }

    #[test]
    fn each_prefix_asks_for_more_and_what_follows_is_left_alone() {
        for text in ["192.0.2.7:80", "a.example:443", "[2001:db8::1]:22"] {
            let request = Request::Connect(target(text));
            let mut bytes = written(|out| request.write(out));
            let len = bytes.len();
            for end in 0..len {
                assert_eq!(Request::parse(&bytes[..end]), Ok(None), "{text} at {end}");
            }
            bytes.extend(b"GET / HTTP/1.1");
            assert_eq!(Request::parse(&bytes), Ok(Some((request, len))));
        }
        let reply = Reply::Failed(Failure::new(Status::TimedOut, "slow"));
        let bytes = written(|out| reply.write(out));
        for end in 0..bytes.len() {
            assert_eq!(Reply::parse(&bytes[..end]), Ok(None));
        }
    }

    #[test]
    fn a_wrong_byte_is_told_at_once_with_its_status() {
        for (bytes, status) in [
            (&b"\x02"[..], Status::VersionUnknown),
            (b"\x01\x02", Status::CommandUnknown),
            (b"\x01\x01\x02", Status::AddressTypeUnknown),
            (b"\x01\x01\x03\x00", Status::Malformed),
            (b"\x01\x01\x03\x01 \x00\x50", Status::Malformed),
        ] {
            let error = Request::parse(bytes).expect_err("malformed");
            assert_eq!(error.status(), status);
        }
        assert_eq!(
            Reply::parse(b"\x00\x03\x01a\x00\x50"),
            Err(ParseError::ReplyAddress)
        );
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reply = Reply::Failed(Failure::new(Status::General, "ä".repeat(200)));
        let bytes = written(|out| reply.write(out));
        assert!(bytes.len() <= REPLY_LEN_MAX);
        let Ok(Some((Reply::Failed(failure), len))) = Reply::parse(&bytes) else {
            panic!("a failure");
        };
        assert_eq!((failure.reason, len), ("ä".repeat(127), bytes.len()));
    }

    #[test]
    fn a_reason_cannot_write_to_the_terminal() {
        let Ok(Some((Reply::Failed(failure), _))) = Reply::parse(b"\x01\x06\x1b[31m\n") else {
            panic!("a failure");
        };
        assert_eq!(failure.reason, "[31m");
    }

    #[test]
    fn a_status_of_the_future_is_a_general_failure() {
        let Ok(Some((Reply::Failed(failure), 2))) = Reply::parse(b"\xC8\x00") else {
            panic!("a failure");
        };
        assert_eq!(failure.status, Status::General);
    }

    #[test]
    fn random_bytes_get_a_verdict_within_the_longest_message() {
        let seed = crate::test_seed();
        let mut random = Random::from_seed(seed);
        for _ in 0..20_000 {
            let mut bytes = vec![0; REQUEST_LEN_MAX];
            random.fill(&mut bytes);
            bytes[0] = VERSION;
            bytes[1] = COMMAND_CONNECT;
            bytes[2] = (random.below(6)) as u8;
            assert_ne!(Request::parse(&bytes), Ok(None), "seed {seed}");
            bytes[0] = random.below(14) as u8;
            assert_ne!(Reply::parse(&bytes), Ok(None), "seed {seed}");
        }
    }
}

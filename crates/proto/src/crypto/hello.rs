//! Layouts of the handshake packets and of what is encrypted in them.
//!
//! ```text
//! client hello, encrypted   timestamp:8 | flags:1 | params length:2 | params
//!                           | invite length:2 | invite | zeros
//! server hello, encrypted   0 | suite:1 | server connection id:8 | params
//!                     or    reason:1 | detail:8
//! ```
//!
//! Bit 0 of the flags: the client has instructions for AES. The zeros fill the
//! hello to its fixed length and are not looked at.

use core::ops::Range;

use thiserror::Error;

use super::mac::MAC_LEN;
use super::noise::{FIRST_MESSAGE_OVERHEAD, SECOND_MESSAGE_OVERHEAD};
use super::schedule::Suite;

/// The version of the protocol, the second field of a client hello.
pub const PROTOCOL_VERSION: u32 = 1;

/// Bytes of a client hello, always. No answer to it is longer, and it fits
/// every path that carries IPv6.
pub const HELLO_LEN: usize = 1200;

/// Bytes that params and invite of a client hello may have together.
pub const HELLO_PAYLOAD_MAX: usize = FIRST_PAYLOAD_LEN - FIRST_FIXED_LEN;

/// Bytes that the params of a server hello may have.
pub const REPLY_PARAMS_MAX: usize =
    HELLO_LEN - REPLY_HEADER_LEN - SECOND_MESSAGE_OVERHEAD - ACCEPTED_FIXED_LEN;

pub(super) const CLIENT_HELLO_TYPE: u8 = 0x81;
pub(super) const SERVER_HELLO_TYPE: u8 = 0x82;
pub(super) const COOKIE_TYPE: u8 = 0x83;

/// Type, version and connection id of a client hello.
pub(super) const HELLO_HEADER_LEN: usize = 13;
/// Type and connection id of an answer.
pub(super) const REPLY_HEADER_LEN: usize = 9;

/// Where the parts of a client hello stand.
pub(super) const NOISE: Range<usize> = HELLO_HEADER_LEN..MAC1.start;
pub(super) const MAC1: Range<usize> = MAC2.start - MAC_LEN..MAC2.start;
pub(super) const MAC2: Range<usize> = HELLO_LEN - MAC_LEN..HELLO_LEN;

/// Bytes encrypted in a client hello.
pub(super) const FIRST_PAYLOAD_LEN: usize = NOISE.end - NOISE.start - FIRST_MESSAGE_OVERHEAD;
const FIRST_FIXED_LEN: usize = 8 + 1 + 2 + 2;
const ACCEPTED_FIXED_LEN: usize = 1 + 1 + 8;

const ACCEPTED: u8 = 0;
const HAS_AES: u8 = 1;

/// A connection id, as plain bytes.
pub(super) type ConnectionId = [u8; 8];

/// What kind of handshake packet a datagram says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeKind {
    /// From a client that opens a connection.
    ClientHello,
    /// A server's answer.
    ServerHello,
    /// A cookie from a server under load.
    Cookie,
}

impl HandshakeKind {
    /// The kind that the first byte names, `None` if it is a protected packet
    /// or nothing known. Nothing is verified.
    pub const fn of(packet: &[u8]) -> Option<Self> {
        match packet.first() {
            Some(&CLIENT_HELLO_TYPE) => Some(Self::ClientHello),
            Some(&SERVER_HELLO_TYPE) => Some(Self::ServerHello),
            Some(&COOKIE_TYPE) => Some(Self::Cookie),
            _ => None,
        }
    }
}

/// What tells one hello from every other: its `mac1`. A client that asks again
/// sends the same hello, whether it has a cookie by then or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HelloId(pub(super) [u8; MAC_LEN]);

impl HelloId {
    pub(super) fn of(hello: &[u8; HELLO_LEN]) -> Self {
        Self(hello[MAC1].try_into().expect("a MAC has its length"))
    }
}

/// Why a server does not want a client. Encrypted, so that only this client
/// learns it, and authentic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The client's key is not on the server's list.
    #[error("the server does not know this key: have its operator add it, or use an invite")]
    NotAllowed,
    /// The invite is unknown, used up or too old.
    #[error("the invite is unknown, used or expired: ask for a new one")]
    BadInvite,
    /// The server has as many connections as it may.
    #[error("the server has no room for another connection: try again later")]
    Busy,
    /// The hello's timestamp is not above the last one of this key.
    #[error("the clock went back since the last connection: the next hello must exceed {last}")]
    Stale {
        /// The timestamp to exceed.
        last: u64,
    },
    /// A reason this version does not know.
    #[error("the server refused for a reason unknown to this version (code {0})")]
    Other(u8),
}

impl Refusal {
    fn to_wire(self) -> (u8, u64) {
        match self {
            Self::NotAllowed => (1, 0),
            Self::BadInvite => (2, 0),
            Self::Busy => (3, 0),
            Self::Stale { last } => (4, last),
            // 0 would read as acceptance.
            Self::Other(code) => (code.max(5), 0),
        }
    }

    fn from_wire(code: u8, detail: u64) -> Self {
        match code {
            1 => Self::NotAllowed,
            2 => Self::BadInvite,
            3 => Self::Busy,
            4 => Self::Stale { last: detail },
            code => Self::Other(code),
        }
    }
}

/// The header of a client hello.
pub(super) fn hello_header(client_id: &ConnectionId) -> [u8; HELLO_HEADER_LEN] {
    let mut header = [0; HELLO_HEADER_LEN];
    header[0] = CLIENT_HELLO_TYPE;
    header[1..5].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    header[5..].copy_from_slice(client_id);
    header
}

/// The header of a server hello.
pub(super) fn reply_header(client_id: &ConnectionId) -> [u8; REPLY_HEADER_LEN] {
    let mut header = [0; REPLY_HEADER_LEN];
    header[0] = SERVER_HELLO_TYPE;
    header[1..].copy_from_slice(client_id);
    header
}

/// What a client hello carries encrypted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FirstPayload<'a> {
    pub(super) timestamp: u64,
    pub(super) has_aes: bool,
    pub(super) params: &'a [u8],
    pub(super) invite: &'a [u8],
}

impl<'a> FirstPayload<'a> {
    /// The bytes; `None` if params and invite exceed [`HELLO_PAYLOAD_MAX`].
    pub(super) fn write(&self) -> Option<[u8; FIRST_PAYLOAD_LEN]> {
        let mut out = [0; FIRST_PAYLOAD_LEN];
        let mut rest = &mut out[..];
        put(&mut rest, &self.timestamp.to_be_bytes())?;
        put(&mut rest, &[if self.has_aes { HAS_AES } else { 0 }])?;
        for part in [self.params, self.invite] {
            put(&mut rest, &u16::try_from(part.len()).ok()?.to_be_bytes())?;
            put(&mut rest, part)?;
        }
        Some(out)
    }

    /// Reads them back; `None` if they end inside a field.
    pub(super) fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let timestamp = u64::from_be_bytes(take(&mut bytes)?);
        let [flags] = take(&mut bytes)?;
        Some(Self {
            timestamp,
            has_aes: flags & HAS_AES != 0,
            params: take_part(&mut bytes)?,
            invite: take_part(&mut bytes)?,
        })
    }
}

/// What a server hello carries encrypted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SecondPayload<'a> {
    Accepted {
        suite: Suite,
        server_id: ConnectionId,
        params: &'a [u8],
    },
    Refused(Refusal),
}

impl<'a> SecondPayload<'a> {
    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            Self::Accepted {
                suite,
                server_id,
                params,
            } => [&[ACCEPTED, suite.code()], &server_id[..], params].concat(),
            Self::Refused(refusal) => {
                let (code, detail) = refusal.to_wire();
                [&[code], &detail.to_be_bytes()[..]].concat()
            }
        }
    }

    pub(super) fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        match take(&mut bytes)? {
            [ACCEPTED] => {
                let [suite] = take(&mut bytes)?;
                Some(Self::Accepted {
                    suite: Suite::from_code(suite)?,
                    server_id: take(&mut bytes)?,
                    params: bytes,
                })
            }
            [code] => {
                let detail = u64::from_be_bytes(take(&mut bytes)?);
                Some(Self::Refused(Refusal::from_wire(code, detail)))
            }
        }
    }
}

fn put(rest: &mut &mut [u8], bytes: &[u8]) -> Option<()> {
    let (head, tail) = core::mem::take(rest).split_at_mut_checked(bytes.len())?;
    head.copy_from_slice(bytes);
    *rest = tail;
    Some(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk()?;
    *bytes = tail;
    Some(*head)
}

fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_be_bytes(take(bytes)?));
    let (head, tail) = bytes.split_at_checked(len)?;
    *bytes = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_hello_fill_it() {
        assert_eq!((NOISE, MAC1, MAC2), (13..1168, 1168..1184, 1184..1200));
        assert_eq!((HELLO_PAYLOAD_MAX, REPLY_PARAMS_MAX), (1046, 1133));
    }

    #[test]
    fn a_first_payload_comes_back_and_its_limit_is_exact() {
        let bytes = [7; HELLO_PAYLOAD_MAX];
        let mut payload = FirstPayload {
            timestamp: 0x0102_0304_0506_0708,
            has_aes: true,
            params: &bytes[..1000],
            invite: &bytes[1000..],
        };
        let written = payload.write().unwrap();
        assert_eq!(FirstPayload::parse(&written), Some(payload));
        payload = FirstPayload {
            timestamp: 0,
            has_aes: false,
            params: &bytes,
            invite: &[1],
        };
        assert_eq!(payload.write(), None);
    }

    #[test]
    fn a_truncated_payload_is_not_one() {
        let payload = FirstPayload {
            timestamp: 5,
            has_aes: false,
            params: b"params",
            invite: b"invite",
        };
        let written = payload.write().unwrap();
        let needed = FIRST_FIXED_LEN + 12;
        for len in 0..needed {
            assert_eq!(FirstPayload::parse(&written[..len]), None, "{len} bytes");
        }
        assert!(FirstPayload::parse(&written[..needed]).is_some());
        let accepted = SecondPayload::Accepted {
            suite: Suite::Aes128Gcm,
            server_id: [3; 8],
            params: &[],
        };
        let written = accepted.write();
        for len in 0..written.len() {
            assert_eq!(SecondPayload::parse(&written[..len]), None, "{len} bytes");
        }
        assert_eq!(SecondPayload::parse(&written), Some(accepted));
    }

    #[test]
    fn refusals_come_back() {
        let stale = Refusal::Stale { last: u64::MAX };
        for refusal in [
            Refusal::NotAllowed,
            Refusal::BadInvite,
            Refusal::Busy,
            stale,
            Refusal::Other(200),
        ] {
            let written = SecondPayload::Refused(refusal).write();
            assert_eq!(written.len(), 9);
            let parsed = SecondPayload::parse(&written);
            assert_eq!(parsed, Some(SecondPayload::Refused(refusal)));
        }
        let never_acceptance = SecondPayload::Refused(Refusal::Other(0)).write();
        assert_ne!(never_acceptance[0], ACCEPTED);
    }
}

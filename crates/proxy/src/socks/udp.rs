//! The header in front of every datagram between an application and the proxy
//! [RFC1928] §7: parse and write, no I/O.
//!
//! ```text
//! reserved:u16 = 0 | fragment:u8 = 0 | type | address | port:u16 | data
//! ```
//!
//! Fragments are refused, as the RFC allows.

use std::net::SocketAddr;

use thiserror::Error;

use crate::request::{ParseError, parse_target, write_host};
use crate::target::{Host, Target};

/// Bytes before the address.
pub const PREFIX_LEN: usize = 3;

/// Why a datagram is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UdpError {
    /// It ends inside its header.
    #[error("a datagram of {len} bytes ends inside its header")]
    Truncated {
        /// Bytes there were.
        len: usize,
    },
    /// A part of a datagram.
    #[error("fragment {number}: fragments are not supported")]
    Fragment {
        /// Its number.
        number: u8,
    },
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] ParseError),
}

/// Where an application's datagram is to go, and what follows the two reserved bytes
/// and the fragment number: address and data, the form in which it travels on.
///
/// # Errors
/// [`UdpError`].
pub fn from_application(bytes: &[u8]) -> Result<&[u8], UdpError> {
    let truncated = UdpError::Truncated { len: bytes.len() };
    let (prefix, addressed) = bytes.split_at_checked(PREFIX_LEN).ok_or(truncated)?;
    if prefix[2] != 0 {
        return Err(UdpError::Fragment { number: prefix[2] });
    }
    addressed_data(addressed)?;
    Ok(addressed)
}

/// Target and data of `type | address | port | data`.
///
/// # Errors
/// [`UdpError`].
pub fn addressed_data(bytes: &[u8]) -> Result<(Target, &[u8]), UdpError> {
    match parse_target(bytes)? {
        Some((target, len)) => Ok((target, &bytes[len..])),
        None => Err(UdpError::Truncated { len: bytes.len() }),
    }
}

/// Appends `type | address | port` of where a datagram came from.
pub fn write_source(source: SocketAddr, out: &mut Vec<u8>) {
    write_host(&Host::Ip(source.ip()), out);
    out.extend(source.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_a_target_and_data() {
        let bytes = [0, 0, 0, 1, 192, 0, 2, 1, 0, 53, b'q', b'?'];
        let addressed = from_application(&bytes).expect("good");
        assert_eq!(addressed, &bytes[3..]);
        let (target, data) = addressed_data(addressed).expect("good");
        assert_eq!(
            (target.to_string().as_str(), data),
            ("192.0.2.1:53", &b"q?"[..])
        );
        let named = b"\0\0\0\x03\x09a.example\x00\x35";
        let (target, data) = addressed_data(&named[3..]).expect("good");
        assert_eq!(
            (target.to_string().as_str(), data),
            ("a.example:53", &b""[..])
        );
    }

    #[test]
    fn fragments_and_stumps_are_refused() {
        let whole = [0, 0, 0, 1, 192, 0, 2, 1, 0, 53];
        for len in 0..whole.len() {
            let error = from_application(&whole[..len]).expect_err("cut");
            assert!(
                matches!(error, UdpError::Truncated { .. }),
                "{len}: {error}"
            );
        }
        let mut fragment = whole;
        fragment[2] = 0x81;
        let error = UdpError::Fragment { number: 0x81 };
        assert_eq!(from_application(&fragment), Err(error));
        let mut strange = whole;
        strange[3] = 9;
        let error = UdpError::Address(ParseError::AddressType { kind: 9 });
        assert_eq!(from_application(&strange), Err(error));
    }

    #[test]
    fn a_source_is_read_as_it_was_written() {
        for text in ["192.0.2.1:53", "[2001:db8::1]:443"] {
            let source: SocketAddr = text.parse().expect("literal");
            let mut out = Vec::new();
            write_source(source, &mut out);
            out.extend(b"data");
            let (target, data) = addressed_data(&out).expect("good");
            assert_eq!((target.to_string().as_str(), data), (text, &b"data"[..]));
        }
    }
}

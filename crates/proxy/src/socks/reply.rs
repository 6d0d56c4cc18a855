//! Answers in the application's dialect, and how the tunnel's words map to them.

use std::net::{Ipv4Addr, SocketAddr};

use crate::request::{ADDRESS_IPV4, ADDRESS_IPV6, Status};
use crate::tunnel::OpenError;

/// The dialect that an application speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SOCKS4 or 4a.
    Socks4,
    /// SOCKS5.
    Socks5,
    /// HTTP CONNECT.
    Http,
}

/// Reply codes of [RFC1928] §6. SOCKS4 knows only granted (5A) and refused (5B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplyCode {
    /// Connected.
    Ok = 0,
    /// General failure of the proxy.
    General = 1,
    /// Not allowed by the ruleset.
    NotAllowed = 2,
    /// Network unreachable.
    NetUnreachable = 3,
    /// Host unreachable; also a name that does not resolve.
    HostUnreachable = 4,
    /// Connection refused.
    Refused = 5,
    /// "TTL expired"; in use for a target that does not answer in time.
    TimedOut = 6,
    /// Command not supported.
    CommandNotSupported = 7,
    /// Address type not supported.
    AddressTypeNotSupported = 8,
}

impl From<Status> for ReplyCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::NotAllowed => Self::NotAllowed,
            Status::NetUnreachable => Self::NetUnreachable,
            Status::HostUnreachable | Status::NameUnknown => Self::HostUnreachable,
            Status::Refused => Self::Refused,
            Status::TimedOut => Self::TimedOut,
            Status::CommandUnknown => Self::CommandNotSupported,
            Status::AddressTypeUnknown => Self::AddressTypeNotSupported,
            Status::General | Status::Busy | Status::VersionUnknown | Status::Malformed => {
                Self::General
            }
        }
    }
}

impl From<&OpenError> for ReplyCode {
    fn from(error: &OpenError) -> Self {
        match error {
            // Whatever the target, there is no way to it.
            OpenError::NoAnswer => Self::HostUnreachable,
            OpenError::Refused => Self::NotAllowed,
            OpenError::Closed { .. } | OpenError::TooManyStreams => Self::General,
        }
    }
}

/// The reply to a request. `bound` is the far side's address towards the
/// target; without it, and in SOCKS4 for IPv6, the field is zero, which
/// applications ignore for CONNECT; HTTP has no such field.
pub fn reply(dialect: Dialect, code: ReplyCode, bound: Option<SocketAddr>) -> Vec<u8> {
    let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    match (dialect, bound.unwrap_or(unspecified)) {
        (Dialect::Http, _) => super::http::reply(code),
        (Dialect::Socks4, bound) => {
            let status = if code == ReplyCode::Ok { 0x5A } else { 0x5B };
            let (ip, port) = match bound {
                SocketAddr::V4(v4) => (*v4.ip(), v4.port()),
                SocketAddr::V6(_) => (Ipv4Addr::UNSPECIFIED, 0),
            };
            let mut out = vec![0, status];
            out.extend(port.to_be_bytes());
            out.extend(ip.octets());
            out
        }
        (Dialect::Socks5, bound) => {
            let mut out = vec![5, code as u8, 0];
            match bound {
                SocketAddr::V4(v4) => {
                    out.push(ADDRESS_IPV4);
                    out.extend(v4.ip().octets());
                }
                SocketAddr::V6(v6) => {
                    out.push(ADDRESS_IPV6);
                    out.extend(v6.ip().octets());
                }
            }
            out.extend(bound.port().to_be_bytes());
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_in_the_dialect_of_the_request() {
        let four: SocketAddr = "192.0.2.1:258".parse().expect("literal");
        let six: SocketAddr = "[2001:db8::1]:258".parse().expect("literal");
        assert_eq!(
            reply(Dialect::Socks5, ReplyCode::Ok, Some(four)),
            [5, 0, 0, 1, 192, 0, 2, 1, 1, 2]
        );
        assert_eq!(reply(Dialect::Socks5, ReplyCode::Ok, Some(six)).len(), 22);
        assert_eq!(
            reply(Dialect::Socks5, ReplyCode::Refused, None),
            [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            reply(Dialect::Socks4, ReplyCode::Ok, Some(four)),
            [0, 0x5A, 1, 2, 192, 0, 2, 1]
        );
        assert_eq!(
            reply(Dialect::Socks4, ReplyCode::NotAllowed, Some(six)),
            [0, 0x5B, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn every_status_has_its_code() {
        let codes: Vec<u8> = Status::ALL
            .iter()
            .map(|&status| ReplyCode::from(status) as u8)
            .collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 1, 1, 1]);
    }

    #[test]
    fn a_tunnel_that_does_not_open_has_its_code() {
        let closed = OpenError::Closed {
            reason: String::new(),
        };
        for (error, code) in [
            (OpenError::NoAnswer, ReplyCode::HostUnreachable),
            (OpenError::Refused, ReplyCode::NotAllowed),
            (closed, ReplyCode::General),
            (OpenError::TooManyStreams, ReplyCode::General),
        ] {
            assert_eq!(ReplyCode::from(&error), code);
        }
    }
}

//! What an application wants to reach: a host, given as address or as name,
//! and a port.
//!
//! Text and wire forms of names pass through [`Host::from_name`], so a literal
//! address that comes dressed as a name (`"127.0.0.1"`, `"[::1]"`) is an
//! address everywhere in this crate, above all in the egress policy.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Longest host name in bytes: what fits the length byte of SOCKS5 and of the
/// tunnel's request. DNS itself stops at 253.
pub const NAME_LEN_MAX: usize = 255;

/// A host name: 1 to 255 bytes of letters, digits, `-`, `_`, `.` or non-ASCII
/// UTF-8, and never a literal address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

impl HostName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as names are compared: lower case, without the dot that roots it.
    pub fn normalized(&self) -> String {
        let name = self.0.strip_suffix('.').unwrap_or(&self.0);
        // Letters beyond ASCII stay: some fold into ASCII ones, and a rule for
        // one name would then cover another.
        name.to_ascii_lowercase()
    }
}

/// Where a target is: at an address, or wherever its name leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A literal address. An IPv4-mapped IPv6 address is kept as it came.
    Ip(IpAddr),
    /// A name, resolved by the far side.
    Name(HostName),
}

/// Why bytes or text are no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HostError {
    /// Nothing stands where the host should.
    #[error("the host is empty")]
    Empty,
    /// Longer than [`NAME_LEN_MAX`] bytes.
    #[error("the host name has {len} bytes; 255 is the limit")]
    TooLong {
        /// Bytes given.
        len: usize,
    },
    /// Two dots in a row, or one at the start.
    #[error("the host name has an empty part between its dots")]
    EmptyLabel,
    /// A byte that no host name has: a space, a slash, a control byte, broken UTF-8.
    #[error("byte {byte:#04x} has no place in a host name")]
    BadByte {
        /// The first such byte.
        byte: u8,
    },
}

impl Host {
    /// The host that `bytes` name: a literal address (IPv6 with or without
    /// brackets) or a name.
    ///
    /// # Errors
    /// [`HostError`] for what is neither.
    pub fn from_name(bytes: &[u8]) -> Result<Self, HostError> {
        if bytes.is_empty() {
            return Err(HostError::Empty);
        }
        if bytes.len() > NAME_LEN_MAX {
            return Err(HostError::TooLong { len: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|e| HostError::BadByte {
            byte: bytes[e.valid_up_to()],
        })?;
        let unbracketed = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(inner) = unbracketed
            && let Ok(address) = inner.parse::<Ipv6Addr>()
        {
            return Ok(Self::Ip(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(address));
        }
        // A dot that roots it makes no name of an address: without the dot, as
        // rules keep names, it would be read as one.
        let unrooted = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = unrooted.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(address.into()));
        }
        // `%` would name an interface of the far side's host, `/` and spaces
        // only ever come from mistakes or attacks on the resolver.
        let bad = text
            .chars()
            .find(|&c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        if let Some(c) = bad {
            return Err(HostError::BadByte { byte: c as u8 });
        }
        if unrooted.split('.').any(str::is_empty) {
            return Err(HostError::EmptyLabel);
        }
        Ok(Self::Name(HostName(text.into())))
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Host {
    /// The name, or the address; IPv6 without brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => f.write_str(&name.0),
        }
    }
}

/// A host and a TCP port.
///
/// ```
/// use ctcp_proxy::target::Target;
/// let target: Target = "[2001:db8::7]:443".parse().unwrap();
/// assert_eq!(target.port, 443);
/// assert_eq!(target.to_string(), "[2001:db8::7]:443");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Where.
    pub host: Host,
    /// The port. 0 can arrive from the network and is then refused by the
    /// kernel; text with port 0 does not parse.
    pub port: u16,
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Ip(address.ip()),
            port: address.port(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Why text is no `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// No port follows the host.
    #[error("`{text}` has no port: write HOST:PORT, for example `{example}:443`")]
    NoPort {
        /// The text given.
        text: String,
        /// The host part of a text that would do.
        example: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("`{port}` in `{text}` is not a port: write a number from 1 to 65535")]
    BadPort {
        /// The text given.
        text: String,
        /// What stands at the port's place.
        port: String,
    },
    /// IPv6 without brackets: which colon starts the port cannot be told.
    #[error("`{text}` is ambiguous: write an IPv6 address in brackets, [ADDRESS]:PORT")]
    BareIpv6 {
        /// The text given.
        text: String,
    },
    /// What stands before the port is no host.
    #[error("`{text}` names no host: {source}")]
    BadHost {
        /// The text given.
        text: String,
        /// What is wrong with it.
        source: HostError,
    },
}

impl FromStr for Target {
    type Err = TargetError;

    /// Reads `NAME:PORT`, `IPV4:PORT` or `[IPV6]:PORT`.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host_text, port_text) = split_port(text)?;
        let port = match port_text.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => {
                return Err(TargetError::BadPort {
                    text: text.to_owned(),
                    port: port_text.to_owned(),
                });
            }
        };
        let host =
            Host::from_name(host_text.as_bytes()).map_err(|source| TargetError::BadHost {
                text: text.to_owned(),
                source,
            })?;
        Ok(Self { host, port })
    }
}

/// Splits `HOST:PORT` at the colon that starts the port.
pub(crate) fn split_port(text: &str) -> Result<(&str, &str), TargetError> {
    let no_port = |example: &str| TargetError::NoPort {
        text: text.to_owned(),
        example: example.to_owned(),
    };
    if text.starts_with('[') {
        let Some((host, rest)) = text.split_once(']') else {
            return Err(TargetError::BareIpv6 {
                text: text.to_owned(),
            });
        };
        let host = &text[..host.len() + 1];
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, port)),
            None => Err(no_port(host)),
        };
    }
    match text.rsplit_once(':') {
        None => Err(no_port(if text.is_empty() { "HOST" } else { text })),
        Some((host, _)) if host.contains(':') => Err(TargetError::BareIpv6 {
            text: text.to_owned(),
        }),
        Some(parts) => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back_as_they_print() {
        for text in ["example.com:80", "192.0.2.7:65535", "[2001:db8::1]:443"] {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn an_address_dressed_as_a_name_is_an_address() {
        let loopback: IpAddr = "127.0.0.1".parse().expect("literal");
        assert_eq!(Host::from_name(b"127.0.0.1"), Ok(Host::Ip(loopback)));
        assert_eq!(Host::from_name(b"127.0.0.1."), Ok(Host::Ip(loopback)));
        let six: IpAddr = "::1".parse().expect("literal");
        assert_eq!(Host::from_name(b"::1"), Ok(Host::Ip(six)));
        assert_eq!(Host::from_name(b"[::1]"), Ok(Host::Ip(six)));
    }

    #[test]
    fn what_no_resolver_should_see_is_no_name() {
        assert_eq!(Host::from_name(b""), Err(HostError::Empty));
        for (name, byte) in [
            (&b"a b"[..], b' '),
            (b"a\0b", 0),
            (b"a/b", b'/'),
            (b"fe80::1%eth0", b':'),
            (b"\xFFx", 0xFF),
        ] {
            assert_eq!(Host::from_name(name), Err(HostError::BadByte { byte }));
        }
        for name in [".", "..", ".a", "a..b", "a.."] {
            let host = Host::from_name(name.as_bytes());
            assert_eq!(host, Err(HostError::EmptyLabel), "{name}");
        }
        assert!(Host::from_name(&[b'a'; 255]).is_ok());
        assert_eq!(
            Host::from_name(&[b'a'; 256]),
            Err(HostError::TooLong { len: 256 })
        );
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        let error = |text: &str| text.parse::<Target>().expect_err(text).to_string();
        assert!(error("example.com").contains("`example.com:443`"));
        assert!(error("example.com:0").contains("1 to 65535"));
        assert!(error("example.com:http").contains("`http`"));
        assert!(error("2001:db8::1:80").contains("brackets"));
        assert!(error("[2001:db8::1]").contains("`[2001:db8::1]:443`"));
        assert!(error(":80").contains("empty"));
        assert!(error("").contains("HOST:443"));
    }

    #[test]
    fn names_compare_without_case_and_root_dot() {
        let Ok(Host::Name(name)) = Host::from_name(b"Example.COM.") else {
            panic!("a name");
        };
        assert_eq!(name.normalized(), "example.com");
    }
}

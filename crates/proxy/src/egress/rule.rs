//! One rule of `--egress-allow` and `--egress-deny`: a network, or a name with
//! its port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use thiserror::Error;

use crate::target::{Host, HostName, Target, split_port};

/// What a rule covers.
///
/// | text | covers |
/// |---|---|
/// | `10.1.0.0/16`, `fd00::/8` | each address of the network, every port |
/// | `10.1.0.0/16:443`, `[fd00::/8]:443` | the same, one port |
/// | `10.1.2.3`, `10.1.2.3:22`, `[fd00::1]:22` | one address |
/// | `db.internal:5432`, `db.internal:*` | requests that give this very name |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    scope: Scope,
    /// `None`: every port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Net(IpNet),
    /// Lower case, no root dot.
    Name(String),
}

/// Why text is no egress rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// A name without a port.
    #[error("`{text}` has no port: write `{text}:443` for one port or `{text}:*` for all")]
    NoPort {
        /// The text given.
        text: String,
    },
    /// What follows the last colon is no port.
    #[error("`{port}` in `{text}` is not a port: write a number from 1 to 65535, or *")]
    BadPort {
        /// The text given.
        text: String,
        /// What stands at the port's place.
        port: String,
    },
    /// A network whose address or prefix length makes no sense.
    #[error(
        "`{text}` is not a network: write ADDRESS/PREFIX, for example 10.0.0.0/8 or [fd00::/8]:443"
    )]
    BadNet {
        /// The text given.
        text: String,
    },
    /// A network with bits set behind its prefix: is the address or the length
    /// the mistake?
    #[error("`{text}` has bits set behind its prefix: write `{meant}` for the network")]
    HostBits {
        /// The text given.
        text: String,
        /// The network that it lies in.
        meant: String,
    },
    /// Neither a network nor `HOST:PORT`.
    #[error("`{text}` is neither a network (10.0.0.0/8) nor HOST:PORT (db.internal:5432)")]
    Neither {
        /// The text given.
        text: String,
    },
}

impl EgressRule {
    /// Whether it covers a request that gives `name` at `port`.
    pub(crate) fn covers_name(&self, name: &HostName, port: u16) -> bool {
        match &self.scope {
            Scope::Name(own) => *own == name.normalized() && self.covers_port(port),
            Scope::Net(_) => false,
        }
    }

    /// Whether it covers a connection to `address`.
    pub(crate) fn covers_address(&self, address: SocketAddr) -> bool {
        match &self.scope {
            Scope::Net(net) => net.contains(&address.ip()) && self.covers_port(address.port()),
            Scope::Name(_) => false,
        }
    }

    /// Whether it is about one single address and covers a connection to it.
    pub(crate) fn names_address(&self, address: SocketAddr) -> bool {
        matches!(&self.scope, Scope::Net(net) if net.prefix_len() == net.max_prefix_len())
            && self.covers_address(address)
    }

    fn covers_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.scope, self.port) {
            (Scope::Net(net), None) => net.fmt(f),
            (Scope::Net(net @ IpNet::V4(_)), Some(port)) => write!(f, "{net}:{port}"),
            (Scope::Net(net @ IpNet::V6(_)), Some(port)) => write!(f, "[{net}]:{port}"),
            (Scope::Name(name), None) => write!(f, "{name}:*"),
            (Scope::Name(name), Some(port)) => write!(f, "{name}:{port}"),
        }
    }
}

impl FromStr for EgressRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self {
                scope: Scope::Net(single(address)),
                port: None,
            });
        }
        if text.contains('/') {
            return parse_net_rule(text);
        }
        let Ok((host_text, port_text)) = split_port(text) else {
            return Err(match Host::from_name(text.as_bytes()) {
                Ok(_) => RuleError::NoPort {
                    text: text.to_owned(),
                },
                Err(_) => RuleError::Neither {
                    text: text.to_owned(),
                },
            });
        };
        let port = parse_port(text, port_text)?;
        let scope = match Host::from_name(host_text.as_bytes()) {
            Ok(Host::Ip(address)) => Scope::Net(single(address)),
            Ok(Host::Name(name)) => Scope::Name(name.normalized()),
            Err(_) => {
                return Err(RuleError::Neither {
                    text: text.to_owned(),
                });
            }
        };
        Ok(Self { scope, port })
    }
}

impl From<&Target> for EgressRule {
    /// The rule that covers exactly this target.
    fn from(target: &Target) -> Self {
        let scope = match &target.host {
            Host::Ip(address) => Scope::Net(single(*address)),
            Host::Name(name) => Scope::Name(name.normalized()),
        };
        Self {
            scope,
            port: Some(target.port),
        }
    }
}

/// Reads `NET`, `NET:PORT` or `[NET]:PORT`.
fn parse_net_rule(text: &str) -> Result<EgressRule, RuleError> {
    let bad_net = || RuleError::BadNet {
        text: text.to_owned(),
    };
    let (net_text, port) = if let Some(rest) = text.strip_prefix('[') {
        let (net, rest) = rest.split_once(']').ok_or_else(bad_net)?;
        match rest.strip_prefix(':') {
            Some(port) => (net, parse_port(text, port)?),
            None if rest.is_empty() => (net, None),
            None => return Err(bad_net()),
        }
    } else {
        // Only behind the slash does a colon start a port.
        let (address, prefix) = text.split_once('/').ok_or_else(bad_net)?;
        match prefix.split_once(':') {
            Some((prefix, port)) => (
                &text[..address.len() + 1 + prefix.len()],
                parse_port(text, port)?,
            ),
            None => (text, None),
        }
    };
    let net: IpNet = net_text.parse().map_err(|_| bad_net())?;
    if net.trunc() != net {
        return Err(RuleError::HostBits {
            text: text.to_owned(),
            meant: net.trunc().to_string(),
        });
    }
    // The policy judges IPv4-mapped addresses as IPv4; so must its rules.
    let net = match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.addr().to_ipv4_mapped() {
            Some(v4) => IpNet::new(v4.into(), v6.prefix_len() - 96).map_err(|_| bad_net())?,
            None => net,
        },
        net => net,
    };
    Ok(EgressRule {
        scope: Scope::Net(net),
        port,
    })
}

fn parse_port(text: &str, port: &str) -> Result<Option<u16>, RuleError> {
    if port == "*" {
        return Ok(None);
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => Err(RuleError::BadPort {
            text: text.to_owned(),
            port: port.to_owned(),
        }),
    }
}

fn single(address: IpAddr) -> IpNet {
    IpNet::from(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> EgressRule {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    #[test]
    fn rules_read_back_as_they_print() {
        for text in [
            "10.0.0.0/8",
            "10.0.0.0/8:443",
            "fd00::/8",
            "[fd00::/8]:443",
            "db.internal:5432",
            "db.internal:*",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(rule("10.1.2.3").to_string(), "10.1.2.3/32");
        assert_eq!(rule("10.1.2.3:22").to_string(), "10.1.2.3/32:22");
        assert_eq!(rule("[fd00::1]:22").to_string(), "[fd00::1/128]:22");
        assert_eq!(rule("fd00::1").to_string(), "fd00::1/128");
        assert_eq!(rule("DB.Internal.:1").to_string(), "db.internal:1");
        assert_eq!(rule("::ffff:10.0.0.0/104").to_string(), "10.0.0.0/8");
    }

    #[test]
    fn a_rule_covers_its_network_and_port_only() {
        let web = rule("10.0.0.0/8:443");
        assert!(web.covers_address(address("10.255.0.1:443")));
        assert!(!web.covers_address(address("10.255.0.1:80")));
        assert!(!web.covers_address(address("11.0.0.1:443")));
        assert!(!web.names_address(address("10.255.0.1:443")));
        assert!(rule("10.0.0.1").names_address(address("10.0.0.1:9")));
    }

    #[test]
    fn a_name_is_covered_without_regard_to_case() {
        let Ok(Host::Name(name)) = Host::from_name(b"DB.internal.") else {
            panic!("a name");
        };
        assert!(rule("db.Internal:5432").covers_name(&name, 5432));
        assert!(!rule("db.internal:5432").covers_name(&name, 5433));
        assert!(rule("db.internal:*").covers_name(&name, 5433));
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        let error = |text: &str| text.parse::<EgressRule>().expect_err(text).to_string();
        assert!(error("db.internal").contains("`db.internal:443`"));
        assert!(error("10.0.0.0/33").contains("ADDRESS/PREFIX"));
        assert!(error("10.1.0.0/8").contains("`10.0.0.0/8`"));
        assert!(error("db.internal:0").contains("`0`"));
        assert!(error("10.0.0.0/8:http").contains("`http`"));
        assert!(error("http://example.com:80").contains("not a network"));
        assert!(error("a b").contains("neither"));
        assert!(error("").contains("neither"));
    }
}

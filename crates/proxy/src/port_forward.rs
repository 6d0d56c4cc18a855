//! `--forward LISTEN=HOST:PORT`: a local port that leads to one target.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

use crate::target::{Target, TargetError};

/// A port forward.
///
/// ```
/// use ctcp_proxy::port_forward::PortForward;
/// let forward: PortForward = "8080=[2001:db8::7]:80".parse().unwrap();
/// assert_eq!(forward.to_string(), "127.0.0.1:8080=[2001:db8::7]:80");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortForward {
    /// Where to listen; 127.0.0.1 unless an address is given. Port 0 lets the
    /// system choose.
    pub listen: SocketAddr,
    /// What the far side connects to.
    pub target: Target,
}

/// Why text is no port forward.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortForwardError {
    /// No `=`.
    #[error("`{text}` has no `=`: write LISTEN=HOST:PORT, for example 8080=example.com:80")]
    NoTarget {
        /// The text given.
        text: String,
    },
    /// What stands before the `=` is nothing to listen on.
    #[error(
        "cannot listen on `{listen}`: write PORT, ADDRESS:PORT or [IPV6]:PORT, for example 8080 \
         or 127.0.0.1:8080"
    )]
    BadListen {
        /// What stands before the `=`.
        listen: String,
    },
    /// What stands behind the `=` is no target.
    #[error(transparent)]
    BadTarget(#[from] TargetError),
}

impl fmt::Display for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.listen, self.target)
    }
}

impl FromStr for PortForward {
    type Err = PortForwardError;

    fn from_str(text: &str) -> Result<Self, PortForwardError> {
        let Some((listen, target)) = text.split_once('=') else {
            return Err(PortForwardError::NoTarget {
                text: text.to_owned(),
            });
        };
        let bad_listen = || PortForwardError::BadListen {
            listen: listen.to_owned(),
        };
        let listen = match listen.parse::<u16>() {
            Ok(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            Err(_) => match listen.strip_prefix("localhost:") {
                Some(port) => {
                    let port = port.parse().map_err(|_| bad_listen())?;
                    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
                }
                None => listen.parse().map_err(|_| bad_listen())?,
            },
        };
        Ok(Self {
            listen,
            target: target.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listening_side_may_be_short() {
        for (text, printed) in [
            ("8080=example.com:80", "127.0.0.1:8080=example.com:80"),
            ("0.0.0.0:1=192.0.2.1:2", "0.0.0.0:1=192.0.2.1:2"),
            ("[::1]:8080=[2001:db8::7]:80", "[::1]:8080=[2001:db8::7]:80"),
            ("localhost:0=db:5432", "127.0.0.1:0=db:5432"),
        ] {
            let forward: PortForward = text.parse().expect(text);
            assert_eq!(forward.to_string(), printed);
        }
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        let error = |text: &str| text.parse::<PortForward>().expect_err(text).to_string();
        assert!(error("8080:example.com:80").contains("LISTEN=HOST:PORT"));
        assert!(error("web:8080=example.com:80").contains("`web:8080`"));
        assert!(error("70000=example.com:80").contains("`70000`"));
        assert!(error("8080=example.com").contains("`example.com:443`"));
    }
}

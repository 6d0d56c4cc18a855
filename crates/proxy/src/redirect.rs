//! Where a redirected connection was going: the kernel's connection tracking knows
//! the destination that a rule of nftables (`redirect`, `dnat`) replaced.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpStream;

use crate::egress::canonical;
use crate::target::Target;

/// Why a connection leads nowhere.
#[derive(Debug, Error)]
pub enum RedirectError {
    /// It came to the listener itself: relaying it would lead back here.
    #[error(
        "{address} is this listener's own address, so the connection was not redirected; \
         `ctcp redirect-rules` prints the rules"
    )]
    Direct {
        /// Where it was going.
        address: SocketAddr,
    },
    /// The kernel does not know.
    #[error(
        "the kernel does not know where a connection to {local} was going: {source}; it was \
         not redirected by nftables on this machine"
    )]
    Unknown {
        /// Where it came to.
        local: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
}

/// The destination of a connection before it was redirected.
///
/// # Errors
/// [`RedirectError`] for a connection that no rule redirected.
pub fn original_target(tcp: &TcpStream) -> Result<Target, RedirectError> {
    let unknown = |source| RedirectError::Unknown {
        local: SocketAddr::from(([0, 0, 0, 0], 0)),
        source,
    };
    let local = canonical(tcp.local_addr().map_err(unknown)?);
    let original =
        destination(tcp, local).map_err(|source| RedirectError::Unknown { local, source })?;
    judge(canonical(original), local)
}

/// Refuses what would come back here.
fn judge(original: SocketAddr, local: SocketAddr) -> Result<Target, RedirectError> {
    let is_own = original.port() == local.port()
        && (original.ip() == local.ip()
            || original.ip().is_loopback()
            || original.ip().is_unspecified());
    if is_own {
        return Err(RedirectError::Direct { address: original });
    }
    Ok(original.into())
}

#[cfg(target_os = "linux")]
fn destination(tcp: &TcpStream, local: SocketAddr) -> io::Result<SocketAddr> {
    let socket = socket2::SockRef::from(tcp);
    let original = if local.is_ipv4() {
        socket.original_dst_v4()
    } else {
        socket.original_dst_v6()
    };
    original?
        .as_socket()
        .ok_or_else(|| io::Error::other("it has no address"))
}

#[cfg(not(target_os = "linux"))]
fn destination(_tcp: &TcpStream, _local: SocketAddr) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn what_would_come_back_here_is_refused() {
        let judge = |original: &str, local: &str| {
            let parsed = |text: &str| text.parse::<SocketAddr>().expect(text);
            judge(parsed(original), parsed(local)).map(|target| target.to_string())
        };
        for original in [
            "10.0.0.1:1081",
            "127.0.0.1:1081",
            "0.0.0.0:1081",
            "[::1]:1081",
        ] {
            let refused = judge(original, "10.0.0.1:1081");
            assert!(
                matches!(refused, Err(RedirectError::Direct { .. })),
                "{original}"
            );
        }
        for original in ["10.0.0.1:80", "10.0.0.2:1081", "[2001:db8::1]:1081"] {
            assert_eq!(
                judge(original, "10.0.0.1:1081").ok().as_deref(),
                Some(original)
            );
        }
    }

    #[tokio::test]
    async fn a_connection_that_no_rule_redirected_is_refused() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(listen).await.expect(listen);
            let address = listener.local_addr().expect("bound");
            let connecting = TcpStream::connect(address);
            let (near, far) = tokio::join!(connecting, listener.accept());
            near.expect("it listens");
            let error = original_target(&far.expect("it came").0).expect_err("direct");
            assert!(error.to_string().contains("redirected"), "{error}");
        }
    }
}

//! Connecting to the first of several addresses that answers.
//!
//! After [RFC8305] ("Happy Eyeballs"), the part that matters here: families
//! alternate, and the next address is tried when the last one failed or has not
//! answered for a moment, while the earlier tries go on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::request::{Failure, Status};

/// Addresses tried for one connection.
const TRIES_MAX: usize = 16;

/// Connects to one of `addresses`: the first that answers. A further try starts
/// after `attempt_delay`, all of them end after `connect_timeout`.
///
/// # Errors
/// What hindered the try that got furthest, as the status to answer.
pub(crate) async fn connect_any(
    addresses: &[SocketAddr],
    connect_timeout: Duration,
    attempt_delay: Duration,
) -> Result<TcpStream, Failure> {
    match timeout(connect_timeout, race(addresses, attempt_delay)).await {
        Ok(Ok(tcp)) => Ok(tcp),
        Ok(Err(error)) => Err(Failure::new(status_of(&error), "")),
        Err(_) => Err(Failure::new(Status::TimedOut, "")),
    }
}

async fn race(addresses: &[SocketAddr], attempt_delay: Duration) -> io::Result<TcpStream> {
    let mut waiting = alternate(addresses).into_iter().take(TRIES_MAX);
    let mut tries = JoinSet::new();
    let mut worst = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => {
                tries.spawn(TcpStream::connect(address));
            }
            None if tries.is_empty() => return Err(worst),
            None => {}
        }
        let more = waiting.len() > 0;
        tokio::select! {
            Some(tried) = tries.join_next() => match tried {
                Ok(Ok(tcp)) => return Ok(tcp),
                Ok(Err(error)) if rank(&error) >= rank(&worst) => worst = error,
                Ok(Err(_)) => {}
                Err(error) => worst = io::Error::other(error),
            },
            () = sleep(attempt_delay), if more => {}
        }
    }
}

/// The addresses with their families taking turns, the first one's family first.
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return Vec::new();
    };
    let (mut ones, mut others): (Vec<_>, Vec<_>) = addresses
        .iter()
        .copied()
        .rev()
        .partition(|a| a.is_ipv4() == first.is_ipv4());
    let mut ordered = Vec::with_capacity(addresses.len());
    while let Some(address) = ones.pop() {
        ordered.push(address);
        ordered.extend(others.pop());
    }
    others.reverse();
    ordered.append(&mut others);
    ordered
}

/// How much an error tells: a refusal comes from the host itself.
fn rank(error: &io::Error) -> u8 {
    match status_of(error) {
        Status::Refused => 4,
        Status::HostUnreachable => 3,
        Status::TimedOut => 2,
        Status::NetUnreachable => 1,
        _ => 0,
    }
}

/// The status that tells of a failed connect.
pub(crate) fn status_of(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Status::Refused,
        io::ErrorKind::HostUnreachable => Status::HostUnreachable,
        io::ErrorKind::NetworkUnreachable => Status::NetUnreachable,
        io::ErrorKind::TimedOut => Status::TimedOut,
        _ => Status::General,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const SOON: Duration = Duration::from_secs(60);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|t| t.parse().expect(t)).collect()
    }

    async fn refusing() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        listener.local_addr().expect("bound")
    }

    #[test]
    fn families_take_turns() {
        let given = addresses(&["[::1]:1", "[::1]:2", "[::1]:3", "1.1.1.1:1", "1.1.1.1:2"]);
        let wanted = addresses(&["[::1]:1", "1.1.1.1:1", "[::1]:2", "1.1.1.1:2", "[::1]:3"]);
        assert_eq!(alternate(&given), wanted);
        let given = addresses(&["1.1.1.1:1", "[::1]:1", "[::1]:2"]);
        assert_eq!(alternate(&given), given);
        assert!(alternate(&[]).is_empty());
    }

    #[tokio::test]
    async fn a_refusal_is_followed_by_the_next_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let open = listener.local_addr().expect("bound");
        let tries = [refusing().await, open];
        let tcp = connect_any(&tries, SOON, SOON).await.expect("one is open");
        assert_eq!(tcp.peer_addr().expect("connected"), open);
    }

    #[tokio::test]
    async fn the_error_that_got_furthest_is_told() {
        let failed = connect_any(&[refusing().await], SOON, SOON).await;
        assert_eq!(failed.expect_err("closed").status, Status::Refused);
        let failed = connect_any(&[], SOON, SOON).await;
        assert_eq!(failed.expect_err("nothing to try").status, Status::General);
    }

    #[test]
    fn each_error_has_its_status() {
        for (kind, status) in [
            (io::ErrorKind::ConnectionRefused, Status::Refused),
            (io::ErrorKind::HostUnreachable, Status::HostUnreachable),
            (io::ErrorKind::NetworkUnreachable, Status::NetUnreachable),
            (io::ErrorKind::TimedOut, Status::TimedOut),
            (io::ErrorKind::PermissionDenied, Status::General),
        ] {
            assert_eq!(status_of(&kind.into()), status);
        }
    }
}

//! Accepting TCP connections: not more than the limit, and without spinning when
//! the system has no more descriptors to give.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use crate::shutdown::{Shutdown, drain, report};
use crate::stats::{FailReason, Stats};

/// Accepts until the shutdown starts and handles each connection in a task of its
/// own, then closes the listener and waits for the tasks. At the limit, further
/// connections wait in the kernel's backlog. Returns how many the shutdown had to
/// stop.
pub(crate) async fn serve<F, H>(
    listener: TcpListener,
    permits: Arc<Semaphore>,
    stats: Arc<Stats>,
    mut shutdown: Shutdown,
    handle: F,
) -> usize
where
    F: Fn(TcpStream) -> H,
    H: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut backoff = Backoff::default();
    let mut at_limit = false;
    loop {
        let accepted = tokio::select! {
            () = shutdown.started() => break,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                report(ended);
                continue;
            }
            accepted = accept(&listener, &permits, &stats, &mut at_limit) => accepted,
        };
        match accepted {
            Ok((tcp, permit)) => {
                backoff = Backoff::default();
                let (active, handling) = (stats.begin(), handle(tcp));
                tasks.spawn(async move {
                    handling.await;
                    drop((active, permit));
                });
            }
            Err(error) => {
                stats.accept_error();
                let pause = backoff.after(&error);
                if backoff.is_first {
                    warn!(%error, "accepting a connection failed; `ulimit -n` too low?");
                }
                tokio::select! {
                    () = shutdown.started() => break,
                    () = sleep(pause) => {}
                }
            }
        }
    }
    drop(listener);
    let stopped = drain(&mut tasks, &mut shutdown).await;
    for _ in 0..stopped {
        stats.fail(FailReason::Cancelled);
    }
    stopped
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    stats: &Stats,
    at_limit: &mut bool,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = match permits.clone().try_acquire_owned() {
        Ok(permit) => {
            *at_limit = false;
            permit
        }
        Err(_) => {
            if !*at_limit {
                *at_limit = true;
                stats.limit_reached();
                warn!("the limit of connections is reached; further ones wait");
            }
            let permit = permits.clone().acquire_owned().await;
            permit.map_err(io::Error::other)?
        }
    };
    let (tcp, _) = listener.accept().await?;
    Ok((tcp, permit))
}

/// How long to pause after an error of accepting.
#[derive(Debug, Default)]
struct Backoff {
    pause: Duration,
    /// The last error was the first of a series worth a line in the log.
    is_first: bool,
}

impl Backoff {
    /// An error that concerns one connection costs no pause; one that concerns
    /// the system starts at 10 ms and doubles to one second.
    fn after(&mut self, error: &io::Error) -> Duration {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        self.is_first = false;
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionReset | Interrupted
        ) {
            return Duration::ZERO;
        }
        self.is_first = self.pause.is_zero();
        self.pause = (self.pause * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_while_the_system_has_nothing_to_give() {
        let mut backoff = Backoff::default();
        let exhausted = io::Error::from_raw_os_error(24);
        let pauses: Vec<u128> = (0..9)
            .map(|_| backoff.after(&exhausted).as_millis())
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn a_connection_that_left_costs_no_pause() {
        let mut backoff = Backoff::default();
        let aborted = io::ErrorKind::ConnectionAborted.into();
        assert_eq!(backoff.after(&aborted), Duration::ZERO);
        assert!(!backoff.is_first);
    }
}

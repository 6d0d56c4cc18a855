//! Stopping with grace: no new connections, time for the present ones to end,
//! then a reset for the rest.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

/// A switch and the token that tells its state. The token is cloned for each
/// part that has to stop.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(None);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

/// Starts the shutdown. If it is dropped without, the parts run on.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<Option<Instant>>);

impl ShutdownTrigger {
    /// From now on nothing new; what has not ended within `grace` is reset. A
    /// second call sets the deadline anew, so zero ends a drain at once.
    pub fn start(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.0.send_replace(Some(deadline));
    }
}

/// Tells a part when to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<Option<Instant>>);

impl Shutdown {
    /// A token of a shutdown that never comes.
    pub fn never() -> Self {
        shutdown().1
    }

    /// Whether the shutdown has started.
    pub fn is_started(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until the shutdown starts.
    pub async fn started(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the shutdown has started and its deadline has passed.
    pub async fn expired(&mut self) {
        self.started().await;
        loop {
            let deadline = *self.0.borrow_and_update();
            let Some(deadline) = deadline else {
                return std::future::pending().await;
            };
            tokio::select! {
                () = sleep_until(deadline) => return,
                changed = self.0.changed() => if changed.is_err() {
                    return sleep_until(deadline).await;
                }
            }
        }
    }
}

/// Waits for the tasks to end; those that have not by the deadline are stopped,
/// which resets what they relay. Returns how many were stopped.
pub(crate) async fn drain(tasks: &mut JoinSet<()>, shutdown: &mut Shutdown) -> usize {
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => report(ended),
                None => return 0,
            },
            () = shutdown.expired() => {
                let stopped = tasks.len();
                tasks.shutdown().await;
                return stopped;
            }
        }
    }
}

/// A task that panicked took only its own connection with it.
pub(crate) fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        warn!(%error, "a connection's task panicked; the connection was reset");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_drain_waits_for_what_ends_in_time() {
        let (trigger, mut token) = shutdown();
        let mut tasks = JoinSet::new();
        tasks.spawn(tokio::time::sleep(Duration::from_millis(20)));
        trigger.start(Duration::from_secs(60));
        assert_eq!(drain(&mut tasks, &mut token).await, 0);
    }

    #[tokio::test]
    async fn a_drain_stops_what_does_not_end() {
        let (trigger, mut token) = shutdown();
        let mut tasks = JoinSet::new();
        tasks.spawn(pending());
        trigger.start(Duration::from_millis(20));
        assert_eq!(drain(&mut tasks, &mut token).await, 1);
    }

    #[tokio::test]
    async fn a_second_start_may_shorten_the_deadline() {
        let (trigger, mut token) = shutdown();
        assert!(!token.is_started());
        trigger.start(Duration::from_secs(3600));
        let waiting = tokio::spawn(async move { token.expired().await });
        tokio::task::yield_now().await;
        trigger.start(Duration::ZERO);
        waiting.await.expect("no panic");
    }

    #[tokio::test]
    async fn without_a_start_nothing_stops() {
        let mut token = Shutdown::never();
        let wait = tokio::time::timeout(Duration::from_millis(20), token.started());
        assert!(wait.await.is_err());
    }
}

//! SIGTERM and SIGINT: the first drains, the second ends what is left, the third
//! does not even say goodbye.

use std::time::Duration;

use ctcp_proxy::shutdown::ShutdownTrigger;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::output::notice;

/// How long the second signal leaves for telling the peer; it would keep the
/// streams for minutes if it were not told.
const GOODBYE: Duration = Duration::from_secs(3);

/// The two signals that end a command.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on the signals no longer kill the process.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Starts the shutdown at the first signal, lets it end at the second; ends the
    /// process at the third, or when it has not ended by itself soon after.
    pub(crate) async fn drive(mut self, trigger: ShutdownTrigger, grace: Duration) {
        self.next().await;
        notice(format_args!(
            "stopping: connections have {grace:?} to end; a second signal ends them at once"
        ));
        trigger.start(grace);
        self.next().await;
        trigger.start(Duration::ZERO);
        let _ = tokio::time::timeout(GOODBYE, self.next()).await;
        std::process::exit(0);
    }
}

//! Further paths of a connection.

use std::net::SocketAddr;

use ctcp_proto::{PathEvent, PathOptions, PathStats};
use ctcp_units::PathId;

use crate::connection::Connection;
use crate::error::{ClosePathError, OpenPathError};
use crate::socket::{canonical, reaches};

/// Where a path begins and leads, and how it is used.
#[derive(Debug, Clone)]
pub struct PathConfig {
    /// The local address to send from; port 0 takes any. With an interface it may
    /// be the wildcard address.
    pub local: SocketAddr,
    /// The network interface to send from, whatever the routes say; Linux only.
    pub interface: Option<String>,
    /// Where the server is reached over this path.
    pub remote: SocketAddr,
    /// Backup, cost, controller.
    pub options: PathOptions,
}

impl PathConfig {
    /// A path from `local` to `remote` in ordinary use.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local,
            interface: None,
            remote,
            options: PathOptions::default(),
        }
    }
}

impl Connection {
    /// Opens a further path, on a socket of its own. It is in use from
    /// [`PathEvent::Validated`] on; until then, and whatever becomes of it, the
    /// others carry on.
    ///
    /// # Errors
    /// [`OpenPathError`]: nothing has changed then.
    pub fn open_path(&self, config: &PathConfig) -> Result<PathId, OpenPathError> {
        let shared = self.shared();
        let (local, remote) = (config.local, canonical(config.remote));
        if !reaches(local, remote) {
            return Err(OpenPathError::AddressFamily { remote, local });
        }
        let interface = config.interface.as_deref();
        let (id, socket) =
            (shared.maker.make(local, interface)).map_err(|error| OpenPathError::Bind {
                local,
                interface: interface.map_or_else(String::new, |name| format!(" on {name}")),
                error,
            })?;
        let path = {
            let mut state = shared.lock();
            let now = state.advance(shared.clock.now());
            let local = socket.local_addr();
            let path = state.proto.open_path(now, local, remote, &config.options)?;
            state.add_route(path, id);
            path
        };
        shared
            .inbox
            .put(|wishes| wishes.new_sockets.push((id, socket)));
        shared.wake_driver();
        Ok(path)
    }

    /// Closes a path and its socket. What was on its way goes out on the others.
    ///
    /// # Errors
    /// There is no such path, or no other.
    pub fn close_path(&self, path: PathId) -> Result<(), ClosePathError> {
        let shared = self.shared();
        {
            let mut state = shared.lock();
            let now = state.advance(shared.clock.now());
            state.proto.close_path(now, path)?;
        }
        shared.wake_driver();
        Ok(())
    }

    /// Sends a ping on a path. What becomes of it a [`PingLog`](crate::PingLog) tells
    /// that listens by [`Connection::set_trace`].
    ///
    /// # Errors
    /// There is no such path.
    pub fn ping_path(&self, path: PathId) -> Result<(), ClosePathError> {
        let shared = self.shared();
        {
            let mut state = shared.lock();
            let now = state.advance(shared.clock.now());
            state.proto.ping_path(now, path)?;
        }
        shared.wake_driver();
        Ok(())
    }

    /// Changes how a path is used, at both ends if this is the client's.
    ///
    /// # Errors
    /// There is no such path.
    pub fn set_path_use(
        &self,
        path: PathId,
        is_backup: bool,
        cost: u8,
    ) -> Result<(), ClosePathError> {
        let shared = self.shared();
        shared.lock().proto.set_path_use(path, is_backup, cost)?;
        shared.wake_driver();
        Ok(())
    }

    /// The paths as they are now.
    pub fn paths(&self) -> Vec<PathStats> {
        self.shared().lock().proto.stats().paths
    }

    /// Waits for the next thing that happens to a path; `None` when the
    /// connection has ended. Each is told once, to whoever asks first; of those
    /// that nobody asked for, the newest 64 are kept.
    pub async fn path_event(&self) -> Option<PathEvent> {
        loop {
            let news = self.shared().paths.notified();
            {
                let mut state = self.shared().lock();
                if let Some(event) = state.path_events.pop_front() {
                    return Some(event);
                }
                if state.error.is_some() {
                    return None;
                }
            }
            news.await;
        }
    }

    /// Names the local address of the path of the handshake.
    pub(crate) fn name_first_path(&self, local: SocketAddr) {
        let shared = self.shared();
        let mut state = shared.lock();
        let now = state.advance(shared.clock.now());
        // It may have been closed already.
        let _ = state.proto.set_path_local(now, PathId(0), local, false);
    }
}

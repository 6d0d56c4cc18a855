//! The sockets of an endpoint: its own, and one for each further path.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use crate::socket::{Socket, SocketConfig, SocketCounters};

/// Names a socket; 0 is the endpoint's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketId(u64);

impl SocketId {
    /// The endpoint's own socket.
    pub(crate) const OWN: Self = Self(0);
}

/// Makes sockets, from whatever thread.
#[derive(Debug)]
pub(crate) struct SocketMaker {
    pub(crate) runtime: Handle,
    pub(crate) config: SocketConfig,
    pub(crate) counters: Arc<SocketCounters>,
    /// Made so far.
    count: AtomicU64,
}

impl SocketMaker {
    pub(crate) fn new(
        runtime: Handle,
        config: SocketConfig,
        counters: Arc<SocketCounters>,
    ) -> Self {
        Self {
            runtime,
            config,
            counters,
            count: AtomicU64::new(0),
        }
    }

    /// A bound socket and a name for it, if it is not to be the endpoint's own.
    pub(crate) fn make(
        &self,
        local: SocketAddr,
        interface: Option<&str>,
    ) -> io::Result<(SocketId, Socket)> {
        let _runtime = self.runtime.enter();
        let socket = Socket::bind(local, interface, &self.config, self.counters.clone())?;
        let id = SocketId(self.count.fetch_add(1, Ordering::Relaxed) + 1);
        Ok((id, socket))
    }
}

/// The sockets, as the driver holds them.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The endpoint's own comes first.
    list: Vec<(SocketId, Socket)>,
}

impl Sockets {
    pub(crate) fn new(own: Socket) -> Self {
        Self {
            list: vec![(SocketId::OWN, own)],
        }
    }

    /// The endpoint's own socket.
    pub(crate) fn own(&self) -> &Socket {
        &self.list[0].1
    }

    /// Goes on with another socket for the endpoint.
    pub(crate) fn replace_own(&mut self, socket: Socket) {
        self.list[0].1 = socket;
    }

    pub(crate) fn add(&mut self, id: SocketId, socket: Socket) {
        self.list.push((id, socket));
    }

    /// Closes a socket; the endpoint's own stays.
    pub(crate) fn remove(&mut self, id: SocketId) {
        self.list
            .retain(|(known, _)| *known != id || id == SocketId::OWN);
    }

    pub(crate) fn get(&self, id: SocketId) -> Option<&Socket> {
        let known = self.list.iter().find(|(known, _)| *known == id);
        known.map(|(_, socket)| socket)
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The socket at a place below [`Sockets::count`].
    pub(crate) fn at(&self, place: usize) -> &Socket {
        &self.list[place].1
    }
}

//! Who knows what there is to see.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ctcp::{Connection, EndpointStats};

use crate::qlog::QlogFolder;
use crate::snapshot::{ConnectionView, ProxyView, Snapshot, StreamView};

/// What the process does with its connections. Asked only while somebody looks;
/// answers must come at once.
pub trait Source: Send + Sync + 'static {
    /// What its proxy has done.
    fn proxy(&self) -> ProxyView {
        ProxyView::default()
    }

    /// The newest `count` of what is relayed now, newest first, and how many there
    /// are.
    fn streams(&self, _count: usize) -> (Vec<StreamView>, usize) {
        (Vec::new(), 0)
    }

    /// What its UDP socket has done, where there is one for all connections.
    fn endpoint(&self) -> Option<EndpointStats> {
        None
    }
}

/// Shows connections. Clones show the same.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
}

struct Shared {
    role: String,
    title: String,
    instance: String,
    started: Instant,
    source: Box<dyn Source>,
    qlog: Option<QlogFolder>,
    next: AtomicU64,
    connections: Mutex<BTreeMap<u64, Entry>>,
}

struct Entry {
    name: Arc<str>,
    since: Instant,
    connection: Connection,
}

/// Keeps a connection shown, and open, until it is dropped.
#[must_use]
pub struct Shown {
    shared: Arc<Shared>,
    id: u64,
}

impl Observer {
    /// Shows nothing yet. `role` is `client` or `server`, `title` what users call
    /// it; connections are traced into `qlog`.
    pub fn new(role: &str, title: &str, source: impl Source, qlog: Option<QlogFolder>) -> Self {
        let started = Instant::now();
        let wall = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        Self {
            shared: Arc::new(Shared {
                role: role.to_owned(),
                title: title.to_owned(),
                instance: format!("{wall:x}-{}", std::process::id()),
                started,
                source: Box::new(source),
                qlog,
                next: AtomicU64::new(0),
                connections: Mutex::default(),
            }),
        }
    }

    /// Shows `connection` under `name` until what it returns is dropped. Until
    /// then the connection does not close by itself.
    pub fn show(&self, name: &str, connection: &Connection) -> Shown {
        let shared = self.shared.clone();
        let id = shared.next.fetch_add(1, Ordering::Relaxed);
        if let Some(qlog) = &shared.qlog {
            qlog.trace(&shared.role, name, connection);
        }
        let entry = Entry {
            name: name.into(),
            since: Instant::now(),
            connection: connection.clone(),
        };
        shared.lock().insert(id, entry);
        Shown { shared, id }
    }

    /// Everything, now.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        // Statistics are taken outside the lock: each has one of its own.
        let listed: Vec<_> = {
            let connections = shared.lock();
            let entry = |(id, entry): (&u64, &Entry)| {
                let name = entry.name.clone();
                (*id, name, entry.since, entry.connection.clone())
            };
            connections.iter().map(entry).collect()
        };
        let connections = listed.iter().map(|(id, name, since, connection)| {
            let stats = connection.stats();
            let mut view = ConnectionView::new(*id, name, since.elapsed(), &stats);
            view.peer = connection.peer_key().to_string();
            view
        });
        let (streams, streams_total) = shared.source.streams(Snapshot::STREAMS_MAX);
        Snapshot {
            role: shared.role.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: shared.instance.clone(),
            pid: std::process::id(),
            title: shared.title.clone(),
            uptime: shared.started.elapsed().as_secs_f64(),
            connections: connections.collect(),
            proxy: shared.source.proxy(),
            streams,
            streams_total,
            socket: shared.source.endpoint().as_ref().map(Into::into),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The connection may close by this, so not under the lock.
        let entry = self.shared.lock().remove(&self.id);
        drop(entry);
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer")
            .field("role", &self.shared.role)
            .field("title", &self.shared.title)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").field("id", &self.id).finish()
    }
}

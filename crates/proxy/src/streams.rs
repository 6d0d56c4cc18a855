//! The connections that a proxy relays right now, for whoever shows them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::target::Target;

/// One relayed connection at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSnapshot {
    /// Grows with each connection of the proxy, from 0.
    pub id: u64,
    /// Where it leads.
    pub target: Target,
    /// Whose it is; empty where nobody said so.
    pub client: Arc<str>,
    /// How long it has been relayed.
    pub age: Duration,
    /// Bytes relayed from the application towards the target.
    pub bytes_up: u64,
    /// Bytes relayed from the target towards the application.
    pub bytes_down: u64,
}

/// One relayed connection; it leaves the list when this is dropped.
#[derive(Debug)]
pub(crate) struct Listed {
    streams: Arc<Streams>,
    record: Arc<Record>,
}

#[derive(Debug)]
pub(crate) struct Record {
    id: u64,
    target: Target,
    client: Arc<str>,
    since: Instant,
    pub(crate) bytes_up: AtomicU64,
    pub(crate) bytes_down: AtomicU64,
}

/// The list. It is as long as the proxy has connections, which are limited.
#[derive(Debug, Default)]
pub struct Streams {
    next: AtomicU64,
    live: Mutex<BTreeMap<u64, Arc<Record>>>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Record>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a connection on the list.
    pub(crate) fn list(self: &Arc<Self>, target: &Target, client: &Arc<str>) -> Listed {
        let record = Arc::new(Record {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            target: target.clone(),
            client: client.clone(),
            since: Instant::now(),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
        });
        self.lock().insert(record.id, record.clone());
        Listed {
            streams: self.clone(),
            record,
        }
    }

    /// The newest `count` of them, newest first, and how many there are.
    pub fn newest(&self, count: usize) -> (Vec<StreamSnapshot>, usize) {
        let live = self.lock();
        let newest = live
            .values()
            .rev()
            .take(count)
            .map(|record| StreamSnapshot {
                id: record.id,
                target: record.target.clone(),
                client: record.client.clone(),
                age: record.since.elapsed(),
                bytes_up: record.bytes_up.load(Ordering::Relaxed),
                bytes_down: record.bytes_down.load(Ordering::Relaxed),
            });
        (newest.collect(), live.len())
    }
}

impl Listed {
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.record.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_listed_while_it_is_relayed() {
        let streams = Arc::new(Streams::default());
        let target: Target = "example.com:80".parse().expect("a target");
        let first = streams.list(&target, &"anna".into());
        let second = streams.list(&target, &"".into());
        first.record().bytes_up.fetch_add(7, Ordering::Relaxed);
        let (newest, total) = streams.newest(1);
        assert_eq!((newest[0].id, total), (1, 2));
        drop(second);
        let (newest, total) = streams.newest(9);
        assert_eq!((newest.len(), total), (1, 1));
        assert_eq!((&*newest[0].client, newest[0].bytes_up), ("anna", 7));
        drop(first);
        assert_eq!(streams.newest(9).1, 0);
    }
}

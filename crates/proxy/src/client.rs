//! The clients of a server: what each is called, may take and has taken. One
//! record for all connections that show the same key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::key::Key;
use crate::limits::Limits;
use crate::throttle::Bucket;

/// Speed tests of one client at once: one, and one whose end has not been noticed.
const CLIENT_TESTS_MAX: u64 = 2;

/// One client. The default one has no name and no limits.
#[derive(Debug, Default)]
pub struct Client {
    name: RwLock<Arc<str>>,
    limits: RwLock<Limits>,
    streams: AtomicU64,
    streams_refused: AtomicU64,
    tests: AtomicU64,
    up: Direction,
    down: Direction,
}

#[derive(Debug, Default)]
struct Direction {
    bucket: Bucket,
    bytes: AtomicU64,
}

/// A client at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSnapshot {
    /// What it is called; empty if nobody knows.
    pub name: Arc<str>,
    /// What it may take.
    pub limits: Limits,
    /// Streams at once now.
    pub streams: u64,
    /// Streams refused because of the limit.
    pub streams_refused: u64,
    /// Bytes relayed towards targets.
    pub bytes_up: u64,
    /// Bytes relayed from targets.
    pub bytes_down: u64,
}

/// Counts as one stream of the client until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Client>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts as a speed test of the client until it is dropped.
#[derive(Debug)]
pub(crate) struct Testing(Arc<Client>);

impl Drop for Testing {
    fn drop(&mut self) {
        self.0.tests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Direction {
    fn pay(&self, len: usize) -> bool {
        let is_paid = self.bucket.pay(len);
        if is_paid {
            self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        is_paid
    }
}

impl Client {
    /// A client of this name without limits.
    pub fn named(name: &str) -> Self {
        let client = Self::default();
        client.set_name(name);
        client
    }

    /// What it is called.
    pub fn name(&self) -> Arc<str> {
        let name = self.name.read();
        name.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_name(&self, name: &str) {
        let mut own = self.name.write().unwrap_or_else(PoisonError::into_inner);
        if **own != *name {
            *own = name.into();
        }
    }

    /// What it may take.
    pub fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what it may take from now on; streams that it has stay.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
        self.up.bucket.set(limits.rate);
        self.down.bucket.set(limits.rate);
    }

    /// One more stream, or how many it may have at once.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Admitted, u32> {
        let limit = self.limits().streams;
        let before = self.streams.fetch_add(1, Ordering::Relaxed);
        let admitted = Admitted(self.clone());
        match limit {
            Some(limit) if before >= u64::from(limit) => {
                self.streams_refused.fetch_add(1, Ordering::Relaxed);
                Err(limit)
            }
            _ => Ok(admitted),
        }
    }

    /// One more speed test, unless as many run as one client may have.
    pub(crate) fn begin_test(self: &Arc<Self>) -> Option<Testing> {
        let before = self.tests.fetch_add(1, Ordering::Relaxed);
        let testing = Testing(self.clone());
        (before < CLIENT_TESTS_MAX).then_some(testing)
    }

    /// Pays for a datagram towards a target, and counts it; false: drop it.
    pub(crate) fn pay_up(&self, len: usize) -> bool {
        self.up.pay(len)
    }

    /// The same from a target.
    pub(crate) fn pay_down(&self, len: usize) -> bool {
        self.down.pay(len)
    }

    pub(crate) fn upward(&self) -> (&Bucket, &AtomicU64) {
        (&self.up.bucket, &self.up.bytes)
    }

    pub(crate) fn downward(&self) -> (&Bucket, &AtomicU64) {
        (&self.down.bucket, &self.down.bytes)
    }

    /// Everything about it, now.
    pub fn snapshot(&self) -> ClientSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ClientSnapshot {
            name: self.name(),
            limits: self.limits(),
            streams: load(&self.streams),
            streams_refused: load(&self.streams_refused),
            bytes_up: load(&self.up.bytes),
            bytes_down: load(&self.down.bytes),
        }
    }
}

/// The clients that have come in since the start; no more than the allow-list has
/// had at once, and those still connected that left it.
#[derive(Debug, Default)]
pub struct Clients {
    known: Mutex<BTreeMap<Key, Arc<Client>>>,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Client>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a client, made if it is new; name and limits are those of now.
    pub fn record(&self, key: &Key, name: &str, limits: Limits) -> Arc<Client> {
        let client = self.lock().entry(*key).or_default().clone();
        client.set_name(name);
        client.set_limits(limits);
        client
    }

    /// Gives each client its name and limits anew; one of which `of` knows nothing
    /// is forgotten unless it is still connected.
    pub fn update<'a>(&self, of: impl Fn(&Key) -> Option<(&'a str, Limits)>) {
        self.lock().retain(|key, client| match of(key) {
            Some((name, limits)) => {
                client.set_name(name);
                client.set_limits(limits);
                true
            }
            None => Arc::strong_count(client) > 1,
        });
    }

    /// The first `count` by name, those of one name together as one: their numbers
    /// added, the limits those of the first.
    pub fn snapshot(&self, count: usize) -> Vec<ClientSnapshot> {
        let mut by_name: BTreeMap<Arc<str>, ClientSnapshot> = BTreeMap::new();
        for client in self.lock().values() {
            let now = client.snapshot();
            match by_name.get_mut(&now.name) {
                None => {
                    by_name.insert(now.name.clone(), now);
                }
                Some(sum) => {
                    sum.streams += now.streams;
                    sum.streams_refused += now.streams_refused;
                    sum.bytes_up += now.bytes_up;
                    sum.bytes_down += now.bytes_down;
                }
            }
        }
        by_name.into_values().take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Limits {
        text.parse().expect(text)
    }

    #[test]
    fn a_client_has_no_more_streams_than_it_may() {
        let clients = Clients::default();
        let anna = clients.record(&[1; 32], "anna", limits("streams=2"));
        let again = clients.record(&[1; 32], "anna", limits("streams=2"));
        let first = anna.admit().expect("one");
        let _second = again.admit().expect("two, by another connection");
        assert_eq!(anna.admit().err(), Some(2));
        drop(first);
        let _third = anna.admit().expect("one has ended");
        let other = clients.record(&[2; 32], "bob", limits("streams=2"));
        let _others = other.admit().expect("it is somebody else's limit");
        let seen = anna.snapshot();
        assert_eq!((seen.streams, seen.streams_refused), (2, 1));
        anna.set_limits(limits("streams=0"));
        assert_eq!(anna.admit().err(), Some(0));
    }

    #[test]
    fn clients_are_forgotten_once_they_left_the_list_and_the_server() {
        let clients = Clients::default();
        let anna = clients.record(&[1; 32], "anna", Limits::default());
        clients.record(&[2; 32], "bob", Limits::default());
        clients.record(&[3; 32], "bob", Limits::default());
        assert_eq!(clients.snapshot(9).len(), 2, "one name, one line");
        assert_eq!(clients.snapshot(1).len(), 1);
        clients.update(|key| (*key == [3; 32]).then_some(("carl", limits("streams=1"))));
        let names: Vec<_> = clients.snapshot(9).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["anna".into(), Arc::<str>::from("carl")]);
        drop(anna);
        clients.update(|_| None);
        assert!(clients.snapshot(9).is_empty());
    }
}

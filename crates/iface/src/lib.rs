//! The host's network interfaces, with their addresses, routes and rules.
//!
//! [`Snapshot::take`] asks the kernel what there is; [`Watcher`] tells when
//! something has changed; [`PolicyRoutes`] are the routes and rules that lead
//! packets out of the interface whose address they bear ([MP12] Table II), which
//! can be printed, set and taken back.
//!
//! What follows from a snapshot is worked out by pure functions, so that a table
//! of routes is their whole test. Everything is of the network namespace that the
//! calling thread is in. Linux only: it speaks rtnetlink [RFC3549].
#![cfg(target_os = "linux")]

mod netlink;
mod policy;
mod snapshot;
mod watch;

pub use policy::{AppliedRoutes, ApplyError, PolicyRoute, PolicyRoutes, TABLE_BASE};
pub use snapshot::{Address, Interface, Prefix, Route, Rule, Snapshot, SnapshotError};
pub use watch::Watcher;

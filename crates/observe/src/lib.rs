//! What a running connection shows: Prometheus metrics, a live page, a control
//! socket, qlog traces.
//!
//! An [`Observer`] knows the connections of a process and, through a [`Source`],
//! what the process does with them. It keeps no history and has no clock of its
//! own: everything is read when somebody asks, so it costs nothing while nobody
//! looks. [`http`] answers who asks, over TCP or a Unix socket; [`control`] asks.
//! A [`QlogFolder`] writes down what happens to each packet.
//!
//! Nothing here changes anything: all of it is read-only.

pub mod access;
mod body;
pub mod control;
pub mod http;
mod metrics;
mod observer;
mod page;
mod qlog;
mod snapshot;

pub use metrics::{CONTENT_TYPE, MetricInfo, metric_list};
pub use observer::{Observer, Shown, Source};
pub use qlog::{QlogFolder, QlogFolderError};
pub use snapshot::{
    ClientView, ConnectionView, DelayView, PacketView, PathView, ProxyView, Snapshot, SocketView,
    StreamView,
};

//! The network of one point: two namespaces, the emulator between them, and an
//! address of its own for each flow on each path.
//!
//! ```text
//!  client (left)                                        server (right)
//!  10.100.0.1  ─┐                                    ┌─ 10.100.0.2    flow 0
//!  10.101.0.1  ─┴─ path0 ── up ─▶ / ◀─ down ── path0 ─┴─ 10.101.0.2    flow 1
//!  10.100.1.1  ─── path1 ── up ─▶ / ◀─ down ── path1 ─── 10.100.1.2    flow 0
//! ```
//!
//! The route to a flow's address carries the flow's congestion control, so that
//! programs that know nothing of it use it: the sysctl is for root alone.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use ctcp_emu::namespace::Route;
use ctcp_emu::router::RouterCounters;
use ctcp_emu::{Namespace, Network, NetworkConfig, PathConfig};

use crate::links;
use crate::point::{Point, System};
use crate::record::PathOutcome;
use crate::venue::{RunError, Timing, direction};

/// First number of the flows' networks: flow f on path p is 10.(100 + f).p.
const FLOW_NETWORK: u8 = 100;

/// Most flows of a point.
pub(crate) const FLOWS_MAX: usize = 100;
/// Most paths of a point.
pub(crate) const PATHS_MAX: usize = 16;

/// Most paths of a flow over each path of a point.
pub(crate) const WAYS_MAX: u32 = 8;

/// Sysctls of both namespaces, with the reasons.
const SYSCTLS: [(&str, &str); 4] = [
    // Room for the longest path: no window but the congestion window may bind.
    // The middle numbers, from which the kernel tunes, are its own.
    ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
    ("net.ipv4.tcp_wmem", "4096 16384 67108864"),
    // One connection learns nothing from another.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_fastopen", "0"),
];

/// A client and a server, joined by emulated paths. It vanishes when dropped.
#[derive(Debug)]
pub(crate) struct Bed {
    network: Network,
    path_count: usize,
    /// When the paths began to change, if they do.
    began: Instant,
}

impl Bed {
    /// Puts it up for a point.
    pub(crate) fn put_up(point: &Point) -> Result<Self, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Failed(error.to_string());
        let mut config = NetworkConfig {
            seed: point.loss_seed,
            ..NetworkConfig::default()
        };
        for path in &point.paths {
            let links = links::of_path(path).map_err(RunError::Failed)?;
            let next = config.links.len();
            config.links.extend([links.up, links.down]);
            config.paths.push(PathConfig {
                mtu_bytes: u16::try_from(path.mtu_bytes)
                    .map_err(|_| RunError::Failed(format!("MTU {}: too large", path.mtu_bytes)))?,
                ..PathConfig::new(next, next + 1).between("client", "server")
            });
        }
        let network = Network::start(config).map_err(|error| failed(&error))?;
        let bed = Self {
            network,
            path_count: point.paths.len(),
            began: Instant::now(),
        };
        bed.set_up(point).map_err(|error| failed(&error))?;
        Ok(bed)
    }

    fn set_up(&self, point: &Point) -> Result<(), ctcp_emu::NamespaceError> {
        for namespace in [self.client(), self.server()] {
            for (name, value) in SYSCTLS {
                namespace.set_sysctl(name, value)?;
            }
        }
        for (index, flow) in point.flows.iter().enumerate() {
            let congestion = match &flow.system {
                System::Tcp { congestion } | System::Mptcp { congestion } => Some(congestion),
                _ => None,
            };
            for path in 0..self.path_count {
                let (near, far) = (
                    self.client_address(path, index),
                    self.server_address(path, index),
                );
                let device = format!("path{path}");
                for (namespace, own, other) in
                    [(self.client(), near, far), (self.server(), far, near)]
                {
                    namespace.add_address(&device, own.into(), 32)?;
                    namespace.set_route(&Route {
                        source: Some(own.into()),
                        congestion: congestion.cloned(),
                        ..Route::new(other.into(), 32, &device)
                    })?;
                }
                for way in 1..flow.paths_each {
                    let near = self.way_address(path, index, way);
                    self.client().add_address(&device, near.into(), 32)?;
                    self.server().set_route(&Route {
                        source: Some(far.into()),
                        ..Route::new(near.into(), 32, &device)
                    })?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> &Namespace {
        self.network
            .namespace("client")
            .expect("every path leads there")
    }

    pub(crate) fn server(&self) -> &Namespace {
        self.network
            .namespace("server")
            .expect("every path leads there")
    }

    /// When it was put up: what paths do over time counts from here, and so do the
    /// flows' starts.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn path_count(&self) -> usize {
        self.path_count
    }

    /// The client's address of a flow on a path.
    pub(crate) fn client_address(&self, path: usize, flow: usize) -> Ipv4Addr {
        address(path, flow, 1)
    }

    /// The address of the client for a further path of a flow over a path, counted
    /// from 1.
    pub(crate) fn way_address(&self, path: usize, flow: usize, way: u32) -> Ipv4Addr {
        address(path, flow, 2 + way as u8)
    }

    /// The server's address of a flow on a path.
    pub(crate) fn server_address(&self, path: usize, flow: usize) -> Ipv4Addr {
        address(path, flow, 2)
    }

    /// IP bytes that senders have put on all paths in the direction of the data,
    /// before any loss.
    pub(crate) fn offered_bytes_down(&self) -> u64 {
        // A router that has ended is reported at the end of the run.
        let counters = self.network.router().counters().unwrap_or_default();
        let down = counters.links.iter().skip(1).step_by(2);
        down.map(|link| link.offered_bytes).sum()
    }

    /// What the paths saw, and how late the emulator was.
    pub(crate) fn outcome(&self) -> Result<(Vec<PathOutcome>, Timing), RunError> {
        let counters = self.network.router().counters();
        let counters = counters.map_err(|error| RunError::Failed(error.to_string()))?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let timing = Timing {
            p50_us: micros(counters.timing.p50),
            p99_us: micros(counters.timing.p99),
        };
        check(&counters)?;
        let paths = counters.links.chunks(2).map(|pair| PathOutcome {
            up: direction(&pair[0]),
            down: direction(&pair[1]),
        });
        Ok((paths.collect(), timing))
    }
}

/// Packets that the emulator's devices lost would look like losses of the path.
fn check(counters: &RouterCounters) -> Result<(), RunError> {
    for path in &counters.paths {
        if path.write_errors > 0 || path.read_errors > 0 {
            return Err(RunError::Failed(format!(
                "the emulator could not deliver {} packets and not read {}: the result does not \
                 count; run fewer at the same time (--jobs)",
                path.write_errors, path.read_errors
            )));
        }
    }
    Ok(())
}

fn address(path: usize, flow: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, FLOW_NETWORK + flow as u8, path as u8, host)
}

/// The address as programs take it.
pub(crate) fn text(address: Ipv4Addr) -> String {
    IpAddr::from(address).to_string()
}

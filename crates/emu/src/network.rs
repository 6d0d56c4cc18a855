//! Namespaces joined by emulated paths, put up in one go.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ctcp_link::LinkConfig;
use ctcp_units::Duration;
use thiserror::Error;

use crate::attachment::{self, Attachment, AttachmentKind};
use crate::namespace::{Namespace, NamespaceError, Route};
use crate::router::{Router, RouterConfig, RouterError, RouterHandle, RouterPath};

/// Most paths of a network: their subnets are 10.77.0 to 10.77.199.
pub const PATHS_MAX: usize = 200;

/// Bytes of the largest packet of an Ethernet path.
pub const MTU_BYTES: u16 = 1500;

/// A path between two namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathConfig {
    /// Name of the namespace at one end.
    pub left: String,
    /// Name of the namespace at the other end.
    pub right: String,
    /// Indices of the links from left to right, in order.
    pub forward: Vec<usize>,
    /// Indices of the links from right to left, in order.
    pub backward: Vec<usize>,
    /// MTU of the devices at both ends. Default: [`MTU_BYTES`].
    pub mtu_bytes: u16,
}

impl PathConfig {
    /// A path between namespaces `left` and `right` through one link each way.
    pub fn new(forward: usize, backward: usize) -> Self {
        Self {
            left: "left".to_owned(),
            right: "right".to_owned(),
            forward: vec![forward],
            backward: vec![backward],
            mtu_bytes: MTU_BYTES,
        }
    }

    /// Sets the names of the namespaces at the ends.
    #[must_use]
    pub fn between(self, left: &str, right: &str) -> Self {
        Self {
            left: left.to_owned(),
            right: right.to_owned(),
            ..self
        }
    }
}

/// What a network consists of.
#[derive(Debug, Clone, Default)]
pub struct NetworkConfig {
    /// The links, each of one direction.
    pub links: Vec<LinkConfig>,
    /// The paths. The namespaces are those that they name.
    pub paths: Vec<PathConfig>,
    /// Names the random choices of all links.
    pub seed: u64,
    /// How namespaces are attached; none: the best that can be had.
    pub attachment: Option<AttachmentKind>,
}

impl NetworkConfig {
    /// Namespaces `left` and `right` and one path with these links.
    pub fn single(forward: LinkConfig, backward: LinkConfig) -> Self {
        let mut config = Self::default();
        config.add_path(forward, backward);
        config
    }

    /// Adds a path between `left` and `right` with links of its own.
    pub fn add_path(&mut self, forward: LinkConfig, backward: LinkConfig) {
        let next = self.links.len();
        self.links.extend([forward, backward]);
        self.paths.push(PathConfig::new(next, next + 1));
    }
}

/// Why a network cannot be put up. Nothing is left of it.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// There are no paths, or too many.
    #[error("{count} paths: a network has 1 to {PATHS_MAX}")]
    PathCount {
        /// How many were asked for.
        count: usize,
    },
    /// A path leads from a namespace to itself.
    #[error("path {index} leads from `{name}` to itself")]
    Loop {
        /// Which path.
        index: usize,
        /// Which namespace.
        name: String,
    },
    /// Namespaces cannot be attached to the router.
    #[error("no way to attach namespaces: {0}")]
    Attachment(String),
    /// A namespace cannot be made or set up.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The router does not run.
    #[error(transparent)]
    Router(#[from] RouterError),
}

/// One end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEnd {
    /// Name of the namespace.
    pub namespace: String,
    /// Its device: `path0` for path 0, and so on.
    pub device: String,
    /// The device's address.
    pub address: IpAddr,
}

/// A path as it was put up: the addresses of both ends are in a network of their
/// own, so the far address that a program talks to selects the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// One end.
    pub left: PathEnd,
    /// The other end.
    pub right: PathEnd,
}

/// Bits of a path's network.
const PREFIX_LEN: u8 = 24;

/// How TCP behaves on a path, both ways. What is none is as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpTuning {
    /// Congestion control, such as `cubic`; it must be loaded.
    pub congestion: Option<String>,
    /// Initial window, in packets.
    pub initial_window_packets: Option<u32>,
    /// Shortest retransmission timeout, in whole milliseconds.
    pub rto_min: Option<Duration>,
}

/// Namespaces joined by emulated paths. Dropping it ends their programs and
/// removes everything.
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    namespaces: BTreeMap<String, Namespace>,
    paths: Vec<Path>,
    attachment: AttachmentKind,
    router: RouterHandle,
    /// Where the near ends of `veth` pairs live.
    _wires: Option<Namespace>,
}

impl Network {
    /// Puts up a network.
    ///
    /// # Errors
    /// A [`NetworkError`] that names what is impossible, with the remedy.
    pub fn start(config: NetworkConfig) -> Result<Self, NetworkError> {
        let NetworkConfig {
            links,
            paths,
            seed,
            attachment,
        } = config.clone();
        let count = paths.len();
        if count == 0 || count > PATHS_MAX {
            return Err(NetworkError::PathCount { count });
        }
        for (index, path) in paths.iter().enumerate() {
            if path.left == path.right {
                let name = path.left.clone();
                return Err(NetworkError::Loop { index, name });
            }
        }
        let kind = match attachment {
            Some(kind) => kind,
            None => attachment::best().map_err(NetworkError::Attachment)?,
        };
        let wires = match kind {
            AttachmentKind::Tun => None,
            AttachmentKind::Veth => Some(Namespace::new("wires")?),
        };
        let mut namespaces = BTreeMap::new();
        for name in paths.iter().flat_map(|path| [&path.left, &path.right]) {
            if !namespaces.contains_key(name) {
                namespaces.insert(name.clone(), Namespace::new(name)?);
            }
        }
        let (mut router_paths, mut put_up) = (Vec::new(), Vec::new());
        for (index, path) in paths.into_iter().enumerate() {
            let end = |name: &str, host| -> Result<_, NamespaceError> {
                let end = PathEnd {
                    namespace: name.to_owned(),
                    device: format!("path{index}"),
                    address: Ipv4Addr::new(10, 77, index as u8, host).into(),
                };
                let namespace = &namespaces[name];
                let attachment = match &wires {
                    None => Attachment::tun(namespace, &end.device, path.mtu_bytes),
                    Some(wires) => Attachment::veth(namespace, wires, &end.device, path.mtu_bytes),
                }?;
                namespace.add_address(&end.device, end.address, PREFIX_LEN)?;
                Ok((attachment, end))
            };
            let (left_attachment, left) = end(&path.left, 1)?;
            let (right_attachment, right) = end(&path.right, 2)?;
            router_paths.push(RouterPath {
                left: left_attachment,
                right: right_attachment,
                forward: path.forward,
                backward: path.backward,
            });
            put_up.push(Path { left, right });
        }
        let router = Router::spawn(RouterConfig {
            links,
            paths: router_paths,
            seed,
        })?;
        Ok(Self {
            config,
            namespaces,
            paths: put_up,
            attachment: kind,
            router,
            _wires: wires,
        })
    }

    /// What it was put up with.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// The namespace of this name, if a path names it.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// The paths, by index.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// How the namespaces are attached.
    pub fn attachment(&self) -> AttachmentKind {
        self.attachment
    }

    /// The router between the namespaces.
    pub fn router(&self) -> &RouterHandle {
        &self.router
    }

    /// Packets that programs sent into path `index` at its left and its right end
    /// and that the router never saw, because it was kept from running for longer
    /// than devices and buffers could bridge. Exact when nothing is under way.
    ///
    /// # Errors
    /// [`NetworkError::Router`] if there is no such path, or the router has ended.
    pub fn missed(&self, index: usize) -> Result<(u64, u64), NetworkError> {
        let count = self.paths.len();
        let path = self
            .paths
            .get(index)
            .ok_or(RouterError::NoSuchPath { index, count })?;
        let missed = |end: &PathEnd, seen: u64| -> Result<u64, NamespaceError> {
            let sent = self.namespaces[&end.namespace].device_counts(&end.device)?;
            Ok(match self.attachment {
                AttachmentKind::Tun => sent.dropped,
                AttachmentKind::Veth => sent.packets.saturating_sub(seen),
            })
        };
        let seen = self.router.counters()?.paths[index];
        let left = missed(&path.left, seen.from_left)?;
        Ok((left, missed(&path.right, seen.from_right)?))
    }

    /// Sets what TCP connections over path `index` start from, at both ends.
    /// Connections that exist keep what they have.
    ///
    /// # Errors
    /// [`NetworkError::Namespace`] if the congestion control is not loaded;
    /// [`NetworkError::Router`] if there is no such path.
    pub fn tune_tcp(&self, index: usize, tuning: &TcpTuning) -> Result<(), NetworkError> {
        let count = self.paths.len();
        let path = self
            .paths
            .get(index)
            .ok_or(RouterError::NoSuchPath { index, count })?;
        for end in [&path.left, &path.right] {
            let network = Ipv4Addr::new(10, 77, index as u8, 0);
            let route = Route {
                source: Some(end.address),
                congestion: tuning.congestion.clone(),
                initial_window_packets: tuning.initial_window_packets,
                rto_min: tuning.rto_min,
                ..Route::new(network.into(), PREFIX_LEN, &end.device)
            };
            self.namespaces[&end.namespace].set_route(&route)?;
        }
        Ok(())
    }
}

//! Routes and rules by which packets leave the interface whose address they bear:
//! [MP12] Table II, with a rule on the source address in place of its mark.
//!
//! A socket that is bound to its interface needs none of this. It is for systems
//! where that is not allowed, for reverse path filters that are strict, and for
//! other programs.

use std::fmt;
use std::io;
use std::net::IpAddr;

use thiserror::Error;

use crate::netlink;
use crate::snapshot::{Interface, Prefix, Snapshot, TABLE_MAIN};

/// The table of an interface is this plus the interface's number: clear of what
/// distributions and VPNs use.
pub const TABLE_BASE: u32 = 771_200;

/// Priority of the rules: before those that lead to the main table (32766).
const PRIORITY: u32 = 7712;

/// One route or rule, that prints as the `ip` command that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyRoute {
    /// The route to the interface's own network.
    Network {
        /// The interface's table.
        table: u32,
        /// The network.
        network: Prefix,
        /// The interface's name.
        device: String,
        /// Its number.
        index: u32,
        /// Its address there.
        source: IpAddr,
    },
    /// The route to everywhere else.
    Default {
        /// The interface's table.
        table: u32,
        /// The next router; none on links with two ends.
        gateway: Option<IpAddr>,
        /// The interface's name.
        device: String,
        /// Its number.
        index: u32,
        /// Its address, which tells the family.
        source: IpAddr,
    },
    /// The rule that leads packets with the interface's address to its table.
    Rule {
        /// The address.
        source: IpAddr,
        /// The table.
        table: u32,
        /// Its place among the rules.
        priority: u32,
    },
}

impl fmt::Display for PolicyRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network {
                table,
                network,
                device,
                source,
                ..
            } => write!(
                f,
                "{} route add table {table} {network} dev {device} proto static src {source}",
                ip(*source)
            ),
            Self::Default {
                table,
                gateway,
                device,
                source,
                ..
            } => {
                write!(f, "{} route add table {table} default", ip(*source))?;
                if let Some(gateway) = gateway {
                    write!(f, " via {gateway}")?;
                }
                write!(f, " dev {device} proto static")
            }
            Self::Rule {
                source,
                table,
                priority,
            } => write!(
                f,
                "{} rule add from {source} table {table} priority {priority}",
                ip(*source)
            ),
        }
    }
}

/// The command for the family of an address.
fn ip(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "ip",
        IpAddr::V6(_) => "ip -6",
    }
}

/// A route or rule cannot be set.
#[derive(Debug, Error)]
#[error("cannot set `{line}`: {error}{}", remedy(.error))]
pub struct ApplyError {
    /// The command that would set it.
    pub line: String,
    /// What the kernel says.
    #[source]
    pub error: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run it as root",
        _ => "",
    }
}

/// All that some interfaces need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyRoutes {
    /// In the order in which they are set.
    pub list: Vec<PolicyRoute>,
}

impl PolicyRoutes {
    /// What these interfaces need: for each usable address its network, the
    /// default route by this interface, and a rule.
    pub fn plan<'a>(
        snapshot: &Snapshot,
        interfaces: impl IntoIterator<Item = &'a Interface>,
    ) -> Self {
        let mut list = Vec::new();
        for interface in interfaces {
            let usable = interface.addresses.iter().filter(|known| known.is_usable);
            for address in usable {
                let table = TABLE_BASE + interface.index;
                let (device, index) = (&interface.name, interface.index);
                list.push(PolicyRoute::Network {
                    table,
                    network: Prefix::new(address.ip, address.prefix_len),
                    device: device.clone(),
                    index,
                    source: address.ip,
                });
                let everything = Prefix::all_like(address.ip);
                let usual = |known: &&crate::Route| {
                    (known.to, known.interface, known.table) == (everything, index, TABLE_MAIN)
                };
                let way = snapshot.routes.iter().filter(usual);
                if let Some(way) = way.min_by_key(|route| route.metric) {
                    let default = PolicyRoute::Default {
                        table,
                        gateway: way.gateway,
                        device: device.clone(),
                        index,
                        source: address.ip,
                    };
                    if !list.contains(&default) {
                        list.push(default);
                    }
                }
                list.push(PolicyRoute::Rule {
                    source: address.ip,
                    table,
                    priority: PRIORITY,
                });
            }
        }
        Self { list }
    }

    /// Sets them all; dropping the result takes them back. Needs root.
    ///
    /// # Errors
    /// [`ApplyError`]: the first that the kernel refuses. Those before it have
    /// been taken back.
    pub fn apply(self) -> Result<AppliedRoutes, ApplyError> {
        let mut applied = AppliedRoutes { list: Vec::new() };
        for route in self.list {
            netlink::set(&route).map_err(|error| ApplyError {
                line: route.to_string(),
                error,
            })?;
            applied.list.push(route);
        }
        Ok(applied)
    }
}

/// Routes and rules that are set as long as this lives.
#[derive(Debug)]
pub struct AppliedRoutes {
    list: Vec<PolicyRoute>,
}

impl AppliedRoutes {
    /// How many.
    pub fn count(&self) -> usize {
        self.list.len()
    }
}

impl Drop for AppliedRoutes {
    fn drop(&mut self) {
        // Rules first: nothing must be led into an empty table.
        let (rules, routes): (Vec<_>, Vec<_>) = self
            .list
            .drain(..)
            .partition(|route| matches!(route, PolicyRoute::Rule { .. }));
        for route in rules.iter().chain(routes.iter().rev()) {
            if let Err(error) = netlink::unset(route) {
                tracing::warn!(%error, "cannot take back `{route}`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::laptop;

    #[test]
    fn the_commands_are_those_of_table_ii() {
        let laptop = laptop();
        let wanted = ["wlan0", "eth0"].map(|name| laptop.interface(name).expect("there"));
        let plan = PolicyRoutes::plan(&laptop, wanted);
        let lines: Vec<_> = plan.list.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "ip route add table 771203 10.9.0.0/16 dev wlan0 proto static src 10.9.8.7",
                "ip route add table 771203 default via 10.9.0.1 dev wlan0 proto static",
                "ip rule add from 10.9.8.7 table 771203 priority 7712",
                "ip route add table 771202 192.168.1.0/24 dev eth0 proto static src 192.168.1.5",
                "ip route add table 771202 default via 192.168.1.1 dev eth0 proto static",
                "ip rule add from 192.168.1.5 table 771202 priority 7712",
                "ip -6 route add table 771202 fd00::/64 dev eth0 proto static src fd00::5",
                "ip -6 rule add from fd00::5 table 771202 priority 7712",
            ]
        );
    }
}

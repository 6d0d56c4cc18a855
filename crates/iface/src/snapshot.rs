//! What interfaces there are, and where they lead.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::netlink;

/// Table that holds the host's own addresses (`local`).
const TABLE_LOCAL: u32 = 255;
/// Table that all packets are led by unless a rule says otherwise (`main`).
pub(crate) const TABLE_MAIN: u32 = 254;

/// The kernel does not say what there is.
#[derive(Debug, Error)]
#[error("cannot ask the kernel for {what}: {error}")]
pub struct SnapshotError {
    /// What was asked for.
    pub what: &'static str,
    /// What the kernel says.
    #[source]
    pub error: io::Error,
}

/// A network: an address of which the first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The address; bits that do not count are zero.
    pub ip: IpAddr,
    /// How many bits count.
    pub len: u8,
}

impl Prefix {
    /// The network of `len` bits around `ip`.
    pub fn new(ip: IpAddr, len: u8) -> Self {
        let ip = match ip {
            IpAddr::V4(ip) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(len.min(32)));
                Ipv4Addr::from_bits(ip.to_bits() & kept.unwrap_or(0)).into()
            }
            IpAddr::V6(ip) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(len.min(128)));
                Ipv6Addr::from_bits(ip.to_bits() & kept.unwrap_or(0)).into()
            }
        };
        Self { ip, len }
    }

    /// Everything of the family of `ip`.
    pub fn all_like(ip: IpAddr) -> Self {
        Self::new(ip, 0)
    }

    /// Whether `ip` is inside.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && Self::new(ip, self.len) == *self
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => f.write_str("default"),
            len => write!(f, "{}/{len}", self.ip),
        }
    }
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Bits of its network.
    pub prefix_len: u8,
    /// It may be sent from, to anywhere: its scope is global and the kernel has no
    /// doubts about it (duplicate, tentative, deprecated).
    pub is_usable: bool,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it: one that comes back has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// It is switched on.
    pub is_up: bool,
    /// It has a carrier.
    pub is_running: bool,
    /// It leads nowhere but here.
    pub is_loopback: bool,
    /// Longest packet, bytes.
    pub mtu_bytes: u32,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<Address>,
    /// IPv4's reverse path filter as it works on this interface: 0 off, 1 strict
    /// (what comes in must have come by the way that answers would take), 2 loose
    /// ([RFC3704] §2.2, §2.4).
    pub rp_filter: u8,
}

impl Interface {
    /// The address to send from to `remote`: the first usable one of its family.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let mut usable = self.addresses.iter().filter(|address| address.is_usable);
        let found = usable.find(|address| address.ip.is_ipv4() == remote.is_ipv4());
        found.map(|address| address.ip)
    }

    /// Packets can leave by it.
    pub const fn is_working(&self) -> bool {
        self.is_up && self.is_running
    }
}

/// A unicast route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: Prefix,
    /// The interface's number.
    pub interface: u32,
    /// The next router; none if `to` is on the link.
    pub gateway: Option<IpAddr>,
    /// The table it stands in.
    pub table: u32,
    /// The lowest wins among routes to the same network.
    pub metric: u32,
}

/// A rule that chooses a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The lowest is asked first.
    pub priority: u32,
    /// It is for packets from here.
    pub from: Option<Prefix>,
    /// The table it names.
    pub table: u32,
}

/// What the kernel had when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// All interfaces, by number.
    pub interfaces: Vec<Interface>,
    /// Unicast routes of all tables but the one of own addresses.
    pub routes: Vec<Route>,
    /// Rules that lead to tables.
    pub rules: Vec<Rule>,
}

impl Snapshot {
    /// Asks the kernel.
    ///
    /// # Errors
    /// [`SnapshotError`]: netlink sockets are forbidden here, or memory is short.
    pub fn take() -> Result<Self, SnapshotError> {
        let failed = |what| move |error| SnapshotError { what, error };
        let mut interfaces = netlink::interfaces().map_err(failed("interfaces"))?;
        for (index, address) in netlink::addresses().map_err(failed("addresses"))? {
            if let Some(interface) = interfaces.iter_mut().find(|known| known.index == index) {
                interface.addresses.push(address);
            }
        }
        for interface in &mut interfaces {
            // The stricter of both counts.
            let set = |name: &str| rp_filter(name).unwrap_or(0);
            interface.rp_filter = set("all").max(set(&interface.name));
        }
        interfaces.sort_by_key(|interface| interface.index);
        let mut routes = netlink::routes().map_err(failed("routes"))?;
        routes.retain(|route| route.table != TABLE_LOCAL);
        Ok(Self {
            interfaces,
            routes,
            rules: netlink::rules().map_err(failed("rules"))?,
        })
    }

    /// The interface of this name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|known| known.name == name)
    }

    /// The interface that has this address.
    pub fn interface_with(&self, ip: IpAddr) -> Option<&Interface> {
        let has = |known: &&Interface| known.addresses.iter().any(|address| address.ip == ip);
        self.interfaces.iter().find(has)
    }

    /// The route that leads out of interface number `index` to `remote`, in
    /// whatever table: a socket bound to the interface takes it. The longest
    /// prefix wins, then the lowest metric.
    pub fn way(&self, index: u32, remote: IpAddr) -> Option<&Route> {
        self.best(remote, |route| route.interface == index)
    }

    /// The route to `remote` of packets that no rule treats in a special way.
    pub fn main_way(&self, remote: IpAddr) -> Option<&Route> {
        self.best(remote, |route| route.table == TABLE_MAIN)
    }

    /// Whether a rule leads packets from `source` to another table than the usual
    /// ones.
    pub fn has_rule_for(&self, source: IpAddr) -> bool {
        self.rules.iter().any(|rule| {
            rule.from.is_some_and(|from| from.contains(source)) && rule.table != TABLE_MAIN
        })
    }

    /// Whether the reverse path filter drops what comes from `remote` by this
    /// interface to its address `source`: it is strict, and the answer would take
    /// another way.
    pub fn is_filtered(&self, interface: &Interface, source: IpAddr, remote: IpAddr) -> bool {
        let is_elsewhere = || {
            let way = self.main_way(remote);
            way.is_none_or(|route| route.interface != interface.index)
        };
        interface.rp_filter == 1 && remote.is_ipv4() && !self.has_rule_for(source) && is_elsewhere()
    }

    /// Interfaces by which `remote` can be reached, with the address to send from.
    pub fn usable(&self, remote: IpAddr) -> impl Iterator<Item = (&Interface, IpAddr)> {
        let working = self
            .interfaces
            .iter()
            .filter(|interface| interface.is_working() && !interface.is_loopback);
        working.filter_map(move |interface| {
            self.way(interface.index, remote)?;
            Some((interface, interface.source_for(remote)?))
        })
    }

    fn best(&self, remote: IpAddr, is_asked: impl Fn(&Route) -> bool) -> Option<&Route> {
        let leading = self
            .routes
            .iter()
            .filter(|route| is_asked(route) && route.to.contains(remote));
        leading.min_by_key(|route| (u8::MAX - route.to.len, route.metric))
    }
}

fn rp_filter(name: &str) -> Option<u8> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
    text.ok()?.trim().parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    pub(crate) fn prefix(text: &str) -> Prefix {
        let (address, len) = text.split_once('/').expect("a prefix");
        Prefix::new(ip(address), len.parse().expect("bits"))
    }

    fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
        let address = |text: &&str| {
            let (address, len) = text.split_once('/').expect("a prefix");
            Address {
                ip: ip(address),
                prefix_len: len.parse().expect("bits"),
                is_usable: !address.starts_with("fe80"),
            }
        };
        Interface {
            index,
            name: name.to_owned(),
            is_up: true,
            is_running: true,
            is_loopback: name == "lo",
            mtu_bytes: 1500,
            addresses: addresses.iter().map(address).collect(),
            rp_filter: 0,
        }
    }

    fn route(to: &str, index: u32, gateway: Option<&str>, metric: u32) -> Route {
        Route {
            to: prefix(to),
            interface: index,
            gateway: gateway.map(ip),
            table: TABLE_MAIN,
            metric,
        }
    }

    /// A laptop: Ethernet, Wi-Fi, and a modem without IPv4.
    pub(crate) fn laptop() -> Snapshot {
        Snapshot {
            interfaces: vec![
                interface(1, "lo", &["127.0.0.1/8"]),
                interface(2, "eth0", &["192.168.1.5/24", "fe80::1/64", "fd00::5/64"]),
                interface(3, "wlan0", &["10.9.8.7/16"]),
                interface(4, "wwan0", &["fd77::2/64"]),
            ],
            routes: vec![
                route("0.0.0.0/0", 2, Some("192.168.1.1"), 100),
                route("0.0.0.0/0", 3, Some("10.9.0.1"), 600),
                route("192.168.1.0/24", 2, None, 100),
                route("10.9.0.0/16", 3, None, 600),
                route("fd00::/64", 2, None, 256),
                route("::/0", 4, None, 1024),
            ],
            rules: vec![],
        }
    }

    #[test]
    fn a_prefix_holds_what_begins_as_it_does() {
        assert_eq!(prefix("10.9.8.7/16").to_string(), "10.9.0.0/16");
        assert_eq!(prefix("10.9.8.7/0").to_string(), "default");
        assert!(prefix("10.9.0.0/16").contains(ip("10.9.255.255")));
        assert!(!prefix("10.9.0.0/16").contains(ip("10.10.0.0")));
        assert!(!prefix("0.0.0.0/0").contains(ip("::1")));
        assert!(prefix("::/0").contains(ip("fd00::1")));
        assert!(prefix("fd00::1/128").contains(ip("fd00::1")));
        assert!(!prefix("10.0.0.1/32").contains(ip("10.0.0.2")));
    }

    #[test]
    fn every_interface_has_a_way_of_its_own() {
        let laptop = laptop();
        let far = ip("203.0.113.9");
        let gateway = |index| laptop.way(index, far).and_then(|route| route.gateway);
        assert_eq!(gateway(2), Some(ip("192.168.1.1")));
        assert_eq!(gateway(3), Some(ip("10.9.0.1")));
        assert_eq!(laptop.way(4, far), None);
        assert_eq!(laptop.main_way(far).map(|route| route.interface), Some(2));
        let near = laptop.way(2, ip("192.168.1.77")).expect("on the link");
        assert_eq!(near.gateway, None);
    }

    #[test]
    fn what_is_usable_depends_on_where_to() {
        let mut laptop = laptop();
        let names = |laptop: &Snapshot, remote: &str| -> Vec<String> {
            let usable = laptop.usable(ip(remote));
            usable
                .map(|(interface, source)| format!("{} {source}", interface.name))
                .collect()
        };
        let both = ["eth0 192.168.1.5", "wlan0 10.9.8.7"];
        assert_eq!(names(&laptop, "203.0.113.9"), both);
        assert_eq!(names(&laptop, "2001:db8::1"), ["wwan0 fd77::2"]);
        assert_eq!(names(&laptop, "fd00::9"), ["eth0 fd00::5", "wwan0 fd77::2"]);
        laptop.interfaces[1].is_running = false;
        laptop.interfaces[2].addresses[0].is_usable = false;
        assert_eq!(names(&laptop, "203.0.113.9"), [""; 0]);
    }

    #[test]
    fn a_strict_filter_drops_what_comes_by_the_second_interface() {
        let mut laptop = laptop();
        let far = ip("203.0.113.9");
        for interface in &mut laptop.interfaces {
            interface.rp_filter = 1;
        }
        let is_filtered = |laptop: &Snapshot, name: &str, source: &str| {
            let interface = laptop.interface(name).expect("it is there");
            laptop.is_filtered(interface, ip(source), far)
        };
        assert!(!is_filtered(&laptop, "eth0", "192.168.1.5"));
        assert!(is_filtered(&laptop, "wlan0", "10.9.8.7"));
        laptop.interfaces[2].rp_filter = 2;
        assert!(!is_filtered(&laptop, "wlan0", "10.9.8.7"));
        laptop.interfaces[2].rp_filter = 1;
        laptop.rules.push(Rule {
            priority: 5,
            from: Some(prefix("10.9.8.7/32")),
            table: 77,
        });
        assert!(!is_filtered(&laptop, "wlan0", "10.9.8.7"));
    }
}

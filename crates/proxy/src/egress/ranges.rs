//! Addresses that a reverse proxy does not connect to unless told so: whatever
//! is not a public unicast address, and the metadata services of clouds.
//!
//! The ranges are those of the IANA special-purpose address registries
//! ([RFC6890] and updates).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The metadata service of a cloud: it hands out credentials.
    Metadata,
    /// The server itself.
    Loopback,
    /// 0.0.0.0/8 and ::, which many systems take for themselves.
    Unspecified,
    /// The server's own link.
    LinkLocal,
    /// A private network: RFC 1918, unique local, site-local.
    Private,
    /// The network of a carrier, 100.64.0.0/10.
    CarrierNat,
    /// Multicast.
    Multicast,
    /// Limited broadcast.
    Broadcast,
    /// Documentation, benchmarks, protocol assignments, discard, the future.
    Reserved,
    /// A form that carries an IPv4 address to an unknown translator or relay:
    /// IPv4-compatible, IPv4-translated, Teredo, local-use NAT64.
    Transition,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metadata => "a cloud's metadata service",
            Self::Loopback => "a loopback address",
            Self::Unspecified => "an unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::CarrierNat => "a carrier's internal address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Reserved => "a reserved address",
            Self::Transition => "an address of a transition mechanism",
        })
    }
}

/// Amazon, Google, Microsoft, Oracle, DigitalOcean, OpenStack and others at
/// 169.254.169.254; Scaleway; containers of Amazon at 169.254.170.2 and .23;
/// Oracle's old one; Alibaba; Azure's wire server.
const METADATA_V4: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 42, 42),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// Amazon's metadata service and its containers'; Google's; Oracle's; Scaleway's.
const METADATA_V6: [Ipv6Addr; 5] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// Names under which clouds offer their metadata. They resolve to addresses that
/// are refused anyway; refusing the name needs no look-up and says why.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// Whether `name` (lower case, no root dot) is a cloud's name for its metadata.
pub(crate) fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

/// Why `address` is refused by default, or `None` if it is public unicast. A
/// form that embeds an IPv4 address the way NAT64 and 6to4 do is judged by that.
pub fn class(address: IpAddr) -> Option<Class> {
    match address {
        IpAddr::V4(v4) => class_v4(v4),
        IpAddr::V6(v6) => class_v6(v6),
    }
}

/// The IPv4 address that packets to `address` end up at, where its form says so:
/// IPv4-mapped, IPv4-compatible, NAT64 (both prefixes, read as /96), 6to4, and
/// Teredo's client.
pub fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(v4(s[6], s[7])),
        [0, 0, 0, 0, 0, 0, ..] if s[6] != 0 || s[7] > 1 => Some(v4(s[6], s[7])),
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(v4(s[6], s[7])),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(v4(s[6], s[7])),
        [0x64, 0xff9b, 1, ..] => Some(v4(s[6], s[7])),
        [0x2002, ..] => Some(v4(s[1], s[2])),
        // Teredo stores the client's address with every bit turned over.
        [0x2001, 0, ..] => Some(v4(!s[6], !s[7])),
        _ => None,
    }
}

fn class_v4(address: Ipv4Addr) -> Option<Class> {
    if METADATA_V4.contains(&address) {
        return Some(Class::Metadata);
    }
    Some(match address.octets() {
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::CarrierNat,
        [169, 254, ..] => Class::LinkLocal,
        // Protocol assignments, the three documentation networks, the dead
        // 6to4 relay, benchmarks.
        [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..] => Class::Reserved,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn class_v6(address: Ipv6Addr) -> Option<Class> {
    if METADATA_V6.contains(&address) {
        return Some(Class::Metadata);
    }
    let s = address.segments();
    Some(match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0, 0, 0, 0, 0, 0xffff, ..] => return class_v4(embedded_v4(address)?),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return class_v4(embedded_v4(address)?),
        // Of the local-use prefix only its first /96 has one reading; elsewhere
        // the translator's prefix length decides which bits are the address.
        [0x64, 0xff9b, 1, 0, 0, 0, ..] => return class_v4(embedded_v4(address)?),
        [0x64, 0xff9b, 1, ..] => Class::Transition,
        [0x2002, ..] => return class_v4(embedded_v4(address)?),
        [0, 0, 0, 0, 0 | 0xffff, 0, ..] | [0x2001, 0, ..] => Class::Transition,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        [0xff00..=0xffff, ..] => Class::Multicast,
        // Protocol assignments (ORCHID, benchmarks among them); documentation.
        [0x2001, 0x1..=0x1ff, ..] | [0x2001, 0xdb8, ..] => Class::Reserved,
        [0x3fff, 0..=0xfff, ..] => Class::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        // Global unicast is assigned from 2000::/3 only.
        _ => Class::Reserved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(text: &str) -> Option<Class> {
        class(text.parse().expect(text))
    }

    /// First and last of each range, and its neighbours outside.
    #[test]
    fn ranges_begin_and_end_where_the_registry_says() {
        use Class::*;
        for (first, last, class) in [
            ("0.0.0.0", "0.255.255.255", Unspecified),
            ("10.0.0.0", "10.255.255.255", Private),
            ("100.64.0.0", "100.127.255.255", CarrierNat),
            ("127.0.0.0", "127.255.255.255", Loopback),
            ("169.254.0.0", "169.254.255.255", LinkLocal),
            ("172.16.0.0", "172.31.255.255", Private),
            ("192.0.0.0", "192.0.0.255", Reserved),
            ("192.0.2.0", "192.0.2.255", Reserved),
            ("192.168.0.0", "192.168.255.255", Private),
            ("198.18.0.0", "198.19.255.255", Reserved),
            ("198.51.100.0", "198.51.100.255", Reserved),
            ("203.0.113.0", "203.0.113.255", Reserved),
            ("224.0.0.0", "239.255.255.255", Multicast),
            ("240.0.0.0", "255.255.255.254", Reserved),
            ("fc00::", "fdff:ffff::", Private),
            ("fe80::", "febf:ffff::", LinkLocal),
            ("fec0::", "feff:ffff::", Private),
            ("ff00::", "ffff::", Multicast),
            ("2001:db8::", "2001:db8:ffff::", Reserved),
            ("3fff::", "3fff:fff::", Reserved),
            ("100::", "100::1", Reserved),
            ("5f00::", "5f00:ffff::", Reserved),
            ("2001::", "2001:0:ffff::", Transition),
            ("2001:1::", "2001:1ff::", Reserved),
            ("64:ff9b:1:1::", "64:ff9b:1:ffff::808:808", Transition),
        ] {
            assert_eq!(class_of(first), Some(class), "{first}");
            assert_eq!(class_of(last), Some(class), "{last}");
        }
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::",
            "2001:200::",
            "2001:db7::",
            "2001:db9::",
            "2606:4700::1111",
            "3fff:1000::",
        ] {
            assert_eq!(class_of(public), None, "{public}");
        }
    }

    #[test]
    fn an_ipv4_address_inside_is_judged_like_outside() {
        for prefix in ["::ffff:", "64:ff9b::", "64:ff9b:1::"] {
            for v4 in [
                "127.0.0.1",
                "10.1.2.3",
                "169.254.169.254",
                "0.0.0.0",
                "8.8.8.8",
            ] {
                let inside = format!("{prefix}{v4}");
                assert_eq!(class_of(&inside), class_of(v4), "{inside}");
            }
        }
        assert_eq!(class_of("2002:7f00:1::"), Some(Class::Loopback));
        assert_eq!(class_of("2002:a9fe:a9fe::1"), Some(Class::Metadata));
        assert_eq!(class_of("2002:808:808::"), None);
        assert_eq!(class_of("::7f00:1"), Some(Class::Transition));
        assert_eq!(class_of("::ffff:0:127.0.0.1"), Some(Class::Transition));
    }

    #[test]
    fn the_doors_of_clouds_are_known() {
        for door in [
            "169.254.169.254",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "::ffff:168.63.129.16",
        ] {
            assert_eq!(class_of(door), Some(Class::Metadata), "{door}");
        }
        assert!(is_metadata_name("metadata.google.internal"));
        assert!(!is_metadata_name("metadata.example.com"));
    }

    #[test]
    fn the_inner_address_of_each_form_is_found() {
        let inner = |text: &str| embedded_v4(text.parse().expect(text)).map(|v4| v4.to_string());
        for form in [
            "::ffff:192.0.2.7",
            "::192.0.2.7",
            "::ffff:0:192.0.2.7",
            "64:ff9b::192.0.2.7",
            "64:ff9b:1:5::192.0.2.7",
            "2002:c000:207::1",
            "2001:0:1:2:3:4:3fff:fdf8",
        ] {
            assert_eq!(inner(form).as_deref(), Some("192.0.2.7"), "{form}");
        }
        assert_eq!(inner("::1"), None);
        assert_eq!(inner("2606:4700::1111"), None);
    }
}

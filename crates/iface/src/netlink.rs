//! Requests to the kernel, and its answers as the crate's own types.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::policy::PolicyRoute;
use crate::snapshot::{Address, Interface, Prefix, Route, Rule};

/// Answers to one request at most: more than the largest routing table on hosts
/// that use this.
const ANSWERS_MAX: usize = 1 << 20;

/// The family of an address.
fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn send(message: RouteNetlinkMessage, flags: u16) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    Ok(socket)
}

/// Asks for a change; the kernel answers with yes or an error.
fn change(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let socket = send(message, NLM_F_ACK | flags)?;
    let (bytes, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
        .map_err(|error| io::Error::other(error.to_string()))?;
    match answer.payload {
        NetlinkPayload::Error(answer) => match answer.code {
            None => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
        },
        other => Err(io::Error::other(format!("netlink answers {other:?}"))),
    }
}

/// Asks for all there is of a kind.
fn dump(message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    let socket = send(message, NLM_F_DUMP)?;
    let mut answers = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = bytes.as_slice();
        // Length, kind and flags lead each message: 16 bytes with the numbers.
        while let Some(len) = rest.first_chunk().map(|len| u32::from_ne_bytes(*len)) {
            let len = len as usize;
            if len < 16 || len > rest.len() {
                break;
            }
            match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&rest[..len]) {
                Ok(message) => match message.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) => {
                        let code = error.code.map_or(0, |code| -code.get());
                        return Err(io::Error::from_raw_os_error(code));
                    }
                    NetlinkPayload::InnerMessage(message) if answers.len() < ANSWERS_MAX => {
                        answers.push(message);
                    }
                    _ => {}
                },
                // A kernel newer than the library: what it cannot read is not for us.
                Err(error) => tracing::debug!(%error, "a netlink message is not understood"),
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let answers = dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let links = answers.into_iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewLink(link) => interface(link),
        _ => None,
    });
    Ok(links.collect())
}

fn interface(link: LinkMessage) -> Option<Interface> {
    let flags = link.header.flags;
    let (mut name, mut mtu_bytes) = (None, 0);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text),
            LinkAttribute::Mtu(bytes) => mtu_bytes = bytes,
            _ => {}
        }
    }
    Some(Interface {
        index: link.header.index,
        name: name?,
        is_up: flags.contains(LinkFlags::Up),
        is_running: flags.contains(LinkFlags::Running),
        is_loopback: flags.contains(LinkFlags::Loopback),
        mtu_bytes,
        addresses: Vec::new(),
        rp_filter: 0,
    })
}

/// All addresses, each with its interface's number.
pub(crate) fn addresses() -> io::Result<Vec<(u32, Address)>> {
    let answers = dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let addresses = answers.into_iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewAddress(message) => address(&message),
        _ => None,
    });
    Ok(addresses.collect())
}

fn address(message: &AddressMessage) -> Option<(u32, Address)> {
    let (mut local, mut network_side) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        match attribute {
            // On a link of two ends `Address` is the other one's.
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => network_side = Some(*ip),
            AddressAttribute::Flags(all) => flags |= *all,
            _ => {}
        }
    }
    let doubts = AddressHeaderFlags::Tentative
        | AddressHeaderFlags::Dadfailed
        | AddressHeaderFlags::Deprecated;
    let doubts = AddressFlags::from_bits_retain(doubts.bits().into());
    let address = Address {
        ip: local.or(network_side)?,
        prefix_len: message.header.prefix_len,
        is_usable: message.header.scope == AddressScope::Universe && !flags.intersects(doubts),
    };
    Some((message.header.index, address))
}

/// All unicast routes.
pub(crate) fn routes() -> io::Result<Vec<Route>> {
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        for answer in dump(RouteNetlinkMessage::GetRoute(message))? {
            if let RouteNetlinkMessage::NewRoute(message) = answer {
                read_route(&message, &mut all);
            }
        }
    }
    Ok(all)
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// Adds what `message` says to `all`: a route of several next hops is several.
fn read_route(message: &RouteMessage, all: &mut Vec<Route>) {
    if message.header.kind != RouteType::Unicast {
        return;
    }
    let nowhere: IpAddr = match message.header.address_family {
        AddressFamily::Inet => std::net::Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => return,
    };
    let (mut to, mut gateway, mut interface) = (nowhere, None, None);
    let (mut metric, mut table) = (0, u32::from(message.header.table));
    let mut hops = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => to = ip_of(address).unwrap_or(nowhere),
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::MultiPath(several) => {
                for hop in several {
                    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(address) => ip_of(address),
                        _ => None,
                    });
                    hops.push((hop.interface_index, gateway));
                }
            }
            _ => {}
        }
    }
    hops.extend(interface.map(|index| (index, gateway)));
    let to = Prefix::new(to, message.header.destination_prefix_length);
    all.extend(hops.into_iter().map(|(interface, gateway)| Route {
        to,
        interface,
        gateway,
        table,
        metric,
    }));
}

/// All rules that lead to tables.
pub(crate) fn rules() -> io::Result<Vec<Rule>> {
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut message = RuleMessage::default();
        message.header.family = family;
        let answers = match dump(RouteNetlinkMessage::GetRule(message)) {
            // A kernel without rules for this family.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
            answers => answers?,
        };
        let rules = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRule(message) => rule(message),
            _ => None,
        });
        all.extend(rules);
    }
    Ok(all)
}

fn rule(message: &RuleMessage) -> Option<Rule> {
    if message.header.action != RuleAction::ToTable {
        return None;
    }
    let mut rule = Rule {
        priority: 0,
        from: None,
        table: message.header.table.into(),
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => rule.priority = *number,
            RuleAttribute::Table(number) => rule.table = *number,
            RuleAttribute::Source(ip) => {
                rule.from = Some(Prefix::new(*ip, message.header.src_len));
            }
            _ => {}
        }
    }
    Some(rule)
}

/// The kernel's form of a route or rule.
fn policy_message(route: &PolicyRoute) -> (RouteNetlinkMessage, bool) {
    match *route {
        PolicyRoute::Network {
            table,
            network,
            index,
            source,
            ..
        } => {
            let mut attributes = vec![RouteAttribute::PrefSource(source.into())];
            attributes.push(RouteAttribute::Destination(network.ip.into()));
            let message = route_message(network, table, index, RouteScope::Link, attributes);
            (RouteNetlinkMessage::NewRoute(message), true)
        }
        PolicyRoute::Default {
            table,
            gateway,
            index,
            source,
            ..
        } => {
            let scope = gateway.map_or(RouteScope::Link, |_| RouteScope::Universe);
            let attributes = gateway.map(|ip| RouteAttribute::Gateway(ip.into()));
            let everything = Prefix::all_like(source);
            let attributes = attributes.into_iter().collect();
            let message = route_message(everything, table, index, scope, attributes);
            (RouteNetlinkMessage::NewRoute(message), true)
        }
        PolicyRoute::Rule {
            source,
            table,
            priority,
        } => {
            let mut message = RuleMessage::default();
            message.header.family = family(source);
            message.header.src_len = if source.is_ipv4() { 32 } else { 128 };
            message.header.action = RuleAction::ToTable;
            message.attributes = vec![
                RuleAttribute::Source(source),
                RuleAttribute::Table(table),
                RuleAttribute::Priority(priority),
            ];
            (RouteNetlinkMessage::NewRule(message), false)
        }
    }
}

fn route_message(
    to: Prefix,
    table: u32,
    index: u32,
    scope: RouteScope,
    mut attributes: Vec<RouteAttribute>,
) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to.ip);
    message.header.destination_prefix_length = to.len;
    message.header.protocol = RouteProtocol::Static;
    message.header.kind = RouteType::Unicast;
    // IPv6 knows no scopes.
    message.header.scope = if to.ip.is_ipv4() {
        scope
    } else {
        RouteScope::Universe
    };
    attributes.extend([RouteAttribute::Oif(index), RouteAttribute::Table(table)]);
    message.attributes = attributes;
    message
}

/// Sets a route or a rule; one that is there already is what was wanted.
pub(crate) fn set(route: &PolicyRoute) -> io::Result<()> {
    let (message, is_route) = policy_message(route);
    let flags = match is_route {
        true => NLM_F_CREATE | NLM_F_REPLACE,
        false => NLM_F_CREATE | NLM_F_EXCL,
    };
    match change(message, flags) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Takes back what [`set`] set; what has gone with its interface is gone.
pub(crate) fn unset(route: &PolicyRoute) -> io::Result<()> {
    let message = match policy_message(route).0 {
        RouteNetlinkMessage::NewRoute(message) => RouteNetlinkMessage::DelRoute(message),
        RouteNetlinkMessage::NewRule(message) => RouteNetlinkMessage::DelRule(message),
        other => other,
    };
    /// `ESRCH` and `ENODEV`.
    const GONE: [i32; 2] = [3, 19];
    match change(message, 0) {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error
                    .raw_os_error()
                    .is_some_and(|code| GONE.contains(&code)) =>
        {
            Ok(())
        }
        result => result,
    }
}

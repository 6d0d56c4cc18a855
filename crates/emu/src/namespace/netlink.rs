//! Devices, addresses and routes of the namespace that the calling thread is in,
//! by netlink.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::Route;

/// Sends one request and waits for the kernel's answer: none if it is a mere yes.
fn ask(message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
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
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::other(error.to_string()))?;
    match answer.payload {
        NetlinkPayload::Error(answer) => match answer.code {
            None => Ok(None),
            Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
        },
        NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
        other => Err(io::Error::other(format!("netlink answers {other:?}"))),
    }
}

/// Sends one request that changes something.
fn request(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    ask(message, NLM_F_ACK | flags).map(drop)
}

fn index_of(device: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(device)?)
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

/// Changes flags and attributes of a device.
fn change(device: &str, flags: LinkFlags, attributes: Vec<LinkAttribute>) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index_of(device)?;
    message.header.flags = flags;
    message.header.change_mask = flags;
    message.attributes = attributes;
    request(RouteNetlinkMessage::SetLink(message), 0)
}

pub(super) fn set_up(device: &str) -> io::Result<()> {
    change(device, LinkFlags::Up, Vec::new())
}

pub(super) fn add_address(device: &str, address: IpAddr, prefix_len: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = prefix_len;
    message.header.index = index_of(device)?;
    // Nobody else is there to have the same address.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
    ];
    request(
        RouteNetlinkMessage::NewAddress(message),
        NLM_F_CREATE | NLM_F_EXCL,
    )
}

pub(super) fn set_route(route: &Route) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header.address_family = family(route.destination);
    message.header.destination_prefix_length = route.prefix_len;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    // What the kernel writes on the route that comes with an address, so that
    // this one takes its place.
    message.header.protocol = RouteProtocol::Kernel;
    message.header.kind = RouteType::Unicast;
    message.header.scope = match route.gateway {
        Some(_) => RouteScope::Universe,
        None => RouteScope::Link,
    };
    let mut attributes = vec![
        RouteAttribute::Destination(route_address(route.destination)),
        RouteAttribute::Oif(index_of(&route.device)?),
    ];
    attributes.extend(
        route
            .gateway
            .map(|gateway| RouteAttribute::Gateway(route_address(gateway))),
    );
    attributes.extend(
        route
            .source
            .map(|source| RouteAttribute::PrefSource(route_address(source))),
    );
    let metrics = metrics(route);
    if !metrics.is_empty() {
        attributes.push(RouteAttribute::Metrics(metrics));
    }
    message.attributes = attributes;
    request(
        RouteNetlinkMessage::NewRoute(message),
        NLM_F_CREATE | NLM_F_REPLACE,
    )
}

fn metrics(route: &Route) -> Vec<RouteMetric> {
    let congestion = route.congestion.clone().map(RouteMetric::CcAlgo);
    let window = route.initial_window_packets.map(RouteMetric::InitCwnd);
    let rto_min = route
        .rto_min
        .map(|rto_min| RouteMetric::RtoMin(u32::try_from(rto_min.as_millis()).unwrap_or(u32::MAX)));
    congestion
        .into_iter()
        .chain(window)
        .chain(rto_min)
        .collect()
}

/// A pair of devices, one here and one in another namespace.
pub(crate) struct Veth<'a> {
    pub(crate) here: &'a str,
    pub(crate) there: &'a str,
    pub(crate) other: &'a File,
    /// Hardware address of the device here.
    pub(crate) address: [u8; 6],
    pub(crate) mtu_bytes: u16,
}

impl Veth<'_> {
    /// Creates the pair, both down. Neither resolves addresses, and the one here
    /// hands over packets cut to the MTU.
    pub(crate) fn create(&self) -> io::Result<()> {
        let mtu = LinkAttribute::Mtu(u32::from(self.mtu_bytes));
        let mut peer = LinkMessage::default();
        peer.header.flags = LinkFlags::Noarp;
        peer.header.change_mask = LinkFlags::Noarp;
        peer.attributes = vec![
            LinkAttribute::IfName(self.there.to_owned()),
            LinkAttribute::NetNsFd(self.other.as_raw_fd()),
            mtu.clone(),
        ];
        let mut message = LinkMessage::default();
        message.header.flags = LinkFlags::Noarp;
        message.header.change_mask = LinkFlags::Noarp;
        message.attributes = vec![
            LinkAttribute::IfName(self.here.to_owned()),
            LinkAttribute::Address(self.address.to_vec()),
            mtu,
            LinkAttribute::GsoMaxSegs(1),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        request(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )?;
        change(self.here, LinkFlags::Noarp, Vec::new())
    }
}

/// Brings up a device that resolves no addresses.
pub(crate) fn set_up_without_arp(device: &str) -> io::Result<()> {
    change(device, LinkFlags::Up | LinkFlags::Noarp, Vec::new())
}

/// Sets how many packets a device holds for its reader.
pub(crate) fn set_queue(device: &str, packets: u32) -> io::Result<()> {
    let queue = LinkAttribute::TxQueueLen(packets);
    change(device, LinkFlags::empty(), vec![queue])
}

/// Whether a device says of itself that it is up; one that does not know yet
/// drops packets.
pub(crate) fn is_operating(device: &str) -> io::Result<bool> {
    let mut message = LinkMessage::default();
    message.header.index = index_of(device)?;
    let Some(RouteNetlinkMessage::NewLink(link)) = ask(RouteNetlinkMessage::GetLink(message), 0)?
    else {
        return Ok(false);
    };
    Ok(link
        .attributes
        .contains(&LinkAttribute::OperState(State::Up)))
}

//! A UDP socket with ECN bits, batches and kernel time stamps.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use ctcp_link::Ecn;
use ctcp_units::Duration;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

/// The kernel's buffers of a socket: half a second at 100 Mbit/s, so that a relay
/// that is kept from running for a moment loses nothing on its own account.
const SOCKET_BYTES: usize = 6 << 20;

/// Longest that one receive can give: a whole batch that the kernel merged.
const RECEIVE_BYTES: usize = 65_535;

/// A bound UDP socket.
#[derive(Debug)]
pub(crate) struct UdpPort {
    socket: Socket,
    state: UdpSocketState,
}

impl UdpPort {
    /// A socket bound to `local`, and connected to `peer` if there is one.
    pub(crate) fn open(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let domain = Domain::for_address(local);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if local.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        enlarge_buffers(&socket);
        socket.bind(&local.into())?;
        if let Some(peer) = peer {
            socket.connect(&peer.into())?;
        }
        let state = UdpSocketState::new((&socket).into())?;
        make_room_for_marks(&socket, local, peer.is_some());
        Ok(Self { socket, state })
    }

    pub(crate) fn as_socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("a UDP socket without an address"))
    }

    /// Sends `bytes`, which are several datagrams of `segment_bytes` each (the
    /// last may be shorter) if that is given.
    pub(crate) fn send(
        &self,
        route: &Route,
        ecn: Ecn,
        bytes: &[u8],
        segment_bytes: Option<usize>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: route.to,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents: bytes,
            segment_size: segment_bytes,
            src_ip: route.from,
        };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    /// Most datagrams that one [`UdpPort::send`] takes.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }
}

/// Where a datagram goes, and which of our addresses it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: SocketAddr,
    pub(crate) from: Option<IpAddr>,
}

/// quinn-udp 0.6.3 has room for 96 bytes of ancillary data; with the address,
/// the time stamp and the length of joined datagrams there are 112, and the ECN
/// mark, which comes last, is cut off. Which of our addresses a datagram was sent
/// to matters only to a socket that listens on all of them; that one does without
/// time stamps, and takes the moment at which it reads for that of arrival.
fn make_room_for_marks(socket: &Socket, local: SocketAddr, is_connected: bool) {
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo, ReceiveTimestampns};

    let result = match local {
        _ if local.ip().is_unspecified() && !is_connected => {
            setsockopt(socket, ReceiveTimestampns, &false)
        }
        SocketAddr::V4(_) => setsockopt(socket, Ipv4PacketInfo, &false),
        SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvPacketInfo, &false),
    };
    if let Err(error) = result {
        tracing::debug!(%error, "ECN marks of joined datagrams may get lost");
    }
}

/// As large as asked, which takes a privilege, or as the system allows.
fn enlarge_buffers(socket: &Socket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BYTES).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, SOCKET_BYTES).is_err() {
        let _ = socket.set_send_buffer_size(SOCKET_BYTES);
    }
}

/// A datagram as it was received.
pub(crate) struct Received<'a> {
    pub(crate) from: SocketAddr,
    /// Our address that it was sent to.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Ecn,
    /// Since the Unix epoch, by the kernel.
    pub(crate) stamp: Option<Duration>,
    pub(crate) bytes: &'a [u8],
}

/// Space for a batch of datagrams, used for one socket after another.
pub(crate) struct Receiver {
    space: Box<[u8]>,
    meta: [RecvMeta; BATCH_SIZE],
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            space: vec![0; BATCH_SIZE * RECEIVE_BYTES].into(),
            meta: [RecvMeta::default(); BATCH_SIZE],
        }
    }

    /// Receives one batch from `port` and hands each datagram to `take`. Says
    /// whether there was anything.
    ///
    /// # Errors
    /// What the kernel reports, [`io::ErrorKind::ConnectionRefused`] among it:
    /// then the peer is not listening, and the socket still works.
    pub(crate) fn receive(
        &mut self,
        port: &UdpPort,
        mut take: impl FnMut(Received<'_>),
    ) -> io::Result<bool> {
        let mut pieces = self.space.chunks_mut(RECEIVE_BYTES).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            core::array::from_fn(|_| pieces.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let socket = (&port.socket).into();
        let count = match port.state.recv(socket, &mut slices, &mut self.meta) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (slice, meta) in slices.iter().zip(&self.meta).take(count) {
            let mut hand_over = |bytes| {
                take(Received {
                    from: meta.addr,
                    to: meta.dst_ip,
                    ecn: Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8)),
                    stamp: meta.timestamp,
                    bytes,
                });
            };
            let filled = &slice[..meta.len];
            if filled.is_empty() {
                hand_over(filled);
            } else {
                filled.chunks(meta.stride.max(1)).for_each(hand_over);
            }
        }
        Ok(true)
    }
}

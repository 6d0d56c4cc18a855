//! The UDP socket: batches in, batches out.
//!
//! Sending hands the kernel many datagrams of one length at a time (GSO), and
//! receiving takes several lots of joined datagrams with one call (`recvmmsg`
//! and GRO). Where the kernel or the network card refuses, datagrams go one by
//! one. Errors of single datagrams (a path that is too narrow, an unreachable
//! network, a firewall) count as losses, which is what they are to a transport.
//!
//! ICMP errors are not asked for (`IP_RECVERR`): the way there can forge them, silence
//! is noticed a round trip later anyway, and the kernel would fail the next datagram
//! sent by the socket for each, whoever that one is for.

use std::array;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use ctcp_proto::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Lots of datagrams taken with one call. Each may hold 64 joined ones, so a
/// few are enough where GRO works, and some more help where it does not.
pub(crate) const LOTS: usize = 8;
/// Bytes of one lot: the longest that GRO joins, and the longest datagram.
const LOT_LEN: usize = 1 << 16;
/// Most bytes in one call: the longest UDP payload over IPv4.
const SEND_LEN_MAX: usize = 65_507;
/// `ENODEV`: the interface has gone.
const NO_SUCH_DEVICE: i32 = 19;
/// Errors in a row after which receiving waits for the next event.
const RECEIVE_ERRORS_MAX: u32 = 16;

/// What the socket asks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketConfig {
    /// Receive buffer to ask for, bytes. The kernel may grant less; see
    /// [`SocketStats`].
    pub receive_buffer_bytes: usize,
    /// Send buffer to ask for, bytes.
    pub send_buffer_bytes: usize,
}

impl Default for SocketConfig {
    /// 4 MiB each: 30 ms of 1 Gbit/s, the most that Linux grants by default on
    /// many machines.
    fn default() -> Self {
        Self {
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 4 << 20,
        }
    }
}

/// What the socket has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SocketStats {
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes received, without UDP headers.
    pub bytes_received: u64,
    /// Calls that received something.
    pub receive_calls: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes sent, without UDP headers.
    pub bytes_sent: u64,
    /// Calls that sent something.
    pub send_calls: u64,
    /// Calls to send that failed; their datagrams are lost.
    pub send_errors: u64,
    /// Times the send buffer was full.
    pub send_blocked: u64,
    /// Calls to receive that failed.
    pub receive_errors: u64,
    /// Datagrams handed to the kernel at once at most; 1 without GSO.
    pub segments_max: usize,
    /// Receive buffer granted, bytes as the kernel counts them.
    pub receive_buffer_bytes: usize,
    /// Send buffer granted, bytes as the kernel counts them.
    pub send_buffer_bytes: usize,
}

/// The counts behind [`SocketStats`]; written by the driver only, and kept when
/// the socket is replaced.
#[derive(Debug, Default)]
pub(crate) struct SocketCounters {
    datagrams_received: AtomicU64,
    bytes_received: AtomicU64,
    receive_calls: AtomicU64,
    datagrams_sent: AtomicU64,
    bytes_sent: AtomicU64,
    send_calls: AtomicU64,
    send_errors: AtomicU64,
    send_blocked: AtomicU64,
    receive_errors: AtomicU64,
    segments_max: AtomicUsize,
    receive_buffer_bytes: AtomicUsize,
    send_buffer_bytes: AtomicUsize,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl SocketCounters {
    pub(crate) fn read(&self) -> SocketStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let size = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        SocketStats {
            datagrams_received: count(&self.datagrams_received),
            bytes_received: count(&self.bytes_received),
            receive_calls: count(&self.receive_calls),
            datagrams_sent: count(&self.datagrams_sent),
            bytes_sent: count(&self.bytes_sent),
            send_calls: count(&self.send_calls),
            send_errors: count(&self.send_errors),
            send_blocked: count(&self.send_blocked),
            receive_errors: count(&self.receive_errors),
            segments_max: size(&self.segments_max),
            receive_buffer_bytes: size(&self.receive_buffer_bytes),
            send_buffer_bytes: size(&self.send_buffer_bytes),
        }
    }
}

/// Datagrams to one address, back to back, as they are handed to the socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) remote: SocketAddr,
    /// The address of ours to send from, where the socket has several.
    pub(crate) source: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) contents: &'a [u8],
    /// Bytes of each datagram; the last may be shorter.
    pub(crate) segment_len: usize,
}

/// What became of an [`Outgoing`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Bytes of it that need no more care.
    pub(crate) bytes: usize,
    /// The system knows no way there.
    pub(crate) is_without_way: bool,
}

impl Sent {
    /// It was not tried.
    pub(crate) const NOTHING: Self = Self {
        bytes: 0,
        is_without_way: false,
    };
}

/// Where one call's datagrams lie, and what came with them.
pub(crate) struct Lots {
    bytes: Box<[u8]>,
    metas: [RecvMeta; LOTS],
}

/// Datagrams of one length (the last may be shorter) from one address.
pub(crate) struct Lot<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) segment_len: usize,
    pub(crate) from: SocketAddr,
    /// The address of ours they were sent to, if the kernel tells.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
}

impl Lots {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; LOTS * LOT_LEN].into_boxed_slice(),
            metas: [RecvMeta::default(); LOTS],
        }
    }

    /// The first `count` lots.
    pub(crate) fn filled(&mut self, count: usize) -> impl Iterator<Item = Lot<'_>> {
        self.bytes
            .chunks_exact_mut(LOT_LEN)
            .zip(&self.metas)
            .take(count)
            .map(|(bytes, meta)| Lot {
                bytes: &mut bytes[..meta.len.min(LOT_LEN)],
                segment_len: meta.stride.max(1),
                from: canonical(meta.addr),
                to: meta.dst_ip.map(|ip| ip.to_canonical()),
                ecn: meta.ecn.map(from_codepoint),
            })
    }

    /// The bytes `len` from `start` of lot `index`.
    pub(crate) fn datagram(&mut self, index: usize, start: usize, len: usize) -> &mut [u8] {
        let start = index * LOT_LEN + start;
        &mut self.bytes[start..start + len]
    }
}

/// A bound UDP socket that never blocks.
#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    counters: Arc<SocketCounters>,
}

impl Socket {
    /// Binds to `local`, and to a network interface if one is named: datagrams
    /// then leave and arrive there whatever the routes say. A wildcard IPv6
    /// address takes IPv4 as well.
    ///
    /// # Errors
    /// What the system says: the address is in use, not ours, not allowed; there
    /// is no such interface.
    pub(crate) fn bind(
        local: SocketAddr,
        interface: Option<&str>,
        config: &SocketConfig,
        counters: Arc<SocketCounters>,
    ) -> io::Result<Self> {
        let socket =
            socket2::Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        if local.is_ipv6() && local.ip().is_unspecified() {
            // A system without IPv4 may refuse; then it is IPv6 alone.
            let _ = socket.set_only_v6(false);
        }
        // What is not granted shows in the statistics.
        let _ = socket.set_recv_buffer_size(config.receive_buffer_bytes);
        let _ = socket.set_send_buffer_size(config.send_buffer_bytes);
        socket.set_nonblocking(true)?;
        if let Some(interface) = interface {
            bind_to_interface(&socket, interface)?;
        }
        socket.bind(&local.into())?;
        let io = UdpSocket::from_std(socket.into())?;
        let state = UdpSocketState::new((&io).into())?;
        leave_time_stamps_off(&io);
        let granted = |bytes: io::Result<usize>| bytes.unwrap_or(0);
        counters.receive_buffer_bytes.store(
            granted(state.recv_buffer_size((&io).into())),
            Ordering::Relaxed,
        );
        counters.send_buffer_bytes.store(
            granted(state.send_buffer_size((&io).into())),
            Ordering::Relaxed,
        );
        counters
            .segments_max
            .store(state.max_gso_segments(), Ordering::Relaxed);
        Ok(Self {
            local: io.local_addr()?,
            io,
            state,
            counters,
        })
    }

    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether it has several addresses, so that answers must name theirs.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// Datagrams that one call may take.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends `outgoing`, and answers how many bytes of it need no more care:
    /// all, or fewer if the send buffer is full. What cannot be sent is lost.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> Sent {
        let Outgoing {
            contents,
            segment_len,
            ..
        } = *outgoing;
        let destination = self.reachable(outgoing.remote);
        let source = outgoing.source.map(|ip| self.reachable_ip(ip));
        let mut taken = 0;
        let mut is_without_way = false;
        while taken < contents.len() {
            let segments = self.segments_max().min(SEND_LEN_MAX / segment_len).max(1);
            let end = contents.len().min(taken + segments * segment_len);
            let transmit = quinn_udp::Transmit {
                destination,
                ecn: outgoing.ecn.map(to_codepoint),
                contents: &contents[taken..end],
                segment_size: (end - taken > segment_len).then_some(segment_len),
                src_ip: source,
            };
            let result = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send((&self.io).into(), &transmit)
            });
            match result {
                Ok(()) => {
                    add(&self.counters.send_calls, 1);
                    add(&self.counters.bytes_sent, end - taken);
                    let count = (end - taken).div_ceil(segment_len);
                    add(&self.counters.datagrams_sent, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    add(&self.counters.send_blocked, 1);
                    break;
                }
                Err(_) if transmit.segment_size.is_some() && self.segments_max() == 1 => {
                    // Refused at once, where one by one may pass.
                    self.counters.segments_max.store(1, Ordering::Relaxed);
                    continue;
                }
                Err(error) => {
                    add(&self.counters.send_errors, 1);
                    is_without_way |= is_without_route(&error);
                    tracing::trace!(%error, remote = %outgoing.remote, "datagram not sent");
                }
            }
            taken = end;
        }
        Sent {
            bytes: taken,
            is_without_way,
        }
    }

    /// Ready when sending may go on.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_send_ready(cx).map(|_| ())
    }

    /// Receives what is there into `lots`; answers how many were filled.
    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>, lots: &mut Lots) -> Poll<usize> {
        let mut errors = 0;
        loop {
            if self.io.poll_recv_ready(cx).is_pending() {
                return Poll::Pending;
            }
            let Lots { bytes, metas } = lots;
            let received = self.io.try_io(Interest::READABLE, || {
                let mut chunks = bytes.chunks_exact_mut(LOT_LEN);
                let mut slices: [IoSliceMut<'_>; LOTS] = array::from_fn(|_| {
                    IoSliceMut::new(chunks.next().expect("there are as many chunks as lots"))
                });
                match self.state.recv((&self.io).into(), &mut slices, metas) {
                    Err(_) if errors >= RECEIVE_ERRORS_MAX => Err(io::ErrorKind::WouldBlock.into()),
                    result => result,
                }
            });
            match received {
                Ok(count) => {
                    self.count_received(&metas[..count]);
                    return Poll::Ready(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // On some systems an earlier datagram's ICMP answer.
                    errors += 1;
                    add(&self.counters.receive_errors, 1);
                    tracing::debug!(%error, "receiving failed");
                }
            }
        }
    }

    fn count_received(&self, metas: &[RecvMeta]) {
        let datagrams = |meta: &RecvMeta| meta.len.div_ceil(meta.stride.max(1));
        add(&self.counters.receive_calls, 1);
        add(
            &self.counters.datagrams_received,
            metas.iter().map(datagrams).sum(),
        );
        add(
            &self.counters.bytes_received,
            metas.iter().map(|meta| meta.len).sum(),
        );
    }

    fn reachable(&self, remote: SocketAddr) -> SocketAddr {
        match remote {
            SocketAddr::V4(_) if self.local.is_ipv6() => {
                SocketAddr::new(self.reachable_ip(remote.ip()), remote.port())
            }
            _ => remote,
        }
    }

    fn reachable_ip(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.local.is_ipv6() => v4.to_ipv6_mapped().into(),
            _ => ip,
        }
    }
}

#[cfg(target_os = "linux")]
fn bind_to_interface(socket: &socket2::Socket, interface: &str) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn bind_to_interface(_: &socket2::Socket, _: &str) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "sockets are bound to interfaces on Linux only: give a local address instead",
    ))
}

/// The system knows no way: whatever else is sent there fails as well.
fn is_without_route(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable
    ) || error.raw_os_error() == Some(NO_SUCH_DEVICE)
}

/// quinn-udp 0.6.3 asks for receive time stamps, but joined datagrams then bring
/// more ancillary data (112 bytes) than it has room for (96): the ECN mark, which
/// comes last, is cut off. We need the mark, and not the time stamps.
#[cfg(target_os = "linux")]
fn leave_time_stamps_off(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};

    if let Err(error) = setsockopt(socket, ReceiveTimestampns, &false) {
        tracing::debug!(%error, "time stamps stay on; ECN marks may get lost");
    }
}

#[cfg(not(target_os = "linux"))]
fn leave_time_stamps_off(_: &UdpSocket) {}

/// Whether a socket bound to `local` can reach `remote`.
pub(crate) fn reaches(local: SocketAddr, remote: SocketAddr) -> bool {
    match (local, canonical(remote)) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => true,
        (SocketAddr::V6(local), SocketAddr::V4(_)) => {
            local.ip().is_unspecified() || local.ip().to_ipv4_mapped().is_some()
        }
        (SocketAddr::V4(_), SocketAddr::V6(_)) => false,
    }
}

/// The address with IPv4 written as IPv4, however the socket wrote it.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

fn to_codepoint(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}

fn from_codepoint(codepoint: EcnCodepoint) -> Ecn {
    match codepoint {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;

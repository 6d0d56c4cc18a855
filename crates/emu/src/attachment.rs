//! Where the router takes packets from and puts them: the near end of a device
//! whose far end is an ordinary interface of a namespace.
//!
//! Preferred is a TUN device. Where `/dev/net/tun` is out of reach, a pair of
//! `veth` devices does it, the near one in a namespace of its own and read by a
//! packet socket; it costs a checksum per packet and has a short receive buffer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType};
use rustix::io::Errno;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::namespace::{
    Namespace, NamespaceError, Veth, is_operating, set_queue, set_up_without_arp,
};
use crate::packet;

/// Packets that a device holds for the router: 80 ms at 1.5 Gbit/s.
const DEVICE_PACKETS: u32 = 10_000;

/// What a packet socket asks for; without privileges it gets what
/// `net.core.rmem_max` allows.
const SOCKET_BYTES: usize = 16 << 20;

/// How long a pair of devices may take to operate: the kernel looks at them
/// once a second if it is busy.
const OPERATING_MAX: Duration = Duration::from_secs(5);

const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Hardware address of both ends of a path: a packet may go from one to the other
/// as it is. The bit for addresses of local meaning is set.
const ADDRESS: [u8; 6] = [0x02, 0xc7, 0xc9, 0, 0, 1];

/// What an attachment consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    /// A TUN device.
    Tun,
    /// A pair of `veth` devices and a packet socket.
    Veth,
}

impl AttachmentKind {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Veth => "veth",
        }
    }
}

enum Port {
    Tun(SyncDevice),
    Packet(OwnedFd),
}

/// An interface of a namespace, seen from its other side.
pub struct Attachment {
    port: Port,
    /// Where an IP packet begins in what the port gives and takes.
    header_bytes: usize,
}

impl core::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Attachment")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

impl Attachment {
    /// A TUN device `device` in `namespace`, up and without an address.
    ///
    /// # Errors
    /// [`NamespaceError::Set`] if `/dev/net/tun` is missing or out of reach, or
    /// there is such a device already.
    pub fn tun(
        namespace: &Namespace,
        device: &str,
        mtu_bytes: u16,
    ) -> Result<Self, NamespaceError> {
        let what = format!("create TUN device {device}");
        let tun = namespace.set(&what, || {
            let tun = DeviceBuilder::new()
                .name(device)
                .mtu(mtu_bytes)
                .enable(false)
                .build_sync()?;
            rustix::io::ioctl_fionbio(&tun, true)?;
            // By netlink: the older way is for root only.
            set_queue(device, DEVICE_PACKETS)?;
            Ok(tun)
        })?;
        namespace.set_up(device)?;
        Ok(Self {
            port: Port::Tun(tun),
            header_bytes: 0,
        })
    }

    /// A `veth` device `device` in `namespace`, up and without an address, whose
    /// near end is in `wires`, a namespace for nothing else.
    ///
    /// # Errors
    /// [`NamespaceError::Set`] if the kernel has no `veth` or no packet sockets,
    /// or there is such a device already.
    pub fn veth(
        namespace: &Namespace,
        wires: &Namespace,
        device: &str,
        mtu_bytes: u16,
    ) -> Result<Self, NamespaceError> {
        // A device name has 15 characters at most.
        let near = format!("{:.8}-{:.6}", device, namespace.name());
        let what = format!("create veth device {device}");
        namespace.set(&what, || {
            let veth = Veth {
                here: device,
                there: &near,
                other: wires.descriptor(),
                address: ADDRESS,
                mtu_bytes,
            };
            veth.create()
        })?;
        let what = format!("open a packet socket on {near}");
        let socket = wires.set(&what, || {
            set_up_without_arp(&near)?;
            packet_socket(&near)
        })?;
        let what = format!("bring up {device}");
        namespace.set(&what, || set_up_without_arp(device))?;
        for (place, device) in [(namespace, device), (wires, near.as_str())] {
            place.set(&what, || wait_until_operating(device))?;
        }
        Ok(Self {
            port: Port::Packet(socket),
            header_bytes: ETHERNET_BYTES,
        })
    }

    /// What it consists of.
    pub fn kind(&self) -> AttachmentKind {
        match self.port {
            Port::Tun(_) => AttachmentKind::Tun,
            Port::Packet(_) => AttachmentKind::Veth,
        }
    }

    /// Bytes ahead of the IP packet in what is read and written.
    pub(crate) fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Reads one packet; none if there is none now. An empty one is to be passed
    /// over.
    pub(crate) fn read<'a>(&self, space: &'a mut [u8]) -> io::Result<Option<&'a mut [u8]>> {
        let len = match rustix::io::read(self, &mut *space) {
            Ok(len) => len,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let read = &mut space[..len];
        if self.header_bytes == 0 {
            return Ok(Some(read));
        }
        let is_ip = read
            .get(12..14)
            .is_some_and(|kind| kind == IPV4 || kind == IPV6);
        if !is_ip {
            return Ok(Some(&mut []));
        }
        packet::fill_checksum(&mut read[ETHERNET_BYTES..]);
        Ok(Some(read))
    }

    /// Writes one packet.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        rustix::io::write(self, bytes)?;
        Ok(())
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.port {
            Port::Tun(tun) => tun.as_fd(),
            Port::Packet(socket) => socket.as_fd(),
        }
    }
}

/// A packet socket that sees what comes in by `device`, of the namespace that the
/// calling thread is in.
fn packet_socket(device: &str) -> io::Result<OwnedFd> {
    use nix::sys::socket::{bind, socket};

    // The only safe way to the address of a device is to ask for those there are.
    let address = nix::ifaddrs::getifaddrs()?
        .filter(|found| found.interface_name == device)
        .find_map(|found| found.address?.as_link_addr().copied())
        .ok_or_else(|| io::Error::other(format!("device {device} has no link address")))?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        flags,
        SockProtocol::EthAll,
    )?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &address)?;
    enlarge(&socket);
    Ok(socket)
}

/// A pair learns by and by that both its devices are up, and drops packets until
/// then.
fn wait_until_operating(device: &str) -> io::Result<()> {
    let give_up = Instant::now() + OPERATING_MAX;
    while !is_operating(device)? {
        if Instant::now() > give_up {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn enlarge(socket: &OwnedFd) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, SOCKET_BYTES);
    }
}

/// Which attachments this process can have, the best first; an error says why
/// none, with the remedy.
pub(crate) fn best() -> Result<AttachmentKind, String> {
    let opened = File::options().read(true).write(true).open("/dev/net/tun");
    let Err(tun) = opened else {
        return Ok(AttachmentKind::Tun);
    };
    let trial = || {
        let inner = Namespace::new("trial")?;
        let wires = Namespace::new("wires")?;
        Attachment::veth(&inner, &wires, "trial", 1500)
    };
    match trial() {
        Ok(_) => Ok(AttachmentKind::Veth),
        Err(veth) => Err(format!(
            "neither /dev/net/tun ({tun}) nor veth with packet sockets ({veth}); \
             `modprobe tun` and `chmod 666 /dev/net/tun`, or `modprobe veth af_packet`"
        )),
    }
}

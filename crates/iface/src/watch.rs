//! Tells when interfaces, addresses or routes change.

use std::io;
use std::time::Duration;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

/// Multicast groups of rtnetlink, as bits of the address: changes of interfaces,
/// of IPv4 addresses and routes, of IPv6 addresses and routes.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Changes come in bursts: an interface, its addresses, their routes. This long
/// after the first of a burst it is worth looking.
const BURST: Duration = Duration::from_millis(20);

/// Hears of changes in the network namespace it was made in.
#[derive(Debug)]
pub struct Watcher {
    socket: AsyncFd<Socket>,
    /// Something was heard that has not been told yet; it is when the burst is
    /// over.
    burst_ends: Option<Instant>,
}

impl Watcher {
    /// Listens from now on.
    ///
    /// # Errors
    /// Netlink sockets are forbidden here, or there is no tokio runtime with I/O.
    pub fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        #[expect(
            deprecated,
            reason = "the replacement takes unsafe code for types that lend a descriptor they do \
                      not own; a netlink socket owns its"
        )]
        let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self {
            socket,
            burst_ends: None,
        })
    }

    /// Waits for the next change. What it was, a new
    /// [`Snapshot`](crate::Snapshot) tells; one that was taken after
    /// [`Watcher::new`] or the last change misses none. Whoever stops waiting
    /// misses none either.
    ///
    /// # Errors
    /// The kernel takes the socket away.
    pub async fn changed(&mut self) -> io::Result<()> {
        let ends = match self.burst_ends {
            Some(ends) => ends,
            None => {
                self.hear().await?;
                *self.burst_ends.insert(Instant::now() + BURST)
            }
        };
        sleep_until(ends).await;
        self.burst_ends = None;
        // More of the same burst; nothing left is fine, too.
        while let Some(result) = self.take_one() {
            result?;
        }
        Ok(())
    }

    /// Waits for one message and takes it.
    async fn hear(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| receive(socket.get_ref())) {
                Ok(result) => return result,
                Err(_) => continue,
            }
        }
    }

    fn take_one(&mut self) -> Option<io::Result<()>> {
        match receive(self.socket.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            result => Some(result),
        }
    }
}

/// Takes one message. That others were lost (`ENOBUFS`) is news as well.
fn receive(socket: &Socket) -> io::Result<()> {
    /// `ENOBUFS`.
    const OVERRUN: i32 = 105;
    let mut space = [0; 64];
    match socket.recv(&mut &mut space[..], 0) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(OVERRUN) => Ok(()),
        Err(error) => Err(error),
    }
}

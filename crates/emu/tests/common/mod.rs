//! Targets and clients on loopback.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ctcp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};

/// Longer than any datagram takes, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// A socket on loopback that waits for [`PATIENCE`] at most.
pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// A client that talks to `relay` only.
pub(crate) fn client_of(relay: &RelayHandle) -> UdpSocket {
    let socket = socket();
    socket.connect(relay.local_addr()).expect("loopback");
    socket
}

pub(crate) fn relay_to(target: SocketAddr, up: LinkConfig, down: LinkConfig) -> RelayHandle {
    let config = RelayConfig::new(loopback(), target, up, down).seed(7);
    Relay::spawn(config).expect("a relay on loopback")
}

/// A link that does nothing.
pub(crate) fn wire() -> LinkConfig {
    LinkConfig::unlimited(Duration::ZERO)
}

/// A target that sends back what it gets.
pub(crate) struct Echo {
    pub(crate) addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    pub(crate) fn start() -> Self {
        Self::on(socket())
    }

    pub(crate) fn on(socket: UdpSocket) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        let addr = socket.local_addr().expect("a bound socket");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut space = [0; 65_536];
            while !over.load(Ordering::Relaxed) {
                match socket.recv_from(&mut space) {
                    Ok((len, from)) => {
                        let _ = socket.send_to(&space[..len], from);
                    }
                    Err(error)
                        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(error) => panic!("the echo fails: {error}"),
                }
            }
        });
        Self {
            addr,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tries a measurement up to `attempts` times: what else the machine does can
/// spoil one, and never makes a wrong relay right.
pub(crate) fn eventually<E: std::fmt::Debug>(attempts: u32, measure: impl Fn() -> Result<(), E>) {
    for attempt in 1..=attempts {
        match measure() {
            Ok(()) => return,
            Err(found) => println!("attempt {attempt}: {found:?}"),
        }
    }
    panic!("none of {attempts} attempts within bounds");
}

//! An association at the forward proxy.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};
use tracing::debug;

use super::{DATAGRAM_LEN_MAX, next_datagram};
use crate::egress::canonical;
use crate::socks::udp::{PREFIX_LEN, from_application};
use crate::splice::Meter;
use crate::target::{Host, Target};
use crate::tunnel::TunnelStream;

/// The socket of an association: on the address that the application reached the proxy
/// by, a port of its own.
pub(crate) async fn bind(tcp: &TcpStream) -> io::Result<UdpSocket> {
    let ip = canonical(tcp.local_addr()?).ip();
    UdpSocket::bind(SocketAddr::new(ip, 0)).await
}

/// Who may use an association: the machine that asked for it, and there the port it
/// announced, or the first that it sends from.
#[derive(Debug)]
struct Application {
    machine: SocketAddr,
    address: Option<SocketAddr>,
}

impl Application {
    fn new(machine: SocketAddr, announced: &Target) -> Self {
        let machine = canonical(machine);
        let is_usable = match &announced.host {
            Host::Ip(ip) => ip.is_unspecified() || ip.to_canonical() == machine.ip(),
            Host::Name(_) => false,
        };
        let address = (is_usable && announced.port != 0)
            .then(|| SocketAddr::new(machine.ip(), announced.port));
        Self { machine, address }
    }

    /// Whether a datagram is its own.
    fn admits(&mut self, from: SocketAddr) -> bool {
        let from = canonical(from);
        match self.address {
            Some(address) => from == address,
            None if from.ip() == self.machine.ip() => {
                self.address = Some(from);
                true
            }
            None => false,
        }
    }
}

/// Carries datagrams until the application closes `tcp` or the stream ends.
pub(crate) async fn serve<S: TunnelStream>(
    tcp: &mut TcpStream,
    udp: &UdpSocket,
    announced: &Target,
    stream: &mut S,
    meter: Meter<'_>,
) -> io::Result<()> {
    let mut application = Application::new(tcp.peer_addr()?, announced);
    // The application may know it by an address of the other family's form.
    let mut reply_to = None;
    let mut inbound = vec![0; DATAGRAM_LEN_MAX];
    let mut outbound = Vec::with_capacity(DATAGRAM_LEN_MAX);
    let mut chunk = [0; 256];
    loop {
        tokio::select! {
            read = tcp.read(&mut chunk) => match read {
                // There is nothing to say on it.
                Ok(len) if len > 0 => {}
                _ => return Ok(()),
            },
            datagram = next_datagram(stream) => {
                let Some(datagram) = datagram else {
                    return Ok(());
                };
                let Some(address) = reply_to else {
                    continue;
                };
                outbound.clear();
                outbound.resize(PREFIX_LEN, 0);
                outbound.extend_from_slice(&datagram);
                if udp.send_to(&outbound, address).await.is_ok() {
                    meter.add_to_local(datagram.len());
                }
            }
            // An error tells of an earlier datagram: the application's port is closed.
            received = udp.recv_from(&mut inbound) => {
                let Ok((len, from)) = received else {
                    continue;
                };
                if len == DATAGRAM_LEN_MAX || !application.admits(from) {
                    continue;
                }
                reply_to = Some(from);
                let sent = match from_application(&inbound[..len]) {
                    Ok(addressed) => stream.send_datagram(addressed).map(|()| addressed.len()),
                    Err(error) => {
                        debug!(%error, "an application's datagram is dropped");
                        continue;
                    }
                };
                match sent {
                    Ok(len) => meter.add_to_tunnel(len),
                    Err(error) => debug!(%error, "an application's datagram is dropped"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    fn application(announced: &str) -> Application {
        let announced = address(announced);
        let announced = Target {
            host: announced.ip().into(),
            port: announced.port(),
        };
        Application::new(address("192.0.2.7:1000"), &announced)
    }

    #[test]
    fn only_the_application_that_asked_may_send() {
        let mut any = application("0.0.0.0:0");
        assert!(!any.admits(address("192.0.2.8:5000")), "another machine");
        assert!(any.admits(address("[::ffff:192.0.2.7]:5000")));
        assert!(any.admits(address("192.0.2.7:5000")));
        assert!(!any.admits(address("192.0.2.7:5001")), "another program");

        let mut one = application("0.0.0.0:6000");
        assert!(!one.admits(address("192.0.2.7:5000")));
        assert!(one.admits(address("192.0.2.7:6000")));

        // Behind a NAT it cannot know its address.
        let mut elsewhere = application("10.0.0.1:6000");
        assert!(elsewhere.admits(address("192.0.2.7:5000")));
    }
}

//! An association at the reverse proxy.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::{DATAGRAM_LEN_MAX, next_datagram};
use crate::egress::canonical;
use crate::request::Failure;
use crate::resolve::Resolve;
use crate::reverse::ReverseProxy;
use crate::socks::udp::{addressed_data, write_source};
use crate::splice::Meter;
use crate::target::{Host, Target};
use crate::tunnel::TunnelStream;

/// Addresses whose answers are let in; the one used longest ago is forgotten first.
const PEERS_MAX: usize = 256;

/// Names whose address is remembered, and for how long.
const NAMES_MAX: usize = 64;
const NAME_AGE_MAX: Duration = Duration::from_secs(30);

/// Names of one association that are looked up at once; datagrams for further ones are
/// dropped.
const LOOKUPS_MAX: usize = 16;

/// A datagram whose target's name was looked up.
type LookedUp = (Target, Vec<u8>, Result<Vec<SocketAddr>, Failure>);

/// One application's way to the far side's network.
struct Association<'a, R> {
    proxy: &'a ReverseProxy<R>,
    meter: Meter<'a>,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    peers: VecDeque<SocketAddr>,
    names: BTreeMap<Target, (Instant, SocketAddr)>,
    lookups: JoinSet<LookedUp>,
}

/// Carries datagrams until the stream ends.
pub(crate) async fn serve<S: TunnelStream, R: Resolve>(
    stream: &mut S,
    proxy: &ReverseProxy<R>,
    meter: Meter<'_>,
) {
    let mut association = Association {
        proxy,
        meter,
        v4: None,
        v6: None,
        peers: VecDeque::new(),
        names: BTreeMap::new(),
        lookups: JoinSet::new(),
    };
    let mut from_v4 = vec![0; DATAGRAM_LEN_MAX];
    let mut from_v6 = vec![0; DATAGRAM_LEN_MAX];
    loop {
        tokio::select! {
            datagram = next_datagram(stream) => match datagram {
                Some(datagram) => association.forward(&datagram).await,
                None => return,
            },
            Some(looked_up) = association.lookups.join_next() => {
                if let Ok(looked_up) = looked_up {
                    association.on_looked_up(looked_up).await;
                }
            }
            received = receive(association.v4.as_ref(), &mut from_v4) => {
                association.answer(stream, received, &from_v4);
            }
            received = receive(association.v6.as_ref(), &mut from_v6) => {
                association.answer(stream, received, &from_v6);
            }
        }
    }
}

/// The next datagram of a socket; without a socket there is none.
async fn receive(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(buffer).await,
        None => std::future::pending().await,
    }
}

impl<R: Resolve> Association<'_, R> {
    /// Sends what the application sent on, if that is allowed.
    async fn forward(&mut self, datagram: &[u8]) {
        let (target, data) = match addressed_data(datagram) {
            Ok(addressed) => addressed,
            Err(error) => return debug!(%error, "a client's datagram is dropped"),
        };
        if !self.proxy.client().pay_up(datagram.len()) {
            return;
        }
        let known = match &target.host {
            Host::Ip(ip) => {
                let address = canonical(SocketAddr::new(*ip, target.port));
                match self.proxy.judge_address(&target, address) {
                    Ok(()) => Some(address),
                    Err(failure) => {
                        return debug!(%target, %failure, "a client's datagram is dropped");
                    }
                }
            }
            Host::Name(_) => self.remembered(&target),
        };
        match known {
            Some(address) => self.send(data, address).await,
            None if self.lookups.len() < LOOKUPS_MAX => {
                let (proxy, data) = (self.proxy.clone(), data.to_vec());
                self.lookups.spawn(async move {
                    let addresses = proxy.addresses(&target).await;
                    (target, data, addresses)
                });
            }
            None => {}
        }
    }

    fn remembered(&self, target: &Target) -> Option<SocketAddr> {
        let (since, address) = self.names.get(target)?;
        (since.elapsed() < NAME_AGE_MAX).then_some(*address)
    }

    async fn on_looked_up(&mut self, (target, data, addresses): LookedUp) {
        let first = addresses.map(|addresses| addresses.first().copied());
        match first {
            Ok(Some(address)) => {
                if self.names.len() >= NAMES_MAX {
                    self.names.clear();
                }
                self.names.insert(target, (Instant::now(), address));
                self.send(&data, address).await;
            }
            Ok(None) => {}
            Err(failure) => debug!(%target, %failure, "a client's datagram is dropped"),
        }
    }

    async fn send(&mut self, data: &[u8], address: SocketAddr) {
        let (socket, any) = match address {
            SocketAddr::V4(_) => (&mut self.v4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            SocketAddr::V6(_) => (&mut self.v6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
        };
        if socket.is_none() {
            *socket = bind(any)
                .inspect_err(|error| debug!(%error, "no socket for a client's datagrams"))
                .ok();
        }
        let Some(socket) = socket else {
            return;
        };
        if let Err(error) = socket.send_to(data, address).await {
            return debug!(%address, %error, "a client's datagram is dropped");
        }
        self.meter.add_to_local(data.len());
        if let Some(place) = self.peers.iter().position(|known| *known == address) {
            self.peers.remove(place);
        } else if self.peers.len() >= PEERS_MAX {
            self.peers.pop_front();
        }
        self.peers.push_back(address);
    }

    /// Takes what a target sent to the application, if that has sent to the target.
    fn answer<S: TunnelStream>(
        &self,
        stream: &mut S,
        received: io::Result<(usize, SocketAddr)>,
        buffer: &[u8],
    ) {
        // An error tells of an earlier datagram: its target's port is closed.
        let Ok((len, from)) = received else {
            return;
        };
        let from = canonical(from);
        if len == DATAGRAM_LEN_MAX || !self.peers.contains(&from) {
            return;
        }
        if !self.proxy.client().pay_down(len) {
            return;
        }
        let mut datagram = Vec::with_capacity(len + 19);
        write_source(from, &mut datagram);
        datagram.extend_from_slice(&buffer[..len]);
        match stream.send_datagram(&datagram) {
            Ok(()) => self.meter.add_to_tunnel(len),
            Err(error) => debug!(%error, "a target's datagram is dropped"),
        }
    }
}

/// A socket without waiting, which binding never does.
fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

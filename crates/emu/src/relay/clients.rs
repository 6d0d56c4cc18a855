//! The clients of a relay: each has a port of its own towards the target, as
//! behind a NAT.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use ctcp_units::{Duration, Instant};

use super::socket::{Route, UdpPort};
use crate::poller::Poller;

/// A client; an id is not used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientId {
    slot: u32,
    generation: u32,
}

/// What a relay keeps of a client.
#[derive(Debug)]
pub(crate) struct Client {
    generation: u32,
    /// The way back to the client.
    pub(crate) back: Route,
    /// The port towards the target.
    pub(crate) upstream: UdpPort,
    last_active: Instant,
}

/// All clients, at most a fixed number.
#[derive(Debug)]
pub(crate) struct Clients {
    target: SocketAddr,
    clients_max: usize,
    idle_timeout: Duration,
    slots: Vec<Option<Client>>,
    /// Only looked up, never iterated.
    by_addr: HashMap<SocketAddr, u32>,
    next_generation: u32,
    pub(crate) seen: u64,
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
}

/// A port towards `target`, from an address that the system picks.
pub(crate) fn open_upstream(target: SocketAddr) -> io::Result<UdpPort> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    UdpPort::open(any, Some(target))
}

impl Clients {
    pub(crate) fn new(target: SocketAddr, clients_max: usize, idle_timeout: Duration) -> Self {
        Self {
            target,
            clients_max,
            idle_timeout,
            slots: Vec::new(),
            by_addr: HashMap::new(),
            next_generation: 0,
            seen: 0,
            evicted: 0,
            expired: 0,
        }
    }

    pub(crate) fn target(&self) -> SocketAddr {
        self.target
    }

    pub(crate) fn len(&self) -> usize {
        self.by_addr.len()
    }

    /// The client at `addr`, which wrote to our address `ours`; new if need be.
    ///
    /// A new client beyond the limit takes the place of the one that has been
    /// silent for longest.
    pub(crate) fn at(
        &mut self,
        addr: SocketAddr,
        ours: Option<IpAddr>,
        now: Instant,
        poller: &Poller,
    ) -> io::Result<ClientId> {
        if let Some(&slot) = self.by_addr.get(&addr)
            && let Some(client) = &mut self.slots[slot as usize]
        {
            client.last_active = now;
            return Ok(ClientId {
                slot,
                generation: client.generation,
            });
        }
        let upstream = open_upstream(self.target)?;
        if self.len() >= self.clients_max {
            self.evict();
        }
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(slot) => slot as u32,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        poller.add(upstream.as_socket(), u64::from(slot))?;
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        tracing::debug!(client = %addr, "new client");
        self.seen += 1;
        self.by_addr.insert(addr, slot);
        self.slots[slot as usize] = Some(Client {
            generation,
            back: Route {
                to: addr,
                from: ours,
            },
            upstream,
            last_active: now,
        });
        Ok(ClientId { slot, generation })
    }

    /// The client, unless it is gone.
    pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
        self.slots
            .get(id.slot as usize)?
            .as_ref()
            .filter(|client| client.generation == id.generation)
    }

    /// The client whose port was reported as `token`.
    pub(crate) fn by_token(&self, token: u64) -> Option<(ClientId, &Client)> {
        let slot = u32::try_from(token).ok()?;
        let client = self.slots.get(slot as usize)?.as_ref()?;
        let generation = client.generation;
        Some((ClientId { slot, generation }, client))
    }

    /// Gives every client a new port towards the target; says how many.
    ///
    /// Clients before the one that failed keep their new ports.
    pub(crate) fn rebind(&mut self, poller: &Poller) -> io::Result<usize> {
        let mut count = 0;
        for (slot, place) in self.slots.iter_mut().enumerate() {
            if let Some(client) = place {
                let upstream = open_upstream(self.target)?;
                poller.add(upstream.as_socket(), slot as u64)?;
                client.upstream = upstream;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Forgets clients that have been silent for too long. Traffic towards a
    /// client does not count, as with most NATs.
    pub(crate) fn expire(&mut self, now: Instant) {
        for place in &mut self.slots {
            if let Some(client) = place
                && now - client.last_active >= self.idle_timeout
            {
                self.by_addr.remove(&client.back.to);
                *place = None;
                self.expired += 1;
            }
        }
    }

    fn evict(&mut self) {
        let longest_silent = self
            .slots
            .iter_mut()
            .filter(|place| place.is_some())
            .min_by_key(|place| place.as_ref().map(|client| client.last_active));
        if let Some(place) = longest_silent
            && let Some(client) = place.take()
        {
            self.by_addr.remove(&client.back.to);
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::seconds;

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn the_longest_silent_client_gives_way_and_its_id_dies_with_it() {
        let poller = Poller::new().unwrap();
        let mut clients = Clients::new(addr(9), 2, seconds(60));
        let at = |clients: &mut Clients, port, second| {
            let now = Instant::EPOCH + seconds(second);
            clients.at(addr(port), None, now, &poller).unwrap()
        };
        let first = at(&mut clients, 1001, 1);
        let second = at(&mut clients, 1002, 2);
        assert_eq!(at(&mut clients, 1001, 3), first);
        let third = at(&mut clients, 1003, 4);
        assert_eq!(clients.len(), 2);
        assert!(clients.get(first).is_some() && clients.get(third).is_some());
        assert!(clients.get(second).is_none());
        assert_eq!(third.slot, second.slot);
        assert_eq!((clients.seen, clients.evicted), (3, 1));
    }

    #[test]
    fn a_silent_client_expires() {
        let poller = Poller::new().unwrap();
        let mut clients = Clients::new(addr(9), 8, seconds(60));
        let id = clients
            .at(addr(1001), None, Instant::EPOCH, &poller)
            .unwrap();
        clients.expire(Instant::EPOCH + seconds(59));
        assert!(clients.get(id).is_some());
        clients.expire(Instant::EPOCH + seconds(60));
        assert!(clients.get(id).is_none());
        assert_eq!((clients.len(), clients.expired), (0, 1));
    }

    #[test]
    fn rebinding_changes_the_port_and_keeps_the_client() {
        let poller = Poller::new().unwrap();
        let mut clients = Clients::new(addr(9), 8, seconds(60));
        let id = clients
            .at(addr(1001), None, Instant::EPOCH, &poller)
            .unwrap();
        let port = |clients: &Clients| clients.get(id).unwrap().upstream.local_addr().unwrap();
        let before = port(&clients);
        assert_eq!(clients.rebind(&poller).unwrap(), 1);
        assert_ne!(port(&clients), before);
    }
}

//! Two ends and a network that does what the input says: loses, repeats,
//! reorders, damages, delays, marks, shrinks, and moves the client elsewhere.
//! Whatever it does, bytes are exact, no end accuses the other, and once it is
//! good again everything comes to its end.

use std::collections::VecDeque;
use std::net::SocketAddr;

use ctcp_proto::{
    Connection, ConnectionError, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, Transmit,
    TransportConfig, Verdict, close_code,
};
use ctcp_units::{Duration, Instant};

use crate::Input;
use crate::model::Model;
use crate::support::{OnlyFriend, keys, transport};

const OPERATIONS_MAX: usize = 600;
/// Datagrams underway in one direction; what is too much is lost.
const UNDERWAY_MAX: usize = 600;
/// Connections a server may have at once here: hellos repeated by an impatient
/// client begin new ones.
const CONNECTIONS_MAX: usize = 8;
/// Longest wait until all has come to its end on a good path. It is long because
/// operations can make round trips of half a minute and shrink the path's MTU at
/// once: two minutes have been seen until full-sized packets were given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// Both ends, and operations as long as there is input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        world.operate(&mut input);
        world.poll();
    }
    world.settle();
}

#[derive(Debug, Clone)]
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

/// One end; the server may have several connections of the same client.
struct End {
    address: SocketAddr,
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Box<Connection>)>,
    /// The one that is talked on.
    active: Option<ConnectionHandle>,
    /// Datagrams for this end.
    underway: VecDeque<Datagram>,
}

impl End {
    fn active(&mut self) -> Option<&mut Connection> {
        let active = self.active?;
        let mut connections = self.connections.iter_mut();
        let found = connections.find(|(handle, _)| *handle == active)?;
        Some(&mut found.1)
    }
}

struct World {
    now: Instant,
    ends: [End; 2],
    model: Model,
    /// Longest datagram that passes: never shorter than what a fixed size has.
    mtu: usize,
    /// The connection ended, at one end at least.
    is_over: bool,
    out: Vec<u8>,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let end = |address: &str, identity, is_server: bool, transport: TransportConfig| {
            let config = EndpointConfig {
                identity,
                authorize: is_server.then(|| Box::new(OnlyFriend) as _),
                transport,
                has_aes: true,
                connections_max: CONNECTIONS_MAX,
            };
            End {
                address: address.parse().expect("an address"),
                endpoint: Endpoint::new(config, [u8::from(is_server); 32])
                    .expect("the settings are allowed"),
                connections: Vec::new(),
                active: None,
                underway: VecDeque::new(),
            }
        };
        let client = end(
            "10.0.0.1:1000",
            keys().friend.clone(),
            false,
            transport(input),
        );
        let server = end(
            "10.0.0.2:4500",
            keys().server.clone(),
            true,
            transport(input),
        );
        let mut world = Self {
            now: Instant::from_nanos(1_000_000_000),
            ends: [client, server],
            model: Model::default(),
            mtu: usize::MAX,
            is_over: false,
            out: Vec::new(),
        };
        let now = world.now;
        let server = world.ends[1].address;
        let client = &mut world.ends[0];
        let key = *keys().server.public();
        let connected = client
            .endpoint
            .connect(now, now.as_nanos(), server, key, &[]);
        let (handle, connection) = connected.expect("the key is good");
        client.connections.push((handle, Box::new(connection)));
        client.active = Some(handle);
        world.poll();
        if input.bool() {
            // Most of the time the handshake is not what this is about.
            for end in [1, 0, 1] {
                world.deliver_all(end);
                world.poll();
            }
        }
        world
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let operation = input.u8();
        let end = usize::from(operation >> 7);
        let choice = operation >> 4 & 7;
        match operation & 0x0F {
            0 => (0..=choice).for_each(|_| self.deliver(end, 0)),
            1 => self.deliver_all(end),
            2 => self.deliver(end, input.u8().into()),
            3 => drop(self.take(end, input.u8().into())),
            4 => {
                if let Some(copy) = self.pick(end, input.u8().into()).cloned() {
                    self.hear(end, copy);
                }
            }
            5 => self.damage(input, end),
            6 => {
                let span = [
                    100, 1000, 5000, 25_000, 100_000, 400_000, 1_500_000, 10_000_000,
                ];
                self.pass(Duration::from_micros(span[usize::from(choice)]));
            }
            7 => (0..=choice).for_each(|_| self.pass_to_deadline()),
            8 | 9 => self.with_application(end, |model, connection| model.open(end, connection)),
            10..13 => {
                self.with_application(end, |model, connection| {
                    model.operate(input, end, connection);
                });
            }
            13 => self.change_path(input, choice),
            14 => {
                if let Some(marked) = self.pick(end, choice.into()) {
                    marked.ecn = marked.ecn.map(|_| Ecn::Ce);
                }
            }
            _ => self.inject(input, end, choice),
        }
    }

    fn with_application(&mut self, end: usize, act: impl FnOnce(&mut Model, &mut Connection)) {
        let model = &mut self.model;
        if !self.is_over
            && let Some(connection) = self.ends[end].active()
        {
            act(model, connection);
        }
    }

    fn pick(&mut self, end: usize, which: usize) -> Option<&mut Datagram> {
        let underway = &mut self.ends[end].underway;
        let index = which.checked_rem(underway.len())?;
        underway.get_mut(index)
    }

    fn take(&mut self, end: usize, which: usize) -> Option<Datagram> {
        let underway = &mut self.ends[end].underway;
        underway.remove(which.checked_rem(underway.len())?)
    }

    fn deliver(&mut self, end: usize, which: usize) {
        if let Some(datagram) = self.take(end, which) {
            self.hear(end, datagram);
        }
    }

    fn deliver_all(&mut self, end: usize) {
        for datagram in core::mem::take(&mut self.ends[end].underway) {
            self.hear(end, datagram);
        }
    }

    fn damage(&mut self, input: &mut Input<'_>, end: usize) {
        let (which, at, flips) = (input.u8(), usize::from(input.u16()), input.u8());
        let Some(mut datagram) = self.pick(end, which.into()).cloned() else {
            return;
        };
        let len = datagram.bytes.len();
        match flips {
            0 => datagram.bytes.truncate(at % (len + 1)),
            _ => {
                if let Some(byte) = datagram.bytes.get_mut(at % len.max(1)) {
                    *byte ^= flips;
                }
            }
        }
        self.hear(end, datagram);
    }

    fn change_path(&mut self, input: &mut Input<'_>, choice: u8) {
        match choice {
            // A NAT forgets; the client may notice.
            0..4 => {
                let port = 1000 + u16::from(input.u8() % 4);
                self.ends[0].address.set_port(port);
                let now = self.now;
                if choice == 0
                    && let Some(connection) = self.ends[0].active()
                {
                    connection.on_local_address_changed(now);
                }
            }
            4 => self.mtu = 1200,
            5 => self.mtu = 1280,
            6 => self.mtu = usize::MAX,
            _ => {
                let now = self.now;
                if input.below(16) == 0
                    && let Some(connection) = self.ends[0].active()
                {
                    connection.close(now, close_code::NONE, "enough");
                }
            }
        }
    }

    /// A datagram out of nowhere, with an id in use if it can be seen.
    fn inject(&mut self, input: &mut Input<'_>, end: usize, choice: u8) {
        let len = usize::from(input.u8()) * usize::from(choice + 1);
        let mut bytes = input.bytes(len).to_vec();
        if let Some(seen) = self.ends[end].underway.front()
            && let (Some(place), Some(id)) = (bytes.get_mut(1..9), seen.bytes.get(1..9))
        {
            place.copy_from_slice(id);
        }
        let from = match choice {
            0..4 => self.ends[1 - end].address,
            _ => "198.51.100.9:9".parse().expect("an address"),
        };
        let datagram = Datagram {
            from,
            to: self.ends[end].address,
            ecn: None,
            bytes,
        };
        self.hear(end, datagram);
    }

    fn hear(&mut self, at: usize, mut datagram: Datagram) {
        let (now, end) = (self.now, &mut self.ends[at]);
        if datagram.to != end.address || datagram.bytes.len() > self.mtu {
            return;
        }
        let (from, bytes) = (datagram.from, &mut datagram.bytes);
        match end
            .endpoint
            .handle_datagram(now, now.as_nanos(), from, bytes)
        {
            Verdict::Dropped | Verdict::Replied => {}
            Verdict::Accepted { handle, connection } => {
                end.connections.push((handle, connection));
            }
            Verdict::Route { handle, path } => {
                let known = end.connections.iter_mut().find(|known| known.0 == handle);
                let (_, connection) = known.expect("it was not forgotten");
                connection.handle_datagram(now, path, from, datagram.ecn, bytes);
            }
        }
        self.poll_end(at);
    }

    fn poll(&mut self) {
        self.poll_end(0);
        self.poll_end(1);
    }

    fn poll_end(&mut self, at: usize) {
        let now = self.now;
        let mut out = core::mem::take(&mut self.out);
        let mut sent = Vec::new();
        let end = &mut self.ends[at];
        while let Some(transmit) = end.endpoint.poll_transmit(&mut out) {
            sent.push((transmit, out.clone()));
        }
        for (handle, connection) in &mut end.connections {
            let mut batches = 0;
            while let Some(transmit) = connection.poll_transmit(now, &mut out, 10) {
                assert_eq!(transmit.len, out.len());
                sent.push((transmit, out.clone()));
                batches += 1;
                assert!(batches < 10_000, "sending does not end");
            }
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::Connected => end.active = Some(*handle),
                    Event::Stream(event) => self.model.on_event(at, event, &mut **connection),
                    Event::Path(_) => {}
                    Event::Closed(error) => {
                        self.is_over |= end.active == Some(*handle);
                        check_end(&error);
                    }
                }
            }
        }
        let endpoint = &mut end.endpoint;
        end.connections.retain(|(handle, connection)| {
            if connection.is_drained() {
                endpoint.forget(*handle);
            }
            !connection.is_drained()
        });
        self.out = out;
        for (transmit, bytes) in sent {
            self.send(at, &transmit, &bytes);
        }
    }

    fn send(&mut self, at: usize, transmit: &Transmit, bytes: &[u8]) {
        let from = self.ends[at].address;
        let underway = &mut self.ends[1 - at].underway;
        for segment in bytes.chunks(transmit.segment_len) {
            underway.push_back(Datagram {
                from,
                to: transmit.remote,
                ecn: transmit.ecn,
                bytes: segment.to_vec(),
            });
        }
        let surplus = underway.len().saturating_sub(UNDERWAY_MAX);
        underway.drain(..surplus);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let connections = self.ends.iter().flat_map(|end| &end.connections);
        connections
            .filter_map(|(_, connection)| connection.poll_timeout())
            .min()
    }

    /// Time passes, and every deadline is kept.
    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        let mut repeats = 0;
        while let Some(due) = self.next_deadline().filter(|due| *due <= until) {
            repeats = if due <= self.now { repeats + 1 } else { 0 };
            assert!(repeats < 50, "a deadline does not move on: {due}");
            self.now = due.max(self.now);
            self.fire();
        }
        self.now = until;
    }

    fn pass_to_deadline(&mut self) {
        if let Some(due) = self.next_deadline() {
            self.now = due.max(self.now);
            self.fire();
        }
    }

    fn fire(&mut self) {
        let now = self.now;
        for end in &mut self.ends {
            for (_, connection) in &mut end.connections {
                if connection.poll_timeout().is_some_and(|due| due <= now) {
                    connection.handle_timeout(now);
                }
            }
        }
        self.poll();
    }

    /// The path is good from now on, as far as its MTU allows: all comes to its
    /// end.
    fn settle(&mut self) {
        let patience = self.now + PATIENCE;
        while self.now < patience && !self.is_over {
            for end in 0..2 {
                self.with_application(end, |model, connection| model.wind_up(end, connection));
            }
            self.poll();
            let is_settled = self.ends[1].active.is_some() && self.model.is_through();
            if is_settled {
                break;
            }
            let is_empty = self.ends.iter().all(|end| end.underway.is_empty());
            if is_empty {
                self.pass_to_deadline();
            } else {
                self.pass(Duration::from_millis(5));
                for end in 0..2 {
                    self.deliver_all(end);
                }
            }
        }
        let model = &self.model;
        assert!(self.is_over || model.is_through(), "stuck: {model:?}");
        let now = self.now;
        if let Some(client) = self.ends[0].active() {
            client.close(now, close_code::NONE, "done");
        }
        // Who was told of the end still listens for three probe timeouts, and
        // round trips of ten seconds make them long.
        for _ in 0..60 {
            self.pass(Duration::from_secs(60));
            self.deliver_all(0);
            self.deliver_all(1);
        }
        for end in &self.ends {
            assert!(end.connections.is_empty(), "connections end");
            assert_eq!(end.endpoint.connection_count(), 0);
        }
    }
}

/// Honest ends may lose patience, but have nothing to accuse each other of.
fn check_end(error: &ConnectionError) {
    match error {
        ConnectionError::PeerClosed { code, .. } => assert_eq!(*code, close_code::NONE, "{error}"),
        ConnectionError::LocallyClosed
        | ConnectionError::IdleTimeout(_)
        | ConnectionError::NoAnswer { .. }
        | ConnectionError::Refused(_) => {}
        ConnectionError::BadHandshake(_)
        | ConnectionError::Violation(_)
        | ConnectionError::KeysWornOut => panic!("an honest peer is accused: {error}"),
    }
}

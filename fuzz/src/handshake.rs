//! Both sides of the handshake: hellos and answers that are honest, damaged, or
//! made by someone who knows the keys and says nonsense.

use std::net::SocketAddr;

use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, KeyInit, Update};
use blake2::{Blake2s256, Blake2sMac, Digest};
use ctcp_proto::crypto::{
    ClientConfig, ClientHandshake, ClientProgress, CookieSecret, HELLO_LEN, HELLO_PAYLOAD_MAX,
    HandshakeKind, HelloError, Incoming, REPLY_PARAMS_MAX, Refusal, ReplyError, Responder,
    SecretRandom,
};
use ctcp_proto::{
    Connection, ConnectionHandle, Endpoint, EndpointConfig, Identity, PublicKey, TransportConfig,
    Verdict,
};
use ctcp_units::{Duration, Instant};
use snow::HandshakeState;

use crate::Input;
use crate::support::{OnlyFriend, keys};

/// Where the parts of a client hello stand, by `docs/wire-format.md`.
const NOISE_START: usize = 13;
const MAC1_START: usize = HELLO_LEN - 32;
const MAC2_START: usize = HELLO_LEN - 16;
/// What Noise adds to the payloads of the two messages.
const FIRST_OVERHEAD: usize = 96;
const SECOND_OVERHEAD: usize = 48;

const OPERATIONS_MAX: usize = 24;
const CONNECTIONS_MAX: usize = 3;

/// The first byte chooses the side under test.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.below(3) < 2 {
        server(&mut input);
    } else {
        client(&mut input);
    }
}

fn mac1(body: &[u8]) -> [u8; 16] {
    let mut key = Blake2s256::new();
    Digest::update(&mut key, b"ctcp mac1");
    Digest::update(&mut key, keys().server.public().as_bytes());
    let mut mac = Blake2sMac::<U16>::new_from_slice(&key.finalize()).expect("32 bytes are a key");
    Update::update(&mut mac, body);
    mac.finalize_fixed().into()
}

/// Makes a damaged hello pass the first check again.
fn sign(hello: &mut [u8]) {
    if hello.len() == HELLO_LEN {
        let mac = mac1(&hello[..MAC1_START]);
        hello[MAC1_START..MAC2_START].copy_from_slice(&mac);
    }
}

/// Overwrites a few bytes, and perhaps cuts or extends.
fn damage(input: &mut Input<'_>, packet: &mut Vec<u8>) {
    for _ in 0..input.below(4) {
        let at = usize::from(input.u16());
        let byte = input.u8();
        if let Some(place) = packet.get_mut(at) {
            *place ^= byte;
        }
    }
    if input.below(8) == 0 {
        packet.resize(usize::from(input.u16()) % 1500, 0);
    }
}

/// One side of Noise whose payloads the fuzzer chooses.
fn noise(own: &Identity, server: Option<&PublicKey>, header: &[u8]) -> HandshakeState {
    let pattern = "Noise_IK_25519_ChaChaPoly_BLAKE2s".parse().expect("known");
    let prologue = [b"ctcp handshake", header].concat();
    let mut builder = snow::Builder::new(pattern)
        .prologue(&prologue)
        .and_then(|b| b.local_private_key(own.secret().as_bytes()))
        .expect("set once");
    // Inputs must replay: no randomness of the system's.
    builder = builder.fixed_ephemeral_key_for_testing_only(&[3; 32]);
    match server {
        Some(key) => {
            let builder = builder.remote_public_key(key.as_bytes());
            builder.and_then(snow::Builder::build_initiator)
        }
        None => builder.build_responder(),
    }
    .expect("the keys fit the pattern")
}

/// A hello with any encrypted payload.
fn crafted_hello(client: &Identity, id: [u8; 8], start: &[u8]) -> Vec<u8> {
    let mut hello = vec![0; HELLO_LEN];
    hello[0] = 0x81;
    hello[1..5].copy_from_slice(&1u32.to_be_bytes());
    hello[5..NOISE_START].copy_from_slice(&id);
    let mut payload = [0; MAC1_START - NOISE_START - FIRST_OVERHEAD];
    let len = start.len().min(payload.len());
    payload[..len].copy_from_slice(&start[..len]);
    let mut noise = noise(client, Some(keys().server.public()), &hello[..NOISE_START]);
    noise
        .write_message(&payload, &mut hello[NOISE_START..MAC1_START])
        .expect("the lengths fit");
    sign(&mut hello);
    hello
}

struct Server {
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Box<Connection>)>,
    now: Instant,
    out: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let config = EndpointConfig {
            identity: keys().server.clone(),
            authorize: Some(Box::new(OnlyFriend)),
            transport: TransportConfig::default(),
            has_aes: true,
            connections_max: CONNECTIONS_MAX,
        };
        Self {
            endpoint: Endpoint::new(config, [1; 32]).expect("the defaults are allowed"),
            connections: Vec::new(),
            now: Instant::from_nanos(1_000_000_000),
            out: Vec::new(),
        }
    }

    fn hear(&mut self, from: SocketAddr, datagram: &mut [u8]) {
        let now = self.now;
        let knows_key = datagram.len() == HELLO_LEN
            && mac1(&datagram[..MAC1_START]) == datagram[MAC1_START..MAC2_START];
        match self
            .endpoint
            .handle_datagram(now, now.as_nanos(), from, datagram)
        {
            Verdict::Dropped | Verdict::Replied => {}
            Verdict::Accepted {
                handle,
                mut connection,
            } => {
                let said = connection.poll_transmit(now, &mut self.out, 10);
                assert_eq!(said, None, "nothing before the client is proven");
                self.connections.push((handle, connection));
            }
            Verdict::Route { handle, path } => {
                let known = self.connections.iter_mut().find(|known| known.0 == handle);
                let (_, connection) = known.expect("it was not forgotten");
                connection.handle_datagram(now, path, from, None, datagram);
                assert!(!connection.is_open(), "nobody sealed anything");
            }
        }
        assert!(self.connections.len() <= CONNECTIONS_MAX);
        assert_eq!(self.connections.len(), self.endpoint.connection_count());
        let mut replies = 0;
        while let Some(transmit) = self.endpoint.poll_transmit(&mut self.out) {
            replies += 1;
            assert!(knows_key, "silence for who does not know the key");
            assert_eq!(transmit.remote, from);
            assert!(transmit.len <= datagram.len(), "no amplification");
        }
        assert!(replies <= 1);
    }

    fn wait(&mut self, span: Duration) {
        self.now += span;
        let (now, endpoint) = (self.now, &mut self.endpoint);
        self.connections.retain_mut(|(handle, connection)| {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            if connection.is_drained() {
                endpoint.forget(*handle);
            }
            !connection.is_drained()
        });
    }
}

fn server(input: &mut Input<'_>) {
    let mut server = Server::new();
    let mut hellos: Vec<Vec<u8>> = Vec::new();
    for operation in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let choice = input.below(8);
        let from = match input.below(3) {
            0 => "192.0.2.1:1000",
            1 => "192.0.2.1:1001",
            _ => "[2001:db8::1]:1000",
        };
        let from = from.parse().expect("an address");
        let client = if input.below(4) == 0 {
            &keys().stranger
        } else {
            &keys().friend
        };
        match choice {
            0 => {
                let len = usize::from(input.u16() % 1300);
                server.hear(from, &mut input.bytes(len).to_vec());
            }
            1 => {
                let params_len = usize::from(input.u16()) % (HELLO_PAYLOAD_MAX + 1);
                let params = input.bytes(params_len);
                let invite_len = input.below(32).min(HELLO_PAYLOAD_MAX - params.len());
                let config = ClientConfig {
                    server: keys().server.public(),
                    identity: client,
                    connection_id: input.array(),
                    timestamp: input.u64(),
                    has_aes: input.bool(),
                    params,
                    invite: input.bytes(invite_len),
                };
                let mut random = SecretRandom::from_seed([operation as u8; 32]);
                let client = ClientHandshake::new(&config, &mut random).expect("it all fits");
                server.hear(from, &mut client.packet().to_vec());
                hellos.push(client.packet().to_vec());
            }
            2..4 => {
                let Some(hello) = hellos.get(input.below(OPERATIONS_MAX)) else {
                    continue;
                };
                let mut hello = hello.clone();
                damage(input, &mut hello);
                if input.bool() {
                    sign(&mut hello);
                }
                server.hear(from, &mut hello);
            }
            4 => {
                let id = input.array();
                let len = usize::from(input.u16()) % 1100;
                let mut hello = crafted_hello(client, id, input.bytes(len));
                server.hear(from, &mut hello);
                hellos.push(hello);
            }
            5 => server.wait(Duration::from_millis(10) * u32::from(input.u16())),
            6 => {
                if let Some((handle, _)) = server.connections.pop() {
                    server.endpoint.forget(handle);
                }
            }
            _ => {
                // To a connection that waits for proof, and without any: its id
                // is only in an encrypted answer, so the router is told it.
                let bytes = input.rest();
                let mut packet = bytes[..bytes.len().min(1500)].to_vec();
                let now = server.now;
                if let Some((_, connection)) = server.connections.first_mut() {
                    let path = ctcp_units::PathId(0);
                    connection.handle_datagram(now, path, from, None, &mut packet);
                    assert!(!connection.is_open(), "nobody sealed anything");
                }
            }
        }
    }
}

fn client(input: &mut Input<'_>) {
    let mut random = SecretRandom::from_seed([9; 32]);
    let cookies = CookieSecret::generate(&mut random);
    let responder = Responder::new(keys().server.clone(), cookies, input.bool());
    let config = ClientConfig {
        server: keys().server.public(),
        identity: &keys().friend,
        connection_id: input.array(),
        timestamp: 5,
        has_aes: input.bool(),
        params: b"limits",
        invite: b"",
    };
    let mut client = ClientHandshake::new(&config, &mut random).expect("it all fits");
    let now = Instant::from_nanos(1_000_000_000);
    let source = b"somewhere";
    let read = |hello: &[u8], under_load, random: &mut SecretRandom| {
        let incoming = responder.read(hello, source, under_load, now, random);
        incoming.expect("the client is honest")
    };
    let mut is_over = false;
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let (mut packet, is_honest) = match input.below(5) {
            0 => {
                let len = usize::from(input.u16() % 1300);
                (input.bytes(len).to_vec(), false)
            }
            1 => match read(client.packet(), true, &mut random) {
                Incoming::Cookie(packet) => (packet, true),
                // The cookie was understood.
                Incoming::Hello(_) => continue,
            },
            2 => {
                let Incoming::Hello(hello) = read(client.packet(), false, &mut random) else {
                    panic!("a cookie without load");
                };
                let len = usize::from(input.u16()) % (REPLY_PARAMS_MAX + 1);
                let params = input.bytes(len);
                let packet = if input.bool() {
                    hello.accept(*b"serverid", params).expect("it fits").packet
                } else {
                    hello.refuse(Refusal::Other(input.u8()))
                };
                (packet, true)
            }
            3 => {
                let len = usize::from(input.u16()) % 1100;
                (crafted_answer(client.packet(), input.bytes(len)), false)
            }
            _ => {
                // Something else of the right length and address.
                let mut packet = client.packet().to_vec();
                packet[0] = input.u8();
                packet.copy_within(5..13, 1);
                packet.truncate(9 + usize::from(input.u16()));
                (packet, false)
            }
        };
        let undamaged = packet.clone();
        if input.below(4) == 0 {
            damage(input, &mut packet);
        }
        let is_honest = is_honest && packet == undamaged;
        let progress = client.on_packet(&packet);
        if is_over {
            assert!(matches!(progress, Err(ReplyError::Finished)));
            continue;
        }
        let is_crafted = !is_honest && packet == undamaged;
        match progress {
            Ok(ClientProgress::Cookie) => {
                assert!(is_honest);
                let answer = read(client.packet(), true, &mut random);
                assert!(
                    matches!(answer, Incoming::Hello(_)),
                    "the cookie opens the door"
                );
            }
            Ok(ClientProgress::Accepted(_) | ClientProgress::Refused(_)) => {
                assert!(is_honest || is_crafted, "damage is noticed");
                is_over = true;
            }
            Err(ReplyError::Malformed) => {
                assert!(is_crafted);
                is_over = true;
            }
            Err(ReplyError::RepeatedCookie) => assert!(is_honest),
            Err(_) => assert!(!is_honest, "an honest answer is taken"),
        }
    }
    // Whatever was thrown at it, the handshake still works.
    if !is_over {
        let Incoming::Hello(hello) = read(client.packet(), false, &mut random) else {
            panic!("a cookie without load");
        };
        let accepted = hello.accept(*b"serverid", b"limits").expect("it fits");
        let progress = client.on_packet(&accepted.packet);
        let Ok(ClientProgress::Accepted(ours)) = progress else {
            panic!("the honest answer is refused: {progress:?}");
        };
        assert_eq!(ours.server_id, *b"serverid");
        assert_eq!(ours.params, b"limits");
    }
    let mut hello = client.packet().to_vec();
    damage(input, &mut hello);
    let damaged = responder.identify(&hello);
    if hello.len() != HELLO_LEN && HandshakeKind::of(&hello) == Some(HandshakeKind::ClientHello) {
        let len = hello.len();
        assert_eq!(damaged, Err(HelloError::WrongLength { len }));
    }
}

/// An authentic answer with any payload.
fn crafted_answer(hello: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut noise = noise(&keys().server, None, &hello[..NOISE_START]);
    let mut buffer = [0; HELLO_LEN];
    noise
        .read_message(&hello[NOISE_START..MAC1_START], &mut buffer)
        .expect("the client is honest");
    let mut packet = vec![0; 9 + SECOND_OVERHEAD + payload.len()];
    packet[0] = 0x82;
    packet[1..9].copy_from_slice(&hello[5..NOISE_START]);
    noise
        .write_message(payload, &mut packet[9..])
        .expect("the lengths fit");
    packet
}

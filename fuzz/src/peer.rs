//! One end whose peer proved its key and then lies: packets sealed with the
//! right keys, of any kind, with any content. The connection may close; it may
//! not panic, spin, or grow without bound.

use std::net::SocketAddr;

use ctcp_proto::crypto::{
    ClientConfig, ClientHandshake, ClientProgress, CookieSecret, Incoming, Keys, ReplayWindow,
    Responder, SecretRandom, TAG_LEN,
};
use ctcp_proto::stream::StreamsConfig;
use ctcp_proto::wire::{CLEAR_HEADER_LEN, Frame, TransportParams, write_varint};
use ctcp_proto::{Connection, Endpoint, EndpointConfig, Event, TransportConfig, Verdict};
use ctcp_units::{Duration, Instant, PacketNumber, PathId, StreamId, SymbolId};

use crate::Input;
use crate::streams;
use crate::support::{OnlyFriend, keys, pass_time, transport};

const OPERATIONS_MAX: usize = 600;
const PATH: PathId = PathId(0);
/// Datagrams the victim may send for one thing that happened to it: all its
/// tokens, which lies can raise, in batches of ten.
const BATCHES_MAX: usize = 100_000;

/// A victim of one side, and lies as long as there is input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let config = transport(&mut input);
    let is_server = input.bool();
    let params = params(&mut input);
    let streams = config.streams;
    let window_symbols = config.window_symbols;
    let Some((victim, liar)) = meet(config, is_server, &params) else {
        return;
    };
    let mut scene = Scene {
        now: Instant::from_nanos(1_000_000_000),
        victim,
        liar,
        streams,
        window_symbols,
        out: Vec::new(),
        is_closed: false,
    };
    scene.after();
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || scene.is_closed {
            break;
        }
        scene.operate(&mut input);
        scene.after();
    }
    // Left alone, it comes to its end.
    scene.pass(Duration::from_secs(4000));
    assert!(scene.victim.is_drained(), "a silent peer is given up");
}

/// What the liar announces: anything that parses.
fn params(input: &mut Input<'_>) -> TransportParams {
    let choice = input.u8();
    let small = u64::from(choice >> 4);
    let varint_max = (1 << 62) - 1;
    let limit = |bit: u8, usual: u64| match choice >> bit & 3 {
        0 => small,
        1 => varint_max,
        _ => usual,
    };
    TransportParams {
        window_symbols: 1 + (u64::from(input.u8()) << (choice & 7)),
        max_data: limit(0, 1 << 20),
        max_stream_data: limit(2, 64 << 10),
        max_streams: limit(4, 10),
        idle_timeout: Duration::from_secs(small),
        max_ack_delay: Duration::from_micros(u64::from(input.u16())),
        udp_payload_max: 1200 + u64::from(input.u8()) * 252,
        datagram_window: limit(6, 64),
    }
}

/// The one who lies.
struct Liar {
    keys: Keys,
    /// Of the victim.
    id: [u8; 8],
    next: u64,
    window: ReplayWindow,
    address: SocketAddr,
    /// Sealed earlier, to be sent again.
    kept: Vec<Vec<u8>>,
}

struct Scene {
    now: Instant,
    victim: Connection,
    liar: Liar,
    streams: StreamsConfig,
    window_symbols: u64,
    out: Vec<u8>,
    is_closed: bool,
}

/// A handshake, honest but for the announced limits. `None`: they were refused.
fn meet(
    config: TransportConfig,
    is_server: bool,
    params: &TransportParams,
) -> Option<(Connection, Liar)> {
    let now = Instant::from_nanos(1_000_000_000);
    let mut random = SecretRandom::from_seed([4; 32]);
    let mut announced = Vec::new();
    params.write(&mut announced);
    let (us, them) = ("10.0.0.1:1000", "10.0.0.2:4500");
    let address: SocketAddr = them.parse().expect(us);
    let endpoint = |identity, authorize| {
        let config = EndpointConfig {
            identity,
            authorize,
            transport: config.clone(),
            has_aes: true,
            connections_max: 1,
        };
        Endpoint::new(config, [2; 32]).expect("the settings are allowed")
    };
    let liar = |keys, id| Liar {
        keys,
        id,
        next: 0,
        window: ReplayWindow::new(),
        address,
        kept: Vec::new(),
    };
    let mut out = Vec::new();
    if is_server {
        let mut endpoint = endpoint(keys().server.clone(), Some(Box::new(OnlyFriend) as _));
        let config = ClientConfig {
            server: keys().server.public(),
            identity: &keys().friend,
            connection_id: *b"liar's i",
            timestamp: 5,
            has_aes: true,
            params: &announced,
            invite: b"",
        };
        let mut client = ClientHandshake::new(&config, &mut random).expect("it fits");
        let verdict = endpoint.handle_datagram(now, now.as_nanos(), address, client.packet());
        let Verdict::Accepted { connection, .. } = verdict else {
            return None;
        };
        endpoint.poll_transmit(&mut out).expect("the answer");
        let Ok(ClientProgress::Accepted(accepted)) = client.on_packet(&out) else {
            panic!("the answer is honest");
        };
        Some((*connection, liar(accepted.keys, accepted.server_id)))
    } else {
        let mut endpoint = endpoint(keys().friend.clone(), None);
        let key = *keys().server.public();
        let connected = endpoint.connect(now, now.as_nanos(), address, key, b"");
        let (_, mut connection) = connected.expect("the key is good");
        connection.poll_transmit(now, &mut out, 1).expect("a hello");
        let cookies = CookieSecret::generate(&mut random);
        let responder = Responder::new(keys().server.clone(), cookies, true);
        let read = responder.read(&out, b"", false, now, &mut random);
        let Ok(Incoming::Hello(hello)) = read else {
            panic!("the hello is honest");
        };
        let id = hello.client_id;
        let mut accepted = hello.accept(*b"liar's i", &announced).expect("it fits");
        connection.handle_datagram(now, PATH, address, None, &mut accepted.packet);
        connection
            .is_open()
            .then(|| (connection, liar(accepted.keys, id)))
    }
}

impl Scene {
    fn operate(&mut self, input: &mut Input<'_>) {
        let operation = input.u8();
        let choice = operation >> 4;
        match operation & 0x0F {
            0 => {
                let len = usize::from(input.u16() % 1500);
                let flags = input.u8();
                self.say(flags, input.bytes(len));
            }
            1..5 => {
                let mut frames = Vec::new();
                for _ in 0..=choice & 3 {
                    self.frame(input, &mut frames);
                }
                self.say(0x08 & operation, &frames);
            }
            5..8 => {
                let symbol = symbol(input, &streams::frames);
                self.say(0x10 | choice & 0x0C, &symbol);
            }
            8 | 9 => {
                let coded = coded(input);
                self.say(0x20 | choice, &coded);
            }
            10 => self.liar.next += u64::from(input.u16()) << choice,
            11 => match choice {
                0 => drop(self.liar.keys.update()),
                1..4 => self.liar.address.set_port(4500 + u16::from(input.u8() % 3)),
                4..8 => {
                    if let Some(copy) = self.liar.kept.get(input.below(64)).cloned() {
                        self.hear(copy);
                    }
                }
                8 => self.victim.on_local_address_changed(self.now),
                _ => {
                    let len = usize::from(input.u8());
                    let mut packet = input.bytes(len).to_vec();
                    packet.insert(0, choice << 4);
                    self.hear(packet);
                }
            },
            12 => {
                let millis = [1, 10, 100, 1000, 20_000][usize::from(choice % 5)];
                self.pass(Duration::from_millis(millis));
            }
            13 => {
                let _ = self.victim.open_stream();
                let _ = self.victim.accept_stream();
                let data = [choice; 40];
                for _ in 0..choice {
                    let stream = StreamId(u64::from(choice));
                    let _ = self.victim.send_datagram(self.now, stream, &data);
                }
            }
            _ => {
                let id = StreamId(u64::from(choice));
                match input.below(6) {
                    0..2 => drop(self.victim.write(id, &vec![1; input.u16().into()])),
                    2 => drop(self.victim.read(id, &mut vec![0; input.u16().into()])),
                    3 => drop(self.victim.finish(id)),
                    4 => self.victim.reset(id, 1),
                    _ => self.victim.stop(id, 2),
                }
            }
        }
    }

    /// A well-formed frame that may say anything, near what is true or far.
    fn frame(&self, input: &mut Input<'_>, out: &mut Vec<u8>) {
        let choice = input.u8();
        let id = u64::from(choice >> 4);
        let number = match input.below(4) {
            0 => u64::from(input.u8()),
            1 => u64::from(input.u16()),
            2 => self.liar.window.expected().0.wrapping_sub(id),
            _ => input.u64(),
        } >> 2;
        match choice & 0x0F {
            0..4 => {
                // An ACK; the ranges are bytes as they come.
                let newest = self.liar.window.expected().0.saturating_sub(1 + id);
                let largest = if input.below(8) == 0 { number } else { newest };
                out.push(2);
                let received = number.min(largest + 1);
                let fields = [0, largest, u64::from(input.u16()), received, id, id >> 1];
                fields.iter().for_each(|field| write_varint(out, *field));
                let ranges = input.u8() % 8;
                out.push(ranges.max(1));
                write_varint(out, u64::from(input.u8()).min(largest));
                (1..ranges).for_each(|_| out.extend([input.u8() & 0x3F, input.u8() & 0x3F]));
            }
            4 | 5 => {
                out.push(3);
                write_varint(out, number);
                write_varint(out, u64::from(input.u16()));
                out.push(input.u8() % 32);
                let reports = input.u8() % 8;
                out.push(reports);
                (0..reports).for_each(|_| out.extend([input.u8() & 0x3F, input.u8()]));
            }
            6 => {
                let path = PATH;
                let floor = number;
                Frame::AckFloor { path, floor }.write(out);
            }
            7 => Frame::MaxData(number).write(out),
            8 => Frame::MaxStreams(number).write(out),
            9 => {
                let stream = StreamId(id);
                Frame::MaxStreamData {
                    stream,
                    max: number,
                }
                .write(out);
            }
            10 => Frame::ResetStream {
                stream: StreamId(id),
                code: 3,
                final_offset: number,
            }
            .write(out),
            11 => Frame::StopSending {
                stream: StreamId(id),
                code: 4,
            }
            .write(out),
            12 => Frame::Abandon {
                first: SymbolId(number),
                count: input.u8(),
            }
            .write(out),
            13 => Frame::PathChallenge(input.array()).write(out),
            14 => Frame::PathResponse(input.array()).write(out),
            // The rest of the packet, whatever follows.
            15 if id % 4 == 0 => Frame::Datagram {
                stream: StreamId(id),
                data: &number.to_be_bytes(),
            }
            .write(out),
            15 if id % 4 == 1 => Frame::NumberedDatagram {
                number,
                content: &[0; 40][..usize::from(input.u8() % 40 + 1)],
            }
            .write(out),
            15 if id % 4 == 2 => Frame::DatagramRepair {
                first: number,
                count: input.u8() % 70 + 1,
                repair: input.u8().into(),
                payload: &[0; 40][..usize::from(input.u8() % 41)],
            }
            .write(out),
            _ => Frame::Ping.write(out),
        }
    }

    /// Seals and sends.
    fn say(&mut self, flags: u8, plaintext: &[u8]) {
        let mut packet = vec![0; CLEAR_HEADER_LEN];
        packet[0] = flags & 0x3F;
        packet[1..9].copy_from_slice(&self.liar.id);
        packet.extend(plaintext);
        packet.resize(packet.len() + TAG_LEN, 0);
        let number = PacketNumber(self.liar.next);
        self.liar.next += 1;
        let sealed = self.liar.keys.seal_in_place(PATH, number, &mut packet);
        sealed.expect("few packets were sealed");
        if self.liar.kept.len() < 64 {
            self.liar.kept.push(packet.clone());
        }
        self.hear(packet);
    }

    fn hear(&mut self, mut packet: Vec<u8>) {
        let (now, from) = (self.now, self.liar.address);
        self.victim
            .handle_datagram(now, PATH, from, None, &mut packet);
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        let (streams, window_symbols) = (self.streams, self.window_symbols);
        let (liar, out, is_closed) = (&mut self.liar, &mut self.out, &mut self.is_closed);
        pass_time(&mut self.victim, until, |victim, now| {
            *is_closed |= poll(victim, now, liar, out);
            check(victim, &streams, window_symbols);
        });
        self.now = until;
    }

    fn after(&mut self) {
        self.is_closed |= poll(&mut self.victim, self.now, &mut self.liar, &mut self.out);
        check(&self.victim, &self.streams, self.window_symbols);
    }
}

/// Takes all the victim has to say; whether it has closed.
fn poll(victim: &mut Connection, now: Instant, liar: &mut Liar, out: &mut Vec<u8>) -> bool {
    let mut batches = 0;
    while let Some(transmit) = victim.poll_transmit(now, out, 10) {
        batches += 1;
        assert!(batches < BATCHES_MAX, "sending does not end");
        for packet in out.chunks_mut(transmit.segment_len) {
            // For its number; and the liar may have driven the keys apart.
            let _ = liar.keys.open_in_place(PATH, &mut liar.window, packet);
        }
    }
    let mut is_closed = false;
    while victim.poll_datagram().is_some() {}
    let mut events = 0;
    while let Some(event) = victim.poll_event() {
        is_closed |= matches!(event, Event::Closed(_));
        events += 1;
        assert!(events < 1000, "events do not end");
    }
    is_closed
}

/// What a liar cannot push beyond its bound.
fn check(victim: &Connection, streams: &StreamsConfig, window_symbols: u64) {
    let stats = victim.stats();
    assert!(stats.bytes_to_read <= streams.max_data);
    assert!(stats.generations_receiving as u64 <= window_symbols);
    assert!(stats.datagrams_held <= 64);
    let streams_max = streams.max_streams + streams.local_streams_max;
    assert!(stats.streams as u64 <= streams_max);
}

/// `symbol:3 | index:1 | frames`, near the beginning.
fn symbol(input: &mut Input<'_>, frames: &dyn Fn(&mut Input<'_>) -> Vec<u8>) -> Vec<u8> {
    let shape = input.u8();
    let mut out = vec![0, shape >> 7, input.u8() % 80, shape & 0x1F];
    match shape >> 5 & 3 {
        0 => {
            let len = usize::from(input.u8());
            out.extend(input.bytes(len));
        }
        _ => out.extend(frames(input)),
    }
    // As much as a packet holds, and a little more.
    out.truncate(1500);
    out
}

/// `first:3 | count:1 | repair:2 | payload`, near the beginning.
fn coded(input: &mut Input<'_>) -> Vec<u8> {
    let mut out = vec![0, 0, input.u8() % 80, input.u8() % 40];
    out.extend(u16::from(input.u8()).to_be_bytes());
    let len = usize::from(input.u8() % 64);
    out.extend(input.bytes(len));
    // Zeros are the likeliest content to be well-formed.
    out.resize(out.len() + usize::from(input.u16() % 1500), 0);
    out
}

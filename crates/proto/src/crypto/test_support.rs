//! What the tests of this module share.

use ctcp_units::{Instant, PacketNumber, PathId, Random};

use super::*;

/// The seed of randomized tests: `CTCP_SEED`, else 1. Shown if a test fails.
pub(super) fn seed() -> u64 {
    let seed = std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) const SUITES: [Suite; 2] = [Suite::Aes128Gcm, Suite::ChaCha20Poly1305];

/// A packet with room for header and tag around `text`.
pub(super) fn packet(text: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x2A];
    packet.extend_from_slice(b"conn-id8");
    packet.extend_from_slice(&[0; 3]);
    packet.extend_from_slice(text);
    packet.extend_from_slice(&[0; TAG_LEN]);
    packet
}

/// One end of a connection as far as this module goes.
pub(super) struct End {
    pub(super) keys: Keys,
    pub(super) windows: [ReplayWindow; 2],
    pub(super) next: [u64; 2],
}

impl End {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            keys,
            windows: [ReplayWindow::new(), ReplayWindow::new()],
            next: [0; 2],
        }
    }

    pub(super) fn pair(suite: Suite) -> (Self, Self) {
        let (client, server) = Keys::pair(suite, [9; 32]);
        (Self::new(client), Self::new(server))
    }

    /// The next packet on a path, with its number.
    pub(super) fn seal(&mut self, path: u32, text: &[u8]) -> (PacketNumber, Vec<u8>) {
        let number = PacketNumber(self.next[path as usize]);
        self.next[path as usize] += 1;
        let mut packet = packet(text);
        self.keys
            .seal_in_place(PathId(path), number, &mut packet)
            .expect("the packet can be sealed");
        (number, packet)
    }

    pub(super) fn open(
        &mut self,
        path: u32,
        packet: &[u8],
    ) -> Result<(Opened, Vec<u8>), OpenError> {
        let mut packet = packet.to_vec();
        let window = &mut self.windows[path as usize];
        let opened = self.keys.open_in_place(PathId(path), window, &mut packet)?;
        let text = packet[opened.payload.clone()].to_vec();
        Ok((opened, text))
    }

    /// Seals and lets `peer` open and acknowledge at once.
    pub(super) fn exchange(&mut self, peer: &mut Self, path: u32) -> Opened {
        let (number, packet) = self.seal(path, b"text");
        let (opened, text) = peer.open(path, &packet).expect("an honest packet opens");
        assert_eq!((opened.number, &text[..]), (number, &b"text"[..]));
        self.keys.on_acknowledged(PathId(path), number);
        opened
    }
}

/// A server, a client, and what lies between them.
pub(super) struct World {
    pub(super) random: SecretRandom,
    pub(super) server: Identity,
    pub(super) client: Identity,
    pub(super) responder: Responder,
}

pub(super) const SOURCE: &[u8] = b"192.0.2.1:4500";
pub(super) const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = SecretRandom::from_test_seed(seed);
        let server = Identity::generate(&mut random);
        let client = Identity::generate(&mut random);
        let cookies = CookieSecret::generate(&mut random);
        Self {
            responder: Responder::new(server.clone(), cookies, true),
            random,
            server,
            client,
        }
    }

    pub(super) fn hello(&mut self) -> ClientHandshake {
        let config = ClientConfig {
            server: self.server.public(),
            identity: &self.client,
            connection_id: *b"client-1",
            timestamp: 77,
            has_aes: true,
            params: b"client params",
            invite: b"invite token",
        };
        ClientHandshake::new(&config, &mut self.random).expect("the hello fits")
    }

    pub(super) fn read(&mut self, packet: &[u8], under_load: bool) -> Result<Incoming, HelloError> {
        self.responder
            .read(packet, SOURCE, under_load, NOW, &mut self.random)
    }

    /// What the server reads in a hello that it takes.
    pub(super) fn read_hello(&mut self, packet: &[u8]) -> Box<HelloRead> {
        match self.read(packet, false) {
            Ok(Incoming::Hello(hello)) => hello,
            other => panic!("a hello is read, not {other:?}"),
        }
    }

    /// A finished handshake: the client's end and the server's.
    pub(super) fn connect(&mut self) -> (ClientAccepted, ServerAccepted) {
        let mut client = self.hello();
        let hello = self.read_hello(client.packet());
        let accepted = hello.accept(*b"server-1", b"server params").expect("fits");
        match client.on_packet(&accepted.packet) {
            Ok(ClientProgress::Accepted(client)) => (*client, accepted),
            other => panic!("the client is accepted, not {other:?}"),
        }
    }
}

/// `bytes` with some of them changed, cut off or added.
pub(super) fn mangle(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mangled = bytes.to_vec();
    match random.below(4) {
        0 => mangled.truncate(random.below(bytes.len() as u64) as usize),
        1 => mangled.push(random.next_u64() as u8),
        2 => random.fill(&mut mangled),
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                mangled[at] ^= 1 << random.below(8);
            }
        }
    }
    mangled
}

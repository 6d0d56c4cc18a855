//! The server's side of the handshake. It keeps nothing between two packets:
//! what a hello says is handed to the caller, who decides.

use core::fmt;

use ctcp_units::Instant;
use snow::HandshakeState;
use thiserror::Error;

use super::cookie::CookieSecret;
use super::hello::{
    ConnectionId, FIRST_PAYLOAD_LEN, FirstPayload, HELLO_HEADER_LEN, HELLO_LEN, HandshakeKind,
    HelloId, MAC1, NOISE, PROTOCOL_VERSION, REPLY_PARAMS_MAX, Refusal, SecondPayload, reply_header,
};
use super::identity::{Identity, PublicKey};
use super::keys::Keys;
use super::mac::Mac1Key;
use super::noise::{self, SECOND_MESSAGE_OVERHEAD};
use super::schedule::{Suite, TrafficSecret};
use super::secret_random::SecretRandom;

/// Why a datagram was no hello. It is dropped and counted; **nothing** is sent,
/// so that a server cannot be found by those who do not know its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HelloError {
    /// Not a client hello.
    #[error("not a client hello")]
    Unexpected,
    /// A hello always has 1200 bytes.
    #[error("hello of {len} bytes instead of {HELLO_LEN}")]
    WrongLength {
        /// Its length, bytes.
        len: usize,
    },
    /// Another version of the protocol.
    #[error("hello of protocol version {found}, this is {PROTOCOL_VERSION}")]
    UnknownVersion {
        /// The version it names.
        found: u32,
    },
    /// `mac1` does not fit: the sender does not know this server's key.
    #[error("hello of a client that does not know this server's key")]
    WrongMac,
    /// The encrypted part does not open.
    #[error("hello is forged or damaged")]
    Forged,
    /// It opens but makes no sense.
    #[error("hello is malformed")]
    Malformed,
}

/// Transport parameters that do not fit a server hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{len} bytes of parameters, at most {REPLY_PARAMS_MAX} fit a server hello")]
pub struct ParamsTooLong {
    /// Their bytes.
    pub len: usize,
}

/// What a hello led to.
#[derive(Debug)]
pub enum Incoming {
    /// A client with a key. Nothing is known about whether it is allowed, and
    /// the hello may be a copy.
    Hello(Box<HelloRead>),
    /// The source address is unproven and the server under load: send this back
    /// and forget it.
    Cookie(Vec<u8>),
}

/// What a server answers hellos with.
pub struct Responder {
    identity: Identity,
    mac1_key: Mac1Key,
    cookies: CookieSecret,
    has_aes: bool,
}

impl Responder {
    /// The server of this identity; `has_aes` if this machine has instructions
    /// for AES.
    pub fn new(identity: Identity, cookies: CookieSecret, has_aes: bool) -> Self {
        Self {
            mac1_key: Mac1Key::of(identity.public()),
            identity,
            cookies,
            has_aes,
        }
    }

    /// The server's public key.
    pub const fn public(&self) -> &PublicKey {
        self.identity.public()
    }

    /// Which hello this is, without any work on the curve. If it is the one of
    /// a connection still opening, the answer given then is the answer now.
    ///
    /// # Errors
    /// [`HelloError`], [`HelloError::Forged`] and [`HelloError::Malformed`]
    /// excepted.
    pub fn identify(&self, packet: &[u8]) -> Result<HelloId, HelloError> {
        self.check(packet).map(HelloId::of)
    }

    /// Reads a hello that came from `source` (address and port as bytes, in
    /// whatever form, always the same).
    ///
    /// `under_load` asks for a cookie before any work on the curve. One secret
    /// is drawn from `random` if that work is done.
    ///
    /// # Errors
    /// [`HelloError`]: drop the datagram, send nothing.
    pub fn read(
        &self,
        packet: &[u8],
        source: &[u8],
        under_load: bool,
        now: Instant,
        random: &mut SecretRandom,
    ) -> Result<Incoming, HelloError> {
        let hello = self.check(packet)?;
        let id = HelloId::of(hello);
        let header = &hello[..HELLO_HEADER_LEN];
        let client_id: ConnectionId = header[5..].try_into().expect("an id has 8 bytes");
        if under_load && !self.cookies.proves(source, &client_id, hello, now) {
            let cookie = self
                .cookies
                .packet(&self.mac1_key, source, &client_id, &id, now);
            return Ok(Incoming::Cookie(cookie.to_vec()));
        }
        let mut noise = noise::responder(self.identity.secret(), header, random);
        let mut buffer = [0; FIRST_PAYLOAD_LEN];
        let len = noise
            .read_message(&hello[NOISE], &mut buffer)
            .map_err(|_| HelloError::Forged)?;
        let payload = FirstPayload::parse(&buffer[..len]).ok_or(HelloError::Malformed)?;
        let client = noise
            .get_remote_static()
            .and_then(|key| key.try_into().ok());
        Ok(Incoming::Hello(Box::new(HelloRead {
            id,
            client: PublicKey::from_bytes(client.expect("the pattern IK sends the client's key")),
            client_id,
            timestamp: payload.timestamp,
            params: payload.params.to_vec(),
            invite: payload.invite.to_vec(),
            suite: Suite::choose(payload.has_aes, self.has_aes),
            noise,
        })))
    }

    /// All that can be checked without the curve.
    fn check<'a>(&self, packet: &'a [u8]) -> Result<&'a [u8; HELLO_LEN], HelloError> {
        if HandshakeKind::of(packet) != Some(HandshakeKind::ClientHello) {
            return Err(HelloError::Unexpected);
        }
        let hello: &[u8; HELLO_LEN] = packet
            .try_into()
            .map_err(|_| HelloError::WrongLength { len: packet.len() })?;
        let found = u32::from_be_bytes([hello[1], hello[2], hello[3], hello[4]]);
        if found != PROTOCOL_VERSION {
            return Err(HelloError::UnknownVersion { found });
        }
        if !self.mac1_key.is_mac(&[&hello[..MAC1.start]], &hello[MAC1]) {
            return Err(HelloError::WrongMac);
        }
        Ok(hello)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("public", self.identity.public())
            .field("has_aes", &self.has_aes)
            .finish_non_exhaustive()
    }
}

/// A hello that opened. The caller looks at it and answers by
/// [`HelloRead::accept`] or [`HelloRead::refuse`], or drops it: silence.
pub struct HelloRead {
    /// What tells this hello from every other.
    pub id: HelloId,
    /// Who asks. Proven, but by a message that anyone may have recorded.
    pub client: PublicKey,
    /// Where the client wants to be sent to.
    pub client_id: [u8; 8],
    /// Nanoseconds of the client's clock, for a [`super::TimestampGuard`].
    pub timestamp: u64,
    /// The client's transport parameters, opaque here.
    pub params: Vec<u8>,
    /// The token of its invite, empty if it has none.
    pub invite: Vec<u8>,
    /// The cipher that an accepted connection will have.
    pub suite: Suite,
    noise: HandshakeState,
}

/// What a server has in hand that accepted.
#[derive(Debug)]
pub struct ServerAccepted {
    /// The server hello, at most as long as the client's. Keep it: a client
    /// that asks again gets the same.
    pub packet: Vec<u8>,
    /// The connection's keys.
    pub keys: Keys,
}

impl HelloRead {
    /// Accepts; `server_id` is where the client shall send to.
    ///
    /// # Errors
    /// If `params` exceed [`REPLY_PARAMS_MAX`].
    pub fn accept(
        mut self,
        server_id: [u8; 8],
        params: &[u8],
    ) -> Result<ServerAccepted, ParamsTooLong> {
        if params.len() > REPLY_PARAMS_MAX {
            return Err(ParamsTooLong { len: params.len() });
        }
        let suite = self.suite;
        let packet = self.reply(&SecondPayload::Accepted {
            suite,
            server_id,
            params,
        });
        let (receive, send) = noise::split(&mut self.noise);
        let hash = self.noise.get_handshake_hash();
        let keys = Keys::new(
            suite,
            TrafficSecret::of_handshake(&send, hash),
            TrafficSecret::of_handshake(&receive, hash),
        );
        Ok(ServerAccepted { packet, keys })
    }

    /// Refuses: the packet that says so, 66 bytes.
    pub fn refuse(mut self, refusal: Refusal) -> Vec<u8> {
        self.reply(&SecondPayload::Refused(refusal))
    }

    fn reply(&mut self, payload: &SecondPayload<'_>) -> Vec<u8> {
        let payload = payload.write();
        let header = reply_header(&self.client_id);
        let mut packet = header.to_vec();
        packet.resize(header.len() + SECOND_MESSAGE_OVERHEAD + payload.len(), 0);
        let written = self
            .noise
            .write_message(&payload, &mut packet[header.len()..])
            .expect("both of the client's keys have been used once without an error");
        assert_eq!(header.len() + written, packet.len(), "the length is known");
        packet
    }
}

impl fmt::Debug for HelloRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelloRead")
            .field("client", &self.client)
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}

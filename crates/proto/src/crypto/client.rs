//! The client's side of the handshake.

use core::fmt;

use snow::HandshakeState;
use thiserror::Error;

use super::cookie;
use super::hello::{
    ConnectionId, FirstPayload, HELLO_HEADER_LEN, HELLO_LEN, HELLO_PAYLOAD_MAX, HandshakeKind,
    HelloId, MAC1, MAC2, NOISE, REPLY_HEADER_LEN, Refusal, SecondPayload, hello_header,
};
use super::identity::{Identity, PublicKey};
use super::keys::Keys;
use super::mac::{Mac, Mac1Key};
use super::noise::{self, SECOND_MESSAGE_OVERHEAD};
use super::schedule::TrafficSecret;
use super::secret_random::SecretRandom;

/// What a client says in its first message.
#[derive(Debug, Clone, Copy)]
pub struct ClientConfig<'a> {
    /// The server's static key, known beforehand.
    pub server: &'a PublicKey,
    /// The client's own keys.
    pub identity: &'a Identity,
    /// Where the server sends to.
    pub connection_id: [u8; 8],
    /// Nanoseconds of the client's wall clock; above that of the last hello of
    /// this identity to this server.
    pub timestamp: u64,
    /// Whether this machine has instructions for AES.
    pub has_aes: bool,
    /// Transport parameters, opaque here.
    pub params: &'a [u8],
    /// The token of an invite, empty if there is none. With `params` at most
    /// [`HELLO_PAYLOAD_MAX`] bytes.
    pub invite: &'a [u8],
}

/// Why no hello can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ClientError {
    /// Params and invite do not fit.
    #[error("{len} bytes of parameters and invite, at most {HELLO_PAYLOAD_MAX} fit a hello")]
    TooLong {
        /// Their bytes together.
        len: usize,
    },
    /// The server's key is no key that anyone could have made.
    #[error("the server's public key is not a valid key: copy it again")]
    WeakServerKey,
}

/// Why a datagram was no answer to the hello. It is dropped; unless the variant
/// says otherwise, the handshake goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// Not a kind of packet that answers a hello.
    #[error("not an answer to a hello")]
    Unexpected,
    /// It ends inside a field.
    #[error("answer of {len} bytes is truncated")]
    Truncated {
        /// Its length, bytes.
        len: usize,
    },
    /// It is for another connection.
    #[error("answer for another connection id")]
    WrongConnectionId,
    /// A server hello that the server's key did not make, or not for this hello.
    #[error("server hello is forged or damaged")]
    Forged,
    /// A cookie packet that was not made for this hello.
    #[error("cookie is forged or damaged")]
    ForgedCookie,
    /// A copy of the cookie packet that was used already.
    #[error("cookie received before")]
    RepeatedCookie,
    /// The server hello is authentic but makes no sense. The handshake has
    /// failed.
    #[error("the server sent a malformed hello")]
    Malformed,
    /// The handshake is over.
    #[error("the handshake is over")]
    Finished,
}

/// What an answer led to.
#[derive(Debug)]
pub enum ClientProgress {
    /// The server accepted; the handshake is over.
    Accepted(Box<ClientAccepted>),
    /// The server knows who asks and refuses; the handshake is over.
    Refused(Refusal),
    /// The server is under load: [`ClientHandshake::packet`] now carries its
    /// cookie and is to be sent at once.
    Cookie,
}

/// What an accepted client has in hand.
#[derive(Debug)]
pub struct ClientAccepted {
    /// The connection's keys.
    pub keys: Keys,
    /// Where to send to.
    pub server_id: [u8; 8],
    /// The server's transport parameters, opaque here.
    pub params: Vec<u8>,
}

/// A client that has said hello.
///
/// The caller sends [`ClientHandshake::packet`], again after a pause until
/// there is an answer, and shows every candidate to
/// [`ClientHandshake::on_packet`]. The same hello is sent again: the server
/// recognises it.
pub struct ClientHandshake {
    noise: HandshakeState,
    mac1_key: Mac1Key,
    connection_id: ConnectionId,
    packet: Box<[u8; HELLO_LEN]>,
    cookie: Option<Mac>,
    is_finished: bool,
}

impl ClientHandshake {
    /// A new handshake, its hello ready to be sent.
    ///
    /// # Errors
    /// [`ClientError`] if no hello can be made of `config`.
    pub fn new(config: &ClientConfig<'_>, random: &mut SecretRandom) -> Result<Self, ClientError> {
        let payload = FirstPayload {
            timestamp: config.timestamp,
            has_aes: config.has_aes,
            params: config.params,
            invite: config.invite,
        };
        let payload = payload.write().ok_or(ClientError::TooLong {
            len: config.params.len() + config.invite.len(),
        })?;
        let header = hello_header(&config.connection_id);
        let mut noise = noise::initiator(config.identity.secret(), config.server, &header, random);
        let mut packet = Box::new([0; HELLO_LEN]);
        packet[..HELLO_HEADER_LEN].copy_from_slice(&header);
        let written = noise
            .write_message(&payload, &mut packet[NOISE])
            .map_err(|_| ClientError::WeakServerKey)?;
        assert_eq!(written, NOISE.len(), "the payload is padded to the hello");
        let mac1_key = Mac1Key::of(config.server);
        let mac1 = mac1_key.mac(&[&packet[..MAC1.start]]);
        packet[MAC1].copy_from_slice(&mac1);
        Ok(Self {
            noise,
            mac1_key,
            connection_id: config.connection_id,
            packet,
            cookie: None,
            is_finished: false,
        })
    }

    /// The hello to send: 1200 bytes.
    pub fn packet(&self) -> &[u8] {
        self.packet.as_ref()
    }

    /// A datagram that may be the answer.
    ///
    /// # Errors
    /// [`ReplyError`]: the datagram is dropped.
    pub fn on_packet(&mut self, packet: &[u8]) -> Result<ClientProgress, ReplyError> {
        if self.is_finished {
            return Err(ReplyError::Finished);
        }
        let kind = HandshakeKind::of(packet);
        let Some((header, body)) = packet.split_at_checked(REPLY_HEADER_LEN) else {
            return Err(ReplyError::Truncated { len: packet.len() });
        };
        let is_ours = header[1..] == self.connection_id;
        match kind {
            Some(HandshakeKind::ClientHello) | None => Err(ReplyError::Unexpected),
            _ if !is_ours => Err(ReplyError::WrongConnectionId),
            Some(HandshakeKind::Cookie) => self.on_cookie(packet),
            Some(HandshakeKind::ServerHello) => self.on_server_hello(body),
        }
    }

    fn on_cookie(&mut self, packet: &[u8]) -> Result<ClientProgress, ReplyError> {
        let hello = HelloId::of(&self.packet);
        let cookie =
            cookie::read_packet(&self.mac1_key, &hello, packet).ok_or(ReplyError::ForgedCookie)?;
        // Else every copy of 41 bytes would make us send 1200.
        if self.cookie == Some(cookie) {
            return Err(ReplyError::RepeatedCookie);
        }
        let (body, mac2) = self.packet.split_at_mut(MAC2.start);
        mac2.copy_from_slice(&cookie::proof(&cookie, body));
        self.cookie = Some(cookie);
        Ok(ClientProgress::Cookie)
    }

    fn on_server_hello(&mut self, message: &[u8]) -> Result<ClientProgress, ReplyError> {
        let len = REPLY_HEADER_LEN + message.len();
        if message.len() < SECOND_MESSAGE_OVERHEAD {
            return Err(ReplyError::Truncated { len });
        }
        // Longer than any answer: not one, and not worth the curve's time.
        if len > HELLO_LEN {
            return Err(ReplyError::Forged);
        }
        let mut buffer = [0; HELLO_LEN];
        let payload_len = self
            .noise
            .read_message(message, &mut buffer)
            .map_err(|_| ReplyError::Forged)?;
        self.is_finished = true;
        let payload = SecondPayload::parse(&buffer[..payload_len]);
        match payload.ok_or(ReplyError::Malformed)? {
            SecondPayload::Refused(refusal) => Ok(ClientProgress::Refused(refusal)),
            SecondPayload::Accepted {
                suite,
                server_id,
                params,
            } => {
                let (send, receive) = noise::split(&mut self.noise);
                let hash = self.noise.get_handshake_hash();
                let keys = Keys::new(
                    suite,
                    TrafficSecret::of_handshake(&send, hash),
                    TrafficSecret::of_handshake(&receive, hash),
                );
                let params = params.to_vec();
                Ok(ClientProgress::Accepted(Box::new(ClientAccepted {
                    keys,
                    server_id,
                    params,
                })))
            }
        }
    }
}

impl fmt::Debug for ClientHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientHandshake")
            .field("connection_id", &self.connection_id)
            .field("has_cookie", &self.cookie.is_some())
            .field("is_finished", &self.is_finished)
            .finish_non_exhaustive()
    }
}

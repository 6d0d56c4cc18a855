//! A server and a client on loopback, and things to send.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "a module of tests, not of a library")]

use std::io;
use std::net::SocketAddr;

use ctcp::{
    Authorize, ClientConfig, Connection, Decision, Endpoint, Identity, PublicKey, Refusal,
    SecretKey, SendStream, ServerConfig, Stream,
};
use ctcp_units::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub const LOOPBACK: &str = "127.0.0.1:0";

pub fn identity(number: u8) -> Identity {
    Identity::from_secret(SecretKey::from_bytes([number; 32]))
}

pub fn server_key() -> PublicKey {
    *identity(1).public()
}

/// Lets in whom the list names; an empty list names everyone.
pub struct Guests(pub Vec<PublicKey>);

impl Authorize for Guests {
    fn authorize(&mut self, client: &PublicKey, _: &[u8], _: u64) -> Decision {
        if self.0.is_empty() || self.0.contains(client) {
            Decision::Allow
        } else {
            Decision::Refuse(Refusal::NotAllowed)
        }
    }
}

pub fn server_config() -> ServerConfig {
    ServerConfig::new(identity(1), Guests(Vec::new()))
}

pub fn client_config() -> ClientConfig {
    ClientConfig::new(identity(2))
}

pub fn server() -> Endpoint {
    Endpoint::server(LOOPBACK.parse().unwrap(), server_config()).unwrap()
}

pub fn client() -> Endpoint {
    Endpoint::client(LOOPBACK.parse().unwrap(), client_config()).unwrap()
}

/// Both ends of a connection, and the endpoints that carry it.
pub struct Pair {
    pub client: Endpoint,
    pub server: Endpoint,
    pub near: Connection,
    pub far: Connection,
}

impl Pair {
    pub async fn new() -> Self {
        let server = server();
        let address = server.local_addr();
        Self::through(server, address).await
    }

    /// Connected by way of `address`, which leads to `server`.
    pub async fn through(server: Endpoint, address: SocketAddr) -> Self {
        let client = client();
        let (near, far) =
            tokio::join!(client.connect(address, server_key(), None), server.accept());
        Self {
            near: near.unwrap(),
            far: far.unwrap(),
            client,
            server,
        }
    }

    /// A stream with `first` on the way, at both ends.
    pub async fn stream(&self, first: &[u8]) -> (Stream, Stream) {
        let mut near = self.near.open_stream().await.unwrap();
        near.write_all(first).await.unwrap();
        let mut far = self.far.accept_stream().await.unwrap();
        let mut seen = vec![0; first.len()];
        far.read_exact(&mut seen).await.unwrap();
        assert_eq!(seen, first);
        (near, far)
    }
}

/// Bytes that `seed` names.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::from_seed(seed).fill(&mut bytes);
    bytes
}

/// Writes all of `data` and the end.
pub async fn send(stream: &mut (impl AsyncWriteExt + Unpin), data: &[u8]) -> io::Result<()> {
    stream.write_all(data).await?;
    stream.shutdown().await
}

pub async fn receive(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    stream.read_to_end(&mut data).await?;
    Ok(data)
}

/// Sends all of `data` and the end from one end to the other, and checks what arrives.
pub async fn carry(
    from: &mut (impl AsyncWriteExt + Unpin),
    to: &mut (impl AsyncReadExt + Unpin),
    data: &[u8],
) {
    let (sent, got) = tokio::join!(send(from, data), receive(to));
    sent.unwrap();
    assert!(got.unwrap() == data, "damaged");
}

/// Carries `len` bytes each way at the same time; the halves that sent.
pub async fn carry_both_ways(near: Stream, far: Stream, len: usize) -> (SendStream, SendStream) {
    let (up, down) = (bytes(1, len), bytes(2, len));
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    tokio::join!(
        carry(&mut near_out, &mut far_in, &up),
        carry(&mut far_out, &mut near_in, &down),
    );
    (near_out, far_out)
}

/// Sends back what comes in on every stream of every connection.
pub fn spawn_echo(server: Endpoint) {
    tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            tokio::spawn(async move {
                while let Ok(stream) = connection.accept_stream().await {
                    tokio::spawn(async move {
                        let (mut from, mut to) = stream.into_split();
                        tokio::io::copy(&mut from, &mut to).await?;
                        to.shutdown().await
                    });
                }
            });
        }
    });
}

/// Fails a test that hangs.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, work)
        .await
        .expect("the test hangs")
}

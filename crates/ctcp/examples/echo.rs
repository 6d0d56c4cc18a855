//! A server that sends back what it gets, and its client.

use std::error::Error;

use ctcp::{
    Authorize, ClientConfig, Decision, Endpoint, Identity, PublicKey, Refusal, SecretKey,
    ServerConfig,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};

/// Lets one client in.
struct OnlyGuest(PublicKey);

impl Authorize for OnlyGuest {
    fn authorize(&mut self, client: &PublicKey, _invite: &[u8], _wall_nanos: u64) -> Decision {
        if *client == self.0 {
            Decision::Allow
        } else {
            Decision::Refuse(Refusal::NotAllowed)
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Keys come from `ctcp keygen`; each side knows the other's public one.
    let server_identity = Identity::from_secret(SecretKey::from_bytes([1; 32]));
    let client_identity = Identity::from_secret(SecretKey::from_bytes([2; 32]));
    let server_key = *server_identity.public();

    let guest = OnlyGuest(*client_identity.public());
    let config = ServerConfig::new(server_identity, guest);
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = server.local_addr();
    tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            while let Ok(stream) = connection.accept_stream().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = split(stream);
                    copy(&mut from, &mut to).await?;
                    to.shutdown().await
                });
            }
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::new(client_identity))?;
    let connection = client.connect(address, server_key, None).await?;
    let mut stream = connection.open_stream().await?;
    stream.write_all(b"there and back").await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    assert_eq!(answer, b"there and back");

    connection.close(0, "thank you");
    client.drain(std::time::Duration::from_secs(1)).await;
    Ok(())
}

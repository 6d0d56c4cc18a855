//! UDP for applications: SOCKS5's UDP ASSOCIATE [RFC1928] §7.
//!
//! An application's association is one stream, which carries nothing but the request
//! and its answer, and lives as long as the application's TCP connection. Its
//! datagrams travel beside the stream ([`TunnelStream::send_datagram`]): unordered,
//! coded where the path loses packets, never sent again. Each is `type | address | port | data`, from the
//! application with where it is to go, to the application with where it came from.
//!
//! The far side judges each target as it does those of connections, and lets in only
//! answers: datagrams from addresses that the application has sent to. What does not
//! fit a packet of the tunnel, or comes faster than it can go on, is dropped, as
//! anywhere on the way.

pub(crate) mod far;
pub(crate) mod near;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::ReadBuf;

use crate::target::{Host, Target};
use crate::tunnel::TunnelStream;

/// Longest datagram that is read from a socket; the tunnel's packets are shorter.
const DATAGRAM_LEN_MAX: usize = 4096;

/// What an association is called in the list of streams: it has no one target.
pub(crate) fn listed_as() -> Target {
    let host = Host::from_name(b"udp").expect("it is a name");
    Target { host, port: 0 }
}

/// Has datagrams kept from now on; none has come yet.
pub(crate) async fn listen<S: TunnelStream>(stream: &mut S) {
    poll_fn(|cx| {
        let _none = stream.poll_datagram(cx);
        Poll::Ready(())
    })
    .await;
}

/// The next datagram of an association's stream; `None` once the stream has ended, or
/// broke, or carries what it should not.
async fn next_datagram<S: TunnelStream>(stream: &mut S) -> Option<Vec<u8>> {
    poll_fn(|cx| {
        if let Poll::Ready(datagram) = stream.poll_datagram(cx) {
            return Poll::Ready(Some(datagram));
        }
        let mut byte = [0; 1];
        let mut buf = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut *stream).poll_read(cx, &mut buf);
        read.map(|_| None)
    })
    .await
}

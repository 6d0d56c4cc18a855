//! Holds the streams of one client, together, to a rate.
//!
//! Each stream moves a piece, pays for it, and waits until the debt of all of them
//! up to then is paid; whoever paid later waits longer. So streams take turns, a
//! new one waits behind the debt there is, and over time no more passes than the
//! rate allows but for one piece a stream. A piece is what the rate moves in
//! [`TURN`].

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ctcp_units::Rate;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::client::Client;
use crate::tunnel::TunnelStream;

/// What a stream moves at once, and how late a timer may be without loss of rate.
const TURN: Duration = Duration::from_millis(10);

/// Smallest and largest piece in bytes.
const PIECE_LEN_MIN: u64 = 1500;
const PIECE_LEN_MAX: u64 = 64 << 10;

/// One direction of one client.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Zero: no limit.
    bits_per_second: AtomicU64,
    /// When everything that was moved will have been paid for.
    paid_until: Mutex<Instant>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            bits_per_second: AtomicU64::new(0),
            paid_until: Mutex::new(Instant::now()),
        }
    }
}

impl Bucket {
    fn lock(&self) -> MutexGuard<'_, Instant> {
        let paid_until = self.paid_until.lock();
        paid_until.unwrap_or_else(PoisonError::into_inner)
    }

    fn rate(&self) -> Option<Rate> {
        match self.bits_per_second.load(Ordering::Relaxed) {
            0 => None,
            bits => Some(Rate::bits_per_second(bits)),
        }
    }

    /// Sets another rate; debts made at the old one are forgotten.
    pub(crate) fn set(&self, rate: Option<Rate>) {
        let bits = rate.map_or(0, Rate::as_bits_per_second);
        if self.bits_per_second.swap(bits, Ordering::Relaxed) != bits {
            *self.lock() = Instant::now();
        }
    }

    /// Pays for a datagram if the debt allows it; one that it does not is dropped.
    pub(crate) fn pay(&self, len: usize) -> bool {
        let Some(rate) = self.rate() else {
            return true;
        };
        let now = Instant::now();
        if *self.lock() > now + TURN {
            return false;
        }
        self.charge(now, rate, len);
        true
    }

    /// Pays for what was moved; the payer waits until what is returned.
    fn charge(&self, now: Instant, rate: Rate, len: usize) -> Instant {
        let mut paid_until = self.lock();
        let from = now.checked_sub(TURN).unwrap_or(now).max(*paid_until);
        *paid_until = from + rate.time_for_bytes(len as u64);
        *paid_until
    }
}

/// One direction of one stream.
#[derive(Debug, Default)]
struct Turn {
    /// It has waited for the debt that it found.
    has_begun: bool,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Turn {
    fn wait_until(&mut self, until: Instant) {
        let is_ahead = until > Instant::now();
        self.wait = is_ahead.then(|| Box::pin(sleep_until(until)));
    }

    /// Ready with the bytes that may be moved now, at most.
    fn poll(&mut self, cx: &mut Context<'_>, bucket: &Bucket) -> Poll<usize> {
        let Some(rate) = bucket.rate() else {
            *self = Self::default();
            return Poll::Ready(usize::MAX);
        };
        if !self.has_begun {
            self.has_begun = true;
            self.wait_until(*bucket.lock());
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        let len = rate.bytes_in(TURN).clamp(PIECE_LEN_MIN, PIECE_LEN_MAX);
        Poll::Ready(len as usize)
    }

    fn moved(&mut self, bucket: &Bucket, len: usize) {
        if let Some(rate) = bucket.rate().filter(|_| len > 0) {
            self.wait_until(bucket.charge(Instant::now(), rate, len));
        }
    }
}

/// A stream of a client, at its rate and counted.
#[derive(Debug)]
pub(crate) struct Throttled<S> {
    stream: S,
    client: Arc<Client>,
    reading: Turn,
    writing: Turn,
}

impl<S> Throttled<S> {
    pub(crate) fn new(stream: S, client: Arc<Client>) -> Self {
        Self {
            stream,
            client,
            reading: Turn::default(),
            writing: Turn::default(),
        }
    }
}

impl<S: TunnelStream> AsyncRead for Throttled<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (bucket, bytes) = this.client.upward();
        let len = ready!(this.reading.poll(cx, bucket)).min(buf.remaining());
        let mut piece = ReadBuf::new(buf.initialize_unfilled_to(len));
        ready!(Pin::new(&mut this.stream).poll_read(cx, &mut piece))?;
        let len = piece.filled().len();
        buf.advance(len);
        bytes.fetch_add(len as u64, Ordering::Relaxed);
        this.reading.moved(bucket, len);
        Poll::Ready(Ok(()))
    }
}

impl<S: TunnelStream> AsyncWrite for Throttled<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let (bucket, bytes) = this.client.downward();
        let len = ready!(this.writing.poll(cx, bucket)).min(data.len());
        let len = ready!(Pin::new(&mut this.stream).poll_write(cx, &data[..len]))?;
        bytes.fetch_add(len as u64, Ordering::Relaxed);
        this.writing.moved(bucket, len);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: TunnelStream> TunnelStream for Throttled<S> {
    fn reset(&mut self, code: u32) {
        self.stream.reset(code);
    }

    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.stream.poll_broken(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::memory::stream_pair;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn client(limits: &str) -> Arc<Client> {
        let client = Client::default();
        client.set_limits(limits.parse::<Limits>().expect(limits));
        Arc::new(client)
    }

    /// Moves `len` bytes down each of `count` streams; how long it takes.
    async fn time_down(client: &Arc<Client>, count: usize, len: usize) -> Duration {
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (near, far) = stream_pair(16 << 10);
            let mut far = Throttled::new(far, client.clone());
            tasks.spawn(async move {
                let mut near = near;
                let mut bytes = Vec::new();
                near.read_to_end(&mut bytes).await.expect("a clean end");
                assert_eq!(bytes.len(), len);
            });
            tasks.spawn(async move {
                far.write_all(&vec![7; len]).await.expect("open");
                far.shutdown().await.expect("open");
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no panic");
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn all_streams_of_a_client_share_its_rate() {
        // 1 MB at 8 Mbit/s is one second, in one stream or in twenty.
        for (count, len) in [(1, 1_000_000), (20, 50_000)] {
            let took = time_down(&client("rate=8mbit"), count, len).await;
            let wanted = Duration::from_secs(1)..Duration::from_millis(1100);
            let took = took + TURN * (count as u32 + 1);
            assert!(
                took >= wanted.start && took < wanted.end + TURN * (count as u32 + 1),
                "{count} streams took {took:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_short_streams_do_not_pass_the_rate() {
        let client = client("rate=8mbit");
        let begun = Instant::now();
        for _ in 0..200 {
            time_down(&client, 1, 5_000).await;
        }
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(950), "{took:?}");
        assert!(took < Duration::from_millis(1300), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn directions_do_not_share_and_bytes_are_counted() {
        let client = client("rate=8mbit");
        let (mut near, far) = stream_pair(1 << 20);
        let mut far = Throttled::new(far, client.clone());
        near.write_all(&[1; 100_000]).await.expect("open");
        near.shutdown().await.expect("open");
        let begun = Instant::now();
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.expect("a clean end");
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(80), "{took:?}");
        far.write_all(&[2; 1000]).await.expect("open");
        assert_eq!(begun.elapsed(), took, "no debt that way");
        let seen = client.snapshot();
        assert_eq!((seen.bytes_up, seen.bytes_down), (100_000, 1000));
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_above_the_rate_are_dropped() {
        let client = client("rate=8mbit");
        let mut passed = 0;
        for _ in 0..1000 {
            // Twice the rate.
            passed += usize::from(client.pay_down(2000));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!((450..650).contains(&passed), "{passed}");
        assert_eq!(client.snapshot().bytes_down, passed as u64 * 2000);
        assert!(client.pay_up(1000), "the other way has no debt");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_limit_holds_at_once_and_none_is_none() {
        let client = client("rate=8kbit");
        time_down(&client, 1, 3000).await;
        client.set_limits(Limits::default());
        let took = time_down(&client, 1, 10_000_000).await;
        assert!(took < Duration::from_millis(100), "{took:?}");
    }
}

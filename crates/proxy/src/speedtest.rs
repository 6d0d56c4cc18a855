//! The speed test: bytes that lead nowhere, made or swallowed by the reverse proxy.
//!
//! One stream tests one direction. Down, the far side writes zeros (nothing is
//! compressed on the way) until the near side has had enough. Up, it reads until its
//! clock says so, then answers how much came, in how long:
//!
//! ```text
//! result   bytes:u64 | microseconds:u64, big-endian
//! ```
//!
//! No target is reached, so no egress rule is asked; what could be abused is bounded:
//! a client can have no more than its limits of rate and streams, and tests are
//! bounded in time, in bytes and in number ([`TIME_MAX`], [`BYTES_MAX`],
//! [`TESTS_MAX`]).

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::forward::{ReachError, read_reply};
use crate::request::{Reply, Request};
use crate::tunnel::{TunnelStream, reset_code};

/// Longest test of one direction.
pub const TIME_MAX: Duration = Duration::from_secs(60);

/// Most bytes of one direction: a minute at half a gigabit per second.
pub const BYTES_MAX: u64 = 4_000_000_000;

/// Tests at once at one server.
pub const TESTS_MAX: usize = 8;

/// Bytes moved at once.
const CHUNK_LEN: usize = 64 << 10;

/// Bytes of a result.
const RESULT_LEN: usize = 16;

/// How much longer than it was asked for a test may last, for what was under way.
const GRACE: Duration = Duration::from_secs(10);

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the client to the server.
    Up = 0,
    /// From the server to the client.
    Down = 1,
}

/// A test of one direction; it ends by what is over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speedtest {
    /// Which way.
    pub direction: Direction,
    /// For how long, in whole milliseconds.
    pub time: Duration,
    /// How many bytes.
    pub bytes: u64,
}

/// What arrived, and in how long: from when the far side was asked (up) or had answered
/// (down) to the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Application bytes.
    pub bytes: u64,
    /// Time.
    pub time: Duration,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum SpeedtestError {
    /// The far side did not begin.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// It began, and broke.
    #[error("the test broke off: {0}")]
    Broken(#[from] io::Error),
}

impl Arrived {
    /// Bits per second; 0 of nothing.
    pub fn bits_per_second(&self) -> f64 {
        match self.time.as_secs_f64() {
            seconds if seconds > 0.0 => self.bytes as f64 * 8.0 / seconds,
            _ => 0.0,
        }
    }
}

impl Speedtest {
    /// The same within what a server allows.
    fn bounded(self) -> Self {
        Self {
            time: self.time.min(TIME_MAX),
            bytes: self.bytes.min(BYTES_MAX),
            ..self
        }
    }
}

/// The far side of a test, after its request was answered. `early` bytes came with
/// the request; `on_moved` is called before the last word, so that who has heard it
/// finds the place free.
pub(crate) async fn serve<S: TunnelStream>(
    stream: &mut S,
    test: Speedtest,
    early: usize,
    on_moved: impl FnOnce() + Send,
) -> io::Result<()> {
    let test = test.bounded();
    match test.direction {
        Direction::Down => {
            write_zeros(stream, test.bytes, test.time + GRACE).await?;
            on_moved();
            timeout(GRACE, stream.shutdown()).await?
        }
        Direction::Up => {
            let arrived = swallow(stream, test, early as u64).await?;
            on_moved();
            let mut result = [0; RESULT_LEN];
            result[..8].copy_from_slice(&arrived.bytes.to_be_bytes());
            let micros = u64::try_from(arrived.time.as_micros()).unwrap_or(u64::MAX);
            result[8..].copy_from_slice(&micros.to_be_bytes());
            let answering = async {
                stream.write_all(&result).await?;
                stream.shutdown().await
            };
            timeout(GRACE, answering).await?
        }
    }
}

/// Writes until the bytes or the time are over, or the peer has had enough.
async fn write_zeros<S: TunnelStream>(
    stream: &mut S,
    bytes: u64,
    time: Duration,
) -> io::Result<()> {
    let zeros = vec![0; CHUNK_LEN];
    let until = Instant::now() + time;
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK_LEN as u64) as usize;
        match timeout_at(until, stream.write(&zeros[..len])).await {
            Ok(written) => left -= written? as u64,
            Err(_) => break,
        }
    }
    Ok(())
}

/// Reads until the end, or until the bytes or the time are over.
async fn swallow<S: TunnelStream>(
    stream: &mut S,
    test: Speedtest,
    early: u64,
) -> io::Result<Arrived> {
    let begun = Instant::now();
    let until = begun + test.time;
    let mut chunk = vec![0; CHUNK_LEN];
    let mut arrived = Arrived {
        bytes: early,
        time: Duration::ZERO,
    };
    while arrived.bytes < test.bytes {
        let len = match timeout_at(until, stream.read(&mut chunk)).await {
            Ok(read) => read?,
            Err(_) => {
                arrived.time = test.time;
                break;
            }
        };
        if len == 0 {
            break;
        }
        arrived.bytes += len as u64;
        arrived.time = begun.elapsed();
    }
    Ok(arrived)
}

/// The near side of a test over a fresh stream.
///
/// # Errors
/// [`SpeedtestError`]; [`crate::request::Status::Busy`] if as many tests run as the
/// server allows, [`crate::request::Status::NotAllowed`] if it allows none.
pub async fn run<S: TunnelStream>(
    stream: &mut S,
    test: Speedtest,
) -> Result<Arrived, SpeedtestError> {
    let test = test.bounded();
    let arrived = begin_and_move(stream, test).await;
    // What is on its way is of no use any more.
    stream.reset(reset_code::CANCELLED);
    arrived
}

async fn begin_and_move<S: TunnelStream>(
    stream: &mut S,
    test: Speedtest,
) -> Result<Arrived, SpeedtestError> {
    let mut request = Vec::new();
    Request::Speedtest(test).write(&mut request);
    stream.write_all(&request).await?;
    let replying = timeout(GRACE, read_reply(stream)).await;
    let early = match replying.map_err(io::Error::from)? {
        Ok((Reply::Connected(_), early)) => early,
        Ok((Reply::Failed(failure), _)) => return Err(ReachError::Failed(failure).into()),
        Err(error) => return Err(error.into()),
    };
    match test.direction {
        Direction::Down => Ok(swallow(stream, test, early.len() as u64).await?),
        Direction::Up => upload(stream, test, early).await,
    }
}

/// Writes until the far side answers; it does once its time is over, or all is there.
async fn upload<S: TunnelStream>(
    stream: &mut S,
    test: Speedtest,
    early: Vec<u8>,
) -> Result<Arrived, SpeedtestError> {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut result = early;
    let reading = async {
        while result.len() < RESULT_LEN {
            if from.read_buf(&mut result).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        io::Result::Ok(())
    };
    let writing = async {
        let zeros = vec![0; CHUNK_LEN];
        let mut left = test.bytes;
        while left > 0 {
            let len = left.min(CHUNK_LEN as u64) as usize;
            match to.write(&zeros[..len]).await {
                Ok(written) => left -= written as u64,
                // The far side has had enough: its result is on its way. If it has
                // gone, reading tells.
                Err(_) => break,
            }
        }
        let _ = to.shutdown().await;
        std::future::pending::<io::Result<()>>().await
    };
    let moving = async {
        tokio::select! {
            biased;
            read = reading => read,
            written = writing => written,
        }
    };
    timeout(test.time + GRACE, moving)
        .await
        .map_err(io::Error::from)??;
    let number = |at: usize| {
        let bytes: [u8; 8] = result[at..at + 8].try_into().expect("eight bytes");
        u64::from_be_bytes(bytes)
    };
    Ok(Arrived {
        bytes: number(0),
        time: Duration::from_micros(number(8)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::stream_pair;

    const SOON: Duration = Duration::from_secs(60);

    fn test(direction: Direction, time: Duration, bytes: u64) -> Speedtest {
        Speedtest {
            direction,
            time,
            bytes,
        }
    }

    /// Both sides of a test; the request is read and answered as the proxy does.
    async fn tested(test: Speedtest) -> Arrived {
        let (mut near, mut far) = stream_pair(64 << 10);
        let serving = tokio::spawn(async move {
            let mut request = Vec::new();
            while Request::parse(&request).expect("a request").is_none() {
                far.read_buf(&mut request).await.expect("open");
            }
            let (asked, len) = Request::parse(&request)
                .expect("a request")
                .expect("it is whole");
            assert_eq!(asked, Request::Speedtest(test.bounded()));
            let mut reply = Vec::new();
            Reply::Connected(([0, 0, 0, 0], 0).into()).write(&mut reply);
            far.write_all(&reply).await.expect("open");
            // Down, the near side leaves in the middle.
            let _ = serve(&mut far, test, request.len() - len, || ()).await;
        });
        let arrived = timeout(SOON, run(&mut near, test)).await;
        let arrived = arrived.expect("it ends").expect("it succeeds");
        drop(near);
        serving.await.expect("no panic");
        arrived
    }

    #[tokio::test]
    async fn a_test_ends_with_its_bytes() {
        for direction in [Direction::Up, Direction::Down] {
            let arrived = tested(test(direction, SOON, 1_000_000)).await;
            assert_eq!(arrived.bytes, 1_000_000, "{direction:?}");
            assert!(arrived.bits_per_second() > 0.0);
        }
    }

    #[tokio::test]
    async fn a_test_ends_with_its_time() {
        for direction in [Direction::Up, Direction::Down] {
            let time = Duration::from_millis(100);
            let arrived = tested(test(direction, time, u64::MAX)).await;
            assert!(arrived.bytes > 0 && arrived.bytes < BYTES_MAX);
            assert!(arrived.time >= time, "{direction:?}: {:?}", arrived.time);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_not_held_for_longer_than_it_allows() {
        let (_near, mut far) = stream_pair(1024);
        let begun = Instant::now();
        for direction in [Direction::Up, Direction::Down] {
            let endless = test(direction, Duration::from_secs(1 << 20), u64::MAX);
            // Nobody writes, and nobody reads.
            let _ = serve(&mut far, endless, 0, || ()).await;
        }
        assert!(begun.elapsed() <= (TIME_MAX + GRACE * 3) * 2);
    }

    #[tokio::test]
    async fn a_refusal_says_why() {
        use crate::request::{Failure, Status};
        let (mut near, mut far) = stream_pair(1024);
        let mut reply = Vec::new();
        Reply::Failed(Failure::new(Status::Busy, "8 tests run")).write(&mut reply);
        far.write_all(&reply).await.expect("open");
        let error = run(&mut near, test(Direction::Up, SOON, 1)).await;
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("8 tests run"), "{error}");
    }
}

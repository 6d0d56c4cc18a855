//! Tests of the relay between real TCP and a stream in memory.

use super::*;
use crate::memory::{MemoryStream, stream_pair};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(60);

struct Rig {
    /// The application's end.
    app: TcpStream,
    /// The far end of the tunnel's stream.
    far: MemoryStream,
    relay: JoinHandle<Result<(), RelayError>>,
    stats: Arc<Stats>,
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let (app, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (app.expect("connected"), accepted.expect("accepted").0)
}

async fn rig(early: Early) -> Rig {
    let (app, tcp) = tcp_pair().await;
    let (near, far) = stream_pair(16 << 10);
    let stats = Arc::new(Stats::default());
    let counted = stats.clone();
    let relay = tokio::spawn(async move {
        let code = reset_code::APPLICATION_GONE;
        relay_tcp(tcp, near, early, code, Meter::near(&counted)).await
    });
    Rig {
        app,
        far,
        relay,
        stats,
    }
}

async fn ended(relay: JoinHandle<Result<(), RelayError>>) -> Result<(), RelayError> {
    let joined = timeout(SOON, relay).await.expect("the relay hangs");
    joined.expect("no panic")
}

/// What every later read of a reset TCP connection gives.
async fn assert_reset(app: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(SOON, app.read_to_end(&mut rest)).await;
    let error = read.expect("the reset hangs").expect_err("a clean end");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

fn reset_by(tcp: &TcpStream) {
    SockRef::from(tcp)
        .set_linger(Some(Duration::ZERO))
        .expect("open");
}

#[tokio::test]
async fn either_direction_ends_while_the_other_goes_on() {
    let mut rig = rig(Early::default()).await;
    rig.app.write_all(b"question").await.expect("open");
    rig.app.shutdown().await.expect("open");
    let mut question = Vec::new();
    rig.far.read_to_end(&mut question).await.expect("clean end");
    assert_eq!(question, b"question");
    rig.far.write_all(b"answer").await.expect("open");
    rig.far.shutdown().await.expect("open");
    let mut answer = Vec::new();
    rig.app.read_to_end(&mut answer).await.expect("clean end");
    assert_eq!(answer, b"answer");
    ended(rig.relay).await.expect("two clean ends");
    let stats = rig.stats.snapshot();
    assert_eq!((stats.bytes_up, stats.bytes_down), (8, 6));
}

#[tokio::test]
async fn the_far_side_may_end_first() {
    let mut rig = rig(Early::default()).await;
    rig.far.write_all(b"banner").await.expect("open");
    rig.far.shutdown().await.expect("open");
    let mut banner = Vec::new();
    rig.app.read_to_end(&mut banner).await.expect("clean end");
    assert_eq!(banner, b"banner");
    rig.app.write_all(b"later").await.expect("open");
    rig.app.shutdown().await.expect("open");
    let mut later = Vec::new();
    rig.far.read_to_end(&mut later).await.expect("clean end");
    assert_eq!(later, b"later");
    ended(rig.relay).await.expect("two clean ends");
}

#[tokio::test]
async fn early_data_comes_first_in_both_directions() {
    let early = Early {
        to_tunnel: b"one ".to_vec(),
        to_local: vec![b'x'; 100_000],
    };
    let mut rig = rig(early).await;
    rig.app.write_all(b"two").await.expect("open");
    rig.app.shutdown().await.expect("open");
    let mut up = Vec::new();
    rig.far.read_to_end(&mut up).await.expect("clean end");
    assert_eq!(up, b"one two");
    rig.far.write_all(b"y").await.expect("open");
    rig.far.shutdown().await.expect("open");
    let mut down = Vec::new();
    rig.app.read_to_end(&mut down).await.expect("clean end");
    assert_eq!(down.len(), 100_001);
    assert_eq!(down.last(), Some(&b'y'));
}

#[tokio::test]
async fn an_application_that_disappears_resets_the_stream() {
    let mut rig = rig(Early::default()).await;
    rig.app.write_all(b"half of").await.expect("open");
    let mut half = [0; 7];
    rig.far.read_exact(&mut half).await.expect("relayed");
    reset_by(&rig.app);
    drop(rig.app);
    let error = ended(rig.relay).await.expect_err("not a clean end");
    assert_eq!(error.side, Side::Local);
    let read = rig.far.read_u8().await.expect_err("a reset");
    assert_eq!(read.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(rig.far.reset_code(), Some(reset_code::APPLICATION_GONE));
}

#[tokio::test]
async fn an_application_that_disappears_after_its_end_is_noticed_at_once() {
    let mut rig = rig(Early::default()).await;
    rig.app.shutdown().await.expect("open");
    assert_eq!(rig.far.read(&mut [0; 1]).await.expect("clean end"), 0);
    // Nothing moves now, in either direction.
    reset_by(&rig.app);
    drop(rig.app);
    let error = ended(rig.relay).await.expect_err("not a clean end");
    assert_eq!(error.side, Side::Local);
    assert_eq!(rig.far.reset_code(), Some(reset_code::APPLICATION_GONE));
}

#[tokio::test]
async fn a_reset_stream_resets_the_application() {
    let mut rig = rig(Early::default()).await;
    rig.far.write_all(b"half").await.expect("open");
    let mut half = [0; 4];
    rig.app.read_exact(&mut half).await.expect("relayed");
    rig.far.reset(reset_code::TARGET_GONE);
    assert_reset(&mut rig.app).await;
    let error = ended(rig.relay).await.expect_err("not a clean end");
    assert_eq!(error.side, Side::Tunnel);
}

#[tokio::test]
async fn a_stream_reset_after_its_end_is_noticed_at_once() {
    let mut rig = rig(Early::default()).await;
    rig.far.shutdown().await.expect("open");
    assert_eq!(rig.app.read(&mut [0; 1]).await.expect("clean end"), 0);
    rig.far.reset(reset_code::TARGET_GONE);
    let error = ended(rig.relay).await.expect_err("not a clean end");
    assert_eq!(error.side, Side::Tunnel);
}

#[tokio::test]
async fn a_stopped_relay_resets_both_sides() {
    let mut rig = rig(Early::default()).await;
    rig.app.write_all(b"x").await.expect("open");
    rig.far.read_u8().await.expect("relayed");
    rig.relay.abort();
    assert_reset(&mut rig.app).await;
    let read = rig.far.read_u8().await.expect_err("a reset");
    assert_eq!(read.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_application_that_reads_nothing_holds_a_bounded_amount() {
    let mut rig = rig(Early::default()).await;
    let chunk = vec![7; 1 << 20];
    let mut written = 0;
    while let Ok(sent) = timeout(Duration::from_millis(300), rig.far.write(&chunk)).await {
        written += sent.expect("open");
        assert!(written < 64 << 20, "nothing pushes back");
    }
    rig.far.shutdown().await.expect("open");
    rig.app.shutdown().await.expect("open");
    let mut read = Vec::new();
    rig.app.read_to_end(&mut read).await.expect("clean end");
    assert_eq!(read.len(), written);
    ended(rig.relay).await.expect("two clean ends");
}

#[tokio::test]
async fn both_directions_at_once_arrive_byte_for_byte() {
    use ctcp_units::Random;
    let seed = crate::test_seed();
    let mut random = Random::from_seed(seed);
    let mut up = vec![0; 5_000_000];
    let mut down = vec![0; 7_000_000];
    random.fill(&mut up);
    random.fill(&mut down);
    let rig = rig(Early::default()).await;
    let (mut app_read, mut app_write) = rig.app.into_split();
    let (mut far_read, mut far_write) = tokio::io::split(rig.far);
    let (mut up_read, mut down_read) = (Vec::new(), Vec::new());
    let send_up = async {
        app_write.write_all(&up).await.expect("open");
        app_write.shutdown().await.expect("open");
    };
    let send_down = async {
        far_write.write_all(&down).await.expect("open");
        far_write.shutdown().await.expect("open");
    };
    let (.., first, second) = tokio::join!(
        send_up,
        send_down,
        far_read.read_to_end(&mut up_read),
        app_read.read_to_end(&mut down_read),
    );
    first.expect("clean end");
    second.expect("clean end");
    assert!(up_read == up && down_read == down, "seed {seed}");
    ended(rig.relay).await.expect("two clean ends");
}

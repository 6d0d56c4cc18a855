//! Out of file descriptors. A file of its own, as the limit is the process's.

mod common;

use std::time::Duration;

use common::*;
use rustix::process::{Resource, getrlimit, setrlimit};

#[tokio::test]
async fn without_descriptors_the_proxy_waits_and_then_goes_on() {
    let rig = rig(Plan::default()).await;
    let target = echo().await.to_string();
    let mut before = socks5(rig.address, &target).await.expect("up");

    // What can be opened now is taken; the next accept finds nothing.
    let limit = getrlimit(Resource::Nofile);
    let mut low = limit;
    low.current = Some(64);
    setrlimit(Resource::Nofile, low).expect("lowering is allowed");
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    drop(taken.pop());
    let waiting = tokio::net::TcpStream::connect(rig.address).await;
    let stats = rig.forward.stats();
    eventually("accepting fails", || stats.snapshot().accept_errors > 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let errors = stats.snapshot().accept_errors;
    assert!(errors < 20, "{errors} errors in 0.3 s: it spins");

    drop((taken, waiting));
    setrlimit(Resource::Nofile, limit).expect("raising to the old limit is allowed");
    let mut after = socks5(rig.address, &target).await.expect("up again");
    assert_eq!(exchange(&mut after, b"after").await, b"after");
    assert_eq!(exchange(&mut before, b"before").await, b"before");
}

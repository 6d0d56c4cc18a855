//! What the tests of transfers share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate of its own and uses its part"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use ctcp_files::{
    LeftOut, Quiet, ReceiveOptions, SendOptions, Shown, Source, Store, Summary, TransferError,
    Watch, receive, send,
};
use ctcp_units::Random;

/// The seed of randomized tests: `CTCP_SEED`, else a fixed one.
pub fn seed() -> u64 {
    let given = std::env::var("CTCP_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}

pub fn fill(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

pub type Outcome = Result<Summary, TransferError>;

/// Sends `paths` into the folder `to`: what the sender says, what the receiver.
pub fn transfer(paths: &[PathBuf], to: &Path) -> (Outcome, Outcome) {
    let (send, receive) = (SendOptions::default(), ReceiveOptions::default());
    transfer_with(paths, to, send, receive, None, &Quiet)
}

/// The same, with options; `cut` breaks the stream towards the receiver.
pub fn transfer_with(
    paths: &[PathBuf],
    to: &Path,
    send_options: SendOptions,
    receive_options: ReceiveOptions,
    cut: Option<Cut>,
    watch: &dyn Watch,
) -> (Outcome, Outcome) {
    let (here, there) = UnixStream::pair().expect("sockets");
    let source = Source::new(paths).expect("readable");
    let sending = thread::spawn(move || {
        let reader = here.try_clone().expect("a descriptor");
        let result = send(&source, send_options, reader, &here, &Quiet);
        let _ = here.shutdown(Shutdown::Both);
        result
    });
    let mut store = Store::open(to).expect("writable");
    let cut = cut.unwrap_or(Cut::after(usize::MAX));
    let reader = cut.wrap(&there);
    let received = receive(&mut store, receive_options, reader, &there, watch);
    let _ = there.shutdown(Shutdown::Both);
    (sending.join().expect("no panic"), received)
}

/// Where a stream breaks.
#[derive(Clone, Copy)]
pub struct Cut(usize);

impl Cut {
    /// After so many bytes.
    pub fn after(bytes: usize) -> Self {
        Self(bytes)
    }

    pub fn wrap<R: Read>(self, inner: R) -> Broken<R> {
        Broken {
            inner,
            left: self.0,
        }
    }
}

pub struct Broken<R> {
    inner: R,
    left: usize,
}

impl<R: Read> Read for Broken<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let len = buf.len().min(self.left);
        let read = self.inner.read(&mut buf[..len])?;
        self.left -= read;
        Ok(read)
    }
}

/// Remembers what was left out.
#[derive(Default)]
pub struct Log(Mutex<Vec<(String, LeftOut)>>);

impl Log {
    pub fn taken(&self) -> Vec<(String, LeftOut)> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Watch for Log {
    fn left_out(&self, path: Shown<'_>, why: LeftOut) {
        let path = path.to_string();
        self.0.lock().expect("no panic").push((path, why));
    }
}

/// Everything there is to know of a tree, by path.
fn facts(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut facts = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("listed").path();
            let metadata = fs::symlink_metadata(&path).expect("there");
            let time = (metadata.mtime(), metadata.mtime_nsec());
            let mode = metadata.mode();
            let fact = if metadata.is_dir() {
                folders.push(path.clone());
                format!("folder {mode:o} {time:?}")
            } else if metadata.is_symlink() {
                format!("link {:?} {time:?}", fs::read_link(&path).expect("a link"))
            } else {
                let hash = blake3::hash(&fs::read(&path).expect("readable"));
                format!("file {mode:o} {time:?} {hash}")
            };
            let relative = path.strip_prefix(root).expect("inside").to_owned();
            facts.insert(relative, fact);
        }
    }
    facts
}

/// Same names, contents, permissions, times, links.
pub fn assert_same(one: &Path, two: &Path) {
    assert_eq!(facts(one), facts(two));
}

/// Whatever has a final name at the receiver is whole.
pub fn assert_whole(from: &Path, to: &Path) {
    let wanted = facts(from);
    for (path, fact) in facts(to) {
        if fact.starts_with("file") && !is_part(&path) {
            assert_eq!(wanted.get(&path), Some(&fact), "{}", path.display());
        }
    }
}

fn is_part(path: &Path) -> bool {
    let name = path.file_name().expect("a name").to_string_lossy();
    name.starts_with(".ctcp-") && name.ends_with(".part")
}

/// The unfinished files in a tree.
pub fn parts(root: &Path) -> Vec<PathBuf> {
    let paths = facts(root).into_keys();
    paths.filter(|path| is_part(path)).collect()
}

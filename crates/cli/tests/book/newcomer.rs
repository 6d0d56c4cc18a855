//! What somebody does who has read the README and nothing else: a server, an
//! invite, a client, a browser through it; then a folder, sent while everything
//! goes wrong three times: its sender is killed, its receiver is killed, the
//! network is gone for a while. It must arrive the same in contents, permissions
//! and times.
//!
//! `CTCP_NEWCOMER_BYTES` says how much is sent: 12 MB unless it does, 1 GB to see
//! whether the promise holds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;

use super::common::{body, has, sha256};
use super::page::Command;
use super::world::{Running, World};

const BYTES: usize = 12_000_000;

/// How long the network is gone.
const OUTAGE: Duration = Duration::from_secs(12);

pub(crate) fn a_newcomer_gets_a_page_and_a_folder(is_root: bool) {
    let bytes = std::env::var("CTCP_NEWCOMER_BYTES").ok();
    let bytes = bytes.map_or(BYTES, |text| text.parse().expect("a number of bytes"));
    let mut world = World::new(is_root);
    browse(&mut world);
    send(&mut world, bytes);
    world.end();
}

fn command(machine: &str, text: &str, expected: &[&str]) -> Command {
    Command {
        machine: machine.to_owned(),
        text: text.to_owned(),
        expected: expected.iter().map(|&line| line.to_owned()).collect(),
        ..Command::default()
    }
}

fn browse(world: &mut World) {
    let invite = "ctcp server --public server.example --invite anna";
    world.run(&command("server", invite, &["invite ctcp://…"]));
    let paired = ["socks5 127.0.0.1:1080", "…paired with server.example…"];
    world.run(&command("client", "ctcp client -", &paired));
    if !has("chromium", "chromium") {
        return;
    }
    let browser = "chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=profile \
                   --proxy-server=socks5://127.0.0.1:1080 --dump-dom https://example.org/";
    let page = ["…<title>Example Domain</title>…"];
    world.run(&command("client", browser, &page));
}

fn send(world: &mut World, bytes: usize) {
    // At least 1 MB/s, on a machine that does other things.
    let patience = Duration::from_secs(240 + bytes as u64 / 1_000_000);
    let (from, to) = (world.home("here"), world.home("there"));
    let (from, to) = (from.join("photos"), to.join("photos"));
    make(&from, bytes);
    let receive = "ctcp receive --public there.example photos";
    let receiver = world.start(&command("there", receive, &[]));
    wait("it listens", patience, &receiver, |said| {
        said.contains("READY")
    });
    world.remember_invite(&receiver.said());
    let first = world.start(&command("here", "ctcp send ~/photos/ --to -", &[]));
    let has_come = |share: f64| {
        let (to, bytes) = (to.clone(), bytes);
        move |_: &str| len_below(&to) as f64 > share * bytes as f64
    };

    wait("a quarter comes", patience, &first, has_come(0.25));
    first.signal(Signal::KILL);
    drop(first);
    assert!(fs::read_dir(&to).expect("it is there").count() > 0);

    let sender = world.start(&command("here", "ctcp send ~/photos/", &[]));
    wait("half comes", patience, &sender, has_come(0.5));
    receiver.signal(Signal::KILL);
    drop(receiver);
    thread::sleep(Duration::from_secs(3));

    let receiver = world.start(&command("there", "ctcp receive photos", &[]));
    wait("three quarters come", patience, &sender, has_come(0.75));
    world.set_network(false);
    thread::sleep(OUTAGE);
    world.set_network(true);

    let began = Instant::now();
    for mut running in [sender, receiver] {
        let status = loop {
            if let Some(status) = running.child.try_wait().expect("it is ours") {
                break status;
            }
            assert!(began.elapsed() < patience, "no end: {}", running.said());
            thread::sleep(Duration::from_millis(100));
        };
        let said = running.said();
        println!("{}:\n{said}", running.command.text);
        assert_eq!(status.code(), Some(0), "{said}");
    }
    let (sent, come) = (tree(&from), tree(&to));
    for (path, entry) in &sent {
        assert_eq!(Some(entry), come.get(path), "{path}");
    }
    assert_eq!(sent.len(), come.len(), "nothing else is there");
}

fn wait(what: &str, patience: Duration, running: &Running, is: impl Fn(&str) -> bool) {
    let began = Instant::now();
    while !is(&running.said()) {
        let said = running.said();
        assert!(began.elapsed() < patience, "not in time: {what}: {said}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A folder as people have them: a few large files, many small ones, odd names,
/// an empty file and an empty folder, a link, various permissions and times.
fn make(root: &Path, bytes: usize) {
    let large = bytes * 6 / 10 / 3;
    let small_count = (bytes / 50_000).clamp(50, 5000);
    let small = bytes * 4 / 10 / small_count;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let write = |path: &Path, seed: u64, len: usize, mode: u32| {
        fs::write(path, body(seed, len)).expect("writable");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        let file = fs::File::open(path).expect("ours");
        let time = long_ago + Duration::from_secs(seed);
        file.set_modified(time).expect("ours");
    };
    fs::create_dir_all(root.join("summer/deep")).expect("writable");
    fs::create_dir_all(root.join("empty")).expect("writable");
    for at in 0..3 {
        write(&root.join(format!("film {at}.mp4")), at, large, 0o644);
    }
    for at in 0..small_count as u64 {
        let name = format!("summer/deep/{at}.jpg");
        let mode = if at % 7 == 0 { 0o600 } else { 0o640 };
        write(
            &root.join(name),
            100 + at,
            small / 2 + at as usize % small,
            mode,
        );
    }
    write(&root.join("nothing"), 4, 0, 0o644);
    write(&root.join("run.sh"), 5, 100, 0o755);
    write(&root.join("Grüße aus Köln.txt"), 6, 10, 0o444);
    symlink("summer/deep/7.jpg", root.join("favourite")).expect("writable");
}

/// What is below a folder: path to kind, permissions, time of change, contents.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path
                .strip_prefix(root)
                .expect("inside")
                .display()
                .to_string();
            let metadata = path.symlink_metadata().expect("it is there");
            let mode = metadata.permissions().mode() & 0o7777;
            let text = if metadata.is_symlink() {
                format!(
                    "link to {}",
                    fs::read_link(&path).expect("a link").display()
                )
            } else if metadata.is_dir() {
                folders.push(path);
                format!("folder {mode:o}")
            } else {
                let modified = metadata.modified().expect("it has one");
                let hash = sha256(&fs::read(&path).expect("readable"));
                format!("file {mode:o} {modified:?} {} {hash}", metadata.len())
            };
            found.insert(name, text);
        }
    }
    found
}

/// Bytes in all files below a folder, unfinished ones too.
fn len_below(root: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(root) else {
        return 0;
    };
    let lens = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => len_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    lens.sum()
}

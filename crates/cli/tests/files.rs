//! `ctcp send` and `ctcp receive` through the binary, over paths that lose
//! packets and ends that are killed.

mod common;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{Ctcp, Key, body, seed, wait_until};
use ctcp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};
use ctcp_link::LossModel;
use ctcp_units::{LossRate, Rate, millis};
use rustix::process::Signal;

/// Both ends' keys, and a port that stays free for a receiver that comes back.
struct Pair {
    here: Key,
    there: Key,
    listen: SocketAddr,
}

impl Pair {
    fn new() -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        Self {
            here: Key::generate(),
            there: Key::generate(),
            listen: socket.local_addr().expect("bound"),
        }
    }

    /// A receiver that takes from `here`.
    fn receiver(&self, to: &Path, more: &[&str]) -> Ctcp {
        let (listen, to) = (self.listen.to_string(), to.to_str().expect("UTF-8"));
        let mut args = vec![
            "receive",
            to,
            "--listen",
            &listen,
            "--key",
            self.there.path(),
        ];
        args.extend(["--allow", &self.here.public]);
        args.extend(more);
        Ctcp::start(&args)
    }

    /// The arguments of a sender to `path`, the address of the relay.
    fn send<'a>(&'a self, from: &'a str, path: &'a str) -> Vec<&'a str> {
        let mut args = vec!["send", from, "--server", path];
        args.extend([
            "--server-key",
            &self.there.public,
            "--key",
            self.here.path(),
        ]);
        args
    }

    /// A path that loses 3 % each way.
    fn lossy(&self) -> RelayHandle {
        let link = LinkConfig::new(Rate::mbit(40), millis(10))
            .loss(LossModel::Bernoulli(LossRate::clamped(0.03)))
            .queue_bdp(1.0, millis(20));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = RelayConfig::new(any, self.listen, link.clone(), link).seed(seed());
        Relay::spawn(config).expect("the relay starts")
    }
}

/// A folder of one large and many small files.
fn tree(root: &Path, large: usize) {
    fs::create_dir_all(root.join("small/deep")).expect("made");
    fs::write(root.join("large"), body(1, large)).expect("written");
    for at in 0..300 {
        let path = root.join("small/deep").join(format!("{at}"));
        fs::write(path, body(at as u64, 100 + at)).expect("written");
    }
    std::os::unix::fs::symlink("small/deep/7", root.join("link")).expect("made");
}

/// Same contents and times, and nothing unfinished.
fn assert_same(from: &Path, to: &Path) {
    let mut paths: Vec<PathBuf> = (0..300)
        .map(|at| format!("small/deep/{at}").into())
        .collect();
    paths.extend(["large".into(), "link".into()]);
    for path in paths {
        let read = |root: &Path| fs::read(root.join(&path)).expect("there");
        assert!(read(from) == read(to), "{} differs", path.display());
        let time = |root: &Path| root.join(&path).metadata().and_then(|m| m.modified());
        assert_eq!(time(from).expect("there"), time(to).expect("there"));
    }
    assert_eq!(part(to), None);
    let names = |root: &Path| fs::read_dir(root).expect("readable").count();
    assert_eq!(names(from), names(to));
}

/// How much there is of an unfinished file.
fn part(to: &Path) -> Option<u64> {
    let entries = fs::read_dir(to).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_part = name.starts_with(".ctcp-") && name.ends_with(".part");
        is_part.then(|| entry.metadata().map_or(0, |metadata| metadata.len()))
    })
}

#[test]
fn a_folder_arrives_although_both_ends_are_killed_and_packets_are_lost() {
    let pair = Pair::new();
    let relay = pair.lossy();
    let path = relay.local_addr().to_string();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (from.path(), to.path());
    tree(from, 24_000_000);
    let inside = format!("{}/", from.display());
    let args = pair.send(&inside, &path);
    let patience = Duration::from_secs(90);
    let more_than = |bytes: u64| part(to).is_some_and(|len| len > bytes);

    // The sender is killed; the receiver waits for it to come back.
    let receiver = pair.receiver(to, &[]);
    let sender = Ctcp::spawn(&mut Ctcp::command(&args));
    wait_until("a part arrives", patience, || more_than(2_000_000));
    sender.signal(Signal::KILL);
    drop(sender);
    assert!(!to.join("large").exists(), "nothing under the final name");

    // The receiver is killed, too; the sender connects again by itself.
    let mut sender = Ctcp::spawn(&mut Ctcp::command(&args));
    wait_until("more arrives", patience, || more_than(4_000_000));
    receiver.signal(Signal::KILL);
    drop(receiver);
    let before = part(to).expect("it stays");
    let mut receiver = pair.receiver(to, &[]);
    wait_until("still more arrives", patience, || {
        more_than(before + 1_000_000)
    });

    // And the sender is interrupted once more, this time politely.
    sender.signal(Signal::INT);
    assert_eq!(sender.wait().code(), Some(1));
    assert!(sender.stderr().contains("run the same command again"));
    let before = part(to).expect("it stays");
    let mut last = Ctcp::spawn(&mut Ctcp::command(&args));
    assert_eq!(last.wait().code(), Some(0), "{}", last.stderr());
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.stderr());
    assert_same(from, to);
    assert!(before >= 5_000_000);
    let said = last.stdout();
    assert!(said.contains("there already"), "{said}");
}

/// Whoever is interrupted says so: the other end need not find out by silence.
#[test]
fn an_end_that_is_interrupted_tells_the_other() {
    let pair = Pair::new();
    let link = LinkConfig::new(Rate::mbit(20), millis(10)).queue_bdp(1.0, millis(20));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = RelayConfig::new(any, pair.listen, link.clone(), link);
    let relay = Relay::spawn(config).expect("the relay starts");
    let path = relay.local_addr().to_string();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, body(1, 16_000_000)).unwrap();
    let args = pair.send(file.to_str().expect("UTF-8"), &path);
    let patience = Duration::from_secs(90);
    let more_than = |bytes: u64| part(to.path()).is_some_and(|len| len > bytes);
    let said = "the other side was interrupted";

    let mut receiver = pair.receiver(to.path(), &[]);
    let mut sender = Ctcp::spawn(&mut Ctcp::command(&args));
    wait_until("a part arrives", patience, || more_than(500_000));
    receiver.signal(Signal::INT);
    assert_eq!(receiver.wait().code(), Some(1));
    wait_until("the sender hears of it", patience, || {
        sender.stderr().contains(said)
    });
    let before = part(to.path()).expect("it stays");
    let mut receiver = pair.receiver(to.path(), &[]);
    wait_until("more arrives", patience, || more_than(before + 500_000));
    sender.signal(Signal::INT);
    assert_eq!(sender.wait().code(), Some(1));
    wait_until("the receiver hears of it", patience, || {
        receiver.stderr().contains(said)
    });
    common::assert_ok(&Ctcp::run(&args));
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.stderr());
    assert!(fs::read(to.path().join("file")).unwrap() == body(1, 16_000_000));
}

#[test]
fn an_invite_pairs_the_two_for_good_whoever_listens() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = |folder: &Path| folder.join("state").to_str().expect("UTF-8").to_owned();
    let (here_state, there_state) = (state(here.path()), state(there.path()));
    let file = here.path().join("file");
    fs::write(&file, body(1, 10_000)).unwrap();
    let (file, to) = (file.to_str().unwrap(), there.path().join("to"));
    let to = to.to_str().unwrap();

    let receive = [
        "receive",
        to,
        "--listen",
        "127.0.0.1:0",
        "--state",
        &there_state,
    ];
    let mut receiver = Ctcp::start(&receive);
    let invite = receiver.result("invite");
    let mut command = Ctcp::command(&["send", file, "--to", "-", "--state", &here_state]);
    let mut sending = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sending
        .stdin
        .take()
        .unwrap()
        .write_all(invite.as_bytes())
        .unwrap();
    common::assert_ok(&sending.wait_with_output().unwrap());
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.stderr());
    assert_eq!(
        fs::read(Path::new(to).join("file")).unwrap(),
        body(1, 10_000)
    );

    // The second time the receiver knows the sender and prints no invite. It
    // listens on another port, so the sender is told.
    let mut receiver = Ctcp::start(&receive);
    assert!(
        !receiver.stdout().contains("invite"),
        "{}",
        receiver.stdout()
    );
    let address = receiver.result("listening");
    fs::write(file, body(2, 10_000)).unwrap();
    let key = invite.split(['.', '@']).nth(1).expect("a key").to_owned();
    let mut args = vec!["send", file, "--state", &here_state, "--json"];
    args.extend(["--server", &address, "--server-key", &key]);
    let output = Ctcp::run(&args);
    common::assert_ok(&output);
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(line["files"], 1);
    assert_eq!(line["bytes"], 10_000);
    assert_eq!(receiver.wait().code(), Some(0));

    // A stranger is refused with 3, and the proxies' state knows nothing of all this.
    let receiver = Ctcp::start(&receive);
    let address = receiver.result("listening");
    let stranger = Key::generate();
    let mut args = vec!["send", file, "--key", stranger.path()];
    args.extend(["--server", &address, "--server-key", &key]);
    assert_eq!(Ctcp::run(&args).status.code(), Some(3));
    assert!(!Path::new(&there_state).join("allow").exists());
}

/// The file gives what is not typed; what is typed rules out what it excludes.
#[test]
fn a_configuration_file_gives_both_ends_their_options() {
    let pair = Pair::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (file, to, config) = (path("file"), path("to"), path("ctcp.toml"));
    fs::write(&file, body(1, 10_000)).unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\n\
         [receive]\nkey = \"{}\"\nallow = [\"{}\"]\njson = true\n\
         [send]\nkey = \"{}\"\nserver-key = \"{}\"\nchecksum = true\n",
        pair.there.path(),
        pair.here.public,
        pair.here.path(),
        pair.there.public,
    );
    fs::write(&config, text).unwrap();
    let checked = Ctcp::run(&["check-config", &config]);
    common::assert_ok(&checked);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(said.contains("send, receive"), "{said}");

    let mut receiver = Ctcp::start(&["receive", &to, "--config", &config]);
    let line = receiver.stdout();
    let said: serde_json::Value = serde_json::from_str(line.lines().next().expect("a line"))
        .unwrap_or_else(|error| panic!("{error}: {line}"));
    let address = said["listening"].as_str().expect("an address");
    let send = ["send", &file, "--server", address, "--config", &config];
    common::assert_ok(&Ctcp::run(&send));
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.stderr());
    assert_eq!(
        fs::read(folder.path().join("to/file")).unwrap(),
        body(1, 10_000)
    );

    fs::write(&config, "[receive]\nno-overwite = true\n").unwrap();
    let output = Ctcp::run(&["receive", &to, "--config", &config]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did you mean `no-overwrite`?"), "{said}");
}

#[test]
fn a_pipe_goes_through_and_the_sender_may_listen() {
    let (here, there) = (Key::generate(), Key::generate());
    let contents = body(3, 700_000);
    let mut command = Ctcp::command(&["send", "-", "--listen", "127.0.0.1:0"]);
    command.args(["--key", here.path(), "--allow", &there.public]);
    let mut sender = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let piped = contents.clone();
    let feeding = thread::spawn(move || stdin.write_all(&piped));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(sender.stdout.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    let address = line
        .split_whitespace()
        .nth(1)
        .expect("listening")
        .to_owned();
    let mut args = vec!["receive", "-", "--server", &address];
    args.extend(["--server-key", &here.public, "--key", there.path()]);
    let output = Ctcp::run(&args);
    common::assert_ok(&output);
    assert!(output.stdout == contents, "the pipe gives what went in");
    feeding.join().unwrap().unwrap();
    assert!(sender.wait().unwrap().success());
}

#[test]
fn what_cannot_work_says_so_with_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let state = folder.path().join("state");
    let (missing, state) = (missing.to_str().unwrap(), state.to_str().unwrap());
    let here = folder.path().to_str().unwrap();
    for (args, code, part) in [
        (vec!["send", missing], 2, "missing"),
        (vec!["send", here, "--state", state], 2, "--to -"),
        (vec!["send", "-", "--to", "-"], 2, "--to FILE"),
        (vec!["send", "-", here], 2, "by itself"),
        (vec!["receive", "/proc/x"], 2, "folder that can be written"),
    ] {
        let output = Ctcp::run(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
    let (key, other) = (Key::generate(), Key::generate());
    let mut args = vec!["send", here, "--server", "127.0.0.1:9"];
    args.extend(["--server-key", &other.public, "--key", key.path()]);
    assert_eq!(Ctcp::run(&args).status.code(), Some(4));
}

#[test]
fn a_full_disk_is_named_at_both_ends_and_leaves_no_half_file() {
    let pair = Pair::new();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // More than any disk has, and it costs nothing here.
    let file = from.path().join("huge");
    let sparse = fs::File::create(&file).unwrap();
    if sparse.set_len(8 << 40).is_err() {
        eprintln!("SKIPPED: this file system holds no sparse file of 8 TiB");
        return;
    }
    let mut receiver = pair.receiver(to.path(), &[]);
    let address = pair.listen.to_string();
    let output = Ctcp::run(&pair.send(file.to_str().unwrap(), &address));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("make room") && said.contains("huge"),
        "{said}"
    );
    assert_eq!(receiver.wait().code(), Some(1));
    assert!(receiver.stderr().contains("make room"));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

//! ssh and rsync over `ctcp connect`, with a server of our own on loopback.

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;

use common::{Net, Sshd, assert_ok, body, has, link, sha256};
use ctcp_link::LossModel;
use ctcp_units::LossRate;

/// The words of an ssh command that goes through `ctcp connect`.
fn ssh(sshd: &Sshd, net: &Net) -> Vec<String> {
    let key = sshd.user_key();
    let ctcp = env!("CARGO_BIN_EXE_ctcp");
    let proxy = format!(
        "ProxyCommand={ctcp} -q connect %h:%p --server {} --server-key {} --key {}",
        net.relay.local_addr(),
        net.server_key.public,
        net.client_key.path()
    );
    let words = [
        "ssh",
        "-F",
        "none",
        "-i",
        &key,
        "-p",
        &sshd.port().to_string(),
    ];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    for option in [
        &proxy,
        "BatchMode=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
    ] {
        words.extend(["-o".to_owned(), option.to_owned()]);
    }
    words
}

/// Runs a program with this on its stdin.
fn run_with(mut command: Command, input: Vec<u8>) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it is ours");
    writer
        .join()
        .expect("no panic")
        .expect("it reads everything");
    output
}

fn lossy_net() -> Net {
    Net::start(link().loss(LossModel::Bernoulli(LossRate::clamped(0.02))))
}

#[test]
fn ssh_carries_bytes_both_ways_through_ctcp_connect() {
    if !(has("ssh", "openssh-client") && has("sshd", "openssh-server")) {
        return;
    }
    let (sshd, net) = (Sshd::start(), lossy_net());
    let ssh = ssh(&sshd, &net);
    let mut command = Command::new(&ssh[0]);
    command.args(&ssh[1..]).args(["127.0.0.1", "cat"]);
    let input = body(1, 3_000_000);
    let output = run_with(command, input.clone());
    assert_ok(&output);
    assert_eq!(sha256(&output.stdout), sha256(&input));
}

#[test]
fn rsync_copies_a_folder_through_ctcp_connect() {
    let is_there = has("ssh", "openssh-client") && has("sshd", "openssh-server");
    if !(is_there && has("rsync", "rsync")) {
        return;
    }
    let (sshd, net) = (Sshd::start(), lossy_net());
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::create_dir_all(from.join("deep")).expect("writable");
    for (name, len) in [("large", 2_000_000), ("deep/small", 10), ("deep/empty", 0)] {
        std::fs::write(from.join(name), body(2, len)).expect("written");
    }
    let words = ssh(&sshd, &net);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let output = Command::new("rsync")
        .args(["-a", "-e", &quoted.join(" ")])
        .arg(format!("{}/", from.display()))
        .arg(format!("127.0.0.1:{}/", to.display()))
        .output()
        .expect("rsync runs");
    assert_ok(&output);
    for name in ["large", "deep/small", "deep/empty"] {
        let (sent, got) = (std::fs::read(from.join(name)), std::fs::read(to.join(name)));
        assert!(
            sent.expect("written") == got.expect("copied"),
            "{name} differs"
        );
    }
}

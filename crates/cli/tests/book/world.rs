//! Where a page's commands run: two namespaces, joined by two paths that lose
//! packets, with a home folder for each machine that the page names.
//!
//! Machines called `server` and `there` are on the far side, all others on the near
//! one. What the pages call by a name has one here, too: `server.example` and
//! `there.example` are an address of the far side that both paths lead to, and there is a
//! web server, a DNS server, and if need be an ssh server, at an address that is nobody's
//! own: `example.org`. Some things are replaced: `https://example.org` by `http://…`,
//! `9.9.9.9` by that address, and `wlan0` and `wwan0` by the names of the two paths'
//! devices.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ctcp_emu::namespace::Route;
use ctcp_emu::{LinkConfig, Namespace, Network, NetworkConfig};
use ctcp_link::LossModel;
use ctcp_units::{LossRate, Rate, millis};
use rustix::process::{Pid, Signal, kill_process_group};

use super::common::{self, Sshd};
use super::page::{Command, Step, missing};

/// How long a command may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// `example.org`, in here: an address that a proxy connects to unasked.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(198, 97, 22, 10);

/// `server.example`, in here: an address that both paths lead to.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 97, 22, 20);

/// Packages that are called otherwise than their programs.
const PACKAGES: [(&str, &str); 4] = [
    ("drill", "ldnsutils"),
    ("socksify", "dante-client"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
];

/// Length of every file but the front page of the web server.
const FILE_LEN: usize = 3_000_000;

/// The machines of one session.
pub(crate) struct World {
    running: Vec<Running>,
    network: Network,
    folder: tempfile::TempDir,
    sshd: Option<Sshd>,
    /// The last invite that was printed.
    invite: String,
    /// Whether ssh servers can be had.
    is_root: bool,
    skipped: Vec<String>,
}

/// A command that goes on while the page does.
pub(crate) struct Running {
    pub(crate) child: Child,
    output: Arc<Mutex<String>>,
    pub(crate) command: Command,
}

impl World {
    pub(crate) fn new(is_root: bool) -> Self {
        let link = || {
            LinkConfig::new(Rate::mbit(40), millis(10))
                .loss(LossModel::Bernoulli(LossRate::clamped(0.01)))
                .queue_bdp(1.0, millis(20))
        };
        let mut config = NetworkConfig::single(link(), link());
        config.add_path(link(), link());
        config.seed = common::seed();
        let network = Network::start(config).expect("a network");
        let right = network.namespace("right").expect("it has one");
        for address in [ELSEWHERE, SERVER] {
            let add = right.add_address("lo", IpAddr::V4(address), 32);
            add.expect("an address");
        }
        route_to_server(&network);
        right.run(serve_web).expect("a thread");
        right.run(serve_names).expect("a thread");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).expect("writable");
        symlink(env!("CARGO_BIN_EXE_ctcp"), at("bin/ctcp")).expect("writable");
        let hosts = format!(
            "127.0.0.1 localhost\n{SERVER} server.example there.example\n{ELSEWHERE} example.org\n"
        );
        fs::write(at("hosts"), hosts).expect("writable");
        Self {
            running: Vec::new(),
            network,
            folder,
            sshd: None,
            invite: String::new(),
            is_root,
            skipped: Vec::new(),
        }
    }

    /// Does a step.
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Script { machine, text } => {
                let command = Command {
                    machine: machine.clone(),
                    text: match text.contains('\n') {
                        true => format!("set -e\n{text}"),
                        false => text.clone(),
                    },
                    ..Command::default()
                };
                self.run(&command);
            }
            Step::File {
                machine,
                path,
                text,
            } => {
                let path = self.home(machine).join(path);
                let folder = path.parent().expect("it is in a home");
                fs::create_dir_all(folder).expect("writable");
                fs::write(path, text).expect("writable");
            }
            Step::Command(command) => {
                if self.has_all(&command.needs) {
                    self.run(command);
                } else {
                    self.skipped.push(command.text.clone());
                }
            }
            Step::Fresh => unreachable!("whoever has the world makes another"),
        }
    }

    /// Ends what still runs, and checks that it ends well and has said what the
    /// page says. What was skipped, if anything.
    pub(crate) fn end(mut self) -> Vec<String> {
        while let Some(running) = self.running.pop() {
            let signal = (!running.ends_by_itself()).then_some(Signal::TERM);
            self.finish(running, signal);
        }
        self.skipped
    }

    fn has_all(&mut self, programs: &[String]) -> bool {
        let is_there = programs.iter().all(|program| {
            let package = PACKAGES.iter().find(|(known, _)| known == program);
            let package = package.map_or(program.as_str(), |(_, package)| package);
            common::has(program, package) && (program != "sshd" || self.is_root)
        });
        if is_there && programs.iter().any(|program| program == "sshd") {
            self.start_sshd();
        }
        is_there
    }

    fn start_sshd(&mut self) {
        if self.sshd.is_some() {
            return;
        }
        let home = self.home("server");
        let inside = format!(
            "cd {0}; export HOME={0}; [ -z \"$SSH_ORIGINAL_COMMAND\" ] || eval \"$SSH_ORIGINAL_COMMAND\"",
            home.display()
        );
        let address = SocketAddr::from(([0, 0, 0, 0], 22));
        let sshd = self.side("server").run(|| Sshd::start_at(address, &inside));
        let sshd = sshd.expect("a thread");
        let config = self.folder.path().join("ssh_config");
        fs::write(&config, sshd.client_config()).expect("writable");
        let ssh = self.folder.path().join("bin/ssh");
        // What a page writes into ~/.ssh/config counts, although ssh looks for it in
        // another home than $HOME.
        let script = format!(
            "#!/bin/sh\ncat {} \"$HOME/.ssh/config\" 2>/dev/null > \"$HOME/.ssh-config\"\n\
             exec /usr/bin/ssh -F \"$HOME/.ssh-config\" \"$@\"\n",
            config.display()
        );
        fs::write(&ssh, script).expect("writable");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&ssh, mode).expect("ours");
        self.sshd = Some(sshd);
    }

    /// Switches all paths off, or on again.
    pub(crate) fn set_network(&self, is_up: bool) {
        for index in 0..self.network.paths().len() {
            let set = self.network.router().set_path_up(index, is_up);
            set.expect("there is such a path");
        }
    }

    fn side(&self, machine: &str) -> &Namespace {
        let is_far = matches!(machine, "server" | "there");
        let name = if is_far { "right" } else { "left" };
        self.network.namespace(name).expect("it has one")
    }

    /// The home folder of a machine, which has the repository's examples.
    pub(crate) fn home(&self, machine: &str) -> PathBuf {
        let home = self.folder.path().join("homes").join(machine);
        if !home.exists() {
            fs::create_dir_all(home.join(".run")).expect("writable");
            symlink(super::root().join("examples"), home.join("examples")).expect("writable");
        }
        home
    }

    fn replaced(&self, text: &str) -> String {
        let paths = self.network.paths();
        text.replace("https://example.org", "http://example.org")
            .replace("9.9.9.9", &ELSEWHERE.to_string())
            .replace("wlan0", &paths[0].left.device)
            .replace("wwan0", &paths[1].left.device)
    }

    pub(crate) fn run(&mut self, command: &Command) {
        // Whoever types waits for the prompt.
        let is_waited_for = |running: &Running| {
            running.ends_by_itself() && running.command.machine == command.machine
        };
        while let Some(at) = self.running.iter().position(is_waited_for) {
            let running = self.running.remove(at);
            self.finish(running, None);
        }
        let mut running = self.start(command);
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = running.child.try_wait().expect("it is ours") {
                break status;
            }
            let said = running.said();
            let is_ready = said.lines().any(|line| line == "READY");
            let is_through = missing(&said, &command.expected).is_empty();
            if command.is_interrupted && is_through && (is_ready || !command.expected.is_empty()) {
                return self.finish(running, Some(Signal::INT));
            }
            if is_ready && !command.is_interrupted {
                self.remember_invite(&said);
                self.running.push(running);
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "no end: {command:?}: {said}");
            thread::sleep(Duration::from_millis(20));
        };
        self.judge(&running, status);
    }

    pub(crate) fn start(&self, command: &Command) -> Running {
        let home = self.home(&command.machine);
        let text = self.replaced(&command.text);
        let text = text.split(" # ").next().unwrap_or_default().trim_end();
        // Signals then reach it, and no shell that dies of them first.
        let is_alone = text.starts_with("ctcp ") && !text.contains([';', '|', '&', '>']);
        let exec = if is_alone { "exec " } else { "" };
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        let mut program = Program::new("unshare");
        program
            .args(["--mount", "sh", "-c"])
            .arg("mount --bind \"$BOOK_HOSTS\" /etc/hosts && exec sh -c \"$0\"")
            .arg(format!("{exec}{text}"))
            .env_clear()
            .env("BOOK_HOSTS", self.folder.path().join("hosts"))
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", home.join(".run"))
            .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", bin.display()))
            .env("LANG", "C.UTF-8")
            .current_dir(&home)
            .process_group(0);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        program
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer);
        let reads_invite = ["client -", "--to -", "--from -"]
            .iter()
            .any(|words| format!("{text} ").contains(&format!("{words} ")));
        program.stdin(if reads_invite {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let spawn = || program.spawn();
        let spawned = self.side(&command.machine).run(spawn).expect("a thread");
        let mut child = spawned.expect("unshare (package util-linux) runs");
        if let Some(mut stdin) = child.stdin.take() {
            let line = format!("{}\n", self.invite);
            stdin.write_all(line.as_bytes()).expect("it reads");
        }
        let output = Arc::new(Mutex::new(String::new()));
        let sink = output.clone();
        thread::spawn(move || collect(reader, &sink));
        Running {
            child,
            output,
            command: command.clone(),
        }
    }

    /// Sends it a signal, if one is given and it still runs, and waits for its end.
    fn finish(&mut self, mut running: Running, signal: Option<Signal>) {
        if let Some(signal) = signal {
            running.signal(signal);
        }
        let begun = Instant::now();
        loop {
            if let Some(status) = running.child.try_wait().expect("it is ours") {
                return self.judge(&running, status);
            }
            let (command, said) = (&running.command, running.said());
            assert!(begun.elapsed() < PATIENCE, "no end: {command:?}: {said}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn judge(&mut self, running: &Running, status: ExitStatus) {
        // What it said last may still be in the pipe.
        let begun = Instant::now();
        while Arc::strong_count(&running.output) > 1 && begun.elapsed() < Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(5));
        }
        let (command, said) = (&running.command, running.said());
        let (text, line) = (&command.text, command.line);
        assert_eq!(
            status.code(),
            Some(command.exit),
            "line {line}: {text}\n{said}\n(what cannot run in a test says why: <!-- book: not run: WHY -->)"
        );
        let expected: Vec<String> = command
            .expected
            .iter()
            .map(|line| self.replaced(line))
            .collect();
        let missing = missing(&said, &expected);
        assert!(
            missing.is_empty(),
            "line {line}: {text}\nprinted\n{said}\nand not {missing:#?}"
        );
        self.remember_invite(&said);
    }

    pub(crate) fn remember_invite(&mut self, said: &str) {
        let invite = said
            .split_whitespace()
            .find(|word| word.starts_with("ctcp://"));
        if let Some(invite) = invite {
            invite.clone_into(&mut self.invite);
        }
    }
}

impl Running {
    pub(crate) fn said(&self) -> String {
        self.output.lock().expect("no panic").clone()
    }

    /// Transfers do, when everything has arrived.
    fn ends_by_itself(&self) -> bool {
        let text = &self.command.text;
        let is_transfer = ["ctcp receive", "ctcp send"]
            .iter()
            .any(|words| text.contains(words));
        is_transfer && !text.contains("--forever")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by itself; then the group is empty.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What it left in the background ends, too.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Both paths lead to the server, the first one rather.
fn route_to_server(network: &Network) {
    let left = network.namespace("left").expect("it has one");
    let devices = network.paths().iter().map(|path| &path.left.device);
    for (at, device) in devices.enumerate() {
        let line = format!("route add {SERVER} dev {device} metric {}", 100 * (at + 1));
        let run = || Program::new("ip").args(line.split(' ')).output();
        match left.run(run).expect("a thread") {
            Ok(output) => common::assert_ok(&output),
            // Enough for all pages but that about several paths, which needs ip.
            Err(_) if at == 0 => {
                let route = Route::new(IpAddr::V4(SERVER), 32, device);
                left.set_route(&route).expect("a route");
            }
            Err(_) => {}
        }
    }
}

fn collect(from: impl Read, sink: &Mutex<String>) {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(len) if len > 0) {
        let text = String::from_utf8_lossy(&line).into_owned();
        sink.lock().expect("no panic").push_str(&text);
        line.clear();
    }
}

/// Serves a front page, and under every other name a file.
fn serve_web() {
    let listener = TcpListener::bind((ELSEWHERE, 80)).expect("the port is free");
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(&tcp);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if !matches!(reader.read_line(&mut head), Ok(len) if len > 0) {
                        return;
                    }
                }
                let path = head.split_whitespace().nth(1).unwrap_or("/");
                let body = match path {
                    "/" => b"<title>Example Domain</title>\n".to_vec(),
                    _ => common::body(1, FILE_LEN),
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // Who goes away in the middle is judged by the page's command.
                let _ = (&tcp).write_all(head.as_bytes());
                let _ = (&tcp).write_all(&body);
            });
        }
    });
}

/// Answers every question about a name with the address of `example.org`.
fn serve_names() {
    let socket = UdpSocket::bind((ELSEWHERE, 53)).expect("the port is free");
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut query) {
            // Header:12 | labels, the empty one last | type:2 | class:2
            let mut end = 12;
            while end < len && query[end] != 0 {
                end += usize::from(query[end]) + 1;
            }
            let Some(question) = query[..len].get(12..end + 5) else {
                continue;
            };
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend(question);
            // The name as above, an address of the Internet, for a minute.
            answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(ELSEWHERE.octets());
            let _ = socket.send_to(&answer, from);
        }
    });
}

/// Runs a page; what was skipped is said.
pub(crate) fn run(path: &Path, steps: &[Step], is_root: bool) {
    let mut world = World::new(is_root);
    let mut skipped = BTreeMap::new();
    let mut note = |world: World| {
        for text in world.end() {
            skipped.insert(text, ());
        }
    };
    for step in steps {
        if *step == Step::Fresh {
            note(std::mem::replace(&mut world, World::new(is_root)));
        } else {
            world.take(step);
        }
    }
    note(world);
    for text in skipped.keys() {
        eprintln!("SKIPPED in {}: {text}", path.display());
    }
}

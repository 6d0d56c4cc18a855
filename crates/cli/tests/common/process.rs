//! The built `ctcp` as a child process.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

/// How long a start, or an end, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running `ctcp`; killed when dropped.
pub struct Ctcp {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Ctcp {
    /// The command, with no memory of earlier runs and no settings from the
    /// environment.
    pub fn command(args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctcp"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CTCP_") {
                command.env_remove(name);
            }
        }
        command
            .env_remove("RUST_LOG")
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(args: &[&str]) -> Output {
        Self::command(args).output().expect("ctcp runs")
    }

    /// Starts a service and waits until it is ready.
    pub fn start(args: &[&str]) -> Self {
        Self::start_command(&mut Self::command(args))
    }

    /// The same, of a command made elsewhere.
    pub fn start_command(command: &mut Command) -> Self {
        let service = Self::spawn(command);
        service.wait_for_stderr("READY\n");
        service
    }

    /// Starts it and waits for nothing.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ctcp starts");
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// What it has said on stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().expect("no panic").clone()
    }

    /// Waits until it has said `part`.
    pub fn wait_for_stderr(&self, part: &str) {
        let started = Instant::now();
        while !self.stderr().contains(part) {
            let said = self.stderr();
            assert!(started.elapsed() < PATIENCE, "no {part:?} in: {said}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The value of a result line `name  value  note`.
    pub fn result(&self, name: &str) -> String {
        let started = Instant::now();
        loop {
            let printed = self.stdout();
            let mut lines = printed.lines().map(str::split_whitespace);
            let value = lines.find_map(|mut words| match words.next() {
                Some(first) if first == name => words.next().map(str::to_owned),
                _ => None,
            });
            if let Some(value) = value {
                return value;
            }
            let said = self.stderr();
            assert!(started.elapsed() < PATIENCE, "no {name} in {printed}{said}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Lets it open descriptors below `limit` only; those it has stay. Returns the
    /// limit before.
    pub fn limit_descriptors(&self, limit: Option<u64>) -> Option<u64> {
        let pid = Some(Pid::from_child(&self.child));
        let own = getrlimit(Resource::Nofile);
        let wanted = Rlimit {
            current: limit,
            maximum: own.maximum,
        };
        let before = prlimit(pid, Resource::Nofile, wanted).expect("it is ours");
        before.current
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "still running: {}",
                self.stderr()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it by SIGTERM and checks that it ended well.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
    }

    /// The most memory that it has held, in bytes.
    pub fn memory_max(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kilobytes
            .and_then(|text| text.parse::<u64>().ok())
            .expect("a size")
            * 1024
    }
}

impl Drop for Ctcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("stdout:\n{}stderr:\n{}", self.stdout(), self.stderr());
        }
    }
}

fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let all = Arc::new(Mutex::new(String::new()));
    let sink = all.clone();
    thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut line = String::new();
        while matches!(reader.read_line(&mut line), Ok(len) if len > 0) {
            sink.lock().expect("no panic").push_str(&line);
            line.clear();
        }
    });
    all
}

/// A key made by `ctcp keygen`.
pub struct Key {
    pub public: String,
    file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Key {
    pub fn generate() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        let path = file.to_str().expect("UTF-8");
        let output = Ctcp::run(&["keygen", "--out", path]);
        super::assert_ok(&output);
        let public = String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned();
        Self {
            public,
            file,
            _folder: folder,
        }
    }

    /// The file of the private key.
    pub fn path(&self) -> &str {
        self.file.to_str().expect("UTF-8")
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

//! `ctcp emulate netns`: two namespaces joined by emulated paths, and programs in
//! them.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use ctcp_emu::{AttachmentKind, Namespace, Network, NetworkConfig, Process, TcpTuning, preflight};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::control::{self, Paths};
use super::counters::{network_json, network_table};
use crate::failure::Failure;
use crate::link_options::{Defaults, LinkOptions};
use crate::output::{ReadyArgs, notice, print_line};
use crate::signals::StopSignals;
use crate::values;

/// How long COMMAND may take to end by itself after a signal that it may have got
/// too, and after one that we send.
const GRACE: Duration = Duration::from_millis(500);

/// How namespaces are attached to the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Attach {
    /// TUN devices, or veth where /dev/net/tun cannot be opened
    Auto,
    /// TUN devices
    Tun,
    /// veth pairs and packet sockets
    Veth,
}

/// Arguments of `ctcp emulate netns`.
#[derive(Debug, Clone, Args)]
pub(crate) struct NetnsArgs {
    #[command(flatten)]
    link: LinkOptions,
    /// A path of its own, such as rate=10mbit,rtt=40ms,up-loss=1%; what it leaves
    /// out is as the other options say. May be repeated; none: one path
    #[arg(long, value_name = "NAME=VALUE,…")]
    path: Vec<String>,
    /// Run this in the right namespace, by `sh -c`, for as long as COMMAND runs
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Congestion control of the kernel's TCP in both namespaces, such as bbr
    #[arg(long, value_name = "NAME", env = "CTCP_TCP")]
    tcp: Option<String>,
    /// Compare what programs see with what was asked for, then end
    #[arg(long, conflicts_with_all = ["server", "command"])]
    check: bool,
    /// How namespaces are attached
    #[arg(long, value_enum, default_value = "auto", env = "CTCP_ATTACH")]
    attach: Attach,
    /// Names the random choices: the same seed and traffic lose the same packets
    #[arg(long, value_name = "N", default_value_t = 0, env = "CTCP_SEED")]
    seed: u64,
    /// Name of the control socket, for `ctcp emulate set` [default: ctcp-PID]
    #[arg(long, value_name = "NAME", env = "CTCP_CONTROL")]
    control: Option<String>,
    /// Print counters so often, too
    #[arg(long, value_name = "TIME", value_parser = pause)]
    interval: Option<Duration>,
    /// Write counters to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    ready: ReadyArgs,
    /// Run this in the left namespace; none: wait for a signal
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Reads a time above zero.
fn pause(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err(format!("`{text}` is no time between two lines: write 1s")),
        time => Ok(time),
    }
}

/// Where results go: stdout belongs to COMMAND if there is one.
struct Sink {
    file: Option<File>,
    is_json: bool,
    is_stderr: bool,
}

impl Sink {
    fn line(&self, text: &str) {
        match self.is_stderr {
            true => eprintln!("{text}"),
            false => print_line(text),
        }
    }

    /// A name and its value, as `output::result` has them.
    fn result(&self, name: &str, value: &str, note: &str) {
        match self.is_json {
            true => self.line(&json!({ name: value }).to_string()),
            false => self.line(format!("{name:<10}{value}    {note}").trim_end()),
        }
    }

    fn counters(&mut self, network: &Network) -> Result<(), Failure> {
        if !self.is_json && self.file.is_none() {
            let lines = network_table(network).map_err(Failure::failed)?;
            lines.iter().for_each(|line| self.line(line));
            return Ok(());
        }
        let line = network_json(network).map_err(Failure::failed)?;
        match &mut self.file {
            Some(file) => writeln!(file, "{line}")
                .map_err(|error| Failure::failed(format!("cannot write counters: {error}")))?,
            None => self.line(&line.to_string()),
        }
        Ok(())
    }
}

/// Runs until COMMAND or a signal ends it.
pub(super) async fn run(args: NetnsArgs) -> Result<(), Failure> {
    // From here on a signal ends us in order.
    let mut stop = StopSignals::new()?;
    let mut events = Events::new(&args)?;
    let (config, paths) = configure(&args)?;
    let mut sink = Sink {
        file: args.counters.as_ref().map(create).transpose()?,
        is_json: args.json,
        is_stderr: !args.command.is_empty(),
    };
    let name = match &args.control {
        Some(name) => name.clone(),
        None => format!("ctcp-{}", std::process::id()),
    };
    let listener = control::listen(&name)?;
    let network = Network::start(config).map_err(Failure::usage)?;
    if let Some(congestion) = args.tcp.clone() {
        let tuning = TcpTuning {
            congestion: Some(congestion),
            ..TcpTuning::default()
        };
        for index in 0..network.paths().len() {
            network.tune_tcp(index, &tuning).map_err(Failure::usage)?;
        }
    }
    if args.check {
        // It blocks, and a signal has to end it all the same.
        let check = tokio::task::spawn_blocking(move || super::check::run(&network, args.json));
        return tokio::select! {
            result = check => result.unwrap_or_else(|error| Err(Failure::failed(error))),
            () = stop.next() => Err(Failure::failed("interrupted")),
        };
    }
    introduce(&network, &name, &args, &sink)?;
    let server = start_server(&network, &args)?;
    let command = start_command(&network, &args)?;
    let ready = args.ready.announce()?;
    let mut session = Session {
        network: &network,
        paths,
        listener,
        sink: &mut sink,
        server,
        command,
    };
    let status = session.run(&mut stop, &mut events).await;
    session.sink.counters(&network)?;
    drop(session);
    drop(ready);
    drop(network);
    match status? {
        Some(status) if !status.success() => std::process::exit(exit_code(status)),
        _ => Ok(()),
    }
}

/// As shells have it: the code, or 128 and the signal.
fn exit_code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(1)
}

fn create(path: &PathBuf) -> Result<File, Failure> {
    File::create(path).map_err(|error| {
        Failure::usage(format!(
            "cannot write counters to {}: {error}",
            path.display()
        ))
    })
}

/// The network that the options ask for; all of it is checked before anything is
/// set up.
fn configure(args: &NetnsArgs) -> Result<(NetworkConfig, Paths), Failure> {
    let specs = match args.path.is_empty() {
        true => vec![args.link.path(Defaults::default())],
        false => {
            let paths = args.path.iter().enumerate().map(|(index, spec)| {
                let options = args.link.with(spec);
                options
                    .map(|options| options.path(Defaults::default()))
                    .map_err(|error| Failure::usage(format!("--path {index}: {error}")))
            });
            paths.collect::<Result<Vec<_>, _>>()?
        }
    };
    let mut config = NetworkConfig {
        seed: args.seed,
        attachment: match args.attach {
            Attach::Auto => Some(preflight::network().map_err(Failure::usage)?),
            Attach::Tun => Some(AttachmentKind::Tun),
            Attach::Veth => Some(AttachmentKind::Veth),
        },
        ..NetworkConfig::default()
    };
    for (index, spec) in specs.iter().enumerate() {
        let links = spec.links();
        let (up, down) = links.map_err(|error| Failure::usage(format!("path {index}, {error}")))?;
        config.add_path(up, down);
    }
    if let Some(name) = &args.tcp {
        preflight::congestion_control(name).map_err(Failure::usage)?;
    }
    Ok((config, Paths::new(specs)))
}

fn namespace<'a>(network: &'a Network, name: &str) -> &'a Namespace {
    network
        .namespace(name)
        .expect("every path leads from left to right")
}

/// Says what there is, and how to run programs in it.
fn introduce(
    network: &Network,
    control: &str,
    args: &NetnsArgs,
    sink: &Sink,
) -> Result<(), Failure> {
    if sink.is_stderr && !sink.is_json {
        // Whoever runs a program wants to see that.
        return Ok(());
    }
    let way = network.attachment().name();
    for (index, path) in network.paths().iter().enumerate() {
        let addresses = format!("{} {}", path.left.address, path.right.address);
        let note = format!("left and right, by {way}, seed {}", args.seed);
        sink.result(&format!("path{index}"), &addresses, &note);
    }
    for name in ["left", "right"] {
        let holder = namespace(network, name).holder_pid();
        let pid = holder.map_err(Failure::failed)?;
        let enter = format!("nsenter --target {pid} --user --preserve-credentials --net");
        sink.result(name, &enter, "and a command");
    }
    sink.result("control", control, "for ctcp emulate set --control");
    Ok(())
}

/// Lets a program find the addresses.
fn tell_addresses(command: &mut Command, network: &Network) {
    for (index, path) in network.paths().iter().enumerate() {
        for (name, end) in [("LEFT", &path.left), ("RIGHT", &path.right)] {
            let address = end.address.to_string();
            if index == 0 {
                command.env(format!("EMULATE_{name}"), &address);
            }
            command.env(format!("EMULATE_{name}_{index}"), address);
        }
    }
}

fn start_server(network: &Network, args: &NetnsArgs) -> Result<Option<Process>, Failure> {
    let Some(line) = &args.server else {
        return Ok(None);
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).stdin(Stdio::null());
    if !args.command.is_empty() {
        // Stdout is that of COMMAND alone.
        command.stdout(std::io::stderr());
    }
    tell_addresses(&mut command, network);
    let server = namespace(network, "right").spawn(command);
    server.map(Some).map_err(Failure::failed)
}

fn start_command(network: &Network, args: &NetnsArgs) -> Result<Option<Process>, Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(rest);
    tell_addresses(&mut command, network);
    let command = namespace(network, "left").spawn(command);
    command.map(Some).map_err(Failure::usage)
}

/// What happens from outside.
struct Events {
    show: Signal,
    child: Signal,
    ticks: Option<Interval>,
    /// Lines of stdin, unless COMMAND reads it.
    stdin: Option<Lines<BufReader<Stdin>>>,
}

impl Events {
    fn new(args: &NetnsArgs) -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
        };
        let ticks = args.interval.map(|pause| {
            let mut ticks = interval(pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks.reset();
            ticks
        });
        let reads_stdin = args.command.is_empty() && !args.check;
        Ok(Self {
            show: listen(SignalKind::user_defined1())?,
            child: listen(SignalKind::child())?,
            ticks,
            stdin: reads_stdin.then(|| BufReader::new(tokio::io::stdin()).lines()),
        })
    }
}

/// A network at work.
struct Session<'a> {
    network: &'a Network,
    paths: Paths,
    listener: UnixListener,
    sink: &'a mut Sink,
    server: Option<Process>,
    command: Option<Process>,
}

impl Session<'_> {
    /// Until COMMAND ends or a signal comes; the status of COMMAND.
    async fn run(
        &mut self,
        stop: &mut StopSignals,
        events: &mut Events,
    ) -> Result<Option<ExitStatus>, Failure> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            tokio::select! {
                () = stop.next() => return self.end(stop, &mut events.child).await,
                _ = events.child.recv() => {}
                _ = events.show.recv() => self.sink.counters(self.network)?,
                _ = tick(&mut events.ticks) => self.sink.counters(self.network)?,
                accepted = self.listener.accept() => {
                    if let Ok((mut stream, _)) = accepted
                        && let Some(line) = control::hear(&mut stream).await
                    {
                        let result = self.paths.obey(line.trim(), self.network);
                        control::answer(stream, result).await;
                    }
                }
                line = next_line(&mut events.stdin) => match line {
                    Some(line) => self.obey(line.trim()),
                    None => events.stdin = None,
                },
            }
        }
    }

    fn obey(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        match self.paths.obey(line, self.network) {
            Ok(answer) => self.sink.line(&answer),
            Err(error) => notice(format_args!("`{line}`: {error}")),
        }
    }

    /// The status of COMMAND if it has ended.
    fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        if let Some(server) = &mut self.server
            && let Ok(Some(status)) = server.try_wait()
        {
            notice(format_args!("the server ended: {status}"));
            self.server = None;
        }
        match &mut self.command {
            Some(command) => command.try_wait().map_err(Failure::failed),
            None => Ok(None),
        }
    }

    /// Ends COMMAND: it may have got the signal, too, and end by itself; then it
    /// is told; then it is killed. A second signal kills it at once.
    async fn end(
        &mut self,
        stop: &mut StopSignals,
        child: &mut Signal,
    ) -> Result<Option<ExitStatus>, Failure> {
        for is_told in [false, true] {
            let Some(command) = &mut self.command else {
                return Ok(None);
            };
            if is_told && let Ok(pid) = i32::try_from(command.id()) {
                let pid = rustix::process::Pid::from_raw(pid);
                let signal = rustix::process::Signal::TERM;
                let _ = pid.map(|pid| rustix::process::kill_process(pid, signal));
            }
            let give_up = tokio::time::sleep(GRACE);
            tokio::pin!(give_up);
            loop {
                if let Some(status) = self.ended()? {
                    return Ok(Some(status));
                }
                tokio::select! {
                    () = &mut give_up => break,
                    () = stop.next() => return self.kill(),
                    _ = child.recv() => {}
                }
            }
        }
        self.kill()
    }

    fn kill(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let Some(command) = &mut self.command else {
            return Ok(None);
        };
        let _ = command.kill();
        command.wait().map(Some).map_err(Failure::failed)
    }
}

async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

/// The next line; none when stdin has ended, which is noticed once.
async fn next_line(stdin: &mut Option<Lines<BufReader<Stdin>>>) -> Option<String> {
    match stdin {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

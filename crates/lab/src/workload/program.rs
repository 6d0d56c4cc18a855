//! Other people's programs: curl, wget, rsync, iperf3, and proxychains around
//! those that know no SOCKS.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::point::{Flow, Program, System, Workload};
use crate::venue::RunError;
use crate::workload::dial::Carrier;
use crate::workload::fetch::Fetched;
use crate::workload::meter::Meter;
use crate::workload::{Deadline, Stage};

/// Ports at the flow's server address.
pub(crate) const RSYNC_PORT: u16 = 8730;
pub(crate) const IPERF_PORT: u16 = 5201;

/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Programs that a flow needs.
pub(crate) fn programs_of(flow: &Flow) -> Vec<&'static str> {
    let is_proxied = matches!(flow.system, System::Ctcp { .. } | System::External { .. });
    let program = match flow.workload {
        Workload::Bulk { .. } => Program::Own,
        Workload::Fetch { program, .. } => program,
        // The film is made by ffmpeg, whoever plays it.
        Workload::Video { .. } => Program::Ffmpeg,
    };
    let mut needed = match program {
        Program::Own => vec![],
        Program::Curl => vec!["curl"],
        Program::Wget => vec!["wget"],
        Program::Rsync => vec!["rsync"],
        Program::Iperf3 => vec!["iperf3"],
        Program::Ffmpeg => vec!["ffmpeg"],
        Program::Proxychains => vec!["curl", "proxychains4"],
    };
    if is_proxied && matches!(program, Program::Wget | Program::Rsync | Program::Iperf3) {
        needed.push("proxychains4");
    }
    if matches!(flow.system, System::Mptcp { .. }) {
        needed.push("ip");
    }
    needed
}

/// Debian's package of a program.
pub(crate) fn package_of(program: &str) -> &str {
    match program {
        "ip" => "iproute2",
        other => other,
    }
}

/// Where a program is, as PATH and the system's own folders have it.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&paths)
        .chain(system)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Fetches one object of the flow's content.
pub(crate) fn fetch(
    stage: &Stage<'_>,
    program: Program,
    bytes: u64,
    meter: &Meter,
) -> Result<Fetched, RunError> {
    match program {
        Program::Curl | Program::Proxychains | Program::Wget => {
            web_client(stage, program, bytes, meter)
        }
        Program::Rsync => rsync(stage, bytes, meter),
        Program::Iperf3 => iperf3(stage, bytes, meter),
        Program::Own | Program::Ffmpeg => Err(RunError::Failed(
            "objects are fetched by own, curl, wget, rsync, proxychains or iperf3".into(),
        )),
    }
}

/// A command that reaches the server as the flow's carrier does. Programs that
/// know no SOCKS are run under proxychains.
fn command(stage: &Stage<'_>, program: &str) -> Result<Command, RunError> {
    let Carrier::Socks(proxy) = stage.carrier() else {
        return Ok(plain(program));
    };
    let settings = stage.folder.join("proxychains.conf");
    write_proxychains(&settings, proxy)
        .map_err(|error| RunError::failed(settings.display(), error))?;
    let mut command = plain("proxychains4");
    command.arg("-q").arg("-f").arg(settings).arg(program);
    Ok(command)
}

fn plain(program: &str) -> Command {
    let found = find_program(program);
    Command::new(
        found
            .as_deref()
            .map_or(OsStr::new(program), Path::as_os_str),
    )
}

fn write_proxychains(path: &Path, proxy: SocketAddr) -> std::io::Result<()> {
    let (ip, port) = (proxy.ip(), proxy.port());
    // Its own time limits are shorter than a lossy path may need.
    let text = format!(
        "strict_chain\ntcp_read_time_out 300000\ntcp_connect_time_out 300000\n\
         [ProxyList]\nsocks5 {ip} {port}\n"
    );
    fs::write(path, text)
}

fn web_client(
    stage: &Stage<'_>,
    program: Program,
    bytes: u64,
    meter: &Meter,
) -> Result<Fetched, RunError> {
    let url = super::web::url(stage.web(), &format!("bytes/{bytes}"));
    let mut command = match (program, stage.carrier()) {
        (Program::Wget, _) => {
            let mut command = command(stage, "wget")?;
            command.args(["--quiet", "--no-proxy", "--tries=1", "--timeout=0"]);
            command.args(["--output-document=-", &url]);
            command
        }
        (Program::Curl, Carrier::Socks(proxy)) => {
            let mut command = plain("curl");
            command.arg("--socks5").arg(proxy.to_string());
            command
        }
        _ => command(stage, "curl")?,
    };
    let is_curl = program != Program::Wget;
    if is_curl {
        command.args(["--silent", "--show-error", "--fail", "--noproxy"]);
        // An empty list: everything goes where the other options say.
        command.args(["", "--write-out", "%{stderr}took %{time_total}\n", &url]);
    }
    let at = AtomicU64::new(0);
    let mut is_right = true;
    let ran = run(&stage.deadline, stage, command, |got| {
        let offset = at.fetch_add(got.len() as u64, Ordering::Relaxed);
        is_right &= stage.content.matches(offset, got);
        meter.add(got.len());
    })?;
    let got = at.into_inner();
    let flow = &stage.flow.name;
    if !is_right || got > bytes {
        return Err(RunError::Failed(format!(
            "flow `{flow}` delivered wrong bytes"
        )));
    }
    match ran.end {
        End::Cut => Ok(Fetched::Cut),
        End::Success if got == bytes => {
            // curl's own clock leaves out how long the program took to start.
            let own = ran.said.lines().find_map(|line| line.strip_prefix("took "));
            let own = own.filter(|_| is_curl).and_then(|text| text.parse().ok());
            Ok(Fetched::Whole(own.map_or(ran.took, super::seconds)))
        }
        End::Success => Err(RunError::Failed(format!(
            "flow `{flow}` ended early, after {got} of {bytes} bytes"
        ))),
        End::Failure => Err(ran.failure(flow)),
    }
}

fn rsync(stage: &Stage<'_>, bytes: u64, meter: &Meter) -> Result<Fetched, RunError> {
    let into = stage.folder.join("fetched");
    let _ = fs::remove_file(&into);
    let server = SocketAddr::new(stage.web().ip(), RSYNC_PORT);
    let mut command = command(stage, "rsync")?;
    command.args(["--quiet", "--inplace"]);
    command
        .arg(format!("rsync://{server}/lab/object"))
        .arg(&into);
    let ran = run(&stage.deadline, stage, command, |_| {})?;
    let flow = &stage.flow.name;
    if matches!(ran.end, End::Failure) {
        return Err(ran.failure(flow));
    }
    // Written at once into its place, so what is there has come in order.
    let got = fs::read(&into).unwrap_or_default();
    if !stage.content.matches(0, &got) {
        return Err(RunError::Failed(format!(
            "flow `{flow}` delivered wrong bytes"
        )));
    }
    meter.add(got.len());
    match ran.end {
        End::Success if got.len() as u64 == bytes => Ok(Fetched::Whole(ran.took)),
        End::Success => Err(RunError::Failed(format!(
            "flow `{flow}` ended early, after {} of {bytes} bytes",
            got.len()
        ))),
        _ => Ok(Fetched::Cut),
    }
}

fn iperf3(stage: &Stage<'_>, bytes: u64, meter: &Meter) -> Result<Fetched, RunError> {
    let mut command = command(stage, "iperf3")?;
    command.args(["--json", "--reverse", "--client"]);
    command.arg(stage.web().ip().to_string());
    command.args(["--port", &IPERF_PORT.to_string()]);
    command.args(["--bytes", &bytes.to_string()]);
    let mut said = Vec::new();
    let ran = run(&stage.deadline, stage, command, |got| {
        said.extend_from_slice(got);
    })?;
    let flow = &stage.flow.name;
    match ran.end {
        End::Cut => return Ok(Fetched::Cut),
        End::Failure => return Err(ran.failure(flow)),
        End::Success => {}
    }
    let result: serde_json::Value = serde_json::from_slice(&said)
        .map_err(|error| RunError::failed(format!("flow `{flow}`: iperf3 says no JSON"), error))?;
    let received = &result["end"]["sum_received"];
    match (received["seconds"].as_f64(), received["bytes"].as_u64()) {
        (Some(took), Some(got)) => {
            meter.add(got as usize);
            Ok(Fetched::Whole(super::seconds(took)))
        }
        _ => Err(RunError::Failed(format!(
            "flow `{flow}`: iperf3 tells no result"
        ))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Success,
    Failure,
    Cut,
}

#[derive(Debug)]
struct Ran {
    end: End,
    /// From the start of the program to the end of what it has to say.
    took: Duration,
    said: String,
}

impl Ran {
    fn failure(&self, flow: &str) -> RunError {
        let last = self.said.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("it says nothing");
        RunError::Failed(format!("flow `{flow}`: the program failed: {last}"))
    }
}

/// Runs a program beside the client until it ends or the deadline kills it;
/// `take` gets what it writes.
fn run(
    deadline: &Deadline,
    stage: &Stage<'_>,
    mut command: Command,
    mut take: impl FnMut(&[u8]) + Send,
) -> Result<Ran, RunError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let client = stage.bed.client();
    let mut process = client
        .spawn(command)
        .map_err(|error| RunError::Failed(error.to_string()))?;
    let mut output = process.stdout.take().expect("it is piped");
    let mut errors = process.stderr.take().expect("it is piped");
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while let Ok(len @ 1..) = output.read(&mut buffer) {
                take(&buffer[..len]);
            }
            began.elapsed()
        });
        let listener = scope.spawn(move || {
            let mut said = Vec::new();
            let _ = errors.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let ended = loop {
            match process.try_wait() {
                Ok(Some(status)) if status.success() => break Ok(End::Success),
                Ok(Some(_)) => break Ok(End::Failure),
                Ok(None) => {}
                Err(error) => break Err(RunError::failed("cannot wait for a program", error)),
            }
            match deadline.is_over() {
                Ok(false) => thread::sleep(LOOK),
                Ok(true) => break Ok(End::Cut),
                Err(error) => break Err(error),
            }
        };
        if !matches!(ended, Ok(End::Success | End::Failure)) {
            // Closes the pipes that the two threads read.
            let _ = process.kill();
        }
        let took = reader.join().expect("the reader does not panic");
        let said = listener.join().expect("the reader does not panic");
        Ok(Ran {
            end: ended?,
            took,
            said,
        })
    })
}

//! What ran it: commit, versions, processor, and how idle it was.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::record::Provenance;
use crate::workload::find_program;

/// What runs points on this machine with this `ctcp` and these programs.
pub fn provenance<'a>(ctcp: &Path, programs: impl IntoIterator<Item = &'a str>) -> Provenance {
    let version = version_of(ctcp, "--version").unwrap_or_else(|| "unknown".into());
    let programs = programs.into_iter().filter_map(|program| {
        let path = find_program(program)?;
        let flag = match program {
            "ip" | "ffmpeg" => "-version",
            _ => "--version",
        };
        // proxychains has no flag for it and prints its usage.
        let said = (program != "proxychains4").then(|| version_of(&path, flag));
        Some(said.flatten().unwrap_or_else(|| program.to_owned()))
    });
    Provenance {
        commit: env!("CTCP_COMMIT").to_owned(),
        version,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        machine: machine(),
        programs: programs.collect(),
    }
}

fn version_of(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(flag)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().next()?.trim();
    // ffmpeg adds a copyright.
    let line = line.split(" Copyright").next().unwrap_or(line);
    (!line.is_empty()).then(|| line.to_owned())
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let count = thread::available_parallelism().map_or(1, |count| count.get());
    let cores = if count == 1 { "core" } else { "cores" };
    format!("{model}, {count} {cores}")
}

/// Processor time of the machine since it started: idle, and all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, waiting, interrupts, soft
    /// interrupts, stolen. What was stolen was not idle.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        Some(Self {
            idle: ticks.get(3)? + ticks.get(4)?,
            all: ticks.iter().sum(),
        })
    }
}

/// How idle the machine is over a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleMeter(Option<Ticks>);

impl IdleMeter {
    pub(crate) fn start() -> Self {
        Self(Ticks::read())
    }

    /// Share of the processors' time since the start that was idle; 1 where the
    /// system does not tell.
    pub(crate) fn share(&self) -> f64 {
        let (Some(from), Some(to)) = (self.0, Ticks::read()) else {
            return 1.0;
        };
        let all = to.all.saturating_sub(from.all);
        if all == 0 {
            return 1.0;
        }
        to.idle.saturating_sub(from.idle) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_idle_and_stolen_time_is_not() {
        let text = "cpu  100 0 50 800 20 5 5 20 0 0\ncpu0 1 2 3\n";
        let ticks = Ticks::parse(text).expect("well formed");
        assert_eq!((ticks.idle, ticks.all), (820, 1000));
        assert_eq!(Ticks::parse("intr 5"), None);
    }

    #[test]
    fn a_machine_says_what_it_is() {
        let provenance = provenance(Path::new("/none"), ["no-such-program"]);
        assert_eq!(provenance.version, "unknown");
        assert!(provenance.machine.contains("core"), "{provenance:?}");
        assert!(provenance.programs.is_empty());
        assert!(!provenance.commit.is_empty());
    }
}

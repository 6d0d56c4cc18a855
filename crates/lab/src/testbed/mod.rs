//! The testbed: real programs in network namespaces, joined by the emulator.
//!
//! Each point has namespaces of its own, so that points can run side by side and
//! none inherits anything from another. CTCP runs as users run it: the `ctcp`
//! program, its server beside the target, its client beside the application.

mod bed;
mod counters;
mod keys;
mod mptcp;
mod preflight;
mod servers;
mod service;
#[cfg(test)]
pub(crate) mod test_support;
mod transport;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use bed::Bed;
pub(crate) use counters::Received;
pub(crate) use transport::Transport;

use crate::point::{Flow, Point, System, Workload};
use crate::record::FlowOutcome;
use crate::venue::{Outcome, RunError, Stop, Unable, Venue};
use crate::workload::{Content, Deadline, DialError, Film, Stage, dial, programs_of, seconds};
use counters::Counters;
use keys::Keys;
use servers::Servers;
use transport::Kit;

/// How the names of folders for temporary files begin; the process follows.
const FOLDER: &str = "ctcp-lab-";

/// What is left to flows that are still being set up when the time limit counts
/// already from their start.
const SET_UP_MAX: Duration = Duration::from_secs(30);

/// Where the testbed finds things.
#[derive(Debug, Clone)]
pub struct TestbedConfig {
    /// The `ctcp` under test.
    pub ctcp: PathBuf,
    /// Folder for films, which are made once.
    pub films: PathBuf,
}

/// Runs points in namespaces.
///
/// The process must be allowed to create them: see
/// [`ctcp_emu::enter_user_namespace`].
#[derive(Debug)]
pub struct Testbed {
    config: TestbedConfig,
    /// Keys and the programs' files; removed at the end.
    folder: tempfile::TempDir,
    keys: Mutex<Option<Keys>>,
    films: Mutex<Vec<(f64, f64, Film)>>,
}

impl Testbed {
    /// A testbed; nothing is set up yet.
    ///
    /// # Errors
    /// [`Unable`] without a place for temporary files.
    pub fn new(config: TestbedConfig) -> Result<Self, Unable> {
        sweep(&std::env::temp_dir());
        let folder = tempfile::Builder::new()
            .prefix(&format!("{FOLDER}{}-", std::process::id()))
            .tempdir()
            .map_err(|error| {
                Unable(format!(
                    "no folder for temporary files: {error}; see TMPDIR"
                ))
            })?;
        Ok(Self {
            config,
            folder,
            keys: Mutex::default(),
            films: Mutex::default(),
        })
    }

    fn keys(&self, point: &Point) -> Result<Option<Keys>, RunError> {
        let is_ctcp = |flow: &Flow| matches!(flow.system, System::Ctcp { .. });
        if !point.flows.iter().any(is_ctcp) {
            return Ok(None);
        }
        let mut keys = self.keys.lock().expect("no holder panics");
        if keys.is_none() {
            let made = Keys::generate(&self.config.ctcp, self.folder.path());
            *keys = Some(made.map_err(RunError::Failed)?);
        }
        Ok(keys.clone())
    }

    /// The film of a flow. While one is made, the others wait.
    fn film(&self, flow: &Flow) -> Result<Option<Film>, RunError> {
        let Workload::Video {
            duration_s,
            rate_mbit,
            ..
        } = flow.workload
        else {
            return Ok(None);
        };
        let mut films = self.films.lock().expect("no holder panics");
        let known = films
            .iter()
            .find(|(duration, rate, _)| (*duration, *rate) == (duration_s, rate_mbit));
        if let Some((_, _, film)) = known {
            return Ok(Some(film.clone()));
        }
        let film = Film::load_or_make(&self.config.films, duration_s, rate_mbit)?;
        films.push((duration_s, rate_mbit, film.clone()));
        Ok(Some(film))
    }

    fn run_flow(
        &self,
        bed: &Arc<Bed>,
        point: &Point,
        index: usize,
        keys: Option<&Keys>,
        began: Instant,
        stop: &Stop,
    ) -> Result<FlowOutcome, RunError> {
        let flow = &point.flows[index];
        let film = self.film(flow)?;
        let folder = tempfile::Builder::new()
            .prefix(&format!("flow{index}-"))
            .tempdir_in(self.folder.path())
            .map_err(|error| RunError::failed("no folder for a flow", error))?;
        let content = Arc::new(Content::new(point.seed.wrapping_add(index as u64)));
        let setting_up = Deadline::after(SET_UP_MAX, stop);
        let servers = Servers::start(
            bed,
            flow,
            index,
            &content,
            film.as_ref(),
            folder.path(),
            &setting_up,
        )?;
        let kit = Kit {
            ctcp: &self.config.ctcp,
            keys,
            control: Counters::in_folder(folder.path().join("control")),
        };
        let transport = Transport::start(bed, &kit, flow, index, &setting_up)?;
        let is_cold = matches!(flow.workload, Workload::Fetch { cold: true, .. });
        let mut stage = Stage {
            bed,
            flow,
            index,
            transport,
            content,
            film: film.as_ref(),
            folder: folder.path(),
            deadline: setting_up,
        };
        if stage.transport.is_tunnel() && !is_cold {
            open_tunnel(&stage)?;
        }
        let start = began + seconds(flow.start_s);
        Deadline::after(seconds(flow.start_s), stop).sleep_until(start)?;
        stage.deadline = Deadline::after(seconds(point.time_limit_s), stop);
        let outcome = crate::workload::run(&mut stage);
        drop(stage);
        drop(servers);
        outcome
    }
}

/// Removes what runs left that were killed: folders named after processes that
/// are no more.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER)?.split_once('-')?.0.parse().ok());
        if pid.is_some_and(|pid: u32| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Somebody else's folder stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes sure that the tunnel is there before the time counts: a connection to
/// the server, closed at once.
fn open_tunnel(stage: &Stage<'_>) -> Result<(), RunError> {
    loop {
        match dial(
            stage.bed.client(),
            stage.carrier(),
            stage.web(),
            &stage.deadline,
        ) {
            Ok(_) => return Ok(()),
            // The far side may not have been reached yet.
            Err(DialError::Broken(error)) => {
                let again = Instant::now() + Duration::from_millis(100);
                if !stage.deadline.sleep_until(again)? {
                    return Err(RunError::failed("no tunnel", error));
                }
            }
            Err(error) => return Err(error.into_run_error("no tunnel")),
        }
    }
}

impl Venue for Testbed {
    fn preflight(&self, points: &[&Point]) -> Result<(), Unable> {
        preflight::check(points, &self.config.ctcp)
    }

    fn load(&self, point: &Point) -> f64 {
        load(point)
    }

    /// The rest is for the emulators, which must not wait.
    fn capacity_share(&self) -> f64 {
        CAPACITY_SHARE
    }

    fn run(&self, point: &Point, stop: &Stop) -> Result<Outcome, RunError> {
        let keys = self.keys(point)?;
        for flow in &point.flows {
            self.film(flow)?;
        }
        let bed = Arc::new(Bed::put_up(point)?);
        let began = bed.began();
        // A flow that fails ends the others: there is no outcome without it.
        let stop = &stop.part();
        let outcomes = thread::scope(|scope| {
            let flows: Vec<_> = (0..point.flows.len())
                .map(|index| {
                    let (bed, keys) = (&bed, keys.as_ref());
                    scope.spawn(move || {
                        let outcome = self.run_flow(bed, point, index, keys, began, stop);
                        if outcome.is_err() {
                            stop.set();
                        }
                        outcome
                    })
                })
                .collect();
            let joined = flows.into_iter().map(|flow| flow.join());
            joined
                .map(|flow| flow.expect("flows do not panic"))
                .collect::<Vec<_>>()
        });
        let mut flows = all_or_cause(outcomes)?;
        if flows.len() > 1 {
            // Not to be told apart on a common path.
            flows.iter_mut().for_each(|flow| flow.wire_bytes = None);
        }
        let (paths, timing) = bed.outcome()?;
        Ok(Outcome {
            flows,
            paths,
            timing: Some(timing),
        })
    }
}

/// All outcomes, or the first failure that is not the end of a flow because
/// another one failed.
fn all_or_cause(
    outcomes: Vec<Result<FlowOutcome, RunError>>,
) -> Result<Vec<FlowOutcome>, RunError> {
    let is_cause = |one: &Result<FlowOutcome, RunError>| matches!(one, Err(RunError::Failed(_)));
    match outcomes.iter().position(is_cause) {
        Some(place) => outcomes.into_iter().skip(place).take(1).collect(),
        None => outcomes.into_iter().collect(),
    }
}

/// Share of one core that a point takes while it runs.
pub fn load(point: &Point) -> f64 {
    let rate_mbit: f64 = point.paths.iter().map(|path| path.rate_mbit).sum();
    CORES_PER_POINT + rate_mbit * CORES_PER_MBIT
}

/// The programs of others that these points need, by name.
pub fn programs(points: &[Point]) -> BTreeSet<&'static str> {
    let flows = points.iter().flat_map(|point| &point.flows);
    flows.flat_map(programs_of).collect()
}

/// Share of the processors that points may take together.
pub const CAPACITY_SHARE: f64 = 0.5;

/// Share of a core that a point takes at any rate: its threads, timers and programs.
/// Thirty points of 5 Mbit/s at once, which their rate alone would allow, let threads
/// wait for 10 ms on a 2-core machine; nine for 0.3 ms.
const CORES_PER_POINT: f64 = 0.06;

/// Share of a core that a Mbit/s takes on top, emulator and both ends together: 0.13
/// of a core for 25 Mbit/s, the mean over Reno, CUBIC, BBR and CTCP, eight at a time
/// on a 2-core machine (32 points of 35 s took 150 s of processor time).
const CORES_PER_MBIT: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_names_the_flow_that_failed_and_not_those_that_ended_with_it() {
        let failed = RunError::Failed("no way".into());
        let mixed = vec![
            Ok(FlowOutcome::default()),
            Err(RunError::Interrupted),
            Err(failed.clone()),
        ];
        assert_eq!(all_or_cause(mixed), Err(failed));
        let stopped = vec![Err(RunError::Interrupted), Ok(FlowOutcome::default())];
        assert_eq!(all_or_cause(stopped), Err(RunError::Interrupted));
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let temporary = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            let path = temporary.path().join(name);
            std::fs::create_dir(&path).expect("new");
            path
        };
        // No process has the greatest number.
        let dead = make("ctcp-lab-4294967295-aB3");
        let kept = [
            make(&format!("ctcp-lab-{}-aB3", std::process::id())),
            make("ctcp-lab-aB3"),
            make("other-4294967295-x"),
        ];
        sweep(temporary.path());
        assert!(!dead.exists());
        assert!(kept.iter().all(|path| path.exists()));
    }
}

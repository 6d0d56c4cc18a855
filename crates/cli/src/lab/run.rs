//! `ctcp lab run`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use ctcp_lab::point::Venue as Place;
use ctcp_lab::run::{Filter, Plan, RunOptions, Summary, Venues};
use ctcp_lab::simulator::Simulator;
use ctcp_lab::testbed::{Testbed, TestbedConfig, programs};
use ctcp_lab::venue::Stop;
use ctcp_lab::{Point, Recipe, Scale, recipes};

use super::external::External;
use super::list::rough;
use super::progress::Progress;
use crate::failure::Failure;
use crate::output::notice;
use crate::signals::StopSignals;

/// Arguments of `ctcp lab run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Experiments of `ctcp lab list`, `all`, or files with recipes (NAME.toml)
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// A look at it: few places, short runs, once [default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// What is kept as a result: all places, with repetitions
    #[arg(long)]
    full: bool,
    /// Names every random choice
    #[arg(long, value_name = "N", default_value_t = 1, env = "CTCP_SEED")]
    seed: u64,
    /// Points that run at the same time [default: as many as the processors take]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Where results go, one file for each experiment
    #[arg(long, value_name = "DIR", default_value = super::RESULTS)]
    out: PathBuf,
    /// Only these points: SERIES, SERIES/AXIS=VALUE, /AXIS=VALUE[,AXIS=VALUE]; may be
    /// repeated
    #[arg(long, value_name = "SERIES/PLACE")]
    only: Vec<Filter>,
    /// Run again what has a result of this commit
    #[arg(long)]
    again: bool,
    /// One more series, by programs of your own: NAME=SERVER COMMAND ;; CLIENT COMMAND.
    /// {server} is the server's address, {port} the port where the client's side shall
    /// offer SOCKS5; may be repeated
    #[arg(long, value_name = "NAME=COMMANDS")]
    external: Vec<External>,
    /// The `ctcp` under test [default: this one]
    #[arg(long, value_name = "FILE", env = "CTCP_BINARY")]
    ctcp_binary: Option<PathBuf>,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
}

/// This program, even if its file is replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

impl RunArgs {
    fn scale(&self) -> Scale {
        match self.full {
            true => Scale::Full,
            false => Scale::Quick,
        }
    }

    /// Leaves recipes given by file beside the results, for the report.
    fn keep_recipes(&self) -> Result<(), Failure> {
        for file in self.ids.iter().filter(|id| id.ends_with(".toml")) {
            let recipe = read_recipe(file)?;
            let kept = self.out.join(format!("{}.toml", recipe.id));
            std::fs::create_dir_all(&self.out)
                .and_then(|()| std::fs::read(file))
                .and_then(|text| std::fs::write(&kept, text))
                .map_err(|error| {
                    Failure::usage(format!("cannot write {}: {error}", kept.display()))
                })?;
        }
        Ok(())
    }

    /// The points of the experiments, of the series added, and of those only what
    /// is asked for.
    fn points(&self) -> Result<Vec<Point>, Failure> {
        let mut chosen: Vec<Recipe> = Vec::new();
        for id in &self.ids {
            let named = match id.as_str() {
                "all" => recipes().to_vec(),
                file if file.ends_with(".toml") => vec![read_recipe(file)?],
                id => vec![Recipe::by_id(id).map_err(Failure::usage)?.clone()],
            };
            for recipe in named {
                if chosen.iter().all(|other| other.id != recipe.id) {
                    chosen.push(recipe);
                }
            }
        }
        let mut points = Vec::new();
        for recipe in &chosen {
            let its = recipe
                .points(self.scale(), self.seed)
                .map_err(Failure::usage)?;
            for external in &self.external {
                points.extend(external.points(&its));
            }
            points.extend(its);
        }
        let is_wanted = |point: &Point| {
            self.only.is_empty() || self.only.iter().any(|filter| filter.admits(point))
        };
        points.retain(is_wanted);
        if points.is_empty() {
            return Err(Failure::usage(
                "no point is left: --only names series and places as `ctcp lab run` prints them",
            ));
        }
        Ok(points)
    }
}

pub(super) fn read_recipe(file: &str) -> Result<Recipe, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read the recipe {file}: {error}")))?;
    Recipe::parse(file, &text).map_err(Failure::usage)
}

/// Runs what was asked for. Exits with 1 if a point failed or was left out by an
/// interruption.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let points = args.points()?;
    // Before any thread: the kernel gives user namespaces only to such.
    if points.iter().any(|point| point.venue == Place::Testbed) {
        ctcp_emu::enter_user_namespace().map_err(Failure::usage)?;
    }

    let ctcp = args.ctcp_binary.clone();
    let ctcp = ctcp.unwrap_or_else(|| OURSELVES.into());
    let testbed = Testbed::new(TestbedConfig {
        ctcp: ctcp.clone(),
        films: args.out.join("films"),
    })
    .map_err(Failure::usage)?;
    let venues = Venues {
        testbed: Some(&testbed),
        simulator: Some(&Simulator),
    };
    venues.preflight(&points).map_err(Failure::usage)?;

    let options = RunOptions {
        out: args.out.clone(),
        jobs: args.jobs.map(usize::from),
        again: args.again,
        provenance: ctcp_lab::run::provenance(&ctcp, programs(&points)),
    };
    args.keep_recipes()?;
    let plan = Plan::new(points, &options).map_err(Failure::usage)?;
    if plan.skipped > 0 {
        notice(format_args!(
            "{} points have a result of this commit ({}) in {}: skipped; --again runs them anew",
            plan.skipped,
            options.provenance.commit,
            args.out.display()
        ));
    }
    if plan.points.is_empty() {
        return Ok(());
    }
    let expected = plan.duration(options.jobs);
    notice(format_args!(
        "{} points, about {}, seed {}",
        plan.points.len(),
        rough(expected),
        args.seed
    ));
    let stop = Stop::default();
    watch_signals(stop.clone())?;
    let progress = Progress::new(&plan.points, expected, args.json);
    let is_over = AtomicBool::new(false);
    let summary = thread::scope(|scope| {
        scope.spawn(|| progress.draw(|| is_over.load(Ordering::Relaxed)));
        let summary = ctcp_lab::run::run(&plan, &venues, &options, &stop, &progress);
        is_over.store(true, Ordering::Relaxed);
        summary
    })
    .map_err(Failure::failed)?;
    conclude(&summary, args)
}

/// The first signal ends the run in good order, the second at once.
fn watch_signals(stop: Stop) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot listen to signals: {error}"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::new()?
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                notice("stopping; a second signal ends it at once");
                stop.set();
                signals.next().await;
                std::process::exit(1);
            });
        })
        .map_err(|error| failed(&error))?;
    Ok(())
}

fn conclude(summary: &Summary, args: &RunArgs) -> Result<(), Failure> {
    let Summary {
        done,
        failed,
        busy,
        censored,
        left,
    } = *summary;
    let out = args.out.display();
    notice(format_args!(
        "{done} points done, {failed} failed; in {out}"
    ));
    if censored > 0 {
        notice(format_args!("{censored} were cut at their time limit"));
    }
    if busy > 0 {
        notice(format_args!(
            "{busy} are marked: the machine was too busy for them to be trusted; \
             leave it idle, or give --jobs a smaller number"
        ));
    }
    if left > 0 {
        return Err(Failure::failed(format!(
            "interrupted: {left} points are left; the same command goes on with them"
        )));
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{failed} points failed; the same command tries them again"
        ))),
    }
}

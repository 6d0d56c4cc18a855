//! `ctcp sim`: scenarios in virtual time.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use ctcp_sim::file::{Batch, Overrides, load};
use ctcp_sim::output::{PointResult, TraceWriter, csv, json_lines, plot_svg, table};

use crate::failure::Failure;
use crate::output::{notice, print_line};

/// What to run and what to show.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples: examples/scenarios/ has a dozen with comments.\n\
                        \n  ctcp sim one-flow.toml --set network.dumbbell.down.loss=5%\
                        \n  ctcp sim flavours-and-loss.toml --repetitions 10 --csv results.csv\
                        \n  ctcp sim friendliness.toml --plot shares.svg --trace trace.qlog"
)]
pub(crate) struct SimArgs {
    /// Scenario in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Seed of the first repetition; the same seed gives the same results
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Runs of every point, with the seeds that follow
    #[arg(long, value_name = "N")]
    repetitions: Option<u32>,
    /// Set a key of the file, by its path; replaces a sweep of it
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Results as JSON lines, one a run, in place of the table
    #[arg(long)]
    json: bool,
    /// Write one line per run and flow
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw tokens, round trip, queue and goodput against time, of the first
    /// repetition of each point, as SVG; needs `sample_interval`
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write every event of the first run, in the manner of qlog
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Runs a scenario.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    let overrides = Overrides {
        seed: args.seed,
        repetitions: args.repetitions,
        set: args.set.clone(),
    };
    let batch = load(&args.file, &overrides).map_err(Failure::usage)?;
    if let Some(path) = &args.trace {
        trace(&batch, path)?;
    }
    let results = batch.run().map_err(Failure::usage)?;
    if let Some(path) = &args.csv {
        write(path, &csv(&results))?;
    }
    if let Some(path) = &args.plot {
        plot(&results, path)?;
    }
    if args.json {
        print_line(json_lines(&results).trim_end());
    } else {
        print_line(&head(&batch));
        print_line(table(&results).trim_end());
    }
    say_notes(&results);
    Ok(())
}

/// What was run: name, seeds, size.
fn head(batch: &Batch) -> String {
    let runs: usize = batch.points.iter().map(|point| point.runs.len()).sum();
    let seeds = batch.points.first().map_or_else(String::new, |point| {
        match (point.runs.first(), point.runs.last()) {
            (Some(first), Some(last)) if first.seed != last.seed => {
                format!("seeds {} to {}", first.seed, last.seed)
            }
            (Some(first), _) => format!("seed {}", first.seed),
            _ => String::new(),
        }
    });
    format!("{}: {runs} runs, {seeds}", batch.name)
}

/// Says what was cut, once for each text.
fn say_notes(results: &[PointResult]) {
    for point in results {
        for report in &point.reports {
            for note in report.notes() {
                let settings: Vec<String> =
                    point.settings.iter().map(ToString::to_string).collect();
                let place = match settings.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", settings.join(", ")),
                };
                notice(format_args!("seed {}{place}: {note}", report.seed));
            }
        }
    }
}

fn trace(batch: &Batch, path: &Path) -> Result<(), Failure> {
    let Some(scenario) = batch.points.first().and_then(|point| point.runs.first()) else {
        return Ok(());
    };
    let refuse = |error: std::io::Error| {
        Failure::usage(format!(
            "cannot write the trace {}: {error}",
            path.display()
        ))
    };
    let file = BufWriter::new(File::create(path).map_err(refuse)?);
    let writer = Arc::new(Mutex::new(TraceWriter::new(scenario, file)));
    let events = writer.clone();
    scenario
        .run_traced(move |event| {
            if let Ok(mut writer) = events.lock() {
                writer.write(event);
            }
        })
        .map_err(Failure::usage)?;
    let writer = Arc::into_inner(writer).and_then(|mutex| mutex.into_inner().ok());
    match writer {
        Some(writer) => writer.finish().map_err(refuse),
        None => Err(Failure::failed("the trace is still in use")),
    }
}

/// One picture per point; with several their number stands before the suffix.
fn plot(results: &[PointResult], path: &Path) -> Result<(), Failure> {
    for (index, point) in results.iter().enumerate() {
        let Some(report) = point.reports.first() else {
            continue;
        };
        let svg = plot_svg(report).map_err(Failure::usage)?;
        let target = match results.len() {
            1 => path.to_owned(),
            _ => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                path.with_file_name(format!("{stem}-{index}.svg"))
            }
        };
        write(&target, &svg)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

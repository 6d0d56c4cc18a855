//! `ctcp lab`: the papers' experiments, run beside the kernel's TCP.

mod external;
mod list;
mod progress;
mod report;
mod run;

use clap::Subcommand;

use crate::failure::Failure;

/// Folder of results unless told otherwise.
const RESULTS: &str = "lab-results";

/// What the laboratory does.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Lab {
    /// Show the experiments there are, and how long they take
    List(list::ListArgs),
    /// Run experiments; goes on where it was interrupted
    #[command(long_about = "Run experiments; goes on where it was interrupted.\n\n\
        Each point of an experiment runs in network namespaces of its own, joined by an \
        emulated path; no root is needed where user namespaces are allowed. Every outcome is \
        one JSON line in DIR/ID.jsonl, with seed, commit, versions, machine, and how well the \
        emulator kept time.")]
    Run(Box<run::RunArgs>),
    /// Write what the results say: one page, figures, tables, claims
    Report(report::ReportArgs),
}

/// Does it. No thread may have been started yet.
pub(crate) fn run(command: &Lab) -> Result<(), Failure> {
    match command {
        Lab::List(args) => list::run(args),
        Lab::Run(args) => run::run(args),
        Lab::Report(args) => report::run(args),
    }
}

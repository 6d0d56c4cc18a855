//! `ctcp lab report`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::{self, notice};

/// Arguments of `ctcp lab report`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Where the results are
    #[arg(long, value_name = "DIR", default_value = super::RESULTS)]
    results: PathBuf,
    /// Where the report goes [default: `report` in the folder of the results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
}

/// Writes the report.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let records = ctcp_lab::run::read_results(&args.results).map_err(Failure::usage)?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| args.results.join("report"));
    let summary = ctcp_lab::report::write(&records, &out).map_err(Failure::usage)?;
    for id in &summary.unknown_experiments {
        notice(format_args!(
            "`{id}` is no experiment of this version: left out"
        ));
    }
    let first = summary.files.first().unwrap_or(&out);
    let note = format!(
        "{} experiments, {} runs, {} failed",
        summary.experiments, summary.runs, summary.failed_runs
    );
    output::result(args.json, "report", first.display(), &note);
    let note = format!(
        "claims; {} not met, {} not measured",
        summary.not_met, summary.not_measured
    );
    output::result(args.json, "met", summary.met, &note);
    Ok(())
}

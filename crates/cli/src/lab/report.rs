//! `ctcp lab report`.

use std::path::{Path, PathBuf};

use clap::Args;
use ctcp_lab::{Recipe, recipes};

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

/// The embedded recipes, and those that `ctcp lab run FILE.toml` left beside its
/// results.
fn recipes_beside(results: &Path) -> Result<Vec<Recipe>, Failure> {
    let mut known = recipes().to_vec();
    let files = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = files
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    for file in files {
        let recipe = super::run::read_recipe(&file.display().to_string())?;
        known.retain(|other| other.id != recipe.id);
        known.push(recipe);
    }
    Ok(known)
}

/// Writes the report.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let records = ctcp_lab::run::read_results(&args.results).map_err(Failure::usage)?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| args.results.join("report"));
    let known = recipes_beside(&args.results)?;
    let summary = ctcp_lab::report::write_of(&known, &records, &out).map_err(Failure::usage)?;
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

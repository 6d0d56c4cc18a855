//! What people read: one page, figures, tables, and a summary for the
//! repository.

mod facts;
mod html;
mod markdown;
mod scores;
mod table;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::claim::{Outcome, Results, Verdict, judge};
use crate::plot::{collect, draw, figure_csv, stand_alone};
use crate::recipe::{Recipe, recipes};
use crate::record::Record;

pub use markdown::summary;
use scores::Scores;

/// Why a report could not be written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// There is nothing to report.
    #[error(
        "there are no results yet: run an experiment first, as in `ctcp lab run cc14-fig2a --quick`"
    )]
    NoRecords,
    /// A file could not be written.
    #[error("cannot write {}: {source}; choose another folder", path.display())]
    Write {
        /// Which file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSummary {
    /// The files, the one to open first.
    pub files: Vec<PathBuf>,
    /// Experiments that have results.
    pub experiments: usize,
    /// Runs that the report rests on.
    pub runs: usize,
    /// Runs that failed.
    pub failed_runs: usize,
    /// Claims that hold.
    pub met: usize,
    /// Claims that do not.
    pub not_met: usize,
    /// Claims that nothing here could tell.
    pub not_measured: usize,
    /// Experiments of records that no recipe describes; left out.
    pub unknown_experiments: Vec<String>,
}

/// One experiment with its results and what they say.
pub struct Section<'a> {
    /// What was meant.
    pub recipe: &'a Recipe,
    /// What came out.
    pub results: Results<'a>,
    /// One for each claim.
    pub verdicts: Vec<Verdict>,
}

impl Section<'_> {
    /// Series that nothing was run of.
    pub fn series_without_runs(&self) -> Vec<String> {
        let has_run = |name: &str| self.results.records().any(|r| r.point.series == name);
        let names = self.recipe.series.iter().map(|series| series.name.clone());
        names.filter(|name| !has_run(name)).collect()
    }

    /// Its figures that have something to show.
    fn figures(&self) -> Vec<html::Drawn<'_>> {
        let drawn = self.recipe.figures.iter().filter_map(|figure| {
            let data = collect(self.recipe, figure, &self.results);
            if data.panels.is_empty() {
                return None;
            }
            Some(html::Drawn {
                figure,
                file: format!("{}-{}", self.recipe.id, figure.id),
                chart: draw(self.recipe, figure, data),
            })
        });
        drawn.collect()
    }
}

/// Sorts records by experiment, in the order of the recipes, and judges them.
pub fn sections<'a>(recipes: &'a [Recipe], records: &'a [Record]) -> Vec<Section<'a>> {
    let mut by_id: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        by_id
            .entry(&record.point.experiment)
            .or_default()
            .push(record);
    }
    recipes
        .iter()
        .filter_map(|recipe| {
            let results = Results::new(by_id.remove(recipe.id.as_str())?);
            let verdicts = recipe.claims.iter().map(|c| judge(c, &results)).collect();
            Some(Section {
                recipe,
                results,
                verdicts,
            })
        })
        .collect()
}

/// Writes the report on the records of embedded recipes into `out_dir`, which is
/// made if it is not there: `index.html`, `summary.md`, and each figure as SVG
/// and CSV.
///
/// # Errors
/// [`ReportError::NoRecords`] without a record of a known experiment;
/// [`ReportError::Write`] if a file cannot be written.
pub fn write(records: &[Record], out_dir: &Path) -> Result<ReportSummary, ReportError> {
    write_of(recipes(), records, out_dir)
}

/// The same on the records of these recipes.
///
/// # Errors
/// As [`write()`].
pub fn write_of(
    recipes: &[Recipe],
    records: &[Record],
    out_dir: &Path,
) -> Result<ReportSummary, ReportError> {
    let sections = sections(recipes, records);
    if sections.is_empty() {
        return Err(ReportError::NoRecords);
    }
    let mut files = Files::new(out_dir)?;
    let drawn: Vec<_> = sections.iter().map(Section::figures).collect();
    files.write("index.html", &html::page(&sections, &drawn))?;
    files.write("summary.md", &summary(&sections))?;
    for one in drawn.iter().flatten() {
        let svg = stand_alone(&one.chart.svg);
        files.write(&format!("{}.svg", one.file), &svg)?;
        let csv = figure_csv(one.figure, &one.chart.data);
        files.write(&format!("{}.csv", one.file), &csv)?;
    }
    for section in &sections {
        if let Some(scores) = Scores::of(section) {
            let id = &section.recipe.id;
            files.write(&format!("{id}-heat.svg"), &stand_alone(&scores.heat_map()))?;
            files.write(&format!("{id}-heat.csv"), &scores.csv())?;
        }
    }
    Ok(counted(&sections, records, files.written))
}

fn counted(sections: &[Section<'_>], records: &[Record], files: Vec<PathBuf>) -> ReportSummary {
    let count = |outcome| {
        let verdicts = sections.iter().flat_map(|section| &section.verdicts);
        verdicts
            .filter(|verdict| verdict.outcome == outcome)
            .count()
    };
    let is_known = |id: &str| sections.iter().any(|section| section.recipe.id == id);
    let mut unknown: Vec<String> = records
        .iter()
        .map(|record| record.point.experiment.clone())
        .filter(|id| !is_known(id))
        .collect();
    unknown.sort();
    unknown.dedup();
    ReportSummary {
        files,
        experiments: sections.len(),
        runs: sections
            .iter()
            .map(|section| section.results.records().count())
            .sum(),
        failed_runs: sections
            .iter()
            .map(|section| section.results.failed().len())
            .sum(),
        met: count(Outcome::Met),
        not_met: count(Outcome::NotMet),
        not_measured: count(Outcome::NotMeasured),
        unknown_experiments: unknown,
    }
}

/// Writes files into one folder and remembers them.
struct Files<'a> {
    folder: &'a Path,
    written: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn new(folder: &'a Path) -> Result<Self, ReportError> {
        fs::create_dir_all(folder).map_err(|source| ReportError::Write {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            folder,
            written: Vec::new(),
        })
    }

    fn write(&mut self, name: &str, content: &str) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        fs::write(&path, content).map_err(|source| ReportError::Write {
            path: path.clone(),
            source,
        })?;
        self.written.push(path);
        Ok(())
    }
}

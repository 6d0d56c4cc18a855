//! Scenarios as TOML files, with sweeps and repetitions.
//!
//! Every error names the file, and the line and key where there is one, and says
//! what is allowed. Quantities are strings with a unit. A sweep sets any key of
//! the file, named by its path: `network.dumbbell.down.loss`, or
//! `flow.NAME.tcp.congestion` for the flow of that name.

mod flow;
mod network;
pub(crate) mod quantity;
mod sweep;

use std::path::Path;

use ctcp_units::Duration;
use serde::Deserialize;
use thiserror::Error;

use self::flow::FlowFile;
use self::network::NetworkFile;
use self::quantity::{PositiveSpan, Span};
pub use self::sweep::Setting;
use crate::scenario::{EVENTS_MAX, Scenario, ScenarioError, Transport};

/// Runs that one file may unfold into.
const RUNS_MAX: usize = 100_000;

/// Why a file is no scenario. Its text names the file and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The line, counted from 1, if one is to blame.
    pub line: Option<usize>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// The file as it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    name: Option<String>,
    #[serde(default = "one")]
    seed: u64,
    time_limit: PositiveSpan,
    warmup: Option<Span>,
    repetitions: Option<u32>,
    sample_interval: Option<PositiveSpan>,
    events_max: Option<u64>,
    stops_when_done: Option<bool>,
    network: NetworkFile,
    flow: Vec<FlowFile>,
    #[serde(default)]
    sweep: toml::Table,
}

fn one() -> u64 {
    1
}

/// One point of a sweep.
#[derive(Debug, Clone)]
pub struct Point {
    /// What the sweep set, in the file's order.
    pub settings: Vec<Setting>,
    /// The repetitions: they differ in their seeds only.
    pub runs: Vec<Scenario>,
}

/// All that a file asks for.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Its name.
    pub name: String,
    /// The points of the sweep; a single one without settings if there is none.
    pub points: Vec<Point>,
}

/// What the command line may change.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The seed of the first repetition.
    pub seed: Option<u64>,
    /// How often each point is run.
    pub repetitions: Option<u32>,
    /// Keys set as a sweep would, `KEY=VALUE`; they replace a sweep of that key.
    pub set: Vec<String>,
}

/// Reads a file.
///
/// # Errors
/// [`FileError`].
pub fn load(path: &Path, overrides: &Overrides) -> Result<Batch, FileError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| FileError {
        file: file.clone(),
        line: None,
        message: format!("cannot be read: {error}"),
    })?;
    parse(&file, &text, overrides)
}

/// Reads the text of a file; `file` is what errors call it.
///
/// # Errors
/// [`FileError`].
pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Batch, FileError> {
    let refuse = |line, message: String| FileError {
        file: file.to_owned(),
        line,
        message,
    };
    let at = |error: &toml::de::Error| {
        let line = error
            .span()
            .map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        refuse(line, describe(error, text))
    };
    // Read once for its own sake, as only then errors know their lines.
    let read: ScenarioFile = toml::from_str(text).map_err(|error| at(&error))?;
    let mut table: toml::Table = toml::from_str(text).map_err(|error| at(&error))?;
    table.remove("sweep");
    let mut axes = sweep::axes(&read.sweep)
        .map_err(|(key, message)| refuse(line_of(text, &key), format!("`sweep`: {message}")))?;
    for text in &overrides.set {
        let setting = Setting::parse(text).map_err(|message| refuse(None, message))?;
        axes.retain(|axis| axis.key != setting.key);
        setting
            .apply(&mut table)
            .map_err(|message| refuse(None, message))?;
    }
    let mut batch = Batch {
        name: read.name.clone().unwrap_or_else(|| stem(file)),
        points: Vec::new(),
    };
    for settings in sweep::combinations(&axes) {
        let mut own = table.clone();
        for setting in &settings {
            setting
                .apply(&mut own)
                .map_err(|message| refuse(line_of(text, &setting.key), message))?;
        }
        let said = match settings.is_empty() {
            true => String::new(),
            false => format!(" (sweep: {})", sweep::describe(&settings)),
        };
        // The value that the message names is to blame, if the sweep set it.
        let blame = |message: &str, key: &str| {
            let swept = settings
                .iter()
                .find(|setting| message.contains(&setting.shown()));
            line_of(text, swept.map_or(key, |setting| &setting.key))
        };
        let one: ScenarioFile = own.try_into().map_err(|error: toml::de::Error| {
            let line = blame(error.message(), "sweep");
            refuse(line, format!("{}{said}", error.message()))
        })?;
        let runs = one
            .build(&batch.name, overrides)
            .map_err(|(key, message)| refuse(blame(&message, &key), format!("{message}{said}")))?;
        batch.points.push(Point { settings, runs });
        let runs = batch
            .points
            .iter()
            .map(|point| point.runs.len())
            .sum::<usize>();
        if runs > RUNS_MAX {
            return Err(refuse(
                line_of(text, "sweep"),
                format!("the sweep asks for more than {RUNS_MAX} runs"),
            ));
        }
    }
    Ok(batch)
}

/// Reads a transport by itself: a table such as `{ tcp = { congestion = "cubic" } }`,
/// as a `[[flow]]` has it.
///
/// # Errors
/// What is wrong, and what is allowed.
pub fn transport(table: &toml::Table) -> Result<Transport, String> {
    let mut own = table.clone();
    own.insert("name".to_owned(), "flow".into());
    let flow: FlowFile = own
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())?;
    match table.len() {
        1 => flow.transport(),
        _ => Err("a transport is a table of one key, such as `tcp = {}`".to_owned()),
    }
}

/// The message of a TOML error, with the key it concerns.
fn describe(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().and_then(|span| {
        let start = text[..span.start.min(text.len())]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        text[start..].lines().next().map(str::trim)
    });
    match line {
        Some(line) if !line.is_empty() => format!("{} in `{line}`", error.message().trim()),
        _ => error.message().trim().to_owned(),
    }
}

/// The line that first names the last part of a key.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let quoted = text.lines().position(|line| line.contains(key));
    let last = key.rsplit('.').next().unwrap_or(key);
    quoted
        .or_else(|| text.lines().position(|line| line.trim().starts_with(last)))
        .map(|index| index + 1)
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(
        || file.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

impl ScenarioFile {
    /// The repetitions, or a key to blame and a message.
    fn build(&self, name: &str, overrides: &Overrides) -> Result<Vec<Scenario>, (String, String)> {
        let repetitions = overrides.repetitions.or(self.repetitions).unwrap_or(1);
        if !(1..=10_000).contains(&repetitions) {
            return Err((
                "repetitions".to_owned(),
                format!("`repetitions` is {repetitions}: it must be 1 to 10000"),
            ));
        }
        let mut network = self
            .network
            .build()
            .map_err(|message| ("network".to_owned(), message))?;
        let mut flows = Vec::new();
        for flow in &self.flow {
            let built = flow.build(&mut network).map_err(|message| {
                let key = format!("\"{}\"", flow.name);
                (key, format!("flow `{}`: {message}", flow.name))
            })?;
            flows.extend(built);
        }
        let mut scenario = Scenario::new(name, network);
        scenario.flows = flows;
        scenario.seed = overrides.seed.unwrap_or(self.seed);
        scenario.time_limit = self.time_limit.0;
        scenario.warmup = self.warmup.map_or(Duration::ZERO, |span| span.0);
        scenario.sample_interval = self.sample_interval.map(|span| span.0);
        scenario.events_max = self.events_max.unwrap_or(EVENTS_MAX);
        scenario.stops_when_done = self.stops_when_done.unwrap_or(true);
        scenario.check().map_err(|error| {
            let key = match &error {
                ScenarioError::NoFlows => "flow".to_owned(),
                ScenarioError::Times { .. } => "warmup".to_owned(),
                ScenarioError::Samples { .. } => "sample_interval".to_owned(),
                ScenarioError::NameTaken(name) => format!("\"{name}\""),
                ScenarioError::Link { link, .. } => link.clone(),
                ScenarioError::Flow { flow, .. } => format!("\"{flow}\""),
            };
            (key, error.to_string())
        })?;
        Ok((0..repetitions)
            .map(|repetition| {
                let seed = scenario.seed.wrapping_add(u64::from(repetition));
                scenario.clone().seed(seed)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests;

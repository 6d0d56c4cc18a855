//! Experiments as data.
//!
//! A recipe is a TOML file: what the figure shows, the path, what is swept, the
//! series, how long and how often, what is drawn, what the paper printed, and
//! what it claims. The papers' recipes are embedded; others can be read with
//! [`Recipe::parse`]. Unknown keys and impossible values are refused with the
//! recipe, the line, the key and what is allowed.

mod builtin;
mod check;
mod error;
mod radio;
mod settings;
mod unfold;
mod value;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use builtin::recipes;
pub use error::RecipeError;
pub use radio::Radio;
pub use settings::{
    FlowSpec, LossSpec, ModelSpec, NoiseSpec, PathSpec, RatePhaseSpec, RttPhaseSpec, Settings,
    SystemSpec, WorkloadSpec,
};
pub use value::{Bdp, Burst, Bytes, Count, Mbit, Millis, Retries, Scaled, Seconds, Share, Span};

use crate::claim::{Claim, Restrictions};
use crate::plot::{Figure, Printed, Table};
use crate::point::Venue;

/// How much of an experiment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// A look at it: few places, short, once.
    Quick,
    /// What is kept as a result.
    Full,
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What users type, such as `cc14-fig2a`.
    pub id: String,
    /// Other ids that mean it: figures that rest on the same runs.
    #[serde(default)]
    pub covers: Vec<String>,
    /// A short headline.
    pub title: String,
    /// Where it stands in which paper.
    pub paper: String,
    /// What it shows, for readers who have not read the paper.
    pub shows: String,
    /// How it is run here, what departs from the paper, and why that is enough.
    pub setup: String,
    /// A run is cut after this long.
    #[serde(default = "time_limit")]
    pub time_limit_s: Span,
    /// What the flows do over time is kept at this interval; left out: not at all.
    #[serde(default)]
    pub sample_s: Option<Span>,
    /// Runs of every point, with different seeds.
    pub repetitions: Scaled<Count>,
    /// The paths, at least one.
    #[serde(rename = "path")]
    pub paths: Vec<PathSpec>,
    /// What the flows carry unless they say otherwise.
    pub workload: WorkloadSpec,
    /// The situations of the controllers' suite are the places: the axis `row`.
    #[serde(default)]
    pub suite: bool,
    /// What is varied; every combination is run.
    #[serde(default, rename = "sweep")]
    pub sweeps: Vec<Sweep>,
    /// What is compared.
    #[serde(rename = "series")]
    pub series: Vec<Series>,
    /// What is drawn.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// What is put in a table.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// What the paper prints.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// What the paper claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// The time limit of all experiments that name none.
fn time_limit() -> Span {
    Span::new(300.0).expect("300 s is a time limit")
}

/// One axis of an experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its name in `at`: what it sets, unless `sets` names others.
    pub axis: String,
    /// What it is called in tables, such as `loss` or `RTT`.
    pub label: String,
    /// Its unit, appended to values; `%` shows a share as per cent.
    #[serde(default)]
    pub unit: String,
    /// The settings that take its value; empty: the one named like the axis.
    #[serde(default)]
    pub sets: Option<Vec<Setting>>,
    /// The places.
    pub values: Scaled<Vec<Case>>,
}

/// A setting that a sweep can give a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Share lost in the data direction.
    Loss,
    /// Share lost in the direction of the ACKs.
    LossUp,
    /// Rate of all paths.
    RateMbit,
    /// Propagation round trip of all paths.
    RttMs,
    /// Queue of all paths.
    QueueBdp,
    /// Size of the objects fetched.
    Bytes,
    /// Mean rate of a hidden terminal.
    HiddenMbit,
    /// Retransmissions by the radio.
    Retries,
}

/// One place of a sweep: a number, or a number with a name and settings of its
/// own.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Where it stands on the axis.
    pub at: f64,
    /// What it is called; empty: its number.
    pub label: String,
    /// What holds there.
    pub set: Settings,
}

impl<'de> Deserialize<'de> for Case {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            at: f64,
            #[serde(default)]
            label: String,
            #[serde(default)]
            set: Settings,
        }
        settings::number_or(
            deserializer,
            "a number, or { at = …, label = …, set = { … } }",
        )
        .map(|found| match found {
            settings::NumberOr::Number(at) => Self {
                at,
                label: String::new(),
                set: Settings::default(),
            },
            settings::NumberOr::Other(Named { at, label, set }) => Self { at, label, set },
        })
    }
}

/// One curve: who runs, and how its path differs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// As it stands in figures.
    pub name: String,
    /// Who runs it.
    #[serde(default = "testbed")]
    pub venue: Venue,
    /// Its flows, the measured one first.
    pub flows: Vec<FlowSpec>,
    /// How its paths differ from the recipe's.
    #[serde(default)]
    pub set: Settings,
    /// Which of them it has, by number from 0; empty: all.
    #[serde(default)]
    pub paths: Vec<usize>,
    /// Only these places; empty: all.
    #[serde(default)]
    pub only: Restrictions,
    /// Not these places.
    #[serde(default)]
    pub skip: Vec<Restrictions>,
    /// Repetitions, if not the recipe's.
    #[serde(default)]
    pub repetitions: Option<Scaled<Count>>,
}

/// Most experiments need real programs.
fn testbed() -> Venue {
    Venue::Testbed
}

impl Recipe {
    /// Reads a recipe. `name` is what errors call it.
    ///
    /// # Errors
    /// [`RecipeError`] with the place and what is allowed there.
    pub fn parse(name: &str, text: &str) -> Result<Self, RecipeError> {
        let mut recipe: Self =
            toml::from_str(text).map_err(|error| RecipeError::syntax(name, text, &error))?;
        if recipe.suite {
            recipe.sweeps.insert(0, crate::suite::sweep());
        }
        check::recipe(name, text, &recipe)?;
        Ok(recipe)
    }

    /// The embedded recipe of this id, or the one that covers it.
    ///
    /// # Errors
    /// [`RecipeError::Unknown`] with the ids that there are.
    pub fn by_id(id: &str) -> Result<&'static Self, RecipeError> {
        recipes()
            .iter()
            .find(|recipe| recipe.id == id || recipe.covers.iter().any(|other| other == id))
            .ok_or_else(|| RecipeError::Unknown {
                id: id.to_owned(),
                known: recipes().iter().map(|recipe| recipe.id.clone()).collect(),
            })
    }

    /// The series of this name.
    pub fn series_by_name(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// The sweep of this axis.
    pub fn sweep_by_axis(&self, axis: &str) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.axis == axis)
    }

    /// A place as people read it: `loss 1 %, RTT 25 ms`.
    pub fn place(&self, at: &BTreeMap<String, f64>) -> String {
        let parts: Vec<String> = self
            .sweeps
            .iter()
            .filter_map(|sweep| at.get(&sweep.axis).map(|value| sweep.describe(*value)))
            .collect();
        parts.join(", ")
    }
}

impl Sweep {
    /// The case at this value, at whichever scale has it.
    pub fn case(&self, at: f64) -> Option<&Case> {
        let all = self.values.full.iter().chain(&self.values.quick);
        all.into_iter().find(|case| case.at == at)
    }

    /// A value with its unit, or its name.
    pub fn value(&self, at: f64) -> String {
        match self.case(at) {
            Some(case) if !case.label.is_empty() => case.label.clone(),
            _ if self.unit == "%" => format!("{} %", trimmed(at * 100.0)),
            _ if self.unit == "B" => bytes(at),
            _ if self.unit.is_empty() => trimmed(at),
            _ => format!("{} {}", trimmed(at), self.unit),
        }
    }

    /// The axis and a value.
    pub fn describe(&self, at: f64) -> String {
        format!("{} {}", self.label, self.value(at))
    }
}

/// At most four decimals, none without need.
pub(crate) fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A size as people write it.
pub(crate) fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} MB", trimmed(v / 1e6)),
        v if v >= 1e3 => format!("{} kB", trimmed(v / 1e3)),
        v => format!("{v} B"),
    }
}

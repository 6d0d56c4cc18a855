//! The papers' claims as data, and what the records say to them.
//!
//! A claim has one or more checks. A check is a value (a metric of a series,
//! perhaps divided by another or by a formula), the places where it is looked
//! at, and what it has to be there. The verdict carries the number.

mod estimate;
mod formula;
mod metric;
mod over_time;
mod results;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use estimate::{Bound, Estimate};
pub use formula::{Context, Formula};
pub use metric::Metric;
pub use results::{PlaceKey, Results};
pub use verdict::{Finding, Outcome, Verdict, judge};

/// One claim of a paper about one experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `C1`, …, unique in its recipe.
    pub id: String,
    /// As people read it.
    pub text: String,
    /// All of these must hold.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// Why nothing here can check it.
    #[serde(default)]
    pub unchecked: String,
    /// What was found out about a failure, or what to keep in mind.
    #[serde(default)]
    pub note: String,
}

/// One thing that can be true or not.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is looked at.
    pub value: Value,
    /// At these places; empty: at all that were run.
    #[serde(default, rename = "where")]
    pub places: Restrictions,
    /// What is made of the values of several places.
    #[serde(default)]
    pub take: Take,
    /// Axes that stay apart when values are taken together.
    #[serde(default)]
    pub per: Vec<String>,
    /// It is at least this.
    #[serde(default)]
    pub min: Option<f64>,
    /// It is at most this.
    #[serde(default)]
    pub max: Option<f64>,
    /// It moves this way along an axis.
    #[serde(default)]
    pub monotone: Option<Monotone>,
    /// So many of the places may miss.
    #[serde(default)]
    pub misses_allowed: usize,
}

/// What is made of several places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Each for itself.
    #[default]
    Each,
    /// Their mean.
    Mean,
    /// Largest less smallest.
    Spread,
}

/// A direction along an axis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monotone {
    /// The axis.
    pub along: String,
    /// Whether it goes up.
    pub rises: bool,
    /// A step against the direction that counts as noise, as a share of the value.
    pub slack: f64,
}

/// What a check looks at: a metric or a formula, with what is done to it, in the
/// order of the fields.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// A metric of a flow of a series.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// The series.
    #[serde(default)]
    pub series: String,
    /// The flow; empty: the first one. `all`: their sum, for goodput.
    #[serde(default)]
    pub flow: String,
    /// Looked up there, whatever the place.
    #[serde(default)]
    pub at: BTreeMap<String, f64>,
    /// Or a formula.
    #[serde(default)]
    pub formula: Option<Formula>,
    /// Times this.
    #[serde(default)]
    pub times: Option<f64>,
    /// Plus that.
    #[serde(default)]
    pub plus: Option<Box<Value>>,
    /// Less that.
    #[serde(default)]
    pub minus: Option<Box<Value>>,
    /// Divided by that.
    #[serde(default)]
    pub over: Option<Box<Value>>,
}

impl Value {
    /// All values that it is made of, itself first.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        let mut parts = vec![self];
        for part in [&self.plus, &self.minus, &self.over].into_iter().flatten() {
            parts.extend(part.parts());
        }
        parts
    }
}

/// Which places of the sweeps are meant.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Restrictions(pub BTreeMap<String, Restriction>);

/// Which values of one axis are meant.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Restriction {
    /// This one.
    Equal(f64),
    /// One of these.
    OneOf(Vec<f64>),
    /// From `min` to `max`, both included.
    Within {
        /// Smallest.
        #[serde(default = "lowest")]
        min: f64,
        /// Largest.
        #[serde(default = "highest")]
        max: f64,
    },
}

fn lowest() -> f64 {
    f64::NEG_INFINITY
}

fn highest() -> f64 {
    f64::INFINITY
}

impl Restrictions {
    /// Whether the place is meant; one that lacks a named axis is not.
    pub fn admit(&self, at: &BTreeMap<String, f64>) -> bool {
        self.0.iter().all(|(axis, restriction)| {
            at.get(axis).is_some_and(|&value| match restriction {
                Restriction::Equal(wanted) => value == *wanted,
                Restriction::OneOf(wanted) => wanted.contains(&value),
                Restriction::Within { min, max } => (*min..=*max).contains(&value),
            })
        })
    }
}

//! Figures as the papers draw them: measurements with error bars, the printed
//! values as marks of their own, theory as thin lines. SVG, and the same as CSV.

mod chart;
mod csv;
mod data;
mod scale;
mod svg;

pub(crate) use data::TIME;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use chart::{Chart, draw};
pub use csv::{Csv, figure_csv, printed_points};
pub use data::{ChartData, Curve, Dot, Hue, Kind, Panel, collect};
pub(crate) use svg::escape;
pub use svg::{STYLE, stand_alone};

use crate::claim::{Formula, Metric, Restrictions};

/// A figure of a recipe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Unique in the report, such as `fig2a`.
    pub id: String,
    /// Its caption.
    pub title: String,
    /// Along the bottom.
    pub x: XAxis,
    /// Up the side.
    pub y: YAxis,
    /// Series drawn; empty: all, the first flow of each.
    #[serde(default)]
    pub curves: Vec<CurveSpec>,
    /// Only these places.
    #[serde(default)]
    pub only: Restrictions,
    /// One small figure for each value of this axis; `series`: for each curve.
    #[serde(default)]
    pub panel: String,
    /// One curve for each value of this axis.
    #[serde(default)]
    pub split: String,
    /// Lines of theory.
    #[serde(default)]
    pub theory: Vec<TheorySpec>,
    /// Names of printed values to be marked.
    #[serde(default)]
    pub printed: Vec<String>,
}

/// The horizontal axis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XAxis {
    /// The axis of the sweep; `time_s`: one run over time, by its samples.
    pub axis: String,
    /// Its title.
    pub label: String,
    /// How values are laid out.
    #[serde(default)]
    pub scale: ScaleKind,
    /// Of a run over time only this part, seconds.
    #[serde(default)]
    pub within: Option<[f64; 2]>,
}

/// The vertical axis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YAxis {
    /// What is drawn.
    pub metric: Metric,
    /// Its title.
    pub label: String,
    /// How values are laid out.
    #[serde(default)]
    pub scale: ScaleKind,
    /// Lowest value shown; the data decides if absent.
    #[serde(default)]
    pub min: Option<f64>,
    /// Highest value shown; the data decides if absent.
    #[serde(default)]
    pub max: Option<f64>,
}

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleKind {
    /// Evenly.
    #[default]
    Linear,
    /// By ratios; a zero stands apart at the left end.
    Log,
    /// One slot for each place, by its name.
    Slots,
}

/// A series in a figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveSpec {
    /// The series.
    pub series: String,
    /// Which flow; empty: the first; `all`: their sum.
    #[serde(default)]
    pub flow: String,
    /// In the legend; empty: the series' name.
    #[serde(default)]
    pub label: String,
}

/// A line of theory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TheorySpec {
    /// The formula.
    pub formula: Formula,
    /// Times this, such as the share that headers leave.
    #[serde(default = "one")]
    pub times: f64,
    /// In the legend.
    pub label: String,
}

fn one() -> f64 {
    1.0
}

/// Values that a paper prints.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// What figures call them; unique in the recipe.
    pub name: String,
    /// In the legend.
    pub label: String,
    /// The series whose colour they take.
    #[serde(default)]
    pub series: String,
    /// In which panel, or beside which of split curves.
    #[serde(default)]
    pub at: BTreeMap<String, f64>,
    /// The values: x, y.
    #[serde(default)]
    pub points: Vec<[f64; 2]>,
    /// Or a file with columns.
    #[serde(default)]
    pub csv: Option<CsvColumns>,
}

/// Columns of an embedded file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvColumns {
    /// Its name.
    pub file: String,
    /// Column of the x values.
    pub x: String,
    /// Column of the y values; rows that have none are left out.
    pub y: String,
    /// Only rows with these values.
    #[serde(default)]
    pub only: BTreeMap<String, f64>,
    /// Numbers the rows from 1 instead of reading `x`.
    #[serde(default)]
    pub x_is_row: bool,
    /// Times this, for another unit.
    #[serde(default = "one")]
    pub times: f64,
}

/// A table of a recipe: a row for each series.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its caption.
    pub title: String,
    /// The sweep whose values are columns.
    pub columns: String,
    /// For each metric all columns.
    pub metrics: Vec<Metric>,
    /// Only these places.
    #[serde(default)]
    pub only: Restrictions,
}

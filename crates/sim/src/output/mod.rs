//! Results as people and programs want them: a table, CSV, JSON lines, a trace,
//! plots.

mod plot;
mod rows;
mod trace;

pub use plot::{PlotError, plot_svg};
pub use rows::{PointResult, csv, json_lines, table};
pub use trace::TraceWriter;

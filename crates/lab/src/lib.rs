//! The papers' experiments as recipes: run on the testbed or in the simulator,
//! kept as dated JSON lines, judged against the papers' claims, drawn.
//!
//! ```text
//!  recipe (data) ─▶ points ─▶ testbed │ simulator ─▶ records ─▶ claims, figures, report
//! ```
//!
//! A [`Point`] says everything about one run; a [`Record`] says what came out of
//! it. What makes points knows nothing of who runs them, and the report knows
//! only records.

pub mod claim;
pub mod plot;
pub mod point;
pub mod recipe;
pub mod record;
pub mod report;
pub mod run;
pub mod simulator;
pub mod testbed;
pub mod venue;

mod equation;
mod links;
mod suite;
mod workload;

pub use point::Point;
pub use recipe::{Recipe, RecipeError, Scale, recipes};
pub use record::Record;

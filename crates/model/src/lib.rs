//! The papers' equations as functions of plain numbers, and a list of them.
//!
//! | module | equations |
//! |---|---|
//! | [`aimd`] | [CC14] §IV eq. (1)–(4): adaptive backoff, rates, fairness |
//! | [`surplus`] | [CC14] §IV eq. (5): the share of packets sent in vain, all readings |
//! | [`redundancy`] | [CC14] §II: coded packets ahead and on feedback; innovation |
//! | [`estimate`] | [MP12] Algorithm 1: the loss filters |
//! | [`reference`](mod@reference) | what TCP reaches: sqrt(1.5/p), PFTK, CUBIC |
//! | [`reno`] | [MODEL] §IV eq. (1)–(17): TCP with independent losses |
//! | [`coded`] | [MODEL] §V, §VI eq. (18)–(31): TCP/NC end to end, up and down |
//! | [`table1`] | [MODEL] Table I, recomputed beside the print |
//! | [`registry`] | every model with its parameters, for the command line and the docs |
//!
//! Units, unless a name says otherwise: times in seconds, windows in packets,
//! rates in packets per second, probabilities and shares as numbers from 0 to 1.
//! Formulas stand in the source's symbols. Where a source contradicts itself
//! the caller picks the reading by an enum; errata carry their number
//! (`E-MODEL-03`) and are explained where they are applied.
//!
//! Everything is a pure function of `f64`; a value outside its [`Domain`] is an
//! error that names it, never a NaN.

pub mod aimd;
pub mod coded;
mod domain;
pub mod estimate;
pub mod redundancy;
pub mod reference;
pub mod registry;
pub mod reno;
pub mod surplus;
pub mod table1;

pub use domain::{Domain, ModelError};
pub use registry::{Model, model_by_name, models};

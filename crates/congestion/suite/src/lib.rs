//! A grid of simulated paths on which congestion controllers are scored.
//!
//! A [`Row`] is one situation with its aim; [`rows`] is the grid. [`measure`]
//! runs a row with a [`Contestant`] and gives [`Score`]s: figures with the aims
//! that they are held against. Everything follows from the seed. What runs is
//! the very transport, over `ctcp-link`, in virtual time; TCP beside it and as a
//! contestant is the simulator's, with SACK.
//!
//! Ratios are goodput to link rate × 1436/1500, the payload share of a full
//! packet.

#![forbid(unsafe_code)]

mod contestant;
mod grid;
mod measure;
mod table;

pub use contestant::Contestant;
pub use grid::{Extent, Neighbourhood, Row, Situation, rows};
pub use measure::{Aim, Score, SuiteError, measure, measure_all, trace};
pub use table::{json_line, markdown};

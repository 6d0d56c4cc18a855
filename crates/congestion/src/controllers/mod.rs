//! The controllers by name, one file each.

mod cc14;
mod reno;

pub use cc14::cc14;
pub use reno::reno;

//! What the fuzz targets do, as plain functions of the input's bytes.
//!
//! Each module has one `run(data)`: it panics if the code under test breaks a
//! promise, and the fuzzer looks for such `data`. `fuzz_targets/` only joins
//! them to libFuzzer; `tests/corpus.rs` calls them with the kept corpus on
//! stable Rust.

#![forbid(unsafe_code)]

pub mod connection;
pub mod decoder;
pub mod files;
pub mod handshake;
mod input;
pub mod link_text;
mod model;
pub mod peer;
pub mod proxy_text;
pub mod streams;
mod support;
pub mod wire;

pub use input::Input;

/// A fuzz target: its name and what it runs.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by the names of their folders in `corpus/`.
pub const TARGETS: [Target; 9] = [
    ("connection", connection::run),
    ("decoder", decoder::run),
    ("files", files::run),
    ("handshake", handshake::run),
    ("link_text", link_text::run),
    ("peer", peer::run),
    ("proxy_text", proxy_text::run),
    ("streams", streams::run),
    ("wire", wire::run),
];

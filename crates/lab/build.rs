//! Tells the program which commit it was built from.
//!
//! It is the last commit that touched code: one that adds results or prose makes
//! no result stale.

use std::path::Path;
use std::process::Command;

/// What a program is made of, from this crate's folder.
const SOURCES: [&str; 3] = ["../../crates", "../../Cargo.toml", "../../Cargo.lock"];

fn main() {
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=CTCP_COMMIT={commit}");
    for path in SOURCES.into_iter().chain(["../../.git/logs/HEAD"]) {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The short name of the commit, `-dirty` if the sources differ from it.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .arg("--")
            .args(SOURCES)
            .output()
            .ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| said.trim().to_owned())
    };
    let commit = git(&["log", "-1", "--format=%h"]).filter(|commit| !commit.is_empty())?;
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    Some(if changed { commit + "-dirty" } else { commit })
}

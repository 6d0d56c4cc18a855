//! Every key cited in the code, such as [RFC9002], resolves in
//! docs/references.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below `folder` with this extension.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                files(&path, extension, found);
            }
        } else if path.extension().is_some_and(|given| given == extension) {
            found.push(path);
        }
    }
}

/// The keys in the comments of a text: brackets around capitals and digits that
/// have a digit, or a place in the source behind them. `[NAME]` alone is how a
/// usage line says that NAME may be left out.
fn keys(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        let Some((_, comment)) = line.split_once("//") else {
            continue;
        };
        // What stands between backticks is code.
        let prose: String = comment.split('`').step_by(2).collect();
        for part in prose.split('[').skip(1) {
            let Some((key, rest)) = part.split_once(']') else {
                continue;
            };
            let is_key = key.starts_with(|c: char| c.is_ascii_uppercase())
                && key
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
            let has_digit = key.contains(|c: char| c.is_ascii_digit());
            let places = ["§", "Fig.", "Table", "Algorithm", "eq."];
            let has_place = places
                .iter()
                .any(|place| rest.trim_start().starts_with(place));
            if is_key && (has_digit || has_place) {
                keys.insert(key.to_owned());
            }
        }
    }
    keys
}

#[test]
fn every_cited_key_resolves() {
    let references = fs::read_to_string(root().join("docs/references.md")).expect("it exists");
    let mut sources = Vec::new();
    files(&root().join("crates"), "rs", &mut sources);
    assert!(
        sources.len() > 50,
        "the sources are where they are looked for"
    );
    let mut unresolved = BTreeSet::new();
    for path in &sources {
        let text = fs::read_to_string(path).expect("UTF-8");
        for key in keys(&text) {
            if !references.contains(&format!("[{key}]")) {
                unresolved.insert((key, path.display().to_string()));
            }
        }
    }
    assert!(
        unresolved.is_empty(),
        "not in docs/references.md: {unresolved:#?}"
    );
}

#[test]
fn keys_are_told_from_links_and_code() {
    let text = "// [CC14] §II, [RFC9002], `[IPV6]:PORT` and [`Foo`]\nlet a = b[MAX];\n// [NOISE] §7 `[NAME]`";
    let expected = ["CC14", "NOISE", "RFC9002"].map(str::to_owned);
    assert_eq!(keys(text), BTreeSet::from(expected));
}

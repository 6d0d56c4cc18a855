//! The report over the committed results, and the document that quotes it.

use std::fs;
use std::path::{Path, PathBuf};

use ctcp_lab::record::Record;
use ctcp_lab::report;

/// Set to have the document rewritten.
const UPDATE: &str = "CTCP_UPDATE_DOCS";
const BEGIN: &str =
    "<!-- written by: CTCP_UPDATE_DOCS=1 cargo test -p ctcp-lab --test committed -->\n";
const END: &str = "<!-- end -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn committed() -> Vec<Record> {
    let folder = docs().join("reproduction/results");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("results are committed")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    files.sort();
    let read = |file: &PathBuf| fs::read_to_string(file).expect("it can be read");
    let lines = files.iter().map(read).collect::<String>();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

#[test]
fn the_report_shows_every_committed_result() {
    let records = committed();
    let folder = tempfile::tempdir().expect("a folder");
    report::write(&records, folder.path()).expect("it is written");
    let page = fs::read_to_string(folder.path().join("index.html")).expect("a page");
    for record in &records {
        let id = &record.point.experiment;
        assert!(page.contains(id.as_str()), "{id} is missing");
    }
    // Nothing is loaded from elsewhere.
    assert!(!page.contains("src=\"http") && !page.contains("url(http"));
}

#[test]
fn the_document_quotes_the_committed_results() {
    let folder = tempfile::tempdir().expect("a folder");
    report::write(&committed(), folder.path()).expect("it is written");
    let summary = fs::read_to_string(folder.path().join("summary.md")).expect("a summary");
    // One level deeper than in the report.
    let quoted = format!("\n{}\n", summary.trim().replace("\n## ", "\n### "));
    let path = docs().join("reproduction.md");
    let text = fs::read_to_string(&path).expect("the document");
    let (before, rest) = text.split_once(BEGIN).expect("its beginning is marked");
    let (stands, after) = rest.split_once(END).expect("its end is marked");
    if std::env::var_os(UPDATE).is_some() {
        let updated = format!("{before}{BEGIN}{quoted}{END}{after}");
        fs::write(&path, updated).expect("the document can be written");
    } else {
        assert!(
            stands == quoted,
            "docs/reproduction.md is not what the committed results say; set {UPDATE}=1 to rewrite it"
        );
    }
}

//! Links of the book and of the README lead to files and headings that are there.
//! Addresses elsewhere are not asked: a test needs no network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{pages, read, root, shown};

/// The text without fenced blocks and code.
fn prose(page: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let outside: String = line.split('`').step_by(2).collect();
            prose.push_str(&outside);
            prose.push('\n');
        }
    }
    prose
}

/// Where links lead: `[text](target)`.
fn targets(page: &str) -> Vec<String> {
    let text = prose(page);
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_fenced = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if !is_fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            });
            anchors.insert(kept.collect());
        }
    }
    anchors
}

/// What is wrong with a link from `page`.
fn fault(page: &Path, target: &str) -> Option<String> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().expect("a file is in a folder");
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        folder.join(file)
    };
    let Ok(path) = path.canonicalize() else {
        return Some("is not there".to_owned());
    };
    let docs = root().join("docs");
    if page.starts_with(&docs) && !path.starts_with(&docs) {
        return Some("leads out of the book".to_owned());
    }
    if !anchor.is_empty() && !anchors(&read(&path)).contains(anchor) {
        return Some(format!("has no heading #{anchor}"));
    }
    None
}

pub(crate) fn every_link_leads_somewhere() {
    let mut all = pages();
    for more in ["CHANGELOG.md", "SECURITY.md", "packaging/README.md"] {
        all.push(root().join(more));
    }
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in all {
        for target in targets(&read(&page)) {
            count += 1;
            if let Some(fault) = fault(&page, &target) {
                faults.push(format!("{}: {target} {fault}", shown(&page)));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(count > 80, "only {count} links were found");
}

pub(crate) fn every_page_is_in_the_contents() {
    let docs = root().join("docs");
    let contents = targets(&read(&docs.join("SUMMARY.md")));
    let listed: BTreeSet<PathBuf> = contents.iter().map(|target| docs.join(target)).collect();
    assert_eq!(listed.len(), contents.len(), "each page once");
    for page in pages() {
        let is_book = page.starts_with(&docs) && !page.ends_with("SUMMARY.md");
        let name = shown(&page);
        assert!(
            !is_book || listed.contains(&page),
            "{name} is not in SUMMARY.md"
        );
    }
}

//! The summary for the repository: claims, commands, machine, what is lost.

use std::fmt::Write as _;

use super::facts::facts;
use super::scores::Scores;
use super::{Section, table, text};
use crate::claim::Outcome;

/// All experiments in Markdown: what was run where, the claims that do not hold,
/// then each experiment with its tables and its claims.
pub fn summary(sections: &[Section<'_>]) -> String {
    let mut out = String::new();
    let all = || sections.iter().flat_map(|section| &section.verdicts);
    let count = |outcome| all().filter(|verdict| verdict.outcome == outcome).count();
    let facts = facts(
        sections
            .iter()
            .flat_map(|section| section.results.records()),
    );
    let _ = writeln!(
        out,
        "{} experiments, {} runs, {} claims: {} met, {} not met, {} not measured.\n",
        sections.len(),
        facts.runs,
        all().count(),
        count(Outcome::Met),
        count(Outcome::NotMet),
        count(Outcome::NotMeasured),
    );
    for (name, value) in facts.provenance() {
        let _ = writeln!(out, "- {name}: {value}");
    }
    not_met(&mut out, sections);
    for section in sections {
        experiment(&mut out, section);
    }
    out
}

fn not_met(out: &mut String, sections: &[Section<'_>]) {
    let mut lines = Vec::new();
    for section in sections {
        for (claim, verdict) in section.recipe.claims.iter().zip(&section.verdicts) {
            if verdict.outcome == Outcome::NotMet {
                lines.push(format!(
                    "- `{}` {}: {}. Found: {}.{}",
                    section.recipe.id,
                    claim.id,
                    claim.text,
                    text::findings(section.recipe, claim, verdict).join("; "),
                    spaced(&claim.note),
                ));
            }
        }
    }
    if !lines.is_empty() {
        let _ = writeln!(out, "\n## Claims that do not hold\n\n{}", lines.join("\n"));
    }
}

fn experiment(out: &mut String, section: &Section<'_>) {
    let recipe = section.recipe;
    let _ = writeln!(
        out,
        "\n## {}: {}\n\n{}. {}\n\n`ctcp lab run {} --full`",
        recipe.id,
        recipe.title,
        recipe.paper,
        recipe.shows.trim(),
        recipe.id
    );
    for wanted in &recipe.tables {
        out.push_str(&table::markdown(section, wanted));
    }
    if let Some(scores) = Scores::of(section) {
        out.push_str(&scores.markdown());
    }
    if !recipe.claims.is_empty() {
        out.push_str("\n| claim | | found |\n|---|---|---|\n");
    }
    for (claim, verdict) in recipe.claims.iter().zip(&section.verdicts) {
        let found = text::findings(recipe, claim, verdict).join("; ");
        let _ = writeln!(
            out,
            "| {}: {} | {} | {}{} |",
            cell(&claim.id),
            cell(&claim.text),
            verdict.outcome.text(),
            cell(&found),
            cell(&spaced(&claim.note)),
        );
    }
    let facts = facts(section.results.records());
    let _ = writeln!(out, "\n{}", facts.fidelity_text());
    let missing = section.series_without_runs();
    if !missing.is_empty() {
        let _ = writeln!(out, "No runs of: {}.", missing.join(", "));
    }
}

/// After a sentence.
fn spaced(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

/// Text that may stand in a cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

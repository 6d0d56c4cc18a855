//! The summary for the repository: claims, commands, machine, what is lost.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Section;
use super::text;
use crate::claim::Outcome;

/// All experiments in Markdown: what was run where, each claim with its number,
/// and the claims that do not hold once more by themselves.
pub fn summary(sections: &[Section<'_>]) -> String {
    let mut out = String::new();
    let all = || sections.iter().flat_map(|section| &section.verdicts);
    let count = |outcome| all().filter(|verdict| verdict.outcome == outcome).count();
    let _ = writeln!(
        out,
        "{} experiments, {} claims: {} met, {} not met, {} not measured.\n",
        sections.len(),
        all().count(),
        count(Outcome::Met),
        count(Outcome::NotMet),
        count(Outcome::NotMeasured),
    );
    for line in where_it_ran(sections) {
        let _ = writeln!(out, "- {line}");
    }
    for section in sections {
        experiment(&mut out, section);
    }
    out
}

/// Machine, kernel, commits.
pub(super) fn where_it_ran(sections: &[Section<'_>]) -> Vec<String> {
    let provenances = || {
        let records = sections
            .iter()
            .flat_map(|section| section.results.records());
        records.map(|record| &record.provenance)
    };
    let set = |texts: BTreeSet<&str>| texts.into_iter().collect::<Vec<_>>().join("; ");
    let mut lines = vec![
        format!(
            "Machine: {}",
            set(provenances().map(|p| p.machine.as_str()).collect())
        ),
        format!(
            "Kernel: {}",
            set(provenances().map(|p| p.kernel.as_str()).collect())
        ),
        format!(
            "Commit: {}",
            set(provenances().map(|p| p.commit.as_str()).collect())
        ),
        format!(
            "ctcp: {}",
            set(provenances().map(|p| p.version.as_str()).collect())
        ),
    ];
    let programs: BTreeSet<&str> = provenances()
        .flat_map(|p| p.programs.iter().map(String::as_str))
        .collect();
    if !programs.is_empty() {
        lines.push(format!("Programs: {}", set(programs)));
    }
    lines
}

fn experiment(out: &mut String, section: &Section<'_>) {
    let recipe = section.recipe;
    let _ = writeln!(
        out,
        "\n## {}: {}\n\n{}. {}\n",
        recipe.id,
        recipe.title,
        recipe.paper,
        recipe.shows.trim()
    );
    let _ = writeln!(out, "`ctcp lab run {} --full`\n", recipe.id);
    if !recipe.claims.is_empty() {
        out.push_str("| claim | | found |\n|---|---|---|\n");
        for (claim, verdict) in recipe.claims.iter().zip(&section.verdicts) {
            let mut found = text::findings(recipe, claim, verdict);
            if !claim.note.is_empty() {
                found.push_str(&format!(". {}", claim.note));
            }
            let _ = writeln!(
                out,
                "| {}: {} | {} | {} |",
                cell(&claim.id),
                cell(&claim.text),
                verdict.outcome.text(),
                cell(&found),
            );
        }
    }
}

/// Text that may stand in a cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

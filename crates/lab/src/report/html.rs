//! The page: one file, nothing from outside, for screens of any width, in light
//! and dark, and for paper.

use std::fmt::Write as _;

use super::facts::facts;
use super::scores::Scores;
use super::{Section, table, text};
use crate::claim::{Outcome, Verdict};
use crate::plot::{Chart, Figure, STYLE, escape};

/// A figure with the name of its files, without their endings.
pub(super) struct Drawn<'a> {
    pub(super) figure: &'a Figure,
    pub(super) file: String,
    pub(super) chart: Chart,
}

/// Layout and colours beyond those of the figures.
const PAGE_STYLE: &str = "\
*{box-sizing:border-box}html{scroll-behavior:smooth}\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',sans-serif}\
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem 5rem}\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem}h2{font-size:1.4rem;line-height:1.25;margin:0}\
h3{font-size:1rem;margin:1.6rem 0 .5rem}p{margin:.5rem 0 .8rem;max-width:46rem}\
a{color:var(--ctcp)}code{font:0.88em ui-monospace,monospace}\
.soft{color:var(--soft)}.small{font-size:.86rem}\
.lab{--met:#0a7a4b;--missed:#b3261e;--open:#6b7280;--wash:#f5f7f9}\
.tally{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.2rem 0;padding:0;list-style:none}\
.tally li{background:var(--wash);border-radius:.5rem;padding:.6rem 1rem;min-width:7rem}\
.tally b{display:block;font-size:1.6rem;line-height:1.2;font-variant-numeric:tabular-nums}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}dt{color:var(--soft)}dd{margin:0;min-width:0;overflow-wrap:anywhere}\
section{margin-top:3.2rem;padding-top:1.4rem;border-top:1px solid var(--grid)}\
figure{margin:1.4rem 0}figcaption{font-weight:600;margin-bottom:.5rem}\
.wide{overflow-x:auto}.wide svg{display:block;width:100%;min-width:38rem;height:auto}\
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}\
th,td{text-align:left;vertical-align:top;padding:.45rem .7rem .45rem 0;border-bottom:1px solid var(--grid)}\
th{color:var(--soft);font-weight:500}td.n,th.n{text-align:right;white-space:nowrap}\
.o{white-space:nowrap;font-weight:600}.o::before{display:inline-block;width:1.3em}\
.met{color:var(--met)}.met::before{content:'\\2713'}.missed{color:var(--missed)}.missed::before{content:'\\2717'}\
.open{color:var(--open)}.open::before{content:'\\2013'}\
pre{background:var(--wash);border-radius:.4rem;padding:.6rem .8rem;overflow-x:auto;margin:.5rem 0}\
details{margin:.6rem 0}summary{cursor:pointer;color:var(--soft)}\
@media (prefers-color-scheme:dark){.lab{--met:#4fd08f;--missed:#ff8a80;--open:#9ca3af;--wash:#1e242b}}\
@media (max-width:40rem){main{padding:1.25rem .9rem 3rem}.claims thead{display:none}.claims tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--grid)}\
.claims td{display:block;border:0;padding:.1rem 0}dl{grid-template-columns:1fr}dt{margin-top:.4rem}}\
@media print{main{max-width:none;padding:0}section{break-before:page}figure,tr{break-inside:avoid}.lab{--met:#0a7a4b;--missed:#b3261e;--wash:#f5f5f5}a{color:inherit}}";

/// The whole page. `drawn` has the figures of each section.
pub(super) fn page(sections: &[Section<'_>], drawn: &[Vec<Drawn<'_>>]) -> String {
    let mut out = String::with_capacity(1 << 20);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>CTCP: the papers' experiments, run again</title>\n\
         <style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body class=\"lab\">\n<main>\n"
    );
    head(&mut out, sections);
    for (section, drawn) in sections.iter().zip(drawn) {
        experiment(&mut out, section, drawn);
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn head(out: &mut String, sections: &[Section<'_>]) {
    let verdicts = || sections.iter().flat_map(|section| &section.verdicts);
    let count = |outcome| verdicts().filter(|v| v.outcome == outcome).count();
    let facts = facts(
        sections
            .iter()
            .flat_map(|section| section.results.records()),
    );
    let failed: usize = sections
        .iter()
        .map(|section| section.results.failed().len())
        .sum();
    out.push_str(
        "<h1>The papers' experiments, run again</h1>\n\
         <p>CTCP beside the kernel's TCP on the same emulated paths, in the same session. Each section says what a figure of the papers shows, \
         what we measured, what the paper printed, and which of its claims hold. Claims that do not hold stand here with their number.</p>\n",
    );
    let _ = writeln!(
        out,
        "<ul class=\"tally\"><li><b class=\"met-n\">{}</b>claims met</li><li><b>{}</b>not met</li>\
         <li><b>{}</b>not measured</li><li><b>{}</b>runs</li></ul>",
        count(Outcome::Met),
        count(Outcome::NotMet),
        count(Outcome::NotMeasured),
        facts.runs,
    );
    out.push_str("<dl>");
    for (name, value) in facts.provenance() {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    if facts.busy > 0 {
        let _ = write!(
            out,
            "<dt>Busy machine</dt><dd>{} of the runs: not to be trusted until run again on an idle one</dd>",
            facts.busy
        );
    }
    if failed > 0 {
        let _ = write!(
            out,
            "<dt>Failed runs</dt><dd>{failed}, named in their sections</dd>"
        );
    }
    out.push_str("</dl>\n<div class=\"wide\"><table><thead><tr><th>experiment</th><th></th><th class=\"n\">met</th>\
                  <th class=\"n\">not met</th><th class=\"n\">not measured</th></tr></thead><tbody>");
    for section in sections {
        let of = |outcome| {
            section
                .verdicts
                .iter()
                .filter(|v| v.outcome == outcome)
                .count()
        };
        let recipe = section.recipe;
        let _ = write!(
            out,
            "<tr><td><a href=\"#{id}\"><code>{id}</code></a></td><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&recipe.title),
            of(Outcome::Met),
            of(Outcome::NotMet),
            of(Outcome::NotMeasured),
            id = recipe.id,
        );
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(
        "<p class=\"soft small\">Figures: filled and hollow marks are measured, with the 95 % interval of the mean over the repetitions; \
         bold crosses are printed in the paper; thin lines are theory. An arrow marks runs that were cut at the time limit: the truth lies beyond, \
         where it points. Point at a mark for its number.</p>\n",
    );
}

fn experiment(out: &mut String, section: &Section<'_>, drawn: &[Drawn<'_>]) {
    let recipe = section.recipe;
    let _ = write!(
        out,
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"soft small\"><code>{}</code> · {}</p>\n<p>{}</p>\n",
        recipe.id,
        escape(&recipe.title),
        recipe.id,
        escape(&recipe.paper),
        escape(recipe.shows.trim()),
    );
    for one in drawn {
        let _ = writeln!(
            out,
            "<figure><figcaption>{}</figcaption><div class=\"wide\">{}</div>\
             <p class=\"small\"><a href=\"{file}.csv\">numbers (CSV)</a> · <a href=\"{file}.svg\">picture (SVG)</a></p></figure>",
            escape(&one.figure.title),
            one.chart.svg,
            file = one.file,
        );
    }
    if let Some(scores) = Scores::of(section) {
        let _ = write!(
            out,
            "<figure><figcaption>Every aim: blue where it is reached, bold and redder the further it is missed</figcaption>\
             <div class=\"wide\">{}</div><p class=\"small\"><a href=\"{id}-heat.csv\">numbers (CSV)</a> · \
             <a href=\"{id}-heat.svg\">picture (SVG)</a></p></figure>",
            scores.heat_map(),
            id = recipe.id,
        );
        out.push_str(&scores.html());
    }
    for wanted in &recipe.tables {
        let _ = writeln!(out, "<h3>{}</h3>", escape(&wanted.title));
        out.push_str(&table::html(section, wanted));
    }
    claims(out, section);
    let _ = write!(
        out,
        "<h3>How it was run</h3>\n<p>{}</p>\n<pre><code>ctcp lab run {id} --full\nctcp lab report</code></pre>\n",
        escape(recipe.setup.trim()),
        id = recipe.id,
    );
    fidelity(out, section);
    out.push_str("</section>\n");
}

fn claims(out: &mut String, section: &Section<'_>) {
    if section.recipe.claims.is_empty() {
        return;
    }
    out.push_str(
        "<h3>Claims</h3>\n<table class=\"claims\"><thead><tr><th>claim</th><th></th><th>found</th></tr></thead><tbody>",
    );
    for (claim, verdict) in section.recipe.claims.iter().zip(&section.verdicts) {
        let found = text::findings(section.recipe, claim, verdict);
        let found: Vec<String> = found.iter().map(|one| escape(one)).collect();
        let _ = write!(
            out,
            "<tr><td><b>{}</b> {}</td><td><span class=\"o {}\">{}</span></td><td>{}",
            escape(&claim.id),
            escape(&claim.text),
            class(verdict),
            verdict.outcome.text(),
            found.join("<br>"),
        );
        if !claim.note.is_empty() {
            let _ = write!(
                out,
                "<br><span class=\"soft small\">{}</span>",
                escape(&claim.note)
            );
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</tbody></table>\n");
}

const fn class(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        Outcome::Met => "met",
        Outcome::NotMet => "missed",
        Outcome::NotMeasured => "open",
    }
}

fn fidelity(out: &mut String, section: &Section<'_>) {
    let facts = facts(section.results.records());
    let _ = writeln!(
        out,
        "<p class=\"small soft\">{}</p>",
        escape(&facts.fidelity_text())
    );
    let missing = section.series_without_runs();
    if !missing.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"small soft\">No runs of: {}.</p>",
            escape(&missing.join(", "))
        );
    }
    let failed = section.results.failed();
    if !failed.is_empty() {
        let _ = write!(
            out,
            "<details><summary>{} run{} failed</summary><ul class=\"small\">",
            failed.len(),
            if failed.len() == 1 { "" } else { "s" }
        );
        for record in failed.iter().take(40) {
            let _ = write!(
                out,
                "<li>{}, {}: {}</li>",
                escape(&record.point.series),
                escape(&section.recipe.place(&record.point.at)),
                escape(record.error.as_deref().unwrap_or("no outcome")),
            );
        }
        out.push_str("</ul></details>\n");
    }
}

//! What the suite of the controllers found: a heat map, and every figure in a
//! table. A cell is the median over the seeds.

use std::fmt::Write as _;

use super::Section;
use super::markdown::cell;
use super::text::number;
use crate::claim::PlaceKey;
use crate::plot::escape;
use crate::record::{Record, Score};

/// Sizes of the map.
const LABEL_WIDTH: f64 = 310.0;
const CELL_WIDTH: f64 = 46.0;
const LINE_HEIGHT: f64 = 14.0;
const GAP: f64 = 24.0;
const HEAD_HEIGHT: f64 = 42.0;

/// From this share of an aim on it is nearly reached, and half.
const NEARLY: f64 = 0.9;
const HALF: f64 = 0.5;

/// Colours of the map, over those of the figures: what misses also stands in bold.
pub(super) const STYLE: &str = "\
svg.lab .m0{fill:var(--ctcp);fill-opacity:.16}svg.lab .m1{fill:var(--reno);fill-opacity:.22}\
svg.lab .m2{fill:var(--reno);fill-opacity:.45}svg.lab .m3{fill:var(--reno);fill-opacity:.72}\
svg.lab .tiny{font-size:10px}svg.lab .miss{font-weight:700}";

/// A figure in a situation, for every series.
struct Line {
    situation: String,
    figure: String,
    aim: Aim,
    cells: Vec<Option<Cell>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
    Shown,
}

#[derive(Clone, Copy)]
struct Cell {
    median: f64,
    least: f64,
    most: f64,
}

impl Aim {
    fn of(score: &Score) -> Self {
        match (score.at_least, score.at_most) {
            (Some(aim), _) => Self::AtLeast(aim),
            (None, Some(aim)) => Self::AtMost(aim),
            (None, None) => Self::Shown,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(aim) => format!("≥ {aim}"),
            Self::AtMost(aim) => format!("≤ {aim}"),
            Self::Shown => String::new(),
        }
    }

    /// How much of the aim is reached; 1 and more: all of it.
    fn share(self, value: f64) -> f64 {
        match self {
            Self::AtLeast(aim) => value / aim,
            Self::AtMost(_) if value <= 0.0 => f64::INFINITY,
            Self::AtMost(aim) => aim / value,
            Self::Shown => f64::INFINITY,
        }
    }

    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(aim) => value >= aim,
            Self::AtMost(aim) => value <= aim,
            Self::Shown => true,
        }
    }

    /// Class of the cell in the style sheet.
    fn class(self, value: f64) -> &'static str {
        match self.share(value) {
            _ if self.is_reached(value) => "m0",
            share if share >= NEARLY => "m1",
            share if share >= HALF => "m2",
            _ => "m3",
        }
    }
}

/// What a section has of the suite.
pub(super) struct Scores {
    series: Vec<String>,
    lines: Vec<Line>,
}

impl Scores {
    /// None if no run has scores.
    pub(super) fn of(section: &Section<'_>) -> Option<Self> {
        if !section.recipe.suite {
            return None;
        }
        let has_run = |name: &String| section.results.records().any(|r| r.point.series == *name);
        let names = section.recipe.series.iter().map(|one| one.name.clone());
        let series: Vec<String> = names.filter(has_run).collect();
        let mut lines = Vec::new();
        for place in section.results.places() {
            lines.extend(lines_at(section, &place, &series));
        }
        (!lines.is_empty()).then_some(Self { series, lines })
    }

    fn judged(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.aim != Aim::Shown)
    }

    /// Aims that each series reaches, and how many there are for it.
    fn tally(&self) -> Vec<(usize, usize)> {
        let of = |column: usize| {
            let cells = self
                .judged()
                .filter_map(|line| Some((line.aim, line.cells.get(column).copied()??)));
            cells.fold((0, 0), |(reached, all), (aim, cell)| {
                (reached + usize::from(aim.is_reached(cell.median)), all + 1)
            })
        };
        (0..self.series.len()).map(of).collect()
    }

    /// Every aim of every series, in two columns.
    pub(super) fn heat_map(&self) -> String {
        let lines: Vec<&Line> = self.judged().collect();
        let per_block = lines.len().div_ceil(2).max(1);
        let block_width = LABEL_WIDTH + CELL_WIDTH * self.series.len() as f64;
        let width = 2.0 * block_width + GAP;
        let height = HEAD_HEIGHT + LINE_HEIGHT * per_block as f64 + 6.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lab\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\" aria-label=\"Aims reached in each situation\"><style>{STYLE}</style>"
        );
        let tally = self.tally();
        for (block, part) in lines.chunks(per_block).enumerate() {
            let left = block as f64 * (block_width + GAP);
            for (column, (name, (reached, all))) in self.series.iter().zip(&tally).enumerate() {
                let x = left + LABEL_WIDTH + CELL_WIDTH * (column as f64 + 0.5);
                let _ = write!(
                    out,
                    "<text x=\"{x:.1}\" y=\"14\" class=\"head\" text-anchor=\"middle\">{}</text>\
                     <text x=\"{x:.1}\" y=\"30\" class=\"soft tiny\" text-anchor=\"middle\">{reached}/{all}</text>",
                    escape(name)
                );
            }
            for (index, line) in part.iter().enumerate() {
                let top = HEAD_HEIGHT + LINE_HEIGHT * index as f64;
                let before = index.checked_sub(1).and_then(|before| part.get(before));
                let is_new = before.is_none_or(|other| other.situation != line.situation);
                self.draw_line(&mut out, line, (left, top), is_new);
            }
        }
        out.push_str("</svg>");
        out
    }

    fn draw_line(&self, out: &mut String, line: &Line, (left, top): (f64, f64), is_new: bool) {
        let base = top + 10.5;
        if is_new {
            let _ = write!(
                out,
                "<text x=\"{left:.1}\" y=\"{base:.1}\" class=\"tiny\">{}</text>",
                escape(&line.situation)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{base:.1}\" class=\"soft tiny\" text-anchor=\"end\">{} {}</text>",
            left + LABEL_WIDTH - 6.0,
            escape(&line.figure),
            escape(&line.aim.text()),
        );
        for (column, cell) in line.cells.iter().enumerate() {
            let Some(cell) = cell else {
                continue;
            };
            let x = left + LABEL_WIDTH + CELL_WIDTH * column as f64;
            let class = line.aim.class(cell.median);
            let weight = if class == "m0" { "" } else { " miss" };
            let value = number(cell.median);
            let _ = write!(
                out,
                "<g><title>{}, {}, {} {}: {value} ({} to {})</title>\
                 <rect class=\"{class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{base:.1}\" class=\"tiny{weight}\" text-anchor=\"middle\">{value}</text></g>",
                escape(&self.series[column]),
                escape(&line.situation),
                escape(&line.figure),
                escape(&line.aim.text()),
                number(cell.least),
                number(cell.most),
                x + 0.5,
                CELL_WIDTH - 1.0,
                LINE_HEIGHT - 1.0,
                x + CELL_WIDTH / 2.0,
            );
        }
    }

    /// All figures with their spread.
    pub(super) fn csv(&self) -> String {
        let mut out = String::from("situation,figure,aim,series,median,least,most,reached\n");
        for line in &self.lines {
            for (name, cell) in self.series.iter().zip(&line.cells) {
                if let Some(cell) = cell {
                    let _ = writeln!(
                        out,
                        "\"{}\",{},{},{name},{},{},{},{}",
                        line.situation,
                        line.figure,
                        line.aim.text(),
                        cell.median,
                        cell.least,
                        cell.most,
                        line.aim.is_reached(cell.median),
                    );
                }
            }
        }
        out
    }

    /// The table for the page.
    pub(super) fn html(&self) -> String {
        let mut out = String::from(
            "<details><summary>All figures, with the least and the most of the seeds</summary>\
             <div class=\"wide\"><table><thead><tr><th>situation</th><th>figure</th><th>aim</th>",
        );
        for name in &self.series {
            let _ = write!(out, "<th>{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>");
        for line in &self.lines {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td>",
                escape(&line.situation),
                escape(&line.figure),
                escape(&line.aim.text())
            );
            for cell in &line.cells {
                let _ = write!(out, "<td>{}</td>", cell_text(line.aim, cell.as_ref()));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div></details>\n");
        out
    }

    /// The table for the repository: figures that are judged.
    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("\n| situation | figure | aim |");
        for name in &self.series {
            let _ = write!(out, " {} |", cell(name));
        }
        out.push_str("\n|---|---|---|");
        out.push_str(&"---|".repeat(self.series.len()));
        for line in self.judged() {
            let (situation, figure) = (cell(&line.situation), cell(&line.figure));
            let _ = write!(out, "\n| {situation} | {figure} | {} |", line.aim.text());
            for one in &line.cells {
                let _ = write!(out, " {} |", cell_text(line.aim, one.as_ref()));
            }
        }
        out.push_str("\n| aims reached | | |");
        for (reached, all) in self.tally() {
            let _ = write!(out, " {reached} of {all} |");
        }
        out.push_str("\n\n`!` misses its aim; in brackets the least and the most of the seeds.\n");
        out
    }
}

/// `0.944 ! (0.943–0.946)`
fn cell_text(aim: Aim, cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return String::new();
    };
    let mark = if aim.is_reached(cell.median) {
        ""
    } else {
        " !"
    };
    let (median, least, most) = (number(cell.median), number(cell.least), number(cell.most));
    match least == most {
        true => format!("{median}{mark}"),
        false => format!("{median}{mark} ({least}–{most})"),
    }
}

/// The figures of a situation, in the order in which the suite gives them.
fn lines_at(section: &Section<'_>, place: &PlaceKey, series: &[String]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let situation = section.recipe.sweep_by_axis(crate::suite::AXIS);
    let at = place.at();
    let situation = situation.map_or_else(String::new, |sweep| {
        at.get(crate::suite::AXIS)
            .map_or_else(String::new, |at| sweep.value(*at))
    });
    for (column, name) in series.iter().enumerate() {
        let records = section.results.at(name, place);
        let Some(first) = scores(records).next() else {
            continue;
        };
        for score in first {
            let values = scores(records)
                .filter_map(|all| all.iter().find(|one| one.figure == score.figure))
                .map(|one| one.value);
            let found = lines.iter().position(|line| line.figure == score.figure);
            let line = found.unwrap_or_else(|| {
                lines.push(Line {
                    situation: situation.clone(),
                    figure: score.figure.clone(),
                    aim: Aim::of(score),
                    cells: vec![None; series.len()],
                });
                lines.len() - 1
            });
            lines[line].cells[column] = cell_of(values.collect());
        }
    }
    lines
}

fn scores<'a>(records: &'a [&'a Record]) -> impl Iterator<Item = &'a [Score]> {
    let flows = records.iter().filter_map(|record| record.flows.first());
    flows.map(|flow| flow.scores.as_slice())
}

fn cell_of(mut values: Vec<f64>) -> Option<Cell> {
    values.sort_by(f64::total_cmp);
    Some(Cell {
        median: *values.get(values.len() / 2)?,
        least: *values.first()?,
        most: *values.last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Results;
    use crate::point::System;
    use crate::recipe::Recipe;
    use crate::record::FlowOutcome;
    use crate::testbed::test_support::point;

    fn record(series: &str, seed: u32, value: f64) -> Record {
        let mut point = point();
        point.experiment = "control-suite".into();
        point.series = series.into();
        point.repetition = seed;
        point.at = [(crate::suite::AXIS.to_owned(), 0.0)].into();
        point.flows[0].system = System::Suite {
            contestant: series.into(),
            row: "steady 0 %".into(),
            is_quick: false,
        };
        let score = Score {
            figure: "ratio".into(),
            value,
            at_least: Some(0.98),
            at_most: None,
        };
        Record {
            point,
            started_at: String::new(),
            elapsed_s: 0.0,
            provenance: Default::default(),
            fidelity: None,
            flows: vec![FlowOutcome {
                scores: vec![score],
                ..FlowOutcome::default()
            }],
            paths: vec![],
            error: None,
        }
    }

    #[test]
    fn a_cell_is_the_median_of_the_seeds_and_says_whether_it_misses() {
        let records = [
            record("auto", 0, 0.99),
            record("auto", 1, 0.2),
            record("auto", 2, 0.985),
            record("cc14", 0, 0.5),
        ];
        let recipe = Recipe::by_id("control-suite").expect("embedded");
        let section = Section {
            recipe,
            results: Results::new(&records),
            verdicts: vec![],
        };
        let scores = Scores::of(&section).expect("there are scores");
        let text = scores.markdown();
        let line = "| steady 0 % | ratio | ≥ 0.98 | 0.985 (0.200–0.990) | 0.500 ! |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("| 1 of 1 | 0 of 1 |"), "{text}");
        let map = scores.heat_map();
        assert!(map.contains("class=\"m0\"") && map.contains("class=\"m2\""));
        assert!(
            scores
                .csv()
                .contains("\"steady 0 %\",ratio,≥ 0.98,cc14,0.5,0.5,0.5,false")
        );
    }

    #[test]
    fn colours_tell_how_far_an_aim_is() {
        let most = Aim::AtMost(10.0);
        let classes = [9.0, 10.5, 19.0, 21.0].map(|value| most.class(value));
        assert_eq!(classes, ["m0", "m1", "m2", "m3"]);
        assert_eq!(Aim::AtMost(0.0).class(-1.0), "m0");
        assert_eq!(Aim::AtLeast(0.9).class(0.1), "m3");
    }
}

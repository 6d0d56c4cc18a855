//! Scores as a table and as JSON lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use crate::measure::{Aim, Score};

/// One score as a line of JSON.
pub fn json_line(score: &Score) -> String {
    let (aim, bound) = match score.aim {
        Aim::AtLeast(aim) => (Some(aim), "at_least"),
        Aim::AtMost(aim) => (Some(aim), "at_most"),
        Aim::Shown => (None, "shown"),
    };
    json!({
        "row": score.row,
        "figure": score.figure,
        "contestant": score.contestant,
        "seed": score.seed,
        "value": score.value,
        "bound": bound,
        "aim": aim,
        "is_reached": score.is_reached(),
    })
    .to_string()
}

/// A table in Markdown: a line a figure, a column a contestant, each cell the
/// median over the seeds. A cell that misses its aim carries a `!`. The last
/// line counts the aims reached.
pub fn markdown(scores: &[Score]) -> String {
    let mut contestants: Vec<&str> = Vec::new();
    let mut lines: Vec<(&str, &str, Aim)> = Vec::new();
    let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for score in scores {
        let column = place(&mut contestants, score.contestant.as_str());
        let key = (score.row.as_str(), score.figure, score.aim);
        let line = place(&mut lines, key);
        cells.entry((line, column)).or_default().push(score.value);
    }
    let mut text = String::from("| situation | figure | aim |");
    for name in &contestants {
        let _ = write!(text, " {name} |");
    }
    text.push_str("\n|---|---|---|");
    text.push_str(&"---|".repeat(contestants.len()));
    text.push('\n');
    let mut reached = vec![0; contestants.len()];
    let mut judged = 0;
    for (line, (row, figure, aim)) in lines.iter().enumerate() {
        let aim_text = match aim {
            Aim::AtLeast(aim) => format!("≥ {aim}"),
            Aim::AtMost(aim) => format!("≤ {aim}"),
            Aim::Shown => String::new(),
        };
        judged += usize::from(*aim != Aim::Shown);
        let _ = write!(text, "| {row} | {figure} | {aim_text} |");
        for (column, count) in reached.iter_mut().enumerate() {
            let value = cells
                .get(&(line, column))
                .map_or(f64::NAN, |all| median(all));
            let is_reached = match aim {
                Aim::AtLeast(aim) => value >= *aim,
                Aim::AtMost(aim) => value <= *aim,
                Aim::Shown => true,
            };
            *count += usize::from(is_reached && *aim != Aim::Shown);
            let mark = if is_reached { "" } else { " !" };
            let _ = write!(text, " {value:.3}{mark} |");
        }
        text.push('\n');
    }
    let _ = write!(text, "| aims reached | of {judged} | |");
    for count in reached {
        let _ = write!(text, " {count} |");
    }
    text.push('\n');
    text
}

fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    match list.iter().position(|one| *one == item) {
        Some(place) => place,
        None => {
            list.push(item);
            list.len() - 1
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(value: f64, seed: u64) -> Score {
        Score {
            row: "a".to_owned(),
            figure: "ratio",
            contestant: "auto".to_owned(),
            seed,
            value,
            aim: Aim::AtLeast(0.9),
        }
    }

    #[test]
    fn a_cell_is_the_median_and_says_whether_it_misses() {
        let text = markdown(&[score(0.95, 1), score(0.2, 2), score(0.91, 3)]);
        assert!(text.contains("| a | ratio | ≥ 0.9 | 0.910 |"), "{text}");
        let text = markdown(&[score(0.2, 1)]);
        assert!(text.contains("0.200 !"), "{text}");
        assert!(text.contains("| aims reached | of 1 | | 0 |"), "{text}");
    }

    #[test]
    fn json_says_whether_the_aim_is_reached() {
        let line = json_line(&score(0.5, 7));
        assert!(line.contains("\"is_reached\":false") && line.contains("\"seed\":7"));
    }
}

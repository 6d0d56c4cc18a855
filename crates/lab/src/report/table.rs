//! Tables of a recipe: a row for each series, a column for each metric and place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markdown::cell;
use super::{Section, text};
use crate::claim::{Metric, PlaceKey};
use crate::plot::{Table, escape};
use crate::recipe::trimmed;

/// What stands in a table, before any markup.
struct Content {
    /// Each metric with the number of its columns.
    groups: Vec<(String, usize)>,
    /// Where the columns stand on the sweep.
    places: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

fn content(section: &Section<'_>, table: &Table) -> Content {
    let mut columns: Vec<(Metric, f64)> = Vec::new();
    let places: Vec<BTreeMap<String, f64>> = section
        .results
        .places()
        .iter()
        .map(PlaceKey::at)
        .filter(|at| table.only.admit(at))
        .collect();
    for metric in &table.metrics {
        for at in &places {
            if let Some(&value) = at.get(&table.columns)
                && !columns.contains(&(*metric, value))
            {
                columns.push((*metric, value));
            }
        }
    }
    let groups = table.metrics.iter().map(|metric| {
        let (name, unit) = (metric.name(), metric.unit());
        let comma = if unit.is_empty() { "" } else { ", " };
        let width = columns.iter().filter(|column| column.0 == *metric).count();
        (format!("{name}{comma}{unit}"), width)
    });
    let sweep = section.recipe.sweep_by_axis(&table.columns);
    let places_named = columns
        .iter()
        .map(|(_, value)| sweep.map_or_else(|| trimmed(*value), |sweep| sweep.describe(*value)));
    let rows = section.recipe.series.iter().filter_map(|series| {
        let cells: Vec<String> = columns
            .iter()
            .map(|(metric, value)| {
                let here = places
                    .iter()
                    .find(|at| at.get(&table.columns) == Some(value));
                let found = here.and_then(|at| {
                    let place = PlaceKey::new(at);
                    section.results.estimate(*metric, &series.name, "", &place)
                });
                found.map_or(String::new(), |found| text::estimate(&found))
            })
            .collect();
        let is_empty = cells.iter().all(String::is_empty);
        (!is_empty).then(|| (series.name.clone(), cells))
    });
    Content {
        groups: groups.collect(),
        places: places_named.collect(),
        rows: rows.collect(),
    }
}

/// For the page.
pub(super) fn html(section: &Section<'_>, table: &Table) -> String {
    let content = content(section, table);
    let mut out = String::from("<div class=\"wide\"><table><thead><tr><th></th>");
    for (name, width) in &content.groups {
        let _ = write!(out, "<th colspan=\"{width}\">{}</th>", escape(name));
    }
    out.push_str("</tr><tr><th></th>");
    for place in &content.places {
        let _ = write!(out, "<th>{}</th>", escape(place));
    }
    out.push_str("</tr></thead><tbody>");
    for (name, cells) in &content.rows {
        let _ = write!(out, "<tr><td>{}</td>", escape(name));
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// For the repository.
pub(super) fn markdown(section: &Section<'_>, table: &Table) -> String {
    let content = content(section, table);
    let mut out = format!("\n{}\n\n| |", table.title);
    let names = content
        .groups
        .iter()
        .flat_map(|(name, width)| vec![name; *width]);
    for (name, place) in names.zip(&content.places) {
        let _ = write!(out, " {}, {} |", cell(name), cell(place));
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(content.places.len()));
    for (name, cells) in &content.rows {
        let _ = write!(out, "\n| {} |", cell(name));
        for one in cells {
            let _ = write!(out, " {} |", cell(one));
        }
    }
    out.push('\n');
    out
}

//! Tables: one row per flow of a point, means over its repetitions.

use core::fmt::Write;

use serde_json::{Value, json};

use crate::file::{Batch, Setting};
use crate::report::{FlowReport, LinkReport, Report};
use crate::scenario::ScenarioError;
use crate::stats::Estimate;

/// Results of one point of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct PointResult {
    /// What the sweep set.
    pub settings: Vec<Setting>,
    /// The repetitions, in the order of their seeds.
    pub reports: Vec<Report>,
}

impl Batch {
    /// Runs everything over all cores; results come in the file's order.
    ///
    /// # Errors
    /// [`ScenarioError`] of the first run that is impossible.
    pub fn run(&self) -> Result<Vec<PointResult>, ScenarioError> {
        let runs: Vec<_> = self
            .points
            .iter()
            .flat_map(|point| point.runs.iter().cloned())
            .collect();
        let mut reports = crate::scenario::run_all(&runs).into_iter();
        self.points
            .iter()
            .map(|point| {
                Ok(PointResult {
                    settings: point.settings.clone(),
                    reports: reports
                        .by_ref()
                        .take(point.runs.len())
                        .collect::<Result<_, _>>()?,
                })
            })
            .collect()
    }
}

/// A quantity of a flow: name with unit, value, decimals.
struct Column {
    name: &'static str,
    value: fn(&FlowReport) -> Option<f64>,
    decimals: usize,
}

const COLUMNS: &[Column] = &[
    Column {
        name: "goodput_mbit",
        value: |flow| Some(flow.goodput_bits / 1e6),
        decimals: 3,
    },
    Column {
        name: "throughput_mbit",
        value: |flow| Some(flow.throughput_bits / 1e6),
        decimals: 3,
    },
    Column {
        name: "tokens",
        value: |flow| Some(flow.tokens_mean),
        decimals: 1,
    },
    Column {
        name: "srtt_ms",
        value: |flow| flow.srtt_mean.map(|span| span.as_secs_f64() * 1e3),
        decimals: 2,
    },
    Column {
        name: "loss_percent",
        value: |flow| Some(flow.loss_seen * 100.0),
        decimals: 2,
    },
    Column {
        name: "resent",
        value: |flow| Some(flow.retransmissions as f64),
        decimals: 0,
    },
    Column {
        name: "coded",
        value: |flow| Some(flow.coded_packets as f64),
        decimals: 0,
    },
    Column {
        name: "useless",
        value: |flow| Some(flow.useless_packets as f64),
        decimals: 0,
    },
    Column {
        name: "timeouts",
        value: |flow| Some(flow.timeouts as f64),
        decimals: 0,
    },
    Column {
        name: "timeout_s",
        value: |flow| Some(flow.time_in_timeout.as_secs_f64()),
        decimals: 2,
    },
    Column {
        name: "completion_s",
        value: FlowReport::completion_mean,
        decimals: 3,
    },
    Column {
        name: "stalls",
        value: |flow| flow.video.map(|video| video.stalls as f64),
        decimals: 0,
    },
    Column {
        name: "playout_s",
        value: |flow| flow.video?.playout.map(|span| span.as_secs_f64()),
        decimals: 2,
    },
];

/// The table: columns without any value are left out. A mean of several runs
/// carries half of its 95 % confidence interval.
pub fn table(results: &[PointResult]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let used: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| {
            flows(results).any(|flow| (column.value)(flow).is_some_and(|value| value != 0.0))
        })
        .collect();
    let keys: Vec<String> = results
        .first()
        .map(|point| {
            let settings = point.settings.iter();
            settings.map(|setting| short(&setting.key)).collect()
        })
        .unwrap_or_default();
    let mut head = keys;
    head.push("flow".to_owned());
    head.extend(used.iter().map(|column| column.name.to_owned()));
    head.push("done".to_owned());
    rows.push(head);
    for point in results {
        let Some(first) = point.reports.first() else {
            continue;
        };
        for (index, flow) in first.flows.iter().enumerate() {
            let mut row: Vec<String> = point.settings.iter().map(Setting::shown).collect();
            row.push(flow.name.clone());
            for column in &used {
                let values: Vec<f64> = point
                    .reports
                    .iter()
                    .filter_map(|report| (column.value)(&report.flows[index]))
                    .collect();
                row.push(cell(&values, column.decimals));
            }
            row.push(match flow.is_finite {
                false => "-".to_owned(),
                true => {
                    let done = point.reports.iter();
                    let done = done.filter(|report| report.flows[index].is_done).count();
                    format!("{done}/{}", point.reports.len())
                }
            });
            rows.push(row);
        }
    }
    aligned(&rows)
}

fn flows(results: &[PointResult]) -> impl Iterator<Item = &FlowReport> {
    results
        .iter()
        .flat_map(|point| &point.reports)
        .flat_map(|report| &report.flows)
}

/// The last two parts of a key are enough to tell it.
fn short(key: &str) -> String {
    let parts: Vec<&str> = key.rsplitn(3, '.').collect();
    match parts.as_slice() {
        [last, before, ..] => format!("{before}.{last}"),
        _ => key.to_owned(),
    }
}

fn cell(values: &[f64], decimals: usize) -> String {
    match Estimate::of(values) {
        None => "-".to_owned(),
        Some(Estimate {
            mean,
            half_width: Some(half),
            ..
        }) => format!("{mean:.decimals$} ± {half:.decimals$}"),
        Some(Estimate { mean, .. }) => format!("{mean:.decimals$}"),
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:>width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// One line per run and flow, after a line of column names.
pub fn csv(results: &[PointResult]) -> String {
    let mut text = String::new();
    let keys: Vec<&str> = results
        .first()
        .map(|point| {
            let settings = point.settings.iter();
            settings.map(|setting| setting.key.as_str()).collect()
        })
        .unwrap_or_default();
    for key in &keys {
        let _ = write!(text, "{},", quoted(key));
    }
    text.push_str("seed,flow,ended,done,bytes_in_order,bytes_sent");
    for column in COLUMNS {
        let _ = write!(text, ",{}", column.name);
    }
    text.push('\n');
    for point in results {
        for report in &point.reports {
            for flow in &report.flows {
                for setting in &point.settings {
                    let _ = write!(text, "{},", quoted(&setting.shown()));
                }
                let _ = write!(
                    text,
                    "{},{},{},{},{},{}",
                    report.seed,
                    quoted(&flow.name),
                    report.ended.as_str(),
                    flow.is_done,
                    flow.bytes_in_order,
                    flow.bytes_sent
                );
                for column in COLUMNS {
                    match (column.value)(flow) {
                        Some(value) => {
                            let _ = write!(text, ",{value}");
                        }
                        None => text.push(','),
                    }
                }
                text.push('\n');
            }
        }
    }
    text
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// One JSON object per run, on a line of its own.
pub fn json_lines(results: &[PointResult]) -> String {
    let mut text = String::new();
    for point in results {
        let settings: serde_json::Map<String, Value> = point
            .settings
            .iter()
            .map(|setting| (setting.key.clone(), Value::String(setting.shown())))
            .collect();
        for report in &point.reports {
            let line = json!({
                "name": report.name,
                "settings": settings,
                "seed": report.seed,
                "ended": report.ended.as_str(),
                "simulated_s": report.simulated.as_secs_f64(),
                "packet_events": report.packet_events,
                "notes": report.notes(),
                "flows": report.flows.iter().map(flow_json).collect::<Vec<_>>(),
                "links": report.links.iter().map(link_json).collect::<Vec<_>>(),
            });
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn flow_json(flow: &FlowReport) -> Value {
    let mut object = json!({
        "name": flow.name,
        "measured_s": flow.measured.as_secs_f64(),
        "bytes_in_order": flow.bytes_in_order,
        "bytes_sent": flow.bytes_sent,
        "bytes_returned": flow.bytes_returned,
        "packets_sent": flow.packets_sent,
        "packets_received": flow.packets_received,
        "data_packets": flow.data_packets,
        "recovered": flow.recovered_packets,
        "backoffs": flow.backoffs,
        "marked": flow.marked_packets,
        "is_finite": flow.is_finite,
        "is_done": flow.is_done,
        "completions": flow.completions.iter().map(|one| json!({
            "at_s": one.asked_at.as_secs_f64(),
            "span_s": one.span().as_secs_f64(),
            "bytes": one.bytes,
        })).collect::<Vec<_>>(),
        "samples": flow.samples.iter().map(|one| json!([
            one.at.as_secs_f64(),
            one.tokens,
            one.srtt.map(|span| span.as_secs_f64() * 1e3),
            one.goodput_bits / 1e6,
            one.loss,
        ])).collect::<Vec<_>>(),
    });
    for column in COLUMNS {
        object[column.name] = json!((column.value)(flow));
    }
    object
}

fn link_json(link: &LinkReport) -> Value {
    let counters = &link.counters;
    json!({
        "name": link.name,
        "offered": counters.offered,
        "lost": counters.lost(),
        "dropped": counters.dropped(),
        "marked": counters.marked,
        "delivered": counters.delivered,
        "delivered_bytes": counters.delivered_bytes,
        "queue_packets_max": counters.queue_packets_max,
        "queueing_delay_mean_ms": counters.queueing_delay_mean().as_secs_f64() * 1e3,
        "samples": link.samples.iter().map(|one| json!([
            one.at.as_secs_f64(),
            one.queue_packets,
        ])).collect::<Vec<_>>(),
    })
}

//! What links have seen, as tables and as JSON.

use ctcp_emu::{LinkCounters, Network, NetworkError, RouterCounters};
use serde_json::{Map, Value, json};

fn link_rows(link: &LinkCounters) -> [(&'static str, u64); 12] {
    [
        ("offered", link.offered),
        ("lost_before", link.lost_before),
        ("lost_after", link.lost_after),
        ("dropped_queue", link.dropped_queue),
        ("dropped_too_long", link.dropped_too_long),
        ("dropped_link_full", link.dropped_link_full),
        ("duplicated", link.duplicated),
        ("corrupted", link.corrupted),
        ("reordered", link.reordered),
        ("marked", link.marked),
        ("delivered", link.delivered),
        ("delivered_bytes", link.delivered_bytes),
    ]
}

/// The counts of one link as an object.
pub(super) fn link_json(link: &LinkCounters) -> Value {
    let rows = link_rows(link).into_iter();
    Value::Object(
        rows.map(|(name, count)| (name.to_owned(), count.into()))
            .collect(),
    )
}

/// The counts of a path's two links, a line each.
pub(super) fn link_table(up: &LinkCounters, down: &LinkCounters) -> Vec<String> {
    let rows = link_rows(up).into_iter().zip(link_rows(down));
    rows.map(|((name, up), (_, down))| format!("{name:<24}{up:>14}{down:>14}"))
        .collect()
}

/// The links of path `index`, whose links stand side by side.
fn links(counters: &RouterCounters, index: usize) -> (&LinkCounters, &LinkCounters) {
    (&counters.links[2 * index], &counters.links[2 * index + 1])
}

/// All that the router of a network has seen, on one line.
///
/// # Errors
/// The router has ended.
pub(super) fn network_json(network: &Network) -> Result<Value, NetworkError> {
    let mut line = router_json(&network.router().counters()?);
    for index in 0..network.paths().len() {
        let (left, right) = network.missed(index)?;
        line["paths"][index]["up"]["missed"] = left.into();
        line["paths"][index]["down"]["missed"] = right.into();
    }
    Ok(line)
}

fn router_json(counters: &RouterCounters) -> Value {
    let paths = counters.paths.iter().enumerate().map(|(index, path)| {
        let (up, down) = links(counters, index);
        let mut row = Map::new();
        for (direction, link) in [("up", up), ("down", down)] {
            let mut link_row = link_json(link);
            link_row["queue_packets"] = link.queue_packets.into();
            link_row["queue_bytes"] = link.queue_bytes.into();
            let wait = link.queueing_delay_mean().as_secs_f64() * 1e3;
            link_row["queueing_delay_mean_ms"] = wait.into();
            row.insert(direction.to_owned(), link_row);
        }
        row.insert("dropped_down".to_owned(), path.dropped_down.into());
        row.insert("write_errors".to_owned(), path.write_errors.into());
        Value::Object(row)
    });
    let micros = |span: std::time::Duration| span.as_secs_f64() * 1e6;
    json!({
        "seconds": counters.age.as_secs_f64(),
        "paths": paths.collect::<Vec<_>>(),
        "timing": {
            "p50_us": micros(counters.timing.p50),
            "p99_us": micros(counters.timing.p99),
            "max_us": micros(counters.timing.max),
            "late": counters.timing.late,
        },
        "busy_share": counters.busy.as_secs_f64() / counters.age.as_secs_f64().max(1e-9),
    })
}

/// The same for people.
///
/// # Errors
/// The router has ended.
pub(super) fn network_table(network: &Network) -> Result<Vec<String>, NetworkError> {
    let counters = &network.router().counters()?;
    let mut lines = Vec::new();
    for index in 0..counters.paths.len() {
        let (up, down) = links(counters, index);
        let title = format!("path {index}, packets");
        lines.push(format!("{title:<24}{:>14}{:>14}", "up", "down"));
        lines.extend(link_table(up, down));
        let (left, right) = network.missed(index)?;
        lines.push(format!("{:<24}{left:>14}{right:>14}", "missed"));
    }
    let timing = &counters.timing;
    lines.push(format!(
        "late by    half {:?}, 99 % {:?}, most {:?}; {} packets by more than {:?}",
        timing.p50,
        timing.p99,
        timing.max,
        timing.late,
        ctcp_emu::LATE,
    ));
    Ok(lines)
}

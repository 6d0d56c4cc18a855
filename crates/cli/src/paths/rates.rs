//! What each path carries, second by second: lines on stderr with `-v`, objects on
//! stdout with `--json`.

use std::collections::BTreeMap;
use std::time::Duration;

use ctcp::{Connection, PathId, PathStats};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{Level, enabled, info};

use super::keeper::Labels;
use crate::output;

/// How often rates are shown.
const PERIOD: Duration = Duration::from_secs(1);

/// What paths had carried when they were looked at.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    before: BTreeMap<PathId, (u64, u64)>,
    at: Option<Instant>,
}

/// A path and its rates since the last look, Mbit/s of UDP payload.
#[derive(Debug, Clone)]
pub(crate) struct Rated {
    pub(crate) label: String,
    pub(crate) stats: PathStats,
    pub(crate) down_mbit: f64,
    /// Acknowledged, not merely sent.
    pub(crate) up_mbit: f64,
}

impl Meter {
    /// The rates since the last call; none at the first.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        paths: Vec<PathStats>,
        labels: &Labels,
    ) -> Vec<Rated> {
        let span = self.at.map(|at| (now - at).as_secs_f64());
        let before = std::mem::take(&mut self.before);
        self.at = Some(now);
        for path in &paths {
            let carried = (path.bytes.received, path.bytes.acknowledged);
            self.before.insert(path.id, carried);
        }
        let Some(span) = span.filter(|span| *span > 0.0) else {
            return Vec::new();
        };
        let rated = paths.into_iter().map(|stats| {
            let (received, acknowledged) = before.get(&stats.id).copied().unwrap_or((0, 0));
            let mbit = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8e-6 / span;
            Rated {
                label: labels.of(stats.id),
                down_mbit: mbit(stats.bytes.received, received),
                up_mbit: mbit(stats.bytes.acknowledged, acknowledged),
                stats,
            }
        });
        rated.collect()
    }
}

impl Rated {
    fn millis(span: Option<Duration>) -> f64 {
        span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self {
            label,
            stats,
            down_mbit,
            up_mbit,
        } = self;
        format!(
            "path {label:<15} {:<8} down {down_mbit:>8.3}  up {up_mbit:>8.3} Mbit/s  \
             srtt {:>6.1} ms (min {:.1})  loss {:.2} %  tokens {:.0}",
            stats.state.to_string(),
            Self::millis(stats.srtt),
            Self::millis(stats.rtt_min),
            stats.loss_rate * 100.0,
            stats.controller.tokens,
        )
    }

    /// The same for programs. Names are those of the fields of the statistics.
    pub(crate) fn json(&self) -> Value {
        let stats = &self.stats;
        json!({
            "path": self.label,
            "id": stats.id.0,
            "local": stats.local.map(|local| local.to_string()),
            "remote": stats.remote.to_string(),
            "state": stats.state.to_string(),
            "is_backup": stats.is_backup,
            "cost": stats.cost,
            "congestion": stats.congestion,
            "down_mbit": self.down_mbit,
            "up_mbit": self.up_mbit,
            "bytes_received": stats.bytes.received,
            "bytes_acknowledged": stats.bytes.acknowledged,
            "bytes_sent": stats.bytes.sent,
            "packets_sent": stats.packets_sent,
            "packets_lost": stats.packets_lost,
            "srtt_ms": stats.srtt.map(|span| span.as_secs_f64() * 1e3),
            "rtt_min_ms": stats.rtt_min.map(|span| span.as_secs_f64() * 1e3),
            "loss_rate": stats.loss_rate,
            "in_flight": stats.in_flight,
            "tokens": stats.controller.tokens,
            "mtu": stats.mtu,
        })
    }

    /// Whether it is worth a line: something moved, or the path is not at rest.
    fn is_news(&self) -> bool {
        self.down_mbit + self.up_mbit > 0.001
    }
}

/// Shows the rates of whatever connection there is, if somebody asked for them.
/// Never ends otherwise.
pub(crate) async fn show(is_json: bool, current: impl Fn() -> Option<(Connection, Labels)>) {
    let is_told = enabled!(Level::INFO);
    if !is_told && !is_json {
        return std::future::pending().await;
    }
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut meter = Meter::default();
    loop {
        ticks.tick().await;
        let Some((connection, labels)) = current() else {
            meter = Meter::default();
            continue;
        };
        let rated = meter.look(Instant::now(), connection.paths(), &labels);
        if !rated.iter().any(Rated::is_news) {
            continue;
        }
        if is_told {
            for path in &rated {
                info!("{}", path.line());
            }
        }
        if is_json {
            let paths: Vec<_> = rated.iter().map(Rated::json).collect();
            output::print_line(&json!({ "paths": paths }).to_string());
        }
    }
}

//! `ctcp ping`: what the paths to the server look like.

use std::time::Duration;

use clap::Args;
use ctcp::{Connection, PathId, PathState, PingLog, PingReport};
use ctcp_proxy::speedtest::{BYTES_MAX, Direction, Speedtest};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::client::ServerArgs;
use crate::config::ConfigArgs;
use crate::dial::{FAREWELL, Session};
use crate::failure::{Exit, Failure};
use crate::output::{notice, print_line};
use crate::{speedtest, values};

/// Shortest pause between pings.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Longest, so that the connection does not look idle.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// More pings, sent at the end, whose answers tell of the last ones: each within
/// this time at least, until all is known.
const CLOSERS: usize = 5;
const CLOSER_PAUSE_MIN: Duration = Duration::from_millis(200);

/// Arguments of `ctcp ping`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PingArgs {
    /// Pings on each path
    #[arg(long, value_name = "N", default_value_t = 20, env = "CTCP_PING_COUNT",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Pause between them
    #[arg(long, value_name = "TIME", default_value = "100ms", env = "CTCP_PING_INTERVAL",
          value_parser = pause)]
    interval: Duration,
    /// End after this time, however many were sent
    #[arg(long, value_name = "TIME", env = "CTCP_PING_TIME", value_parser = values::duration)]
    time: Option<Duration>,
    /// Find the usable rate of each path, too, by moving data for this long each way
    #[arg(long, value_name = "TIME", env = "CTCP_PING_RATE", value_parser = speedtest::time)]
    rate: Option<Duration>,
    /// Print an object for each path
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

fn pause(text: &str) -> Result<Duration, String> {
    let pause = values::duration(text)?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&pause) {
        return Ok(pause);
    }
    Err(format!(
        "`{text}` is no pause between pings: write 10ms to 10s"
    ))
}

/// What is known of one path.
#[derive(Debug)]
struct Row {
    path: PathId,
    label: String,
    remote: String,
    report: PingReport,
    /// What it carried while data moved, bits per second.
    rate_out: Option<f64>,
    rate_back: Option<f64>,
}

/// Pings every path, then tells what became of it.
pub(crate) async fn run(args: PingArgs) -> Result<(), Failure> {
    let dialer = args.server.dialer()?;
    let session = dialer.session().await?;
    let log = PingLog::default();
    session.connection.set_trace(Box::new(log.clone()));
    if !args.json {
        notice(format_args!("pinging {}", dialer.server.address));
    }
    let mut result = ping_all(&session.connection, &log, &args).await;
    let mut rows = rows(&session, &log, args.count as usize);
    if let Some(time) = args.rate.filter(|_| result.is_ok()) {
        // Data needs no such log.
        session.connection.set_trace(Box::new(PingLog::default()));
        result = add_rates(&session, &mut rows, time).await;
    }
    if args.json {
        rows.iter()
            .for_each(|row| print_line(&object(row).to_string()));
    } else {
        print_line(table(&rows).trim_end());
    }
    session.close("done", FAREWELL).await;
    result?;
    if rows.iter().all(|row| row.report.answered() == 0) {
        return Err(Failure::new(
            Exit::NoAnswer,
            "the server answered the handshake, then no ping: the path has broken",
        ));
    }
    Ok(())
}

/// Moves data each way, and enters what each path carried of it.
async fn add_rates(session: &Session, rows: &mut [Row], time: Duration) -> Result<(), Failure> {
    for direction in [Direction::Up, Direction::Down] {
        let test = Speedtest {
            direction,
            time,
            bytes: BYTES_MAX,
        };
        let found = speedtest::measure(session, test).await?;
        for row in &mut *rows {
            let carried = found.paths.iter().find(|path| path.path == row.path);
            let rate = carried.map(|path| path.bits_per_second());
            match direction {
                Direction::Up => row.rate_out = rate,
                Direction::Down => row.rate_back = rate,
            }
        }
    }
    Ok(())
}

/// Sends the pings of all paths, those that are opened meanwhile, too, and waits for
/// their answers.
async fn ping_all(connection: &Connection, log: &PingLog, args: &PingArgs) -> Result<(), Failure> {
    let until = args.time.map(|time| Instant::now() + time);
    let mut ticks = interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let paths = usable(connection)?;
        let due = paths
            .iter()
            .filter(|path| log.sent(**path) < args.count as usize);
        let due: Vec<_> = due.copied().collect();
        if due.is_empty() || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        for path in due {
            // A path that has just been closed needs none.
            let _ = connection.ping_path(path);
        }
    }
    for _ in 0..CLOSERS {
        let waiting: Vec<_> = log
            .paths()
            .into_iter()
            .filter(|path| log.report(*path, args.count as usize).waiting > 0)
            .collect();
        if waiting.is_empty() {
            break;
        }
        let stats = connection.paths();
        let slowest = stats.iter().filter_map(|path| path.srtt).max();
        let pause = slowest.unwrap_or_default() * 2;
        sleep(pause.clamp(CLOSER_PAUSE_MIN, INTERVAL_MAX)).await;
        for path in waiting {
            let _ = connection.ping_path(path);
        }
    }
    Ok(())
}

/// The paths that have proven themselves.
fn usable(connection: &Connection) -> Result<Vec<PathId>, Failure> {
    if let Some(error) = connection.error() {
        return Err(Failure::failed(format!("the connection ended: {error}")));
    }
    let paths = connection.paths().into_iter();
    let proven = paths.filter(|path| path.state != PathState::Probing);
    Ok(proven.map(|path| path.id).collect())
}

fn rows(session: &Session, log: &PingLog, count: usize) -> Vec<Row> {
    let stats = session.connection.paths();
    let row = |path: PathId| {
        let remote = stats.iter().find(|stats| stats.id == path);
        let remote = remote.map_or_else(String::new, |stats| stats.remote.to_string());
        Row {
            path,
            label: session.labels.of(path),
            remote,
            report: log.report(path, count),
            rate_out: None,
            rate_back: None,
        }
    };
    log.paths().into_iter().map(row).collect()
}

fn milliseconds(span: Option<Duration>) -> Option<f64> {
    span.map(|span| (span.as_secs_f64() * 1e6).round() / 1e3)
}

fn object(row: &Row) -> Value {
    let report = &row.report;
    let quantile = |share| milliseconds(report.rtt_quantile(share));
    let direction = |direction: &ctcp::PingDirection, rate: Option<f64>| {
        json!({
            "bits_per_second": rate.map(f64::round),
            "sent": direction.sent,
            "lost": direction.lost,
            "loss": direction.loss(),
            "bursts": direction.bursts.len(),
            "burst_longest": direction.bursts.iter().max().unwrap_or(&0),
        })
    };
    json!({
        "path": row.path.0,
        "label": row.label,
        "remote": row.remote,
        "sent": report.sent,
        "answered": report.answered(),
        "unknown": report.waiting,
        "rtt_ms": {
            "min": quantile(0.0),
            "median": quantile(0.5),
            "p95": quantile(0.95),
            "max": quantile(1.0),
            "jitter": milliseconds(report.jitter()),
        },
        "out": direction(&report.out, row.rate_out),
        "back": direction(&report.back, row.rate_back),
    })
}

fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "{:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {:<22} {}\n",
        "path", "answered", "min", "median", "p95", "max", "jitter", "lost on the way out", "back"
    );
    for row in rows {
        let report = &row.report;
        let time = |span: Option<Duration>| {
            milliseconds(span).map_or("–".to_owned(), |ms| format!("{ms:.1} ms"))
        };
        let quantile = |share| time(report.rtt_quantile(share));
        let name = match row.label.is_empty() {
            true => &row.remote,
            false => &row.label,
        };
        out.push_str(&format!(
            "{name:<24} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  {:<22} {}\n",
            format!("{}/{}", report.answered(), report.sent),
            quantile(0.0),
            quantile(0.5),
            quantile(0.95),
            quantile(1.0),
            time(report.jitter()),
            losses(&report.out),
            losses(&report.back),
        ));
        if let (Some(up), Some(down)) = (row.rate_out, row.rate_back) {
            let (up, down) = (speedtest::rate(up), speedtest::rate(down));
            out.push_str(&format!("{:<24} carried {up} out, {down} back\n", ""));
        }
        if report.waiting > 0 {
            let count = report.waiting;
            out.push_str(&format!("{:<24} of {count} nothing is known\n", ""));
        }
    }
    out
}

/// `5.0 %, bursts to 3`.
fn losses(direction: &ctcp::PingDirection) -> String {
    let share = format!("{:.1} %", direction.loss() * 100.0);
    match direction.bursts.iter().max() {
        Some(&longest) if longest > 1 => format!("{share}, {longest} in a row"),
        _ => share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp::PingDirection;

    fn row() -> Row {
        let direction = |sent, bursts: &[usize]| PingDirection {
            sent,
            lost: bursts.iter().sum(),
            bursts: bursts.to_vec(),
        };
        Row {
            path: PathId(1),
            label: "wlan0".to_owned(),
            remote: "192.0.2.1:4500".to_owned(),
            report: PingReport {
                sent: 20,
                waiting: 1,
                rtts: [20, 30, 20].map(Duration::from_millis).to_vec(),
                out: direction(19, &[1, 3]),
                back: direction(15, &[1]),
            },
            rate_out: Some(8.4e6),
            rate_back: Some(21e6),
        }
    }

    #[test]
    fn a_path_is_one_line_with_both_directions() {
        let text = table(&[row()]);
        let line = text.lines().nth(1).expect("a path");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..4], ["wlan0", "14/20", "20.0", "ms"], "{text}");
        assert!(line.contains("10.0 ms  21.1 %, 3 in a row"), "{text}");
        assert!(line.ends_with("6.7 %"), "{text}");
        assert!(
            text.contains("carried 8.4 Mbit/s out, 21.0 Mbit/s back"),
            "{text}"
        );
        assert!(text.contains("of 1 nothing is known"), "{text}");
    }

    #[test]
    fn the_object_says_the_same_in_numbers() {
        let object = object(&row());
        assert_eq!(object["answered"], 14);
        assert_eq!(object["unknown"], 1);
        assert_eq!(object["rtt_ms"]["p95"], 30.0);
        assert_eq!(object["rtt_ms"]["jitter"], 10.0);
        assert_eq!(object["out"]["burst_longest"], 3);
        assert_eq!(object["out"]["bursts"], 2);
        assert_eq!(object["back"]["lost"], 1);
        assert_eq!(object["back"]["bits_per_second"], 21e6);
    }

    #[test]
    fn pauses_have_bounds() {
        assert!(pause("10ms").is_ok() && pause("10s").is_ok());
        for text in ["9ms", "11s", "0", "fast"] {
            assert!(pause(text).is_err(), "{text}");
        }
    }
}

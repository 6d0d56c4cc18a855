//! `ctcp speedtest`: what CTCP moves between here and one's own server.

use std::time::Duration;

use clap::{Args, ValueEnum};
use ctcp::{Connection, PathState, PathStats};
use ctcp_proxy::forward::ReachError;
use ctcp_proxy::speedtest::{self, Arrived, BYTES_MAX, Speedtest, SpeedtestError, TIME_MAX};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::client::ServerArgs;
use crate::config::ConfigArgs;
use crate::dial::{FAREWELL, Session};
use crate::failure::Failure;
use crate::output::{notice, print_line};
use crate::tunnel::open;
use crate::values;

/// Shortest test of one direction: below, it would tell of the start alone.
const TIME_MIN: Duration = Duration::from_millis(100);

/// How long all paths may take to open before the test begins without them.
const PATHS_PATIENCE: Duration = Duration::from_secs(3);

/// Arguments of `ctcp speedtest`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpeedtestArgs {
    /// How long each direction is tested, 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "10s", env = "CTCP_SPEEDTEST_TIME",
          value_parser = time)]
    time: Duration,
    /// Bytes after which a direction's test ends, however short it was; 4GB at most
    #[arg(long, value_name = "BYTES", default_value = "1GB", env = "CTCP_SPEEDTEST_BYTES",
          value_parser = bytes)]
    bytes: u64,
    /// Which way
    #[arg(
        long,
        value_enum,
        default_value = "both",
        env = "CTCP_SPEEDTEST_DIRECTION"
    )]
    direction: Directions,
    /// Print an object
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// Which ways are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Directions {
    /// Up, then down
    Both,
    /// From here to the server
    Up,
    /// From the server to here
    Down,
}

/// What a test of one direction found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Application bytes that arrived.
    pub(crate) total: Arrived,
    /// What each path did meanwhile.
    pub(crate) paths: Vec<PathFound>,
}

/// What one path did during a test.
#[derive(Debug, Clone)]
pub(crate) struct PathFound {
    pub(crate) path: ctcp::PathId,
    name: String,
    /// Up: UDP payload of symbols, coded ones among them, that arrived. Down: content
    /// of packets that brought something new.
    bytes: u64,
    time: Duration,
    /// Share of packets lost in this direction, 0 to 1.
    loss: f64,
    srtt: Option<Duration>,
    rtt_min: Option<Duration>,
}

impl PathFound {
    /// Bits per second that the path carried.
    pub(crate) fn bits_per_second(&self) -> f64 {
        let arrived = Arrived {
            bytes: self.bytes,
            time: self.time,
        };
        arrived.bits_per_second()
    }
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time = values::duration(text)?;
    if (TIME_MIN..=TIME_MAX).contains(&time) {
        return Ok(time);
    }
    Err(format!(
        "`{text}` is no time for a test: write 100ms to 60s"
    ))
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = values::bytes(text)?;
    if (1..=BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("`{text}` is no size for a test: write 1B to 4GB"))
}

/// Tests the directions, one after the other, and tells what was found.
pub(crate) async fn run(args: SpeedtestArgs) -> Result<(), Failure> {
    let dialer = args.server.dialer()?;
    let session = dialer.session().await?;
    wait_for_paths(&session.connection, dialer.paths.len()).await;
    let mut found = Vec::new();
    let mut result = Ok(());
    for direction in [speedtest::Direction::Up, speedtest::Direction::Down] {
        let (name, is_wanted) = match direction {
            speedtest::Direction::Up => ("up", args.direction != Directions::Down),
            speedtest::Direction::Down => ("down", args.direction != Directions::Up),
        };
        if !is_wanted {
            continue;
        }
        if !args.json {
            notice(format_args!("testing {name}, {:?} at most", args.time));
        }
        let test = Speedtest {
            direction,
            time: args.time,
            bytes: args.bytes,
        };
        match measure(&session, test).await {
            Ok(measured) => found.push((name, measured)),
            Err(failure) => {
                result = Err(failure);
                break;
            }
        }
    }
    if args.json && !found.is_empty() {
        let directions = found.iter();
        let directions = directions.map(|(name, found)| ((*name).to_owned(), object(found)));
        print_line(&Value::Object(directions.collect()).to_string());
    } else if !found.is_empty() {
        print_line(table(&found).trim_end());
    }
    session.close("done", FAREWELL).await;
    result
}

/// Waits until as many paths are open as were asked for.
pub(crate) async fn wait_for_paths(connection: &Connection, wanted: usize) {
    let until = Instant::now() + PATHS_PATIENCE;
    let is_open = |path: &PathStats| path.state != PathState::Probing;
    while connection
        .paths()
        .iter()
        .filter(|path| is_open(path))
        .count()
        < wanted
        && Instant::now() < until
        && connection.error().is_none()
    {
        sleep(Duration::from_millis(20)).await;
    }
}

/// Tests one direction of a connection.
pub(crate) async fn measure(session: &Session, test: Speedtest) -> Result<Found, Failure> {
    let connection = &session.connection;
    let opened = open(connection).await;
    let mut stream = opened.map_err(|error| Failure::failed(format!("speed test: {error}")))?;
    let before = connection.paths();
    let begun = Instant::now();
    let total = speedtest::run(&mut stream, test)
        .await
        .map_err(|error| told(&error))?;
    let time = begun.elapsed();
    let path = |after: PathStats| {
        let label = session.labels.of(after.id);
        let before = before.iter().find(|before| before.id == after.id);
        let name = match label.is_empty() {
            true => after.remote.to_string(),
            false => label,
        };
        path_found(name, test.direction, before, &after, time)
    };
    Ok(Found {
        total,
        paths: connection.paths().into_iter().map(path).collect(),
    })
}

fn told(error: &SpeedtestError) -> Failure {
    use ctcp_proxy::request::Status;
    let remedy = match error {
        SpeedtestError::Reach(ReachError::Failed(failure)) => match failure.status {
            Status::CommandUnknown => "; it is older than this client",
            Status::Busy => "; try again later",
            _ => "",
        },
        _ => "",
    };
    Failure::failed(format!("speed test: {error}{remedy}"))
}

fn path_found(
    name: String,
    direction: speedtest::Direction,
    before: Option<&PathStats>,
    after: &PathStats,
    time: Duration,
) -> PathFound {
    let since = |count: fn(&PathStats) -> u64| {
        let earlier = before.map_or(0, count);
        // What was missing may have come after all.
        count(after).saturating_sub(earlier)
    };
    let (bytes, lost, all) = match direction {
        speedtest::Direction::Up => {
            let sent = since(|path| path.packets_sent);
            (
                since(|path| path.bytes_delivered),
                since(|path| path.packets_lost),
                sent,
            )
        }
        speedtest::Direction::Down => {
            let missing = since(|path| path.packets_missing);
            let received = since(|path| path.packets_received);
            (since(|path| path.bytes_useful), missing, received + missing)
        }
    };
    PathFound {
        path: after.id,
        name,
        bytes,
        time,
        loss: lost as f64 / all.max(1) as f64,
        srtt: after.srtt,
        rtt_min: after.rtt_min,
    }
}

/// `46.1 Mbit/s`.
pub(crate) fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        bits if bits >= 999.95e6 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 999.95e3 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}

fn table(found: &[(&str, Found)]) -> String {
    let mut out = String::new();
    for (name, found) in found {
        let (megabytes, seconds) = (
            found.total.bytes as f64 / 1e6,
            found.total.time.as_secs_f64(),
        );
        let speed = rate(found.total.bits_per_second());
        out.push_str(&format!(
            "{name:<5} {speed:>12}   {megabytes:.1} MB in {seconds:.1} s\n"
        ));
        for path in &found.paths {
            let time = |span: Option<Duration>| {
                span.map_or("–".to_owned(), |span| {
                    format!("{:.1} ms", span.as_secs_f64() * 1e3)
                })
            };
            out.push_str(&format!(
                "      {:>12}   {:<24} {:.1} % lost, round trip {}, at least {}\n",
                rate(path.bits_per_second()),
                path.name,
                path.loss * 100.0,
                time(path.srtt),
                time(path.rtt_min),
            ));
        }
    }
    out
}

fn object(found: &Found) -> Value {
    let milliseconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64() * 1e3);
    let path = |path: &PathFound| {
        json!({
            "path": path.path.0,
            "label": path.name,
            "bytes": path.bytes,
            "bits_per_second": path.bits_per_second().round(),
            "loss": path.loss,
            "srtt_ms": milliseconds(path.srtt),
            "rtt_min_ms": milliseconds(path.rtt_min),
        })
    };
    json!({
        "bytes": found.total.bytes,
        "seconds": found.total.time.as_secs_f64(),
        "bits_per_second": found.total.bits_per_second().round(),
        "paths": found.paths.iter().map(path).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            total: Arrived {
                bytes: 10_000_000,
                time: Duration::from_secs(2),
            },
            paths: vec![PathFound {
                path: ctcp::PathId(1),
                name: "wlan0".to_owned(),
                bytes: 10_400_000,
                time: Duration::from_secs(2),
                loss: 0.015,
                srtt: Some(Duration::from_micros(25_400)),
                rtt_min: None,
            }],
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_direction_and_each_path() {
        let text = table(&[("up", found()), ("down", found())]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "up     40.0 Mbit/s   10.0 MB in 2.0 s");
        assert!(lines[3].contains("41.6 Mbit/s   wlan0"), "{text}");
        assert!(
            lines[3].ends_with("1.5 % lost, round trip 25.4 ms, at least –"),
            "{text}"
        );
    }

    #[test]
    fn the_object_says_the_same_in_numbers() {
        let object = object(&found());
        assert_eq!(object["bits_per_second"], 40e6);
        assert_eq!(object["seconds"], 2.0);
        assert_eq!(object["paths"][0]["label"], "wlan0");
        assert_eq!(object["paths"][0]["bits_per_second"], 41.6e6);
        assert_eq!(object["paths"][0]["rtt_min_ms"], Value::Null);
    }

    #[test]
    fn tests_have_bounds() {
        assert!(time("100ms").is_ok() && time("60s").is_ok());
        assert!(bytes("1B").is_ok() && bytes("4GB").is_ok());
        for text in ["99ms", "61s", "fast"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["0", "5GB", "much"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_have_the_unit_that_fits() {
        assert_eq!(rate(0.0), "0.0 kbit/s");
        assert_eq!(rate(999_940.0), "999.9 kbit/s");
        assert_eq!(rate(12_345_678.0), "12.3 Mbit/s");
        assert_eq!(rate(2.5e9), "2.50 Gbit/s");
    }
}

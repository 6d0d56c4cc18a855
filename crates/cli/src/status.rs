//! `ctcp status` and `ctcp top`: what runs on this machine, in the terminal.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use ctcp_observe::control::{self, ControlError};
use ctcp_observe::{ClientView, ConnectionView, PathView, Snapshot};
use tokio::time::sleep;

use crate::failure::{Exit, Failure};
use crate::observe::ControlArgs;
use crate::output::{notice, print_line};
use crate::values;

/// Streams that `ctcp top` lists for each process.
const STREAMS_SHOWN: usize = 12;
/// Clients that it lists of each server.
const CLIENTS_SHOWN: usize = 20;
/// Puts the cursor home; what follows overwrites what was there.
const HOME: &str = "\x1b[H";
/// Erases the rest of a line, and the rest of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Arguments of `ctcp status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// Print one JSON object for each process
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
}

/// Arguments of `ctcp top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", env = "CTCP_INTERVAL",
          value_parser = values::duration)]
    interval: Duration,
    /// Look so many times, then end [default: until interrupted]
    #[arg(long, value_name = "N", env = "CTCP_COUNT")]
    count: Option<u64>,
}

/// Tells what every process does, once.
pub(crate) async fn status(args: StatusArgs) -> Result<(), Failure> {
    for snapshot in ask_all(&args.control).await? {
        if args.json {
            let line = serde_json::to_string(&snapshot).map_err(Failure::failed)?;
            print_line(&line);
        } else {
            print_line(table(&snapshot, None).trim_end());
        }
    }
    Ok(())
}

/// Tells it again and again.
pub(crate) async fn top(args: TopArgs) -> Result<(), Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut before: Vec<Snapshot> = Vec::new();
    let mut looks = 0;
    if is_terminal {
        print!("\x1b[2J");
    }
    loop {
        let snapshots = ask_all(&args.control).await?;
        let mut screen = String::new();
        for snapshot in &snapshots {
            let last = before.iter().find(|s| s.instance == snapshot.instance);
            screen.push_str(&table(snapshot, last));
            screen.push_str(&streams(snapshot, last));
            screen.push('\n');
        }
        if is_terminal {
            let lines = screen.replace('\n', &format!("{REST_OF_LINE}\n"));
            print_line(&format!("{HOME}{}{REST_OF_SCREEN}", lines.trim_end()));
        } else {
            print_line(&screen);
        }
        before = snapshots;
        looks += 1;
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
        sleep(args.interval).await;
    }
}

async fn ask_all(args: &ControlArgs) -> Result<Vec<Snapshot>, Failure> {
    let folder = args.folder();
    let mut snapshots = Vec::new();
    for path in control::sockets(&folder) {
        match control::ask(&path).await {
            Ok(snapshot) => snapshots.push(snapshot),
            // Left by a process that was killed.
            Err(ControlError::NoAnswer { error, .. })
                if error.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => notice(error),
        }
    }
    if snapshots.is_empty() {
        return Err(Failure::new(
            Exit::NoAnswer,
            format_args!(
                "no ctcp server or client of this user runs here (none answers in {}); if one \
                 does, name its folder with --control DIR",
                folder.display()
            ),
        ));
    }
    Ok(snapshots)
}

/// A process, its connections and their paths; rates since `last`.
fn table(now: &Snapshot, last: Option<&Snapshot>) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    let seconds = last.map_or(0.0, |last| now.uptime - last.uptime);
    let proxy = &now.proxy;
    line(format!(
        "{} {}   {}   up {}",
        now.role,
        now.pid,
        printable(&now.title),
        span(now.uptime)
    ));
    let rates = last.map_or_else(String::new, |last| {
        let down = rate(proxy.bytes_down, last.proxy.bytes_down, seconds);
        let up = rate(proxy.bytes_up, last.proxy.bytes_up, seconds);
        format!("now {down} down, {up} up; ")
    });
    let failed: u64 = proxy.failed.iter().map(|(_, count)| count).sum();
    line(format!(
        "  {rates}relayed {} down, {} up; {} connections, {} open, {failed} failed",
        size(proxy.bytes_down),
        size(proxy.bytes_up),
        proxy.accepted,
        proxy.active,
    ));
    if now.connections.is_empty() {
        line(if now.role == "server" {
            "  no client is connected".to_owned()
        } else {
            "  not connected to the server; trying".to_owned()
        });
    }
    for client in now.proxy.clients.iter().take(CLIENTS_SHOWN) {
        line(client_line(client, last, seconds));
    }
    for connection in &now.connections {
        let then = last.and_then(|last| last.connections.iter().find(|c| c.id == connection.id));
        line(format!(
            "  {}   up {}, {} streams, {} blocks in flight, {} losses repaired, {} coded sent",
            printable(&connection.name),
            span(connection.age),
            connection.streams,
            connection.blocks_sending,
            connection.symbols_recovered + connection.datagrams_recovered,
            connection.sent.coded,
        ));
        for path in &connection.paths {
            line(path_line(path, then, seconds));
        }
    }
    out
}

/// One client of a server: what it has, of what it may.
fn client_line(client: &ClientView, last: Option<&Snapshot>, seconds: f64) -> String {
    let of = (client.streams_max).map_or_else(String::new, |count| format!(" of {count}"));
    let then = last.and_then(|last| last.proxy.clients.iter().find(|c| c.name == client.name));
    let rates = then.map_or_else(String::new, |then| {
        let down = rate(client.bytes_down, then.bytes_down, seconds);
        let up = rate(client.bytes_up, then.bytes_up, seconds);
        format!("  now {down} down, {up} up")
    });
    let most = client.rate_max.map_or_else(String::new, |bits| {
        format!("  at most {} each way", scaled(bits as f64, &RATES))
    });
    let refused = match client.streams_refused {
        0 => String::new(),
        count => format!(", {count} refused"),
    };
    format!(
        "  client {}   {}{of} streams{refused}  {} down, {} up{rates}{most}",
        printable(&client.name),
        client.streams,
        size(client.bytes_down),
        size(client.bytes_up),
    )
}

fn path_line(path: &PathView, then: Option<&ConnectionView>, seconds: f64) -> String {
    let then = then.and_then(|then| then.paths.iter().find(|p| p.id == path.id));
    let rates = then.map_or_else(String::new, |then| {
        let down = rate(path.bytes_useful, then.bytes_useful, seconds);
        let up = rate(path.bytes_sent, then.bytes_sent, seconds);
        format!("  in {down:>12}  sent {up:>12}")
    });
    let milliseconds =
        |s: Option<f64>| s.map_or("–".to_owned(), |s| format!("{:.1} ms", s * 1e3));
    format!(
        "    path {} {:<8} {}{rates}  rtt {} (base {})  loss {:.1} %  tokens {:.0}  queued {:.1}  {}",
        path.id,
        path.state,
        path.remote,
        milliseconds(path.srtt),
        milliseconds(path.rtt_min),
        path.loss_rate * 100.0,
        path.tokens,
        path.queued,
        path.congestion,
    )
}

fn streams(now: &Snapshot, last: Option<&Snapshot>) -> String {
    if now.streams.is_empty() {
        return String::new();
    }
    let seconds = last.map_or(0.0, |last| now.uptime - last.uptime);
    let mut out = format!(
        "  {:<40} {:>10} {:>10} {:>13} {:>8}\n",
        "target", "down", "up", "rate", "age"
    );
    for stream in now.streams.iter().take(STREAMS_SHOWN) {
        let then = last.and_then(|last| last.streams.iter().find(|s| s.id == stream.id));
        let moved = then.map_or("–".to_owned(), |then| {
            let total = |s: &ctcp_observe::StreamView| s.bytes_down + s.bytes_up;
            rate(total(stream), total(then), seconds)
        });
        let _ = writeln!(
            out,
            "  {:<40} {:>10} {:>10} {moved:>13} {:>8}",
            printable(&stream.target),
            size(stream.bytes_down),
            size(stream.bytes_up),
            span(stream.age),
        );
    }
    let left = now.streams_total.saturating_sub(STREAMS_SHOWN);
    if left > 0 {
        let _ = writeln!(out, "  and {left} more");
    }
    out
}

/// Names come from peers: nothing in them may steer the terminal.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(60).map(shown).collect()
}

fn rate(now: u64, then: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "–".to_owned();
    }
    let bits = now.saturating_sub(then) as f64 * 8.0 / seconds;
    scaled(bits, &RATES)
}

const RATES: [&str; 4] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];

fn size(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB"])
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut index = 0;
    while value >= 999.5 && index + 1 < units.len() {
        value /= 1000.0;
        index += 1;
    }
    let digits = usize::from(index > 0 && value < 99.95);
    format!("{value:.digits$} {}", units[index])
}

fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_observe::ProxyView;

    fn snapshot(uptime: f64, bytes: u64) -> Snapshot {
        let path = PathView {
            state: "active".to_owned(),
            remote: "192.0.2.1:4500".to_owned(),
            srtt: Some(0.025),
            bytes_useful: bytes,
            ..PathView::default()
        };
        let connection = ConnectionView {
            name: "an\x1b[2Jna".to_owned(),
            paths: vec![path],
            ..ConnectionView::default()
        };
        Snapshot {
            role: "client".to_owned(),
            uptime,
            connections: vec![connection],
            proxy: ProxyView {
                bytes_down: bytes,
                ..ProxyView::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_made_from_two_looks() {
        let (first, second) = (snapshot(10.0, 1_000_000), snapshot(12.0, 3_500_000));
        assert!(!table(&first, None).contains("bit/s"));
        let text = table(&second, Some(&first));
        assert!(text.contains("now 10.0 Mbit/s down"), "{text}");
        assert!(text.contains("in  10.0 Mbit/s"), "{text}");
        assert!(text.contains("rtt 25.0 ms (base –)"), "{text}");
    }

    #[test]
    fn a_clients_use_stands_beside_its_limits() {
        let (mut first, mut second) = (snapshot(10.0, 0), snapshot(12.0, 0));
        first.proxy.clients.push(ClientView {
            name: "anna".to_owned(),
            ..ClientView::default()
        });
        second.proxy.clients.push(ClientView {
            name: "anna".to_owned(),
            streams: 3,
            streams_max: Some(5),
            streams_refused: 2,
            rate_max: Some(20_000_000),
            bytes_up: 1_000,
            bytes_down: 2_500_000,
        });
        let text = table(&second, Some(&first));
        let line = "client anna   3 of 5 streams, 2 refused  2.5 MB down, 1.0 kB up  \
                    now 10.0 Mbit/s down, 4.0 kbit/s up  at most 20.0 Mbit/s each way";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        assert!(!table(&snapshot(1.0, 0), None).contains('\x1b'));
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(999_600), "1.0 MB");
        assert_eq!(size(123_456_789), "123 MB");
        assert_eq!(span(59.9), "59 s");
        assert_eq!(span(3_700.0), "1 h 1 min");
        assert_eq!(span(90_000.0), "1 d 1 h");
    }
}

//! What the demo tells: in words, or as JSON.

use std::time::Duration;

use ctcp::ConnectionStats;
use ctcp_emu::{LinkCounters, RelayCounters};
use ctcp_units::Rate;
use serde_json::{Value, json};

use super::rivals::{Outcome, Rival, Standings};
use crate::link_options::{Direction, PathSpec};
use crate::output::print_line;

/// Of a packet of 1500 bytes, what is left after IP, UDP and the authentication
/// tag: the least overhead that an encrypted transport can have.
const PAYLOAD_SHARE: f64 = 1436.0 / 1500.0;

/// What happened.
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    /// From the request to the last byte.
    pub(crate) span: Duration,
    /// How long the handshake took.
    pub(crate) connected: Duration,
    pub(crate) is_whole: bool,
    pub(crate) sha256: String,
    /// The client's end, which received the file.
    pub(crate) near: ConnectionStats,
    /// The server's end, which sent it.
    pub(crate) far: ConnectionStats,
    pub(crate) relay: RelayCounters,
    /// How far plain TCP came; or why it did not run.
    pub(crate) rivals: Result<Vec<Standings>, String>,
}

/// Says what is about to happen.
pub(crate) fn introduction(path: &PathSpec, size: u64, rivals: &Result<Vec<Rival>, String>) {
    print_line("");
    print_line("  CTCP demo. Everything runs on this machine; nothing leaves it.");
    print_line("");
    print_line("    HTTP client ── SOCKS5 ──▶ forward proxy");
    print_line(&format!(
        "                                   ║  {}",
        describe(path)
    ));
    print_line("    web server  ◀── TCP ───── reverse proxy");
    print_line("");
    print_line(&format!("  Downloading {:.1} MB …", size as f64 / 1e6));
    match rivals {
        Ok(rivals) => {
            let names: Vec<_> = rivals.iter().map(|rival| rival.name.as_str()).collect();
            print_line(&format!(
                "  beside it, plain TCP on paths of the same kind: {}",
                names.join(", ")
            ));
        }
        Err(reason) => print_line(&format!("  without plain TCP beside it: {reason}")),
    }
    print_line("");
}

fn describe(path: &PathSpec) -> String {
    let direction = |direction: &Direction| {
        let rate = direction
            .rate
            .map_or("unlimited".to_owned(), |rate| rate.to_string());
        let burst = direction.burst.map_or(String::new(), |packets| {
            format!(" in bursts of {packets} packets")
        });
        format!(
            "{rate}, {:.1} % of packets lost{burst}",
            direction.loss.share() * 100.0
        )
    };
    let rtt = path.rtt().as_secs_f64() * 1e3;
    let (up, down) = (direction(&path.up), direction(&path.down));
    if up == down {
        format!("{down} in each direction, round trip {rtt:.0} ms")
    } else {
        format!("down {down}; up {up}; round trip {rtt:.0} ms")
    }
}

impl Report {
    fn goodput(&self) -> Rate {
        Rate::from_bytes_in(self.bytes, self.span)
    }

    /// Goodput as a share of what the link can carry at best; none without a
    /// rate limit.
    fn share_of_link(&self, path: &PathSpec) -> Option<f64> {
        let rate = path.down.rate?;
        Some(self.goodput().as_mbit() / (rate.as_mbit() * PAYLOAD_SHARE))
    }

    /// Bytes that entered the link towards the client, IP headers included, per
    /// byte of the file.
    fn wire_share(&self) -> f64 {
        self.relay.down.offered_bytes as f64 / self.bytes.max(1) as f64
    }

    fn srtt_millis(&self) -> Option<f64> {
        let path = self.far.paths.first()?;
        path.srtt.map(|srtt| srtt.as_secs_f64() * 1e3)
    }

    fn rtt_min_millis(&self) -> Option<f64> {
        let path = self.far.paths.first()?;
        path.rtt_min.map(|rtt| rtt.as_secs_f64() * 1e3)
    }

    /// The result in words.
    pub(crate) fn print(&self, path: &PathSpec) {
        let row = |name: &str, text: String| print_line(&format!("  {name:<13}{text}"));
        let more = |text: &str| print_line(&format!("{:15}{text}", ""));
        let seconds = self.span.as_secs_f64();
        if self.is_whole {
            let short = &self.sha256[..12];
            row(
                "whole",
                format!("all {} bytes arrived, SHA-256 {short}… matches", self.bytes),
            );
        } else {
            row("DAMAGED", "what arrived is not what was sent".to_owned());
        }
        let rate = format!("{} over {seconds:.1} s, start included", self.goodput());
        row("rate", rate);
        if let (Some(share), Some(link)) = (self.share_of_link(path), path.down.rate) {
            let most = link.as_mbit() * PAYLOAD_SHARE;
            more(&format!(
                "{:.0} % of the {most:.1} Mbit/s that fit into {link}",
                share * 100.0
            ));
            more("beside packet headers and encryption");
        }
        for rival in self.rivals.iter().flatten() {
            row(&rival.name, rival.in_words(self));
        }
        row("lost", lost(&self.relay.down, "towards the client"));
        more(&lost(&self.relay.up, "towards the server"));
        let coded = self.far.sent.coded;
        let of = self.far.sent.systematic.max(1);
        row(
            "coded",
            format!(
                "{coded} packets were mixtures of others ({:.1} % on top),",
                percent(coded, of)
            ),
        );
        more("each of which can stand in for any one that was lost");
        row(
            "recovered",
            format!(
                "{} losses, computed from coded packets sent ahead or on request;",
                self.near.symbols_recovered
            ),
        );
        more("no lost packet was sent again as it was");
        if let (Some(srtt), Some(least)) = (self.srtt_millis(), self.rtt_min_millis()) {
            let path_rtt = path.rtt().as_secs_f64() * 1e3;
            row(
                "delay",
                format!(
                    "round trip {srtt:.0} ms under load, {least:.0} ms at least; the path alone"
                ),
            );
            more(&format!(
                "takes {path_rtt:.0} ms, the rest is waiting in its queue"
            ));
        }
        row(
            "on the wire",
            format!(
                "{:.2} bytes per byte of the file, headers included",
                self.wire_share()
            ),
        );
        print_line("");
        print_line(&format!(
            "  Seed {}. Change the path: ctcp demo --loss 20% --rtt 100ms --rate 10mbit",
            self.seed
        ));
        print_line("");
    }

    /// The result for programs; times in milliseconds, rates in Mbit/s.
    pub(crate) fn json(&self, path: &PathSpec) -> Value {
        json!({
            "is_whole": self.is_whole,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "seconds": self.span.as_secs_f64(),
            "handshake_ms": self.connected.as_secs_f64() * 1e3,
            "goodput_mbit": self.goodput().as_mbit(),
            "link_mbit": path.down.rate.map(Rate::as_mbit),
            "share_of_link": self.share_of_link(path),
            "rtt_path_ms": path.rtt().as_secs_f64() * 1e3,
            "rtt_min_ms": self.rtt_min_millis(),
            "srtt_ms": self.srtt_millis(),
            "down": link_json(&self.relay.down),
            "up": link_json(&self.relay.up),
            "systematic_sent": self.far.sent.systematic,
            "coded_sent": self.far.sent.coded,
            "symbols_recovered": self.near.symbols_recovered,
            "wire_bytes_per_byte": self.wire_share(),
            "plain_tcp": self.rivals.as_ref().ok().map(|rivals| {
                rivals.iter().map(Standings::json).collect::<Vec<_>>()
            }),
            "plain_tcp_absent": self.rivals.as_ref().err(),
            "congestion": self.far.paths.first().map(|path| path.congestion),
            "seed": self.seed,
        })
    }
}

impl Standings {
    fn goodput(&self) -> Rate {
        Rate::from_bytes_in(self.bytes, self.span)
    }

    fn wire_share(&self) -> f64 {
        self.wire_bytes as f64 / self.bytes.max(1) as f64
    }

    /// The rival's result beside CTCP's.
    fn in_words(&self, ctcp: &Report) -> String {
        let seconds = self.span.as_secs_f64();
        let (goodput, part) = (self.goodput(), percent(self.bytes, ctcp.bytes));
        let wire = format!("{:.2} bytes on the wire per byte", self.wire_share());
        match &self.outcome {
            Outcome::Failed(reason) => format!("broke off after {part:.0} %: {reason}"),
            Outcome::Finished => format!("{goodput} over {seconds:.1} s, {wire}"),
            Outcome::Cut => format!("{goodput}, {part:.0} % there when CTCP was done, {wire}"),
        }
    }

    fn json(&self) -> Value {
        let (outcome, reason) = match &self.outcome {
            Outcome::Finished => ("finished", None),
            Outcome::Cut => ("cut", None),
            Outcome::Failed(reason) => ("failed", Some(reason)),
        };
        json!({
            "congestion": self.name.to_lowercase(),
            "bytes": self.bytes,
            "seconds": self.span.as_secs_f64(),
            "goodput_mbit": self.goodput().as_mbit(),
            "wire_bytes_per_byte": self.wire_share(),
            "outcome": outcome,
            "reason": reason,
        })
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Packets that one direction lost, and to what.
fn lost(link: &LinkCounters, whither: &str) -> String {
    let mut text = format!(
        "{} of {} packets {whither} ({:.1} %)",
        link.lost(),
        link.offered,
        percent(link.lost(), link.offered)
    );
    if link.dropped() > 0 {
        text += &format!(", {} more at a full queue", link.dropped());
    }
    text
}

fn link_json(link: &LinkCounters) -> Value {
    json!({
        "packets_offered": link.offered,
        "packets_lost": link.lost(),
        "packets_dropped_queue": link.dropped(),
        "bytes_offered": link.offered_bytes,
    })
}

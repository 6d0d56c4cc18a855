//! The emulator measured against its own configuration.
//!
//! Probes go from namespace to namespace through sockets, as any program's
//! packets do, so what is compared is what programs see: the delay and the loss
//! of small packets sent slowly, the rate of full packets sent faster than the
//! link. Shares are compared within four standard deviations of the sample.
//!
//! What depends on when one looks (outages, interference, changes of the delay)
//! is named as not checked.

mod expect;
mod probe;

use std::io;

use ctcp_units::{Duration, Rate};
use thiserror::Error;

use crate::namespace::NamespaceError;
use crate::network::Network;
use crate::router::RouterError;
use expect::Expectation;
use probe::{Probes, Route};

/// Round trips measured on each path.
const PINGS: u32 = 50;

/// Between two of them: longer than most jitter, so that each stands alone.
const PING_PAUSE: Duration = Duration::from_millis(10);

/// A packet may be this much later than planned: waking two threads on a machine
/// that also does other things.
const DELAY_TOLERANCE: Duration = Duration::from_millis(1);

/// The rate may be off by this share.
const RATE_TOLERANCE: f64 = 0.02;

/// 99 of 100 packets may be late by this much at most.
const TIMING_MAX: Duration = Duration::from_micros(200);

/// Rates above this are not checked: sender and receiver are no faster.
const RATE_MAX_BITS: f64 = 2e9;

/// How a comparison ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Pass,
    /// Outside.
    Fail,
    /// Not compared, and why.
    NotChecked(String),
}

/// One quantity compared.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckLine {
    /// Index of the path.
    pub path: usize,
    /// `up` (left to right), `down` (right to left) or `both`.
    pub direction: &'static str,
    /// What was compared, with its unit: `delay_ms`, `rtt_ms`, `loss_share`,
    /// `duplicate_share`, `rate_mbit`, `counters`, `timing_p99_us`.
    pub quantity: &'static str,
    /// What the configuration says.
    pub expected: f64,
    /// What was found.
    pub measured: f64,
    /// By how much it may be off.
    pub tolerance: f64,
    /// How it ended.
    pub verdict: Verdict,
}

/// Why the check could not be made.
#[derive(Debug, Error)]
pub enum CheckError {
    /// Namespaces, or their sockets, fail.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The router has ended.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// A probe cannot be sent or received.
    #[error("a probe on path {path} failed: {source}")]
    Probe {
        /// Which path.
        path: usize,
        /// What the system says.
        source: io::Error,
    },
}

/// Checks all paths of `network`, one after the other, against the links that it
/// was put up with. Takes about ten seconds a path; nobody else should send.
///
/// # Errors
/// [`CheckError`] if it cannot be made; that something is wrong with a path is a
/// verdict and no error.
pub fn run(network: &Network) -> Result<Vec<CheckLine>, CheckError> {
    let mut lines = Vec::new();
    for path in 0..network.paths().len() {
        check_path(network, path, &mut lines)?;
    }
    let timing = network.router().counters()?.timing;
    let measured = timing.p99.as_secs_f64() * 1e6;
    let most = TIMING_MAX.as_secs_f64() * 1e6;
    lines.push(CheckLine {
        path: 0,
        direction: "both",
        quantity: "timing_p99_us",
        expected: 0.0,
        measured,
        tolerance: most,
        verdict: within(0.0, measured, most),
    });
    Ok(lines)
}

fn within(expected: f64, measured: f64, tolerance: f64) -> Verdict {
    match (expected - measured).abs() <= tolerance {
        true => Verdict::Pass,
        false => Verdict::Fail,
    }
}

/// The lines of one path.
struct Report<'a> {
    path: usize,
    lines: &'a mut Vec<CheckLine>,
}

impl Report<'_> {
    fn compare(
        &mut self,
        direction: &'static str,
        quantity: &'static str,
        (expected, measured, tolerance): (f64, f64, f64),
    ) {
        let verdict = within(expected, measured, tolerance);
        self.push(
            direction,
            quantity,
            (expected, measured, tolerance),
            verdict,
        );
    }

    fn pass_over(
        &mut self,
        direction: &'static str,
        quantity: &'static str,
        (expected, measured): (f64, f64),
        why: &str,
    ) {
        let verdict = Verdict::NotChecked(why.to_owned());
        self.push(direction, quantity, (expected, measured, 0.0), verdict);
    }

    fn push(
        &mut self,
        direction: &'static str,
        quantity: &'static str,
        (expected, measured, tolerance): (f64, f64, f64),
        verdict: Verdict,
    ) {
        self.lines.push(CheckLine {
            path: self.path,
            direction,
            quantity,
            expected,
            measured,
            tolerance,
            verdict,
        });
    }
}

fn check_path(
    network: &Network,
    path: usize,
    lines: &mut Vec<CheckLine>,
) -> Result<(), CheckError> {
    let config = network.config();
    let chains = [&config.paths[path].forward, &config.paths[path].backward];
    let expectations = chains.map(|chain| {
        let links: Vec<_> = chain.iter().map(|&link| &config.links[link]).collect();
        Expectation::of(&links)
    });
    let probes = Probes::open(network, path)?;
    let failed = |source| CheckError::Probe { path, source };
    let mut report = Report { path, lines };
    check_ping(&probes, &expectations, &mut report).map_err(failed)?;
    for (index, direction) in ["up", "down"].into_iter().enumerate() {
        let expected = &expectations[index];
        let (chain, route) = (chains[index], probes.route(index == 0));
        check_loss(network, chain, &route, expected, direction, &mut report)?;
        check_rate(&route, expected, direction, &mut report).map_err(failed)?;
    }
    Ok(())
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The delay of each direction and of both together.
fn check_ping(
    probes: &Probes,
    expected: &[Expectation; 2],
    report: &mut Report<'_>,
) -> io::Result<()> {
    let patience = expected[0].delay_max + expected[1].delay_max + Duration::from_millis(500);
    let mut delays = [Vec::new(), Vec::new()];
    let mut round_trips = Vec::new();
    for _ in 0..PINGS {
        if let Some((up, down)) = probes.ping(patience)? {
            delays[0].push(up);
            delays[1].push(down);
            round_trips.push(up + down);
        }
        std::thread::sleep(PING_PAUSE);
    }
    let median = |delays: &mut Vec<Duration>| {
        delays.sort_unstable();
        delays.get(delays.len() / 2).copied()
    };
    let mut line = |direction, quantity, measured, least: Duration, most: Duration, why| {
        let middle = (millis(least) + millis(most)) / 2.0;
        let tolerance = (millis(most) - millis(least)) / 2.0 + millis(DELAY_TOLERANCE);
        match (measured, why) {
            (None, _) => report.pass_over(direction, quantity, (middle, f64::NAN), "all lost"),
            (Some(found), Some(why)) => {
                report.pass_over(direction, quantity, (middle, millis(found)), why);
            }
            (Some(found), None) => {
                report.compare(direction, quantity, (middle, millis(found), tolerance));
            }
        }
    };
    for (index, direction) in ["up", "down"].into_iter().enumerate() {
        let Expectation {
            delay_min,
            delay_max,
            delay_unknown,
            ..
        } = expected[index];
        let found = median(&mut delays[index]);
        line(
            direction,
            "delay_ms",
            found,
            delay_min,
            delay_max,
            delay_unknown,
        );
    }
    let [up, down] = expected;
    let why = up.delay_unknown.or(down.delay_unknown);
    let least = up.delay_min + down.delay_min;
    let found = median(&mut round_trips);
    line(
        "both",
        "rtt_ms",
        found,
        least,
        up.delay_max + down.delay_max,
        why,
    );
    Ok(())
}

/// The share lost and the share duplicated, and whether the links' counters agree
/// with what arrived.
fn check_loss(
    network: &Network,
    chain: &[usize],
    route: &Route<'_>,
    expected: &Expectation,
    direction: &'static str,
    report: &mut Report<'_>,
) -> Result<(), CheckError> {
    let path = report.path;
    let (first, last) = (chain[0], chain[chain.len() - 1]);
    let before = network.router().counters()?.links;
    let burst = route
        .send_slowly(expected.probe_rate(), expected.delay_max)
        .map_err(|source| CheckError::Probe { path, source })?;
    let after = network.router().counters()?.links;
    let sent = burst.sent as f64;
    let measured = 1.0 - burst.unique as f64 / sent;
    match expected.loss_share {
        Ok(share) => {
            let deviation = (share * (1.0 - share) * expected.loss_burst / sent).sqrt();
            let tolerance = 4.0 * deviation;
            report.compare(direction, "loss_share", (share, measured, tolerance));
        }
        Err(why) => report.pass_over(direction, "loss_share", (f64::NAN, measured), why),
    }
    if expected.duplicate_share > 0.0 {
        let share = expected.duplicate_share;
        let measured = burst.duplicates as f64 / burst.unique.max(1) as f64;
        let deviation = (share * (1.0 - share) / sent).sqrt();
        report.compare(
            direction,
            "duplicate_share",
            (share, measured, 4.0 * deviation),
        );
    }
    if expected.corrupts {
        // The receiving kernel drops most of them.
        return Ok(());
    }
    let offered = (after[first].offered - before[first].offered) as f64;
    let delivered = (after[last].delivered - before[last].delivered) as f64;
    let arrived = (burst.unique + burst.duplicates) as f64;
    let is_same = offered == sent && delivered == arrived;
    let verdict = match is_same {
        true => Verdict::Pass,
        false => Verdict::Fail,
    };
    report.push(direction, "counters", (delivered, arrived, 0.0), verdict);
    Ok(())
}

/// The rate of full packets.
fn check_rate(
    route: &Route<'_>,
    expected: &Expectation,
    direction: &'static str,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(rate) = expected.rate else {
        return Ok(());
    };
    let bits = rate.as_bits_per_second() as f64 * (1.0 - expected.loss_after);
    if bits > RATE_MAX_BITS {
        let why = "sender and receiver are not that fast";
        report.pass_over(direction, "rate_mbit", (bits / 1e6, f64::NAN), why);
        return Ok(());
    }
    if let Some(why) = expected.rate_unknown {
        report.pass_over(direction, "rate_mbit", (bits / 1e6, f64::NAN), why);
        return Ok(());
    }
    let span = expected.rate_span;
    // Enough to fill the limiter, in spite of what is lost ahead of it.
    let offered_bits = rate.as_bits_per_second() as f64 * 1.3 / (1.0 - expected.loss_before);
    let offered = Rate::bits_per_second(offered_bits as u64);
    let found = route.flood(offered, expected, span)?;
    let packets = bits * span.as_secs_f64() / 12_000.0;
    let share = expected.loss_after;
    // What is lost behind the limiter varies as every share does; and one packet
    // more or less.
    let deviation = (share * expected.loss_burst / packets.max(1.0)).sqrt();
    let tolerance = bits * (RATE_TOLERANCE + 4.0 * deviation + 1.0 / packets.max(1.0));
    let scaled = (bits / 1e6, found / 1e6, tolerance / 1e6);
    report.compare(direction, "rate_mbit", scaled);
    Ok(())
}

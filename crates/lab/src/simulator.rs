//! The simulator as a venue: the same points in virtual time.
//!
//! TCP is the simulator's, with SACK and a kernel's timers; CTCP is the transport
//! itself, without proxies around it; and whatever else a scenario of `ctcp sim`
//! can have. Losses are named by the point's `loss_seed`, so that all series at
//! one place meet the same fortune.
//!
//! A simulated run can be had again from its seed, so its record is short: no
//! series of bytes, samples of the first repetition only, six digits.
//!
//! Points whose flows are equations are computed here, too.

use ctcp_proto::Redundancy;
use ctcp_sim::{
    Application, CtcpConfig, Flow as SimulatedFlow, FlowReport, Network, Report, Scenario,
    TcpConfig, Think, Transport,
};
use ctcp_units::{Duration, Rate};

use crate::equation;
use crate::links;
use crate::point::{Flow, Path, Point, System, Workload};
use crate::record::{DirectionOutcome, FlowOutcome, Inside, PathOutcome, Sample, Spread};
use crate::suite;
use crate::venue::{Outcome, RunError, Stop, Unable, Venue, direction};

/// Runs points in virtual time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulator;

impl Venue for Simulator {
    fn preflight(&self, points: &[&Point]) -> Result<(), Unable> {
        for point in points {
            if suite::is_one(point) {
                suite::check(point).map_err(Unable)?;
                continue;
            }
            if equation::is_one(point) {
                let computed = equation::evaluate(point).map(drop);
                computed.map_err(Unable)?;
                continue;
            }
            let possible = scenario(point)
                .and_then(|scenario| scenario.check().map_err(|error| error.to_string()));
            possible.map_err(|what| {
                let (experiment, series) = (&point.experiment, &point.series);
                Unable(format!("{experiment}, series `{series}`: {what}"))
            })?;
        }
        Ok(())
    }

    fn load(&self, _: &Point) -> f64 {
        1.0
    }

    /// Nothing here waits for a clock.
    fn capacity_share(&self) -> f64 {
        1.0
    }

    fn run(&self, point: &Point, _: &Stop) -> Result<Outcome, RunError> {
        if suite::is_one(point) {
            return suite::run(point).map_err(RunError::Failed);
        }
        if equation::is_one(point) {
            return equation::evaluate(point).map_err(RunError::Failed);
        }
        let report = scenario(point)
            .and_then(|scenario| scenario.run().map_err(|error| error.to_string()))
            .map_err(RunError::Failed)?;
        Ok(Outcome {
            flows: point
                .flows
                .iter()
                .zip(&report.flows)
                .map(|(flow, report)| flow_outcome(point, flow, report))
                .collect(),
            paths: path_outcomes(point, &report),
            timing: None,
        })
    }
}

/// The scenario of a point; the error names what the simulator does not do.
fn scenario(point: &Point) -> Result<Scenario, String> {
    let mut network = network(point)?;
    let mut flows: Vec<SimulatedFlow> = Vec::new();
    for (index, flow) in point.flows.iter().enumerate() {
        let name = match flows.iter().any(|other| other.name == flow.name) {
            true => format!("{} {index}", flow.name),
            false => flow.name.clone(),
        };
        let mut simulated = SimulatedFlow::new(&name, transport(&flow.system)?)
            .application(application(&flow.workload))
            .start(seconds(flow.start_s));
        let is_ctcp = matches!(simulated.transport, Transport::Ctcp(_));
        if point.paths.len() > 1 && (!is_ctcp || flow.extra_rtt_ms > 0.0) {
            return Err(format!(
                "flow `{name}`: over several paths the simulator has CTCP, without a delay of its own"
            ));
        }
        if point.paths.len() > 1 && flow.paths_each > 1 {
            return Err(format!(
                "flow `{name}`: {} paths over each path: the simulator has that over one",
                flow.paths_each
            ));
        }
        if matches!(
            flow.workload,
            Workload::Bulk {
                offered_mbit: Some(_),
                ..
            }
        ) {
            return Err(format!(
                "flow `{name}`: sources of steady rate are on the testbed"
            ));
        }
        if flow.extra_rtt_ms > 0.0 || flow.paths_each > 1 {
            let rtt = seconds(flow.extra_rtt_ms * 1e-3);
            for way in 0..flow.paths_each {
                let access = match way {
                    0 => name.clone(),
                    _ => format!("{name} way {way}"),
                };
                simulated = simulated.path(network.with_access(0, &access, rtt));
            }
        }
        flows.push(simulated);
    }
    let mut scenario = Scenario::new(&point.experiment, network)
        .seed(point.loss_seed)
        .warmup(seconds(warmup_s(point)))
        .time_limit(seconds(end_s(point)));
    if let Some(sample_s) = point.sample_s {
        scenario = scenario.samples(seconds(sample_s));
    }
    scenario.flows = flows;
    Ok(scenario)
}

/// The links of the paths, of each in turn: hop by hop, down and up.
fn network(point: &Point) -> Result<Network, String> {
    let chain = |path: &Path| -> Result<Vec<links::Links>, String> {
        let pair = links::of_path(path)?;
        Ok(vec![pair; path.hops.max(1) as usize])
    };
    if let [path] = &point.paths[..] {
        let hops = chain(path)?;
        let names: Vec<String> = (0..hops.len()).map(|hop| format!("hop{hop}")).collect();
        return Ok(match &hops[..] {
            [only] => Network::dumbbell(only.down.clone(), only.up.clone()),
            _ => Network::chain(
                names
                    .iter()
                    .zip(&hops)
                    .map(|(name, hop)| (name.as_str(), hop.down.clone(), hop.up.clone())),
            ),
        });
    }
    if point.paths.iter().any(|path| path.hops > 1) {
        return Err("paths side by side have one hop each in the simulator".into());
    }
    let pairs: Result<Vec<links::Links>, String> = point.paths.iter().map(links::of_path).collect();
    let names: Vec<String> = (0..point.paths.len()).map(|n| format!("path{n}")).collect();
    Ok(Network::parallel(
        names
            .iter()
            .zip(pairs?)
            .map(|(name, pair)| (name.as_str(), pair.down, pair.up)),
    ))
}

/// The warm-up of the bulk flows, from the start of the first. Objects and films
/// count from their request on.
fn warmup_s(point: &Point) -> f64 {
    let warmups = point.flows.iter().map(|flow| match flow.workload {
        Workload::Bulk { warmup_s, .. } => flow.start_s + warmup_s,
        _ => 0.0,
    });
    warmups.fold(0.0, f64::max)
}

fn end_s(point: &Point) -> f64 {
    let ends = point.flows.iter().map(|flow| match flow.workload {
        Workload::Bulk {
            warmup_s,
            duration_s,
            ..
        } => flow.start_s + (warmup_s + duration_s).min(point.time_limit_s),
        _ => flow.start_s + point.time_limit_s,
    });
    ends.fold(0.0, f64::max)
}

fn transport(system: &System) -> Result<Transport, String> {
    let check = |name: &str| ctcp_congestion::resolved_name(name).map_err(|e| e.to_string());
    match system {
        System::Tcp { congestion } => {
            check(congestion)?;
            Ok(Transport::Tcp(TcpConfig::default().congestion(congestion)))
        }
        System::Ctcp {
            congestion,
            redundancy,
            arguments,
        } => {
            check(congestion)?;
            if !arguments.is_empty() {
                return Err(format!(
                    "`{}`: the simulator takes no further arguments of ctcp",
                    arguments.join(" ")
                ));
            }
            let redundancy = match redundancy.as_str() {
                "" => Redundancy::default(),
                name => Redundancy::named(name)
                    .ok_or_else(|| format!("`{name}`: the simulator knows no such redundancy"))?,
            };
            let config = CtcpConfig {
                redundancy,
                ..CtcpConfig::default()
            };
            Ok(Transport::Ctcp(config.congestion(congestion)))
        }
        System::Simulated { transport } => ctcp_sim::file::transport(transport),
        System::Suite { .. } => {
            Err("a situation of the suite and a transport do not run beside each other".into())
        }
        System::Model { .. } => {
            Err("an equation and a transport do not run beside each other".into())
        }
        System::Mptcp { .. } => Err("MPTCP is the kernel's: the simulator has none".into()),
        System::External { .. } => Err("programs do not run in the simulator".into()),
    }
}

fn application(workload: &Workload) -> Application {
    match *workload {
        Workload::Bulk { .. } => Application::Bulk,
        Workload::Fetch {
            bytes, count, cold, ..
        } => Application::Web {
            sizes: vec![bytes],
            count: Some(count.into()),
            think: Think::Fixed(Duration::ZERO),
            is_cold: cold,
        },
        Workload::Video {
            duration_s,
            rate_mbit,
            buffer_s,
            ..
        } => Application::Video {
            rate: Rate::bits_per_second((rate_mbit * 1e6).round() as u64),
            length: seconds(duration_s),
            startup: seconds(buffer_s),
            block: seconds(buffer_s),
        },
    }
}

fn flow_outcome(point: &Point, flow: &Flow, report: &FlowReport) -> FlowOutcome {
    let is_ctcp = match &flow.system {
        System::Ctcp { .. } => true,
        System::Simulated { transport } => transport.contains_key("ctcp"),
        _ => false,
    };
    let video = report.video.as_ref();
    FlowOutcome {
        name: flow.name.clone(),
        delivered_bytes: report.bytes_in_order,
        counted_s: report.measured.as_secs_f64(),
        goodput_mbit: short(report.goodput_mbit()),
        is_censored: report.is_finite && !report.is_done,
        completion_s: report
            .completions
            .iter()
            .map(|completion| completion.span().as_secs_f64())
            .collect(),
        connect_s: vec![],
        stalls: video.map_or(0, |video| u32::try_from(video.stalls).unwrap_or(u32::MAX)),
        playout_s: video.and_then(|video| {
            let whole = video.startup? + video.playout?;
            Some(whole.as_secs_f64())
        }),
        wire_bytes: Some(report.bytes_sent),
        useless_share: (is_ctcp && report.packets_received > 0)
            .then(|| short(report.useless_packets as f64 / report.packets_received as f64)),
        series_bytes: vec![],
        series_interval_s: 0.0,
        gap_ms: None,
        delay_median_ms: None,
        delay_p99_ms: None,
        srtt_ms: report.srtt_mean.map(|srtt| short(srtt.as_secs_f64() * 1e3)),
        inside: Some(inside(point, report)),
        scores: vec![],
        value: None,
    }
}

/// What the testbed cannot know.
fn inside(point: &Point, report: &FlowReport) -> Inside {
    let measured_s = report.measured.as_secs_f64();
    let samples = report.samples.iter().map(|sample| Sample {
        time_s: rounded(sample.at.as_nanos() as f64 * 1e-9),
        goodput_mbit: rounded(sample.goodput_bits / 1e6),
        window_packets: rounded(sample.tokens),
        srtt_ms: sample.srtt.map(|srtt| rounded(srtt.as_secs_f64() * 1e3)),
        loss_seen: sample.loss.map(rounded),
    });
    let samples: Vec<Sample> = samples.collect();
    Inside {
        throughput_mbit: short(report.throughput_bits / 1e6),
        window_packets: short(report.tokens_mean),
        timeout_share: match measured_s > 0.0 {
            true => short(report.time_in_timeout.as_secs_f64() / measured_s),
            false => 0.0,
        },
        loss_seen: short(report.loss_seen),
        spread: (!samples.is_empty()).then(|| Spread::of(&samples, warmup_s(point))),
        samples: match point.repetition {
            0 => samples,
            _ => vec![],
        },
    }
}

/// To six digits, which is more than any run is good for.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    // Powers of ten from 10^0 on are exact, so the division gives the nearest.
    let scale = 10_f64.powi(digits.abs());
    match digits >= 0 {
        true => (value * scale).round() / scale,
        false => (value / scale).round() * scale,
    }
}

/// To four decimals: thousands of samples make a line long.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The links of the path come first, for each hop down, then up.
fn path_outcomes(point: &Point, report: &Report) -> Vec<PathOutcome> {
    let hops = point.paths.first().map_or(1, |path| path.hops.max(1)) as usize;
    let links = report.links.chunks(2 * hops).take(point.paths.len());
    let way = |links: &[ctcp_sim::LinkReport], first: usize| {
        let each: Vec<DirectionOutcome> = links
            .iter()
            .skip(first)
            .step_by(2)
            .map(|link| direction(&link.counters))
            .collect();
        in_a_row(&each)
    };
    links
        .map(|links| {
            let mut up = way(links, 1);
            // The way back enters at the last hop.
            if let Some(last) = links.last() {
                up.offered = last.counters.offered;
                up.offered_bytes = last.counters.offered_bytes;
                up.delivered = links[1].counters.delivered;
            }
            PathOutcome {
                down: way(links, 0),
                up,
            }
        })
        .collect()
}

/// What links in a row did together: what went into the first, what came out of
/// the last, what was lost on any.
fn in_a_row(links: &[DirectionOutcome]) -> DirectionOutcome {
    let (Some(first), Some(last)) = (links.first(), links.last()) else {
        return DirectionOutcome::default();
    };
    DirectionOutcome {
        offered: first.offered,
        offered_bytes: first.offered_bytes,
        lost: links.iter().map(|link| link.lost).sum(),
        dropped_queue: links.iter().map(|link| link.dropped_queue).sum(),
        delivered: last.delivered,
        queueing_delay_mean_us: links.iter().map(|link| link.queueing_delay_mean_us).sum(),
    }
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Process, Venue as Place};
    use crate::testbed::test_support::point;

    fn lossy(congestion: &str) -> Point {
        let mut point = point();
        point.venue = Place::Simulator;
        point.paths[0].loss_down.process = Process::Bernoulli { share: 0.01 };
        point.flows[0].system = System::Tcp {
            congestion: congestion.into(),
        };
        point.flows[0].workload = Workload::Bulk {
            warmup_s: 2.0,
            duration_s: 10.0,
            offered_mbit: None,
        };
        point
    }

    fn run(point: &Point) -> Outcome {
        Simulator
            .preflight(&[point])
            .and_then(|()| {
                Simulator
                    .run(point, &Stop::default())
                    .map_err(|error| Unable(error.to_string()))
            })
            .expect("possible")
    }

    #[test]
    fn a_point_gives_the_same_outcome_again() {
        let point = lossy("reno");
        let outcome = run(&point);
        assert_eq!(outcome, run(&point));
        let goodput = outcome.flows[0].goodput_mbit;
        assert!((3.0..8.0).contains(&goodput), "{goodput} Mbit/s");
        let path = outcome.paths[0];
        assert!(path.down.offered > path.up.offered && path.down.lost > 0);
    }

    #[test]
    fn only_the_first_repetition_keeps_its_samples_and_all_keep_their_spread() {
        let mut point = lossy("reno");
        point.sample_s = Some(0.5);
        let inside = |point: &Point| run(point).flows.remove(0).inside.expect("it is simulated");
        let first = inside(&point);
        assert_eq!(first.samples.len(), 24);
        point.repetition = 1;
        let second = inside(&point);
        assert!(second.samples.is_empty());
        let spread = second.spread.expect("it was sampled");
        assert_eq!(Some(spread), first.spread);
        assert!(spread.window_least < spread.window_most);
        // A run without samples is a few hundred bytes.
        point.sample_s = None;
        let line = serde_json::to_string(&run(&point).flows).expect("it can be written");
        assert!(line.len() < 1000, "{line}");
    }

    #[test]
    fn numbers_are_kept_to_six_digits() {
        for (value, kept) in [
            (0.0, 0.0),
            (0.003_712_345_67, 0.003_712_35),
            (23.456_789_1, 23.4568),
            (1_234_567.8, 1_234_570.0),
            (-1.5, -1.5),
        ] {
            assert_eq!(short(value), kept);
        }
    }

    #[test]
    fn ctcp_tells_what_was_useless() {
        let mut point = lossy("reno");
        point.flows[0].system = System::Ctcp {
            congestion: "cc14".into(),
            redundancy: "cc14".into(),
            arguments: vec![],
        };
        let outcome = run(&point);
        let flow = &outcome.flows[0];
        assert!(flow.goodput_mbit > 20.0, "{} Mbit/s", flow.goodput_mbit);
        assert!(flow.useless_share.expect("it counts them") < 0.1);
    }

    #[test]
    fn ctcp_uses_all_of_its_paths() {
        let mut point = lossy("reno");
        point.flows[0].system = System::Ctcp {
            congestion: "cc14".into(),
            redundancy: "cc14".into(),
            arguments: vec![],
        };
        let one = run(&point).flows[0].goodput_mbit;
        point.paths.push(point.paths[0].clone());
        let outcome = run(&point);
        let two = outcome.flows[0].goodput_mbit;
        assert!(two > 1.7 * one, "{one} and {two} Mbit/s");
        assert_eq!(outcome.paths.len(), 2);
        assert!(outcome.paths[1].down.delivered > 5000, "{outcome:?}");
    }

    #[test]
    fn paths_that_share_a_path_carry_no_more_than_it_does() {
        let mut point = lossy("reno");
        point.flows[0].system = System::Ctcp {
            congestion: "cc14".into(),
            redundancy: "cc14".into(),
            arguments: vec![],
        };
        point.flows[0].paths_each = 2;
        let outcome = run(&point);
        let goodput = outcome.flows[0].goodput_mbit;
        assert!((20.0..25.0).contains(&goodput), "{goodput} Mbit/s");
        assert_eq!(outcome.paths.len(), 1);
    }

    #[test]
    fn what_the_simulator_cannot_do_is_refused_by_name() {
        let refusal = |change: fn(&mut Point)| {
            let mut point = lossy("reno");
            change(&mut point);
            let refusal = Simulator.preflight(&[&point]).expect_err("impossible");
            refusal.to_string()
        };
        let unknown = refusal(|point| {
            point.flows[0].system = System::Tcp {
                congestion: "nonesuch".into(),
            };
        });
        assert!(unknown.contains("nonesuch"), "{unknown}");
        let multipath = refusal(|point| {
            point.flows[0].system = System::Mptcp {
                congestion: "cubic".into(),
            };
        });
        assert!(multipath.contains("MPTCP"), "{multipath}");
        let shared = refusal(|point| {
            point.paths.push(point.paths[0].clone());
            point.flows[0].paths_each = 2;
            point.flows[0].system = System::Ctcp {
                congestion: "cc14".into(),
                redundancy: String::new(),
                arguments: vec![],
            };
        });
        assert!(shared.contains("over each path"), "{shared}");
        let steady = refusal(|point| {
            point.flows[0].workload = Workload::Bulk {
                warmup_s: 1.0,
                duration_s: 1.0,
                offered_mbit: Some(1.0),
            };
        });
        assert!(steady.contains("steady rate"), "{steady}");
        let paths = refusal(|point| point.paths.push(point.paths[0].clone()));
        assert!(paths.contains("several paths"), "{paths}");
    }
}

//! The simulator as a venue: the same points in virtual time.
//!
//! TCP is the simulator's, with SACK and a kernel's timers; CTCP is the transport
//! itself, without proxies around it. Losses are named by the point's
//! `loss_seed`, so that all series at one place meet the same fortune.

use ctcp_proto::Redundancy;
use ctcp_sim::{
    Application, CtcpConfig, Flow as SimulatedFlow, FlowReport, Network, Report, Scenario,
    TcpConfig, Think, Transport,
};
use ctcp_units::{Duration, Rate};

use crate::links;
use crate::point::{Flow, Point, System, Workload};
use crate::record::{FlowOutcome, PathOutcome};
use crate::venue::{Outcome, RunError, Stop, Unable, Venue, direction};

/// Interval of the series of bytes.
const INTERVAL: Duration = Duration::from_millis(100);

/// Runs points in virtual time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Simulator;

impl Venue for Simulator {
    fn preflight(&self, points: &[&Point]) -> Result<(), Unable> {
        for point in points {
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
        let report = scenario(point)
            .and_then(|scenario| scenario.run().map_err(|error| error.to_string()))
            .map_err(RunError::Failed)?;
        Ok(Outcome {
            flows: point
                .flows
                .iter()
                .zip(&report.flows)
                .map(|(flow, report)| flow_outcome(flow, report))
                .collect(),
            paths: path_outcomes(point, &report),
            timing: None,
        })
    }
}

/// The scenario of a point; the error names what the simulator does not do.
fn scenario(point: &Point) -> Result<Scenario, String> {
    let [path] = &point.paths[..] else {
        let count = point.paths.len();
        return Err(format!("{count} paths: in the simulator a point has one"));
    };
    let pair = links::of_path(path)?;
    let mut network = Network::dumbbell(pair.down, pair.up);
    let mut flows: Vec<SimulatedFlow> = Vec::new();
    for (index, flow) in point.flows.iter().enumerate() {
        let name = match flows.iter().any(|other| other.name == flow.name) {
            true => format!("{} {index}", flow.name),
            false => flow.name.clone(),
        };
        let mut simulated = SimulatedFlow::new(&name, transport(&flow.system)?)
            .application(application(&flow.workload))
            .start(seconds(flow.start_s));
        if flow.extra_rtt_ms > 0.0 {
            let rtt = seconds(flow.extra_rtt_ms * 1e-3);
            simulated = simulated.path(network.with_access(0, &name, rtt));
        }
        flows.push(simulated);
    }
    let mut scenario = Scenario::new(&point.experiment, network)
        .seed(point.loss_seed)
        .warmup(seconds(warmup_s(point)))
        .time_limit(seconds(end_s(point)))
        .samples(INTERVAL);
    scenario.flows = flows;
    Ok(scenario)
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

fn flow_outcome(flow: &Flow, report: &FlowReport) -> FlowOutcome {
    let interval_s = INTERVAL.as_secs_f64();
    let is_ctcp = matches!(flow.system, System::Ctcp { .. });
    let video = report.video.as_ref();
    FlowOutcome {
        name: flow.name.clone(),
        delivered_bytes: report.bytes_in_order,
        counted_s: report.measured.as_secs_f64(),
        goodput_mbit: report.goodput_mbit(),
        is_censored: report.is_finite && !report.is_done,
        completion_s: report
            .completions
            .iter()
            .map(|completion| completion.span().as_secs_f64())
            .collect(),
        stalls: video.map_or(0, |video| u32::try_from(video.stalls).unwrap_or(u32::MAX)),
        playout_s: video.and_then(|video| {
            let whole = video.startup? + video.playout?;
            Some(whole.as_secs_f64())
        }),
        wire_bytes: Some(report.bytes_sent),
        useless_share: (is_ctcp && report.packets_received > 0)
            .then(|| report.useless_packets as f64 / report.packets_received as f64),
        series_bytes: report
            .samples
            .iter()
            .map(|sample| (sample.goodput_bits * interval_s / 8.0).round() as u64)
            .collect(),
        series_interval_s: interval_s,
        srtt_ms: report.srtt_mean.map(|srtt| srtt.as_secs_f64() * 1e3),
    }
}

/// The links of the path come first: down, then up.
fn path_outcomes(point: &Point, report: &Report) -> Vec<PathOutcome> {
    let links = report.links.chunks(2).take(point.paths.len());
    links
        .map(|pair| PathOutcome {
            down: direction(&pair[0].counters),
            up: direction(&pair[1].counters),
        })
        .collect()
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
        assert_eq!(outcome.flows[0].series_bytes.len(), 120);
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
        let paths = refusal(|point| point.paths.push(point.paths[0].clone()));
        assert!(paths.contains("2 paths"), "{paths}");
    }
}

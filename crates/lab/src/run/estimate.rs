//! How long a point will take, roughly: for the time left, nothing else.

use std::time::Duration;

use crate::point::{Flow, Path, Point, Process, System, Venue, Workload};
use crate::testbed;

/// Putting up a network, starting programs, taking all down.
const AROUND_S: f64 = 1.0;

/// What the simulator takes of the time that it simulates.
const SIMULATOR_SHARE: f64 = 0.02;

/// Payload of a full packet of 1500 bytes of kernel TCP.
const SEGMENT_BYTES: f64 = 1448.0;

/// Shortest retransmission timeout of Linux.
const RTO_MIN_S: f64 = 0.2;

/// How long a point will take on the clock of the wall.
pub fn duration(point: &Point) -> Duration {
    let longest = point
        .flows
        .iter()
        .map(|flow| flow.start_s + flow_s(flow, &point.paths, point.time_limit_s))
        .fold(0.0, f64::max);
    let seconds = match point.venue {
        Venue::Testbed => longest + AROUND_S,
        Venue::Simulator => longest * SIMULATOR_SHARE,
    };
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

/// How long these points will take, at so many jobs, or as many as the processors
/// take: first the testbed's, then the simulator's.
pub fn total_duration<'a>(
    points: impl IntoIterator<Item = &'a Point>,
    jobs: Option<usize>,
) -> Duration {
    let points: Vec<&Point> = points.into_iter().collect();
    let of = |venue, load: fn(&Point) -> f64, capacity_share| {
        let its = points.iter().filter(|point| point.venue == venue);
        let its = its.map(|point| (duration(point), load(point)));
        super::schedule::span(its, jobs, capacity_share)
    };
    of(Venue::Testbed, testbed::load, testbed::CAPACITY_SHARE) + of(Venue::Simulator, |_| 1.0, 1.0)
}

fn flow_s(flow: &Flow, paths: &[Path], limit_s: f64) -> f64 {
    let rate_mbit: f64 = paths
        .iter()
        .map(|path| goodput_mbit(&flow.system, path))
        .sum();
    let rtt_s = paths.iter().map(|path| path.rtt_ms).fold(0.0, f64::max) * 1e-3;
    let seconds = match flow.workload {
        Workload::Bulk {
            warmup_s,
            duration_s,
            ..
        } => warmup_s + duration_s,
        Workload::Fetch { bytes, count, .. } => {
            f64::from(count) * (bytes as f64 * 8e-6 / rate_mbit + 3.0 * rtt_s)
        }
        Workload::Video {
            duration_s,
            rate_mbit: film_mbit,
            buffer_s,
            ..
        } => duration_s * (film_mbit / rate_mbit).max(1.0) + buffer_s,
    };
    seconds.min(limit_s)
}

/// What a system will get: for loss-based TCP the formula of Padhye et al. with
/// two segments an ACK, for the others the rate.
fn goodput_mbit(system: &System, path: &Path) -> f64 {
    let p = match path.loss_down.process {
        Process::None => 0.0,
        Process::Bernoulli { share } | Process::GilbertElliott { share, .. } => share,
        Process::EveryNth { n } => 1.0 / n as f64,
        Process::Interference {
            period_ms,
            pulse_ms,
            ..
        } => pulse_ms / period_ms,
    };
    let most = path.rate_mbit * 0.95 * (1.0 - p);
    let is_loss_based = match system {
        System::Tcp { congestion } | System::Mptcp { congestion } => congestion != "bbr",
        System::Ctcp { .. }
        | System::External { .. }
        | System::Simulated { .. }
        | System::Suite { .. }
        | System::Model { .. } => false,
    };
    if !is_loss_based || p <= 0.0 {
        return most.max(1e-6);
    }
    let rtt = path.rtt_ms.max(0.1) * 1e-3;
    let timeout = RTO_MIN_S.max(2.0 * rtt);
    let recovery = rtt * (4.0 * p / 3.0).sqrt();
    let waiting = timeout * (3.0 * (3.0 * p / 4.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    (SEGMENT_BYTES * 8e-6 / (recovery + waiting)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::test_support::point;

    #[test]
    fn a_bulk_run_takes_its_time() {
        let estimate = duration(&point());
        assert_eq!(estimate, Duration::from_secs_f64(1.2 + AROUND_S));
    }

    #[test]
    fn a_fetch_that_crawls_is_cut() {
        let mut point = point();
        point.paths[0].loss_down.process = Process::Bernoulli { share: 0.2 };
        point.flows[0].workload = Workload::Fetch {
            bytes: 100_000_000,
            count: 1,
            program: crate::point::Program::Own,
            cold: false,
        };
        assert_eq!(duration(&point), Duration::from_secs_f64(300.0 + AROUND_S));
        point.flows[0].system = System::Ctcp {
            congestion: "cc14".into(),
            redundancy: String::new(),
            arguments: vec![],
        };
        let estimate = duration(&point).as_secs_f64();
        assert!((40.0..50.0).contains(&estimate), "{estimate}");
    }

    #[test]
    fn the_simulator_is_faster_than_time() {
        let mut point = point();
        let real = duration(&point);
        point.venue = Venue::Simulator;
        assert!(duration(&point) < real / 10);
    }
}

//! What is read off the bytes that arrived in each interval of a run.

use crate::point::{Path, Workload};
use crate::record::{FlowOutcome, Record};

/// A window in which fairness is judged.
const WINDOW_S: f64 = 10.0;

/// Share of a new rate at which a flow has settled.
const SETTLED: f64 = 0.9;

/// Payload share of a full packet.
const PAYLOAD_SHARE: f64 = 1436.0 / 1500.0;

/// Intervals that are taken together, so that one full of repairs says nothing.
const TOGETHER: usize = 2;

/// Bytes of a flow between two moments, from the start of the run.
fn bytes_between(flow: &FlowOutcome, start_s: f64, from_s: f64, until_s: f64) -> f64 {
    let place = |at_s: f64| ((at_s - start_s) / flow.series_interval_s).round().max(0.0) as usize;
    let end = place(until_s).min(flow.series_bytes.len());
    let begin = place(from_s).min(end);
    flow.series_bytes[begin..end].iter().sum::<u64>() as f64
}

/// Jain's index of the flows, mean over windows of 10 s that begin when all count;
/// none if no window fits.
pub(super) fn jain(record: &Record) -> Option<f64> {
    let (mut from_s, mut until_s) = (0.0_f64, f64::INFINITY);
    for flow in &record.point.flows {
        let Workload::Bulk {
            warmup_s,
            duration_s,
            ..
        } = flow.workload
        else {
            return None;
        };
        from_s = from_s.max(flow.start_s + warmup_s);
        until_s = until_s.min(flow.start_s + warmup_s + duration_s);
    }
    let windows = ((until_s - from_s) / WINDOW_S + 1e-9).floor() as u32;
    let index = |window: u32| {
        let begin_s = from_s + f64::from(window) * WINDOW_S;
        let flows = record.flows.iter().zip(&record.point.flows);
        let shares = flows.map(|(outcome, flow)| {
            bytes_between(outcome, flow.start_s, begin_s, begin_s + WINDOW_S)
        });
        let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), share| {
            (sum + share, squares + share * share)
        });
        sum * sum / (record.flows.len() as f64 * squares)
    };
    (windows > 0 && record.flows.len() > 1)
        .then(|| (0..windows).map(index).sum::<f64>() / f64::from(windows))
}

/// When the rate of a path changes before `until_s`, and to what, Mbit/s.
fn changes(path: &Path, until_s: f64) -> Vec<(f64, f64)> {
    let mut changes = Vec::new();
    let Some(first) = path.rate_phases.first() else {
        return changes;
    };
    let mut at_s = first.for_s;
    let following = path.rate_phases.iter().cycle().skip(1);
    for phase in following.take_while(|phase| phase.for_s > 0.0) {
        if at_s >= until_s {
            break;
        }
        changes.push((at_s, phase.rate_mbit));
        at_s += phase.for_s;
    }
    changes
}

/// Mean rate of the data direction of a path between two moments, Mbit/s.
fn mean_rate_mbit(path: &Path, from_s: f64, until_s: f64) -> f64 {
    let first = path.rate_phases.first();
    let mut rate_mbit = first.map_or(path.rate_mbit, |phase| phase.rate_mbit);
    let (mut at_s, mut megabits) = (from_s, 0.0);
    for (change_s, next_mbit) in changes(path, until_s) {
        if change_s > at_s {
            megabits += rate_mbit * (change_s - at_s);
            at_s = change_s;
        }
        rate_mbit = next_mbit;
    }
    megabits += rate_mbit * (until_s - at_s);
    match until_s > from_s {
        true => megabits / (until_s - from_s),
        false => path.rate_mbit,
    }
}

/// What all paths together carry while a flow counts, Mbit/s.
pub(super) fn rate_mbit(record: &Record, flow: usize) -> f64 {
    let paths = record.point.paths.iter();
    let (from_s, counted_s) = match (record.point.flows.get(flow), record.flows.get(flow)) {
        (Some(flow), Some(outcome)) => match flow.workload {
            Workload::Bulk { warmup_s, .. } => (flow.start_s + warmup_s, outcome.counted_s),
            _ => (flow.start_s, outcome.counted_s),
        },
        _ => (0.0, 0.0),
    };
    paths
        .map(|path| mean_rate_mbit(path, from_s, from_s + counted_s))
        .sum()
}

/// End of what was delivered to a flow, from the start of the run.
fn end_s(flow: &FlowOutcome, start_s: f64) -> f64 {
    start_s + flow.series_bytes.len() as f64 * flow.series_interval_s
}

/// Round trips of the first path after a change of its rate until the flow has
/// settled, the most of all changes; what was never settled counts to the end.
pub(super) fn settle_rtts(record: &Record, flow: &FlowOutcome, start_s: f64) -> Option<f64> {
    let path = record.point.paths.first()?;
    let end_s = end_s(flow, start_s);
    let step_s = flow.series_interval_s;
    let together_s = step_s * TOGETHER as f64;
    let settled = |(at_s, rate_mbit): &(f64, f64)| {
        let wanted = SETTLED * PAYLOAD_SHARE * rate_mbit * 1e6 / 8.0 * together_s;
        let mut from_s = *at_s;
        while from_s + together_s <= end_s {
            if bytes_between(flow, start_s, from_s, from_s + together_s) >= wanted {
                break;
            }
            from_s += step_s;
        }
        // The middle of what was taken together.
        from_s + together_s / 2.0 - at_s
    };
    let changes = changes(path, end_s - together_s);
    let slowest = changes.iter().map(settled).reduce(f64::max)?;
    (path.rtt_ms > 0.0).then(|| slowest * 1e3 / path.rtt_ms)
}

/// Packets that the queue of the first path dropped, for each fall of its rate, in
/// bandwidth-delay products.
pub(super) fn overflow_bdp(record: &Record) -> Option<f64> {
    let (path, seen) = (record.point.paths.first()?, record.paths.first()?);
    let (flow, outcome) = (record.point.flows.first()?, record.flows.first()?);
    let mut before = path.rate_phases.first()?.rate_mbit;
    let mut falls = 0;
    for (_, rate_mbit) in changes(path, end_s(outcome, flow.start_s)) {
        falls += i32::from(rate_mbit < before);
        before = rate_mbit;
    }
    let bdp_packets = path.rate_mbit * path.rtt_ms * 1e3 / 8.0 / 1500.0;
    (falls > 0).then(|| seen.down.dropped_queue as f64 / bdp_packets / f64::from(falls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::RatePhase;
    use crate::record::PathOutcome;
    use crate::testbed::test_support::point;

    /// A flow that got so many Mbit/s in each interval of 0.1 s.
    fn flow(mbit: impl IntoIterator<Item = f64>) -> FlowOutcome {
        FlowOutcome {
            series_bytes: mbit
                .into_iter()
                .map(|mbit| (mbit * 12_500.0) as u64)
                .collect(),
            series_interval_s: 0.1,
            ..FlowOutcome::default()
        }
    }

    fn record(flows: Vec<FlowOutcome>) -> Record {
        let mut point = point();
        let model = point.flows[0].clone();
        point.flows = vec![model; flows.len()];
        Record {
            point,
            started_at: String::new(),
            elapsed_s: 0.0,
            provenance: Default::default(),
            fidelity: None,
            flows,
            paths: vec![PathOutcome::default()],
            error: None,
        }
    }

    #[test]
    fn a_flow_that_joins_later_is_judged_from_when_all_count() {
        let mut late = record(vec![flow([9.0; 300]), flow([9.0; 250])]);
        for (flow, (start_s, warmup_s)) in
            late.point.flows.iter_mut().zip([(0.0, 10.0), (5.0, 5.0)])
        {
            flow.start_s = start_s;
            flow.workload = Workload::Bulk {
                warmup_s,
                duration_s: 20.0,
                offered_mbit: None,
            };
        }
        late.flows[0].series_bytes[..100].fill(0);
        let fair = jain(&late).expect("two windows");
        assert!((fair - 1.0).abs() < 0.05, "{fair}");
        late.flows[1].series_bytes.fill(0);
        assert_eq!(jain(&late), Some(0.5));
        assert_eq!(jain(&record(vec![flow([1.0; 10])])), None);
    }

    #[test]
    fn a_rate_that_comes_back_is_settled_when_its_payload_arrives() {
        let slow = [4.8; 100];
        let mut mbit = [23.9; 100].to_vec();
        mbit.extend(slow);
        // 25 Mbit/s again, of which half a second is not used.
        mbit.extend([10.0; 5]);
        mbit.extend([23.9; 50]);
        let mut steps = record(vec![flow(mbit)]);
        steps.point.paths[0].rtt_ms = 50.0;
        steps.point.paths[0].rate_phases = [(10.0, 25.0), (10.0, 5.0)]
            .map(|(for_s, rate_mbit)| RatePhase { for_s, rate_mbit })
            .into();
        let rtts = settle_rtts(&steps, &steps.flows[0], 0.0).expect("two changes");
        // 0.5 s, and half of the 0.2 s looked at.
        assert!((rtts - 12.0).abs() < 1e-6, "{rtts}");
        steps.paths[0].down.dropped_queue = 156;
        steps.point.paths[0].rate_mbit = 25.0;
        let dropped = overflow_bdp(&steps).expect("one fall");
        // 25 Mbit/s · 50 ms are 104 packets.
        assert!((dropped - 1.4976).abs() < 1e-3, "{dropped}");
    }

    #[test]
    fn the_moving_sum_is_the_mean_of_the_rates_while_it_counts() {
        let mut moving = record(vec![flow([1.0; 300])]);
        moving.point.paths[0].rate_mbit = 10.0;
        moving.point.flows[0].start_s = 2.0;
        moving.point.flows[0].workload = Workload::Bulk {
            warmup_s: 6.0,
            duration_s: 20.0,
            offered_mbit: None,
        };
        moving.flows[0].counted_s = 20.0;
        assert_eq!(rate_mbit(&moving, 0), 10.0);
        moving.point.paths[0].rate_phases = [(5.0, 10.0), (5.0, 5.0), (5.0, 20.0)]
            .map(|(for_s, rate_mbit)| RatePhase { for_s, rate_mbit })
            .into();
        // From 8 to 28 s: 2 s of 5, then 20, 10, 5 for five each, and 3 s of 20.
        let mean = (2.0 * 5.0 + 5.0 * (20.0 + 10.0 + 5.0) + 3.0 * 20.0) / 20.0;
        assert!((rate_mbit(&moving, 0) - mean).abs() < 1e-9);
        moving.flows[0].counted_s = 0.0;
        assert_eq!(rate_mbit(&moving, 0), 10.0);
    }

    #[test]
    fn a_path_that_does_not_change_has_nothing_to_settle() {
        let steady = record(vec![flow([1.0; 100])]);
        assert_eq!(settle_rtts(&steady, &steady.flows[0], 0.0), None);
        assert_eq!(overflow_bdp(&steady), None);
    }
}

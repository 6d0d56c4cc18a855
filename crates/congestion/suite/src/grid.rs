//! The situations, and what each of them asks for.

use ctcp_link::{GilbertElliott, Jitter, LinkConfig, LossModel, RateLimit, RateTrace};
use ctcp_units::{Duration, LossRate, Rate, micros, millis, seconds};

/// How much of the grid, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A choice of rows, measured for 20 s: for the work on a constant.
    Quick,
    /// All rows, measured for 60 s.
    Full,
}

/// A bulk flow that others share the path with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbourhood {
    /// Flows of the contestant.
    pub flow_count: usize,
    /// Round trip of the last flow in units of that of the first; those between
    /// have one of the two in turn.
    pub rtt_spread: u32,
}

/// What happens on the path.
#[derive(Debug, Clone, PartialEq)]
pub enum Situation {
    /// One flow for long.
    Alone {
        /// Least ratio.
        ratio_min: f64,
        /// Most mean queueing delay in bandwidth-delay products, if it is judged.
        queue_max: Option<f64>,
        /// Whether bytes on the wire and useless packets are judged.
        judges_waste: bool,
    },
    /// One file on a connection that has carried next to nothing before.
    File {
        /// Its length.
        bytes: u64,
        /// Most time beyond `size_factor` times the length over the payload
        /// rate, in round trips.
        extra_rtt_max: f64,
        /// See there.
        size_factor: f64,
        /// An earlier connection knew the path: what it remembers of the rate, in
        /// units of what the rate is.
        remembered: Option<f64>,
    },
    /// Beside one CUBIC flow over TCP.
    BesideCubic,
    /// Several of the contestant, joining one after the other.
    Several(Neighbourhood),
    /// A token bucket that drops.
    Policer {
        /// Least ratio.
        ratio_min: f64,
        /// Most loss.
        loss_max: f64,
    },
    /// The rate falls to a fifth and comes back, every 10 s.
    RateSteps,
}

/// One situation on one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it is called in tables.
    pub name: String,
    /// What happens.
    pub situation: Situation,
    /// Direction of the data.
    pub down: LinkConfig,
    /// Way back.
    pub up: LinkConfig,
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Round trip without queues.
    pub rtt: Duration,
    /// Share lost by chance in each direction.
    pub loss: f64,
}

fn bernoulli(share: f64) -> LossModel {
    LossModel::Bernoulli(LossRate::clamped(share))
}

fn path(rate: u64, rtt: Duration, queue: f64, loss: f64) -> (LinkConfig, LinkConfig) {
    let link = || {
        let link = LinkConfig::new(Rate::mbit(rate), rtt / 2).queue_bdp(queue, rtt);
        match loss > 0.0 {
            true => link.loss(bernoulli(loss)),
            false => link,
        }
    };
    (link(), link())
}

fn row(name: String, situation: Situation, path_of: (u64, Duration, f64, f64)) -> Row {
    let (rate, rtt, queue, loss) = path_of;
    let (down, up) = path(rate, rtt, queue, loss);
    Row {
        name,
        situation,
        down,
        up,
        rate: Rate::mbit(rate),
        rtt,
        loss,
    }
}

fn alone(ratio_min: f64) -> Situation {
    Situation::Alone {
        ratio_min,
        queue_max: None,
        judges_waste: false,
    }
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// The rows of the grid.
pub fn rows(extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    steady(&mut rows);
    queues(&mut rows);
    varying(&mut rows);
    satellite(&mut rows, extent);
    beside_cubic(&mut rows, extent);
    several(&mut rows, extent);
    changes(&mut rows);
    resumed(&mut rows);
    rows
}

fn steady(rows: &mut Vec<Row>) {
    let aims = [
        (0.0, 0.98),
        (0.01, 0.98),
        (0.05, 0.97),
        (0.10, 0.96),
        (0.20, 0.94),
        (0.30, 0.90),
        (0.40, 0.80),
    ];
    for (loss, ratio_min) in aims {
        let situation = Situation::Alone {
            ratio_min,
            queue_max: None,
            judges_waste: true,
        };
        let name = format!("steady {}", percent(loss));
        rows.push(row(name, situation, (25, millis(20), 1.0, loss)));
    }
    for (burst, ratio_min) in [(8.0, 0.95), (30.0, 0.90)] {
        let name = format!("bursts of {burst}, 5 %");
        let mut row = row(name, alone(ratio_min), (25, millis(20), 1.0, 0.0));
        let chain = GilbertElliott::from_mean_and_burst(LossRate::clamped(0.05), burst)
            .expect("bursts longer than a packet");
        row.loss = 0.05;
        row.down = row.down.loss(LossModel::GilbertElliott(chain));
        row.up = row.up.loss(LossModel::GilbertElliott(chain));
        rows.push(row);
    }
}

fn queues(rows: &mut Vec<Row>) {
    for (queue, loss, ratio_min) in [
        (0.1, 0.0, 0.90),
        (0.25, 0.0, 0.95),
        (0.25, 0.01, 0.95),
        (0.25, 0.10, 0.93),
        (4.0, 0.0, 0.97),
        (4.0, 0.01, 0.97),
        (4.0, 0.10, 0.95),
        (10.0, 0.0, 0.97),
    ] {
        let situation = Situation::Alone {
            ratio_min,
            queue_max: (queue > 1.0).then_some(0.5),
            judges_waste: false,
        };
        let name = format!("queue {queue} BDP, {}", percent(loss));
        rows.push(row(name, situation, (25, millis(20), queue, loss)));
    }
}

fn varying(rows: &mut Vec<Row>) {
    let noise = Jitter::Noise {
        max: millis(30),
        interval: millis(50),
    };
    let mut noisy = row(
        "noise 0-30 ms, 2 %".to_owned(),
        alone(0.93),
        (25, millis(20), 1.0, 0.02),
    );
    noisy.down = noisy.down.jitter(noise);
    rows.push(noisy);
    let mut steps = row(
        "RTT 40-70-40 ms".to_owned(),
        alone(0.93),
        (25, millis(40), 1.0, 0.0),
    );
    for index in 1..10_u32 {
        let delay = if index % 2 == 1 { 35 } else { 20 };
        let at = seconds(15) * index;
        steps.down = steps.down.delay_change(at, millis(delay));
        steps.up = steps.up.delay_change(at, millis(delay));
    }
    rows.push(steps);
}

fn satellite(rows: &mut Vec<Row>, extent: Extent) {
    for rtt in [500, 800] {
        for loss in [0.0, 0.01, 0.05, 0.1, 0.2] {
            let is_shown = extent == Extent::Full || [0.0, 0.1, 0.2].contains(&loss);
            if !is_shown || (extent == Extent::Quick && rtt == 800 && loss != 0.2) {
                continue;
            }
            let is_heavy = loss > 0.1;
            let situation = Situation::File {
                bytes: 20_000_000,
                extra_rtt_max: if is_heavy { 8.0 } else { 6.5 },
                size_factor: if is_heavy { 1.08 } else { 1.05 },
                remembered: None,
            };
            let name = format!("20 MB, {rtt} ms, {}", percent(loss));
            rows.push(row(name, situation, (10, millis(rtt), 1.0, loss)));
        }
    }
}

/// A second connection over a satellite; last, so that the rows before keep their
/// places.
fn resumed(rows: &mut Vec<Row>) {
    for (loss, remembered, extra_rtt_max) in [
        (0.0, 1.0, 3.0),
        (0.01, 1.0, 3.0),
        (0.1, 1.0, 3.0),
        // The path has a tenth of what it had: as if nothing were remembered.
        (0.0, 10.0, 6.5),
    ] {
        let situation = Situation::File {
            bytes: 20_000_000,
            extra_rtt_max,
            size_factor: 1.05,
            remembered: Some(remembered),
        };
        let less = match remembered > 1.0 {
            true => ", a tenth left",
            false => "",
        };
        let name = format!("20 MB, 500 ms, {}, resumed{less}", percent(loss));
        rows.push(row(name, situation, (10, millis(500), 1.0, loss)));
    }
}

fn beside_cubic(rows: &mut Vec<Row>, extent: Extent) {
    let (rtts, queues): (&[u64], &[f64]) = match extent {
        Extent::Quick => (&[20, 100], &[0.5, 2.0]),
        Extent::Full => (&[10, 20, 50, 100, 200], &[0.5, 1.0, 2.0]),
    };
    for rate in [10, 25] {
        for &rtt in rtts {
            for &queue in queues {
                for loss in [0.0, 0.01] {
                    let name = format!(
                        "CUBIC {rate} Mbit/s, {rtt} ms, {queue} BDP, {}",
                        percent(loss)
                    );
                    let path = (rate, millis(rtt), queue, loss);
                    rows.push(row(name, Situation::BesideCubic, path));
                }
            }
        }
    }
}

fn several(rows: &mut Vec<Row>, extent: Extent) {
    for flow_count in [2, 4, 16] {
        for rtt_spread in [1, 4] {
            for loss in [0.0, 0.01] {
                if extent == Extent::Quick && (flow_count == 16 || loss > 0.0) {
                    continue;
                }
                let name = format!("{flow_count} flows, RTT 1:{rtt_spread}, {}", percent(loss));
                let situation = Situation::Several(Neighbourhood {
                    flow_count,
                    rtt_spread,
                });
                rows.push(row(name, situation, (25, millis(40), 1.0, loss)));
            }
        }
    }
}

fn changes(rows: &mut Vec<Row>) {
    let situation = Situation::Policer {
        ratio_min: 0.85,
        loss_max: 0.10,
    };
    let mut policed = row(
        "policer 10 Mbit/s, 64 kB".to_owned(),
        situation,
        (10, millis(20), 1.0, 0.0),
    );
    policed.down.rate = RateLimit::Policer {
        rate: Rate::mbit(10),
        burst_bytes: 64_000,
    };
    rows.push(policed);
    let mut steps = row(
        "rate 25-5-25 Mbit/s".to_owned(),
        Situation::RateSteps,
        (25, millis(20), 1.0, 0.0),
    );
    steps.down.rate = RateLimit::Trace(rate_steps());
    rows.push(steps);
}

/// 10 s of 25 Mbit/s, 10 s of 5 Mbit/s.
fn rate_steps() -> RateTrace {
    let spaced = |from: Duration, until: Duration, gap: Duration| {
        let mut at = from;
        core::iter::from_fn(move || {
            at += gap;
            (at <= until).then_some(at.as_millis() as u32)
        })
    };
    let fast = spaced(Duration::ZERO, seconds(10), micros(480));
    let slow = spaced(seconds(10), seconds(20), micros(2400));
    RateTrace::from_millis(fast.chain(slow).collect()).expect("times that go forward")
}

//! Runs a row and holds its figures against the aims.

use std::fmt::Write as _;

use ctcp_congestion::Remembered;
use ctcp_sim::{Application, Flow, FlowReport, Network, Report, Scenario, ScenarioError, Think};
use ctcp_units::{Duration, Instant, millis, seconds};
use rayon::prelude::*;
use thiserror::Error;

use crate::contestant::Contestant;
use crate::grid::{Extent, Neighbourhood, Row, Situation};

/// Payload share of a full packet.
const PAYLOAD_SHARE: f64 = 1436.0 / 1500.0;
/// Bytes on the wire per useful byte that cannot be saved: 1500/1436.
const WIRE_LEAST: f64 = 1.045;
/// Time before steady figures are taken.
const WARMUP: Duration = seconds(5);
/// From one joining flow to the next.
const JOIN_EVERY: Duration = seconds(2);
/// From the last joining to the window in which fairness is judged.
const JOIN_SETTLE: Duration = seconds(10);

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Shown, not judged.
    Shown,
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The row.
    pub row: String,
    /// Which figure.
    pub figure: &'static str,
    /// Who.
    pub contestant: String,
    /// Seed of the run.
    pub seed: u64,
    /// The figure.
    pub value: f64,
    /// What it should be.
    pub aim: Aim,
}

impl Score {
    /// Whether the aim is reached.
    pub fn is_reached(&self) -> bool {
        match self.aim {
            Aim::AtLeast(aim) => self.value >= aim,
            Aim::AtMost(aim) => self.value <= aim,
            Aim::Shown => true,
        }
    }
}

/// Why a row could not be run.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("row `{row}`: {error}")]
pub struct SuiteError {
    /// The row.
    pub row: String,
    /// What the simulator says.
    pub error: ScenarioError,
}

/// Runs all rows with all contestants and seeds over all cores; scores come in
/// the order of rows, contestants, seeds.
///
/// # Errors
/// The first row that cannot be run.
pub fn measure_all(
    rows: &[Row],
    contestants: &[Contestant],
    seeds: &[u64],
    extent: Extent,
) -> Result<Vec<Score>, SuiteError> {
    let mut jobs = Vec::new();
    for row in rows {
        for contestant in contestants {
            for &seed in seeds {
                jobs.push((row, contestant, seed));
            }
        }
    }
    let scores: Result<Vec<_>, _> = jobs
        .par_iter()
        .map(|(row, contestant, seed)| measure(row, contestant, *seed, extent))
        .collect();
    Ok(scores?.into_iter().flatten().collect())
}

/// Runs a row with one contestant.
///
/// # Errors
/// The row cannot be run.
pub fn measure(
    row: &Row,
    contestant: &Contestant,
    seed: u64,
    extent: Extent,
) -> Result<Vec<Score>, SuiteError> {
    let job = Job {
        row,
        contestant,
        seed,
        span: match extent {
            Extent::Quick => seconds(20),
            Extent::Full => seconds(60),
        },
    };
    job.figures().map_err(|error| SuiteError {
        row: row.name.clone(),
        error,
    })
}

/// One flow alone on the row's path (beside CUBIC if the row says so) over time: a
/// line a sample.
///
/// # Errors
/// The row cannot be run.
pub fn trace(
    row: &Row,
    contestant: &Contestant,
    seed: u64,
    interval: Duration,
    span: Duration,
) -> Result<String, SuiteError> {
    let network = Network::dumbbell(row.down.clone(), row.up.clone());
    let mut scenario = Scenario::new(&row.name, network)
        .seed(seed)
        .samples(interval)
        .time_limit(span)
        .flow(Flow::new("one", contestant.transport()));
    if row.situation == Situation::BesideCubic {
        let cubic = Flow::new("cubic", Contestant::neighbour().transport());
        scenario = scenario.flow(cubic.start(millis(500)));
    }
    let report = scenario.run().map_err(|error| SuiteError {
        row: row.name.clone(),
        error,
    })?;
    let mut text = String::from("s tokens in_flight srtt_ms Mbit/s loss queue_packets\n");
    for (index, queue) in report.links[0].samples.iter().enumerate() {
        let _ = write!(text, "{:.3}", (queue.at - Instant::EPOCH).as_secs_f64());
        for flow in &report.flows {
            let one = &flow.samples[index];
            let srtt = one.srtt.unwrap_or_default().as_secs_f64() * 1e3;
            let _ = write!(
                text,
                "  {:.1} {} {srtt:.1} {:.2} {:.2}",
                one.tokens,
                one.in_flight,
                one.goodput_bits / 1e6,
                one.loss.unwrap_or(0.0)
            );
        }
        let _ = writeln!(text, "  {}", queue.queue_packets);
    }
    Ok(text)
}

struct Job<'a> {
    row: &'a Row,
    contestant: &'a Contestant,
    seed: u64,
    span: Duration,
}

impl Job<'_> {
    fn figures(&self) -> Result<Vec<Score>, ScenarioError> {
        match &self.row.situation {
            Situation::Alone {
                ratio_min,
                queue_max,
                judges_waste,
            } => self.alone(*ratio_min, *queue_max, *judges_waste),
            Situation::File {
                bytes,
                extra_rtt_max,
                size_factor,
                remembered,
            } => {
                let flow = self.resumed_flow(*remembered);
                self.file(flow, *bytes, *extra_rtt_max, *size_factor)
            }
            Situation::BesideCubic => self.beside_cubic(),
            Situation::Several(neighbourhood) => self.several(*neighbourhood),
            Situation::Policer {
                ratio_min,
                loss_max,
            } => self.policer(*ratio_min, *loss_max),
            Situation::RateSteps => self.rate_steps(),
        }
    }

    fn score(&self, figure: &'static str, value: f64, aim: Aim) -> Score {
        Score {
            row: self.row.name.clone(),
            figure,
            contestant: self.contestant.name.clone(),
            seed: self.seed,
            value,
            aim,
        }
    }

    fn network(&self) -> Network {
        Network::dumbbell(self.row.down.clone(), self.row.up.clone())
    }

    fn scenario(&self, network: Network) -> Scenario {
        Scenario::new(&self.row.name, network)
            .seed(self.seed)
            .warmup(WARMUP)
            .time_limit(WARMUP + self.span)
    }

    fn flow(&self, name: &str) -> Flow {
        Flow::new(name, self.contestant.transport())
    }

    /// A flow whose path carried so many times its rate when it was remembered.
    fn resumed_flow(&self, remembered: Option<f64>) -> Flow {
        let Some(share) = remembered else {
            return self.flow("one");
        };
        let packets = self.row.rate.as_bits_per_second() as f64 / (8.0 * 1500.0);
        let remembered = Remembered {
            packets_per_second: packets * share,
            rtt: self.row.rtt,
        };
        Flow::new("one", self.contestant.resumed(remembered))
    }

    fn payload_bits(&self) -> f64 {
        self.row.rate.as_bits_per_second() as f64 * PAYLOAD_SHARE
    }

    fn ratio(&self, flow: &FlowReport) -> f64 {
        flow.goodput_bits / self.payload_bits()
    }

    fn queue_rtts(&self, report: &Report) -> f64 {
        let mean = report.links[0].counters.queueing_delay_mean();
        mean.as_secs_f64() / self.row.rtt.as_secs_f64()
    }

    fn alone(
        &self,
        ratio_min: f64,
        queue_max: Option<f64>,
        judges_waste: bool,
    ) -> Result<Vec<Score>, ScenarioError> {
        let report = self.scenario(self.network()).flow(self.flow("one")).run()?;
        let flow = &report.flows[0];
        let queue_aim = queue_max.map_or(Aim::Shown, Aim::AtMost);
        let mut scores = vec![
            self.score("ratio", self.ratio(flow), Aim::AtLeast(ratio_min)),
            self.score("queue/BDP", self.queue_rtts(&report), queue_aim),
        ];
        if judges_waste {
            let wire = flow.bytes_sent as f64 / flow.bytes_in_order.max(1) as f64;
            let least = WIRE_LEAST / (1.0 - self.row.loss);
            scores.push(self.score("wire/least", wire / least, Aim::AtMost(1.05)));
            let useless = flow.useless_packets as f64 / flow.packets_received.max(1) as f64;
            let aim = match self.row.loss {
                loss if loss <= 0.1 => Aim::AtMost(0.02),
                loss if loss <= 0.2 => Aim::AtMost(0.03),
                _ => Aim::Shown,
            };
            scores.push(self.score("useless", useless, aim));
        }
        Ok(scores)
    }

    fn file(
        &self,
        flow: Flow,
        bytes: u64,
        extra_rtt_max: f64,
        size_factor: f64,
    ) -> Result<Vec<Score>, ScenarioError> {
        // A small object first: the connection is there, and unused.
        let application = Application::Web {
            sizes: vec![1000, bytes],
            count: Some(2),
            think: Think::Fixed(Duration::ZERO),
            is_cold: false,
        };
        let report = Scenario::new(&self.row.name, self.network())
            .seed(self.seed)
            .time_limit(seconds(300))
            .flow(flow.application(application))
            .run()?;
        let rtt = self.row.rtt.as_secs_f64();
        // The request takes half a round trip to the sender.
        let took = report.flows[0]
            .completions
            .get(1)
            .map_or(300.0, |one| one.span().as_secs_f64() - rtt / 2.0);
        let ideal = bytes as f64 * 8.0 / self.payload_bits();
        let extra = (took - size_factor * ideal) / rtt;
        Ok(vec![
            self.score("extra RTTs", extra, Aim::AtMost(extra_rtt_max)),
            self.score("seconds", took, Aim::Shown),
        ])
    }

    /// Both start within a second, the contestant first.
    fn pair(&self, contestant: &Contestant) -> Result<Report, ScenarioError> {
        let later = millis(500);
        let neighbour = Contestant::neighbour().transport();
        Scenario::new(&self.row.name, self.network())
            .seed(self.seed)
            .warmup(WARMUP * 2)
            .time_limit(WARMUP * 2 + self.span * 2)
            .flow(Flow::new("one", contestant.transport()))
            .flow(Flow::new("cubic", neighbour).start(later))
            .run()
    }

    fn beside_cubic(&self) -> Result<Vec<Score>, ScenarioError> {
        let report = self.pair(self.contestant)?;
        let reference = self.pair(&Contestant::neighbour())?;
        let own = report.flows[0].goodput_bits;
        let cubic = report.flows[1].goodput_bits;
        let among_cubics =
            (reference.flows[0].goodput_bits + reference.flows[1].goodput_bits) / 2.0;
        let kept = cubic / among_cubics.max(1.0);
        let sum = (own + cubic) / self.payload_bits();
        let jain = jain(&[own, cubic]);
        let bdp = self.row.rate.bytes_in(self.row.rtt) / 1500;
        let is_lossy = self.row.loss > 0.0;
        let kept_aim = match (is_lossy, bdp) {
            (false, _) => Aim::AtLeast(0.9),
            (true, 40..) => Aim::AtLeast(0.8),
            (true, _) => Aim::Shown,
        };
        let (jain_aim, sum_aim) = match is_lossy {
            false => (Aim::AtLeast(0.9), Aim::Shown),
            true => (Aim::Shown, Aim::AtLeast(0.95)),
        };
        Ok(vec![
            self.score("CUBIC kept", kept, kept_aim),
            self.score("Jain", jain, jain_aim),
            self.score("sum", sum, sum_aim),
        ])
    }

    fn several(&self, neighbourhood: Neighbourhood) -> Result<Vec<Score>, ScenarioError> {
        let mut network = self.network();
        let near = network.with_access(0, "near", Duration::ZERO);
        let more = self.row.rtt * (neighbourhood.rtt_spread - 1);
        let far = network.with_access(0, "far", more);
        let last_join = JOIN_EVERY * (neighbourhood.flow_count as u32 - 1);
        let from = last_join + JOIN_SETTLE;
        let mut scenario = Scenario::new(&self.row.name, network)
            .seed(self.seed)
            .samples(seconds(1))
            .warmup(from)
            .time_limit(from + self.span);
        for index in 0..neighbourhood.flow_count {
            let path = if index % 2 == 0 { &near } else { &far };
            scenario = scenario.flow(
                self.flow(&format!("flow{index}"))
                    .start(JOIN_EVERY * index as u32)
                    .path(path.clone()),
            );
        }
        let report = scenario.run()?;
        // The mean over windows of 10 s, from 10 s after the last joining on.
        let start = Instant::EPOCH + from;
        let windows = (self.span.as_secs() / 10).max(1);
        let mean: f64 = (0..windows)
            .map(|window| {
                let begin = start + seconds(10) * window as u32;
                let end = begin + seconds(10);
                let shares: Vec<f64> = report
                    .flows
                    .iter()
                    .map(|flow| {
                        flow.samples
                            .iter()
                            .filter(|sample| sample.at > begin && sample.at <= end)
                            .map(|sample| sample.goodput_bits)
                            .sum()
                    })
                    .collect();
                jain(&shares)
            })
            .sum();
        let aim = if neighbourhood.rtt_spread > 1 {
            0.8
        } else {
            0.95
        };
        let sum: f64 = report.flows.iter().map(|flow| self.ratio(flow)).sum();
        Ok(vec![
            self.score("Jain", mean / windows as f64, Aim::AtLeast(aim)),
            self.score("sum", sum, Aim::AtLeast(0.95)),
            self.score("queue/BDP", self.queue_rtts(&report), Aim::Shown),
        ])
    }

    fn policer(&self, ratio_min: f64, loss_max: f64) -> Result<Vec<Score>, ScenarioError> {
        let report = self.scenario(self.network()).flow(self.flow("one")).run()?;
        let flow = &report.flows[0];
        Ok(vec![
            self.score("ratio", self.ratio(flow), Aim::AtLeast(ratio_min)),
            self.score("loss", flow.loss_seen, Aim::AtMost(loss_max)),
        ])
    }

    fn rate_steps(&self) -> Result<Vec<Score>, ScenarioError> {
        let rtt = self.row.rtt;
        let report = Scenario::new(&self.row.name, self.network())
            .seed(self.seed)
            .samples(rtt)
            .time_limit(seconds(41))
            .flow(self.flow("one"))
            .run()?;
        let samples = &report.flows[0].samples;
        // Round trips until the mean of four of them is 0.9 of the new rate.
        let reaches = |at: Duration, rate: f64| {
            let from = samples.partition_point(|one| one.at <= Instant::EPOCH + at);
            let wanted = 0.9 * rate * 1e6 * PAYLOAD_SHARE;
            samples[from..]
                .windows(4)
                .position(|four| {
                    four.iter().map(|one| one.goodput_bits).sum::<f64>() / 4.0 >= wanted
                })
                .map_or(500.0, |place| place as f64 + 2.0)
        };
        let down = reaches(seconds(10), 5.0).max(reaches(seconds(30), 5.0));
        let up = reaches(seconds(20), 25.0).max(reaches(seconds(40), 25.0));
        let dropped = report.links[0].counters.dropped_queue as f64;
        let bdp = self.row.rate.bytes_in(rtt) as f64 / 1500.0;
        Ok(vec![
            self.score("RTTs down", down, Aim::AtMost(10.0)),
            self.score("RTTs up", up, Aim::AtMost(10.0)),
            // Of two drops, and the start.
            self.score("overflow/BDP", dropped / bdp / 2.0, Aim::AtMost(1.0)),
        ])
    }
}

/// Jain's index of fairness.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares).max(f64::MIN_POSITIVE)
}

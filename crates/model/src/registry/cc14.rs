//! The models of [CC14] §II and §IV.

use super::{Inputs, Model, P, Parameter, output, reading};
use crate::aimd::{self, Increase};
use crate::redundancy::{self, BLOCK};
use crate::{Domain, ModelError, surplus};

const RATE: Parameter = Parameter::new("rate", "s", "packets/s")
    .within(Domain::closed(0.0, 1e12))
    .or(2083.3)
    .is("rate just before the event");
const ALPHA: Parameter = Parameter::new("alpha", "α", "packets/RTT")
    .within(Domain::closed(0.0, 1e6).above())
    .or(1.0)
    .is("increase per round trip");
const RTT: Parameter = Parameter::new("rtt", "T", "s")
    .within(Domain::SECONDS)
    .or(0.025)
    .is("round-trip propagation delay");
const BLOCK_SIZE: Parameter = Parameter::new("block", "N", "packets")
    .within(BLOCK)
    .or(32.0)
    .is("block size");

fn increase(inputs: &Inputs<'_>) -> Increase {
    Increase {
        alpha: inputs.get("alpha"),
        rtt: inputs.get("rtt"),
    }
}

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "backoff",
        title: "Factor by which tokens shrink at a loss event",
        source: "[CC14] §IV eq. (1)",
        equation: "β = RTT_min/RTT",
        parameters: &[
            Parameter::new("rtt_min", "RTT_min", "s")
                .within(Domain::SECONDS)
                .or(0.025)
                .is("smallest round-trip time"),
            Parameter::new("rtt", "RTT", "s")
                .within(Domain::SECONDS)
                .or(0.05)
                .is("round-trip time at the event"),
        ],
        readings: &[],
        outputs: &[output("beta", "", "β")],
        plotted: "beta",
        compute: |i| Ok(vec![aimd::backoff_factor(i.get("rtt_min"), i.get("rtt"))?]),
    },
    Model {
        name: "interval",
        title: "Packets sent between two backoff events, and the rate after",
        source: "[CC14] §IV eq. (2)",
        equation: "s(k) = β̃·s(k−1) + α̃·t, N = β̃·s·t + ½·α̃·t², Prob(T ≤ t) = 1 − (1−p)^N",
        parameters: &[
            P.within(Domain::PROBABILITY),
            Parameter::new("beta", "β̃", "")
                .within(Domain::closed(0.0, 1.0).above())
                .or(1.0)
                .is("factor at the last event"),
            RATE,
            ALPHA,
            RTT,
            Parameter::new("interval", "t", "s")
                .within(Domain::closed(0.0, 1e6))
                .or(0.025)
                .is("time since the last event"),
        ],
        readings: &[],
        outputs: &[
            output("packets", "packets", "N, packets sent by then"),
            output("event_probability", "", "Prob(T ≤ t)"),
            output("rate_after", "packets/s", "s(k) if the event is now"),
        ],
        plotted: "event_probability",
        compute: interval,
    },
    Model {
        name: "no-backoff",
        title: "Probability that a flow does not back off at an event",
        source: "[CC14] §IV",
        equation: "γ = (1−p)^(s·T)",
        parameters: &[P.within(Domain::PROBABILITY), RATE, RTT],
        readings: &[],
        outputs: &[output("probability", "", "γ")],
        plotted: "probability",
        compute: |i| {
            let (p, rate, rtt) = (i.get("p"), i.get("rate"), i.get("rtt"));
            Ok(vec![aimd::no_backoff_probability(p, rate, rtt)?])
        },
    },
    Model {
        name: "mean-rate",
        title: "Mean rate of a flow",
        source: "[CC14] §IV eq. (3), (4)",
        equation: "E[s] = α̃/(1 − E[β̃])·E[T], α̃ = α/T²",
        parameters: &[
            ALPHA,
            RTT,
            Parameter::new("beta_mean", "E[β̃]", "")
                .within(Domain::closed(0.0, 1.0).above().below())
                .or(0.5)
                .is("mean factor at an event"),
            Parameter::new("interval_mean", "E[T]", "s")
                .within(Domain::closed(0.0, 1e6))
                .or(0.2)
                .is("mean time between events"),
        ],
        readings: &[],
        outputs: &[output("rate", "packets/s", "E[s]")],
        plotted: "rate",
        compute: |i| {
            let (beta, interval) = (i.get("beta_mean"), i.get("interval_mean"));
            Ok(vec![aimd::mean_rate(increase(i), beta, interval)?])
        },
    },
    Model {
        name: "rtt-fairness",
        title: "Ratio of two flows' rates that differ in round-trip time",
        source: "[CC14] §IV, from eq. (4)",
        equation: "E[s_i]/E[s_j] = (T_j/T_i)²",
        parameters: &[
            RTT.is("round-trip delay of the flow"),
            Parameter::new("rtt_other", "T_j", "s")
                .within(Domain::SECONDS)
                .or(0.05)
                .is("round-trip delay of the other"),
        ],
        readings: &[],
        outputs: &[output("ratio", "", "E[s_i]/E[s_j]")],
        plotted: "ratio",
        compute: |i| {
            Ok(vec![aimd::rate_ratio_by_rtt(
                i.get("rtt"),
                i.get("rtt_other"),
            )?])
        },
    },
    Model {
        name: "friendliness",
        title: "Standard TCP beside an adaptive flow, by the buffer they share",
        source: "[CC14] §IV, from eq. (4)",
        equation: "β_j = 1/(1 + q_max/BDP), E[s_i]/E[s_j] = (1 − β_j)/(1 − β_i)",
        parameters: &[
            Parameter::new("queue_bdp", "q_max", "BDP")
                .within(Domain::closed(0.0, 1e6))
                .or(1.0)
                .is("buffer in bandwidth-delay products"),
            Parameter::new("beta", "β_i", "")
                .within(Domain::closed(0.0, 1.0).above().below())
                .or(0.5)
                .is("fixed factor of the other flow"),
        ],
        readings: &[],
        outputs: &[
            output("beta_adaptive", "", "β_j when the queue is full"),
            output("ratio", "", "E[s_i]/E[s_j], fixed over adaptive"),
        ],
        plotted: "ratio",
        compute: |i| {
            let adaptive = aimd::full_queue_factor(i.get("queue_bdp"))?;
            let ratio = aimd::rate_ratio_by_backoff(i.get("beta"), adaptive)?;
            Ok(vec![adaptive, ratio])
        },
    },
    Model {
        name: "eta",
        title: "Share of packets delivered in vain, and the bound on efficiency",
        source: "[CC14] §IV eq. (5)",
        equation: "η = (1/N)·Σ_{k<n} (n−k)·w_k, the weights w_k by the reading",
        parameters: &[P.within(Domain::closed(0.0, 0.99)), BLOCK_SIZE],
        readings: &[
            reading(
                "C",
                "exact, averaged over ⌊N_c⌋ and ⌈N_c⌉: what the protocol does",
            ),
            reading(
                "A",
                "w_k = binom(N,k)·p^k·(1−p)^(N−k): the smallest repair of the print",
            ),
            reading(
                "B",
                "w_k = binom(N+n,k)·p^k·(1−p)^(N+n−k): exact for n coded packets",
            ),
            reading("D", "exact with n rounded up, as [MP12] Algorithm 3 does"),
            reading(
                "printed",
                "w_k = binom(n,k)·p^k·(1−p)^(N−k), no distribution",
            ),
            reading(
                "coded-only",
                "w_k = binom(n,k)·p^k·(1−p)^(n−k), losses among coded packets",
            ),
        ],
        outputs: &[
            output("coded", "packets", "coded packets per block, n or N_c"),
            output("eta", "", "η"),
            output("bound_after", "", "1 − η, losses use link capacity"),
            output("bound_before", "", "1/(1+η), losses before the rate limit"),
            output(
                "mass",
                "",
                "Σ_{k≤n} w_k; in B, C, D a block decodes at first",
            ),
        ],
        plotted: "bound_before",
        compute: eta,
    },
    Model {
        name: "header-budget",
        title: "Header bytes that an efficiency leaves room for",
        source: "[CC14] §IV eq. (5), reading C",
        equation: "packet − lower − efficiency·(1+η)·packet",
        parameters: &[
            P.within(Domain::closed(0.0, 0.99)),
            BLOCK_SIZE,
            Parameter::new("efficiency", "", "")
                .within(Domain::SOME_LOSS)
                .or(0.96)
                .is("payload bits over link bits to reach"),
            Parameter::new("packet_bytes", "", "bytes")
                .within(Domain::closed(64.0, 65_535.0))
                .or(1500.0)
                .is("IP packet"),
            Parameter::new("lower_bytes", "", "bytes")
                .within(Domain::closed(0.0, 200.0))
                .or(28.0)
                .is("IP and UDP headers"),
        ],
        readings: &[],
        outputs: &[
            output("eta", "", "η"),
            output(
                "payload_bytes",
                "bytes",
                "payload that each packet must carry",
            ),
            output("header_bytes", "bytes", "what is left for our headers"),
        ],
        plotted: "header_bytes",
        compute: |i| {
            let budget = surplus::header_budget(
                i.whole("block"),
                i.get("p"),
                i.get("efficiency"),
                i.get("packet_bytes"),
                i.get("lower_bytes"),
            )?;
            Ok(vec![budget.eta, budget.payload_bytes, budget.header_bytes])
        },
    },
    Model {
        name: "redundancy",
        title: "Coded packets sent after a block, ahead of feedback",
        source: "[CC14] §II",
        equation: "N_c = N·(1/(1−p) − 1)",
        parameters: &[P, BLOCK_SIZE],
        readings: &[],
        outputs: &[
            output("coded", "packets", "N_c, their mean number"),
            output("always", "packets", "⌊N_c⌋"),
            output("extra_probability", "", "N_c − ⌊N_c⌋, one more"),
        ],
        plotted: "coded",
        compute: |i| {
            let ahead = redundancy::coded_ahead(i.whole("block"), i.get("p"))?;
            Ok(vec![ahead.mean, ahead.always, ahead.extra_probability])
        },
    },
    Model {
        name: "repair",
        title: "Packets to send for degrees of freedom that a receiver lacks",
        source: "[SAT] §II-A",
        equation: "d/(1−p)",
        parameters: &[
            P,
            Parameter::new("missing", "d", "packets")
                .within(BLOCK)
                .or(1.0)
                .is("degrees of freedom lacking"),
        ],
        readings: &[],
        outputs: &[output("packets", "packets", "d/(1−p)")],
        plotted: "packets",
        compute: |i| {
            Ok(vec![redundancy::repair_packets(
                i.whole("missing"),
                i.get("p"),
            )?])
        },
    },
    Model {
        name: "innovation",
        title: "Whether random combinations over GF(2^8) suffice",
        source: "[CC14] §II, uniform coefficients",
        equation: "1 − Π_{i=1..m} (1 − 256^−(e+i))",
        parameters: &[
            Parameter::new("missing", "m", "packets")
                .within(BLOCK)
                .or(32.0)
                .is("erased symbols"),
            Parameter::new("extra", "e", "packets")
                .within(Domain::whole(0, 255))
                .or(0.0)
                .is("combinations beyond m"),
        ],
        readings: &[],
        outputs: &[
            output("failure", "", "probability that they do not suffice"),
            output("extra_mean", "packets", "combinations beyond m, on average"),
        ],
        plotted: "failure",
        compute: |i| {
            let missing = i.whole("missing");
            let failure = redundancy::failure_probability(missing, i.whole("extra"))?;
            Ok(vec![failure, redundancy::extra_packets_mean(missing)?])
        },
    },
];

fn interval(inputs: &Inputs<'_>) -> Result<Vec<f64>, ModelError> {
    let (beta, rate) = (inputs.get("beta"), inputs.get("rate"));
    let (increase, interval) = (increase(inputs), inputs.get("interval"));
    let packets = aimd::packets_in_interval(beta, rate, increase, interval)?;
    Ok(vec![
        packets,
        aimd::event_probability(inputs.get("p"), packets)?,
        aimd::rate_at_event(beta, rate, increase, interval)?,
    ])
}

fn eta(inputs: &Inputs<'_>) -> Result<Vec<f64>, ModelError> {
    let reading = inputs.reading.parse()?;
    let surplus = surplus::surplus(inputs.whole("block"), inputs.get("p"), reading)?;
    Ok(vec![
        surplus.coded,
        surplus.eta,
        surplus.bound_after(),
        surplus.bound_before(),
        surplus.mass,
    ])
}

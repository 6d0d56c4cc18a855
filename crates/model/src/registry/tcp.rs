//! What TCP reaches: the reference curves, and the models of [MODEL] §IV.

use super::{Inputs, Model, P, Parameter, Preset, ReadingInfo, output, reading};
use crate::reno::{self, Connection};
use crate::{Domain, ModelError, reference, table1};

const RTT: Parameter = Parameter::new("rtt", "RTT", "s")
    .within(Domain::SECONDS)
    .or(0.025)
    .is("round-trip time");
const WINDOW_MAX: Parameter = Parameter::new("window_max", "W_max", "packets")
    .within(Domain::WINDOW)
    .or(90.0)
    .is("largest window");
const BDP: Parameter = Parameter::new("bdp", "BDP", "packets")
    .within(Domain::closed(0.0, 1e12).above())
    // 25 Mbit/s · 25 ms over packets of 1500 bytes, as in [CC14] §V-B.
    .or(25e6 * 0.025 / 12_000.0)
    .is("bandwidth-delay product of the link");
pub(super) const PACKET_BITS: Parameter = Parameter::new("packet_bits", "", "bit")
    .within(Domain::closed(1.0, 1e6))
    .or(table1::PACKET_BITS)
    .is("bits of a packet");
const TIMEOUT_ROUNDS: Parameter = Parameter::new("timeout_rounds", "T_o", "rounds")
    .within(Domain::closed(0.0, 1e6))
    .or(3.75)
    .is("first timeout");

pub(super) const REFERENCES: &[Model] = &[
    Model {
        name: "padhye",
        title: "Reno without timeouts: window, rate and share of a link",
        source: "[CC14] §V-B",
        equation: "W = sqrt(1.5/p), efficiency = min(1, W/BDP)",
        parameters: &[P.within(Domain::SOME_LOSS), RTT, BDP],
        readings: &[],
        outputs: &[
            output("window", "packets", "W"),
            output("rate", "packets/s", "W/RTT"),
            output("efficiency", "", "share of the link"),
        ],
        plotted: "efficiency",
        compute: |i| {
            let window = reference::reno_window(i.get("p"))?;
            let efficiency = reference::reno_efficiency(i.get("p"), i.get("bdp"))?;
            Ok(vec![window, window / i.get("rtt"), efficiency])
        },
    },
    Model {
        name: "pftk",
        title: "Reno with timeouts, the full formula",
        source: "Padhye, Firoiu, Towsley, Kurose 2000",
        equation: "min(W_m/RTT, 1/(RTT·sqrt(2bp/3) + T_0·min(1, 3·sqrt(3bp/8))·p·(1+32p²)))",
        parameters: &[
            P.within(Domain::PROBABILITY),
            RTT,
            Parameter::new("timeout", "T_0", "s")
                .within(Domain::SECONDS)
                .or(0.2)
                .is("first retransmission timeout"),
            WINDOW_MAX.or(1e6),
            Parameter::new("ack_every", "b", "packets")
                .within(Domain::whole(1, 16))
                .or(1.0)
                .is("packets per ACK"),
        ],
        readings: &[],
        outputs: &[
            output("rate", "packets/s", "B"),
            output("window", "packets", "B·RTT"),
        ],
        plotted: "rate",
        compute: |i| {
            let tcp = reference::Pftk {
                rtt: i.get("rtt"),
                timeout: i.get("timeout"),
                window_max: i.get("window_max"),
                ack_every: i.whole("ack_every"),
            };
            let rate = reference::pftk_rate(i.get("p"), tcp)?;
            Ok(vec![rate, rate * tcp.rtt])
        },
    },
    Model {
        name: "cubic",
        title: "CUBIC's response function",
        source: "[RFC9438] §5.1",
        equation: "W = (C(3+β)/(4(1−β)))^¼·(RTT/p)^¾; never less than sqrt(1.5/p)",
        parameters: &[
            P.within(Domain::SOME_LOSS),
            RTT,
            Parameter::new("c", "C", "packets/s³")
                .within(Domain::closed(0.0, 1e6).above())
                .or(0.4)
                .is("growth constant"),
            Parameter::new("beta", "β", "")
                .within(Domain::closed(0.0, 1.0).above().below())
                .or(0.7)
                .is("factor at a loss"),
        ],
        readings: &[],
        outputs: &[
            output("window_cubic", "packets", "W of the cubic region"),
            output("window", "packets", "the larger of it and Reno's"),
            output("rate", "packets/s", "that over RTT"),
        ],
        plotted: "window",
        compute: |i| {
            let (p, rtt) = (i.get("p"), i.get("rtt"));
            let cubic = reference::Cubic {
                rtt,
                c: i.get("c"),
                beta: i.get("beta"),
            };
            let window = reference::cubic_window_with_friendly_region(p, cubic)?;
            Ok(vec![
                reference::cubic_window(p, cubic)?,
                window,
                window / rtt,
            ])
        },
    },
];

const WINDOW_READINGS: &[ReadingInfo] = &[
    reading(
        "nearest",
        "E[W] rounded to nearest in (14), E-MODEL-03; fits Table I",
    ),
    reading("up", "E[W] rounded up"),
    reading("down", "E[W] rounded down"),
    reading("real", "E[W] kept real, as printed"),
    reading("peak-down", "the window at the loss rounded down"),
    reading(
        "conditional",
        "nearest, and Padhye's TO duration, E-MODEL-05",
    ),
];

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "tcp",
        title: "Throughput of TCP with independent losses",
        source: "[MODEL] §IV eq. (2)–(17)",
        equation: "𝒯 = min(W_max/RTT, (1−p)/p/(RTT·(E[r] + 1 + P(TO|E[W])·E[TO duration])))",
        parameters: &[
            P.within(Domain::PROBABILITY),
            RTT.or(0.8),
            WINDOW_MAX,
            TIMEOUT_ROUNDS,
            Parameter::new("idle_rounds_td", "", "rounds")
                .within(Domain::closed(0.0, 1e6))
                .is("idle per triple duplicate; 2 in Table I"),
            Parameter::new("idle_rounds_to", "", "rounds")
                .within(Domain::closed(0.0, 1e6))
                .is("idle per timeout; 2 in Table I"),
            PACKET_BITS,
        ],
        readings: WINDOW_READINGS,
        outputs: &[
            output("rounds_to_loss", "rounds", "E[r], (9)"),
            output("window", "packets", "E[W], (11)"),
            output("rate_unlimited", "packets/s", "𝒯', (12)"),
            output("timeout_probability", "", "P(TO|E[W]), (14)"),
            output("timeout_rounds_mean", "rounds", "E[TO duration], (16)"),
            output("rate", "packets/s", "𝒯, (17)"),
            output("rate_mbit", "Mbit/s", "𝒯, (17)"),
        ],
        plotted: "rate",
        compute: tcp,
    },
    Model {
        name: "timeout",
        title: "Probability and duration of a timeout after a loss",
        source: "[MODEL] §IV eq. (14)–(16)",
        equation: "P(TO|W) = Σ_{i≤2} binom(W,i)·p^(W−i)·(1−p)^i for W ≥ 3, else 1",
        parameters: &[
            P,
            Parameter::new("window", "W", "packets")
                .within(Domain::closed(0.0, 1e9))
                .or(4.0)
                .is("window at the loss"),
            TIMEOUT_ROUNDS,
        ],
        readings: &[
            reading("printed", "(15) as printed"),
            reading("conditional", "Padhye's, the print over p, E-MODEL-05"),
        ],
        outputs: &[
            output("probability", "", "P(TO|W)"),
            output("duration_rounds", "rounds", "E[TO duration]"),
        ],
        plotted: "probability",
        compute: |i| {
            let duration = match i.reading {
                "conditional" => reno::DurationReading::Conditional,
                _ => reno::DurationReading::Printed,
            };
            let p = i.get("p");
            Ok(vec![
                reno::timeout_probability(i.get("window"), p)?,
                reno::timeout_rounds_mean(p, i.get("timeout_rounds"), duration)?,
            ])
        },
    },
    Model {
        name: "table1",
        title: "Table I: our analysis columns beside the printed ones",
        source: "[MODEL] Table I",
        equation: "E2E by (28), TCP by (17) with two idle rounds per TD and TO event",
        parameters: &[Parameter::new("q", "q", "")
            .within(Domain::OneOf(&table1::LINK_LOSSES))
            .by_default(Preset::Each(&table1::LINK_LOSSES))
            .is("loss of each of the four links")],
        readings: WINDOW_READINGS,
        outputs: &[
            output("p", "", "1 − (1−q)⁴"),
            output("srtt", "s", "SRTT as printed"),
            output("e2e", "Mbit/s", "E2E, (28) with n = ⌈1000 s/SRTT⌉"),
            output("e2e_printed", "Mbit/s", "E2E analysis as printed"),
            output("e2e_error_percent", "%", "ours over the print"),
            output("e2e_sum", "Mbit/s", "E2E by the direct sum (27)"),
            output("tcp", "Mbit/s", "TCP, (17)"),
            output("tcp_printed", "Mbit/s", "TCP analysis as printed"),
            output("tcp_error_percent", "%", "ours over the print"),
        ],
        plotted: "tcp",
        compute: |i| {
            let row = table1::row(i.get("q"), i.reading.parse()?)?;
            Ok(vec![
                row.p,
                row.printed.srtt,
                row.e2e,
                row.printed.e2e,
                100.0 * row.e2e_error(),
                row.e2e_sum,
                row.tcp,
                row.printed.tcp,
                100.0 * row.tcp_error(),
            ])
        },
    },
];

fn tcp(inputs: &Inputs<'_>) -> Result<Vec<f64>, ModelError> {
    let p = inputs.get("p");
    let reading: reno::Reading = inputs.reading.parse()?;
    let connection = Connection {
        rtt: inputs.get("rtt"),
        window_max: inputs.get("window_max"),
        timeout_rounds: inputs.get("timeout_rounds"),
        idle_rounds_td: inputs.get("idle_rounds_td"),
        idle_rounds_to: inputs.get("idle_rounds_to"),
    };
    let rate = reno::rate(p, connection, reading)?;
    // Without loss no round is the last one, and nothing limits the window.
    let unless_zero = |value: fn(f64) -> Result<f64, ModelError>| {
        if p == 0.0 {
            Ok(f64::INFINITY)
        } else {
            value(p)
        }
    };
    let duration = if p == 1.0 {
        f64::INFINITY
    } else {
        reno::timeout_rounds_mean(p, connection.timeout_rounds, reading.duration)?
    };
    Ok(vec![
        unless_zero(reno::rounds_to_loss)?,
        unless_zero(reno::window_mean)?,
        if p == 0.0 {
            f64::INFINITY
        } else {
            reno::rate_unlimited(p, connection.rtt)?
        },
        if p == 0.0 {
            0.0
        } else {
            reno::timeout_probability_at(p, reading)?
        },
        duration,
        rate,
        rate * inputs.get("packet_bits") / 1e6,
    ])
}

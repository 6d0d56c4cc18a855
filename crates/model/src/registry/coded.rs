//! The models of [MODEL] §V and §VI.

use super::tcp::PACKET_BITS;
use super::{Inputs, Model, P, Parameter, Preset, output, reading};
use crate::coded::{self, Coding, Reading, Windows};
use crate::reno::{self, Connection};
use crate::{Domain, ModelError};

const WINDOW_FIRST: Parameter = Parameter::new("window_first", "W_1", "packets")
    .within(Domain::WINDOW)
    .or(1.0)
    .is("window of the first round");
const WINDOW_MAX: Parameter = Parameter::new("window_max", "W_max", "packets")
    .within(Domain::WINDOW)
    .or(90.0)
    .is("largest window");
const REDUNDANCY: Parameter = Parameter::new("redundancy", "R", "")
    .within(Domain::closed(1.0, 1e6))
    .by_default(Preset::Derived("1/(1−p)"))
    .is("packets sent per packet of data; 1.25 in Table I");
const SRTT: Parameter = Parameter::new("srtt", "SRTT", "s")
    .within(Domain::SECONDS)
    .or(0.8)
    .is("smoothed round-trip time");

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "e2e",
        title: "Window and throughput of TCP/NC, coded end to end",
        source: "[MODEL] §V eq. (18)–(28)",
        equation: "𝒯 = (1−p)/(n·R·SRTT)·f(n), E[W_n] = min(W_max, E[W_1] + n(1−p))",
        parameters: &[
            P,
            Parameter::new("rounds", "n", "rounds")
                .within(Domain::whole(1, u32::MAX))
                .or(1000.0)
                .is("rounds to average over"),
            REDUNDANCY,
            SRTT,
            WINDOW_FIRST,
            WINDOW_MAX,
            PACKET_BITS,
        ],
        readings: &[
            reading("printed", "f(n) as in (28) and (31); fits Table I"),
            reading(
                "sum",
                "f(n) = Σ_{i=1}^n E[W_i], (27), no jump at r*, E-MODEL-02",
            ),
            reading("sum-from-0", "f(n) = Σ_{i=0}^{n−1} E[W_i]"),
        ],
        outputs: &[
            output("rounds_to_full", "rounds", "r*"),
            output("window", "packets", "E[W_n], (19)"),
            output("rate_at_round", "packets/s", "𝒯_n, (23)"),
            output("f", "packets", "f(n), (28)"),
            output("rate", "packets/s", "𝒯_e2e, (28)"),
            output("rate_mbit", "Mbit/s", "𝒯_e2e, (28)"),
        ],
        plotted: "rate",
        compute: e2e,
    },
    Model {
        name: "srtt",
        title: "Smoothed round-trip time of TCP/NC",
        source: "[MODEL] §V eq. (24), (25)",
        equation: "SRTT = RTT + t_p·p/(1−p)",
        parameters: &[
            P,
            Parameter::new("rtt", "RTT", "s")
                .within(Domain::SECONDS)
                .or(0.8)
                .is("round-trip time"),
            Parameter::new("packet_time", "t_p", "s")
                .within(Domain::SECONDS)
                .or(0.008)
                .is("transmission time of a packet"),
        ],
        readings: &[],
        outputs: &[output("srtt", "s", "SRTT")],
        plotted: "srtt",
        compute: |i| {
            let (rtt, packet_time) = (i.get("rtt"), i.get("packet_time"));
            Ok(vec![coded::smoothed_rtt(rtt, packet_time, i.get("p"))?])
        },
    },
    Model {
        name: "growth",
        title: "Packets until the window of TCP/NC reaches W",
        source: "[MODEL] §V eq. (20)–(22)",
        equation: "T(W) = W(W−1)/(2(1−p))",
        parameters: &[
            P,
            Parameter::new("window", "W", "packets")
                .within(Domain::whole(1, 2000))
                .or(90.0)
                .is("window to reach"),
        ],
        readings: &[],
        outputs: &[
            output("packets", "packets", "T(W), (22)"),
            output(
                "packets_inclusive",
                "packets",
                "(21), S(W) included, E-MODEL-07",
            ),
            output("area", "packets", "area under Fig. 5, E-MODEL-08"),
            output("rounds_sum", "packets", "sum over whole rounds, E-MODEL-08"),
            output("rounds", "rounds", "(W−1)/(1−p), from (19)"),
            output("packets_exact", "packets", "a chain that adds 1/W"),
        ],
        plotted: "packets",
        compute: |i| {
            let growth = coded::growth(i.whole("window"), i.get("p"))?;
            Ok(vec![
                growth.packets,
                growth.packets_inclusive,
                growth.area,
                growth.rounds_sum,
                growth.rounds,
                growth.packets_exact,
            ])
        },
    },
    Model {
        name: "down-state",
        title: "A path that is up or down for whole rounds",
        source: "[MODEL] §VI eq. (29)–(31)",
        equation: "E[r_up] = (1−p_d)/p_d, E[r_down] = p_d/(1−p_d); 𝒯 = 0 when down",
        parameters: &[
            Parameter::new("p_down", "p_d", "")
                .within(Domain::closed(0.0, 1.0).above().below())
                .or(0.01)
                .is("probability that a round is down"),
            P,
            REDUNDANCY,
            SRTT.is("round-trip time of both"),
            WINDOW_FIRST,
            WINDOW_MAX,
        ],
        readings: &[],
        outputs: &[
            output("rounds_up", "rounds", "E[r_up]"),
            output("rounds_down", "rounds", "E[r_down]"),
            output("rate_tcp_up", "packets/s", "TCP while up, (29)"),
            output(
                "rate_e2e_up",
                "packets/s",
                "E2E while up, (30), n = E[r_up]",
            ),
        ],
        plotted: "rate_e2e_up",
        compute: down_state,
    },
];

fn windows(inputs: &Inputs<'_>) -> Windows {
    Windows {
        first: inputs.get("window_first"),
        max: inputs.get("window_max"),
    }
}

fn coding(inputs: &Inputs<'_>, p: f64) -> Result<Coding, ModelError> {
    let redundancy = match inputs.given("redundancy") {
        Some(redundancy) => redundancy,
        None => coded::redundancy_least(p)?,
    };
    let srtt = inputs.get("srtt");
    Coding { redundancy, srtt }.hides_losses(p)
}

fn e2e(inputs: &Inputs<'_>) -> Result<Vec<f64>, ModelError> {
    let (p, rounds, windows) = (inputs.get("p"), inputs.get("rounds"), windows(inputs));
    let coding = coding(inputs, p)?;
    let reading: Reading = inputs.reading.parse()?;
    let rate = coded::rate_mean(rounds, p, windows, coding, reading)?;
    Ok(vec![
        windows.rounds_to_full(p)?,
        windows.at_round(rounds, p)?,
        coded::rate_at_round(rounds, p, windows, coding)?,
        coded::packets_in_rounds(rounds, p, windows, reading)?,
        rate,
        rate * inputs.get("packet_bits") / 1e6,
    ])
}

fn down_state(inputs: &Inputs<'_>) -> Result<Vec<f64>, ModelError> {
    let (p, p_down, windows) = (inputs.get("p"), inputs.get("p_down"), windows(inputs));
    let coding = coding(inputs, p)?;
    let up = coded::rounds_up(p_down)?;
    let tcp = Connection {
        rtt: coding.srtt,
        window_max: windows.max,
        ..Connection::SECTION_VII
    };
    Ok(vec![
        up,
        coded::rounds_down(p_down)?,
        reno::rate(p, tcp, reno::Reading::default())?,
        coded::rate_mean(up, p, windows, coding, Reading::Printed)?,
    ])
}

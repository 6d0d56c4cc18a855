//! [MODEL] Table I: its analysis columns recomputed, beside the print.
//!
//! Four links in a row, each losing a share q, so p = 1 − (1−q)⁴. R = 1.25,
//! windows from 1 to 90 packets of 8000 bits, T_o = 3.75 rounds. TCP: RTT 0.8 s
//! and two idle rounds at each TD and TO event. E2E: the SRTT that the paper
//! measured, averaged over n = ⌈1000 s/SRTT⌉ rounds.

use crate::coded::{self, Coding, Windows};
use crate::reno::{self, Connection};
use crate::{Domain, ModelError};

/// The q of the table's rows.
pub const LINK_LOSSES: [f64; 3] = [0.015, 0.025, 0.05];

/// R for all rows.
pub const REDUNDANCY: f64 = 1.25;

/// Bits of a packet.
pub const PACKET_BITS: f64 = 8000.0;

const MBIT_PER_PACKET: f64 = PACKET_BITS / 1e6;
const RUN_SECONDS: f64 = 1000.0;

/// A row as printed; throughputs in Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Printed {
    /// q, the share that each of the four links loses.
    pub q: f64,
    /// p with four decimals.
    pub p: f64,
    /// SRTT of the simulation in seconds.
    pub srtt: f64,
    /// E2E, simulated.
    pub e2e_simulated: f64,
    /// E2E, by analysis.
    pub e2e: f64,
    /// TCP, simulated.
    pub tcp_simulated: f64,
    /// TCP, by analysis.
    pub tcp: f64,
}

/// The table as printed.
pub const PRINTED: [Printed; 3] = [
    Printed {
        q: 0.015,
        p: 0.0587,
        srtt: 0.8396,
        e2e_simulated: 0.6242,
        e2e: 0.6202,
        tcp_simulated: 0.0264,
        tcp: 0.0231,
    },
    Printed {
        q: 0.025,
        p: 0.0963,
        srtt: 0.8434,
        e2e_simulated: 0.6161,
        e2e: 0.5917,
        tcp_simulated: 0.0136,
        tcp: 0.0150,
    },
    Printed {
        q: 0.05,
        p: 0.1855,
        srtt: 0.8540,
        e2e_simulated: 0.5200,
        e2e: 0.5243,
        tcp_simulated: 0.0067,
        tcp: 0.0065,
    },
];

/// A row as we compute it; throughputs in Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// What the paper prints.
    pub printed: Printed,
    /// p = 1 − (1−q)⁴.
    pub p: f64,
    /// n = ⌈1000 s/SRTT⌉ rounds.
    pub rounds: f64,
    /// (28), as [MODEL] Table I supports.
    pub e2e: f64,
    /// The direct sum of (27), for comparison.
    pub e2e_sum: f64,
    /// (17) with two idle rounds.
    pub tcp: f64,
}

impl Row {
    /// E2E by (28) over the print, minus 1; at most 0.15 % either way.
    pub fn e2e_error(&self) -> f64 {
        self.e2e / self.printed.e2e - 1.0
    }

    /// TCP by (17) over the print, minus 1; the four printed decimals agree.
    pub fn tcp_error(&self) -> f64 {
        self.tcp / self.printed.tcp - 1.0
    }
}

/// p = 1 − (1−q)⁴, the loss over four links.
///
/// # Errors
/// q outside [0, 1].
pub fn path_loss(q: f64) -> Result<f64, ModelError> {
    Ok(1.0 - (1.0 - Domain::PROBABILITY.check("q", q)?).powi(4))
}

/// The row of [MODEL] Table I for this q, with (14) and (15) read as `reading` says.
///
/// # Errors
/// q is not one of [`LINK_LOSSES`].
pub fn row(q: f64, reading: reno::Reading) -> Result<Row, ModelError> {
    let q = Domain::OneOf(&LINK_LOSSES).check("q", q)?;
    let found = PRINTED.iter().find(|row| row.q == q);
    let printed = *found.expect("LINK_LOSSES are the q of PRINTED");
    let p = path_loss(q)?;
    let rounds = (RUN_SECONDS / printed.srtt).ceil();
    let coding = Coding {
        redundancy: REDUNDANCY,
        srtt: printed.srtt,
    };
    let e2e = |reading| coded::rate_mean(rounds, p, Windows::SECTION_VII, coding, reading);
    let tcp = reno::rate(p, Connection::SECTION_VII.idling(), reading)?;
    Ok(Row {
        printed,
        p,
        rounds,
        e2e: e2e(coded::Reading::Printed)? * MBIT_PER_PACKET,
        e2e_sum: e2e(coded::Reading::Sum)? * MBIT_PER_PACKET,
        tcp: tcp * MBIT_PER_PACKET,
    })
}

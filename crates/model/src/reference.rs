//! What a TCP reaches at a loss rate: the curves that the papers compare with.
//!
//! Windows in packets, times in seconds, rates in packets per second.

use crate::{Domain, ModelError};

/// W = sqrt(1.5/p), the mean window of Reno in packets, without timeouts and with
/// an ACK per packet: [CC14] §V-B.
///
/// # Errors
/// p outside (0, 1].
pub fn reno_window(p: f64) -> Result<f64, ModelError> {
    Ok((1.5 / Domain::SOME_LOSS.check("p", p)?).sqrt())
}

/// min(1, W/BDP): the share of a link of `bdp` packets that [`reno_window`] fills.
///
/// # Errors
/// p outside (0, 1] or bdp not positive.
pub fn reno_efficiency(p: f64, bdp: f64) -> Result<f64, ModelError> {
    let bdp = Domain::closed(0.0, 1e12).above().check("bdp", bdp)?;
    Ok((reno_window(p)? / bdp).min(1.0))
}

/// What the full PFTK formula needs beside p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pftk {
    /// RTT in seconds.
    pub rtt: f64,
    /// T_0, the first retransmission timeout in seconds.
    pub timeout: f64,
    /// W_m, the receiver's window in packets.
    pub window_max: f64,
    /// b, packets that one ACK acknowledges.
    pub ack_every: u32,
}

/// B = min(W_m/RTT, 1/(RTT·sqrt(2bp/3) + T_0·min(1, 3·sqrt(3bp/8))·p·(1+32p²))),
/// packets/s: Padhye, Firoiu, Towsley, Kurose 2000.
///
/// p = 0 gives W_m/RTT.
///
/// # Errors
/// p outside [0, 1]; a time or window out of range; b outside 1…16.
pub fn pftk_rate(p: f64, tcp: Pftk) -> Result<f64, ModelError> {
    let p = Domain::PROBABILITY.check("p", p)?;
    let rtt = Domain::SECONDS.check("rtt", tcp.rtt)?;
    let timeout = Domain::SECONDS.check("timeout", tcp.timeout)?;
    let most = Domain::WINDOW.check("window_max", tcp.window_max)? / rtt;
    let b = Domain::whole(1, 16).check("ack_every", f64::from(tcp.ack_every))?;
    let in_doubt = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
    let seconds = rtt * (2.0 * b * p / 3.0).sqrt() + timeout * in_doubt * p * (1.0 + 32.0 * p * p);
    Ok(most.min(1.0 / seconds))
}

/// What CUBIC's response function needs beside p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cubic {
    /// RTT in seconds.
    pub rtt: f64,
    /// C in packets/s³; 0.4 is usual.
    pub c: f64,
    /// β, the factor of a reduction; 0.7 is usual.
    pub beta: f64,
}

impl Cubic {
    /// The usual C = 0.4 and β = 0.7 at this RTT in seconds.
    pub const fn usual(rtt: f64) -> Self {
        Self {
            rtt,
            c: 0.4,
            beta: 0.7,
        }
    }
}

/// The mean window of CUBIC in packets: (C(3+β)/(4(1−β)))^¼·(RTT/p)^¾.
///
/// [RFC9438] §5.1, for a loss every 1/p packets: W(t) = C(t−K)³ + W_max with
/// K³ = (1−β)·W_max/C has the mean W_max·(3+β)/4 over the K seconds between
/// losses, in which 1/p packets are sent. With C = 0.4 and β = 0.7 it is
/// 1.054·(RTT/p)^¾.
///
/// # Errors
/// p outside (0, 1], RTT or C not positive, β outside (0, 1).
pub fn cubic_window(p: f64, cubic: Cubic) -> Result<f64, ModelError> {
    let p = Domain::SOME_LOSS.check("p", p)?;
    let rtt = Domain::SECONDS.check("rtt", cubic.rtt)?;
    let c = Domain::closed(0.0, 1e6).above().check("c", cubic.c)?;
    let beta = Domain::closed(0.0, 1.0)
        .above()
        .below()
        .check("beta", cubic.beta)?;
    let constant = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25);
    Ok(constant * (rtt / p).powf(0.75))
}

/// The larger of [`cubic_window`] and [`reno_window`]: CUBIC follows Reno where
/// that is faster, its Reno-friendly region.
///
/// # Errors
/// As [`cubic_window`].
pub fn cubic_window_with_friendly_region(p: f64, cubic: Cubic) -> Result<f64, ModelError> {
    Ok(cubic_window(p, cubic)?.max(reno_window(p)?))
}

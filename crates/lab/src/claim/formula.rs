//! The theory that figures and claims compare with.
//!
//! p is the share lost in the data direction, times in seconds, windows in
//! packets of 1500 bytes.

use serde::Deserialize;

use crate::point::Path;

/// A formula of the papers or of their sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Formula {
    /// √(1.5/p) packets per round trip as a share of the rate, at most 1
    /// ([CC14] §V-B).
    SqrtEfficiency,
    /// Padhye's full formula with b = 2 and time-outs as a share of the rate,
    /// at most 1.
    PftkEfficiency,
    /// √(1.5/p) packets per round trip.
    SqrtWindow,
    /// Padhye's full formula, in packets per round trip.
    PftkWindow,
    /// 1 − η of [CC14] §IV eq. (5), weights binom(N, k): reading A.
    Eq5A,
    /// 1/(1 + η) of the same, exact and averaged over the rounding: reading C.
    Eq5C,
    /// Seconds that an object takes at the full rate: size · 8 / B.
    LineTime,
    /// The same at what headers leave of it: 1436 of 1500 bytes.
    PayloadTime,
    /// Propagation there and back, seconds.
    RoundTrip,
    /// Bytes on the wire for a useful byte that cannot be saved: 1.045/(1 − p),
    /// 1.045 = 1500/1436.
    WireLeast,
    /// 2(1 − β) for a queue of so many bandwidth-delay products: what a flow
    /// that halves gets over one that backs off by RTTmin/RTT ([CC14] §IV eq. (4)).
    HalvingOverAdaptive,
    /// 1.
    One,
}

/// Where a formula is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The path there.
    pub path: &'a Path,
    /// Size of the object there, if one is fetched.
    pub bytes: Option<f64>,
}

/// Bits of the packet that windows are counted in.
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// Symbols per block of the papers.
const BLOCK_SYMBOLS: u32 = 32;

impl Formula {
    /// The value there; none where the formula has none.
    pub fn at(self, context: &Context<'_>) -> Option<f64> {
        let path = context.path;
        let p = path.loss_down.process.mean_share()?;
        let bdp_packets = path.rate_mbit * path.rtt_ms * 1e3 / PACKET_BITS;
        let value = match self {
            Self::SqrtEfficiency => ((1.5 / p).sqrt() / bdp_packets).min(1.0),
            Self::PftkEfficiency => (pftk_window(p, path.rtt_ms) / bdp_packets).min(1.0),
            Self::SqrtWindow => (1.5 / p).sqrt(),
            Self::PftkWindow => pftk_window(p, path.rtt_ms),
            Self::Eq5A => 1.0 - eta_a(BLOCK_SYMBOLS, p),
            Self::Eq5C => 1.0 / (1.0 + eta_c(BLOCK_SYMBOLS, p)),
            Self::LineTime => context.bytes? * 8.0 / (path.rate_mbit * 1e6),
            Self::PayloadTime => context.bytes? * 8.0 * 1500.0 / 1436.0 / (path.rate_mbit * 1e6),
            Self::RoundTrip => path.rtt_ms / 1e3,
            Self::WireLeast => 1.045 / (1.0 - p),
            Self::HalvingOverAdaptive => 2.0 * path.queue_bdp / (1.0 + path.queue_bdp),
            Self::One => 1.0,
        };
        value.is_finite().then_some(value)
    }
}

/// Packets per round trip by Padhye's formula with b = 2; a time-out is at least
/// 0.2 s longer than the round trip.
fn pftk_window(p: f64, rtt_ms: f64) -> f64 {
    let rtt_s = rtt_ms / 1e3;
    pftk_packets_per_s(p, rtt_s, rtt_s + 0.2, 2.0) * rtt_s
}

/// Packets per second by Padhye et al. 2000, without the limit of the window.
///
/// 1 / (RTT·√(2bp/3) + T₀·min(1, 3·√(3bp/8))·p·(1 + 32p²)); infinite at p = 0.
fn pftk_packets_per_s(p: f64, rtt_s: f64, timeout_s: f64, packets_per_ack: f64) -> f64 {
    let avoidance = rtt_s * (2.0 * packets_per_ack * p / 3.0).sqrt();
    let timeouts = timeout_s
        * (3.0 * (3.0 * packets_per_ack * p / 8.0).sqrt()).min(1.0)
        * p
        * (1.0 + 32.0 * p * p);
    1.0 / (avoidance + timeouts)
}

/// Binomial weight binom(n, k)·p^k·(1 − p)^(n − k).
fn binomial(n: u32, k: u32, p: f64) -> f64 {
    let choose = (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1));
    choose * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)
}

/// Coded packets beside a block, before rounding: N/(1 − p) − N.
fn coded(symbols: u32, p: f64) -> f64 {
    // 32/0.8 must be 40, not a little less.
    f64::from(symbols) / (1.0 - p) - f64::from(symbols) + 1e-9
}

/// Mean share of useless packets if erasures fall on `trials` packets.
fn eta(symbols: u32, n: u32, trials: u32, p: f64) -> f64 {
    let surplus = (0..n).map(|k| f64::from(n - k) * binomial(trials, k, p));
    surplus.sum::<f64>() / f64::from(symbols)
}

/// Reading A: erasures among the N symbols.
fn eta_a(symbols: u32, p: f64) -> f64 {
    eta(symbols, coded(symbols, p).floor() as u32, symbols, p)
}

/// Reading B: erasures among all N + n packets.
fn eta_b(symbols: u32, n: u32, p: f64) -> f64 {
    eta(symbols, n, symbols + n, p)
}

/// Reading C: B, averaged over rounding down and up by chance.
fn eta_c(symbols: u32, p: f64) -> f64 {
    let exact = coded(symbols, p);
    let (low, up) = (exact.floor(), exact.fract());
    let low = low as u32;
    (1.0 - up) * eta_b(symbols, low, p) + up * eta_b(symbols, low + 1, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_five_gives_the_values_worked_out_for_it() {
        // p, η A, η C: three digits of independent evaluations.
        let table = [
            (0.01, 0.0, 0.00725),
            (0.05, 0.00605, 0.01598),
            (0.10, 0.01742, 0.02247),
            (0.20, 0.06034, 0.03120),
            (0.30, 0.11012, 0.03857),
        ];
        for (p, a, c) in table {
            assert!((eta_a(32, p) - a).abs() < 6e-6, "A at {p}");
            assert!(
                (eta_c(32, p) - c).abs() < 6e-6,
                "C at {p}: {}",
                eta_c(32, p)
            );
        }
        assert_eq!((eta_a(32, 0.0), eta_c(32, 0.0) < 1e-9), (0.0, true));
    }

    #[test]
    fn the_full_formula_tends_to_the_square_root_for_rare_losses() {
        let p = 1e-6;
        let window = pftk_packets_per_s(p, 0.1, 0.3, 1.0) * 0.1;
        assert!((window / (1.5f64 / p).sqrt() - 1.0).abs() < 0.01);
    }
}

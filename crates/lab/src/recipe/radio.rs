//! What a radio loses, from what disturbs it.
//!
//! The papers print the disturbance, not the loss: an oven's pulses, a hidden
//! station's packets. A radio that sends a frame again and again changes both how
//! much is lost and how fast the path is; that is worked out here, so that a
//! point says what the emulator shall do.

use serde::Deserialize;

use super::value::{Burst, Bytes, Count, Mbit, Millis, Retries, Share};
use crate::point::Process;

/// Loss that is not independent, or that follows from something else.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Radio {
    /// Every n-th packet.
    EveryNth(Count),
    /// In bursts.
    GilbertElliott {
        /// Mean share.
        share: Share,
        /// Mean burst.
        burst_packets: Burst,
    },
    /// Pulses on the air. The path then has the rate that the radio makes of it.
    Interference {
        /// From pulse to pulse.
        period_ms: Millis,
        /// Mean pulse.
        pulse_ms: Millis,
        /// Rate on the air.
        phy_mbit: Mbit,
        /// Loss between pulses, if a frame is sent once.
        noise_share: Share,
        /// Time from the end of a frame to the next beyond its bits; counts only
        /// where frames are sent again.
        overhead_us: f64,
        /// Retransmissions of a frame by the radio. Without any the pulses are
        /// those of the emulator, in real time; with some, bursts of the same
        /// mean share and length.
        retries: Retries,
    },
    /// A station that does not hear the sender, and sends when it likes.
    HiddenTerminal {
        /// Its mean rate, counted in payload.
        hidden_mbit: Mbit,
        /// Its packets.
        packet_bytes: Bytes,
        /// Rate on the air, of both.
        phy_mbit: Mbit,
        /// Time on the air besides the bits of a frame: preamble, headers.
        overhead_us: f64,
        /// Retransmissions of a frame by the radio.
        retries: Retries,
    },
}

impl Radio {
    /// The process, for packets of `mtu_bytes`.
    pub(super) fn process(&self, mtu_bytes: u32) -> Process {
        match self {
            Self::EveryNth(n) => Process::EveryNth { n: n.get() as u64 },
            Self::GilbertElliott {
                share,
                burst_packets,
            } => bursts(share.get(), burst_packets.get()),
            Self::Interference {
                period_ms,
                pulse_ms,
                phy_mbit,
                noise_share,
                retries,
                ..
            } => match self.beside_oven(mtu_bytes) {
                Some(beside) => bursts(beside.share, beside.burst_packets),
                None => Process::Interference {
                    period_ms: period_ms.get(),
                    pulse_ms: pulse_ms.get(),
                    phy_mbit: phy_mbit.get(),
                    noise_share: noise_share.get(),
                    retries: retries.get() as u32,
                },
            },
            Self::HiddenTerminal {
                hidden_mbit,
                packet_bytes,
                phy_mbit,
                overhead_us,
                retries,
            } => {
                let air = |bytes: f64| bytes * 8.0 / phy_mbit.get() + overhead_us;
                let collision = collision_share(
                    air(f64::from(mtu_bytes)),
                    air(packet_bytes.get()),
                    packet_bytes.get() * 8.0 / hidden_mbit.get(),
                );
                bernoulli(collision.powi(retries.get() as i32 + 1))
            }
        }
    }

    /// Gives what a sweep sets another value.
    pub(super) fn change(&mut self, hidden: Option<Mbit>, tries_again: Option<Retries>) {
        if let (Self::HiddenTerminal { hidden_mbit, .. }, Some(rate)) = (&mut *self, hidden) {
            *hidden_mbit = rate;
        }
        if let (
            Self::HiddenTerminal { retries, .. } | Self::Interference { retries, .. },
            Some(count),
        ) = (self, tries_again)
        {
            *retries = count;
        }
    }

    /// The rate of the path, if the radio says it.
    pub(super) fn rate_mbit(&self, mtu_bytes: u32) -> Option<f64> {
        match self {
            Self::Interference { phy_mbit, .. } => {
                let beside = self.beside_oven(mtu_bytes);
                Some(beside.map_or(phy_mbit.get(), |beside| beside.rate_mbit))
            }
            _ => None,
        }
    }

    /// Sends frames as often as they may be sent; none without pulses and retries.
    fn beside_oven(&self, mtu_bytes: u32) -> Option<BesideOven> {
        let Self::Interference {
            period_ms,
            pulse_ms,
            phy_mbit,
            overhead_us,
            retries,
            ..
        } = self
        else {
            return None;
        };
        (retries.get() > 0.0).then(|| {
            BesideOven::of(
                f64::from(mtu_bytes) * 8.0,
                phy_mbit.get(),
                overhead_us / 1e3,
                (period_ms.get(), pulse_ms.get()),
                retries.get() as u32,
            )
        })
    }
}

/// Bernoulli loss, or none.
pub(super) fn bernoulli(share: f64) -> Process {
    if share > 0.0 {
        Process::Bernoulli { share }
    } else {
        Process::None
    }
}

/// Loss in bursts, or none; bursts no shorter than so much loss makes them.
fn bursts(share: f64, burst_packets: f64) -> Process {
    if share <= 0.0 {
        return Process::None;
    }
    let share = share.min(0.99);
    Process::GilbertElliott {
        share,
        burst_packets: burst_packets.max(share / (1.0 - share)).max(1.0),
    }
}

/// What a busy sender gets through beside an oven.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BesideOven {
    /// Share of the frames given up.
    share: f64,
    /// Mean number given up in a row.
    burst_packets: f64,
    /// Frames that are over, one way or the other, in bits per microsecond.
    rate_mbit: f64,
}

impl BesideOven {
    /// Counts over 2000 periods, one frame after the other. A frame passes in the
    /// first try that touches no pulse; after the last it is given up.
    fn of(
        frame_bits: f64,
        phy_mbit: f64,
        overhead_ms: f64,
        (period_ms, pulse_ms): (f64, f64),
        retries: u32,
    ) -> Self {
        let air_ms = frame_bits / phy_mbit / 1e3;
        let (mut passed, mut given_up, mut bursts) = (0u32, 0u32, 0u32);
        let mut was_lost = false;
        let mut now_ms = 0.0;
        while now_ms < 2000.0 * period_ms {
            let passes = (0..=retries).any(|_| {
                let into_period = now_ms % period_ms;
                now_ms += air_ms + overhead_ms;
                into_period >= pulse_ms && into_period + air_ms <= period_ms
            });
            passed += u32::from(passes);
            given_up += u32::from(!passes);
            bursts += u32::from(!passes && !was_lost);
            was_lost = !passes;
        }
        let frames = f64::from(passed + given_up);
        Self {
            share: f64::from(given_up) / frames,
            burst_packets: f64::from(given_up) / f64::from(bursts.max(1)),
            rate_mbit: frames * frame_bits / now_ms / 1e3,
        }
    }
}

/// Share of frames of `frame_us` on the air that meet a packet of a station that
/// sends packets of `packet_us`, one every `every_us` on average, with
/// exponential gaps.
///
/// A frame passes if the station is silent at its start, and stays so until its
/// end: (g / (g + h)) · e^(−f/g), gap g, packet h, frame f. Where the station
/// would have to send all the time nothing passes; 0.99 stands for that.
fn collision_share(frame_us: f64, packet_us: f64, every_us: f64) -> f64 {
    let gap = every_us - packet_us;
    if gap <= 0.0 {
        return 0.99;
    }
    (1.0 - gap / every_us * (-frame_us / gap).exp()).min(0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_neighbour_hits_nothing_and_a_busy_one_everything() {
        // 1500 bytes at 11 Mbit/s against 1445 bytes every second: almost never.
        assert!(collision_share(1300.0, 1250.0, 1e6) < 0.003);
        assert_eq!(collision_share(1300.0, 1250.0, 1250.0), 0.99);
        // Against a count by hand: half the time silent, then a whole gap's length.
        let share = collision_share(1000.0, 1000.0, 2000.0);
        assert!((share - (1.0 - 0.5 * (-1.0f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn beside_an_oven_slow_frames_never_pass_and_patience_helps() {
        let oven = |phy, retries| BesideOven::of(12_000.0, phy, 0.4, (20.0, 9.0), retries);
        // 12 ms on the air, gaps of 11 ms.
        assert_eq!(oven(1.0, 7).share, 1.0);
        // At 11 Mbit/s a try takes 1.5 ms: seven retries outlast a pulse of 9 ms.
        assert_eq!(oven(11.0, 7).share, 0.0);
        let (one, four) = (oven(11.0, 1), oven(11.0, 4));
        assert!(one.share > 0.3 && (0.1..0.16).contains(&four.share));
        assert!(one.rate_mbit > four.rate_mbit && four.rate_mbit > 4.0);
    }
}

//! Careful resume: a path that an earlier connection knew starts at half of what it
//! carried then, once a round trip has shown that it may be the same path.
//!
//! The start begins as always. When the base turns out to be what it was, the window
//! becomes half of the remembered flight, paced at half of the remembered rate. From
//! there the start goes on: it doubles, or ends as it always does, by a queue, by a
//! rate that does not grow, or by losses. If a queue shows, or half of what was jumped
//! to is lost, before it has arrived, the jump is taken back.

use ctcp_units::{Duration, Instant, PacketNumber};

use super::constants::{
    LOSS_MAX, RESUME_RTT_SHARE, RESUME_RTT_SLACK, RESUME_SHARE, RESUME_UNUSED_MAX,
};
use crate::event::{AckEvent, LossEvent};
use crate::params::Remembered;

/// Where a resumed start stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Resume {
    /// There is nothing to resume, or no more.
    #[default]
    Nothing,
    /// The path has not been recognised yet.
    Waiting(Remembered),
    /// The window was raised, and what it lets go has not arrived yet.
    Jumped(Jump),
    /// It has: an ordinary start goes on.
    Kept,
}

/// A raised window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Jump {
    /// The first packet that it lets go.
    from: PacketNumber,
    /// Packets.
    window: f64,
    /// Packets a second.
    rate: f64,
    window_before: f64,
    lost: u64,
    /// It is void if nobody has used it by then.
    until: Instant,
}

impl Resume {
    pub(super) fn new(remembered: Option<Remembered>) -> Self {
        remembered.map_or(Self::Nothing, Self::Waiting)
    }

    /// Takes in an ACK of a start with this base and window; the window to take, if
    /// it is another.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, base: Duration, window: f64) -> Option<f64> {
        match *self {
            Self::Nothing | Self::Kept => None,
            Self::Waiting(remembered) => {
                ack.rtt_sample?;
                *self = Self::Nothing;
                let jump = Jump::to(&remembered, base, ack, window)?;
                *self = Self::Jumped(jump);
                Some(jump.window)
            }
            Self::Jumped(jump) => {
                let is_used = ack.largest_sent > jump.from && !ack.app_limited;
                if !is_used && ack.now > jump.until {
                    *self = Self::Nothing;
                    return Some(jump.window_before);
                }
                if is_used && window >= 1.5 * jump.window {
                    // Half of it has arrived.
                    *self = Self::Kept;
                }
                None
            }
        }
    }

    /// Takes in losses of the start; the window to take if the jump was too far.
    pub(super) fn on_loss(&mut self, event: &LossEvent) -> Option<f64> {
        let Self::Jumped(jump) = self else {
            return None;
        };
        if event.last_lost < jump.from {
            return None;
        }
        jump.lost += event.lost_packets;
        if (jump.lost as f64) < LOSS_MAX * jump.window {
            return None;
        }
        let window = jump.window_before;
        *self = Self::Nothing;
        Some(window)
    }

    /// A queue shows; `window` without the jump, if nothing has borne that out.
    pub(super) fn retreat(&mut self, window: f64) -> Option<f64> {
        let Self::Jumped(jump) = *self else {
            return None;
        };
        *self = Self::Nothing;
        Some((window - jump.window + jump.window_before).max(jump.window_before))
    }

    /// Whether the window is the raised one, which nothing has borne out yet.
    pub(super) const fn is_jumped(&self) -> bool {
        matches!(self, Self::Jumped(_))
    }

    /// Whether the start goes on from a raised window.
    pub(super) const fn has_led(&self) -> bool {
        matches!(self, Self::Jumped(_) | Self::Kept)
    }

    /// Packets a second that the start may send at least.
    pub(super) const fn rate(&self) -> f64 {
        match self {
            Self::Jumped(jump) => jump.rate,
            _ => 0.0,
        }
    }
}

impl Jump {
    /// None if the path is another by its base, or nothing is gained.
    fn to(remembered: &Remembered, base: Duration, ack: &AckEvent, window: f64) -> Option<Self> {
        let slack = (remembered.rtt / RESUME_RTT_SHARE).max(RESUME_RTT_SLACK);
        if base.abs_diff(remembered.rtt) > slack {
            return None;
        }
        let rate = remembered.packets_per_second * RESUME_SHARE;
        let jump = rate * base.as_secs_f64();
        (jump.is_finite() && jump > window).then(|| Self {
            from: ack.largest_sent.next(),
            window: jump,
            rate,
            window_before: window,
            lost: 0,
            until: ack.now + RESUME_UNUSED_MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{LossEstimate, RttSummary};
    use ctcp_units::{millis, seconds};

    const BASE: Duration = millis(500);

    fn rtt() -> RttSummary {
        RttSummary {
            latest: BASE,
            srtt: BASE,
            rtt_min: BASE,
            rtt_min_windowed: BASE,
        }
    }

    fn ack(at: Duration, newest: u64, largest: u64, app_limited: bool) -> AckEvent {
        AckEvent {
            now: Instant::EPOCH + at,
            newest_acked: PacketNumber(newest),
            sent_at: Instant::EPOCH,
            largest_sent: PacketNumber(largest),
            acked_packets: 1,
            in_flight: 1,
            app_limited,
            in_recovery: false,
            rtt_sample: Some(BASE),
            rtt: rtt(),
            delivered_packets: newest,
            delivery: None,
            loss: LossEstimate::default(),
        }
    }

    fn lost(last: u64, packets: u64) -> LossEvent {
        LossEvent {
            now: Instant::EPOCH,
            lost_packets: packets,
            first_lost: PacketNumber(last),
            last_lost: PacketNumber(last),
            last_lost_sent_at: Instant::EPOCH,
            largest_sent: PacketNumber(last),
            in_flight: 1,
            rtt: rtt(),
            loss: LossEstimate::default(),
        }
    }

    /// 800 packets a second at this round trip.
    fn waiting(rtt: Duration) -> Resume {
        Resume::new(Some(Remembered {
            packets_per_second: 800.0,
            rtt,
        }))
    }

    #[test]
    fn a_path_that_is_recognised_starts_at_half_of_its_flight() {
        let mut resume = waiting(BASE + millis(60));
        let first = ack(BASE, 1, 9, true);
        assert_eq!(resume.on_ack(&first, BASE, 10.0), Some(200.0));
        assert_eq!(resume.rate(), 400.0);
        // Half as much again has arrived: it is an ordinary start.
        assert_eq!(
            resume.on_ack(&ack(seconds(1), 150, 300, false), BASE, 300.0),
            None
        );
        assert_eq!((resume, resume.rate()), (Resume::Kept, 0.0));
        assert!(resume.has_led());
    }

    #[test]
    fn a_path_of_another_round_trip_is_another() {
        for rtt in [BASE * 2, BASE / 2] {
            let mut resume = waiting(rtt);
            assert_eq!(resume.on_ack(&ack(BASE, 1, 9, true), BASE, 10.0), None);
            assert_eq!(resume, Resume::Nothing);
        }
        let mut less = waiting(BASE);
        assert_eq!(less.on_ack(&ack(BASE, 1, 9, true), BASE, 250.0), None);
    }

    #[test]
    fn a_jump_of_which_half_is_lost_is_taken_back() {
        let mut resume = waiting(BASE);
        let _ = resume.on_ack(&ack(BASE, 1, 9, true), BASE, 10.0);
        assert_eq!(resume.on_loss(&lost(5, 150)), None, "sent before it");
        assert_eq!(resume.on_loss(&lost(20, 60)), None, "chance may do that");
        assert_eq!(resume.on_loss(&lost(90, 60)), Some(10.0));
        assert_eq!(resume.rate(), 0.0);
    }

    #[test]
    fn a_jump_that_meets_a_queue_leaves_what_the_acks_have_earned() {
        let mut resume = waiting(BASE);
        assert_eq!(resume.retreat(10.0), None, "it has not jumped");
        let _ = resume.on_ack(&ack(BASE, 1, 9, true), BASE, 10.0);
        assert_eq!(resume.retreat(230.0), Some(40.0));
        assert_eq!((resume.retreat(230.0), resume.rate()), (None, 0.0));
    }

    #[test]
    fn a_jump_that_nobody_uses_is_void_after_a_while() {
        let mut resume = waiting(BASE);
        let _ = resume.on_ack(&ack(BASE, 1, 9, true), BASE, 10.0);
        assert_eq!(
            resume.on_ack(&ack(seconds(9), 10, 11, true), BASE, 200.0),
            None
        );
        let late = ack(seconds(11), 12, 13, true);
        assert_eq!(resume.on_ack(&late, BASE, 200.0), Some(10.0));
    }
}

//! The pacing rate of a controller that is a window.
//!
//! `gain · tokens / srtt` packets per second. A gain above 1 keeps pacing from
//! becoming the limit when ACKs thin out or the window grows within the round.

use ctcp_units::Duration;

/// Pacing gain in slow start. The window doubles within a round trip, so a gain
/// below 2 would slow the doubling itself down; the value of Linux's fq pacing.
pub const PACING_GAIN_SLOW_START: f64 = 2.0;

/// Pacing gain in congestion avoidance; RFC 9002 §7.7 suggests it.
pub const PACING_GAIN_AVOIDANCE: f64 = 1.25;

/// Packets per second over which a window of `tokens` is spread.
///
/// `None` (send at once) before the first RTT sample: spreading the initial
/// window over a guessed RTT would delay every first response, and RFC 6928
/// holds ten packets at once to be safe.
pub fn window_pacing_rate(tokens: f64, in_slow_start: bool, srtt: Option<Duration>) -> Option<f64> {
    let srtt = srtt?;
    if srtt.is_zero() {
        return None;
    }
    let gain = if in_slow_start {
        PACING_GAIN_SLOW_START
    } else {
        PACING_GAIN_AVOIDANCE
    };
    Some(gain * tokens / srtt.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::millis;

    #[test]
    fn slow_start_is_paced_at_twice_and_avoidance_at_five_quarters_of_the_window() {
        assert_eq!(
            window_pacing_rate(50.0, true, Some(millis(100))),
            Some(1000.0)
        );
        assert_eq!(
            window_pacing_rate(50.0, false, Some(millis(100))),
            Some(625.0)
        );
    }

    #[test]
    fn nothing_is_paced_before_the_first_sample() {
        assert_eq!(window_pacing_rate(10.0, true, None), None);
        assert_eq!(window_pacing_rate(10.0, true, Some(Duration::ZERO)), None);
    }
}

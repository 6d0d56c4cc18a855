//! How many packets of a window stand in the queue, as Vegas tells.

use ctcp_units::Duration;

/// N = W·(RTT − RTTmin)/RTT: of `tokens` packets in flight, those that wait.
///
/// Not negative; 0 if `rtt` is not above `rtt_min`.
pub fn backlog(tokens: f64, rtt_min: Duration, rtt: Duration) -> f64 {
    if rtt <= rtt_min {
        return 0.0;
    }
    tokens * (rtt - rtt_min).as_secs_f64() / rtt.as_secs_f64()
}

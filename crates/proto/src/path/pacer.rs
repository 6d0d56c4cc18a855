//! Spreads the packets of one path over time: a token bucket in bytes.
//!
//! The bucket fills at the pacing rate and holds a small burst; a packet may
//! leave if the bucket holds its bytes. A drained bucket first fills by a
//! *quantum* before anything leaves again, so that at high rates packets leave
//! in batches that segmentation offload can carry at one call's cost.
//!
//! Departures from [RFC9002] §7.7: a path idle for long may send the burst at
//! once, not an initial window.
//!
//! Units: bytes as the controller's packets count them, whatever layer that is,
//! as long as rate, packet length and [`Pacer::on_sent`] agree. Inside, a
//! billionth of a bit: rate times nanoseconds, whole and without rounding, so
//! that the long-run rate is exact however often it changes.

use ctcp_units::{Duration, Instant, Rate, micros, millis};

/// The burst is what the rate moves in a span, and a packet. The span is this
/// share of the round trip, so that a burst does not look like a queue: of two
/// packets that leave together the second waits for the first, and RTTmin/RTT
/// would answer every loss with a backoff ([CC14] eq. (1)).
pub(crate) const BURST_SHARE: u32 = 256;

/// The span is at least this: a driver whose timer is late by no more loses no
/// rate …
pub(crate) const BURST_SPAN_MIN: Duration = micros(50);
/// … and at most this.
pub(crate) const BURST_SPAN_MAX: Duration = millis(1);

/// A path that the pacer held back, and that was called late, catches up with what
/// it missed, up to this share of the round trip: half of the eighth that
/// [RFC9406] and `auto` take for a queue …
pub(crate) const LATE_SHARE: u32 = 16;
/// … and at most this: machines that are busy wake a program a few milliseconds
/// late.
pub(crate) const LATE_SPAN_MAX: Duration = millis(4);

/// The burst is at most so many packets. It bounds what a router's queue must
/// hold when a path of many Gbit/s awakes; as quinn's.
pub(crate) const BURST_PACKETS_MAX: u64 = 256;

/// A quantum is at most so many packets: a batch of full packets must fit into
/// the 64 KiB that one segmented send can carry.
pub(crate) const QUANTUM_PACKETS_MAX: u64 = 40;

/// One byte, in billionths of a bit.
const BYTE: i128 = 8_000_000_000;

/// Decides when the next packet may leave.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    rate: Option<Rate>,
    packet_bytes: u64,
    burst_span: Duration,
    late_span: Duration,
    /// What the bucket held at `filled_at`, in billionths of a bit; below zero
    /// if more was sent than it held.
    level: i128,
    filled_at: Instant,
    /// The bucket could not pay for a packet after the last one sent.
    is_drained: bool,
}

impl Pacer {
    /// A pacer that lets everything pass until a rate is set, for packets of
    /// `packet_bytes`, at least 1.
    pub(crate) fn new(packet_bytes: u64) -> Self {
        Self {
            rate: None,
            packet_bytes: packet_bytes.max(1),
            burst_span: BURST_SPAN_MAX,
            late_span: BURST_SPAN_MAX,
            level: i128::MAX,
            filled_at: Instant::EPOCH,
            is_drained: false,
        }
    }

    /// Sets the rate from `now` on; `None`: no pacing. What was sent before
    /// stays accounted for. A bucket that gets its first rate is full.
    ///
    /// A rate below one packet a second is taken for that, as a rate of zero
    /// would never let go of anything again.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        match (self.rate, rate) {
            (Some(_), Some(_)) => self.level = self.level_at(now),
            _ => {
                self.level = i128::MAX;
                self.is_drained = false;
            }
        }
        self.filled_at = self.filled_at.max(now);
        let least = Rate::bits_per_second(self.packet_bytes.saturating_mul(8));
        self.rate = rate.map(|rate| rate.max(least));
        self.level = self.level.min(self.most());
    }

    /// Sets the rate as a controller gives it, in packets of full length per
    /// second. What is not finite and positive means no pacing.
    pub(crate) fn set_packets_per_second(&mut self, now: Instant, packets_per_second: Option<f64>) {
        let rate = packets_per_second
            .filter(|rate| rate.is_finite() && *rate > 0.0)
            .map(|rate| Rate::bits_per_second((rate * self.packet_bytes as f64 * 8.0) as u64));
        self.set_rate(now, rate);
    }

    /// The length of a full packet has changed; at least 1.
    pub(crate) fn set_packet_bytes(&mut self, packet_bytes: u64) {
        self.packet_bytes = packet_bytes.max(1);
    }

    /// The round trip in which bursts should not show.
    pub(crate) fn set_rtt(&mut self, srtt: Duration) {
        self.burst_span = (srtt / BURST_SHARE).clamp(BURST_SPAN_MIN, BURST_SPAN_MAX);
        self.late_span = (srtt / LATE_SHARE).clamp(self.burst_span, LATE_SPAN_MAX);
    }

    /// Whether a packet of full length may leave at `now`.
    pub(crate) fn can_send(&self, now: Instant) -> bool {
        self.rate.is_none() || self.level_at(now) >= self.needed()
    }

    /// When a packet of full length may leave: `now` if it may.
    pub(crate) fn next_send_time(&self, now: Instant) -> Instant {
        let Some(rate) = self.rate else { return now };
        let missing = self.needed() - self.level_at(now);
        if missing <= 0 {
            return now;
        }
        let bits_per_second = i128::from(rate.as_bits_per_second());
        // Rounded up: a nanosecond early it would not be enough.
        let nanos = (missing + bits_per_second - 1) / bits_per_second;
        now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// `bytes` have left at `now`. More than the bucket holds is owed: the
    /// next packets wait the longer.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.rate.is_none() {
            return;
        }
        let level = self.level_at(now);
        self.filled_at = self.filled_at.max(now);
        self.level = level.saturating_sub(i128::from(bytes) * BYTE);
        self.is_drained = self.level < self.packet();
    }

    /// The most that may leave at once after idleness, in bytes.
    pub(crate) fn burst_bytes(&self) -> u64 {
        self.bytes_in(self.burst_span)
    }

    fn bytes_in(&self, span: Duration) -> u64 {
        let in_span = self.rate.unwrap_or(Rate::ZERO).bytes_in(span);
        in_span.saturating_add(self.packet_bytes).clamp(
            self.packet_bytes,
            self.packet_bytes.saturating_mul(BURST_PACKETS_MAX),
        )
    }

    /// What a drained bucket gathers before packets leave again: about half the
    /// burst in whole packets, in bytes.
    pub(crate) fn quantum_bytes(&self) -> u64 {
        let packets = self.burst_bytes() / 2 / self.packet_bytes;
        packets.clamp(1, QUANTUM_PACKETS_MAX) * self.packet_bytes
    }

    fn level_at(&self, now: Instant) -> i128 {
        let rate = self.rate.unwrap_or(Rate::ZERO).as_bits_per_second();
        let nanos = now.saturating_since(self.filled_at).as_nanos() as i128;
        let gained = i128::from(rate).saturating_mul(nanos);
        let filled = self.level.saturating_add(gained);
        // What is there already stays, in the midst of catching up too.
        filled.min(self.most()).max(self.level)
    }

    /// What the bucket holds at most, by what limited the path last.
    fn most(&self) -> i128 {
        if self.is_drained {
            i128::from(self.bytes_in(self.late_span)) * BYTE
        } else {
            self.burst()
        }
    }

    /// What the bucket must hold before anything leaves.
    fn needed(&self) -> i128 {
        if self.is_drained {
            i128::from(self.quantum_bytes()) * BYTE
        } else {
            self.packet()
        }
    }

    fn packet(&self) -> i128 {
        i128::from(self.packet_bytes) * BYTE
    }

    fn burst(&self) -> i128 {
        i128::from(self.burst_bytes()) * BYTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{Random, seconds};

    const PACKET: u64 = 1500;

    fn paced(rate: Rate) -> Pacer {
        let mut pacer = Pacer::new(PACKET);
        pacer.set_rate(Instant::EPOCH, Some(rate));
        pacer
    }

    /// Sends full packets as long as it may; answers how many.
    fn drain(pacer: &mut Pacer, now: Instant) -> u64 {
        let mut packets = 0;
        while pacer.can_send(now) {
            pacer.on_sent(now, PACKET);
            packets += 1;
        }
        packets
    }

    /// Packets sent in `span` by a driver that wakes only every `tick`.
    fn packets_with_ticks(pacer: &mut Pacer, span: Duration, tick: Duration) -> u64 {
        let mut now = Instant::EPOCH;
        let mut packets = 0;
        while now <= Instant::EPOCH + span {
            packets += drain(pacer, now);
            now += tick;
        }
        packets
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::new(PACKET);
        let now = Instant::EPOCH + seconds(1);
        for _ in 0..1000 {
            assert_eq!(pacer.next_send_time(now), now);
            pacer.on_sent(now, PACKET);
        }
    }

    #[test]
    fn packets_leave_at_the_rate() {
        for rate in [Rate::kbit(64), Rate::mbit(25), Rate::mbit(977)] {
            let mut pacer = paced(rate);
            let mut now = Instant::EPOCH;
            let mut bytes = 0;
            let end = now + seconds(20);
            loop {
                now = pacer.next_send_time(now);
                if now > end {
                    break;
                }
                pacer.on_sent(now, PACKET);
                bytes += PACKET;
            }
            let fair = rate.bytes_in(seconds(20));
            let burst = pacer.burst_bytes();
            assert!(bytes <= fair + burst, "{rate}: {bytes} of {fair}");
            assert!(bytes + 2 * burst >= fair, "{rate}: {bytes} of {fair}");
        }
    }

    #[test]
    fn a_timer_of_one_millisecond_loses_no_rate() {
        for mbit in [1, 10, 25, 33, 100, 1000] {
            let mut pacer = paced(Rate::mbit(mbit));
            let packets = packets_with_ticks(&mut pacer, seconds(2), millis(1));
            let fair = Rate::mbit(mbit).bytes_in(seconds(2)) / PACKET;
            assert!(
                packets >= fair * 99 / 100,
                "{mbit} Mbit/s: {packets} of {fair}"
            );
        }
    }

    #[test]
    fn a_driver_that_is_late_catches_up() {
        let mut pacer = paced(Rate::mbit(25));
        pacer.set_rtt(millis(40));
        drain(&mut pacer, Instant::EPOCH);
        // Two milliseconds late: 6250 bytes and what was there before.
        let due = pacer.next_send_time(Instant::EPOCH);
        assert_eq!(drain(&mut pacer, due + millis(2)), 5);
        // An hour late: a sixteenth of the round trip and a packet.
        assert_eq!(drain(&mut pacer, Instant::EPOCH + seconds(3600)), 6);
    }

    #[test]
    fn idleness_saves_up_no_more_than_the_burst() {
        let mut pacer = paced(Rate::mbit(25));
        // 25 Mbit/s move 3125 bytes in a millisecond.
        assert_eq!(pacer.burst_bytes(), 3125 + PACKET);
        assert_eq!(drain(&mut pacer, Instant::EPOCH), 3);
        assert_eq!(drain(&mut pacer, Instant::EPOCH + seconds(3600)), 3);
    }

    #[test]
    fn a_slow_path_sends_one_packet_at_a_time() {
        let mut pacer = paced(Rate::kbit(100));
        assert_eq!(drain(&mut pacer, Instant::EPOCH), 1);
        let next = pacer.next_send_time(Instant::EPOCH);
        // A full packet less what the span of 1 ms had saved up: 12.5 bytes.
        assert_eq!(next, Instant::EPOCH + micros(119_040));
        assert!(!pacer.can_send(Instant::from_nanos(next.as_nanos() - 1)));
        assert!(pacer.can_send(next));
    }

    #[test]
    fn a_fast_path_sends_in_batches() {
        let mut pacer = paced(Rate::mbit(1000));
        drain(&mut pacer, Instant::EPOCH);
        // One packet's worth would be there after 12 µs.
        assert!(!pacer.can_send(Instant::EPOCH + micros(24)));
        let next = pacer.next_send_time(Instant::EPOCH);
        assert_eq!(drain(&mut pacer, next), QUANTUM_PACKETS_MAX);
    }

    #[test]
    fn the_burst_has_a_ceiling() {
        let pacer = paced(Rate::mbit(100_000));
        assert_eq!(pacer.burst_bytes(), BURST_PACKETS_MAX * PACKET);
    }

    #[test]
    fn what_was_overdrawn_is_owed() {
        let mut pacer = paced(Rate::mbit(12));
        drain(&mut pacer, Instant::EPOCH);
        pacer.on_sent(Instant::EPOCH, 10 * PACKET);
        let wait = pacer.next_send_time(Instant::EPOCH) - Instant::EPOCH;
        assert!(wait > millis(10), "{wait:?}");
    }

    #[test]
    fn a_new_rate_applies_at_once_to_what_is_owed() {
        let mut pacer = paced(Rate::kbit(120));
        drain(&mut pacer, Instant::EPOCH);
        assert_eq!(
            pacer.next_send_time(Instant::EPOCH),
            Instant::EPOCH + millis(99)
        );
        pacer.set_rate(Instant::EPOCH, Some(Rate::mbit(12)));
        assert_eq!(
            pacer.next_send_time(Instant::EPOCH),
            Instant::EPOCH + micros(990)
        );
        pacer.set_rate(Instant::EPOCH, None);
        assert!(pacer.can_send(Instant::EPOCH));
    }

    #[test]
    fn setting_the_rate_with_every_ack_does_not_shift_it() {
        let mut random = Random::from_seed(1);
        let mut pacer = paced(Rate::bits_per_second(24_999_983));
        let (mut now, mut bytes) = (Instant::EPOCH, 0);
        while now < Instant::EPOCH + seconds(20) {
            pacer.set_rate(now, Some(Rate::bits_per_second(24_999_983)));
            if pacer.can_send(now) {
                pacer.on_sent(now, PACKET);
                bytes += PACKET;
            }
            now += Duration::from_nanos(random.below(200_000));
        }
        let fair = Rate::bits_per_second(24_999_983).bytes_in(seconds(20));
        assert!(
            bytes.abs_diff(fair) <= 2 * pacer.burst_bytes(),
            "{bytes} of {fair}"
        );
    }

    #[test]
    fn a_rate_of_zero_does_not_stop_the_path_for_ever() {
        let mut pacer = paced(Rate::ZERO);
        drain(&mut pacer, Instant::EPOCH);
        let wait = pacer.next_send_time(Instant::EPOCH) - Instant::EPOCH;
        assert!(wait > millis(999) && wait <= seconds(1), "{wait:?}");
    }

    #[test]
    fn a_controllers_rate_is_taken_in_packets() {
        let mut pacer = Pacer::new(PACKET);
        pacer.set_packets_per_second(Instant::EPOCH, Some(1000.0));
        assert_eq!(pacer.rate, Some(Rate::mbit(12)));
        for no_pacing in [None, Some(f64::INFINITY), Some(f64::NAN), Some(0.0)] {
            pacer.set_packets_per_second(Instant::EPOCH, no_pacing);
            assert_eq!(pacer.rate, None);
        }
    }

    #[test]
    fn time_that_stands_still_or_jumps_is_harmless() {
        let mut pacer = paced(Rate::bits_per_second(u64::MAX));
        pacer.on_sent(Instant::FAR_FUTURE, u64::MAX);
        let _ = pacer.next_send_time(Instant::FAR_FUTURE);
        let _ = pacer.next_send_time(Instant::EPOCH);
        pacer.set_rate(Instant::FAR_FUTURE, Some(Rate::kbit(1)));
        assert!(!pacer.can_send(Instant::FAR_FUTURE));
    }
}

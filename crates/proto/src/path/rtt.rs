//! Round-trip time of one path: smoothed mean, deviation and two minima.
//!
//! Algorithm: [RFC6298] §2 (2.2)–(2.3) with α = 1/8, β = 1/4; ACK delay as
//! [RFC9002] §5. Integer nanoseconds throughout, so that traces repeat.
//!
//! Departures:
//! - Every ACK that newly acknowledges the newest packet gives a sample, not one
//!   a round trip.
//! - No floor of 200 ms or 1 s under the probe timeout (`transport.md` §18):
//!   the tail of a short transfer must not wait for it.
//! - A second minimum forgets samples older than ten seconds: routes change.

use ctcp_congestion::RttSummary;
use ctcp_units::{Duration, Instant, millis};

/// What is assumed before the first sample.
///
/// The probe timeout is then three times this, 750 ms: past the 600 ms of a
/// geostationary satellite, so that its first answer is not taken for lost, and
/// a quarter below the 1 s of [RFC6298], which a short exchange over a lossy
/// path would wait for in vain.
pub(crate) const INITIAL_RTT: Duration = millis(250);

/// Resolution of the clocks and timers that the deviation term must cover.
pub(crate) const GRANULARITY: Duration = millis(1);

const BUCKET_COUNT: usize = 10;
const BUCKET: Duration = millis(1000);

/// What the first full packet may add to a quarter of the minimum known from
/// shorter ones: its time on a link of 12 Mbit/s.
const LENGTH_ALLOWANCE: Duration = millis(1);

/// Estimates the round-trip time of one path.
#[derive(Debug, Clone)]
pub(crate) struct RttEstimator {
    latest: Duration,
    srtt: Duration,
    rttvar: Duration,
    rtt_min: Duration,
    window: MinFilter,
    has_sample: bool,
    /// Length of the packets that the minima stand for.
    len_class: u16,
}

impl RttEstimator {
    /// An estimator that knows nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            latest: INITIAL_RTT,
            srtt: INITIAL_RTT,
            rttvar: Duration::from_nanos(INITIAL_RTT.as_nanos() as u64 / 2),
            rtt_min: INITIAL_RTT,
            window: MinFilter::new(),
            has_sample: false,
            len_class: 0,
        }
    }

    /// Takes in the time from sending the newest packet that an ACK newly
    /// acknowledges to the ACK's arrival at `now`; answers with the sample as
    /// it counts, without the receiver's delay.
    ///
    /// Only an ACK that came back on the packet's own path gives a sample.
    /// `ack_delay` is what the receiver says it waited, held by the caller to
    /// the maximum agreed; it is subtracted as long as the rest is not below
    /// `rtt_min`, so that a peer cannot talk the path shorter than it is.
    ///
    /// `len` is the packet's length in bytes. A longer packet takes longer, on a
    /// slow link by more than a queue would show; so the minima stand for the
    /// longest packets there have been, and shorter ones by an eighth or more do
    /// not touch them. The first one of a new length sets them anew, within
    /// reason: it may have met a queue.
    pub(crate) fn on_sample(
        &mut self,
        now: Instant,
        measured: Duration,
        ack_delay: Duration,
        len: u16,
    ) -> Duration {
        // A clock that stands still within a datagram must not give 0: it would
        // be the minimum for ever.
        let measured = measured.max(Duration::from_nanos(1));
        let is_comparable = len >= self.len_class - self.len_class / 8;
        if !self.has_sample {
            self.rtt_min = measured;
            self.len_class = len;
        } else if len > self.len_class + self.len_class / 8 {
            self.len_class = len;
            let highest = self.rtt_min * 5 / 4 + LENGTH_ALLOWANCE;
            self.rtt_min = measured.min(highest);
            self.window = MinFilter::new();
        } else if is_comparable {
            self.rtt_min = self.rtt_min.min(measured);
        }
        let sample = match measured.checked_sub(ack_delay) {
            Some(without_delay) if without_delay >= self.rtt_min => without_delay,
            _ => measured,
        };
        if is_comparable {
            self.window.insert(now, sample);
        }
        self.latest = sample;
        if self.has_sample {
            let deviation = self.srtt.abs_diff(sample);
            self.rttvar = (self.rttvar * 3 + deviation) / 4;
            self.srtt = (self.srtt * 7 + sample) / 8;
        } else {
            self.srtt = sample;
            self.rttvar = sample / 2;
            self.has_sample = true;
        }
        sample
    }

    /// The path leads over a new address: everything is forgotten.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Smoothed mean; [`INITIAL_RTT`] before the first sample.
    pub(crate) const fn srtt(&self) -> Duration {
        self.srtt
    }

    /// Smoothed mean, if there was a sample.
    pub(crate) fn measured_srtt(&self) -> Option<Duration> {
        self.has_sample.then_some(self.srtt)
    }

    /// Mean deviation.
    pub(crate) const fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The last sample.
    pub(crate) const fn latest(&self) -> Duration {
        self.latest
    }

    /// The smallest sample since the path began or was reset.
    pub(crate) const fn rtt_min(&self) -> Duration {
        self.rtt_min
    }

    /// The smallest sample of the last ten seconds, as of the last sample.
    pub(crate) fn rtt_min_windowed(&self) -> Duration {
        self.window.min().unwrap_or(self.rtt_min)
    }

    /// Whether there was a sample.
    pub(crate) const fn has_sample(&self) -> bool {
        self.has_sample
    }

    /// How long to wait for any answer before the path is probed:
    /// `srtt + max(4·rttvar, GRANULARITY) + max_ack_delay` ([RFC9002] §6.2.1).
    pub(crate) fn probe_timeout(&self, max_ack_delay: Duration) -> Duration {
        let wait = self.srtt + (self.rttvar * 4).max(GRANULARITY);
        wait.saturating_add(max_ack_delay)
    }

    /// How long after a packet a later one may be acknowledged before the first
    /// counts as lost: 9/8 of the larger of `srtt` and the last sample
    /// ([RFC9002] §6.1.2).
    pub(crate) fn reordering_delay(&self) -> Duration {
        (self.srtt.max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// `factor` smoothed round trips. At 1.5 it is the age past which a packet
    /// no longer counts as on its way ([MP12] §III-E).
    ///
    /// `factor` is finite and not negative; what does not fit is
    /// [`Duration::MAX`].
    pub(crate) fn age(&self, factor: f64) -> Duration {
        Duration::try_from_secs_f64(self.srtt.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// What a controller sees.
    pub(crate) fn summary(&self) -> RttSummary {
        RttSummary {
            latest: self.latest,
            srtt: self.srtt,
            rtt_min: self.rtt_min,
            rtt_min_windowed: self.rtt_min_windowed(),
        }
    }
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new()
    }
}

/// Minimum over the last ten seconds, kept as the minima of whole seconds.
///
/// A ring by time, so that it takes neither memory nor work by the number of
/// samples. `None`: no sample in that second.
#[derive(Debug, Clone)]
struct MinFilter {
    minima: [Option<Duration>; BUCKET_COUNT],
    /// Number of the newest second, counted from the epoch.
    newest: u64,
}

impl MinFilter {
    const fn new() -> Self {
        Self {
            minima: [None; BUCKET_COUNT],
            newest: 0,
        }
    }

    fn insert(&mut self, now: Instant, sample: Duration) {
        let bucket = now.as_nanos() / BUCKET.as_nanos() as u64;
        // All seconds from the last sample's to this one are forgotten.
        let passed = bucket.saturating_sub(self.newest).min(BUCKET_COUNT as u64);
        self.newest = self.newest.max(bucket);
        for back in 0..passed {
            *self.slot(self.newest - back) = None;
        }
        let slot = self.slot(self.newest);
        *slot = Some(slot.map_or(sample, |least| least.min(sample)));
    }

    fn slot(&mut self, bucket: u64) -> &mut Option<Duration> {
        &mut self.minima[(bucket % BUCKET_COUNT as u64) as usize]
    }

    fn min(&self) -> Option<Duration> {
        self.minima.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{Random, micros, seconds};

    /// Length of every packet where length is not the point.
    const FULL: u16 = 1472;

    fn at(milliseconds: u64) -> Instant {
        Instant::EPOCH + millis(milliseconds)
    }

    #[test]
    fn the_first_sample_is_the_mean_and_twice_its_deviation() {
        let mut rtt = RttEstimator::new();
        assert!(!rtt.has_sample());
        rtt.on_sample(at(0), millis(80), Duration::ZERO, FULL);
        assert_eq!((rtt.srtt(), rtt.rttvar), (millis(80), millis(40)));
        assert_eq!(rtt.rtt_min(), millis(80));
        assert_eq!(rtt.rtt_min_windowed(), millis(80));
    }

    #[test]
    fn later_samples_are_smoothed_as_rfc_6298_says() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(80), Duration::ZERO, FULL);
        rtt.on_sample(at(100), millis(160), Duration::ZERO, FULL);
        assert_eq!(rtt.rttvar, millis(50), "3/4 · 40 + 1/4 · 80");
        assert_eq!(rtt.srtt(), millis(90), "7/8 · 80 + 1/8 · 160");
        assert_eq!((rtt.latest(), rtt.rtt_min()), (millis(160), millis(80)));
    }

    #[test]
    fn the_receivers_delay_is_taken_off_but_not_below_the_minimum() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(80), Duration::ZERO, FULL);
        assert_eq!(
            rtt.on_sample(at(1), millis(100), millis(15), FULL),
            millis(85)
        );
        assert_eq!(
            rtt.on_sample(at(2), millis(100), millis(20), FULL),
            millis(80)
        );
        assert_eq!(
            rtt.on_sample(at(3), millis(100), millis(21), FULL),
            millis(100)
        );
        assert_eq!(
            rtt.on_sample(at(4), millis(100), seconds(9), FULL),
            millis(100)
        );
        assert_eq!(rtt.rtt_min(), millis(80));
    }

    #[test]
    fn the_first_sample_keeps_the_receivers_delay() {
        let mut rtt = RttEstimator::new();
        assert_eq!(
            rtt.on_sample(at(0), millis(80), millis(30), FULL),
            millis(80)
        );
    }

    #[test]
    fn the_probe_timeout_has_no_floor_but_the_granularity() {
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.probe_timeout(Duration::ZERO), millis(750));
        for step in 0..200 {
            rtt.on_sample(at(step), millis(10), Duration::ZERO, FULL);
        }
        let timeout = rtt.probe_timeout(millis(5));
        assert!(timeout >= millis(16) && timeout < millis(17), "{timeout:?}");
    }

    #[test]
    fn a_later_rise_of_the_base_shows_only_in_the_windowed_minimum() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(40), Duration::ZERO, FULL);
        for step in 1..=120 {
            rtt.on_sample(at(step * 100), millis(70), Duration::ZERO, FULL);
        }
        assert_eq!(rtt.rtt_min(), millis(40));
        assert_eq!(rtt.rtt_min_windowed(), millis(70));
        rtt.on_sample(at(12_500), millis(40), Duration::ZERO, FULL);
        assert_eq!(rtt.rtt_min_windowed(), millis(40), "a fall shows at once");
    }

    #[test]
    fn the_windowed_minimum_survives_the_window_and_not_two_seconds_more() {
        for (age, expected) in [(8_900, 40), (9_900, 70), (11_000, 70), (40_000, 70)] {
            let mut rtt = RttEstimator::new();
            rtt.on_sample(at(100), millis(40), Duration::ZERO, FULL);
            rtt.on_sample(at(100 + age), millis(70), Duration::ZERO, FULL);
            assert_eq!(rtt.rtt_min_windowed(), millis(expected), "after {age} ms");
        }
    }

    #[test]
    fn a_new_address_forgets_everything() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(4), Duration::ZERO, FULL);
        rtt.reset();
        assert_eq!(rtt.srtt(), INITIAL_RTT);
        assert_eq!(rtt.measured_srtt(), None);
        rtt.on_sample(at(100), millis(90), Duration::ZERO, FULL);
        assert_eq!(rtt.rtt_min(), millis(90));
        assert_eq!(rtt.rtt_min_windowed(), millis(90));
    }

    #[test]
    fn before_any_sample_no_queue_is_suspected() {
        let summary = RttEstimator::new().summary();
        assert_eq!(summary.latest, summary.rtt_min);
    }

    #[test]
    fn one_and_a_half_round_trips_are_the_age_of_a_lost_packet() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(80), Duration::ZERO, FULL);
        assert_eq!(rtt.age(1.5), millis(120));
        assert_eq!(rtt.age(f64::MAX), Duration::MAX);
        assert_eq!(rtt.reordering_delay(), millis(90));
    }

    #[test]
    fn the_windowed_minimum_agrees_with_all_samples_remembered() {
        let seed = std::env::var("CTCP_SEED").map_or(1, |text| text.parse().expect("a number"));
        println!("CTCP_SEED={seed}");
        let mut random = Random::from_seed(seed);
        let mut rtt = RttEstimator::new();
        let mut now = 0;
        let mut all: Vec<(u64, Duration)> = Vec::new();
        for _ in 0..5_000 {
            let gap_max = if random.chance(0.01) { 15_000 } else { 400 };
            now += random.below(gap_max);
            let sample = millis(1 + random.below(1000));
            rtt.on_sample(at(now), sample, Duration::ZERO, FULL);
            all.push((now, sample));
            let least_since = |moment: u64| {
                let recent = all.iter().rev().take_while(|(sent, _)| *sent >= moment);
                recent.map(|(_, sample)| *sample).min()
            };
            // It knows everything of the last nine seconds, nothing past ten.
            let least = Some(rtt.rtt_min_windowed());
            assert!(
                least <= least_since(now.saturating_sub(9_000)),
                "at {now} ms"
            );
            assert!(
                least >= least_since(now.saturating_sub(10_000)),
                "at {now} ms"
            );
        }
    }

    /// A hello's reply comes back faster than a full packet can: it must not
    /// make every full packet look queued.
    #[test]
    fn small_packets_do_not_set_the_minimum_of_full_ones() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), micros(25_050), Duration::ZERO, 60);
        rtt.on_sample(at(100), micros(25_550), Duration::ZERO, FULL);
        assert_eq!(rtt.rtt_min(), micros(25_550));
        rtt.on_sample(at(200), micros(25_050), Duration::ZERO, 60);
        assert_eq!(rtt.rtt_min(), micros(25_550));
        assert_eq!(rtt.rtt_min_windowed(), micros(25_550));
        rtt.on_sample(at(300), micros(25_500), Duration::ZERO, 1400);
        assert_eq!(rtt.rtt_min(), micros(25_500));
    }

    #[test]
    fn a_queue_met_by_the_first_full_packet_does_not_become_the_base() {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(at(0), millis(20), Duration::ZERO, 60);
        rtt.on_sample(at(100), millis(200), Duration::ZERO, FULL);
        assert_eq!(rtt.rtt_min(), millis(26));
    }
}

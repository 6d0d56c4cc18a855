use super::*;
use crate::event::{LossEstimate, RttSummary};
use crate::{JitterGuard, RttRatio, cc14, reno};
use ctcp_units::{Duration, millis};

/// A path that hands events to a controller and numbers packets.
struct Path<C> {
    controller: C,
    now: Instant,
    /// The next packet to send.
    next: u64,
    rtt_min: Duration,
}

impl<C: Controller> Path<C> {
    fn new(controller: C) -> Self {
        Self {
            controller,
            now: Instant::EPOCH,
            next: 0,
            rtt_min: millis(100),
        }
    }

    fn rtt(&self, latest: Duration) -> RttSummary {
        RttSummary {
            latest,
            srtt: latest,
            rtt_min: self.rtt_min,
            rtt_min_windowed: self.rtt_min,
        }
    }

    fn ack_event(&self, newest: u64, packets: u64, rtt: Duration) -> AckEvent {
        AckEvent {
            now: self.now,
            newest_acked: PacketNumber(newest),
            sent_at: self.now,
            largest_sent: PacketNumber(self.next.saturating_sub(1)),
            acked_packets: packets,
            in_flight: 0,
            app_limited: false,
            in_recovery: false,
            rtt_sample: Some(rtt),
            rtt: self.rtt(rtt),
            delivered_packets: 0,
            delivery: None,
            loss: LossEstimate::default(),
        }
    }

    /// Sends `packets` and acknowledges them with one ACK.
    fn deliver(&mut self, packets: u64, rtt: Duration) {
        self.next += packets;
        let event = self.ack_event(self.next - 1, packets, rtt);
        self.controller.on_ack(&event);
    }

    /// One round trip: a window's worth of packets, each with its own ACK.
    fn round(&mut self, rtt: Duration) {
        for _ in 0..self.controller.tokens().floor() as u64 {
            self.deliver(1, rtt);
        }
    }

    fn loss_event(&self, lost: core::ops::RangeInclusive<u64>, rtt: Duration) -> LossEvent {
        LossEvent {
            now: self.now,
            lost_packets: lost.end() - lost.start() + 1,
            first_lost: PacketNumber(*lost.start()),
            last_lost: PacketNumber(*lost.end()),
            last_lost_sent_at: self.now,
            largest_sent: PacketNumber(self.next.saturating_sub(1)),
            in_flight: 0,
            rtt: self.rtt(rtt),
            loss: LossEstimate::default(),
        }
    }

    fn lose(&mut self, lost: core::ops::RangeInclusive<u64>, rtt: Duration) {
        let event = self.loss_event(lost, rtt);
        self.controller.on_loss(&event);
    }

    /// Sends one packet and loses it.
    fn lose_one(&mut self, rtt: Duration) -> u64 {
        self.next += 1;
        let number = self.next - 1;
        self.lose(number..=number, rtt);
        number
    }

    fn mark(&mut self, rtt: Duration) {
        self.next += 1;
        let newest = PacketNumber(self.next - 1);
        let event = EcnEvent {
            now: self.now,
            ce_packets: 1,
            newest_acked: newest,
            sent_at: self.now,
            largest_sent: newest,
            in_flight: 0,
            rtt: self.rtt(rtt),
        };
        self.controller.on_ecn(&event);
    }

    fn silence(&mut self) {
        let event = SilenceEvent {
            now: self.now,
            largest_sent: PacketNumber(self.next.saturating_sub(1)),
            in_flight: 1,
        };
        self.controller.on_silence(&event);
    }

    fn tokens(&self) -> f64 {
        self.controller.tokens()
    }
}

const IDLE: Duration = millis(100);
const QUEUE_FULL: Duration = millis(200);

/// The product's parameters, but for the sample that backoffs go by: the papers'.
fn by_last_sample() -> Params {
    Params {
        jitter_guard: JitterGuard::Off,
        ..Params::default()
    }
}

fn params(init_tokens: f64, init_ss_threshold: f64) -> Params {
    Params {
        init_tokens,
        init_ss_threshold,
        ..Params::papers()
    }
}

/// A window that is in avoidance from the first ACK but one.
fn in_avoidance(tokens: f64) -> Path<Aimd<crate::Linear, RttRatio>> {
    let mut path = Path::new(cc14(&params(tokens - 1.0, 1.0)));
    path.deliver(1, IDLE);
    assert_eq!(path.tokens(), tokens);
    assert!(!path.controller.in_slow_start());
    path
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.round(IDLE);
    assert_eq!(path.tokens(), 20.0);
    path.round(IDLE);
    assert_eq!(path.tokens(), 40.0);
    assert!(path.controller.in_slow_start());
}

#[test]
fn slow_start_ends_above_the_threshold_and_not_at_it() {
    let mut path = Path::new(cc14(&params(10.0, 12.0)));
    path.deliver(2, IDLE);
    assert_eq!(path.tokens(), 12.0);
    assert!(path.controller.in_slow_start());
    path.deliver(1, IDLE);
    assert_eq!(path.tokens(), 13.0);
    assert!(!path.controller.in_slow_start());
}

#[test]
fn one_ack_can_end_slow_start_and_begin_avoidance() {
    let mut batch = Path::new(cc14(&params(10.0, 12.0)));
    batch.deliver(5, IDLE);
    assert_eq!(batch.tokens(), 13.0 + 2.0 / 13.0);
    assert!(!batch.controller.in_slow_start());
}

#[test]
fn avoidance_adds_one_packet_a_round_trip() {
    let mut path = in_avoidance(100.0);
    path.round(IDLE);
    assert!((path.tokens() - 101.0).abs() < 0.01, "{}", path.tokens());
    // One ACK for the whole window says the same.
    let mut batch = in_avoidance(100.0);
    batch.deliver(100, IDLE);
    assert_eq!(batch.tokens(), 101.0);
}

#[test]
fn a_loss_on_an_idle_queue_costs_nothing() {
    let mut path = in_avoidance(50.0);
    path.lose_one(IDLE);
    assert_eq!(path.tokens(), 50.0);
    assert_eq!(path.controller.state().last_backoff, Some(1.0));
}

#[test]
fn a_loss_with_a_full_queue_of_one_bdp_halves() {
    let mut path = in_avoidance(104.0);
    path.lose_one(QUEUE_FULL);
    assert_eq!(path.tokens(), 52.0);
}

#[test]
fn reno_halves_whatever_the_queue_holds() {
    let mut path = Path::new(reno(&params(103.0, 1.0)));
    path.deliver(1, IDLE);
    path.lose_one(IDLE);
    assert_eq!(path.tokens(), 52.0);
}

#[test]
fn losses_of_one_round_trip_are_one_event() {
    let mut path = in_avoidance(100.0);
    path.next = 100;
    path.lose(10..=10, QUEUE_FULL);
    assert_eq!(path.tokens(), 50.0);
    path.lose(20..=25, QUEUE_FULL);
    path.lose(99..=99, QUEUE_FULL);
    assert_eq!(path.tokens(), 50.0, "sent before the backoff");
    path.next = 101;
    path.lose(100..=100, QUEUE_FULL);
    assert_eq!(path.tokens(), 25.0, "sent after the backoff");
}

#[test]
fn an_outage_that_began_before_the_last_backoff_counts() {
    let mut path = in_avoidance(100.0);
    path.next = 100;
    path.lose(10..=10, QUEUE_FULL);
    path.next = 150;
    path.lose(90..=149, QUEUE_FULL);
    assert_eq!(path.tokens(), 25.0);
}

#[test]
fn a_loss_ends_slow_start() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.round(IDLE);
    path.lose_one(IDLE);
    assert!(!path.controller.in_slow_start());
    assert_eq!(path.controller.state().ss_threshold, Some(20.0));
    path.deliver(1, IDLE);
    assert_eq!(path.tokens(), 20.0 + 1.0 / 20.0);
}

#[test]
fn slow_start_can_survive_losses() {
    let mut path = Path::new(cc14(&Params {
        ss_exit_on_loss: false,
        ..by_last_sample()
    }));
    path.round(IDLE);
    path.lose_one(QUEUE_FULL);
    assert_eq!(path.tokens(), 10.0, "the loss event itself applies");
    path.round(IDLE);
    assert_eq!(path.tokens(), 20.0);
    assert!(path.controller.in_slow_start());
}

#[test]
fn tokens_stay_within_their_bounds() {
    let mut path = Path::new(cc14(&Params {
        max_tokens: 64.0,
        ..by_last_sample()
    }));
    path.deliver(1_000_000, IDLE);
    assert_eq!(path.tokens(), 64.0);
    for _ in 0..20 {
        path.lose_one(millis(1000));
    }
    assert_eq!(path.tokens(), 2.0);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.next = 10;
    let event = AckEvent {
        app_limited: true,
        ..path.ack_event(9, 10, IDLE)
    };
    path.controller.on_ack(&event);
    assert_eq!(path.tokens(), 10.0);
}

#[test]
fn a_mark_is_answered_once_a_round_trip() {
    let mut path = in_avoidance(100.0);
    path.mark(IDLE);
    assert_eq!(path.tokens(), 80.0, "an idle queue is no excuse");
    path.next = 200;
    path.mark(QUEUE_FULL);
    assert_eq!(
        path.tokens(),
        40.0,
        "and a full one is answered as by a loss"
    );
    let mut event_of_old_packets = path.loss_event(100..=110, QUEUE_FULL);
    event_of_old_packets.largest_sent = PacketNumber(300);
    path.controller.on_loss(&event_of_old_packets);
    assert_eq!(
        path.tokens(),
        40.0,
        "a loss within the same round trip adds nothing"
    );
}

#[test]
fn silence_starts_again_towards_half_the_window() {
    let mut path = in_avoidance(40.0);
    path.next = 140;
    path.silence();
    let state = path.controller.state();
    assert_eq!((state.tokens, state.ss_threshold), (39.0, Some(20.0)));
    assert_eq!(state.phase, "slow_start");
}

#[test]
fn lasting_silence_lowers_the_threshold_once() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.deliver(90, IDLE);
    path.silence();
    path.silence();
    path.silence();
    assert_eq!(path.controller.state().ss_threshold, Some(50.0));
    assert_eq!(path.tokens(), 10.0);
    path.deliver(1, IDLE);
    path.silence();
    assert_eq!(path.controller.state().ss_threshold, Some(5.5));
}

#[test]
fn packets_sent_before_the_silence_earn_nothing() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.next = 10;
    path.silence();
    let late = path.ack_event(9, 10, IDLE);
    path.controller.on_ack(&late);
    assert_eq!(path.tokens(), 10.0);
    path.lose(3..=3, QUEUE_FULL);
    assert!(path.controller.in_slow_start(), "nor do they cost anything");
    path.deliver(1, IDLE);
    assert_eq!(path.tokens(), 11.0);
}

#[test]
fn a_backoff_for_packets_that_were_only_late_is_undone() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.deliver(50, IDLE);
    path.lose(20..=21, QUEUE_FULL);
    path.lose(30..=30, QUEUE_FULL);
    assert_eq!(path.tokens(), 30.0);
    for late in [20, 21, 30] {
        assert_eq!(path.tokens(), 30.0);
        path.controller.on_spurious_loss(&SpuriousLossEvent {
            now: path.now,
            number: PacketNumber(late),
        });
    }
    assert_eq!(path.tokens(), 60.0);
    assert!(path.controller.in_slow_start());
}

#[test]
fn a_backoff_with_one_true_loss_stands() {
    let mut path = Path::new(cc14(&by_last_sample()));
    path.deliver(50, IDLE);
    path.lose(20..=22, QUEUE_FULL);
    for late in [20, 22] {
        path.controller.on_spurious_loss(&SpuriousLossEvent {
            now: path.now,
            number: PacketNumber(late),
        });
    }
    assert_eq!(path.tokens(), 30.0);
}

#[test]
fn a_new_address_voids_everything_learnt() {
    let mut path = in_avoidance(90.0);
    path.lose_one(QUEUE_FULL);
    let largest_sent = PacketNumber(path.next - 1);
    path.controller.on_path_change(&PathChangeEvent {
        now: path.now,
        largest_sent,
    });
    let state = path.controller.state();
    assert_eq!((state.tokens, state.ss_threshold), (89.0, Some(1.0)));
    assert!(path.controller.in_slow_start());
    path.lose(0..=largest_sent.0, QUEUE_FULL);
    assert_eq!(path.tokens(), 89.0, "the old address's losses do not count");
}

/// [CC14] §III: the window settles one packet above the bandwidth-delay
/// product.
#[test]
fn with_a_loss_every_round_trip_the_window_settles_one_packet_above_the_bdp() {
    let bdp = 52.0;
    let mut path = Path::new(cc14(&params(10.0, 1.0)));
    path.rtt_min = millis(25);
    for _ in 0..100 {
        let rtt = path.rtt_min.mul_f64((path.tokens() / bdp).max(1.0));
        path.lose_one(rtt);
        path.round(rtt);
    }
    assert!(
        (path.tokens() - (bdp + 1.0)).abs() < 0.5,
        "{}",
        path.tokens()
    );
}

/// [SAT] §IV: the weakness, and what the guard does about it.
#[test]
fn jitter_holds_the_window_down_unless_it_is_guarded() {
    let settle = |guard: JitterGuard| {
        let mut path = Path::new(cc14(&Params {
            jitter_guard: guard,
            ..params(200.0, 1.0)
        }));
        for _ in 0..2000 {
            // The sample that comes with a loss is late by 1/19: β = 0.95.
            path.lose_one(IDLE.mul_f64(1.0 / 0.95));
            path.round(IDLE);
        }
        path.tokens()
    };
    let unguarded = settle(JitterGuard::Off);
    assert!((unguarded - 20.0).abs() < 1.0, "{unguarded}");
    assert!(settle(JitterGuard::LastSamples(4)) > 1000.0);
    assert!(settle(JitterGuard::LastRound) > 1000.0);
}

#[test]
fn the_guard_still_sees_a_standing_queue() {
    for guard in [JitterGuard::LastSamples(16), JitterGuard::LastRound] {
        let mut path = Path::new(cc14(&Params {
            jitter_guard: guard,
            ..params(99.0, 1.0)
        }));
        path.deliver(1, IDLE);
        // The queue fills, then stands for two round trips.
        for _ in 0..3 {
            path.round(QUEUE_FULL);
        }
        let before = path.tokens();
        path.lose_one(QUEUE_FULL);
        assert_eq!(path.tokens(), before / 2.0, "{guard:?}");
    }
}

#[test]
fn events_of_any_kind_keep_the_window_finite_and_within_bounds() {
    let seed = std::env::var("CTCP_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    let mut random = ctcp_units::Random::from_seed(seed);
    for name in ["cc14", "reno"] {
        for guard in [
            JitterGuard::Off,
            JitterGuard::LastSamples(3),
            JitterGuard::LastRound,
        ] {
            let params = Params {
                jitter_guard: guard,
                max_tokens: 5000.0,
                ..by_last_sample()
            };
            let mut path = Path::new(Boxed(
                crate::controller_by_name(name, &params).expect("a known name"),
            ));
            for _ in 0..20_000 {
                path.now += millis(random.below(50));
                let rtt = Duration::from_nanos(random.below(1_000_000_000));
                path.rtt_min = path.rtt_min.min(rtt);
                match random.below(100) {
                    0..70 => path.deliver(1 + random.below(40), rtt),
                    70..88 => {
                        path.lose_one(rtt);
                    }
                    88..96 => path.mark(rtt),
                    96..98 => path.silence(),
                    _ => {
                        let number = PacketNumber(random.below(path.next.max(1)));
                        let now = path.now;
                        path.controller
                            .0
                            .on_spurious_loss(&SpuriousLossEvent { now, number });
                    }
                }
                let tokens = path.tokens();
                assert!(
                    (2.0..=5000.0).contains(&tokens),
                    "{name} {guard:?}: {tokens}"
                );
                assert!(
                    path.controller
                        .0
                        .pacing_rate(Some(rtt))
                        .is_none_or(f64::is_finite)
                );
            }
        }
    }
}

/// Lets the boxed form stand where a controller is wanted.
#[derive(Debug)]
struct Boxed(Box<dyn Controller>);

impl Controller for Boxed {
    fn on_ack(&mut self, event: &AckEvent) {
        self.0.on_ack(event);
    }
    fn on_loss(&mut self, event: &LossEvent) {
        self.0.on_loss(event);
    }
    fn on_ecn(&mut self, event: &EcnEvent) {
        self.0.on_ecn(event);
    }
    fn on_silence(&mut self, event: &SilenceEvent) {
        self.0.on_silence(event);
    }
    fn on_path_change(&mut self, event: &PathChangeEvent) {
        self.0.on_path_change(event);
    }
    fn tokens(&self) -> f64 {
        self.0.tokens()
    }
    fn in_slow_start(&self) -> bool {
        self.0.in_slow_start()
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn state(&self) -> ControllerState {
        self.0.state()
    }
}

//! Random events never break a controller, whatever its parameters.

mod support;

use ctcp_congestion::{
    AckCounting, AckEvent, Controller, DeliverySample, EcnEvent, HyblaParams, JitterGuard,
    LossEstimate, LossEvent, Mp12BaseRtt, Mp12Params, Params, PathChangeEvent, Remembered,
    RttSummary, SatParams, SentEvent, SilenceEvent, SpuriousLossEvent, VegasParams, VegasRtt,
    controller_by_name, controllers,
};
use ctcp_units::{Duration, Instant, LossRate, PacketNumber, Random, millis};
use support::events::{ack, loss, rtt, silence};

fn seed() -> u64 {
    let seed = std::env::var("CTCP_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("CTCP_SEED={seed}");
    seed
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// Any number, the impossible ones included.
fn any_number(random: &mut Random) -> f64 {
    let plain = random.exponential(20.0);
    pick(
        random,
        &[
            plain,
            plain,
            plain,
            1.0,
            0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            1e-300,
            1e300,
        ],
    )
}

fn any_span(random: &mut Random) -> Duration {
    let plain = Duration::from_secs_f64(random.exponential(0.1));
    pick(
        random,
        &[
            plain,
            plain,
            plain,
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_secs(100_000),
        ],
    )
}

fn any_params(random: &mut Random) -> Params {
    let r = random;
    Params {
        alpha: any_number(r),
        beta: any_number(r),
        init_tokens: any_number(r),
        silence_tokens: r.chance(0.5).then(|| any_number(r)),
        min_tokens: any_number(r),
        max_tokens: any_number(r),
        init_ss_threshold: any_number(r),
        ss_exit_on_loss: r.chance(0.5),
        jitter_guard: pick(
            r,
            &[
                JitterGuard::Off,
                JitterGuard::LastSamples(3),
                JitterGuard::LastRound,
            ],
        ),
        ack_counting: pick(
            r,
            &[
                AckCounting::Packets,
                AckCounting::SlowStartUpTo(2),
                AckCounting::Acks,
            ],
        ),
        hystart: r.chance(0.5),
        sat: SatParams {
            beta_hold: any_number(r),
            htcp_scaling: r.chance(0.5),
        },
        htcp_rtt_scaling: r.chance(0.5),
        cubic_fast_convergence: r.chance(0.5),
        hybla: HyblaParams {
            rtt0: any_span(r),
            ss_threshold: any_number(r),
        },
        veno_backlog: any_number(r),
        vegas: VegasParams {
            alpha: any_number(r),
            beta: any_number(r),
            gamma: any_number(r),
            rtt: pick(r, &[VegasRtt::RoundMin, VegasRtt::RoundMean]),
        },
        mp12: Mp12Params {
            alpha_v: any_number(r),
            beta_v: any_number(r),
            base_rtt: pick(r, &[Mp12BaseRtt::RttMin, Mp12BaseRtt::Srtt]),
            ss_exit_backlog: r.chance(0.5).then(|| any_number(r)),
        },
        resume: r.chance(0.5).then(|| Remembered {
            packets_per_second: any_number(r),
            rtt: any_span(r),
        }),
    }
}

/// A path that reports whatever comes to its mind, within what events promise.
struct Storm {
    random: Random,
    now: Instant,
    next: u64,
    delivered: u64,
    rtt_min: Duration,
}

impl Storm {
    fn rtt(&mut self) -> RttSummary {
        let latest = any_span(&mut self.random);
        self.rtt_min = self.rtt_min.min(latest);
        RttSummary {
            srtt: latest.max(self.rtt_min).mul_f64(0.5 + self.random.unit()),
            rtt_min_windowed: latest.min(self.rtt_min * 2),
            ..rtt(self.rtt_min, latest)
        }
    }

    fn estimate(&mut self) -> LossEstimate {
        LossEstimate {
            p: LossRate::clamped(self.random.unit()),
            p_long: LossRate::clamped(self.random.unit()),
            p_dev: self.random.unit() * 0.1,
        }
    }

    fn number(&mut self) -> PacketNumber {
        PacketNumber(self.random.below(self.next))
    }

    fn largest_sent(&self) -> PacketNumber {
        PacketNumber(self.next - 1)
    }

    fn ack(&mut self) -> AckEvent {
        let acked_packets = 1 + self.random.below(60);
        let before = self.random.below(self.delivered + 1);
        self.delivered += acked_packets;
        let rtt = self.rtt();
        let delivery = self.random.chance(0.8).then(|| DeliverySample {
            delivered_packets: self.delivered - before,
            interval: any_span(&mut self.random).max(Duration::from_nanos(1)),
            delivered_packets_before: before,
            lost_packets: self.random.below(9),
            in_flight_at_send: 1 + self.random.below(100),
            app_limited: self.random.chance(0.2),
        });
        AckEvent {
            now: self.now,
            newest_acked: if self.random.chance(0.9) {
                self.largest_sent()
            } else {
                self.number()
            },
            largest_sent: self.largest_sent(),
            acked_packets,
            in_flight: self.random.below(200),
            app_limited: self.random.chance(0.2),
            in_recovery: self.random.chance(0.1),
            rtt_sample: self.random.chance(0.8).then_some(rtt.latest),
            rtt,
            delivered_packets: self.delivered,
            delivery,
            loss: self.estimate(),
            ..ack(0)
        }
    }

    fn lose(&mut self) -> LossEvent {
        let (one, two) = (self.number(), self.number());
        LossEvent {
            now: self.now,
            lost_packets: 1 + self.random.below(30),
            first_lost: one.min(two),
            last_lost: one.max(two),
            largest_sent: self.largest_sent(),
            in_flight: self.random.below(200),
            loss: self.estimate(),
            ..loss(0, self.rtt())
        }
    }

    fn happen(&mut self, controller: &mut dyn Controller) {
        self.next += self.random.below(40);
        if self.random.chance(0.9) {
            self.now += any_span(&mut self.random);
        }
        let now = self.now;
        let number = self.number();
        match self.random.below(100) {
            0..10 => controller.on_sent(&SentEvent {
                now,
                number,
                in_flight: 1 + self.random.below(3),
                app_limited: self.random.chance(0.5),
            }),
            10..75 => controller.on_ack(&self.ack()),
            75..87 => controller.on_loss(&self.lose()),
            87..93 => {
                let rtt = self.rtt();
                controller.on_ecn(&EcnEvent {
                    now,
                    ce_packets: 1,
                    newest_acked: number,
                    sent_at: now,
                    largest_sent: self.largest_sent(),
                    in_flight: 0,
                    rtt,
                });
            }
            93..95 => controller.on_silence(&SilenceEvent {
                now,
                ..silence(self.next - 1)
            }),
            95..99 => controller.on_spurious_loss(&SpuriousLossEvent { now, number }),
            _ => {
                self.rtt_min = millis(100);
                controller.on_path_change(&PathChangeEvent {
                    now,
                    largest_sent: self.largest_sent(),
                });
            }
        }
    }
}

fn assert_sound(controller: &dyn Controller, params: &Params) {
    let tokens = controller.tokens();
    let held = params.clamped();
    let low = held.silence_tokens.unwrap_or(held.init_tokens);
    let low = low.min(held.min_tokens);
    assert!(
        (low..=held.max_tokens).contains(&tokens),
        "{tokens} is not within {low} and {}: {controller:?}",
        held.max_tokens
    );
    for srtt in [None, Some(Duration::ZERO), Some(millis(50))] {
        let rate = controller.pacing_rate(srtt);
        assert!(
            rate.is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "{rate:?}: {controller:?}"
        );
    }
    let state = controller.state();
    assert!(state.tokens.is_finite());
    assert!(state.ss_threshold.is_none_or(f64::is_finite));
    let is_factor = |factor: f64| factor > 0.0 && factor <= 1.0;
    assert!(state.last_backoff.is_none_or(is_factor), "{state:?}");
}

#[test]
fn any_events_and_any_parameters_keep_every_controller_sound() {
    let mut random = Random::from_seed(seed());
    for info in controllers() {
        for round in 0..120 {
            let params = match round % 4 {
                0 => Params::default(),
                1 => Params::tcp(),
                _ => any_params(&mut random),
            };
            let mut controller = controller_by_name(info.name, &params).expect("a known name");
            let mut storm = Storm {
                random: random.fork(round),
                now: Instant::EPOCH,
                next: 1,
                delivered: 0,
                rtt_min: millis(100),
            };
            for _ in 0..400 {
                storm.happen(&mut *controller);
                assert_sound(&*controller, &params);
            }
        }
    }
}

#[test]
fn every_controller_starts_at_its_initial_window_and_returns_to_it_on_a_new_path() {
    for info in controllers() {
        let mut controller =
            controller_by_name(info.name, &Params::default()).expect("a known name");
        assert_eq!(controller.tokens(), 10.0, "{}", info.name);
        assert!(controller.in_slow_start(), "{}", info.name);
        for number in 0..50 {
            controller.on_ack(&ack(number));
        }
        controller.on_path_change(&PathChangeEvent {
            now: Instant::EPOCH,
            largest_sent: PacketNumber(49),
        });
        assert_eq!(controller.tokens(), 10.0, "{}", info.name);
        assert!(controller.in_slow_start(), "{}", info.name);
    }
}

/// RFC 5681 §3.1: a window of one packet after a timeout.
#[test]
fn a_tcp_senders_window_is_one_packet_after_silence() {
    for info in controllers() {
        let mut controller = controller_by_name(info.name, &Params::tcp()).expect("a known name");
        for number in 0..50 {
            controller.on_ack(&ack(number));
        }
        controller.on_silence(&silence(49));
        assert_eq!(controller.tokens(), 1.0, "{}", info.name);
        controller.on_ack(&ack(50));
        assert!(
            controller.tokens() > 1.0 || info.name == "vegas",
            "{}",
            info.name
        );
    }
}

#[test]
fn a_window_stands_still_while_losses_are_repaired() {
    for info in controllers() {
        // The windows of BBR and auto follow their models whatever is repaired, and
        // that of TCP-cd
        // is scaled by a loss rate that moves.
        if ["auto", "bbr", "tcp-cd"].contains(&info.name) {
            continue;
        }
        let mut controller = controller_by_name(info.name, &Params::tcp()).expect("a known name");
        controller.on_ack(&ack(0));
        controller.on_loss(&loss(1, rtt(millis(100), millis(100))));
        let before = controller.tokens();
        for number in 2..20 {
            let in_recovery = true;
            controller.on_ack(&AckEvent {
                in_recovery,
                ..ack(number)
            });
        }
        assert_eq!(controller.tokens(), before, "{}", info.name);
    }
}

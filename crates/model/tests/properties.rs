//! What holds for every p: directions, limits, ranges.

use ctcp_model::coded::{
    Coding, Reading as SumReading, Windows, growth, packets_in_rounds, packets_in_rounds_31,
    rate_mean, redundancy_least, smoothed_rtt,
};
use ctcp_model::estimate::{Order, loss_after_ack, loss_mean};
use ctcp_model::redundancy::{coded_ahead, failure_probability};
use ctcp_model::reference::{Cubic, Pftk, cubic_window, pftk_rate, reno_window};
use ctcp_model::reno::{
    Connection, Reading, balance, rate, rate_unlimited, rounds_to_loss, timeout_probability,
};
use ctcp_model::surplus::{Reading as EtaReading, surplus};
use ctcp_model::{aimd, models};
use proptest::prelude::*;

/// `CTCP_SEED` picks the cases, as everywhere; a failure prints it.
fn config() -> ProptestConfig {
    let given = std::env::var("CTCP_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("CTCP_SEED={seed}");
    ProptestConfig {
        rng_seed: prop::test_runner::RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Two loss rates, the lower first, over five decades.
fn two_losses(high: f64) -> impl Strategy<Value = (f64, f64)> {
    let p = move || (-5.0..high.log10()).prop_map(|exponent: f64| 10f64.powf(exponent));
    (p(), p()).prop_map(|(a, b)| if a < b { (a, b) } else { (b, a) })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn throughput_falls_with_loss((low, high) in two_losses(0.9)) {
        prop_assert!(rate_unlimited(low, 0.8)? >= rate_unlimited(high, 0.8)?);
        prop_assert!(reno_window(low)? >= reno_window(high)?);
        let cubic = Cubic::usual(0.1);
        prop_assert!(cubic_window(low, cubic)? >= cubic_window(high, cubic)?);
        let tcp = Pftk { rtt: 0.1, timeout: 0.2, window_max: 1e4, ack_every: 2 };
        prop_assert!(pftk_rate(low, tcp)? >= pftk_rate(high, tcp)?);
        // However W in (14) is rounded, it never grows with p.
        for reading in Reading::ALL {
            let at = |p| rate(p, Connection::SECTION_VII.idling(), reading);
            prop_assert!(at(low)? >= at(high)?, "{} at {low} and {high}", reading.name());
        }
        let e2e = |p: f64| {
            let coding = Coding { redundancy: redundancy_least(p)?, srtt: 0.8 };
            rate_mean(1000.0, p, Windows::SECTION_VII, coding, SumReading::Sum)
        };
        prop_assert!(e2e(low)? >= e2e(high)?);
    }

    #[test]
    fn small_p_has_the_square_root_law(exponent in -9.0..-6.5) {
        let p = 10f64.powf(exponent);
        let ratio = rate_unlimited(p, 0.8)? / (reno_window(p)? / 0.8);
        prop_assert!((ratio - 1.0).abs() < 2e-3, "{ratio} at {p}");
    }

    #[test]
    fn eq_9_solves_eq_8_up_to_the_root_of_its_radicand(p in 1e-5..(12.0 / 13.0)) {
        let tolerance = 1e-9 * (1.0 / p);
        prop_assert!(balance(p)?.abs() < tolerance);
        prop_assert!(rounds_to_loss(p)? >= 2.0 / 3.0);
    }

    #[test]
    fn probabilities_are_probabilities(p in 0.0..=1.0, window in 0.0..200.0) {
        let to = timeout_probability(window, p)?;
        prop_assert!((0.0..=1.0).contains(&to));
        let event = aimd::event_probability(p, window)?;
        prop_assert!((0.0..=1.0).contains(&event));
        for order in Order::ALL {
            let after = loss_after_ack(p, 0.1, window as u32, order)?;
            prop_assert!((0.0..=1.0).contains(&after));
        }
    }

    #[test]
    fn timeouts_get_likelier_with_loss((low, high) in two_losses(1.0), window in 3u32..100) {
        let window = f64::from(window);
        prop_assert!(timeout_probability(window, low)? <= timeout_probability(window, high)?);
    }

    #[test]
    fn tcp_never_beats_its_window_and_never_goes_back(p in 0.0..=1.0, window in 1.0..1e4) {
        for reading in Reading::ALL {
            let tcp = Connection { window_max: window, ..Connection::SECTION_VII };
            let ours = rate(p, tcp, reading)?;
            prop_assert!((0.0..=window / 0.8 * (1.0 + 1e-12)).contains(&ours), "{ours}");
            prop_assert!(rate(p, tcp.idling(), reading)? <= ours);
        }
    }

    #[test]
    fn eta_is_a_share_and_bounds_lie_between_0_and_1(p in 0.0..=0.5, block in 1u32..=255) {
        for reading in EtaReading::ALL {
            let ours = surplus(block, p, reading)?;
            prop_assert!((0.0..1.0).contains(&ours.eta), "{ours:?}");
            prop_assert!((0.0..=1.0).contains(&ours.bound_before()));
            prop_assert!((0.0..=1.0).contains(&ours.bound_after()));
        }
        // Of exact readings, the mass is a probability.
        for reading in [EtaReading::B, EtaReading::C, EtaReading::D] {
            let mass = surplus(block, p, reading)?.mass;
            prop_assert!((0.0..=1.0 + 1e-9).contains(&mass), "{mass}");
        }
    }

    #[test]
    fn rounding_n_at_random_wastes_no_more_than_rounding_up(p in 0.0..=0.9, block in 1u32..=255) {
        let (b, c, d) = (
            surplus(block, p, EtaReading::B)?.eta,
            surplus(block, p, EtaReading::C)?.eta,
            surplus(block, p, EtaReading::D)?.eta,
        );
        prop_assert!(b <= c + 1e-12 && c <= d + 1e-12, "B {b} C {c} D {d}");
    }

    #[test]
    fn what_is_sent_ahead_makes_up_for_the_loss(p in 0.0..0.99, block in 1u32..=255) {
        let ahead = coded_ahead(block, p)?;
        let arriving = (f64::from(block) + ahead.mean) * (1.0 - p);
        prop_assert!((arriving - f64::from(block)).abs() < 1e-9 * f64::from(block));
        let drawn = ahead.always + ahead.extra_probability;
        prop_assert!((drawn - ahead.mean).abs() < 1e-11);
        prop_assert!((0.0..=1.0).contains(&ahead.extra_probability));
    }

    #[test]
    fn a_spare_combination_lowers_failure_256_fold(missing in 1u32..=255, extra in 0u32..10) {
        let ratio = failure_probability(missing, extra)? / failure_probability(missing, extra + 1)?;
        prop_assert!((255.0..257.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_printed_order_has_the_mean_p(p in 0.001..0.99, gain in 0.001..1.0) {
        let mean = loss_mean(p, gain, Order::Printed)?;
        prop_assert!((mean / p - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn forms_28_and_31_are_the_same(p in 0.0..0.9, n in 1u32..5000, first in 1.0..90.0) {
        let windows = Windows { first, max: 90.0 };
        let n = f64::from(n);
        let a = packets_in_rounds(n, p, windows, SumReading::Printed)?;
        let b = packets_in_rounds_31(n, p, windows)?;
        prop_assert!((a - b).abs() <= 1e-9 * a.abs() + 1e-9, "{a} {b}");
    }

    #[test]
    fn the_direct_sum_is_the_sum_of_eq_19(p in 0.0..0.9, n in 1u32..500) {
        let windows = Windows::SECTION_VII;
        let mut sum = 0.0;
        for i in 1..=n {
            sum += windows.at_round(f64::from(i), p)?;
        }
        let ours = packets_in_rounds(f64::from(n), p, windows, SumReading::Sum)?;
        prop_assert!((ours - sum).abs() < 1e-9 * sum, "{ours} {sum}");
    }

    #[test]
    fn windows_and_round_trips_grow_as_they_should((low, high) in two_losses(0.9), window in 2u32..300) {
        prop_assert!(growth(window, low)?.packets <= growth(window, high)?.packets);
        prop_assert!(growth(window, low)?.packets > growth(window - 1, low)?.packets);
        prop_assert!(smoothed_rtt(0.8, 0.008, low)? <= smoothed_rtt(0.8, 0.008, high)?);
    }

    /// Whatever is typed, a model answers or says what is wrong; never NaN.
    #[test]
    fn no_input_yields_nan(values in prop::collection::vec(prop::num::f64::ANY, 8), small in 0.0..=1.0) {
        for model in models() {
            let names = model.parameters.iter().map(|parameter| parameter.name);
            let wild: Vec<_> = names.clone().zip(values.iter().copied()).collect();
            let tame: Vec<_> = names.map(|name| (name, small)).collect();
            for given in [wild, tame] {
                if let Ok(row) = model.evaluate(&given, None) {
                    prop_assert!(!row.iter().any(|v| v.is_nan()), "{}: {row:?}", model.name);
                }
            }
        }
    }
}

#[test]
fn without_loss_nothing_is_wasted_and_nothing_waits() {
    for reading in EtaReading::ALL {
        let none = surplus(32, 0.0, reading).unwrap();
        assert_eq!((none.coded, none.eta), (0.0, 0.0), "{}", reading.name());
    }
    let just_below = 1.0 / 33.0 - 1e-6;
    let just_above = 1.0 / 33.0 + 1e-6;
    assert_eq!(surplus(32, just_below, EtaReading::A).unwrap().coded, 0.0);
    assert_eq!(surplus(32, just_above, EtaReading::A).unwrap().coded, 1.0);
    assert_eq!(smoothed_rtt(0.8, 0.008, 0.0), Ok(0.8));
    assert_eq!(redundancy_least(0.0), Ok(1.0));
}

//! [CC14] §II, §IV and [MP12] Algorithm 1 against the golden values.

mod common;

use common::{Uniform, assert_close, assert_same, number, parse, rows, seed, whole};
use ctcp_model::aimd::{
    Increase, event_probability, full_queue_factor, mean_rate, no_backoff_probability,
    packets_in_interval, rate_at_event, rate_ratio_by_backoff, rate_ratio_by_rtt,
};
use ctcp_model::estimate::{
    Order, deviation_after_ack, loss_after_ack, loss_jump_factor, loss_mean,
};
use ctcp_model::redundancy::{
    coded_ahead, extra_packets_mean, failure_probability, repair_packets,
};
use ctcp_model::reference::{Cubic, Pftk, cubic_window, pftk_rate, reno_efficiency, reno_window};
use ctcp_model::surplus::{Reading, header_budget, surplus};
use serde_json::Value;

fn increase(row: &Value) -> Increase {
    Increase {
        alpha: number(&row["alpha"]),
        rtt: number(&row["T"]),
    }
}

#[test]
fn intervals_between_backoff_events_are_golden() {
    let golden = parse(include_str!("golden/cc14_model.json"));
    for row in rows(&golden["interval"]) {
        let increase = increase(row);
        let (beta, s, t) = (
            number(&row["beta"]),
            number(&row["s_prev"]),
            number(&row["t"]),
        );
        assert_same(
            increase.per_second_squared().unwrap(),
            &row["alpha_tilde"],
            "α̃",
        );
        let packets = packets_in_interval(beta, s, increase, t).unwrap();
        assert_same(packets, &row["N_t"], "N_t");
        let probability = event_probability(number(&row["p"]), packets).unwrap();
        assert_same(probability, &row["Prob(T<=t)"], "Prob(T ≤ t)");
        let after = rate_at_event(beta, s, increase, t).unwrap();
        assert_same(after, &row["s_next_eq2"], "(2)");
    }
    for row in rows(&golden["no_backoff_probability"]) {
        let (p, s, rtt) = (number(&row["p"]), number(&row["s"]), number(&row["T"]));
        let gamma = no_backoff_probability(p, s, rtt).unwrap();
        assert_same(gamma, &row["gamma_no_loss_in_RTT"], "γ");
    }
}

#[test]
fn mean_rates_and_their_ratios_are_golden() {
    let golden = parse(include_str!("golden/cc14_model.json"));
    for row in rows(&golden["eq4"]) {
        let (beta, interval) = (number(&row["E_beta"]), number(&row["E_T"]));
        let rate = mean_rate(increase(row), beta, interval).unwrap();
        assert_same(rate, &row["E_s"], "(4)");
        // (3) with means: (4) is its fixed point.
        let next = rate_at_event(beta, rate, increase(row), interval).unwrap();
        assert_close(next, rate, 1e-12, "(3)");
    }
    for row in rows(&golden["rtt_fairness_ratio_(Tj/Ti)^2"]) {
        let ratio = rate_ratio_by_rtt(number(&row[0]), number(&row[1])).unwrap();
        assert_same(ratio, &row[2], "(T_j/T_i)²");
    }
    for row in rows(&golden["friendliness_E[s_fixed]/E[s_adaptive]=2(1-beta)"]) {
        let beta = full_queue_factor(number(&row[0])).unwrap();
        assert_same(beta, &row[1], "β_j");
        assert_same(rate_ratio_by_backoff(0.5, beta).unwrap(), &row[2], "ratio");
    }
}

#[test]
fn equal_factors_and_delays_mean_equal_shares() {
    assert_eq!(rate_ratio_by_rtt(0.1, 0.1), Ok(1.0));
    assert_eq!(rate_ratio_by_backoff(0.7, 0.7), Ok(1.0));
    assert_eq!(full_queue_factor(1.0), Ok(0.5));
}

#[test]
fn a_monte_carlo_of_eq_2_has_the_ratio_of_eq_4() {
    let golden = parse(include_str!("golden/cc14_model.json"));
    let golden = &golden["monte_carlo_eq2"];
    let beta: Vec<_> = rows(&golden["beta"]).iter().map(number).collect();
    let predicted = rate_ratio_by_backoff(beta[0], beta[1]).unwrap().recip();
    assert_same(predicted, &golden["ratio_eq4"], "ratio");
    let tolerance = number(&golden["tolerance"]);
    assert_close(
        predicted,
        number(&golden["ratio_measured"]),
        tolerance,
        "theirs",
    );

    let increase = Increase {
        alpha: 1.0,
        rtt: 0.05,
    };
    let mut uniform = Uniform(seed());
    let (mut s, mut sums) = ([200.0, 200.0], [0.0, 0.0]);
    for event in 0..60_000 {
        let interval = -(1.0 - uniform.draw()).ln();
        for flow in 0..2 {
            s[flow] = rate_at_event(beta[flow], s[flow], increase, interval).unwrap();
            if event > 100 {
                sums[flow] += s[flow];
            }
        }
    }
    assert_close(sums[1] / sums[0], predicted, tolerance, "ours");
}

#[test]
fn every_reading_of_eq_5_is_golden() {
    let golden = parse(include_str!("golden/eq5.json"));
    let block = whole(&golden["N"]);
    for row in rows(&golden["grid"]) {
        let p = number(&row["p"]);
        let at = |reading| surplus(block, p, reading).unwrap();
        for (reading, column) in [
            (Reading::Printed, "eta_printed"),
            (Reading::A, "eta_A_binomial_N"),
            (Reading::B, "eta_B_binomial_N_plus_n"),
            (Reading::C, "eta_C_probabilistic_rounding"),
            (Reading::D, "eta_D_algorithm3_ceiling"),
            (Reading::CodedOnly, "eta_binomial_n"),
        ] {
            assert_same(at(reading).eta, &row[column], &format!("{column} at {p}"));
        }
        assert_same(at(Reading::B).coded, &row["n"], "n");
        assert_same(at(Reading::Printed).mass, &row["mass_printed"], "mass");
        let mass = number(&row["mass_expected_(1-p)^(N-n)"]);
        assert_close(at(Reading::Printed).mass, mass, 1e-9, "(1−p)^(N−n)");
        assert_same(at(Reading::A).bound_after(), &row["efficiency_A"], "1−A");
        assert_same(at(Reading::B).bound_after(), &row["efficiency_B"], "1−B");
        let exact = &row["efficiency_B_exact_1/(1+eta)"];
        assert_same(at(Reading::B).bound_before(), exact, "1/(1+B)");
        assert_same(
            at(Reading::C).bound_before(),
            &row["efficiency_C"],
            "1/(1+C)",
        );
        assert_same(
            at(Reading::D).bound_before(),
            &row["efficiency_D"],
            "1/(1+D)",
        );
        let packets = f64::from(block) + at(Reading::D).coded;
        assert_same(packets, &row["ceil_policy_packets"], "⌈N/(1−p)⌉");
        let decoded = &row["first_pass_decode_probability_C"];
        assert_same(at(Reading::C).mass, decoded, "decoded, C");
        let decoded = &row["first_pass_decode_probability_D"];
        assert_same(at(Reading::D).mass, decoded, "decoded, D");
    }
    for row in rows(&golden["monte_carlo_surplus"]) {
        let p = number(&row["p"]);
        let at = |reading| surplus(block, p, reading).unwrap();
        assert_same(at(Reading::A).eta, &row["eta_A"], "A");
        assert_same(at(Reading::B).eta, &row["eta_B"], "B");
        assert_same(at(Reading::Printed).eta, &row["eta_printed"], "printed");
        assert_same(at(Reading::B).coded, &row["n"], "n");
        let counted = number(&row["monte_carlo_eta"]);
        assert_close(at(Reading::B).eta, counted, 0.02, "B against Monte-Carlo");
    }
}

#[test]
fn eq_5_stays_exact_where_binomials_overflow() {
    // The weights of B for k = 0…N+n are a distribution, so mass and η of a
    // block follow from the few k that decode it.
    let large = surplus(255, 0.99, Reading::B).unwrap();
    assert_eq!(large.coded, 25_245.0);
    assert!((0.4..0.6).contains(&large.mass), "{large:?}");
    assert!(large.eta > 0.0 && large.eta < 0.1, "{large:?}");
}

#[test]
fn the_header_budget_is_golden() {
    let golden = parse(include_str!("golden/eq5.json"));
    for row in rows(&golden["header_budget"]) {
        let budget = header_budget(32, number(&row["p"]), 0.96, 1500.0, 28.0).unwrap();
        assert_same(budget.eta, &row["eta"], "η");
        assert_same(
            budget.payload_bytes,
            &row["payload_bytes_needed"],
            "payload",
        );
        let header = &row["ctcp_header_budget_after_28_bytes_ip_udp"];
        assert_same(budget.header_bytes, header, "header");
    }
}

#[test]
fn coded_packets_ahead_and_on_feedback_are_golden() {
    let golden = parse(include_str!("golden/redundancy.json"));
    for row in rows(&golden["grid"]) {
        let ahead = coded_ahead(whole(&row["N"]), number(&row["p"])).unwrap();
        assert_same(ahead.mean, &row["N_c"], "N_c");
        assert_same(ahead.always, &row["floor"], "⌊N_c⌋");
        assert_same(ahead.extra_probability, &row["prob_extra"], "one more");
    }
    for row in rows(&golden["rounding"]) {
        let ahead = coded_ahead(whole(&row["N"]), number(&row["p"])).unwrap();
        let is_one_more = number(&row["u"]) < ahead.extra_probability - 1e-12;
        let coded = ahead.always + f64::from(u8::from(is_one_more));
        assert_same(coded, &row["coded_packets"], "drawn");
    }
    for row in rows(&golden["feedback_repair"]) {
        let packets = repair_packets(whole(&row["missing"]), number(&row["p"])).unwrap();
        assert_same(packets, &row["expected_packets_to_send"], "repair");
    }
}

#[test]
fn innovation_statistics_are_golden() {
    let golden = parse(include_str!("golden/rank.json"));
    for row in rows(&golden["prob_invertible_m_by_m"]) {
        let failure = failure_probability(whole(&row[0]), 0).unwrap();
        assert_same(1.0 - failure, &row[1], "invertible");
    }
    for row in rows(&golden["prob_not_decodable"]) {
        let failure = failure_probability(whole(&row[0]), whole(&row[1])).unwrap();
        // The golden value is 1 − product, which loses all below 1e−16.
        let error = (failure - number(&row[2])).abs();
        assert!(error < 1e-15, "{row}: {failure}");
    }
    let extra = extra_packets_mean(32).unwrap();
    let error = (extra - number(&golden["expected_extra_packets_m=32"])).abs();
    assert!(error < 1e-14, "{extra}");
}

#[test]
fn reno_s_reference_is_golden() {
    let golden = parse(include_str!("golden/padhye.json"));
    let bdp = number(&golden["bdp_packets"]["25Mbps_25ms_1500B"]);
    for row in rows(&golden["grid"]) {
        let p = number(&row["p"]);
        assert_same(reno_window(p).unwrap(), &row["W"], "W");
        let efficiency = reno_efficiency(p, bdp).unwrap();
        assert_same(efficiency, &row["efficiency_bdp_52.08"], "efficiency");
    }
}

#[test]
fn the_response_functions_are_those_of_the_satellite_sketch() {
    let golden = parse(include_str!("golden/errata_checks.json"));
    for row in rows(&golden["slow_start_exit"]["sat_fig2_v1_500ms"]) {
        let p = number(&row["p"]);
        if p == 0.0 {
            continue;
        }
        let mbit = |window: f64, rtt: f64| (window * 12_000.0 / rtt / 1e6).min(10.0);
        let cubic = mbit(cubic_window(p, Cubic::usual(0.5)).unwrap(), 0.5);
        // There the constant is rounded to 1.054.
        let golden = number(&row["cubic_response_function"]);
        assert_close(cubic, golden, 2e-4, "CUBIC");
        let hybla = mbit(reno_window(p).unwrap(), 0.025);
        assert_same(hybla, &row["hybla_as_reno_at_25ms"], "Hybla");
    }
}

/// An epoch of CUBIC that starts and ends with a loss at W_max, second by second.
#[test]
fn cubic_between_equal_losses_has_the_window_of_its_response_function() {
    let (p, cubic) = (1e-4, Cubic::usual(0.1));
    let window = cubic_window(p, cubic).unwrap();
    let window_max = window * 4.0 / (3.0 + cubic.beta);
    let k = (window_max * (1.0 - cubic.beta) / cubic.c).cbrt();
    let steps = 100_000;
    let mean = (0..steps)
        .map(|step| (f64::from(step) + 0.5) / f64::from(steps) * k)
        .map(|t| cubic.c * (t - k).powi(3) + window_max)
        .sum::<f64>()
        / f64::from(steps);
    assert_close(mean, window, 1e-6, "mean window");
    assert_close(
        mean / cubic.rtt * k,
        1.0 / p,
        1e-6,
        "packets between losses",
    );
}

#[test]
fn pftk_tends_to_the_square_root_law_and_stops_at_the_window() {
    let tcp = Pftk {
        rtt: 0.1,
        timeout: 0.2,
        window_max: 1e9,
        ack_every: 1,
    };
    let rate = pftk_rate(1e-8, tcp).unwrap();
    assert_close(rate * tcp.rtt, reno_window(1e-8).unwrap(), 1e-3, "small p");
    let limited = Pftk {
        window_max: 90.0,
        ..tcp
    };
    assert_eq!(pftk_rate(0.0, limited), Ok(900.0));
    // By hand: 1/(0.1·sqrt(0.2/3) + 0.2·3·sqrt(0.0375)·0.1·1.32).
    let by_hand = 1.0 / (0.1 * 0.258_198_889_747 + 0.2 * 0.580_947_501_931 * 0.1 * 1.32);
    assert_close(pftk_rate(0.1, tcp).unwrap(), by_hand, 1e-9, "p = 0.1");
}

#[test]
fn the_loss_filters_follow_the_golden_acks() {
    let golden = parse(include_str!("golden/ewma.json"));
    let init = &golden["init"];
    let (mu, nu) = (number(&init["mu"]), number(&init["nu"]));
    for (side, losses) in [("ours", "losses"), ("printed", "printed_losses")] {
        let mut p = number(&init["p"]);
        let mut p_long = number(&init["pl"]);
        let mut dev = number(&init["pd"]);
        // The print skips stale ACKs, too, but by its own, backward seqno_una.
        let mut una = number(&init["una"]);
        for row in rows(&golden["steps"]) {
            let seqno = number(&row["ack"]["ack_seqno"]);
            if seqno >= una {
                let losses = whole(&row[losses]);
                p = loss_after_ack(p, mu, losses, Order::Printed).unwrap();
                p_long = loss_after_ack(p_long, nu, losses, Order::Printed).unwrap();
                dev = deviation_after_ack(dev, nu, p, p_long).unwrap();
            }
            assert_same(p, &row[side]["p"], "p");
            assert_same(p_long, &row[side]["p_long"], "p_long");
            assert_same(dev, &row[side]["p_stdlong"], "p_dev");
            una = number(&row[side]["seqno_una"]);
        }
    }
    for row in rows(&golden["single_updates"]) {
        let (p, mu, losses) = (number(&row["p"]), number(&row["mu"]), whole(&row["losses"]));
        let after = loss_after_ack(p, mu, losses, Order::Printed).unwrap();
        assert_same(after, &row["p_new"], "p");
    }
    for row in rows(&golden["stationary_mean"]) {
        let (p, mu) = (number(&row["p"]), number(&row["mu"]));
        let printed = loss_mean(p, mu, Order::Printed).unwrap();
        assert_same(printed, &row["mean_printed_order"], "printed");
        assert_close(printed, p, 1e-9, "the mean is p");
        let other = loss_mean(p, mu, Order::Chronological).unwrap();
        assert_same(other, &row["mean_chronological_order"], "chronological");
    }
}

#[test]
fn the_loss_jump_is_golden() {
    let golden = parse(include_str!("golden/errata_checks.json"));
    for row in rows(&golden["loss_jump_rule"]) {
        let factor = loss_jump_factor(number(&row["p_minus_p_long"]), 0.0).unwrap();
        assert_same(factor, &row["1-d/2"], "1 − d/2");
        assert_close(factor, number(&row["factor"]), 1e-9, "ACK by ACK");
    }
}

#[test]
fn late_acks_are_counted_once() {
    // The estimates of `late_ack`: 12 shows two losses, 13 none; the print
    // counts another one at 13 after the late 11 moved it back.
    let golden = parse(include_str!("golden/errata_checks.json"));
    let after = |losses: &[u32]| {
        let step = |p, l: &u32| loss_after_ack(p, 0.05, *l, Order::Printed).unwrap();
        losses.iter().fold(0.0, step)
    };
    assert_same(after(&[2, 0]), &golden["late_ack"]["ours"]["p"], "ours");
    let printed = &golden["late_ack"]["printed"]["p"];
    assert!(number(printed) > after(&[2, 0]), "{printed}");
}

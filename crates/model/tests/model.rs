//! [MODEL] §IV–§VI and Table I against the golden values.

mod common;

use common::{Uniform, assert_close, assert_same, number, parse, rows, seed, whole};
use ctcp_model::coded::{
    Coding, Reading as SumReading, Windows, fundamental_row, growth, packets_in_rounds,
    packets_in_rounds_31, rate_at_round, rate_mean, rounds_down, rounds_up, smoothed_rtt,
    smoothed_rtt_series, window_step,
};
use ctcp_model::reno::{
    Connection, DurationReading, Reading, WindowReading, balance, packets_between_losses, rate,
    rate_unlimited, rate_without_timeouts, rounds_to_loss, seconds_between_losses,
    timeout_probability, timeout_probability_at, timeout_rounds_mean, timeout_rounds_series,
    window_after_loss, window_at_loss, window_mean,
};
use ctcp_model::table1::{LINK_LOSSES, PRINTED, path_loss, row};
use ctcp_model::{ModelError, reference};
use serde_json::Value;

fn model() -> Value {
    parse(include_str!("golden/model.json"))
}

#[test]
fn tcp_with_independent_losses_is_golden() {
    for row in rows(&model()["tcp"]) {
        let p = number(&row["p"]);
        let packets = packets_between_losses(p).unwrap();
        assert_same(packets, &row["eq2_EN"], "(2)");
        assert_same(rounds_to_loss(p).unwrap(), &row["eq9_Er"], "(9)");
        assert_same(window_at_loss(p).unwrap(), &row["eq5_EWend"], "(5) end");
        assert_same(window_after_loss(p).unwrap(), &row["eq5_EWj"], "(5) start");
        assert!(
            balance(p).unwrap().abs() <= 1e-12 * packets.max(1.0),
            "(8) at {p}"
        );
        assert_same(window_mean(p).unwrap(), &row["eq11_EW"], "(11)");
        let mean = (window_after_loss(p).unwrap() + window_at_loss(p).unwrap()) / 2.0;
        // (10) gives (3/2)·E[r] − 1 as the mean of the two.
        assert_close(mean, window_mean(p).unwrap(), 1e-9, "(10)");
        let seconds = seconds_between_losses(p, 0.8).unwrap();
        assert_same(packets / seconds, &row["eq12_Tprime_rtt0.8"], "(3), (12)");
        assert_same(
            rate_unlimited(p, 0.8).unwrap(),
            &row["eq12_Tprime_rtt0.8"],
            "(12)",
        );
        let limited = rate_without_timeouts(p, 0.8, 90.0).unwrap();
        assert_same(limited, &row["eq13_T_rtt0.8_wmax90"], "(13)");
        let asymptote = reference::reno_window(p).unwrap() / 0.8;
        assert_same(asymptote, &row["small_p_asymptote_rtt0.8"], "asymptote");
        let reading = Reading::default();
        let probability = timeout_probability_at(p, reading).unwrap();
        assert_same(probability, &row["eq14_PTO_round"], "(14)");
        let rounds = timeout_rounds_mean(p, 3.75, DurationReading::Printed).unwrap();
        assert_same(rounds, &row["eq16_dur_To3.75"], "(16)");
        let tcp = Connection::SECTION_VII;
        let full = rate(p, tcp, reading).unwrap();
        assert_same(full, &row["eq17_T_rtt0.8_wmax90_To3.75"], "(17)");
        let idling = rate(p, tcp.idling(), reading).unwrap();
        assert_same(
            idling,
            &row["eq17_plus2_T_rtt0.8_wmax90_To3.75"],
            "(17) + 2",
        );
    }
}

#[test]
fn timeout_probabilities_are_golden() {
    for row in rows(&model()["P_TO"]) {
        let (window, p) = (number(&row["W"]), number(&row["p"]));
        let ours = timeout_probability(window, p).unwrap();
        assert_same(ours, &row["P_TO"], &row.to_string());
    }
    // Printed in the specification.
    for (window, p, printed) in [
        (3.0, 0.05, 0.142625),
        (3.0, 0.1855, 0.459652),
        (3.0, 0.5, 0.875),
        (4.0, 0.1855, 0.158949),
        (5.0, 0.1855, 0.047388),
        (10.0, 0.5, 0.0546875),
    ] {
        let ours = timeout_probability(window, p).unwrap();
        assert!((ours - printed).abs() < 5e-7, "W={window} p={p}: {ours}");
    }
}

#[test]
fn timeout_durations_are_golden() {
    for row in rows(&model()["to_series"]) {
        let p = number(&row["p"]);
        let series = timeout_rounds_series(p, 1.0, 3000).unwrap();
        assert_same(series, &row["eq15_series_over_To"], "(15)");
        let closed = timeout_rounds_mean(p, 1.0, DurationReading::Printed).unwrap();
        assert_same(closed, &row["eq16_closed_over_To"], "(16)");
        assert_same(closed, &row["p_times_padhye_f(p)/(1-p)"], "p·f(p)/(1−p)");
        let conditional = timeout_rounds_mean(p, 1.0, DurationReading::Conditional).unwrap();
        assert_close(conditional, closed / p, 1e-12, "conditional");
    }
    let at_zero = timeout_rounds_mean(0.0, 3.75, DurationReading::Conditional);
    assert_eq!(at_zero, Ok(3.75), "one timeout and no more");
}

#[test]
fn the_edges_of_p_are_golden() {
    let golden = model();
    let golden = &golden["edge"];
    let at = |p| rate(p, Connection::SECTION_VII, Reading::default()).unwrap();
    assert_same(at(0.0), &golden["p=0"], "p = 0");
    assert_same(at(1.0), &golden["p=1"], "p = 1");
    // At and above 12/13 the radicand is 0.
    for p in [12.0 / 13.0, 0.95, 1.0] {
        let r = rounds_to_loss(p).unwrap();
        assert!((r - 2.0 / 3.0).abs() < 1e-7, "E[r] = {r} at {p}");
    }
    for row in rows(&golden["large_p_ratio_Tprime*RTT/((1-p)/p)"]) {
        let p = number(&row[0]);
        let ratio = rate_unlimited(p, 1.0).unwrap() / packets_between_losses(p).unwrap();
        assert_same(ratio, &row[1], "large p");
    }
    assert!(window_mean(4.0 / 7.0 - 1e-6).unwrap() > 1.0);
    assert!(window_mean(4.0 / 7.0 + 1e-6).unwrap() < 1.0);
}

fn table_coding() -> Coding {
    Coding {
        redundancy: 1.25,
        srtt: 0.8,
    }
}

#[test]
fn coded_tcp_end_to_end_is_golden() {
    let windows = Windows::SECTION_VII;
    for row in rows(&model()["e2e"]) {
        let (p, n) = (number(&row["p"]), number(&row["n"]));
        let what = format!("p={p} n={n}");
        assert_same(windows.at_round(n, p).unwrap(), &row["eq19_EW_n"], &what);
        let at_round = rate_at_round(n, p, windows, table_coding()).unwrap();
        assert_same(at_round, &row["eq23_T_n"], &what);
        let f = |reading| packets_in_rounds(n, p, windows, reading).unwrap();
        assert_same(f(SumReading::Printed), &row["f_eq28"], &what);
        let f31 = packets_in_rounds_31(n, p, windows).unwrap();
        assert_same(f31, &row["f_eq31"], &what);
        assert_same(f(SumReading::Sum), &row["f_direct_sum_eq27"], &what);
        let from_zero = &row["f_direct_sum_from_i=0"];
        assert_same(f(SumReading::SumFromZero), from_zero, &what);
        let mean = rate_mean(n, p, windows, table_coding(), SumReading::Printed).unwrap();
        assert_same(mean, &row["eq28_T"], &what);
    }
}

#[test]
fn the_printed_branches_of_f_jump_where_the_window_is_full() {
    for row in rows(&model()["f_branch_jump"]) {
        let p = number(&row["p"]);
        let full = Windows::SECTION_VII.rounds_to_full(p).unwrap();
        assert_same(full, &row["r*"], "r*");
        let first = packets_in_rounds_31(full, p, Windows::SECTION_VII).unwrap();
        assert_same(first, &row["first_branch_at_r*"], "before");
        let second = packets_in_rounds_31(full + 1e-9, p, Windows::SECTION_VII).unwrap();
        assert_same(second, &row["second_branch_at_r*"], "after");
        assert_close(first - second, 89.0, 1e-6, "E-MODEL-02");
    }
}

#[test]
fn fig_5_is_golden() {
    let windows = Windows {
        first: 30.0,
        max: 90.0,
    };
    for row in rows(&model()["fig5"]) {
        let window = windows.at_round(number(&row["i"]), 0.1).unwrap();
        assert_same(window, &row["EW"], &row.to_string());
    }
    assert_close(window_step(30.0, 0.1).unwrap(), 30.9, 1e-12, "(18)");
}

#[test]
fn smoothed_round_trips_are_golden() {
    for row in rows(&model()["srtt"]) {
        let (rtt, t_p, p) = (number(&row["RTT"]), number(&row["t_p"]), number(&row["p"]));
        assert_same(
            smoothed_rtt(rtt, t_p, p).unwrap(),
            &row["eq25_SRTT"],
            "(25)",
        );
        let series = smoothed_rtt_series(rtt, t_p, p, 400).unwrap();
        assert_same(series, &row["eq24_partial_sum_400"], "(24)");
    }
}

#[test]
fn the_down_state_is_golden() {
    for row in rows(&model()["down_state"]) {
        let p_down = number(&row["p_d"]);
        assert_same(rounds_up(p_down).unwrap(), &row["E_r_up"], "up");
        assert_same(rounds_down(p_down).unwrap(), &row["E_r_down"], "down");
    }
}

#[test]
fn the_markov_chain_is_golden() {
    let golden = parse(include_str!("golden/markov.json"));
    let row = fundamental_row(6, 0.2).unwrap();
    let expected = rows(&golden["first_row_of_N_m=6_p=0.2"]);
    assert_eq!(row.len(), expected.len());
    for (ours, golden) in row.iter().zip(expected) {
        assert_same(*ours, golden, "(20)");
    }
    for row in rows(&golden["T"]) {
        let (window, p) = (whole(&row["W"]), number(&row["p"]));
        let ours = growth(window, p).unwrap();
        for (value, column) in [
            (ours.packets, "eq22_T"),
            (ours.states, "transient_states"),
            (ours.packets_inclusive, "sum_to_S(W)_inclusive_eq21"),
            (ours.area, "area_under_curve"),
            (ours.rounds_sum, "sum_of_rounds_(W-1)(W+p)/(2(1-p))"),
            (ours.increments_exact, "exact_chain_increments_1/W"),
            (ours.packets_exact, "exact_chain_T"),
            (ours.rounds, "rounds"),
        ] {
            assert_same(value, &row[column], &format!("{column}, W={window}, p={p}"));
        }
        if ours.states >= 1.0 {
            let visits = fundamental_row(ours.states as u32, p).unwrap();
            assert_close(visits.iter().sum(), ours.packets, 1e-9, "(20) and (22)");
        }
    }
}

#[test]
fn a_walk_along_the_chain_takes_the_packets_of_eq_22() {
    let golden = parse(include_str!("golden/markov.json"));
    let golden = &golden["monte_carlo"];
    let (window, p) = (whole(&golden["W"]), number(&golden["p"]));
    let expected = growth(window, p).unwrap();
    assert_same(expected.packets, &golden["eq22"], "(22)");
    let theirs = number(&golden["mean_packets"]);
    assert_close(expected.packets, theirs, 0.005, "theirs");
    let mut uniform = Uniform(seed());
    let (walks, mut packets) = (4000, 0);
    for _ in 0..walks {
        let mut state = 0.0;
        while state < expected.states {
            packets += 1;
            if uniform.draw() >= p {
                state += 1.0;
            }
        }
    }
    let mean = f64::from(packets) / f64::from(walks);
    assert_close(mean, expected.packets, 0.01, "ours");
}

fn reading(window: WindowReading) -> Reading {
    Reading {
        window,
        duration: DurationReading::Printed,
    }
}

#[test]
fn table_1_and_all_its_alternatives_are_golden() {
    let golden = parse(include_str!("golden/table1.json"));
    let to_mbit = number(&golden["parameters"]["packet_bits"]) / 1e6;
    for row in rows(&golden["rows"]) {
        let (q, srtt) = (number(&row["q"]), number(&row["srtt"]));
        let p = path_loss(q).unwrap();
        assert_same(p, &row["p"], "p");
        assert_same(rounds_to_loss(p).unwrap(), &row["E_r"], "E[r]");
        assert_same(window_mean(p).unwrap(), &row["E_W"], "E[W]");
        assert_same(
            smoothed_rtt(0.8, 0.008, p).unwrap(),
            &row["eq25_srtt"],
            "(25)",
        );

        let e2e = &row["e2e"];
        let (windows, coding) = (
            Windows::SECTION_VII,
            Coding {
                redundancy: 1.25,
                srtt,
            },
        );
        let mbit =
            |n, reading| rate_mean(number(n), p, windows, coding, reading).unwrap() * to_mbit;
        let (floor, ceil) = (&e2e["n_floor"], &e2e["n_ceil"]);
        assert_same(
            mbit(floor, SumReading::Printed),
            &e2e["eq28_floor"],
            "(28) floor",
        );
        assert_same(
            mbit(floor, SumReading::Printed),
            &e2e["eq31_floor"],
            "(31) floor",
        );
        assert_same(
            mbit(ceil, SumReading::Printed),
            &e2e["eq28_ceil"],
            "(28) ceil",
        );
        assert_same(
            mbit(floor, SumReading::Sum),
            &e2e["direct_sum_27_floor"],
            "(27)",
        );
        let limit = rate_at_round(1e9, p, windows, coding).unwrap() * to_mbit;
        assert_same(limit, &e2e["eq23_asymptote"], "(23)");

        let tcp = |p, td, to, reading| {
            let connection = Connection {
                idle_rounds_td: td,
                idle_rounds_to: to,
                ..Connection::SECTION_VII
            };
            rate(p, connection, reading).unwrap() * to_mbit
        };
        let mut checked = 0;
        for (window, name) in [
            (WindowReading::Nearest, "round"),
            (WindowReading::Up, "ceil"),
            (WindowReading::Down, "floor"),
            (WindowReading::Real, "none"),
        ] {
            for (td, to) in [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0)] {
                let column = format!("W={name},+{td},+{to}");
                let ours = tcp(p, td, to, reading(window));
                assert_same(ours, &row["tcp"][&column], &column);
                checked += 1;
            }
        }
        let conditional = Reading {
            duration: DurationReading::Conditional,
            ..Reading::default()
        };
        let column = "W=round,+2,+2,padhye_duration";
        assert_same(tcp(p, 2.0, 2.0, conditional), &row["tcp"][column], column);
        let column = "W=round,+2,+2,p_printed";
        let p_printed = number(&row["p_printed"]);
        let ours = tcp(p_printed, 2.0, 2.0, Reading::default());
        assert_same(ours, &row["tcp"][column], column);
        let columns = row["tcp"].as_object().expect("columns").len();
        assert_eq!(columns, checked + 2, "every column is compared");
    }
}

#[test]
fn the_rows_we_adopt_are_golden_and_meet_the_print() {
    let golden = parse(include_str!("golden/table1.json"));
    for (golden, printed) in rows(&golden["rows"]).iter().zip(PRINTED) {
        let ours = row(printed.q, Reading::default()).unwrap();
        assert_eq!(ours.printed, printed);
        for (value, column) in [
            (printed.q, "q"),
            (printed.p, "p_printed"),
            (printed.srtt, "srtt"),
        ] {
            assert_same(value, &golden[column], column);
        }
        for (value, column) in [
            (printed.e2e_simulated, "e2e_sim"),
            (printed.e2e, "e2e_analysis"),
            (printed.tcp_simulated, "tcp_sim"),
            (printed.tcp, "tcp_analysis"),
        ] {
            assert_same(value, &golden["printed"][column], column);
        }
        let adopted = &golden["adopted"];
        assert_same(ours.e2e, &adopted["e2e"], "E2E");
        assert_same(ours.tcp, &adopted["tcp"], "TCP");
        let error = |ours: f64, column: &str| (ours - number(&adopted[column])).abs();
        assert!(error(ours.e2e_error(), "e2e_rel_error") < 1e-9);
        assert!(error(ours.tcp_error(), "tcp_rel_error") < 1e-9);
        assert_same(ours.rounds, &golden["e2e"]["n_ceil"], "n");
        // What the specification asks of the columns.
        assert!(ours.e2e_error().abs() <= 0.0015, "{ours:?}");
        let four_decimals = (ours.tcp * 1e4).round() / 1e4;
        assert_eq!(four_decimals, printed.tcp, "exact to four decimals");
    }
}

#[test]
fn the_direct_sum_is_off_by_as_much_as_the_specification_says() {
    for (q, sum, percent) in [
        (0.015, 0.62071, 0.08),
        (0.025, 0.59207, 0.06),
        (0.05, 0.52423, -0.01),
    ] {
        let ours = row(q, Reading::default()).unwrap();
        assert!((ours.e2e_sum - sum).abs() < 3e-5, "{}", ours.e2e_sum);
        let error = 100.0 * (ours.e2e_sum / ours.printed.e2e - 1.0);
        assert!((error - percent).abs() < 0.01, "{error} %");
    }
}

#[test]
fn only_rounding_to_nearest_or_up_meets_the_third_row() {
    let third = |window| row(0.05, reading(window)).unwrap().tcp;
    assert!((third(WindowReading::Nearest) - 0.0065).abs() < 5e-5);
    assert_eq!(third(WindowReading::Up), third(WindowReading::Nearest));
    assert!((third(WindowReading::Down) - 0.0052).abs() < 5e-5);
    assert!((third(WindowReading::Real) - 0.0052).abs() < 5e-5);
    // The window at the loss, rounded down, fits when p has four digits.
    for printed in PRINTED {
        let tcp = Connection::SECTION_VII.idling();
        let peak = rate(printed.p, tcp, reading(WindowReading::PeakDown)).unwrap() * 8e-3;
        assert!((peak - printed.tcp).abs() < 5e-5, "{peak}");
    }
}

#[test]
fn table_1_has_no_other_rows() {
    assert_eq!(LINK_LOSSES.to_vec(), PRINTED.map(|row| row.q).to_vec());
    let error = row(0.02, Reading::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "q = 0.02 is out of range; allowed: one of 0.015, 0.025, 0.05"
    );
}

#[test]
fn too_little_redundancy_is_named_with_what_would_do() {
    let coding = table_coding();
    assert_eq!(coding.hides_losses(0.2), Ok(coding), "1.25 = 1/(1−0.2)");
    let error = coding.hides_losses(0.3).unwrap_err();
    assert!(matches!(error, ModelError::TooSmall { .. }), "{error}");
    assert!(error.to_string().contains("1.428571"), "{error}");
}

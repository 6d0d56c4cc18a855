//! What `auto` must not lose again: a few rows of the suite, each quick.

use ctcp_control_suite::{Contestant, Extent, Score, measure_all, rows};

fn scores(name: &str, controller: &str) -> Vec<Score> {
    let mut chosen = rows(Extent::Quick);
    chosen.retain(|row| row.name == name);
    assert_eq!(chosen.len(), 1, "one row is called `{name}`");
    let contestant = Contestant::parse(controller).expect("a known controller");
    measure_all(&chosen, &[contestant], &[1], Extent::Quick).expect("the row can be run")
}

fn figure(scores: &[Score], name: &str) -> f64 {
    let found = scores.iter().find(|score| score.figure == name);
    found.expect("the row has this figure").value
}

#[test]
fn auto_keeps_the_rate_of_a_path_that_loses_a_fifth() {
    let scores = scores("steady 20 %", "auto");
    assert!(figure(&scores, "ratio") >= 0.93, "{scores:?}");
}

#[test]
fn auto_leaves_a_deep_queue_empty() {
    let scores = scores("queue 10 BDP, 0 %", "auto");
    assert!(figure(&scores, "ratio") >= 0.97, "{scores:?}");
    assert!(figure(&scores, "queue/BDP") <= 0.1, "{scores:?}");
}

#[test]
fn auto_lets_a_cubic_neighbour_have_its_share() {
    let scores = scores("CUBIC 10 Mbit/s, 100 ms, 0.5 BDP, 0 %", "auto");
    assert!(figure(&scores, "CUBIC kept") >= 0.85, "{scores:?}");
    assert!(figure(&scores, "sum") >= 0.95, "{scores:?}");
}

#[test]
fn auto_causes_little_loss_at_a_policer() {
    let scores = scores("policer 10 Mbit/s, 64 kB", "auto");
    assert!(figure(&scores, "ratio") >= 0.85, "{scores:?}");
    assert!(figure(&scores, "loss") <= 0.1, "{scores:?}");
}

#[test]
fn auto_fills_a_long_lossy_path_within_some_round_trips() {
    let scores = scores("20 MB, 500 ms, 10 %", "auto");
    assert!(figure(&scores, "extra RTTs") <= 10.0, "{scores:?}");
}

#[test]
fn auto_takes_back_a_jump_where_a_tenth_of_the_path_is_left() {
    let scores = scores("20 MB, 500 ms, 0 %, resumed, a tenth left", "auto");
    assert!(figure(&scores, "extra RTTs") <= 6.5, "{scores:?}");
}

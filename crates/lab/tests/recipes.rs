//! The embedded recipes unfold as they should, and a bad one names the place.

use std::collections::BTreeSet;

use ctcp_lab::{Recipe, RecipeError, Scale, recipes};

#[test]
fn every_embedded_recipe_unfolds_at_both_scales() {
    for recipe in recipes() {
        for scale in [Scale::Quick, Scale::Full] {
            let points = recipe.points(scale, 1).expect("an embedded recipe unfolds");
            assert!(!points.is_empty(), "{}", recipe.id);
            for point in &points {
                assert_eq!(point.experiment, recipe.id);
                assert!(recipe.series_by_name(&point.series).is_some());
                assert!(!point.flows.is_empty() && !point.paths.is_empty());
                assert_eq!(point.at.len(), recipe.sweeps.len());
            }
        }
    }
}

#[test]
fn ids_are_unique_and_found_again() {
    let mut ids = BTreeSet::new();
    for recipe in recipes() {
        for id in [&recipe.id].into_iter().chain(&recipe.covers) {
            assert!(ids.insert(id), "{id} twice");
            assert_eq!(Recipe::by_id(id).unwrap().id, recipe.id);
        }
    }
    let Err(RecipeError::Unknown { known, .. }) = Recipe::by_id("cc14-fig99") else {
        panic!("there is no such figure");
    };
    assert!(known.iter().any(|id| id == "cc14-fig2a"));
}

#[test]
fn every_figure_and_table_of_the_papers_has_a_recipe() {
    for (paper, parts) in [
        ("cc14", "fig2a fig2b fig3 fig4a fig4b fig5 fig6 fig6a fig6b"),
        ("cc14", "fig7 fig8 fig9 fig10 model"),
        ("mp12", "table4 fig3 fig4 table5 fig5 fig6 proxy"),
        ("fec", "fig1a fig1b fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9"),
        ("sat", "fig2a fig2b fig2c fig2d fig3a fig3b fig4a fig4b"),
        (
            "model",
            "fig2 fig5 fig6 fig7 fig10a fig10b fig11 fig12 table1",
        ),
    ] {
        for part in parts.split(' ') {
            let id = format!("{paper}-{part}");
            assert!(Recipe::by_id(&id).is_ok(), "none covers {id}");
        }
    }
}

#[test]
fn no_two_points_have_one_seed_and_series_share_their_losses() {
    let mut seeds = BTreeSet::new();
    for recipe in recipes() {
        let points = recipe.points(Scale::Full, 7).unwrap();
        for point in &points {
            assert!(
                seeds.insert(point.seed),
                "{} {} at {:?} shares its seed",
                recipe.id,
                point.series,
                point.at
            );
        }
        for pair in points.windows(2) {
            let is_same_place =
                pair[0].at == pair[1].at && pair[0].repetition == pair[1].repetition;
            assert_eq!(is_same_place, pair[0].loss_seed == pair[1].loss_seed);
        }
    }
}

#[test]
fn points_are_the_same_every_time_and_follow_the_seed() {
    let recipe = Recipe::by_id("cc14-fig2a").unwrap();
    let points = recipe.points(Scale::Quick, 1).unwrap();
    assert_eq!(points, recipe.points(Scale::Quick, 1).unwrap());
    let other = recipe.points(Scale::Quick, 2).unwrap();
    assert!(
        points
            .iter()
            .zip(&other)
            .all(|(a, b)| a.seed != b.seed && a.at == b.at)
    );
}

#[test]
fn a_point_survives_its_json() {
    for recipe in recipes() {
        for point in recipe.points(Scale::Full, 3).unwrap() {
            let json = serde_json::to_string(&point).unwrap();
            assert_eq!(
                serde_json::from_str::<ctcp_lab::Point>(&json).unwrap(),
                point
            );
        }
    }
}

/// A small recipe with one thing replaced.
fn broken(wanted: &str, replacement: &str) -> String {
    let text = r#"id = "small"
title = "t"
paper = "p"
shows = "s"
setup = "u"
repetitions = 1

[[path]]
rate_mbit = 10
rtt_ms = 20
queue_bdp = 1
loss_position = "before"
loss = { gilbert_elliott = { share = 0.05, burst_packets = 8 } }

[workload.bulk]
warmup_s = 1
duration_s = { quick = 5, full = 10 }

[[sweep]]
axis = "loss"
label = "loss"
values = [0, 0.01]

[[series]]
name = "A"
flows = [{ system = "tcp/reno" }]

[[claim]]
id = "C1"
text = "t"
[[claim.check]]
value = { metric = "goodput_mbit", series = "A" }
min = 1
"#;
    Recipe::parse("small", text).expect("the text itself is a recipe");
    assert!(text.contains(wanted), "{wanted}");
    let broken = text.replacen(wanted, replacement, 1);
    let error = Recipe::parse("small", &broken).expect_err(replacement);
    error.to_string()
}

#[test]
fn a_bad_recipe_names_line_key_and_what_is_allowed() {
    let table = [
        (
            "share = 0.05",
            "share = 1.5",
            &[
                "recipe small, line 13",
                "key `share`",
                "1.5 is impossible",
                "below 1",
            ][..],
        ),
        (
            "rate_mbit = 10",
            "rate_mbit = 0",
            &[
                "line 9",
                "key `rate_mbit`",
                "0 is impossible",
                "above 0 Mbit/s",
            ],
        ),
        (
            "duration_s = { quick = 5, full = 10 }",
            "duration_s = { quick = 5, full = -10 }",
            &["line 17", "key `full`", "-10 is impossible", "above 0 s"],
        ),
        (
            "rtt_ms = 20",
            "rtt_s = 20",
            &["line 10", "key `rtt_s`", "unknown field", "rtt_ms"],
        ),
        (
            "tcp/reno",
            "tcp/rino",
            &["line 26", "key `system`", "`tcp/rino`", "reno, cubic"],
        ),
        (
            "tcp/reno",
            "quic/bbr",
            &["line 26", "no system", "tcp/NAME"],
        ),
        (
            "[0, 0.01]",
            "[0, 1.01]",
            &["line 20", "key `axis`", "1.01 is impossible"],
        ),
        (
            "series = \"A\"",
            "series = \"B\"",
            &["line 32", "no series `B`", "there are: A"],
        ),
        ("min = 1\n", "\n", &["demands nothing"]),
        (
            "[workload.bulk]",
            "[workload.blik]",
            &["line 15", "unknown variant `blik`", "bulk"],
        ),
        (
            "axis = \"loss\"",
            "axis = \"colour\"",
            &["line 20", "`colour` sets nothing", "queue_bdp"],
        ),
        (
            "loss_position = \"before\"",
            "",
            &["line 8", "loss_position"],
        ),
        (
            "goodput_mbit",
            "godput",
            &["line 32", "key `metric`", "unknown variant `godput`"],
        ),
    ];
    for (wanted, replacement, parts) in table {
        let error = broken(wanted, replacement);
        for part in parts {
            assert!(error.contains(part), "{replacement:?} gives: {error}");
        }
    }
}

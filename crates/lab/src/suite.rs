//! The suite of the controllers as an experiment: each of its situations is a
//! place, each controller a series, and a run gives scores in place of a flow's
//! figures. See `ctcp-control-suite`.

use ctcp_control_suite::{Aim, Contestant, Extent, Row, measure, rows};

use crate::point::{Flow, Loss, Path, Point, Position, Process, System};
use crate::recipe::{Case, Scaled, Settings, Sweep};
use crate::record::{FlowOutcome, Score};
use crate::venue::Outcome;

/// The axis of the situations.
pub(crate) const AXIS: &str = "row";

/// The situations as an axis: each has its number in the full grid.
pub(crate) fn sweep() -> Sweep {
    let all = rows(Extent::Full);
    let cases = |extent| -> Vec<Case> {
        let here = rows(extent).into_iter();
        here.filter_map(|row| {
            let place = all.iter().position(|other| other.name == row.name)?;
            Some(Case {
                at: place as f64,
                label: row.name,
                set: Settings::default(),
            })
        })
        .collect()
    };
    Sweep {
        axis: AXIS.to_owned(),
        label: "situation".to_owned(),
        unit: String::new(),
        sets: Some(vec![]),
        values: Scaled {
            quick: cases(Extent::Quick),
            full: cases(Extent::Full),
        },
    }
}

/// The situation at a place of the axis.
pub(crate) fn row_at(at: f64) -> Option<Row> {
    rows(Extent::Full).into_iter().nth(at as usize)
}

/// The path of a situation, as a point tells it: what else happens on it is in its
/// name alone.
pub(crate) fn path(row: &Row, like: &Path) -> Path {
    let loss = Loss {
        position: Position::Before,
        process: match row.loss > 0.0 {
            true => Process::Bernoulli { share: row.loss },
            false => Process::None,
        },
    };
    Path {
        rate_mbit: row.rate.as_mbit(),
        rtt_ms: row.rtt.as_secs_f64() * 1e3,
        loss_down: loss.clone(),
        loss_up: loss,
        ..like.clone()
    }
}

/// Whether the suite runs this point.
pub(crate) fn is_one(point: &Point) -> bool {
    let is_suite = |flow: &Flow| matches!(flow.system, System::Suite { .. });
    point.flows.iter().all(is_suite)
}

/// That there is such a situation and such a contestant.
pub(crate) fn check(point: &Point) -> Result<(), String> {
    point
        .flows
        .iter()
        .try_for_each(|flow| parts(flow).map(drop))
}

fn parts(flow: &Flow) -> Result<(Contestant, Row, Extent), String> {
    let System::Suite {
        contestant,
        row,
        is_quick,
    } = &flow.system
    else {
        return Err(format!("the flow `{}` is none of the suite's", flow.name));
    };
    let extent = match is_quick {
        true => Extent::Quick,
        false => Extent::Full,
    };
    let found = rows(extent).into_iter().find(|one| one.name == *row);
    Ok((
        Contestant::parse(contestant)
            .ok_or_else(|| format!("the suite knows no controller `{contestant}`"))?,
        found.ok_or_else(|| format!("the suite has no situation `{row}`"))?,
        extent,
    ))
}

/// Runs a point. Its seed is its repetition, counted from 1, as with the suite's
/// own program.
pub(crate) fn run(point: &Point) -> Result<Outcome, String> {
    let seed = u64::from(point.repetition) + 1;
    let flows: Result<Vec<FlowOutcome>, String> = point
        .flows
        .iter()
        .map(|flow| {
            let (contestant, row, extent) = parts(flow)?;
            let scores = measure(&row, &contestant, seed, extent);
            let scores = scores.map_err(|error| error.to_string())?;
            Ok(FlowOutcome {
                name: flow.name.clone(),
                scores: scores.into_iter().map(score).collect(),
                ..FlowOutcome::default()
            })
        })
        .collect();
    Ok(Outcome {
        flows: flows?,
        ..Outcome::default()
    })
}

fn score(score: ctcp_control_suite::Score) -> Score {
    let (at_least, at_most) = match score.aim {
        Aim::AtLeast(aim) => (Some(aim), None),
        Aim::AtMost(aim) => (None, Some(aim)),
        Aim::Shown => (None, None),
    };
    Score {
        figure: score.figure.to_owned(),
        value: score.value,
        at_least,
        at_most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::test_support::point;

    fn suite_point(row: &str) -> Point {
        let mut point = point();
        point.flows[0].system = System::Suite {
            contestant: "auto".into(),
            row: row.into(),
            is_quick: true,
        };
        point
    }

    #[test]
    fn a_point_gives_the_scores_that_the_suite_gives() {
        let point = suite_point("policer 10 Mbit/s, 64 kB");
        assert!(is_one(&point));
        let outcome = run(&point).expect("the suite has it");
        let scores = &outcome.flows[0].scores;
        let (_, row, extent) = parts(&point.flows[0]).expect("the suite has it");
        let auto = Contestant::parse("auto").expect("a controller");
        let own = measure(&row, &auto, 1, extent).expect("it runs");
        assert_eq!(scores.len(), own.len());
        for (one, other) in scores.iter().zip(&own) {
            assert_eq!(one.value, other.value);
            assert_eq!(one.is_reached(), other.is_reached());
        }
    }

    #[test]
    fn a_situation_that_is_not_there_is_refused_by_name() {
        let error = check(&suite_point("on the moon")).expect_err("no such row");
        assert!(error.contains("on the moon"), "{error}");
    }

    #[test]
    fn quick_situations_have_the_numbers_of_the_full_grid() {
        let sweep = sweep();
        for case in &sweep.values.quick {
            let same = sweep.values.full.iter().find(|one| one.at == case.at);
            assert_eq!(same.map(|one| &one.label), Some(&case.label));
            let row = row_at(case.at).expect("a row");
            assert_eq!(row.name, case.label);
        }
        assert!(sweep.values.quick.len() < sweep.values.full.len());
    }
}

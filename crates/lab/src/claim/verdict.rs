//! Whether a claim holds, and by which number.

use std::collections::BTreeMap;

use super::{Check, Claim, Estimate, Monotone, PlaceKey, Results, Take};

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It holds.
    Met,
    /// It does not.
    NotMet,
    /// Nothing was run that could tell, or all runs that could were cut short.
    NotMeasured,
}

impl Outcome {
    /// As it stands in tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::NotMeasured => "not measured",
        }
    }
}

/// The judgement of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Of the claim as a whole.
    pub outcome: Outcome,
    /// One for each check, in the claim's order.
    pub findings: Vec<Finding>,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Of this check.
    pub outcome: Outcome,
    /// The number that decides: the one closest to missing, or furthest beyond.
    pub decisive: Option<(BTreeMap<String, f64>, Estimate)>,
    /// Values looked at.
    pub looked_at: usize,
    /// Values that miss.
    pub missed: usize,
    /// Values that runs cut short leave open.
    pub left_open: usize,
}

/// Judges a claim by the results.
pub fn judge(claim: &Claim, results: &Results<'_>) -> Verdict {
    let findings: Vec<Finding> = claim.checks.iter().map(|c| look(c, results)).collect();
    let has = |outcome| findings.iter().any(|finding| finding.outcome == outcome);
    let outcome = if has(Outcome::NotMet) {
        Outcome::NotMet
    } else if findings.is_empty() || has(Outcome::NotMeasured) {
        Outcome::NotMeasured
    } else {
        Outcome::Met
    };
    Verdict { outcome, findings }
}

/// A value, where it was taken, whether it holds, and by how much.
struct Seen {
    at: BTreeMap<String, f64>,
    estimate: Estimate,
    holds: Option<bool>,
    margin: f64,
}

fn look(check: &Check, results: &Results<'_>) -> Finding {
    let values: Vec<(PlaceKey, Estimate)> = results
        .places()
        .into_iter()
        .filter(|place| check.places.admit(&place.at()))
        .filter_map(|place| Some((place.clone(), results.value(&check.value, &place)?)))
        .collect();
    let seen = match &check.monotone {
        Some(monotone) => steps(monotone, &values),
        None => taken(check, &values)
            .into_iter()
            .map(|(at, estimate)| within(check, at, estimate))
            .collect(),
    };
    finding(check, seen)
}

fn finding(check: &Check, seen: Vec<Seen>) -> Finding {
    let missed = seen.iter().filter(|one| one.holds == Some(false)).count();
    let left_open = seen.iter().filter(|one| one.holds.is_none()).count();
    let outcome = if missed > check.misses_allowed {
        Outcome::NotMet
    } else if seen.is_empty() || left_open > 0 {
        Outcome::NotMeasured
    } else {
        Outcome::Met
    };
    let looked_at = seen.len();
    // What misses comes before what is open, that before what holds.
    let rank = |one: &Seen| match one.holds {
        Some(false) => 0,
        None => 1,
        Some(true) => 2,
    };
    let decisive = seen
        .into_iter()
        .min_by(|a, b| rank(a).cmp(&rank(b)).then(a.margin.total_cmp(&b.margin)))
        .map(|one| (one.at, one.estimate));
    Finding {
        outcome,
        decisive,
        looked_at,
        missed,
        left_open,
    }
}

/// One value against the limits of the check.
fn within(check: &Check, at: BTreeMap<String, f64>, estimate: Estimate) -> Seen {
    let above = check.min.map(|min| estimate.is_at_least(min));
    let below = check.max.map(|max| estimate.is_at_most(max));
    let holds = match (above, below) {
        (Some(Some(false)), _) | (_, Some(Some(false))) => Some(false),
        (Some(None), _) | (_, Some(None)) => None,
        _ => Some(true),
    };
    let over_min = check.min.map_or(f64::INFINITY, |min| estimate.mean - min);
    let under_max = check.max.map_or(f64::INFINITY, |max| max - estimate.mean);
    Seen {
        at,
        estimate,
        holds,
        margin: over_min.min(under_max),
    }
}

/// The values, or what is made of them in groups.
fn taken(check: &Check, values: &[(PlaceKey, Estimate)]) -> Vec<(BTreeMap<String, f64>, Estimate)> {
    if check.take == Take::Each {
        return values.iter().map(|(p, e)| (p.at(), *e)).collect();
    }
    let mut groups: BTreeMap<PlaceKey, Vec<Estimate>> = BTreeMap::new();
    for (place, estimate) in values {
        let mut at = place.at();
        at.retain(|axis, _| check.per.contains(axis));
        groups
            .entry(PlaceKey::new(&at))
            .or_default()
            .push(*estimate);
    }
    let made = groups.into_iter().filter_map(|(place, group)| {
        let made = match check.take {
            Take::Each | Take::Mean => {
                let first = *group.first()?;
                let sum = group[1..].iter().fold(first, |sum, one| sum.plus(*one));
                sum.times(1.0 / group.len() as f64)
            }
            Take::Spread => {
                let least = *group.iter().min_by(|a, b| a.by_mean(b))?;
                let most = *group.iter().max_by(|a, b| a.by_mean(b))?;
                // A single value has no spread to speak of.
                (group.len() > 1).then(|| most.minus(least))?
            }
        };
        Some((place.at(), made))
    });
    made.collect()
}

/// Each step along the axis, as the ratio of its end to its start.
fn steps(monotone: &Monotone, values: &[(PlaceKey, Estimate)]) -> Vec<Seen> {
    let mut lines: BTreeMap<PlaceKey, Vec<(f64, PlaceKey, Estimate)>> = BTreeMap::new();
    for (place, estimate) in values {
        let mut at = place.at();
        if let Some(along) = at.remove(&monotone.along) {
            let line = lines.entry(PlaceKey::new(&at)).or_default();
            line.push((along, place.clone(), *estimate));
        }
    }
    let mut seen = Vec::new();
    for line in lines.values_mut() {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in line.windows(2) {
            let (start, end) = (&pair[0].2, &pair[1].2);
            let slack = start.mean.abs() * monotone.slack;
            let sign = if monotone.rises { 1.0 } else { -1.0 };
            let step = end.minus(*start).times(sign);
            // From nothing there is a difference, no ratio.
            let estimate = end.over(*start).unwrap_or(end.minus(*start));
            seen.push(Seen {
                at: pair[1].1.at(),
                estimate,
                holds: step.is_at_least(-slack),
                margin: step.mean + slack,
            });
        }
    }
    seen
}

//! Numbers and findings in words, the same in HTML and Markdown.

use crate::claim::{Bound, Check, Claim, Estimate, Finding, Outcome, Verdict};
use crate::recipe::{Recipe, trimmed};

/// Three significant digits, more before the point if there are more.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (2.0 - magnitude).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if value.abs() < 1e-6 {
        return "0".to_owned();
    }
    text
}

/// `≥ 12.3 ± 0.4`
pub(super) fn estimate(estimate: &Estimate) -> String {
    let sign = estimate.bound.sign();
    let mean = number(estimate.mean);
    match estimate.half_width {
        Some(half) if estimate.bound == Bound::Exact && estimate.runs > 1 => {
            let decimals = mean.split_once('.').map_or(0, |(_, rest)| rest.len());
            let half = format!("{half:.decimals$}");
            // An interval narrower than the digits shown says nothing.
            if half.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
                return mean;
            }
            format!("{mean} ± {half}")
        }
        _ => format!("{sign}{mean}"),
    }
}

/// What the checks of a claim found, each with the number that decides it.
pub(super) fn findings(recipe: &Recipe, claim: &Claim, verdict: &Verdict) -> Vec<String> {
    if !claim.unchecked.is_empty() {
        return vec![claim.unchecked.clone()];
    }
    // Checks of several series say whose number they give.
    let series = |check: &Check| check.value.series.clone();
    let is_mixed = claim
        .checks
        .iter()
        .any(|check| series(check) != series(&claim.checks[0]));
    let each = claim.checks.iter().zip(&verdict.findings);
    each.map(|(check, found)| {
        let text = finding(recipe, check, found);
        if is_mixed && !check.value.series.is_empty() {
            format!("{}: {text}", check.value.series)
        } else {
            text
        }
    })
    .collect()
}

fn finding(recipe: &Recipe, check: &Check, found: &Finding) -> String {
    let Some((at, value)) = &found.decisive else {
        return "no run".to_owned();
    };
    let mut text = estimate(value);
    let place = recipe.place(at);
    if !place.is_empty() {
        text.push_str(&format!(" at {place}"));
    }
    let asked = match (check.min, check.max, &check.monotone) {
        (Some(min), Some(max), _) => format!("{} to {}", trimmed(min), trimmed(max)),
        (Some(min), None, _) => format!("at least {}", trimmed(min)),
        (None, Some(max), _) => format!("at most {}", trimmed(max)),
        (None, None, Some(monotone)) if monotone.rises => "rising".to_owned(),
        (None, None, _) => "falling".to_owned(),
    };
    if check.monotone.is_some() {
        text.push_str(" times the value before");
    }
    text.push_str(&format!(" (asked: {asked}"));
    if found.looked_at > 1 {
        let held = found.looked_at - found.missed - found.left_open;
        text.push_str(&format!("; holds at {held} of {}", found.looked_at));
    }
    if found.left_open > 0 && found.outcome != Outcome::NotMet {
        text.push_str(&format!(
            "; {} left open by runs cut short",
            found.left_open
        ));
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_matter() {
        let table = [
            (0.0, "0"),
            (0.95712, "0.957"),
            (12.345, "12.3"),
            (1886.4, "1886"),
            (0.00123, "0.00123"),
            (-4.5, "-4.50"),
            (1e-12, "0"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }
}

//! `--only`: which points of an experiment are run.

use std::str::FromStr;

use thiserror::Error;

use crate::point::Point;

/// A series, a place, or both: `cubic`, `cubic/loss=0.01`, `/loss=0.01,rtt_ms=25`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    series: Option<String>,
    at: Vec<(String, f64)>,
}

/// Why a filter is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}`: write SERIES, SERIES/AXIS=VALUE or /AXIS=VALUE[,AXIS=VALUE]")]
pub struct FilterError(String);

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let refuse = || FilterError(text.to_owned());
        let (series, places) = text.split_once('/').unwrap_or((text, ""));
        let at = places
            .split(',')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (axis, value) = part.split_once('=').ok_or_else(refuse)?;
                let value = value.trim().parse().map_err(|_| refuse())?;
                Ok((axis.trim().to_owned(), value))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let series = Some(series.trim().to_owned()).filter(|name| !name.is_empty());
        if series.is_none() && at.is_empty() {
            return Err(refuse());
        }
        Ok(Self { series, at })
    }
}

impl Filter {
    /// Whether a point is meant. A series is meant by its name, whatever the case
    /// of its letters.
    pub fn admits(&self, point: &Point) -> bool {
        let is_series = |name: &String| name.eq_ignore_ascii_case(&point.series);
        self.series.as_ref().is_none_or(is_series)
            && self.at.iter().all(|(axis, value)| {
                let here = point.at.get(axis);
                here.is_some_and(|here| (here - value).abs() <= 1e-9 * value.abs())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::test_support::point;

    #[test]
    fn a_filter_names_series_or_places_or_both() {
        for (text, is_admitted) in [
            ("cubic", true),
            ("CUBIC", true),
            ("reno", false),
            ("cubic/loss=0", true),
            ("/loss=0", true),
            ("/loss=0.01", false),
            ("reno/loss=0", false),
            ("/rtt_ms=25", false),
        ] {
            let filter: Filter = text.parse().expect(text);
            assert_eq!(filter.admits(&point()), is_admitted, "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in ["", "/", "cubic/loss", "/loss=much"] {
            let error = text.parse::<Filter>().expect_err(text);
            assert!(error.to_string().contains("AXIS=VALUE"), "{error}");
        }
    }
}

//! A measured quantity: mean over repetitions, its uncertainty, and whether the
//! truth is only known to lie beyond it.

use std::cmp::Ordering;

/// Which side of the number the truth lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bound {
    /// At the number.
    #[default]
    Exact,
    /// At it or above: a run was cut before its time was known.
    AtLeast,
    /// At it or below.
    AtMost,
    /// Both have been mixed: the number says nothing.
    Unknown,
}

impl Bound {
    /// `≥ `, `≤ `, or nothing.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtLeast => "≥ ",
            Self::AtMost => "≤ ",
            Self::Unknown => "? ",
        }
    }

    /// That of a quantity that falls when this one rises.
    const fn inverse(self) -> Self {
        match self {
            Self::AtLeast => Self::AtMost,
            Self::AtMost => Self::AtLeast,
            same => same,
        }
    }

    /// That of a sum.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Exact, bound) | (bound, Self::Exact) => bound,
            _ => Self::Unknown,
        }
    }
}

/// A quantity as measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean over the runs.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean; none for a single run.
    pub half_width: Option<f64>,
    /// Which side the truth lies on.
    pub bound: Bound,
    /// Runs that it rests on.
    pub runs: usize,
    /// How many of them came from a busy machine.
    pub busy_runs: usize,
}

impl Estimate {
    /// A number without doubt, such as a formula's.
    pub const fn exact(value: f64) -> Self {
        Self {
            mean: value,
            half_width: None,
            bound: Bound::Exact,
            runs: 0,
            busy_runs: 0,
        }
    }

    /// Mean and 95 % interval (Student) of the runs; none without a run.
    pub fn of_runs(runs: &[(f64, Bound, bool)]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let count = runs.len() as f64;
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / count;
        let half_width = (runs.len() > 1).then(|| {
            let squares: f64 = runs.iter().map(|run| (run.0 - mean).powi(2)).sum();
            student_95(runs.len() - 1) * (squares / (count - 1.0) / count).sqrt()
        });
        Some(Self {
            mean,
            half_width,
            bound: runs.iter().fold(Bound::Exact, |b, run| b.and(run.1)),
            runs: runs.len(),
            busy_runs: runs.iter().filter(|run| run.2).count(),
        })
    }

    /// Both together, independent of each other.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            mean: self.mean + other.mean,
            half_width: hypotenuse(self.half_width, other.half_width),
            bound: self.bound.and(other.bound),
            ..self.beside(other)
        }
    }

    /// This less the other one.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.times(-1.0))
    }

    /// A multiple.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half_width: self.half_width.map(|half| half * factor.abs()),
            bound: if factor < 0.0 {
                self.bound.inverse()
            } else {
                self.bound
            },
            ..self
        }
    }

    /// The quotient, its uncertainty to first order; none over nothing.
    #[must_use]
    pub fn over(self, other: Self) -> Option<Self> {
        if other.mean == 0.0 {
            return None;
        }
        let mean = self.mean / other.mean;
        let half_width = hypotenuse(
            self.half_width.map(|half| half / other.mean),
            other.half_width.map(|half| half * mean / other.mean),
        );
        Some(Self {
            mean,
            half_width,
            bound: self.bound.and(other.bound.inverse()),
            ..self.beside(other)
        })
    }

    /// What a combination of both rests on: the weaker of them.
    fn beside(self, other: Self) -> Self {
        Self {
            runs: match (self.runs, other.runs) {
                (0, runs) | (runs, 0) => runs,
                (a, b) => a.min(b),
            },
            busy_runs: self.busy_runs + other.busy_runs,
            ..self
        }
    }

    /// Whether it is at least `limit`; none if the bound leaves that open.
    pub fn is_at_least(&self, limit: f64) -> Option<bool> {
        let is_above = self.mean >= limit;
        match self.bound {
            Bound::Exact => Some(is_above),
            Bound::AtLeast => is_above.then_some(true),
            Bound::AtMost => (!is_above).then_some(false),
            Bound::Unknown => None,
        }
    }

    /// Whether it is at most `limit`; none if the bound leaves that open.
    pub fn is_at_most(&self, limit: f64) -> Option<bool> {
        self.times(-1.0).is_at_least(-limit)
    }

    /// By the mean, for sorting.
    pub fn by_mean(&self, other: &Self) -> Ordering {
        self.mean.total_cmp(&other.mean)
    }
}

/// √(a² + b²) of what is known.
fn hypotenuse(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hypot(b)),
        (Some(half), None) | (None, Some(half)) => Some(half.abs()),
        (None, None) => None,
    }
}

/// Two-sided 95 % quantile of Student's distribution; above 30 degrees of
/// freedom the normal one, less than 2 % lower.
fn student_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees_of_freedom {
        0 => f64::INFINITY,
        n => TABLE.get(n - 1).copied().unwrap_or(2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Estimate {
        let runs: Vec<_> = values.iter().map(|&v| (v, Bound::Exact, false)).collect();
        Estimate::of_runs(&runs).unwrap()
    }

    #[test]
    fn three_runs_have_the_interval_of_the_text_books() {
        let estimate = runs(&[1.0, 2.0, 3.0]);
        assert_eq!(estimate.mean, 2.0);
        // 4.303 · 1 / √3
        assert!((estimate.half_width.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(runs(&[5.0]).half_width, None);
        assert_eq!(Estimate::of_runs(&[]), None);
    }

    #[test]
    fn a_run_cut_short_is_a_bound_and_turns_round_in_a_quotient() {
        let cut = Estimate::of_runs(&[(300.0, Bound::AtLeast, false)]).unwrap();
        let known = runs(&[3.0]);
        let gain = cut.over(known).unwrap();
        assert_eq!((gain.mean, gain.bound), (100.0, Bound::AtLeast));
        assert_eq!(known.over(cut).unwrap().bound, Bound::AtMost);
        assert_eq!(gain.is_at_least(28.0), Some(true));
        assert_eq!(gain.is_at_least(200.0), None, "the bound does not decide");
        assert_eq!(gain.is_at_most(50.0), Some(false));
        assert_eq!(cut.over(cut).unwrap().bound, Bound::Unknown);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(runs(&[1.0]).over(runs(&[0.0])), None);
    }
}

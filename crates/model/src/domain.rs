//! Where a value may lie, and what is said when it does not.

use core::fmt;

use thiserror::Error;

/// Why a model has no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ModelError {
    /// A value lies outside the range on which the equation has a meaning.
    /// Give one inside.
    #[error("{name} = {value} is out of range; allowed: {allowed}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What may be given.
        allowed: Domain,
    },
    /// A value is too small beside another one. Raise it to the least.
    #[error("{name} = {value} is too small here: at least {least}, {why}")]
    TooSmall {
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// The least that would do.
        least: f64,
        /// What sets the least.
        why: &'static str,
    },
    /// There is no model of that name. Pick one of those listed.
    #[error("there is no model `{name}`; there are: {known}")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// Names separated by commas.
        known: String,
    },
    /// The model has no parameter of that name. Pick one of those listed.
    #[error("model {model} has no parameter `{name}`; it has: {known}")]
    UnknownParameter {
        /// The model.
        model: &'static str,
        /// What was asked for.
        name: String,
        /// Names separated by commas.
        known: String,
    },
    /// The equation is not read that way. Pick one of those listed.
    #[error("there is no reading `{name}`; there are: {known}")]
    UnknownReading {
        /// What was asked for.
        name: String,
        /// Names separated by commas.
        known: String,
    },
}

/// The numbers that a parameter may take. Never contains NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Domain {
    /// All numbers between two bounds.
    Interval {
        /// The lower bound.
        low: f64,
        /// Whether the lower bound itself is allowed.
        low_included: bool,
        /// The upper bound.
        high: f64,
        /// Whether the upper bound itself is allowed.
        high_included: bool,
        /// Whether only whole numbers are allowed.
        is_whole: bool,
    },
    /// These and no others.
    OneOf(&'static [f64]),
}

impl Domain {
    /// A probability, 0 and 1 included.
    pub const PROBABILITY: Self = Self::closed(0.0, 1.0);
    /// A share of loss that lets something through: 0 ≤ p < 1.
    pub const LOSS: Self = Self::closed(0.0, 1.0).below();
    /// A share of loss that is not zero, where an equation divides by it.
    pub const SOME_LOSS: Self = Self::closed(0.0, 1.0).above();
    /// A length of time in seconds, from a nanosecond to eleven days.
    pub const SECONDS: Self = Self::closed(1e-9, 1e6);
    /// A window in packets, at least one.
    pub const WINDOW: Self = Self::closed(1.0, 1e9);

    /// From `low` to `high`, both included.
    pub const fn closed(low: f64, high: f64) -> Self {
        Self::Interval {
            low,
            low_included: true,
            high,
            high_included: true,
            is_whole: false,
        }
    }

    /// Whole numbers from `low` to `high`, both included.
    pub const fn whole(low: u32, high: u32) -> Self {
        Self::Interval {
            low: low as f64,
            low_included: true,
            high: high as f64,
            high_included: true,
            is_whole: true,
        }
    }

    /// The same without its lower bound.
    pub const fn above(self) -> Self {
        match self {
            Self::Interval {
                low,
                high,
                high_included,
                is_whole,
                ..
            } => Self::Interval {
                low,
                low_included: false,
                high,
                high_included,
                is_whole,
            },
            Self::OneOf(_) => self,
        }
    }

    /// The same without its upper bound.
    pub const fn below(self) -> Self {
        match self {
            Self::Interval {
                low,
                low_included,
                high,
                is_whole,
                ..
            } => Self::Interval {
                low,
                low_included,
                high,
                high_included: false,
                is_whole,
            },
            Self::OneOf(_) => self,
        }
    }

    /// Whether only whole numbers are allowed.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Interval { is_whole: true, .. })
    }

    /// Whether `value` is allowed.
    pub fn contains(&self, value: f64) -> bool {
        match *self {
            Self::Interval {
                low,
                low_included,
                high,
                high_included,
                is_whole,
            } => {
                (value > low || low_included && value == low)
                    && (value < high || high_included && value == high)
                    && (!is_whole || value.fract() == 0.0)
            }
            Self::OneOf(values) => values.contains(&value),
        }
    }

    /// `value` if it is allowed.
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] with `name` if it is not.
    ///
    /// ```
    /// use ctcp_model::Domain;
    ///
    /// assert_eq!(Domain::LOSS.check("p", 0.5), Ok(0.5));
    /// let error = Domain::LOSS.check("p", 1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "p = 1 is out of range; allowed: at least 0, below 1");
    /// ```
    pub fn check(&self, name: &'static str, value: f64) -> Result<f64, ModelError> {
        if self.contains(value) {
            Ok(value)
        } else {
            Err(ModelError::OutOfRange {
                name,
                value,
                allowed: *self,
            })
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Interval {
                low,
                low_included,
                high,
                high_included,
                is_whole,
            } => {
                if is_whole {
                    f.write_str("whole, ")?;
                }
                let from = if low_included { "at least" } else { "above" };
                let to = if high_included { "at most" } else { "below" };
                write!(f, "{from} {}, {to} {}", Short(low), Short(high))
            }
            Self::OneOf(values) => {
                let texts: Vec<String> = values.iter().map(f64::to_string).collect();
                write!(f, "one of {}", texts.join(", "))
            }
        }
    }
}

/// A bound in few digits: 1e9 rather than nine zeros.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && !(1e-4..1e6).contains(&size) {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_bound_are_told_apart() {
        for (domain, inside, outside) in [
            (Domain::PROBABILITY, [0.0, 1.0], [-1e-9, 1.0 + 1e-9]),
            (Domain::LOSS, [0.0, 1.0 - 1e-9], [-1e-9, 1.0]),
            (Domain::SOME_LOSS, [1e-9, 1.0], [0.0, 1.1]),
            (Domain::whole(1, 3), [1.0, 3.0], [2.5, 4.0]),
            (Domain::OneOf(&[0.5, 2.0]), [0.5, 2.0], [1.0, 2.1]),
        ] {
            assert!(inside.iter().all(|v| domain.contains(*v)), "{domain}");
            assert!(!outside.iter().any(|v| domain.contains(*v)), "{domain}");
        }
    }

    #[test]
    fn bounds_are_said_in_few_digits() {
        let said = Domain::SECONDS.to_string();
        assert_eq!(said, "at least 1e-9, at most 1e6");
        let said = Domain::whole(1, 255).to_string();
        assert_eq!(said, "whole, at least 1, at most 255");
    }

    #[test]
    fn what_is_no_number_is_never_allowed() {
        for domain in [
            Domain::PROBABILITY,
            Domain::whole(0, 9),
            Domain::OneOf(&[1.0]),
        ] {
            assert!(!domain.contains(f64::NAN));
            assert!(!domain.contains(f64::INFINITY));
        }
    }
}

//! The share of packets a path loses.

use core::fmt;
use core::str::FromStr;

/// A share of packets lost, in `[0, 1]`; never NaN.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct LossRate(f64);

impl LossRate {
    /// Nothing is lost.
    pub const ZERO: Self = Self(0.0);
    /// Everything is lost.
    pub const ONE: Self = Self(1.0);

    /// `share` held within `[0, 1]`; NaN counts as 0.
    pub fn clamped(share: f64) -> Self {
        Self(if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        })
    }

    /// `share` if it lies within `[0, 1]`.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share, in `[0, 1]`.
    pub const fn share(self) -> f64 {
        self.0
    }

    /// The share that arrives, `1 − p`.
    pub fn arriving(self) -> f64 {
        1.0 - self.0
    }
}

impl fmt::Display for LossRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} %", self.0 * 100.0)
    }
}

impl FromStr for LossRate {
    type Err = String;

    /// Reads a share (`0.05`) or a percentage (`5%`).
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (digits, scale) = match trimmed.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 0.01),
            None => (trimmed, 1.0),
        };
        digits
            .parse::<f64>()
            .ok()
            .and_then(|number| Self::new(number * scale))
            .ok_or_else(|| {
                format!("`{text}` is not a share of packets: write 0 to 1, or 0% to 100%")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentages_are_read() {
        assert_eq!("5%".parse(), Ok(LossRate::clamped(0.05)));
        assert_eq!("0.05".parse(), Ok(LossRate::clamped(0.05)));
        assert_eq!("1".parse(), Ok(LossRate::ONE));
        for text in ["5", "101%", "-1%", "NaN", "five"] {
            assert!(text.parse::<LossRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_stays_within_bounds() {
        assert_eq!(LossRate::clamped(f64::NAN), LossRate::ZERO);
        assert_eq!(LossRate::clamped(2.0), LossRate::ONE);
        assert_eq!(LossRate::new(1.5), None);
    }
}

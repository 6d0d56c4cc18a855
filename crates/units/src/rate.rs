//! Bits per second.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);

    /// `bits` per second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// `n` kbit/s.
    pub const fn kbit(n: u64) -> Self {
        Self(n * 1_000)
    }

    /// `n` Mbit/s.
    pub const fn mbit(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// The rate that moves `bytes` within `span`; zero for an empty span.
    pub fn from_bytes_in(bytes: u64, span: Duration) -> Self {
        if span.is_zero() {
            return Self::ZERO;
        }
        let bits_per_second = u128::from(bytes) * 8_000_000_000 / span.as_nanos();
        Self(u64::try_from(bits_per_second).unwrap_or(u64::MAX))
    }

    /// Bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }

    /// Mbit/s, for display and statistics.
    pub fn as_mbit(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whether nothing moves.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Time on the wire of `bytes`, rounded up to whole nanoseconds.
    ///
    /// A rate of zero never finishes: [`Duration::MAX`].
    pub fn time_for_bytes(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Whole bytes that fit into `span` at this rate.
    pub fn bytes_in(self, span: Duration) -> u64 {
        let bytes = u128::from(self.0) * span.as_nanos() / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", bits / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mbit/s", bits / 1e6),
            _ => write!(f, "{:.2} Gbit/s", bits / 1e9),
        }
    }
}

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseRateError(String);

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a rate: write a number and a unit, such as 25mbit, 800kbit, 1.5gbit or 64000bit",
            self.0
        )
    }
}

impl core::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    /// Reads `25mbit`, `25Mbit/s`, `800kbit`, `1.5gbit`, `64000bit`.
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let refuse = || ParseRateError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let without_per_second = lower.strip_suffix("/s").unwrap_or(&lower);
        let digits_len = without_per_second
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(refuse)?;
        let (digits, unit) = without_per_second.split_at(digits_len);
        let scale = match unit.trim() {
            "bit" | "bps" => 1.0,
            "kbit" | "kbps" | "k" => 1e3,
            "mbit" | "mbps" | "m" => 1e6,
            "gbit" | "gbps" | "g" => 1e9,
            _ => return Err(refuse()),
        };
        let number: f64 = digits.parse().map_err(|_| refuse())?;
        let bits = number * scale;
        if bits > 1e15 {
            return Err(refuse());
        }
        Ok(Self(bits.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_takes_480_microseconds_at_25_mbit() {
        assert_eq!(
            Rate::mbit(25).time_for_bytes(1500),
            Duration::from_micros(480)
        );
        assert_eq!(Rate::mbit(25).bytes_in(Duration::from_micros(480)), 1500);
        assert_eq!(
            Rate::from_bytes_in(1500, Duration::from_micros(480)),
            Rate::mbit(25)
        );
    }

    #[test]
    fn nothing_ever_leaves_at_rate_zero() {
        assert_eq!(Rate::ZERO.time_for_bytes(1), Duration::MAX);
        assert_eq!(Rate::ZERO.bytes_in(Duration::from_secs(9)), 0);
    }

    #[test]
    fn rates_are_read_with_their_units() {
        for (text, rate) in [
            ("25mbit", Rate::mbit(25)),
            ("25Mbit/s", Rate::mbit(25)),
            ("1.5 gbit", Rate::mbit(1500)),
            ("800kbit", Rate::kbit(800)),
            ("64000bit", Rate::kbit(64)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for text in ["", "25", "fast", "-3mbit", "1..2mbit", "1e3mbit", "mbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}

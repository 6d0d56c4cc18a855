//! What one client may take of a server: `rate=20mbit streams=100`, behind its
//! name in the allow-list, or as the server's default for all.

use std::fmt;
use std::str::FromStr;

use ctcp_units::Rate;
use thiserror::Error;

/// The smallest rate that makes sense: some five small packets a second.
pub const RATE_MIN: Rate = Rate::kbit(8);

/// Limits of one client, all its connections together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes relayed each way, at most; none: no limit. At least [`RATE_MIN`].
    pub rate: Option<Rate>,
    /// Streams (connections to targets) at once, at most; none: no limit.
    pub streams: Option<u32>,
}

/// Why text is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// No option of this name.
    #[error("`{option}` is no option of a client: there are rate=20mbit and streams=100")]
    Unknown {
        /// The text given.
        option: String,
    },
    /// Not a rate, or one at which nothing moves.
    #[error("`{rate}` is no rate for a client: write 8kbit or more, such as 20mbit")]
    Rate {
        /// What stands behind `rate=`.
        rate: String,
    },
    /// Not a number.
    #[error("`{streams}` is no number of streams: write 0 to 4294967295")]
    Streams {
        /// What stands behind `streams=`.
        streams: String,
    },
}

/// Reads a rate that a client can be held to.
///
/// # Errors
/// [`LimitError::Rate`].
pub fn parse_rate(text: &str) -> Result<Rate, LimitError> {
    match text.parse() {
        Ok(rate) if rate >= RATE_MIN => Ok(rate),
        _ => Err(LimitError::Rate {
            rate: text.to_owned(),
        }),
    }
}

impl Limits {
    /// These, and where they say nothing, those.
    pub fn or(self, others: Self) -> Self {
        Self {
            rate: self.rate.or(others.rate),
            streams: self.streams.or(others.streams),
        }
    }

    /// Takes one `NAME=VALUE`.
    fn set(&mut self, option: &str) -> Result<(), LimitError> {
        match option.split_once('=') {
            Some(("rate", rate)) => self.rate = Some(parse_rate(rate)?),
            Some(("streams", streams)) => {
                let count = streams.parse().map_err(|_| LimitError::Streams {
                    streams: streams.to_owned(),
                })?;
                self.streams = Some(count);
            }
            _ => {
                return Err(LimitError::Unknown {
                    option: option.to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl FromStr for Limits {
    type Err = LimitError;

    /// Reads options with white space between them; none is no limit.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let mut limits = Self::default();
        for option in text.split_whitespace() {
            limits.set(option)?;
        }
        Ok(limits)
    }
}

impl fmt::Display for Limits {
    /// As [`Limits::from_str`] reads it; empty without limits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self
            .rate
            .map(|rate| format!("rate={}bit", rate.as_bits_per_second()));
        let streams = self.streams.map(|count| format!("streams={count}"));
        let options: Vec<String> = rate.into_iter().chain(streams).collect();
        f.write_str(&options.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_as_they_print() {
        for (text, printed) in [
            ("", ""),
            ("rate=20mbit", "rate=20000000bit"),
            (" streams=0   rate=8kbit ", "rate=8000bit streams=0"),
            ("rate=1mbit rate=2mbit", "rate=2000000bit"),
        ] {
            let limits: Limits = text.parse().expect(text);
            assert_eq!(limits.to_string(), printed);
            assert_eq!(printed.parse(), Ok(limits));
        }
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        let error = |text: &str| text.parse::<Limits>().expect_err(text).to_string();
        assert!(error("rate=7999bit").contains("`7999bit`"));
        assert!(error("rate=0mbit").contains("20mbit"));
        assert!(error("rate=20").contains("`20`"));
        assert!(error("streams=-1").contains("`-1`"));
        assert!(error("stream=1").contains("streams=100"));
        assert!(error("fast").contains("`fast`"));
    }

    #[test]
    fn what_a_client_does_not_say_the_default_says() {
        let own: Limits = "streams=5".parse().expect("good");
        let default: Limits = "rate=1mbit streams=9".parse().expect("good");
        assert_eq!(own.or(default).to_string(), "rate=1000000bit streams=5");
    }
}

//! Quantities of a recipe, refused by name where they are impossible.
//!
//! Each is checked while it is read, so that the error knows line and key.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::Scale;

/// Defines a checked number: name, documentation, what is allowed, the test.
macro_rules! checked {
    ($(#[$doc:meta])* $name:ident, $allowed:literal, |$value:ident| $test:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// The checked number.
            ///
            /// # Errors
            /// What is allowed, and what was found.
            pub fn new($value: f64) -> Result<Self, String> {
                if $test {
                    Ok(Self($value))
                } else {
                    Err(format!("{} is impossible: {}", $value, $allowed))
                }
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(f64::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    };
}

checked!(
    /// A share of packets lost.
    Share,
    "a share lost is at least 0 and below 1 (5 % is 0.05)",
    |value| (0.0..1.0).contains(&value)
);
checked!(
    /// A rate in Mbit/s.
    Mbit,
    "a rate is above 0 Mbit/s and at most 100000",
    |value| value > 0.0 && value <= 100_000.0
);
checked!(
    /// A delay in milliseconds; zero is one.
    Millis,
    "a delay is at least 0 ms and at most 60000",
    |value| (0.0..=60_000.0).contains(&value)
);
checked!(
    /// A time in seconds; zero is one.
    Seconds,
    "a time is at least 0 s and at most 36000",
    |value| (0.0..=36_000.0).contains(&value)
);
checked!(
    /// A length of time in seconds that is not nothing.
    Span,
    "a duration is above 0 s and at most 36000",
    |value| value > 0.0 && value <= 36_000.0
);
checked!(
    /// A length of a queue in bandwidth-delay products.
    Bdp,
    "a queue has above 0 and at most 1000 bandwidth-delay products",
    |value| value > 0.0 && value <= 1000.0
);
checked!(
    /// A mean length of a burst of losses in packets.
    Burst,
    "a burst has at least 1 packet",
    |value| (1.0..=1e6).contains(&value)
);
checked!(
    /// How many bytes an object has.
    Bytes,
    "an object has at least 1 byte and at most 1e12, a whole number",
    |value| (1.0..=1e12).contains(&value) && value.fract() == 0.0
);
checked!(
    /// How often something is done.
    Count,
    "a count is a whole number from 1 to 10000",
    |value| (1.0..=10_000.0).contains(&value) && value.fract() == 0.0
);
checked!(
    /// A number of retransmissions.
    Retries,
    "retries are a whole number from 0 to 20",
    |value| (0.0..=20.0).contains(&value) && value.fract() == 0.0
);

/// A value that may differ between a quick and a full run: `v`, or
/// `{ quick = v, full = w }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled<T> {
    /// For a quick look.
    pub quick: T,
    /// For the results that are kept.
    pub full: T,
}

impl<T> Scaled<T> {
    /// The value at this scale.
    pub const fn at(&self, scale: Scale) -> &T {
        match scale {
            Scale::Quick => &self.quick,
            Scale::Full => &self.full,
        }
    }
}

impl<T: Clone> Scaled<T> {
    /// The same value at both scales.
    pub fn same(value: T) -> Self {
        Self {
            quick: value.clone(),
            full: value,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Both<T> {
    quick: T,
    full: T,
}

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for Scaled<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrBoth<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for OneOrBoth<T> {
            type Value = Scaled<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value, or { quick = …, full = … }")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
                T::deserialize(value.into_deserializer()).map(Scaled::same)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
                T::deserialize(value.into_deserializer()).map(Scaled::same)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
                T::deserialize(SeqAccessDeserializer::new(items)).map(Scaled::same)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Both::deserialize(MapAccessDeserializer::new(map)).map(|both| Scaled {
                    quick: both.quick,
                    full: both.full,
                })
            }
        }

        deserializer.deserialize_any(OneOrBoth(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_what_is_possible() {
        assert!(Share::new(0.0).is_ok() && Share::new(0.999).is_ok());
        assert!(Share::new(1.0).is_err() && Share::new(-0.1).is_err());
        assert!(Share::new(f64::NAN).is_err());
        assert!(Mbit::new(0.0).is_err() && Mbit::new(f64::INFINITY).is_err());
        assert!(Seconds::new(-1.0).is_err() && Seconds::new(0.0).is_ok());
        assert!(Span::new(0.0).is_err() && Count::new(1.5).is_err());
        assert_eq!(
            Mbit::new(0.0).unwrap_err(),
            "0 is impossible: a rate is above 0 Mbit/s and at most 100000"
        );
    }
}

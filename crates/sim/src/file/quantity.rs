//! Quantities as they stand in a file: a number and its unit, in one string.

use core::fmt;
use std::marker::PhantomData;

use ctcp_link::{Outage, QueueSize};
use ctcp_units::{Duration, LossRate, Rate};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Ten years: more is a slip of the keyboard, and would overflow sums.
const NANOS_MAX: f64 = 3.2e17;

/// Something read from a text.
pub(crate) trait Quantity: Sized {
    /// What it should look like, for messages.
    const EXPECTED: &'static str;

    fn read(text: &str) -> Option<Self>;

    /// A bare number, where that is clear.
    fn from_number(_number: f64) -> Option<Self> {
        None
    }
}

struct QuantityVisitor<Q>(PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for QuantityVisitor<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Q, E> {
        Q::read(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Q, E> {
        Q::from_number(number).ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Q, E> {
        Q::from_number(number as f64)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:literal, $read:expr, $number:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name(pub(crate) $inner);

        impl Quantity for $name {
            const EXPECTED: &'static str = $expected;

            fn read(text: &str) -> Option<Self> {
                let read: fn(&str) -> Option<$inner> = $read;
                read(text.trim()).map(Self)
            }

            fn from_number(number: f64) -> Option<Self> {
                let read: fn(f64) -> Option<$inner> = $number;
                read(number).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(QuantityVisitor(PhantomData))
            }
        }
    };
}

quantity! {
    /// A time; 0 may go without a unit.
    Span(Duration),
    "a time with its unit, such as \"25 ms\", \"1.5 s\" or \"2 min\"",
    duration,
    |number| (number == 0.0).then_some(Duration::ZERO)
}

quantity! {
    /// A time above 0.
    PositiveSpan(Duration),
    "a time above 0 with its unit, such as \"25 ms\", \"1.5 s\" or \"2 min\"",
    |text| duration(text).filter(|span| !span.is_zero()),
    |_| None
}

quantity! {
    /// A rate; 0 passes nothing.
    Speed(Rate),
    "a rate with its unit, such as \"25 mbit\", \"800 kbit\" or \"1.5 gbit\"",
    |text| text.parse().ok(),
    |_| None
}

quantity! {
    /// A share between 0 and 1.
    Share(LossRate),
    "a share of packets, such as \"5 %\" or 0.05, between 0 and 100 %",
    |text| text.parse().ok(),
    LossRate::new
}

quantity! {
    /// Bytes, at least 1.
    Bytes(u64),
    "a size above 0 with its unit, such as \"20 MB\", \"64 kB\" or \"1500 B\"",
    |text| bytes(text).filter(|&count| count > 0),
    |number| ((1.0..=1e15).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// A length of a queue, at least one packet or byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Queue {
    /// Bandwidth-delay products.
    Bdp(f64),
    /// Packets or bytes.
    Size(QueueSize),
}

impl Quantity for Queue {
    const EXPECTED: &'static str =
        "a queue above 0, such as \"1 bdp\", \"100 packets\" or \"64 kB\"";

    fn read(text: &str) -> Option<Self> {
        let (number, unit) = split_unit(text.trim())?;
        match unit {
            _ if number <= 0.0 => None,
            "bdp" => Some(Self::Bdp(number)),
            "packets" | "packet" if number.fract() == 0.0 => {
                Some(Self::Size(QueueSize::Packets(number as u64)))
            }
            _ => bytes(text).map(|count| Self::Size(QueueSize::Bytes(count))),
        }
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(QuantityVisitor(PhantomData))
    }
}

/// An outage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OutageText(pub(crate) Outage);

impl Quantity for OutageText {
    const EXPECTED: &'static str = "an outage LENGTH@START, such as \"3s@10s\"";

    fn read(text: &str) -> Option<Self> {
        let (length, start) = text.split_once('@')?;
        let (length, start) = (duration(length)?, duration(start)?);
        (!length.is_zero()).then_some(Self(Outage {
            start,
            end: start + length,
        }))
    }
}

impl<'de> Deserialize<'de> for OutageText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(QuantityVisitor(PhantomData))
    }
}

fn split_unit(text: &str) -> Option<(f64, &str)> {
    let digits_len = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = text.split_at(digits_len);
    Some((digits.parse().ok()?, unit.trim()))
}

pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) = split_unit(text)?;
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let nanos = number * scale;
    (nanos <= NANOS_MAX).then(|| Duration::from_nanos(nanos.round() as u64))
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text.trim())?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "b" | "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let count = number * scale;
    (count <= 1e15).then_some(count.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{micros, millis, seconds};

    #[test]
    fn quantities_have_units_with_or_without_a_space() {
        assert_eq!(Span::read("25 ms"), Some(Span(millis(25))));
        assert_eq!(Span::read("12.5ms"), Some(Span(micros(12_500))));
        assert_eq!(Speed::read("25 mbit"), Some(Speed(Rate::mbit(25))));
        assert_eq!(Share::read("5 %"), Some(Share(LossRate::clamped(0.05))));
        assert_eq!(Bytes::read("20 MB"), Some(Bytes(20_000_000)));
        assert_eq!(Queue::read("0.25 bdp"), Some(Queue::Bdp(0.25)));
        assert_eq!(
            OutageText::read("3s@10s"),
            Some(OutageText(Outage {
                start: seconds(10),
                end: seconds(13)
            }))
        );
    }

    #[test]
    fn what_is_impossible_is_refused() {
        assert_eq!(Span::read("25"), None);
        assert_eq!(Span::read("-1 s"), None);
        assert_eq!(PositiveSpan::read("0 s"), None);
        assert_eq!(Speed::read("25"), None);
        assert_eq!(Share::read("101 %"), None);
        assert_eq!(Share::from_number(1.5), None);
        assert_eq!(Bytes::read("0 MB"), None);
        assert_eq!(Queue::read("0 packets"), None);
        assert_eq!(Queue::read("1.5 packets"), None);
        assert_eq!(OutageText::read("0s@10s"), None);
    }
}

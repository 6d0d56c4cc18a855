//! Values as users write them on the command line.

use std::time::Duration;

/// Reads `25ms`, `1.5s`, `250us`, `2min`, `100ns`; a bare `0` is zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let refuse =
        || format!("`{text}` is not a time: write a number and a unit, such as 25ms, 1.5s or 2min");
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split_unit(trimmed).ok_or_else(refuse)?;
    let nanos_per_unit = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(refuse()),
    };
    let nanos = number * nanos_per_unit;
    // Ten years: more is a slip of the keyboard, and would overflow sums.
    if nanos > 3.2e17 {
        return Err(refuse());
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads `20MB`, `2GB`, `64kB`, `1MiB`, `1500B`, or bare bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let refuse = || {
        format!("`{text}` is not a size: write a number and a unit, such as 20MB, 64kB or 1500B")
    };
    let trimmed = text.trim();
    if let Ok(count) = trimmed.parse() {
        return Ok(count);
    }
    let (number, unit) = split_unit(trimmed).ok_or_else(refuse)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(refuse()),
    };
    let count = number * scale;
    if count > 1e15 {
        return Err(refuse());
    }
    Ok(count.round() as u64)
}

/// Splits a non-negative number from the unit behind it.
pub(crate) fn split_unit(text: &str) -> Option<(f64, &str)> {
    let digits_len = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = text.split_at(digits_len);
    let number = digits.parse().ok()?;
    Some((number, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, nanos) in [
            ("25ms", 25_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("2min", 120_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "25", "ms", "-1s", "1e3s", "99999h h", "9999999h"] {
            let error = duration(text).expect_err(text);
            assert!(error.contains("25ms"), "{error}");
        }
    }

    #[test]
    fn sizes_may_have_a_unit() {
        for (text, count) in [
            ("20MB", 20_000_000),
            ("1500", 1500),
            ("1500B", 1500),
            ("1.5 kB", 1500),
            ("2MiB", 2 << 20),
        ] {
            assert_eq!(bytes(text), Ok(count), "{text}");
        }
        for text in ["", "MB", "-5MB", "20 parsecs"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}

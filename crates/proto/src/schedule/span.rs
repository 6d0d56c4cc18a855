//! How far ahead of the oldest block new symbols may run.
//!
//! Architecture 6 and transport.md §2 (`numblks ≥ 4·W/N + 1`): half of all blocks
//! need a second round trip. On several paths the window W is the *sum* of what
//! they carry during the round trip of the *slowest*, as a block waits for its
//! last packet; and for as long as it takes to notice that one is gone.

use ctcp_units::Duration;

use super::PathView;

/// Round trips of the slowest path that a block may take.
const ROUNDS: f64 = 4.0;
/// The least time that a block may take: a path that dies is noticed after 250 ms
/// or three round trips, and what it carried goes out again.
const SECONDS_MIN: f64 = 0.75;
/// Symbols that are always allowed: windows double in slow start.
const SYMBOLS_MIN: f64 = 1024.0;

/// Symbols from the oldest incomplete block on that may be under way.
pub fn symbols_ahead<'a>(paths: impl Iterator<Item = &'a PathView>) -> u64 {
    let (mut rate, mut slowest) = (0.0, Duration::ZERO);
    for path in paths.filter(|path| path.is_usable) {
        rate += path.tokens / path.srtt.as_secs_f64().max(1e-6);
        slowest = slowest.max(path.srtt);
    }
    let seconds = (ROUNDS * slowest.as_secs_f64()).max(SECONDS_MIN);
    // At most 2^53 or so: far more than any window.
    (SYMBOLS_MIN + rate * seconds) as u64
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::path;
    use super::*;

    #[test]
    fn the_sum_of_the_rates_counts_for_the_slowest_round_trip() {
        assert_eq!(symbols_ahead([].iter()), 1024);
        let satellite = [path(20, 50.0, 0.0), path(600, 300.0, 0.0)];
        // 2500 and 500 packets a second for 2.4 s.
        assert_eq!(symbols_ahead(satellite.iter()), 1024 + 7200);
        let quick = [path(20, 50.0, 0.0)];
        assert_eq!(symbols_ahead(quick.iter()), 1024 + 1875);
        let mut gone = satellite;
        gone[1].is_usable = false;
        assert_eq!(symbols_ahead(gone.iter()), 1024 + 1875);
    }
}

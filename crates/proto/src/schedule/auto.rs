//! `auto`: a packet goes where it arrives first, and no path rests while it could
//! help.
//!
//! A packet given to path i now arrives after `A_i = wait_i + RTT_i·(½ + p/(1−p))`:
//! the time until the path can take it, the way, and a round trip for each loss.
//! A token of path i is spent unless the packet would arrive earlier if it waited
//! for a better path j:
//!
//! * a *repair*, the k-th of those wanted, would go out on j after the k before
//!   it: path i sends it if `A_i ≤ A_j + k/rate_j` for all j. Repairs of the
//!   oldest blocks so take the path that delivers first; a slow path sends those
//!   of later blocks, or new data.
//! * *new data* with a backlog of n packets before the paths that deliver sooner:
//!   the last of them arrives there after `min A_j + n/Σ rate_j`; path i helps if
//!   it delivers by then. So a slow path takes part in bulk, and neither in short
//!   exchanges nor in the last moments of a transfer.
//!
//! A path that costs counts as later by a hundredth of a second for each unit: so
//! much its user is willing to wait rather than to pay.
//!
//! Helps on paths of different delay; with one path every token is spent.
//! Work: O(paths) a decision.

use super::PathView;

/// Repairs that are looked at for a path that leaves the first ones to others.
pub(crate) const REPAIRS_SEEN: usize = 16;

/// Whether path `index` should send the repair that `before` others come before.
pub fn takes_repair(index: usize, paths: &[PathView], before: usize) -> bool {
    let own = paths[index].arrival_seconds();
    others(index, paths).all(|other| {
        let queue = before as f64 / other.packets_per_second().max(1e-3);
        own <= other.arrival_seconds() + queue
    })
}

/// Whether path `index` should send new data while `backlog` packets of it wait.
pub fn takes_new(index: usize, paths: &[PathView], backlog: f64) -> bool {
    let own = &paths[index];
    let own_delivery = own.arrival_seconds();
    let (mut first, mut rate) = (f64::INFINITY, 0.0);
    for other in others(index, paths) {
        if other.delivery_seconds() < own.delivery_seconds() {
            first = first.min(other.arrival_seconds());
            rate += other.packets_per_second();
        }
    }
    rate <= 0.0 || own_delivery <= first + backlog / rate
}

fn others(index: usize, paths: &[PathView]) -> impl Iterator<Item = &PathView> {
    let usable = move |(at, path): &(usize, &PathView)| *at != index && path.is_usable;
    paths
        .iter()
        .enumerate()
        .filter(usable)
        .map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::path;
    use super::*;
    use ctcp_units::millis;

    #[test]
    fn one_path_spends_every_token() {
        let paths = [path(100, 10.0, 0.2)];
        assert!(takes_repair(0, &paths, 0));
        assert!(takes_new(0, &paths, 0.0));
    }

    #[test]
    fn the_first_repair_takes_the_path_that_delivers_first() {
        let mut paths = [path(20, 20.0, 0.0), path(100, 100.0, 0.0)];
        assert!(takes_repair(0, &paths, 0));
        assert!(!takes_repair(1, &paths, 0));
        // A thousand packets a second: 40 of them take as long as the detour.
        assert!(!takes_repair(1, &paths, 39));
        assert!(takes_repair(1, &paths, 41));
        // Far behind its pacer the fast one is the slower one.
        paths[0].wait = millis(50);
        assert!(takes_repair(1, &paths, 0));
        // Gone, it is not waited for.
        paths[0].wait = millis(0);
        paths[0].is_usable = false;
        assert!(takes_repair(1, &paths, 0));
    }

    #[test]
    fn losses_count_as_delay() {
        // ½ + 1 round trips of 40 ms against half of one of 100 ms.
        let paths = [path(40, 20.0, 0.5), path(100, 20.0, 0.0)];
        assert!(takes_repair(1, &paths, 0));
        assert!(!takes_repair(0, &paths, 0));
    }

    #[test]
    fn a_slow_path_helps_only_where_the_fast_one_would_take_longer() {
        let paths = [path(20, 20.0, 0.0), path(600, 100.0, 0.0)];
        assert!(takes_new(0, &paths, 0.0));
        assert!(!takes_new(1, &paths, 0.0));
        assert!(!takes_new(1, &paths, 280.0));
        assert!(takes_new(1, &paths, 300.0));
        assert!(takes_new(1, &paths, f64::INFINITY));
    }

    #[test]
    fn a_path_that_costs_waits_until_the_others_have_much_to_send() {
        let mut paths = [path(100, 20.0, 0.0), path(20, 20.0, 0.0)];
        assert!(takes_new(1, &paths, 0.0));
        paths[1].cost = 10;
        assert!(!takes_new(1, &paths, 0.0));
        // 200 packets a second; 60 ms later is soon enough.
        assert!(!takes_new(1, &paths, 11.0));
        assert!(takes_new(1, &paths, 13.0));
        assert!(takes_new(0, &paths, 0.0));
    }
}

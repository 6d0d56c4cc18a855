//! What several test files share.

/// The seed of this run: `CTCP_SEED`, or else `default`. Printed, so that a
/// failure shows it.
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("CTCP_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default);
    println!("CTCP_SEED={seed}");
    seed
}

//! What the golden tests share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate of its own and uses its part"
)]

use serde_json::Value;

pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the vectors are JSON")
}

pub fn rows(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

pub fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number: {value}"))
}

pub fn whole(value: &Value) -> u32 {
    number(value) as u32
}

/// Compares as the specification says: 1e−9 relative.
#[track_caller]
pub fn assert_same(ours: f64, golden: &Value, what: &str) {
    assert_close(ours, number(golden), 1e-9, what);
}

/// Compares with a relative tolerance; what is below 1e−300 counts as 0.
#[track_caller]
pub fn assert_close(ours: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (ours - expected).abs();
    let allowed = tolerance * expected.abs() + 1e-300;
    assert!(error <= allowed, "{what}: {ours} is not {expected}");
}

/// The seed of randomized tests: `CTCP_SEED`, else a fixed one. Printed, so that
/// a failure shows it.
pub fn seed() -> u64 {
    let given = std::env::var("CTCP_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("CTCP_SEED={seed}");
    seed
}

/// A uniform generator (splitmix64), good enough for a Monte-Carlo check. The
/// crate imports nothing of ours, not even for tests.
pub struct Uniform(pub u64);

impl Uniform {
    /// In [0, 1).
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

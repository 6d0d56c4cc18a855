//! The vectors of `tests/golden/gf256.json`.

use ctcp_gf256::{Kernel, div, exp, inv, log, mul};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/gf256.json")).expect("the vectors are JSON")
}

fn bytes(value: &Value) -> Vec<u8> {
    value
        .as_array()
        .expect("an array of bytes")
        .iter()
        .map(|byte| u8::try_from(byte.as_u64().expect("a number")).expect("a byte"))
        .collect()
}

fn rows(value: &Value) -> Vec<Vec<u8>> {
    let rows = value.as_array().expect("an array of rows");
    rows.iter().map(bytes).collect()
}

#[test]
fn products_are_golden() {
    for row in rows(&golden()["mul"]) {
        assert_eq!(mul(row[0], row[1]), row[2], "{row:?}");
    }
}

#[test]
fn inverses_are_golden() {
    for row in rows(&golden()["inv"]) {
        assert_eq!(inv(row[0]), Some(row[1]), "{row:?}");
    }
    let table = bytes(&golden()["inv_table"]);
    for a in 1..=255 {
        assert_eq!(inv(a), Some(table[usize::from(a)]), "{a}");
    }
}

#[test]
fn quotients_are_golden() {
    for row in rows(&golden()["div"]) {
        assert_eq!(div(row[0], row[1]), Some(row[2]), "{row:?}");
    }
}

#[test]
fn powers_and_logarithms_are_golden() {
    let golden = golden();
    for (exponent, &power) in (0..=254).zip(&bytes(&golden["exp_table"])) {
        assert_eq!(exp(exponent), power);
    }
    for (a, &exponent) in (1..=255).zip(&bytes(&golden["log_table_of_1_to_255"])) {
        assert_eq!(log(a), Some(exponent));
    }
}

#[test]
fn multiply_add_is_golden_on_every_kernel() {
    let axpy = &golden()["axpy"];
    let c = u8::try_from(axpy["c"].as_u64().expect("a number")).expect("a byte");
    for kernel in Kernel::available() {
        let mut dst = bytes(&axpy["dst"]);
        kernel.mul_add(&mut dst, c, &bytes(&axpy["src"]));
        assert_eq!(dst, bytes(&axpy["out"]), "{kernel}");
    }
}

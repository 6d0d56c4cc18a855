//! What the kernels look up for each of the 256 factors, built at compile time.

use crate::scalar::mul_by_definition;

/// Products of one factor with the low and the high half of a byte.
///
/// c · x = `low[x & 15]` + `high[x >> 4]`: two look-ups among 16 bytes, which is
/// what byte shuffles of every instruction set do. The halves lie side by side
/// so that one cache line serves both.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct HalfByteProducts {
    pub(crate) low: [u8; 16],
    pub(crate) high: [u8; 16],
}

/// [`HalfByteProducts`] of every factor, 8 KiB.
pub(crate) static HALF_BYTE_PRODUCTS: [HalfByteProducts; 256] = half_byte_products();

const fn half_byte_products() -> [HalfByteProducts; 256] {
    let empty = HalfByteProducts {
        low: [0; 16],
        high: [0; 16],
    };
    let mut tables = [empty; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut half = 0;
        while half < 16 {
            let c = factor as u8;
            tables[factor].low[half] = mul_by_definition(c, half as u8);
            tables[factor].high[half] = mul_by_definition(c, (half as u8) << 4);
            half += 1;
        }
        factor += 1;
    }
    tables
}

/// Multiplication by each factor as an 8 × 8 matrix over GF(2), 2 KiB.
///
/// The layout is that of the instruction `GF2P8AFFINEQB`: byte 7 − i of the
/// matrix is the row that gives bit i of the result, and bit j of a row takes
/// in bit j of the operand. So bit j of row i is bit i of c · x^j.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) static BIT_MATRICES: [u64; 256] = bit_matrices();

const fn bit_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut matrix = 0u64;
        let mut j = 0;
        while j < 8 {
            let column = mul_by_definition(factor as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                let bit = (column >> i) & 1;
                matrix |= (bit as u64) << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        matrices[factor] = matrix;
        factor += 1;
    }
    matrices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mul;

    #[test]
    fn two_half_byte_products_add_up_to_the_product() {
        for c in 0..=255u8 {
            let table = &HALF_BYTE_PRODUCTS[usize::from(c)];
            for x in 0..=255u8 {
                let sum = table.low[usize::from(x & 15)] ^ table.high[usize::from(x >> 4)];
                assert_eq!(sum, mul(c, x), "{c} · {x}");
            }
        }
    }

    #[test]
    fn a_matrix_times_a_byte_is_the_product() {
        for c in 0..=255u8 {
            let rows = BIT_MATRICES[usize::from(c)].to_le_bytes();
            for x in 0..=255u8 {
                let product = (0..8).fold(0, |product, i| {
                    let parity = (rows[7 - i] & x).count_ones() & 1;
                    product | (parity as u8) << i
                });
                assert_eq!(product, mul(c, x), "{c} · {x}");
            }
        }
    }
}

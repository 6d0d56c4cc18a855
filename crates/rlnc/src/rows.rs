//! Coefficients of what a decoder received, eliminated as they arrive.
//!
//! Algorithm: [MP12] Algorithm 5 as corrected in `docs/deviations.md`, carried
//! on to the reduced form (Gauss–Jordan), on coefficients alone.
//!
//! Each row is a relation that holds among symbols and received payloads:
//!
//! ```text
//! Σ_j column[j] · symbol_j  +  Σ_k raw[k] · payload_k  =  0
//! ```
//!
//! A coded packet brings one payload and one row: its coefficients, and 1 at its
//! payload. From then on only rows are combined; payloads stay as they came
//! until symbols are determined, and then each symbol is computed once, in one
//! pass. Rank is thus known without touching a payload.
//!
//! Columns of *known* symbols (received or recovered) are no unknowns. They are
//! not eliminated, they are carried along: the row says how much of each known
//! symbol to add. Invariant, with *unknown* meaning not known:
//!
//! * each row has a pivot, an unknown column in which it holds 1 and all other
//!   rows hold 0;
//! * so a row with no other unknown column tells its pivot's symbol;
//! * there are as many rows as payloads, and the square matrix of their `raw`
//!   parts is invertible. So a recovered symbol always frees one payload.
//!
//! Rows never exceed the symbols that are still missing.

use ctcp_gf256::{Kernel, Term, inv};

use crate::index_set::IndexSet;
use crate::sum::add_into;

/// Where the columns begin among a row's cells. The raw parts stand in front,
/// backwards, so that the cells in use are one slice.
const COLUMN_0: usize = 256;

/// One relation.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pivot: u8,
    cells: [u8; 2 * COLUMN_0],
}

impl Row {
    /// The symbol that the row tells if it is determined.
    pub(crate) const fn pivot(&self) -> u8 {
        self.pivot
    }

    /// The coefficient of symbol `index`.
    pub(crate) const fn column(&self, index: u8) -> u8 {
        self.cells[COLUMN_0 + index as usize]
    }

    /// The coefficient of payload `k`, which is below 255.
    pub(crate) const fn raw(&self, k: usize) -> u8 {
        self.cells[COLUMN_0 - 1 - k]
    }

    const fn raw_mut(&mut self, k: usize) -> &mut u8 {
        &mut self.cells[COLUMN_0 - 1 - k]
    }
}

/// The rows of one generation.
#[derive(Debug)]
pub(crate) struct Rows {
    kernel: Kernel,
    rows: Vec<Row>,
    /// Columns at and past this are zero in all rows.
    width: usize,
}

impl Rows {
    pub(crate) const fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            rows: Vec::new(),
            width: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.width = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn get(&self, row: usize) -> &Row {
        &self.rows[row]
    }

    /// The cells in use when there are `raw_count` payloads.
    fn span(&self, raw_count: usize) -> core::ops::Range<usize> {
        COLUMN_0 - raw_count..COLUMN_0 + self.width
    }

    /// Takes in a coded packet over the first `coefficients.len()` ≤ 255
    /// symbols, whose payload will be number [`Rows::len`]. Tells whether it is
    /// innovative; if not, nothing has changed.
    pub(crate) fn insert(&mut self, coefficients: &[u8], known: &IndexSet) -> bool {
        let width_before = self.width;
        self.width = self.width.max(coefficients.len());
        let raw = self.rows.len();
        let mut new = Row {
            pivot: 0,
            cells: [0; _],
        };
        new.cells[COLUMN_0..][..coefficients.len()].copy_from_slice(coefficients);
        // Pivot columns are zero in all rows but one, so the multiples to
        // subtract can all be read off before the first is subtracted.
        let span = self.span(raw);
        let terms = self.rows.iter().filter_map(|row| {
            let multiple = coefficients.get(usize::from(row.pivot)).copied()?;
            (multiple != 0).then(|| Term::one(multiple, &row.cells[span.clone()]))
        });
        add_into(self.kernel, [&mut new.cells[span.clone()]], terms);

        let unknown = IndexSet::below(coefficients.len().max(width_before)).without(known);
        let Some(pivot) = unknown.iter().find(|&index| new.column(index) != 0) else {
            self.width = width_before;
            return false;
        };
        *new.raw_mut(raw) = 1;
        self.rows.push(new);
        self.make_pivot(raw, pivot);
        true
    }

    /// Makes `pivot`, where row number `row` is not zero, its pivot: 1 there and 0
    /// in all other rows.
    fn make_pivot(&mut self, row: usize, pivot: u8) {
        let span = self.span(self.rows.len());
        let (before, rest) = self.rows.split_at_mut(row);
        let (this, after) = rest.split_first_mut().expect("the row is there");
        let inverse = inv(this.column(pivot)).expect("a pivot is not zero");
        self.kernel.mul(&mut this.cells[span.clone()], inverse);
        this.pivot = pivot;
        for other in before.iter_mut().chain(after) {
            let multiple = other.column(pivot);
            if multiple != 0 {
                let cells = &mut other.cells[span.clone()];
                self.kernel
                    .mul_add(cells, multiple, &this.cells[span.clone()]);
            }
        }
    }

    /// Symbol `index` has become known by other means; `known` holds it already.
    pub(crate) fn reveal(&mut self, index: u8, known: &IndexSet) {
        let Some(row) = self.rows.iter().position(|row| row.pivot == index) else {
            return;
        };
        // The row now says something of another unknown symbol. There is one,
        // or the row would have told this one before.
        let unknown = IndexSet::below(self.width).without(known);
        let pivot = unknown
            .iter()
            .find(|&index| self.rows[row].column(index) != 0)
            .expect("a row without other unknowns was recovered at once");
        self.make_pivot(row, pivot);
    }

    /// Numbers of the rows that tell their pivots' symbols.
    pub(crate) fn determined(&self, known: &IndexSet) -> IndexSet {
        let mut free = IndexSet::below(self.width).without(known);
        for row in &self.rows {
            free.remove(row.pivot);
        }
        let mut determined = IndexSet::default();
        for (number, row) in (0..=254).zip(&self.rows) {
            if free.iter().all(|index| row.column(index) == 0) {
                determined.insert(number);
            }
        }
        determined
    }

    /// Drops row number `row`, whose pivot's symbol is now known, and frees one
    /// payload. Tells which: the last payload takes its number.
    pub(crate) fn retire(&mut self, row: usize) -> usize {
        let count = self.rows.len();
        let span = self.span(count);
        let retired = self.rows.swap_remove(row);
        let raw = (0..count)
            .find(|&raw| retired.raw(raw) != 0)
            .expect("the raw parts of the rows are an invertible matrix");
        let inverse = inv(retired.raw(raw)).expect("it is not zero");
        for other in &mut self.rows {
            // The retired row says what this payload is, in terms of known
            // symbols and other payloads: put that in its place.
            let multiple = ctcp_gf256::mul(other.raw(raw), inverse);
            if multiple != 0 {
                let cells = &mut other.cells[span.clone()];
                self.kernel
                    .mul_add(cells, multiple, &retired.cells[span.clone()]);
            }
            *other.raw_mut(raw) = other.raw(count - 1);
            *other.raw_mut(count - 1) = 0;
        }
        raw
    }
}

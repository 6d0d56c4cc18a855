//! Terms of a sum, and sums over sources of different lengths.

/// Most destinations that one call of [`Kernel::mul_add_terms`] serves.
///
/// Four keep all sums in registers on every instruction set; a fifth would not
/// on those with 16 registers.
///
/// [`Kernel::mul_add_terms`]: crate::Kernel::mul_add_terms
pub const DESTINATIONS_MAX: usize = 4;

/// One source and its coefficient in each of `R` sums.
#[derive(Debug, Clone, Copy)]
pub struct Term<'a, const R: usize = 1> {
    /// `coefficients[r]` multiplies the source in the sum of destination r.
    pub coefficients: [u8; R],
    /// The source: at most as long as the destinations, as if zeros followed.
    pub bytes: &'a [u8],
}

impl<'a> Term<'a, 1> {
    /// The term of a single sum: `coefficient` · `bytes`.
    #[must_use]
    pub const fn one(coefficient: u8, bytes: &'a [u8]) -> Self {
        Self {
            coefficients: [coefficient],
            bytes,
        }
    }
}

impl<const R: usize> Term<'_, R> {
    /// A term that adds nothing, to fill arrays with.
    pub const NOTHING: Self = Self {
        coefficients: [0; R],
        bytes: &[],
    };
}

/// Terms cut at a time when lengths differ; bounds the stack they take.
const CUT_TERMS: usize = 32;

/// Calls `run` so often that, in each call, all slices have one length and,
/// over all calls, every byte of every term is added once.
///
/// # Panics
/// If a destination's length differs from the others', or a term is longer.
pub(crate) fn in_equal_lengths<const R: usize>(
    dsts: [&mut [u8]; R],
    terms: &[Term<'_, R>],
    run: impl Fn([&mut [u8]; R], &[Term<'_, R>]),
) {
    const { assert!(R >= 1 && R <= DESTINATIONS_MAX) };
    let len = dsts[0].len();
    assert!(
        dsts.iter().all(|dst| dst.len() == len),
        "destinations have one length"
    );
    if terms.iter().all(|term| term.bytes.len() == len) {
        run(dsts, terms);
        return;
    }
    let mut dsts = dsts;
    for group in terms.chunks(CUT_TERMS) {
        assert!(
            group.iter().all(|term| term.bytes.len() <= len),
            "no source is longer than the destinations"
        );
        in_stretches(&mut dsts, group, &run);
    }
}

/// Goes along the destinations in stretches, each of which ends where the
/// shortest remaining source ends.
fn in_stretches<const R: usize>(
    dsts: &mut [&mut [u8]; R],
    terms: &[Term<'_, R>],
    run: impl Fn([&mut [u8]; R], &[Term<'_, R>]),
) {
    let mut start = 0;
    // At least one source ends with each stretch, so the turns are bounded by
    // the number of terms.
    loop {
        let reaching = || terms.iter().filter(|term| term.bytes.len() > start);
        let Some(end) = reaching().map(|term| term.bytes.len()).min() else {
            return;
        };
        let mut cut = [Term::NOTHING; CUT_TERMS];
        let mut cut_count = 0;
        for term in reaching() {
            cut[cut_count] = Term {
                coefficients: term.coefficients,
                bytes: &term.bytes[start..end],
            };
            cut_count += 1;
        }
        let parts = dsts.each_mut().map(|dst| &mut dst[start..end]);
        run(parts, &cut[..cut_count]);
        start = end;
    }
}

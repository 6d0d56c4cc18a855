//! A code over a short window that slides along an endless row of symbols, for
//! datagrams that grow old: nothing waits for a generation to fill.
//!
//! The row is numbered from 0. A repair covers `count` ≤ [`SLIDING_MAX`] symbols
//! from number `first` on and is named by these and a repair index; its
//! coefficients are those of [`coefficients`](crate::coefficients) with the uniform
//! generator, `first` standing for the generation. So the same name over a longer
//! window has the same coefficients in front, as with prefixes of a generation.
//!
//! Symbols are laid out as everywhere in this crate, `len ‖ content ‖ zeros`, and
//! stored without the zeros.
//!
//! What falls out of the window is forgotten on either side: a symbol that was not
//! recovered by then never is.

mod decoder;
mod encoder;
#[cfg(test)]
mod tests;

pub use decoder::{SlidingDecoder, SlidingError};
pub use encoder::SlidingEncoder;

/// Most symbols in a sliding window, of the encoder and of the decoder. A number
/// has its place in a row of so many cells, modulo this.
pub const SLIDING_MAX: usize = 64;

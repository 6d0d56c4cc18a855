//! A systematic random linear code over a *generation* of source symbols.
//!
//! A generation is a window `(first symbol, count ≤ 255)`. Its symbols travel
//! as they are (*systematic*), followed by linear combinations of them over
//! GF(2^8) (*coded*); any `count` linearly independent packets suffice to
//! recover the generation, whichever were lost \[CC14\] §II, \[MP12\] §II.
//!
//! * [`Encoder`] holds the symbols of one generation and combines them.
//! * [`Decoder`] takes packets in any order, tells at once whether each was
//!   *innovative*, and recovers symbols as soon as they are determined.
//! * [`Repair`] names a coded packet; both ends derive its coefficients from
//!   that name, see [`coefficients`]. The derivation is part of the wire format.
//!
//! # Symbols
//!
//! For the code, a symbol is `len: u16 big-endian ‖ content ‖ zeros` of
//! `symbol_len` bytes, so that the true length survives decoding. The zeros are
//! virtual: a short symbol is stored short and costs no more than its bytes. A
//! systematic packet carries the content alone, its length known from the
//! datagram. The payload of a coded packet is as long as the longest
//! `len ‖ content` among the symbols that it covers.
//!
//! # Sliding windows
//!
//! [`SlidingEncoder`] and [`SlidingDecoder`] protect an endless row of symbols that
//! soon grow old; see [`SLIDING_MAX`].
//!
//! # Prefixes
//!
//! A coded packet may be sent while its generation still fills: it covers the
//! first `count` symbols, those present. Its coefficients are the first `count`
//! of a sequence that does not depend on `count`.
//!
//! Nothing here knows of time, networks or randomness from outside.

mod decoder;
mod encoder;
mod generator;
mod index_set;
mod rows;
mod sliding;
mod slot;
mod sum;

pub use decoder::{Decoder, InsertError, Insertion};
pub use encoder::{EncodeError, Encoder, PushError};
pub use generator::{Generator, NoRepair, Repair, coefficients};
pub use sliding::{SLIDING_MAX, SlidingDecoder, SlidingEncoder, SlidingError};

/// Most symbols of a generation; also the number of its possible indices.
pub const COUNT_MAX: u8 = 255;

/// Bytes of the length in front of a symbol's content.
pub const LEN_PREFIX_BYTES: usize = 2;

/// The longest symbol: a length prefix and as much content as it can tell of.
/// Longer lengths asked for are taken as this one.
pub const SYMBOL_LEN_MAX: usize = LEN_PREFIX_BYTES + u16::MAX as usize;

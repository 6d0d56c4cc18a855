//! What the flags of a protected packet say, and the fields that follow.

use ctcp_rlnc::{Generator, Repair};
use ctcp_units::SymbolId;

use super::{ParseError, Reader};

/// The flags byte, in the clear form (before header protection).
///
/// ```text
///   7   6   5 4   3     2      1 0
/// +---+---+-----+-----+------+-----------+
/// | 0 | K | kind| ack | last | generator |
/// +---+---+-----+-----+------+-----------+
/// ```
///
/// * `K`: key phase.
/// * `kind`: 0 control, 1 systematic, 2 coded.
/// * `ack`: the receiver should acknowledge at once.
/// * `last`: the generation has its final count (systematic: this is its last
///   symbol; coded: `count` is final).
/// * `generator`: code point of the coefficient generator (coded packets).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Bit of the key phase.
    pub const KEY_PHASE: u8 = 0x40;
    const KIND_SHIFT: u8 = 4;
    const ACK_NOW: u8 = 0x08;
    const LAST: u8 = 0x04;
    const GENERATOR: u8 = 0x03;

    /// Whether the sender asks for an ACK at once.
    pub const fn wants_ack_now(self) -> bool {
        self.0 & Self::ACK_NOW != 0
    }

    /// The same with the wish for an ACK at once.
    #[must_use]
    pub const fn with_ack_now(self, wanted: bool) -> Self {
        Self(if wanted {
            self.0 | Self::ACK_NOW
        } else {
            self.0 & !Self::ACK_NOW
        })
    }
}

/// What a protected packet carries, read from flags and first plaintext bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Control frames.
    Control,
    /// One source symbol: `symbol:3 | index in generation:1 | content`.
    Systematic {
        /// The symbol.
        symbol: SymbolId,
        /// Its place in its generation, from 0.
        index: u8,
        /// It is the last of its generation.
        is_last: bool,
    },
    /// A combination: `first:3 | count:1 | repair index:2 | coded symbol`.
    Coded {
        /// First symbol of the generation.
        first: SymbolId,
        /// Symbols combined: the generation's first `count`, at least 1.
        count: u8,
        /// `count` is the generation's final count.
        is_final: bool,
        /// Names the coefficients; never used twice in a generation.
        repair: Repair,
    },
}

/// Turns symbol ids into their lowest 24 bits and back.
///
/// The receiver takes the id nearest to a reference that both ends are close
/// to: the lowest symbol it still misses. Ids within 2^23 of it are exact; the
/// coding window is kept below 2^22 symbols.
#[derive(Debug, Clone, Copy)]
pub struct SymbolTruncation {
    /// An id near the one to be restored.
    pub reference: SymbolId,
}

impl SymbolTruncation {
    const SPAN: u64 = 1 << 24;

    /// The id nearest to the reference whose lowest 24 bits are `low`.
    pub fn restore(self, low: u32) -> SymbolId {
        let reference = self.reference.0;
        let candidate = reference & !(Self::SPAN - 1) | u64::from(low);
        let half = Self::SPAN / 2;
        SymbolId(if candidate + half < reference {
            candidate + Self::SPAN
        } else if candidate > reference + half && candidate >= Self::SPAN {
            candidate - Self::SPAN
        } else {
            candidate
        })
    }
}

impl Header {
    /// The flags of a packet with this header, key phase 0.
    pub fn flags(&self) -> Flags {
        let (kind, rest) = match self {
            Self::Control => (0, 0),
            Self::Systematic { is_last, .. } => (1, u8::from(*is_last) * Flags::LAST),
            Self::Coded {
                is_final, repair, ..
            } => (
                2,
                (u8::from(*is_final) * Flags::LAST) | repair.generator.code_point(),
            ),
        };
        Flags(kind << Flags::KIND_SHIFT | rest)
    }

    /// Appends the fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        let low24 = |id: SymbolId| {
            let [_, a, b, c] = (id.0 as u32).to_be_bytes();
            [a, b, c]
        };
        match *self {
            Self::Control => {}
            Self::Systematic { symbol, index, .. } => {
                out.extend_from_slice(&low24(symbol));
                out.push(index);
            }
            Self::Coded {
                first,
                count,
                repair,
                ..
            } => {
                out.extend_from_slice(&low24(first));
                out.push(count);
                out.extend_from_slice(&repair.index.to_be_bytes());
            }
        }
    }

    /// Reads the fields that `flags` announce; the rest of the reader is the
    /// payload.
    ///
    /// # Errors
    /// Truncated fields, an unknown kind or generator, a count of 0, an index
    /// that lies before symbol 0.
    pub fn parse(
        flags: Flags,
        reader: &mut Reader<'_>,
        truncation: SymbolTruncation,
    ) -> Result<Self, ParseError> {
        let is_last = flags.0 & Flags::LAST != 0;
        match flags.0 >> Flags::KIND_SHIFT & 3 {
            0 => Ok(Self::Control),
            1 => {
                let symbol = truncation.restore(reader.u24()?);
                let index = reader.u8()?;
                if u64::from(index) > symbol.0 || index == u8::MAX {
                    return Err(ParseError::Impossible {
                        field: "index in generation",
                        value: u64::from(index),
                    });
                }
                Ok(Self::Systematic {
                    symbol,
                    index,
                    is_last,
                })
            }
            2 => {
                let first = truncation.restore(reader.u24()?);
                let count = reader.u8()?;
                if count == 0 {
                    return Err(ParseError::Impossible {
                        field: "count of a coded packet",
                        value: 0,
                    });
                }
                let code_point = flags.0 & Flags::GENERATOR;
                let generator =
                    Generator::from_code_point(code_point).ok_or(ParseError::Impossible {
                        field: "generator",
                        value: u64::from(code_point),
                    })?;
                let index = reader.u16()?;
                Ok(Self::Coded {
                    first,
                    count,
                    is_final: is_last,
                    repair: Repair { generator, index },
                })
            }
            _ => Err(ParseError::UnknownPacketKind(flags.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(header: Header, reference: u64) -> Header {
        let mut out = Vec::new();
        header.write(&mut out);
        let truncation = SymbolTruncation {
            reference: SymbolId(reference),
        };
        Header::parse(header.flags(), &mut Reader::new(&out), truncation).unwrap()
    }

    #[test]
    fn headers_come_back() {
        for reference in [0, 5_000, (1 << 24) - 3, 1 << 40] {
            for distance in [0, 1, 77, 1 << 20] {
                let symbol = SymbolId(reference + distance + 200);
                for is_last in [false, true] {
                    let systematic = Header::Systematic {
                        symbol,
                        index: 17,
                        is_last,
                    };
                    assert_eq!(round_trip(systematic, reference), systematic);
                    let coded = Header::Coded {
                        first: symbol,
                        count: 255,
                        is_final: is_last,
                        repair: Repair::uniform(0xABCD),
                    };
                    assert_eq!(round_trip(coded, reference), coded);
                }
            }
        }
        assert_eq!(round_trip(Header::Control, 0), Header::Control);
    }

    #[test]
    fn ids_a_little_behind_the_reference_are_restored() {
        let truncation = SymbolTruncation {
            reference: SymbolId((3 << 24) + 2),
        };
        assert_eq!(truncation.restore(0xFF_FFFE), SymbolId((3 << 24) - 2));
        let at_start = SymbolTruncation {
            reference: SymbolId(0),
        };
        assert_eq!(at_start.restore(0xFF_FFFE), SymbolId(0xFF_FFFE));
    }

    #[test]
    fn golden_bytes() {
        let coded = Header::Coded {
            first: SymbolId(0x0102_0304),
            count: 32,
            is_final: true,
            repair: Repair::uniform(0x0506),
        };
        let mut out = Vec::new();
        coded.write(&mut out);
        assert_eq!(coded.flags().with_ack_now(true), Flags(0x2C));
        assert_eq!(out, [2, 3, 4, 32, 5, 6]);
    }
}

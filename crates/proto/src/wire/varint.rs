//! Variable-length integers (RFC 9000 §16) and a reader over untrusted bytes.

use super::ParseError;

/// Largest value a varint can hold.
pub(crate) const VARINT_MAX: u64 = (1 << 62) - 1;

/// Bytes that `value` takes as a varint: 1, 2, 4 or 8.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends `value`.
///
/// # Panics
/// If `value` needs more than 62 bits: our own counters never get there.
pub fn write_varint(out: &mut Vec<u8>, value: u64) {
    assert!(value <= VARINT_MAX, "a varint has 62 bits: {value}");
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xC000_0000_0000_0000).to_be_bytes()),
    }
}

/// Reads fields one after another; never past the end.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(ParseError::Truncated {
                needed: len,
                present: self.rest.len(),
            })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ParseError::Truncated {
                needed: N,
                present: self.rest.len(),
            })?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Three bytes, big-endian.
    pub fn u24(&mut self) -> Result<u32, ParseError> {
        self.array::<3>()
            .map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// `len` ≤ 8 bytes, big-endian.
    pub fn uint(&mut self, len: usize) -> Result<u64, ParseError> {
        Ok(self
            .bytes(len)?
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A varint.
    pub fn varint(&mut self) -> Result<u64, ParseError> {
        let first = *self.rest.first().ok_or(ParseError::Truncated {
            needed: 1,
            present: 0,
        })?;
        let len = 1 << (first >> 6);
        let raw = self.uint(len)?;
        Ok(raw & (u64::MAX >> (64 - 8 * len + 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        for value in [
            0,
            63,
            64,
            16_383,
            16_384,
            (1 << 30) - 1,
            1 << 30,
            VARINT_MAX,
        ] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    /// RFC 9000 §A.1.
    #[test]
    fn the_samples_of_rfc_9000_are_read() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint().unwrap();
        assert_eq!(
            read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            151_288_809_941_952_652
        );
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), 494_878_333);
        assert_eq!(read(&[0x7b, 0xbd]), 15_293);
        assert_eq!(read(&[0x40, 0x25]), 37);
    }

    #[test]
    fn a_missing_byte_is_named() {
        assert_eq!(
            Reader::new(&[0x80, 0]).varint(),
            Err(ParseError::Truncated {
                needed: 4,
                present: 2
            })
        );
    }
}

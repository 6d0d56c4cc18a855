//! 32 bytes as 43 characters of base64 (RFC 4648 §5, URL alphabet, no padding).
//!
//! Reading also takes the standard alphabet and one `=` at the end, as other
//! tools print keys. No table is indexed by a secret and no branch depends on
//! one: characters are mapped by arithmetic.

use super::identity::KeyTextError;

/// Characters of a key in text form.
pub(super) const TEXT_LEN: usize = 43;

/// The text form of `bytes`.
pub(super) fn encode(bytes: &[u8; 32]) -> [u8; TEXT_LEN] {
    let mut out = [0; TEXT_LEN];
    for (chunk, group) in bytes.chunks(3).zip(out.chunks_mut(4)) {
        let word = chunk.iter().enumerate().fold(0, |word, (at, byte)| {
            word | u32::from(*byte) << (16 - 8 * at)
        });
        for (at, character) in group.iter_mut().enumerate() {
            *character = character_of((word >> (18 - 6 * at)) as u8 & 63);
        }
    }
    out
}

/// The bytes that `text` stands for.
pub(super) fn decode(text: &str) -> Result<[u8; 32], KeyTextError> {
    let text = text.trim();
    if let Some(index) = text.bytes().position(|byte| !byte.is_ascii()) {
        return Err(KeyTextError::Character { index });
    }
    let digits = text.strip_suffix('=').unwrap_or(text).as_bytes();
    if digits.len() != TEXT_LEN {
        return Err(KeyTextError::Length {
            found: digits.len(),
        });
    }
    let mut out = [0; 32];
    for (at, (group, chunk)) in digits.chunks(4).zip(out.chunks_mut(3)).enumerate() {
        let mut word = 0;
        for (offset, character) in group.iter().enumerate() {
            let value = value_of(*character);
            if value < 0 {
                return Err(KeyTextError::Character {
                    index: 4 * at + offset,
                });
            }
            word |= (value as u32) << (18 - 6 * offset);
        }
        let bytes = word.to_be_bytes();
        if chunk.len() == 2 && bytes[3] != 0 {
            return Err(KeyTextError::LooseBits);
        }
        chunk.copy_from_slice(&bytes[1..=chunk.len()]);
    }
    Ok(out)
}

/// All ones if `low <= value <= high`, else 0.
fn mask(value: i32, low: i32, high: i32) -> i32 {
    !((value - low) | (high - value)) >> 31
}

fn character_of(value: u8) -> u8 {
    let v = i32::from(value);
    let character = mask(v, 0, 25) & (v + i32::from(b'A'))
        | mask(v, 26, 51) & (v - 26 + i32::from(b'a'))
        | mask(v, 52, 61) & (v - 52 + i32::from(b'0'))
        | mask(v, 62, 62) & i32::from(b'-')
        | mask(v, 63, 63) & i32::from(b'_');
    character as u8
}

/// The six bits a character stands for, −1 if none.
fn value_of(character: u8) -> i32 {
    let c = i32::from(character);
    let is = |low: u8, high: u8| mask(c, i32::from(low), i32::from(high));
    let value = is(b'A', b'Z') & (c - i32::from(b'A') + 1)
        | is(b'a', b'z') & (c - i32::from(b'a') + 27)
        | is(b'0', b'9') & (c - i32::from(b'0') + 53)
        | (is(b'-', b'-') | is(b'+', b'+')) & 63
        | (is(b'_', b'_') | is(b'/', b'/')) & 64;
    value - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    #[test]
    fn every_value_has_its_character_and_every_other_byte_none() {
        for (value, character) in ALPHABET.iter().enumerate() {
            assert_eq!(character_of(value as u8), *character);
            assert_eq!(value_of(*character), value as i32);
        }
        assert_eq!((value_of(b'+'), value_of(b'/')), (62, 63));
        let known = (0..=255u8).filter(|byte| value_of(*byte) >= 0).count();
        assert_eq!(known, 66);
    }

    #[test]
    fn bytes_come_back_from_their_text() {
        for seed in 0..=255u8 {
            let bytes = core::array::from_fn(|at| seed.wrapping_mul(31).wrapping_add(at as u8));
            let text = encode(&bytes);
            let text = core::str::from_utf8(&text).unwrap();
            assert_eq!(decode(text), Ok(bytes));
            assert_eq!(decode(&format!(" {text}=\n")), Ok(bytes));
        }
    }
}

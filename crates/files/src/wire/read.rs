//! Fields out of a stream.

use std::io::{self, Read};

use super::{Hash, Malformed, ReadError, TEXT_LEN_MAX};
use crate::name::Name;

pub(super) fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn byte(from: &mut impl Read) -> io::Result<u8> {
    Ok(array::<1>(from)?[0])
}

pub(super) fn u16(from: &mut impl Read) -> io::Result<u16> {
    Ok(u16::from_be_bytes(array(from)?))
}

pub(super) fn u32(from: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_be_bytes(array(from)?))
}

pub(super) fn u64(from: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_be_bytes(array(from)?))
}

pub(super) fn hash(from: &mut impl Read) -> io::Result<Hash> {
    array(from)
}

pub(super) fn name(from: &mut impl Read) -> Result<Name, ReadError> {
    let mut bytes = [0; 255];
    let len = usize::from(byte(from)?);
    from.read_exact(&mut bytes[..len])?;
    Ok(Name::new(&bytes[..len]).map_err(Malformed::Name)?)
}

/// Reads a text; broken UTF-8 is replaced, which may make it longer.
pub(super) fn text(from: &mut impl Read) -> Result<String, ReadError> {
    let len = usize::from(u16(from)?);
    if len > TEXT_LEN_MAX {
        return Err(Malformed::Text(len).into());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a text, cut to what is allowed.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut len = text.len().min(TEXT_LEN_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.extend((len as u16).to_be_bytes());
    out.extend(&text.as_bytes()[..len]);
}

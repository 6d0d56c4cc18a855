//! What the router has to know and change of an IP packet: its ECN bits, and the
//! checksums that go with what it changes.

use ctcp_link::Ecn;

const IPV4_HEADER_BYTES_MIN: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The ECN bits of an IP packet; none if it is neither IPv4 nor IPv6.
pub(crate) fn ecn(packet: &[u8]) -> Option<Ecn> {
    match version(packet)? {
        4 => Some(Ecn::from_bits(packet[1])),
        _ => Some(Ecn::from_bits(packet[1] >> 4)),
    }
}

/// Sets the ECN bits, and the checksum of the IPv4 header with them.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match version(packet) {
        Some(4) => {
            let before = packet[1];
            let after = before & !0b11 | ecn.bits();
            packet[1] = after;
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
            let old = u16::from_be_bytes([packet[10], packet[11]]);
            let sum = u32::from(!old) + u32::from(!u16::from(before)) + u32::from(after);
            packet[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
        }
        Some(_) => packet[1] = packet[1] & !0x30 | ecn.bits() << 4,
        None => {}
    }
}

/// The IP version, if the packet is long enough for its header.
fn version(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER_BYTES_MIN => Some(4),
        6 if packet.len() >= IPV6_HEADER_BYTES => Some(6),
        _ => None,
    }
}

/// Fills in the checksum of TCP or UDP, which a kernel that believes in hardware
/// leaves to it. Fragments were summed before they were cut and stay as they are.
pub(crate) fn fill_checksum(packet: &mut [u8]) {
    let Some(transport) = transport(packet) else {
        return;
    };
    let Transport {
        protocol,
        start,
        end,
        addresses,
    } = transport;
    let field = match protocol {
        TCP => start + 16,
        UDP => start + 6,
        _ => return,
    };
    if field + 2 > end || (protocol == UDP && packet[field..field + 2] == [0, 0]) {
        return;
    }
    packet[field..field + 2].fill(0);
    let mut sum = sum_of(&packet[addresses]);
    sum += sum_of(&packet[start..end]);
    sum += u64::from(protocol) + (end - start) as u64;
    let checksum = !fold_long(sum);
    // Zero would mean that UDP has no checksum; all ones is the same number.
    let checksum = match (protocol, checksum) {
        (UDP, 0) => u16::MAX,
        (_, checksum) => checksum,
    };
    packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Where the transport's part of a packet lies.
struct Transport {
    protocol: u8,
    start: usize,
    end: usize,
    /// Both addresses, one behind the other.
    addresses: core::ops::Range<usize>,
}

fn transport(packet: &[u8]) -> Option<Transport> {
    let is_four = version(packet)? == 4;
    let (protocol, start, len, addresses) = if is_four {
        let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
        if is_fragment {
            return None;
        }
        let header_bytes = usize::from(packet[0] & 0xf) * 4;
        let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        (packet[9], header_bytes, len, 12..20)
    } else {
        let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        (packet[6], IPV6_HEADER_BYTES, IPV6_HEADER_BYTES + len, 8..40)
    };
    (start >= IPV4_HEADER_BYTES_MIN && start <= len && len <= packet.len()).then_some(Transport {
        protocol,
        start,
        end: len,
        addresses,
    })
}

/// The sum of 16-bit words, the last byte of an odd length counting as the upper
/// half of a word.
fn sum_of(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 = 0;
    for word in &mut words {
        // Two words at once: folding adds the halves.
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut rest = [0; 4];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    sum + u64::from(u32::from_be_bytes(rest))
}

fn fold(sum: u32) -> u16 {
    fold_long(u64::from(sum))
}

fn fold_long(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with UDP inside, as a kernel made it: 10.0.0.1:7 to
    /// 10.0.0.2:9, payload `abc`. Both checksums are right.
    fn udp() -> Vec<u8> {
        let mut packet = vec![
            0x45, 0x02, 0, 31, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
            0, 7, 0, 9, 0, 11, 0xff, 0xff, b'a', b'b', b'c',
        ];
        let header = !fold_long(sum_of(&packet[..20]));
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        fill_checksum(&mut packet);
        packet
    }

    /// The sum over what a checksum covers is all ones when it is right.
    fn is_right(packet: &[u8]) -> bool {
        let transport = transport(packet).expect("a whole packet");
        let covered = sum_of(&packet[transport.addresses])
            + sum_of(&packet[transport.start..transport.end])
            + u64::from(transport.protocol)
            + (transport.end - transport.start) as u64;
        fold_long(covered) == 0xffff
    }

    #[test]
    fn a_mark_keeps_the_header_checksum_right() {
        for bits in 0..4 {
            let mut packet = udp();
            assert_eq!(ecn(&packet), Some(Ecn::Ect0));
            set_ecn(&mut packet, Ecn::from_bits(bits));
            assert_eq!(ecn(&packet), Some(Ecn::from_bits(bits)));
            assert_eq!(fold_long(sum_of(&packet[..20])), 0xffff);
        }
    }

    #[test]
    fn a_checksum_that_was_left_out_is_filled_in() {
        let mut packet = udp();
        assert!(is_right(&packet));
        let whole = packet.clone();
        packet[26..28].copy_from_slice(&[1, 2]);
        assert!(!is_right(&packet));
        fill_checksum(&mut packet);
        assert_eq!(packet, whole);
    }

    #[test]
    fn udp_without_a_checksum_stays_without() {
        let mut packet = udp();
        packet[26..28].fill(0);
        let before = packet.clone();
        fill_checksum(&mut packet);
        assert_eq!(packet, before);
    }

    #[test]
    fn tcp_over_ipv6_is_filled_in_and_marked() {
        let mut packet = vec![0u8; 40 + 20 + 5];
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&25u16.to_be_bytes());
        packet[6] = TCP;
        for (index, byte) in packet[8..40].iter_mut().enumerate() {
            *byte = index as u8;
        }
        packet[60..].copy_from_slice(b"hello");
        fill_checksum(&mut packet);
        assert!(is_right(&packet));
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!(ecn(&packet), Some(Ecn::Ce));
        assert_eq!(packet[0], 0x60);
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        let mut random = ctcp_units::Random::from_seed(3);
        for _ in 0..20_000 {
            let len = random.below(90) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0xf | [0x40, 0x60][random.below(2) as usize];
            }
            fill_checksum(&mut bytes);
            set_ecn(&mut bytes, Ecn::Ce);
            assert_eq!(bytes.len(), len);
        }
        assert_eq!(ecn(&[]), None);
        assert_eq!(ecn(&[0x45; 19]), None);
        assert_eq!(ecn(&[0x11; 60]), None);
    }
}

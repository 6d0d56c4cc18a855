//! Tests of the SOCKS negotiation: each dialect whole, in pieces, and garbled.

use super::*;
use ctcp_units::Random;

/// What a negotiation made of its input.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    /// All that was written on the way, the refusal included.
    written: Vec<u8>,
    end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Waiting,
    Connect(Dialect, String, Vec<u8>),
    /// From where.
    Associate(String),
    Refused(SocksError),
}

/// Feeds the pieces one after the other, stepping in between.
fn negotiate(credentials: Option<&Credentials>, pieces: &[&[u8]]) -> Outcome {
    let mut negotiation = Negotiation::new(credentials);
    let mut written = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        negotiation.feed(piece);
        loop {
            match negotiation.step() {
                Step::Read => {
                    let is_http = negotiation.buf.first().is_some_and(u8::is_ascii_uppercase);
                    let len_max = if is_http {
                        HEAD_LEN_MAX
                    } else {
                        MESSAGE_LEN_MAX
                    };
                    assert!(negotiation.buf.len() < len_max);
                    break;
                }
                Step::Write(bytes) => written.extend(bytes),
                Step::Connect { dialect, target } => {
                    let mut early = negotiation.into_early_data();
                    for later in &pieces[index + 1..] {
                        early.extend_from_slice(later);
                    }
                    let end = End::Connect(dialect, target.to_string(), early);
                    return Outcome { written, end };
                }
                Step::Associate { from } => {
                    let end = End::Associate(from.to_string());
                    return Outcome { written, end };
                }
                Step::Refuse { bytes, error } => {
                    written.extend(bytes);
                    let end = End::Refused(error);
                    return Outcome { written, end };
                }
            }
        }
    }
    Outcome {
        written,
        end: End::Waiting,
    }
}

fn anna() -> Credentials {
    Credentials::new("anna", "secret").expect("lengths fit")
}

const V5_IPV4: &[u8] = b"\x05\x01\x00\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50early";
const V5_NAME: &[u8] = b"\x05\x02\x00\x02\x05\x01\x00\x03\x09a.example\x01\xBBearly";
const V5_IPV6: &[u8] =
    b"\x05\x01\x00\x05\x01\x00\x04\x20\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16";
const V5_PASSWORD: &[u8] =
    b"\x05\x02\x00\x02\x01\x04anna\x06secret\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50";
const V4: &[u8] = b"\x04\x01\x00\x50\xC0\x00\x02\x07user\x00early";
const V4A: &[u8] = b"\x04\x01\x01\xBB\x00\x00\x00\x01\x00a.example\x00early";
const HTTP: &[u8] =
    b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nUser-Agent: x\r\n\r\nearly";
/// The password is that of [`anna`].
const HTTP_PASSWORD: &[u8] = b"CONNECT [2001:db8::1]:22 HTTP/1.0\nHost: x\n\
    proxy-authorization:  BASIC  YW5uYTpzZWNyZXQ=\n\nearly";

fn connect(dialect: Dialect, target: &str, early: &[u8]) -> End {
    End::Connect(dialect, target.to_owned(), early.to_vec())
}

#[test]
fn every_dialect_asks_for_its_target() {
    use Dialect::{Http, Socks4 as Four, Socks5 as Five};
    for (input, written, end) in [
        (
            V5_IPV4,
            &b"\x05\x00"[..],
            connect(Five, "192.0.2.7:80", b"early"),
        ),
        (
            V5_NAME,
            b"\x05\x00",
            connect(Five, "a.example:443", b"early"),
        ),
        (V5_IPV6, b"\x05\x00", connect(Five, "[2001:db8::1]:22", b"")),
        (V4, b"", connect(Four, "192.0.2.7:80", b"early")),
        (V4A, b"", connect(Four, "a.example:443", b"early")),
        (HTTP, b"", connect(Http, "a.example:443", b"early")),
    ] {
        let outcome = negotiate(None, &[input]);
        assert_eq!((outcome.written.as_slice(), &outcome.end), (written, &end));
    }
}

#[test]
fn every_split_of_the_input_ends_the_same() {
    let credentials = anna();
    for (input, credentials) in [
        (V5_IPV4, None),
        (V5_NAME, None),
        (V5_IPV6, None),
        (V5_PASSWORD, Some(&credentials)),
        (V5_PASSWORD, None),
        (V4, None),
        (V4A, None),
        (HTTP, None),
        (HTTP_PASSWORD, Some(&credentials)),
        (
            b"\x05\x01\x00\x05\x02\x00\x01\xC0\x00\x02\x07\x00\x50",
            None,
        ),
    ] {
        let whole = negotiate(credentials, &[input]);
        assert_ne!(whole.end, End::Waiting);
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(negotiate(credentials, &pieces), whole, "{first}, {second}");
            }
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(negotiate(credentials, &bytes), whole);
    }
}

#[test]
fn the_right_password_opens_and_a_wrong_one_closes() {
    let credentials = anna();
    let right = negotiate(Some(&credentials), &[V5_PASSWORD]);
    assert_eq!(right.written, b"\x05\x02\x01\x00");
    assert_eq!(right.end, connect(Dialect::Socks5, "192.0.2.7:80", b""));

    let wrong = negotiate(Some(&credentials), &[b"\x05\x01\x02\x01\x04anna\x05wrong"]);
    assert_eq!(wrong.written, b"\x05\x02\x01\x01");
    assert_eq!(wrong.end, End::Refused(SocksError::WrongPassword));
}

#[test]
fn who_offers_no_password_is_refused_where_one_is_required() {
    let credentials = anna();
    let outcome = negotiate(Some(&credentials), &[V5_IPV4]);
    assert_eq!(outcome.written, b"\x05\xFF");
    assert_eq!(outcome.end, End::Refused(SocksError::NoAcceptableMethod));
    // SOCKS4 has a user id, but nothing to prove it.
    let outcome = negotiate(Some(&credentials), &[V4]);
    assert_eq!(outcome.written, b"\x00\x5B\0\0\0\0\0\0");
    assert_eq!(outcome.end, End::Refused(SocksError::NoAcceptableMethod));
}

#[test]
fn a_password_nobody_asked_for_is_taken() {
    let only_password = b"\x05\x01\x02\x01\x01u\x01p\x05\x01\x00\x01\xC0\x00\x02\x07\x00\x50";
    let outcome = negotiate(None, &[only_password]);
    assert_eq!(outcome.written, b"\x05\x02\x01\x00");
    assert_eq!(outcome.end, connect(Dialect::Socks5, "192.0.2.7:80", b""));
}

#[test]
fn an_association_says_where_its_datagrams_will_come_from() {
    for (request, from) in [
        (&b"\x05\x03\x00\x01\0\0\0\0\0\0"[..], "0.0.0.0:0"),
        (b"\x05\x03\x00\x01\xC0\x00\x02\x07\x00\x50", "192.0.2.7:80"),
    ] {
        let outcome = negotiate(None, &[b"\x05\x01\x00", request]);
        assert_eq!(outcome.written, [5, 0], "the answer follows later");
        assert_eq!(outcome.end, End::Associate(from.to_owned()));
    }
}

#[test]
fn other_commands_and_address_types_get_their_codes() {
    for (request, code, error) in [
        (
            &b"\x05\x02\x00\x01\xC0\x00\x02\x07\x00\x50"[..],
            7,
            SocksError::Command { command: 2 },
        ),
        (
            b"\x05\x04\x00\x01\0\0\0\0\0\0",
            7,
            SocksError::Command { command: 4 },
        ),
        (b"\x05\x01\x00\x02", 8, SocksError::AddressType { kind: 2 }),
        (
            b"\x05\x01\x00\x03\x00",
            4,
            SocksError::Name(HostError::Empty),
        ),
        (b"\x04", 1, SocksError::Version { version: 4 }),
    ] {
        let outcome = negotiate(None, &[b"\x05\x01\x00", request]);
        assert_eq!(outcome.written[2..4], [5, code]);
        assert_eq!(outcome.end, End::Refused(error));
    }
    let bind = negotiate(None, &[b"\x04\x02\x00\x50\xC0\x00\x02\x07\x00"]);
    assert_eq!(bind.written[..2], [0, 0x5B]);
    assert_eq!(bind.end, End::Refused(SocksError::Command { command: 2 }));
}

#[test]
fn a_field_of_socks4_has_a_longest_length() {
    let head = b"\x04\x01\x00\x50\xC0\x00\x02\x07";
    let longest = [&[b'u'; 255][..], b"\0"].concat();
    let outcome = negotiate(None, &[head, &longest]);
    assert_eq!(outcome.end, connect(Dialect::Socks4, "192.0.2.7:80", b""));
    let outcome = negotiate(None, &[head, &[b'u'; 255]]);
    assert_eq!(outcome.end, End::Waiting);
    let outcome = negotiate(None, &[head, &[b'u'; 256]]);
    assert_eq!(outcome.end, End::Refused(SocksError::Unterminated));
}

#[test]
fn http_connect_gives_its_password() {
    let credentials = anna();
    let right = negotiate(Some(&credentials), &[HTTP_PASSWORD]);
    assert_eq!(right.written, b"");
    let end = connect(Dialect::Http, "[2001:db8::1]:22", b"early");
    assert_eq!(right.end, end);
    let twice = String::from_utf8_lossy(HTTP_PASSWORD)
        .replace("Host: x", "Proxy-Authorization: Basic YW5uYTpzZWNyZXQ=");
    for wrong in [
        HTTP,
        b"CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Basic YW5uYTp3cm9uZw==\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Basic !!!\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Basi\xFF YW5uYTpzZWNyZXQ=\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nProxy-Authorization:\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n\r\n",
        twice.as_bytes(),
    ] {
        let outcome = negotiate(Some(&credentials), &[wrong]);
        assert_eq!(outcome.end, End::Refused(SocksError::WrongPassword));
        let written = String::from_utf8(outcome.written).expect("text");
        assert!(written.starts_with("HTTP/1.1 407 "), "{written}");
        assert!(
            written.contains("\r\nProxy-Authenticate: Basic "),
            "{written}"
        );
    }
}

#[test]
fn http_other_than_connect_is_told_what_to_do() {
    for (request, status, error) in [
        (
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
            405,
            SocksError::HttpMethod,
        ),
        ("GET / HTTP/1.1\r\n\r\n", 405, SocksError::HttpMethod),
        (
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            400,
            SocksError::HttpTarget,
        ),
        (
            "CONNECT a.example:0 HTTP/1.1\r\n\r\n",
            400,
            SocksError::HttpTarget,
        ),
        (
            "CONNECT u@a.example:1 HTTP/1.1\r\n\r\n",
            400,
            SocksError::HttpTarget,
        ),
        ("CONNECT a:1 HTTP/2.0\r\n\r\n", 400, SocksError::HttpHead),
        ("HELLO\r\n\r\n", 400, SocksError::HttpHead),
    ] {
        let outcome = negotiate(None, &[request.as_bytes()]);
        let written = String::from_utf8(outcome.written).expect("text");
        assert!(
            written.starts_with(&format!("HTTP/1.1 {status} ")),
            "{written}"
        );
        assert_eq!(outcome.end, End::Refused(error), "{request}");
        let body = written.split_once("\r\n\r\n").expect("a head").1;
        assert!(written.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert_eq!(status == 405, body.contains("socks5h://"), "{body}");
    }
    let tls = negotiate(None, &[b"\x16\x03\x01"]);
    assert_eq!(tls.end, End::Refused(SocksError::NotSocks { first: 0x16 }));
    assert!(tls.written.is_empty());
}

#[test]
fn the_head_of_http_has_a_longest_length_and_most_fields() {
    let refused = End::Refused(SocksError::HttpTooLong);
    let start = b"CONNECT a:1 HTTP/1.1\r\nX: ";
    let filler = vec![b'x'; HEAD_LEN_MAX - start.len() - 4];
    let fits = [&start[..], &filler, b"\r\n\r\nearly"].concat();
    assert_eq!(
        negotiate(None, &[&fits]).end,
        connect(Dialect::Http, "a:1", b"early")
    );
    let long = [&start[..], &filler, b"x\r\n\r\n"].concat();
    for pieces in [long.chunks(long.len()), long.chunks(7)] {
        let pieces: Vec<&[u8]> = pieces.collect();
        let outcome = negotiate(None, &pieces);
        assert_eq!(outcome.end, refused);
        assert!(outcome.written.starts_with(b"HTTP/1.1 431 "));
    }
    let fields = |count| {
        let fields = "A: b\r\n".repeat(count);
        let head = format!("CONNECT a:1 HTTP/1.1\r\n{fields}\r\n");
        negotiate(None, &[head.as_bytes()]).end
    };
    assert_eq!(fields(64), connect(Dialect::Http, "a:1", b""));
    assert_eq!(fields(65), refused);
}

/// Valid inputs with bytes changed, cut and repeated: never a panic, never more
/// than one message held, and the same end in one piece or in many.
#[test]
fn garbled_input_ends_the_same_in_one_piece_or_many() {
    let seed = crate::test_seed();
    let mut random = Random::from_seed(seed);
    let credentials = anna();
    let samples = [
        V5_IPV4,
        V5_NAME,
        V5_IPV6,
        V5_PASSWORD,
        V4,
        V4A,
        HTTP,
        HTTP_PASSWORD,
    ];
    for _ in 0..20_000 {
        let mut input = samples[random.below(8) as usize].to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(input.len() as u64) as usize;
            input[at] = random.next_u64() as u8;
        }
        input.truncate(random.below(input.len() as u64 + 1) as usize);
        if random.chance(0.1) {
            input.resize(1500, random.next_u64() as u8);
        }
        let credentials = random.chance(0.5).then_some(&credentials);
        let whole = negotiate(credentials, &[&input]);
        let size = random.below(40) as usize + 1;
        let pieces: Vec<&[u8]> = input.chunks(size).collect();
        assert_eq!(negotiate(credentials, &pieces), whole, "seed {seed}");
    }
}

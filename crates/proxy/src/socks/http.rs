//! HTTP's way to name a target, on the same port: `CONNECT HOST:PORT`
//! ([RFC9110] §9.3.6), with `Proxy-Authorization: Basic` ([RFC7617]) where a
//! password is required. Everything else that HTTP can ask of a proxy is answered
//! with a text that tells what to do.
//!
//! The head is read whole, or refused at [`HEAD_LEN_MAX`] bytes, before anything
//! in it is looked at.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Status};

use super::auth::Credentials;
use super::parse::SocksError;
use super::reply::ReplyCode;
use crate::target::Target;

/// Longest head of a request, in bytes. Browsers send some 300.
pub const HEAD_LEN_MAX: usize = 8 << 10;

/// Most header fields of a request.
const FIELDS_MAX: usize = 64;

/// Where the head ends, behind its empty line; `from` bytes were looked at before.
pub(super) fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    // The empty line may have begun among the bytes looked at before.
    let from = from.saturating_sub(3);
    let ends = |at: &usize| {
        let rest = &bytes[*at..];
        rest.starts_with(b"\n\n") || rest.starts_with(b"\n\r\n")
    };
    let at = (from..bytes.len()).find(ends)?;
    Some(at + if bytes[at + 1] == b'\n' { 2 } else { 3 })
}

/// The target that a whole head asks for, or the answer and what to log.
pub(super) fn target(
    head: &[u8],
    credentials: Option<&Credentials>,
) -> Result<Target, (Vec<u8>, SocksError)> {
    let malformed = || {
        let text = "This is no HTTP request that could be read.\n";
        (answer("400 Bad Request", "", text), SocksError::HttpHead)
    };
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(len)) if len == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(too_long()),
        _ => return Err(malformed()),
    }
    let (Some(method), Some(path)) = (request.method, request.path) else {
        return Err(malformed());
    };
    if method != "CONNECT" {
        let allow = "Allow: CONNECT\r\n";
        let error = SocksError::HttpMethod;
        return Err((answer("405 Method Not Allowed", allow, NOT_CONNECT), error));
    }
    if let Some(credentials) = credentials
        && !is_admitted(credentials, request.headers)
    {
        let challenge = "Proxy-Authenticate: Basic realm=\"ctcp\", charset=\"UTF-8\"\r\n";
        let text = "This proxy wants the name and password of its --socks-auth.\n";
        let status = "407 Proxy Authentication Required";
        return Err((answer(status, challenge, text), SocksError::WrongPassword));
    }
    path.parse().map_err(|_| {
        let text = "CONNECT wants HOST:PORT, for example `CONNECT example.com:443 HTTP/1.1`.\n";
        (answer("400 Bad Request", "", text), SocksError::HttpTarget)
    })
}

/// The answer to a head that does not end, or has too many fields.
pub(super) fn too_long() -> (Vec<u8>, SocksError) {
    let text = "The head of a request may have 8 KiB and 64 fields here.\n";
    let status = "431 Request Header Fields Too Large";
    (answer(status, "", text), SocksError::HttpTooLong)
}

/// The answer to a CONNECT that was understood.
pub(super) fn reply(code: ReplyCode) -> Vec<u8> {
    if code == ReplyCode::Ok {
        return b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
    }
    let (status, text) = match code {
        ReplyCode::NotAllowed => (
            "403 Forbidden",
            "The server does not serve this target, or this client.",
        ),
        ReplyCode::TimedOut => ("504 Gateway Timeout", "The target did not answer in time."),
        ReplyCode::NetUnreachable => (
            "502 Bad Gateway",
            "The server has no way to the target's network.",
        ),
        ReplyCode::HostUnreachable => (
            "502 Bad Gateway",
            "No way to the target: its name is unknown, its host unreachable, or the server \
             silent.",
        ),
        ReplyCode::Refused => ("502 Bad Gateway", "The target refused the connection."),
        _ => (
            "503 Service Unavailable",
            "The tunnel or the server cannot take this connection now.",
        ),
    };
    answer(status, "", &format!("{text} `ctcp client -v` says more.\n"))
}

/// Whether one of the fields shows the right user and password.
fn is_admitted(credentials: &Credentials, fields: &[httparse::Header<'_>]) -> bool {
    let mut given = fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case("proxy-authorization"));
    // Two of them: which one counts would be a guess.
    let (Some(field), None) = (given.next(), given.next()) else {
        return false;
    };
    let shown = field.value.trim_ascii();
    let Some((scheme, encoded)) = shown.split_at_checked(6) else {
        return false;
    };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return false;
    }
    let Ok(pair) = STANDARD.decode(encoded.trim_ascii()) else {
        return false;
    };
    let Some(colon) = pair.iter().position(|&byte| byte == b':') else {
        return false;
    };
    credentials.admit(&pair[..colon], &pair[colon + 1..])
}

/// A whole response that closes the connection. Nothing of the request comes back
/// in it.
fn answer(status: &str, fields: &str, text: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

/// What a browser or program shows that was told to send plain HTTP this way.
const NOT_CONNECT: &str = "\
This port is a proxy of ctcp. It speaks SOCKS5, SOCKS4 and HTTP CONNECT; plain
http:// requests cannot be sent through it.
Enter it as a SOCKS proxy, for example socks5h://127.0.0.1:1080 - or let the program
tunnel: https:// addresses do, and curl does with --proxytunnel.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_at_its_empty_line() {
        for (bytes, end) in [
            (&b"CONNECT a:1 HTTP/1.1\r\n\r\nearly"[..], Some(24)),
            (b"C\n\nx", Some(3)),
            (b"C\r\n\n", Some(4)),
            (b"C\n\r\n", Some(4)),
            (b"C\r\n\r", None),
            (b"C\r\n", None),
            (b"", None),
        ] {
            assert_eq!(head_end(bytes, 0), end, "{bytes:?}");
            for from in 0..bytes.len().min(end.unwrap_or(usize::MAX)) {
                assert_eq!(head_end(bytes, from), end, "{bytes:?} from {from}");
            }
        }
    }

    #[test]
    fn every_failure_has_a_status_and_words() {
        let statuses = |code| {
            let reply = String::from_utf8(reply(code)).expect("text");
            assert!(reply.contains("\r\n\r\n"));
            reply[9..12].to_owned()
        };
        for (code, status) in [
            (ReplyCode::Ok, "200"),
            (ReplyCode::General, "503"),
            (ReplyCode::NotAllowed, "403"),
            (ReplyCode::NetUnreachable, "502"),
            (ReplyCode::HostUnreachable, "502"),
            (ReplyCode::Refused, "502"),
            (ReplyCode::TimedOut, "504"),
        ] {
            assert_eq!(statuses(code), status, "{code:?}");
        }
    }
}

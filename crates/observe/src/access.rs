//! Who may look.
//!
//! Two doors, both for reading only. The name that a browser was asked to reach
//! must be ours: a page from elsewhere can point a name of its own at 127.0.0.1
//! and then read what it finds there (DNS rebinding), but it cannot make the
//! browser say an address instead of that name. And where others than this
//! machine can reach the listener, a token is asked for.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Shortest token: 16 characters can hold 96 random bits.
pub const TOKEN_LEN_MIN: usize = 16;

/// Who may look.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Of the token; comparing digests tells nothing of lengths.
    token: Option<[u8; 32]>,
    hosts: Vec<String>,
    /// Whoever can open the socket may look: the file system has decided.
    is_open: bool,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It was sent to a name that is not ours.
    Host,
    /// It shows no token, or another.
    Token,
}

impl Access {
    /// Asks for `token`, if there is one, and for a host that is an address,
    /// `localhost` or one of `hosts`.
    pub fn new(token: Option<&str>, hosts: &[String]) -> Self {
        Self {
            token: token.map(digest),
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            is_open: false,
        }
    }

    /// Asks nothing: for sockets that the file system guards.
    pub fn open() -> Self {
        Self {
            is_open: true,
            ..Self::default()
        }
    }

    /// Judges a request by its `Host` and `Authorization` headers.
    ///
    /// # Errors
    /// [`Denied`]: what is wrong with it.
    pub fn judge(&self, host: Option<&str>, authorization: Option<&str>) -> Result<(), Denied> {
        if self.is_open {
            return Ok(());
        }
        if !host.is_some_and(|host| self.is_ours(host)) {
            return Err(Denied::Host);
        }
        let Some(wanted) = &self.token else {
            return Ok(());
        };
        let shown = authorization.and_then(token_of).map(|token| digest(&token));
        match shown {
            Some(shown) if bool::from(shown.ct_eq(wanted)) => Ok(()),
            _ => Err(Denied::Token),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            // The colons of an IPv6 address stand within brackets.
            Some((name, port)) if !port.contains(']') => name,
            _ => host.as_str(),
        };
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        literal.parse::<std::net::IpAddr>().is_ok()
            || name == "localhost"
            || self.hosts.iter().any(|known| known == name)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The token of `Bearer TOKEN`, or of `Basic` with any user and the token as
/// password, which is what browsers can do.
fn token_of(authorization: &str) -> Option<String> {
    let (scheme, value) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = BASE64_STANDARD.decode(value.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':').map(|(_, token)| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_somebody_elses_is_turned_away() {
        let access = Access::new(None, &["Ctcp.Lan".to_owned()]);
        for host in [
            "127.0.0.1:9100",
            "127.0.0.1",
            "[::1]:9100",
            "localhost:9100",
            "LOCALHOST",
            "ctcp.lan:9100",
            "192.0.2.7:1",
        ] {
            assert_eq!(access.judge(Some(host), None), Ok(()), "{host}");
        }
        for host in ["evil.example:9100", "localhost.evil.example", "", "::evil"] {
            assert_eq!(access.judge(Some(host), None), Err(Denied::Host), "{host}");
        }
        assert_eq!(access.judge(None, None), Err(Denied::Host));
    }

    #[test]
    fn the_token_is_taken_as_bearer_and_as_password() {
        let access = Access::new(Some("0123456789abcdef"), &[]);
        let judge = |value: &str| access.judge(Some("192.0.2.1"), Some(value));
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        assert_eq!(judge("Bearer 0123456789abcdef"), Ok(()));
        assert_eq!(judge(&basic("me:0123456789abcdef")), Ok(()));
        for wrong in [
            "Bearer 0123456789abcdeg",
            "Bearer",
            "Digest 0123456789abcdef",
            &basic("0123456789abcdef"),
            "Basic ////",
        ] {
            assert_eq!(judge(wrong), Err(Denied::Token), "{wrong}");
        }
        assert_eq!(access.judge(Some("192.0.2.1"), None), Err(Denied::Token));
    }

    #[test]
    fn whoever_opens_a_guarded_socket_may_look() {
        assert_eq!(Access::open().judge(None, None), Ok(()));
    }
}

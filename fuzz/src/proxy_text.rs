//! Everything the proxies read: SOCKS and HTTP in arbitrary pieces, requests and replies
//! of the tunnel, and the texts that users and files give. What parses and is
//! printed parses again to the same.

use core::fmt::{Debug, Display};
use core::str::FromStr;
use std::net::{IpAddr, SocketAddr};

use ctcp_proto::{PublicKey, SecretKey};
use ctcp_proxy::allowlist::AllowList;
use ctcp_proxy::egress::{EgressPolicy, EgressRule, NameVerdict};
use ctcp_proxy::invite::{Invite, InviteBook};
use ctcp_proxy::key::{format_key, parse_key};
use ctcp_proxy::port_forward::PortForward;
use ctcp_proxy::request::{Failure, REPLY_LEN_MAX, REQUEST_LEN_MAX, Reply, Request};
use ctcp_proxy::socks::http::HEAD_LEN_MAX;
use ctcp_proxy::socks::parse::MESSAGE_LEN_MAX;
use ctcp_proxy::socks::udp::{addressed_data, from_application, write_source};
use ctcp_proxy::socks::{Credentials, Negotiation, Step};
use ctcp_proxy::target::{Host, Target};

use crate::Input;

/// The first byte chooses the parser, the rest is for it.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(12) {
        0..3 => return socks(input),
        3 => return request(input.rest()),
        4 => return reply(input.rest()),
        _ => {}
    }
    let choice = data[0] % 12;
    let Ok(text) = core::str::from_utf8(input.rest()) else {
        return;
    };
    match choice {
        5 => comes_back::<Target>(text),
        6 => comes_back::<PortForward>(text),
        7 => comes_back::<EgressRule>(text),
        8 => comes_back::<Invite>(text),
        9 => lists(text),
        10 => keys(text),
        _ => policy(text),
    }
}

fn comes_back<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            let shown = value.to_string();
            let again = shown.parse::<T>();
            assert!(
                again.as_ref().is_ok_and(|again| *again == value),
                "{text:?} is shown as {shown:?}"
            );
        }
        // Errors are made to be shown.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What the application sees and the proxy learns.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    written: Vec<u8>,
    /// `None`: it goes on reading.
    end: Option<Step>,
    /// What was not used.
    left: Vec<u8>,
}

fn negotiate<'a>(
    credentials: Option<&Credentials>,
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> Outcome {
    let mut negotiation = Negotiation::new(credentials);
    let mut written = Vec::new();
    let end = loop {
        match negotiation.step() {
            Step::Read => match pieces.next() {
                Some(piece) => negotiation.feed(piece),
                None => break None,
            },
            Step::Write(bytes) => written.extend(bytes),
            end => break Some(end),
        }
    };
    let mut left = negotiation.into_early_data();
    let is_http = left.first().is_some_and(u8::is_ascii_uppercase);
    let len_max = if is_http {
        HEAD_LEN_MAX
    } else {
        MESSAGE_LEN_MAX
    };
    assert!(end.is_some() || left.len() < len_max);
    pieces.for_each(|piece| left.extend(piece));
    Outcome { written, end, left }
}

/// Where the pieces end makes no difference.
fn socks(mut input: Input<'_>) {
    let wanted = Credentials::new("user", "password").expect("both are short");
    let credentials = input.bool().then_some(&wanted);
    let split = input.u64();
    let bytes = input.rest();
    let whole = negotiate(credentials, core::iter::once(bytes));
    let mut rest = bytes;
    let mut lens = (0..).map(|at| (split >> (4 * (at % 16)) & 0xF) as usize + 1);
    let pieces = core::iter::from_fn(|| {
        let len = lens.next()?.min(rest.len());
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(negotiate(credentials, pieces), whole);
    let bytewise = bytes.chunks(1);
    assert_eq!(negotiate(credentials, bytewise), whole);
}

/// A datagram between application and proxy.
fn datagram(bytes: &[u8]) {
    let Ok(addressed) = from_application(bytes) else {
        return;
    };
    let (target, data) = addressed_data(addressed).expect("it was read before");
    assert!(bytes.ends_with(data) && data.len() + 8 <= bytes.len());
    if let Host::Ip(ip) = target.host {
        let mut out = Vec::new();
        write_source(SocketAddr::new(ip, target.port), &mut out);
        out.extend(data);
        let again = addressed_data(&out).expect("what is written can be read");
        assert_eq!(again, (target, data));
    }
}

fn request(bytes: &[u8]) {
    datagram(bytes);
    let parsed = Request::parse(bytes);
    for len in 0..bytes.len().min(REQUEST_LEN_MAX) {
        match (Request::parse(&bytes[..len]), &parsed) {
            (Ok(None), _) => {}
            (early, parsed) => assert_eq!(early, *parsed, "{len} bytes suffice"),
        }
    }
    if parsed == Ok(None) {
        assert!(bytes.len() < REQUEST_LEN_MAX);
    }
    if let Ok(Some((request, len))) = parsed {
        assert!(len <= bytes.len());
        let mut out = Vec::new();
        request.write(&mut out);
        assert!(out.len() <= REQUEST_LEN_MAX);
        assert_eq!(Request::parse(&out), Ok(Some((request, out.len()))));
    }
}

fn reply(bytes: &[u8]) {
    let parsed = Reply::parse(bytes);
    for len in 0..bytes.len().min(REPLY_LEN_MAX) {
        match (Reply::parse(&bytes[..len]), &parsed) {
            (Ok(None), _) => {}
            (early, parsed) => assert_eq!(early, *parsed, "{len} bytes suffice"),
        }
    }
    let Ok(Some((reply, _))) = parsed else {
        return;
    };
    let mut out = Vec::new();
    reply.write(&mut out);
    assert!(out.len() <= REPLY_LEN_MAX);
    let again = Reply::parse(&out).expect("what is written can be read");
    let (again, len) = again.expect("it is whole");
    assert_eq!(len, out.len());
    match (reply, again) {
        // Broken text grew when it was read: the reason was cut.
        (Reply::Failed(Failure { status, reason }), Reply::Failed(again)) => {
            assert_eq!(again.status, status);
            assert!(reason.starts_with(&again.reason));
            assert!(again.reason.len() > 255 - 4 || again.reason == reason);
        }
        (reply, again) => assert_eq!(again, reply),
    }
}

fn lists(text: &str) {
    if let Ok(list) = AllowList::parse(text) {
        let lines = list
            .iter()
            .map(|(key, entry)| format!("{} {entry}\n", format_key(key)));
        assert_eq!(AllowList::parse(&lines.collect::<String>()), Ok(list));
    }
    if let Ok(book) = InviteBook::from_text(text) {
        assert_eq!(InviteBook::from_text(&book.to_text()), Ok(book));
    }
}

fn keys(text: &str) {
    comes_back::<PublicKey>(text);
    let key = parse_key(text);
    if let Ok(key) = key {
        assert_eq!(parse_key(&format_key(&key)), Ok(key));
    }
    if let Ok(public) = text.parse::<PublicKey>() {
        assert_eq!(key, Ok(*public.as_bytes()), "two readers, one key");
    }
    if let Ok(secret) = text.parse::<SecretKey>() {
        assert_eq!(key, Ok(*secret.as_bytes()));
        assert_eq!(secret.to_text().parse(), Ok(secret));
    }
    let _ = Credentials::parse(text);
}

/// Lines `RULE` (allowed), `!RULE` (denied), the last one a target.
fn policy(text: &str) {
    let Some((rules, target)) = text.rsplit_once('\n') else {
        return;
    };
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    for line in rules.lines() {
        let (list, rule) = match line.strip_prefix('!') {
            Some(rule) => (&mut deny, rule),
            None => (&mut allow, line),
        };
        list.extend(rule.parse::<EgressRule>());
    }
    let Ok(target) = target.parse::<Target>() else {
        return;
    };
    let policy = EgressPolicy::new(allow, deny.clone());
    let verdict = policy.judge_name(&target);
    let Host::Ip(ip) = target.host else {
        return;
    };
    assert_eq!(verdict, Ok(NameVerdict::Undecided), "only names are judged");
    let judge =
        |ip: IpAddr| policy.judge_address(SocketAddr::new(ip, target.port), NameVerdict::Undecided);
    let judged = judge(ip);
    // The clothes of an address change nothing.
    let dressed = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(v6) => v6.to_canonical(),
    };
    assert_eq!(judge(dressed), judged);
    // Whoever denies a target as it is written has denied it.
    deny.push(EgressRule::from(&target));
    let denying = EgressPolicy::new(Vec::new(), deny);
    let address = SocketAddr::new(ip, target.port);
    assert!(
        denying
            .judge_address(address, NameVerdict::Vouched)
            .is_err()
    );
}

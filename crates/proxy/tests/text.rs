//! What people type: any text gets an answer or an error that can be shown, and
//! what reads also prints as something that reads the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use ctcp_proxy::allowlist::AllowList;
use ctcp_proxy::egress::EgressRule;
use ctcp_proxy::invite::{Invite, InviteBook};
use ctcp_proxy::port_forward::PortForward;
use ctcp_proxy::socks::Credentials;
use ctcp_proxy::target::Target;
use ctcp_units::Random;

const PIECES: [&str; 28] = [
    "ctcp://",
    "AQEBAQEBAQEBAQEBAQEBAQ",
    "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI",
    "@",
    ".",
    ":",
    "/",
    "[",
    "]",
    "=",
    "*",
    "#",
    " ",
    "\n",
    "0",
    "8",
    "443",
    "65535",
    "65536",
    "10.0.0.0",
    "::",
    "fd00::",
    "::ffff:10.0.0.0",
    "104",
    "db.internal",
    "ä",
    "\u{0}",
    "localhost",
];

fn check<T>(text: &str) -> bool
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(value) => {
            let again = value.to_string().parse::<T>();
            assert_eq!(again.ok().as_ref(), Some(&value), "{text:?}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn random_text_reads_and_prints_or_fails_with_words() {
    let seed = std::env::var("CTCP_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("CTCP_SEED={seed}");
    let mut random = Random::from_seed(seed);
    let mut read = [0; 4];
    for _ in 0..300_000 {
        let count = 1 + random.below(8);
        let text: String = (0..count)
            .map(|_| PIECES[random.below(PIECES.len() as u64) as usize])
            .collect();
        read[0] += u32::from(check::<Target>(&text));
        read[1] += u32::from(check::<EgressRule>(&text));
        read[2] += u32::from(check::<PortForward>(&text));
        read[3] += u32::from(check::<Invite>(&text));
        let _ = Credentials::parse(&text);
        let _ = AllowList::parse(&text);
        if let Ok(book) = InviteBook::from_text(&text) {
            assert_eq!(InviteBook::from_text(&book.to_text()), Ok(book), "{text:?}");
        }
    }
    println!("read of 300000: {read:?} (target, rule, forward, invite)");
    assert!(read[..3].iter().all(|&count| count > 0), "{read:?}");
}

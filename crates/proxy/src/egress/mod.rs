//! Where the reverse proxy may connect to.
//!
//! A client of the server stands, as far as other machines can tell, where the
//! server stands. So by default it reaches public addresses and nothing that
//! trusts the server for its place: not the server itself, its link, its private
//! networks, its cloud. [`ranges`] has the list; [`EgressRule`]s change it.
//!
//! The order: **deny beats allow beats the default**.
//!
//! 1. A request that gives a name is judged by the name ([`EgressPolicy::judge_name`]).
//! 2. The name is resolved once, and each address of the answer is judged
//!    ([`EgressPolicy::judge_address`]). Exactly a judged address is connected,
//!    never the name again, so an answer that changes in between changes nothing.
//!
//! An allow rule `HOST:PORT` vouches for the name: it is connected wherever it
//! resolves, private addresses included. The one exception is a metadata service,
//! which must be allowed by its single address (`169.254.169.254:80`); neither a
//! name nor a wide network such as `0.0.0.0/0` opens it. A deny rule `HOST:PORT`
//! stops requests that give the name, not those that give its address.

pub mod ranges;
pub mod rule;

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

pub use ranges::Class;
pub use rule::{EgressRule, RuleError};

use crate::target::{Host, Target};

/// The rules that hold for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    allow: Vec<EgressRule>,
    deny: Vec<EgressRule>,
}

/// How far a name has been judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameVerdict {
    /// A rule allows the name: its addresses need no leave of their own.
    Vouched,
    /// No rule knows it: its addresses decide.
    Undecided,
}

/// Why a target is refused. Names no resolved address: what a name means inside
/// the server's network is not the client's business.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A deny rule covers it.
    #[error("denied by the server's rule --egress-deny {rule}")]
    Rule {
        /// The rule, as it prints.
        rule: String,
    },
    /// Refused by default, and no rule allows it.
    #[error("{class} is not allowed by default; the server can permit it with --egress-allow")]
    Default {
        /// What kind of address it is.
        class: Class,
    },
}

impl EgressPolicy {
    /// The default, changed by these rules.
    pub fn new(allow: Vec<EgressRule>, deny: Vec<EgressRule>) -> Self {
        Self { allow, deny }
    }

    /// Judges a request by the name it gives; one that gives an address is
    /// undecided.
    ///
    /// # Errors
    /// [`Refusal`] if a rule denies the name, or it is a cloud's name for its
    /// metadata and no rule allows it.
    pub fn judge_name(&self, target: &Target) -> Result<NameVerdict, Refusal> {
        let Host::Name(name) = &target.host else {
            return Ok(NameVerdict::Undecided);
        };
        let covering = |rules: &[EgressRule]| {
            let rule = rules.iter().find(|r| r.covers_name(name, target.port));
            rule.map(ToString::to_string)
        };
        if let Some(rule) = covering(&self.deny) {
            return Err(Refusal::Rule { rule });
        }
        if covering(&self.allow).is_some() {
            return Ok(NameVerdict::Vouched);
        }
        if ranges::is_metadata_name(&name.normalized()) {
            let class = Class::Metadata;
            return Err(Refusal::Default { class });
        }
        Ok(NameVerdict::Undecided)
    }

    /// Judges the address to connect to.
    ///
    /// Deny rules are held against the address and against the IPv4 address it
    /// embeds ([`ranges::embedded_v4`]); allow rules as well.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn judge_address(&self, address: SocketAddr, verdict: NameVerdict) -> Result<(), Refusal> {
        let address = canonical(address);
        let inner = match address.ip() {
            IpAddr::V6(v6) => ranges::embedded_v4(v6),
            IpAddr::V4(_) => None,
        };
        let inner = inner.map(|v4| SocketAddr::from((v4, address.port())));
        let forms = [Some(address), inner];
        let covers = |rule: &&EgressRule| {
            let mut forms = forms.iter().flatten();
            forms.any(|&form| rule.covers_address(form))
        };
        if let Some(rule) = self.deny.iter().find(covers) {
            return Err(Refusal::Rule {
                rule: rule.to_string(),
            });
        }
        let Some(class) = ranges::class(address.ip()) else {
            return Ok(());
        };
        let allowed = if class == Class::Metadata {
            self.allow.iter().any(|rule| rule.names_address(address))
        } else {
            verdict == NameVerdict::Vouched || self.allow.iter().any(|rule| covers(&rule))
        };
        if allowed {
            Ok(())
        } else {
            Err(Refusal::Default { class })
        }
    }
}

/// The address as the kernel takes it: IPv4-mapped IPv6 is IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
        let rules = |texts: &[&str]| texts.iter().map(|t| t.parse().expect("a rule")).collect();
        EgressPolicy::new(rules(allow), rules(deny))
    }

    /// Judges the target as if its name, if it has one, resolved to `resolved`.
    fn judge(policy: &EgressPolicy, target: &str, resolved: &str) -> Result<(), Refusal> {
        let target: Target = target.parse().expect(target);
        let verdict = policy.judge_name(&target)?;
        let ip = resolved.parse().expect(resolved);
        policy.judge_address(SocketAddr::new(ip, target.port), verdict)
    }

    fn address(policy: &EgressPolicy, text: &str) -> Result<(), Refusal> {
        policy.judge_address(text.parse().expect(text), NameVerdict::Undecided)
    }

    #[test]
    fn by_default_the_public_internet_and_nothing_else() {
        let default = EgressPolicy::default();
        assert_eq!(address(&default, "8.8.8.8:53"), Ok(()));
        assert_eq!(address(&default, "[2606:4700::1111]:443"), Ok(()));
        for (text, class) in [
            ("127.0.0.1:80", Class::Loopback),
            ("[::ffff:127.0.0.1]:80", Class::Loopback),
            ("[64:ff9b::a00:1]:80", Class::Private),
            ("0.0.0.0:80", Class::Unspecified),
            ("[::]:80", Class::Unspecified),
            ("169.254.169.254:80", Class::Metadata),
        ] {
            assert_eq!(address(&default, text), Err(Refusal::Default { class }));
        }
    }

    #[test]
    fn a_name_is_judged_by_where_it_leads() {
        let default = EgressPolicy::default();
        assert_eq!(judge(&default, "a.example:80", "8.8.8.8"), Ok(()));
        assert!(judge(&default, "a.example:80", "10.0.0.1").is_err());
        assert!(judge(&default, "a.example:80", "::ffff:10.0.0.1").is_err());
    }

    #[test]
    fn allow_beats_the_default_and_deny_beats_allow() {
        let policy = policy(&["10.0.0.0/8"], &["10.9.0.0/16", "8.8.8.8:53"]);
        assert_eq!(address(&policy, "10.1.0.1:80"), Ok(()));
        assert_eq!(address(&policy, "[::ffff:10.1.0.1]:80"), Ok(()));
        assert_eq!(address(&policy, "[64:ff9b::a01:1]:80"), Ok(()));
        let denied = |rule: &str| {
            Err(Refusal::Rule {
                rule: rule.to_owned(),
            })
        };
        assert_eq!(address(&policy, "10.9.0.1:80"), denied("10.9.0.0/16"));
        assert_eq!(
            address(&policy, "[64:ff9b::a09:1]:80"),
            denied("10.9.0.0/16")
        );
        assert_eq!(address(&policy, "[2002:a09:1::]:80"), denied("10.9.0.0/16"));
        assert_eq!(address(&policy, "8.8.8.8:53"), denied("8.8.8.8/32:53"));
        assert_eq!(address(&policy, "8.8.8.8:443"), Ok(()));
        assert!(address(&policy, "192.168.0.1:80").is_err());
    }

    #[test]
    fn a_vouched_name_may_lead_inside_at_its_port() {
        let policy = policy(&["db.internal:5432"], &["10.9.0.0/16"]);
        assert_eq!(judge(&policy, "DB.internal.:5432", "10.0.0.1"), Ok(()));
        assert!(judge(&policy, "db.internal:22", "10.0.0.1").is_err());
        assert!(judge(&policy, "db.internal:5432", "10.9.0.1").is_err());
        assert!(judge(&policy, "other.internal:5432", "10.0.0.1").is_err());
    }

    #[test]
    fn a_denied_name_is_not_resolved() {
        let policy = policy(&["evil.example:80"], &["evil.example:*"]);
        assert!(judge(&policy, "evil.example:80", "8.8.8.8").is_err());
        assert_eq!(judge(&policy, "good.example:80", "8.8.8.8"), Ok(()));
    }

    #[test]
    fn metadata_needs_a_rule_of_its_own() {
        let wide = policy(&["0.0.0.0/0", "::/0", "metadata.google.internal:80"], &[]);
        assert!(address(&wide, "169.254.169.254:80").is_err());
        assert!(address(&wide, "[fd00:ec2::254]:80").is_err());
        assert!(judge(&wide, "metadata.google.internal:80", "169.254.169.254").is_err());
        assert_eq!(address(&wide, "127.0.0.1:80"), Ok(()));
        let own = policy(&["169.254.169.254:80"], &[]);
        assert_eq!(address(&own, "169.254.169.254:80"), Ok(()));
        assert!(address(&own, "169.254.169.254:81").is_err());
        let default = EgressPolicy::default();
        assert!(judge(&default, "metadata.google.internal:80", "8.8.8.8").is_err());
    }
}

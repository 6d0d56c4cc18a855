//! Paths behind the same bottleneck, coupled: together they take what one flow
//! there would.
//!
//! `path::Bottlenecks` tells which paths share one. Each of their controllers hears
//! what part of a flow it is, one by the count of paths (so the sum is the mean of
//! what single flows in their places would have, and no path starves another), what
//! [RFC6356] leaves of a linear step, and what the others lose: one flow in their
//! place would have lost it.

use ctcp_units::Instant;
use thiserror::Error;

use super::Connection;
use crate::path::{Path, PathState, linked_growth};

/// What paths of a connection that share a bottleneck take there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coupling {
    /// What one flow would, once it shows that they share it.
    #[default]
    Auto,
    /// A flow's share each, as [MP12] has it.
    Independent,
}

/// A name that no coupling has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no coupling is called `{0}`; there are auto and independent")]
pub struct UnknownCoupling(String);

impl Coupling {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Independent];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Independent => "independent",
        }
    }
}

impl core::fmt::Display for Coupling {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::str::FromStr for Coupling {
    type Err = UnknownCoupling;

    fn from_str(name: &str) -> Result<Self, UnknownCoupling> {
        let known = Self::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| UnknownCoupling(name.to_owned()))
    }
}

impl Connection {
    /// Passes on what a path has learnt to those that share its bottleneck.
    pub(super) fn hear_news(&mut self, now: Instant, index: usize) {
        let news = self.paths[index].take_news();
        if self.paths.len() < 2 || self.config.coupling == Coupling::Independent {
            return;
        }
        let slot = self.paths[index].slot;
        if let Some(rtt) = news.rtt
            && self.bottlenecks.on_sample(now, slot, rtt)
        {
            self.couple(now);
        }
        if news.lost_packets > 0 {
            let group = self.bottlenecks.group(slot);
            let partners = self.paths.iter_mut();
            for partner in partners.filter(|path| path.slot != slot && group[path.slot]) {
                partner.on_partner_loss(now, news.lost_packets);
            }
        }
    }

    /// Tells every path what part of a flow it is.
    pub(super) fn couple(&mut self, now: Instant) {
        for index in 0..self.paths.len() {
            let group = self.bottlenecks.group(self.paths[index].slot);
            let is_member = |path: &&Path| group[path.slot] && path.state() == PathState::Active;
            let members = self.paths.iter().filter(is_member);
            let count = members.clone().count().max(1);
            let (own, _) = self.paths[index].window_and_rtt();
            let growth = match count {
                1 => 1.0,
                _ => linked_growth(own, members.map(Path::window_and_rtt)),
            };
            self.paths[index].couple(now, 1.0 / count as f64, growth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn couplings_have_the_names_that_find_them() {
        for coupling in Coupling::ALL {
            assert_eq!(coupling.name().parse(), Ok(coupling));
        }
        let unknown = "olia".parse::<Coupling>().unwrap_err();
        assert!(unknown.to_string().contains("independent"));
    }
}

//! What the next token of a path pays for: pure decisions over read-only views
//! (architecture 9).
//!
//! Each [`Scheduler`] has its own file. `mp12` walks all blocks as printed and is
//! the oracle of the tests; the sender reaches the same decision in O(1) by
//! re-judging only the block that an event touched and keeping the answers in a
//! `ReadySet`.

pub(crate) mod auto;
mod copies;
pub(crate) mod mp12;
mod ready;
mod span;
mod view;

pub use auto::{takes_new, takes_repair};
pub(crate) use copies::{Copied, Copies};
pub use mp12::{multi_path, single_path};
pub(crate) use ready::ReadySet;
pub use span::symbols_ahead;
pub use view::{BlockView, PathView};

use thiserror::Error;

/// How several paths share the work. With one path all are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduler {
    /// A packet goes where it arrives first, and no path rests while it could
    /// help.
    #[default]
    Auto,
    /// [MP12] Algorithm 4, corrected.
    Mp12,
    /// The path with the shortest round trip of those that can send now.
    MinRtt,
    /// Every symbol on every path, as far as their tokens go.
    Redundant,
}

/// A name that no scheduler has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no scheduler is called `{0}`; there are auto, mp12, min-rtt and redundant")]
pub struct UnknownScheduler(String);

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Mp12, Self::MinRtt, Self::Redundant];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mp12 => "mp12",
            Self::MinRtt => "min-rtt",
            Self::Redundant => "redundant",
        }
    }
}

impl core::fmt::Display for Scheduler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::str::FromStr for Scheduler {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        let known = Self::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| UnknownScheduler(name.to_owned()))
    }
}

/// `min-rtt`: whether path `index` should send: no usable path with a shorter
/// round trip can send now.
pub fn is_shortest_free(index: usize, paths: &[PathView]) -> bool {
    let own = (paths[index].srtt, index);
    !paths.iter().enumerate().any(|(at, other)| {
        let is_free = other.is_usable && other.has_token && other.wait.is_zero();
        at != index && is_free && (other.srtt, at) < own
    })
}

#[cfg(test)]
mod tests {
    use super::view::tests::path;
    use super::*;

    #[test]
    fn schedulers_have_the_names_that_find_them() {
        for scheduler in Scheduler::ALL {
            assert_eq!(scheduler.name().parse(), Ok(scheduler));
        }
        let unknown = "fastest".parse::<Scheduler>().unwrap_err();
        assert!(unknown.to_string().contains("min-rtt"));
    }

    #[test]
    fn the_shortest_path_with_a_token_sends() {
        let mut paths = [path(50, 10.0, 0.0), path(20, 10.0, 0.0), path(20, 1.0, 0.0)];
        let free = |paths: &[PathView]| -> Vec<_> {
            (0..paths.len())
                .filter(|index| is_shortest_free(*index, paths))
                .collect()
        };
        assert_eq!(free(&paths), [1]);
        paths[1].has_token = false;
        assert_eq!(
            free(&paths),
            [1, 2],
            "a path without tokens holds nobody up"
        );
        paths[2].is_usable = false;
        assert_eq!(free(&paths), [0, 1, 2]);
        paths[2].is_usable = true;
        paths[2].wait = ctcp_units::millis(1);
        assert_eq!(
            free(&paths),
            [0, 1, 2],
            "nor does one that waits for its pacer"
        );
    }
}

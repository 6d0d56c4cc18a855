//! How a command fails: an exit code that scripts may rely on, and a message
//! that names the value and the remedy.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit codes, as `ctcp --help` states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It started, then failed.
    Failed = 1,
    /// The command line, a file or the environment asks for the impossible.
    Usage = 2,
    /// The server knows that we know its key, and does not serve ours.
    Refused = 3,
    /// Nobody answered.
    NoAnswer = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended without having done its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        Self {
            exit,
            message: message.to_string(),
        }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn failed(message: impl Display) -> Self {
        Self::new(Exit::Failed, message)
    }
}

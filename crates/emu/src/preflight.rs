//! What can be found out before anything is set up: each error is one line, with
//! the remedy.

use std::fs;

use thiserror::Error;

use crate::attachment::{self, AttachmentKind};
use crate::namespace::{Namespace, NamespaceError};

const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Why a network cannot be put up here.
#[derive(Debug, Error)]
pub enum PreflightError {
    /// No network namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// Nothing to attach namespaces to a router by.
    #[error("no way to attach namespaces: {0}")]
    Attachment(String),
    /// The kernel's TCP has no such congestion control.
    #[error(
        "the kernel has no congestion control `{name}` (it has: {available}); \
         `modprobe tcp_{name}` as root loads it if the kernel's packages bring it"
    )]
    Congestion {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
}

/// Checks that networks can be put up: namespaces, and devices in them. Says how
/// they will be attached.
///
/// # Errors
/// [`PreflightError`]; see [`crate::enter_user_namespace`] for what to do first.
pub fn network() -> Result<AttachmentKind, PreflightError> {
    Namespace::new("trial")?;
    attachment::best().map_err(PreflightError::Attachment)
}

/// The congestion controls that the kernel's TCP has now.
pub fn congestion_controls() -> Vec<String> {
    let text = fs::read_to_string(CONGESTION_CONTROLS).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Checks that the kernel's TCP has this congestion control.
///
/// # Errors
/// [`PreflightError::Congestion`].
pub fn congestion_control(name: &str) -> Result<(), PreflightError> {
    let available = congestion_controls();
    if available.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(PreflightError::Congestion {
        name: name.to_owned(),
        available: available.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_is_always_there_and_others_are_named() {
        assert!(congestion_control("reno").is_ok());
        let error = congestion_control("carrierpigeon").expect_err("no such thing");
        let text = error.to_string();
        assert!(text.contains("modprobe tcp_carrierpigeon"), "{text}");
        assert!(text.contains("reno"), "{text}");
    }
}

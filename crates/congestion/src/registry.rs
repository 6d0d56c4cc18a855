//! Controllers by the names users type.

use core::fmt;

use crate::controller::Controller;
use crate::controllers::{
    auto, bbr, cc14, cc14_compound, cc14_cubic, compound, cubic, htcp, hybla, mp12, reno, sat,
    tcp_cd, vegas, veno, westwood,
};
use crate::params::Params;

/// A controller that can be chosen by name.
#[derive(Debug, Clone, Copy)]
pub struct ControllerInfo {
    /// What users type.
    pub name: &'static str,
    /// Another name for the same, if there is one.
    pub alias: Option<&'static str>,
    /// One line for `--help`.
    pub summary: &'static str,
    make: fn(&Params) -> Box<dyn Controller>,
}

const CONTROLLERS: &[ControllerInfo] = &[
    ControllerInfo {
        name: "auto",
        alias: None,
        summary: "the default: a model of the path, with CUBIC's share as its floor",
        make: |params| Box::new(auto(params)),
    },
    ControllerInfo {
        name: "cc14",
        alias: None,
        summary: "the papers': linear increase, backs off by what the queue holds",
        make: |params| Box::new(cc14(params)),
    },
    ControllerInfo {
        name: "sat",
        alias: None,
        summary: "CTCP for satellites: H-TCP's increase, backs off as cc14",
        make: |params| Box::new(sat(params)),
    },
    ControllerInfo {
        name: "mp12",
        alias: None,
        summary: "the first CTCP: Vegas-like, shrinks when loss jumps",
        make: |params| Box::new(mp12(params)),
    },
    ControllerInfo {
        name: "cc14-cubic",
        alias: None,
        summary: "CUBIC's increase, backs off as cc14",
        make: |params| Box::new(cc14_cubic(params)),
    },
    ControllerInfo {
        name: "cc14-compound",
        alias: None,
        summary: "Compound's increase, backs off as cc14",
        make: |params| Box::new(cc14_compound(params)),
    },
    ControllerInfo {
        name: "tcp-cd",
        alias: None,
        summary: "ignores loss, halves at ECN marks; only where the bottleneck marks",
        make: |params| Box::new(tcp_cd(params)),
    },
    ControllerInfo {
        name: "reno",
        alias: Some("reno_tokens"),
        summary: "TCP Reno's window: linear increase, halved by every loss",
        make: |params| Box::new(reno(params)),
    },
    ControllerInfo {
        name: "cubic",
        alias: None,
        summary: "CUBIC, what most senders do: cubic increase, backs off to 0.7",
        make: |params| Box::new(cubic(params)),
    },
    ControllerInfo {
        name: "bbr",
        alias: None,
        summary: "BBR v1: models rate and round trip, ignores loss; crowds others out",
        make: |params| Box::new(bbr(params)),
    },
    ControllerInfo {
        name: "htcp",
        alias: None,
        summary: "H-TCP: grows by the time since the last congestion",
        make: |params| Box::new(htcp(params)),
    },
    ControllerInfo {
        name: "hybla",
        alias: None,
        summary: "TCP Hybla: on a long path as fast as on a short one",
        make: |params| Box::new(hybla(params)),
    },
    ControllerInfo {
        name: "westwood",
        alias: None,
        summary: "TCP Westwood+: backs off to the bandwidth it saw",
        make: |params| Box::new(westwood(params)),
    },
    ControllerInfo {
        name: "veno",
        alias: None,
        summary: "TCP Veno: backs off less when the queue is short",
        make: |params| Box::new(veno(params)),
    },
    ControllerInfo {
        name: "vegas",
        alias: None,
        summary: "TCP Vegas: keeps a few packets queued; yields to others",
        make: |params| Box::new(vegas(params)),
    },
    ControllerInfo {
        name: "compound",
        alias: None,
        summary: "Compound TCP: Reno with a window more while the queue is short",
        make: |params| Box::new(compound(params)),
    },
];

/// All controllers, in a fixed order; the first is the default.
pub fn controllers() -> &'static [ControllerInfo] {
    CONTROLLERS
}

/// The controller that `name` means: aliases are resolved.
///
/// # Errors
/// [`UnknownController`] if there is none.
pub fn resolved_name(name: &str) -> Result<&'static str, UnknownController> {
    find(name).map(|info| info.name)
}

/// A controller at its start. This allocates; events do not.
///
/// # Errors
/// [`UnknownController`] if there is none of that name; its text lists those
/// there are.
///
/// ```
/// use ctcp_congestion::{Params, controller_by_name};
///
/// let controller = controller_by_name("auto", &Params::default()).unwrap();
/// assert_eq!((controller.name(), controller.tokens()), ("auto", 10.0));
/// assert!(controller_by_name("warp", &Params::default()).is_err());
/// ```
pub fn controller_by_name(
    name: &str,
    params: &Params,
) -> Result<Box<dyn Controller>, UnknownController> {
    find(name).map(|info| (info.make)(params))
}

fn find(name: &str) -> Result<&'static ControllerInfo, UnknownController> {
    CONTROLLERS
        .iter()
        .find(|info| info.name == name || info.alias == Some(name))
        .ok_or_else(|| UnknownController {
            name: name.to_owned(),
        })
}

/// There is no controller of that name. Remedy: one of those its text lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownController {
    /// The name asked for.
    pub name: String,
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "there is no congestion controller `{}`: choose ",
            self.name
        )?;
        for (index, info) in CONTROLLERS.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}", info.name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownController {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_controller_of_that_name() {
        for info in controllers() {
            let controller = controller_by_name(info.name, &Params::default()).unwrap();
            assert_eq!(controller.name(), info.name);
            if let Some(alias) = info.alias {
                assert_eq!(resolved_name(alias), Ok(info.name));
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let refusal = controller_by_name("warp", &Params::default()).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "there is no congestion controller `warp`: choose auto, cc14, sat, mp12, cc14-cubic, \
             cc14-compound, tcp-cd, reno, cubic, bbr, htcp, hybla, westwood, veno, vegas, compound"
        );
    }

    #[test]
    fn controllers_can_move_to_another_thread() {
        fn assert_send<T: Send>() {}
        assert_send::<Box<dyn Controller>>();
    }
}

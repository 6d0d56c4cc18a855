//! Who is scored: a controller on the real transport, or on TCP.

use ctcp_congestion::{Remembered, controller_by_name};
use ctcp_sim::{CtcpConfig, TcpConfig, Transport};

/// A controller and what carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contestant {
    /// As the user wrote it: `auto`, `tcp:bbr`.
    pub name: String,
    controller: String,
    is_tcp: bool,
}

impl Contestant {
    /// Reads `NAME` (on CTCP) or `tcp:NAME`; none if there is no such controller.
    pub fn parse(text: &str) -> Option<Self> {
        let (controller, is_tcp) = match text.strip_prefix("tcp:") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        controller_by_name(controller, &Default::default()).ok()?;
        Some(Self {
            name: text.to_owned(),
            controller: controller.to_owned(),
            is_tcp,
        })
    }

    /// Linux's default beside everybody else: CUBIC over TCP with SACK and RACK.
    pub fn neighbour() -> Self {
        Self {
            name: "tcp:cubic".to_owned(),
            controller: "cubic".to_owned(),
            is_tcp: true,
        }
    }

    /// The same on a path that an earlier connection knew.
    pub(crate) fn resumed(&self, remembered: Remembered) -> Transport {
        match self.transport() {
            Transport::Ctcp(mut config) => {
                config.params.resume = Some(remembered);
                Transport::Ctcp(config)
            }
            other => other,
        }
    }

    /// What a flow of this contestant is made of.
    pub fn transport(&self) -> Transport {
        match self.is_tcp {
            true => Transport::Tcp(TcpConfig::default().congestion(&self.controller)),
            false => Transport::Ctcp(CtcpConfig::default().congestion(&self.controller)),
        }
    }
}

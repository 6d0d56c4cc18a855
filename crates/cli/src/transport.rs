//! Options of the transport, the same for every command that speaks CTCP.

use clap::Args;
use clap::builder::PossibleValuesParser;
use ctcp::TransportConfig;
use ctcp_congestion::controllers;
use ctcp_proto::{Coupling, MtuMode, Redundancy, Scheduler};

use crate::failure::Failure;

/// How connections behave.
#[derive(Debug, Clone, Args)]
pub(crate) struct TransportArgs {
    /// Congestion controller
    #[arg(long, help_heading = "Transport", value_name = "NAME", default_value = "auto", env = "CTCP_CONGESTION",
          value_parser = congestion_names())]
    congestion: String,
    /// How many coded packets are sent ahead of feedback
    #[arg(long, help_heading = "Transport", value_name = "POLICY", default_value = "auto", env = "CTCP_REDUNDANCY",
          value_parser = ["auto", "cc14", "mp12", "tcp-cd", "none"])]
    redundancy: String,
    /// How several paths share the work
    #[arg(long, help_heading = "Transport", value_name = "NAME", default_value = "auto", env = "CTCP_SCHEDULER",
          value_parser = PossibleValuesParser::new(Scheduler::ALL.map(Scheduler::name)))]
    scheduler: String,
    /// What paths that share a bottleneck take there: what one flow would, or each a flow's share
    #[arg(long, help_heading = "Transport", value_name = "NAME", default_value = "auto", env = "CTCP_COUPLING",
          value_parser = PossibleValuesParser::new(Coupling::ALL.map(Coupling::name)))]
    coupling: String,
    /// Symbols per block, 1 to 255, or auto
    #[arg(long, help_heading = "Transport", value_name = "N", default_value = "auto", env = "CTCP_BLOCK",
          value_parser = block)]
    block: Block,
    /// The largest UDP payload to probe for, 576 to 65527 [default: 1472]
    #[arg(long, help_heading = "Transport", value_name = "BYTES", env = "CTCP_MTU",
          value_parser = clap::value_parser!(u16).range(576..=65_527))]
    mtu: Option<u16>,
    /// Start every connection from nothing, also where an earlier one knew the path
    #[arg(long, help_heading = "Transport", env = "CTCP_FORGET_PATHS")]
    forget_paths: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block(Option<u8>);

fn congestion_names() -> PossibleValuesParser {
    PossibleValuesParser::new(controllers().iter().map(|info| info.name))
}

fn block(text: &str) -> Result<Block, String> {
    if text == "auto" {
        return Ok(Block(None));
    }
    match text.parse() {
        Ok(symbols) if symbols > 0 => Ok(Block(Some(symbols))),
        _ => Err(format!(
            "`{text}` is not a block size: write auto, or 1 to 255 symbols"
        )),
    }
}

impl TransportArgs {
    /// The settings.
    pub(crate) fn config(&self) -> Result<TransportConfig, Failure> {
        let mut config = TransportConfig {
            congestion: self.congestion.clone(),
            redundancy: Redundancy::named(&self.redundancy).unwrap_or_default(),
            scheduler: self.scheduler.parse().map_err(Failure::usage)?,
            coupling: self.coupling.parse().map_err(Failure::usage)?,
            remembers_paths: !self.forget_paths,
            ..TransportConfig::default()
        };
        if let Block(Some(symbols)) = self.block {
            config.block_symbols = symbols;
        }
        if let Some(ceiling) = self.mtu {
            config.mtu = MtuMode::Probed { ceiling };
        }
        config.check().map_err(Failure::usage)?;
        Ok(config)
    }
}

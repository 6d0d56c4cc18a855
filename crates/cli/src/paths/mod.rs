//! The paths of a client: what the user wants (`spec`), what the host allows
//! (`plan`), a task that keeps the connection on them (`keeper`), their rates
//! (`rates`), and `ctcp paths` (`command`).

mod command;
mod keeper;
mod plan;
mod rates;
mod spec;

use clap::Args;

pub(crate) use command::{PathsArgs, run};
pub(crate) use keeper::{Keeper, Labels, is_forbidden, look, warn_of_routes};
pub(crate) use plan::{Want, Wish};
pub(crate) use rates::show;
pub(crate) use spec::PathSpec;

/// Which paths to use.
#[derive(Debug, Clone, Args)]
pub(crate) struct PathArgs {
    /// A path to the server: an interface or one of its addresses, such as wlan0 or
    /// 192.168.1.5, or `auto` for all that lead there; may be repeated. Each may lead
    /// to an address of the server of its own, take its own controller, be used only
    /// when no other works, or cost hundredths of a second [default: as the routes
    /// say]
    #[arg(
        long = "path",
        value_name = "IFACE|LOCAL_IP|auto[@SERVER:PORT][,congestion=NAME][,backup][,cost=N]",
        env = "CTCP_PATH",
        value_delimiter = ' ',
        help_heading = "Paths"
    )]
    pub(crate) path: Vec<PathSpec>,
}

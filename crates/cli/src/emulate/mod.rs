//! `ctcp emulate`: a lossy, slow, long path between two network namespaces, or
//! between two UDP ports.

mod check;
mod control;
mod counters;
mod netns;
mod udp;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be emulated.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Emulate {
    /// Join two network namespaces by emulated paths, as root or not
    #[command(
        long_about = "Join two network namespaces, left and right, by emulated paths, and run \
        programs in them: COMMAND in the left one, --server in the right one. Programs find the \
        addresses in EMULATE_LEFT and EMULATE_RIGHT (of path 0; EMULATE_RIGHT_1 and so on of the \
        others). Everything ends with COMMAND, whose exit status it is; without COMMAND, the \
        paths stay until a signal and stdin takes changes.\n\n\
        up is from left to right. Root is not needed where user namespaces are allowed. \
        Counters are printed at the end and on SIGUSR1: on stdout, or on stderr where COMMAND has \
        stdout, or in the file --counters."
    )]
    Netns(Box<netns::NetnsArgs>),
    /// Change the paths of a running `ctcp emulate netns`, or ask it
    #[command(
        long_about = "Change the paths of a running `ctcp emulate netns`, or ask it.\n\n\
        CHANGE is one of\n  \
        [path N] [up|down] NAME VALUE …   such as `rate 5mbit` or `path 0 up loss 5% burst 8`\n  \
        [path N] off|on                   drop everything, or no longer\n  \
        counters                          print them\n\n\
        NAME is an option of a path without its dashes; what is left out is meant for all paths \
        and both directions."
    )]
    Set(control::SetArgs),
    /// Relay UDP datagrams through an emulated path, without privileges
    #[command(
        long_about = "Relay UDP datagrams through an emulated path, without privileges.\n\n\
        Whoever sends to --listen reaches --to; losses, queue and delay are those of the \
        options. Counters are printed at the end (SIGTERM, SIGINT) and on SIGUSR1. On SIGUSR2 \
        every client gets a new port towards the target, as behind a NAT that lost its state."
    )]
    Udp(Box<udp::UdpArgs>),
}

/// What has to be done before the process has threads: gets the privileges over
/// namespaces that a command needs.
///
/// # Errors
/// There are none to be had; the remedy is named.
pub(crate) fn prepare(command: &Emulate) -> Result<(), Failure> {
    match command {
        Emulate::Netns(_) => ctcp_emu::enter_user_namespace()
            .map(drop)
            .map_err(Failure::usage),
        Emulate::Udp(_) | Emulate::Set(_) => Ok(()),
    }
}

/// Runs until the command or a signal ends it.
pub(crate) async fn run(command: Emulate) -> Result<(), Failure> {
    match command {
        Emulate::Netns(args) => netns::run(*args).await,
        Emulate::Set(args) => control::set(args).await,
        Emulate::Udp(args) => udp::run(*args).await,
    }
}

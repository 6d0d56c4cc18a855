//! The `ctcp` command: arguments, progress, output. What another program could
//! want lives in the other crates.
//!
//! Results go to stdout, everything else to stderr; [`failure::Exit`] lists the
//! exit codes.

mod client;
mod config;
mod connect;
mod demo;
mod dial;
mod emulate;
mod failure;
mod files;
mod gatekeeper;
mod keygen;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod link_options;
#[cfg(feature = "lab")]
mod model;
mod observe;
mod output;
mod paths;
mod ping;
mod redirect_rules;
mod server;
mod shell;
mod signals;
#[cfg(feature = "lab")]
mod sim;
mod speedtest;
mod state;
mod status;
mod supervisor;
mod transport;
mod tunnel;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Fast and reliable TCP over paths that lose packets: SOCKS proxies that speak a
/// coded, congestion-controlled, encrypted transport over UDP to one another.
#[derive(Debug, Parser)]
#[command(
    name = "ctcp",
    version,
    after_help = "Every option can be given by the environment, too: --socks as CTCP_SOCKS. \
                  The command line wins.\n\n\
                  Exit codes: 0 done, 1 failed while running, 2 usage or configuration,\n\
                  3 refused by the server, 4 no answer."
)]
struct Cli {
    /// Say more on stderr; twice for debugging. RUST_LOG chooses in detail
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// How log lines look: text, or one JSON object a line
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text", env = "CTCP_LOG_FORMAT",
          value_parser = ["text", "json"])]
    log_format: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See the whole system work on this machine: no root, no set-up
    Demo(Box<demo::DemoArgs>),
    /// Make a new identity
    Keygen(keygen::KeygenArgs),
    /// Run the far side: connect to what clients ask for
    Server(Box<server::ServerArgs>),
    /// Run the near side: a SOCKS proxy for applications
    Client(Box<client::ClientArgs>),
    /// Carry one connection on stdin and stdout, for ssh, rsync and git
    Connect(Box<connect::ConnectArgs>),
    /// Ping the server on each path: round trips, loss in each direction
    Ping(Box<ping::PingArgs>),
    /// Test what CTCP moves between here and the server, each way
    Speedtest(Box<speedtest::SpeedtestArgs>),
    /// Show the paths there could be, and the routes they need
    Paths(paths::PathsArgs),
    /// Print the rules of nftables that lead a network's connections to
    /// `ctcp client --redirect`
    RedirectRules(redirect_rules::RulesArgs),
    /// Send files and folders to another machine
    Send(Box<files::SendArgs>),
    /// Receive files and folders
    Receive(Box<files::ReceiveArgs>),
    /// Check a configuration file
    CheckConfig(config::CheckArgs),
    /// Tell what the servers and clients on this machine do
    Status(status::StatusArgs),
    /// Watch what the servers and clients on this machine do
    Top(status::TopArgs),
    /// Emulate a lossy, slow, long path
    #[command(subcommand)]
    Emulate(emulate::Emulate),
    /// Evaluate an equation of the papers: table, CSV, JSON, plot
    #[cfg(feature = "lab")]
    Model(model::ModelArgs),
    /// Simulate a scenario in virtual time: table, CSV, JSON, trace, plots
    #[cfg(feature = "lab")]
    Sim(Box<sim::SimArgs>),
    /// Run the papers' experiments beside the kernel's TCP
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Print a completion script for a shell
    Completions(shell::CompletionsArgs),
    /// Print the man page
    Man(shell::ManArgs),
}

fn main() -> ExitCode {
    // Usage errors leave with 2, help and version with 0: clap's own codes.
    let cli = match expanded_arguments() {
        Ok(args) => Cli::parse_from(args),
        Err(failure) => {
            eprintln!("ctcp: {}", failure.message);
            return failure.exit.into();
        }
    };
    start_log(cli.verbose, cli.quiet, cli.log_format == "json");
    let result = match cli.command {
        Command::Keygen(args) => keygen::run(&args),
        #[cfg(feature = "lab")]
        Command::Model(args) => model::run(&args),
        #[cfg(feature = "lab")]
        Command::Sim(args) => check_kernel().and_then(|()| sim::run(&args)),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(&command),
        Command::CheckConfig(args) => config::check(&args, &built_command()),
        Command::RedirectRules(args) => redirect_rules::run(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
        command => run_async(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ctcp: {}", failure.message);
            failure.exit.into()
        }
    }
}

/// The command with everything that its subcommands inherit.
fn built_command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// What was typed, and what a configuration file adds.
fn expanded_arguments() -> Result<Vec<OsString>, Failure> {
    let args = std::env::args_os().collect();
    config::expand(&built_command(), args, |name| std::env::var_os(name))
}

/// The server's command line again, with its configuration file as it is now.
fn parse_server_again() -> Result<server::ServerArgs, Failure> {
    let args = expanded_arguments()?;
    let parsed = Cli::try_parse_from(args);
    let parsed = parsed.map_err(|error| Failure::usage(error.to_string().trim_end()))?;
    match parsed.command {
        Command::Server(args) => Ok(*args),
        _ => unreachable!("what was typed has not changed"),
    }
}

/// A kernel of the field that was asked for and is not there is said, not passed
/// over: whoever asks wants to test that one.
fn check_kernel() -> Result<(), Failure> {
    match ctcp_gf256::Kernel::requested() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!(
            "{}: {error}",
            ctcp_gf256::KERNEL_VARIABLE
        ))),
    }
}

fn run_async(command: Command) -> Result<(), Failure> {
    check_kernel()?;
    if let Command::Emulate(command) = &command {
        emulate::prepare(command)?;
    }
    let privileges = match &command {
        Command::Demo(args) => demo::prepare(args),
        _ => Ok(()),
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        match command {
            Command::Demo(args) => demo::run(*args, privileges).await,
            Command::Server(args) => server::run(*args).await,
            Command::Client(args) => client::run(*args).await,
            Command::Connect(args) => connect::run(*args).await,
            Command::Ping(args) => ping::run(*args).await,
            Command::Speedtest(args) => speedtest::run(*args).await,
            Command::Paths(args) => paths::run(args).await,
            Command::Send(args) => files::send(*args).await,
            Command::Receive(args) => files::receive(*args).await,
            Command::Status(args) => status::status(args).await,
            Command::Top(args) => status::top(args).await,
            Command::Emulate(command) => emulate::run(command).await,
            Command::Keygen(_)
            | Command::CheckConfig(_)
            | Command::RedirectRules(_)
            | Command::Completions(_)
            | Command::Man(_) => {
                unreachable!("these need no runtime")
            }
            #[cfg(feature = "lab")]
            Command::Model(_) | Command::Sim(_) => unreachable!("they need no runtime"),
            #[cfg(feature = "lab")]
            Command::Lab(_) => {
                unreachable!("the laboratory must not have threads at its start")
            }
        }
    });
    // A thread may still wait for stdin, and nobody waits for it.
    runtime.shutdown_background();
    result
}

/// Logs to stderr: what RUST_LOG asks for, else by -v and -q.
fn start_log(verbose: u8, is_quiet: bool, is_json: bool) {
    if is_quiet {
        output::set_quiet();
    }
    let level = match verbose {
        _ if is_quiet => "error",
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if is_json {
        output::set_json_notices();
        log.json().init();
    } else {
        log.init();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

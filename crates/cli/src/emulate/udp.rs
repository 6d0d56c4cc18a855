//! `ctcp emulate udp`: a lossy, slow, long path between two UDP ports.

use std::net::SocketAddr;

use clap::Args;
use ctcp_emu::{Relay, RelayConfig, RelayCounters, RelayHandle};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::counters::{link_json, link_table};
use crate::failure::Failure;
use crate::link_options::{Defaults, LinkOptions};
use crate::output::{self, ReadyArgs, notice, print_line};
use crate::signals::StopSignals;

/// Arguments of `ctcp emulate udp`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UdpArgs {
    /// Where clients send to; port 0 lets the system choose
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_LISTEN")]
    listen: SocketAddr,
    /// Whom they reach
    #[arg(long, value_name = "ADDR:PORT", env = "CTCP_TO")]
    to: SocketAddr,
    #[command(flatten)]
    link: LinkOptions,
    /// Names the random choices: the same seed and traffic lose the same packets
    #[arg(long, value_name = "N", default_value_t = 0, env = "CTCP_SEED")]
    seed: u64,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    ready: ReadyArgs,
}

/// Runs until a signal ends it.
pub(super) async fn run(args: UdpArgs) -> Result<(), Failure> {
    let (up, down) = args
        .link
        .path(Defaults::default())
        .links()
        .map_err(Failure::usage)?;
    let mut stop = StopSignals::new()?;
    let listen_failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
    let mut show = signal(SignalKind::user_defined1()).map_err(listen_failed)?;
    let mut rebind = signal(SignalKind::user_defined2()).map_err(listen_failed)?;
    let config = RelayConfig::new(args.listen, args.to, up, down).seed(args.seed);
    let relay = Relay::spawn(config).map_err(Failure::usage)?;
    output::result(
        args.json,
        "listening",
        relay.local_addr(),
        &format!("seed {}", args.seed),
    );
    let ready = args.ready.announce()?;
    loop {
        tokio::select! {
            () = stop.next() => break,
            _ = show.recv() => print_counters(args.json, &relay.counters().map_err(Failure::failed)?),
            _ = rebind.recv() => rebind_clients(&relay),
        }
    }
    drop(ready);
    print_counters(args.json, &relay.stop().map_err(Failure::failed)?);
    Ok(())
}

fn rebind_clients(relay: &RelayHandle) {
    match relay.rebind() {
        Ok(count) => notice(format_args!("{count} clients have new ports")),
        Err(error) => notice(error),
    }
}

fn print_counters(is_json: bool, counters: &RelayCounters) {
    if is_json {
        let line = json!({
            "up": link_json(&counters.up),
            "down": link_json(&counters.down),
            "clients": counters.clients,
            "clients_seen": counters.clients_seen,
            "send_errors": counters.send_errors,
            "target_refused": counters.target_refused,
        });
        return print_line(&line.to_string());
    }
    print_line(&format!("{:<24}{:>14}{:>14}", "packets", "up", "down"));
    for line in link_table(&counters.up, &counters.down) {
        print_line(&line);
    }
}

//! `ctcp paths`: the host's interfaces, which of them lead to the server, and the
//! routes and rules of [MP12] Table II.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use ctcp_iface::{Interface, PolicyRoutes, Snapshot};
use ctcp_proxy::target::{Host, Target};
use serde_json::{Value, json};
use tokio::net::lookup_host;

use crate::failure::Failure;
use crate::output::{ReadyArgs, notice, print_line};
use crate::signals::StopSignals;
use crate::state::StateArgs;

/// Addresses that stand for the Internet where no server is named ([RFC5737] §3,
/// [RFC3849] §2): they are nobody's, and nothing is sent there.
const ANYWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Arguments of `ctcp paths`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PathsArgs {
    /// Where paths are to lead [default: the server this client is paired with, else
    /// anywhere]
    #[arg(long, value_name = "HOST:PORT", env = "CTCP_SERVER")]
    server: Option<Target>,
    /// Set the routes and rules, as root, and remove them at the end (SIGTERM or
    /// Ctrl-C)
    #[arg(long)]
    apply: bool,
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    ready: ReadyArgs,
}

/// One address of one interface, as it is shown.
struct Row<'a> {
    interface: &'a Interface,
    address: Option<IpAddr>,
    gateway: Option<IpAddr>,
    /// Where it leads; else why nowhere.
    leads: Result<IpAddr, &'static str>,
    is_filtered: bool,
}

/// Shows what there is; with `--apply`, stays until a signal.
pub(crate) async fn run(args: PathsArgs) -> Result<(), Failure> {
    let mut stop = StopSignals::new()?;
    let remotes = remotes(&args).await?;
    let snapshot = Snapshot::take().map_err(Failure::failed)?;
    let rows = rows(&snapshot, &remotes);
    for row in &rows {
        print_line(&if args.json { json(row) } else { line(row) });
    }
    let mut used: Vec<&Interface> = Vec::new();
    for row in rows.iter().filter(|row| row.leads.is_ok()) {
        if used.iter().all(|known| known.index != row.interface.index) {
            used.push(row.interface);
        }
    }
    if used.is_empty() {
        notice("no interface leads there: see `ip address` and `ip route`");
    }
    warn_of_filters(&rows);
    // One way needs no rules to tell it from others.
    let routes = match used.len() {
        0 | 1 => PolicyRoutes::default(),
        _ => PolicyRoutes::plan(&snapshot, used),
    };
    for route in &routes.list {
        print_line(&match args.json {
            true => json!({ "command": route.to_string() }).to_string(),
            false => route.to_string(),
        });
    }
    if !args.apply {
        return Ok(());
    }
    let applied = routes.apply().map_err(Failure::failed)?;
    notice(format_args!(
        "{} routes and rules are set until this ends",
        applied.count()
    ));
    let _ready = args.ready.announce()?;
    stop.next().await;
    drop(applied);
    notice("they are removed");
    Ok(())
}

/// Where paths are to lead.
async fn remotes(args: &PathsArgs) -> Result<Vec<IpAddr>, Failure> {
    let paired = || {
        let state = args.state.locate().ok()?;
        Some(state.load_server().ok()??.address)
    };
    let Some(server) = args.server.clone().or_else(paired) else {
        return Ok(ANYWHERE.to_vec());
    };
    match &server.host {
        Host::Ip(ip) => Ok(vec![*ip]),
        Host::Name(name) => {
            let found = lookup_host((name.as_str(), server.port)).await;
            let found = found.map_err(|error| {
                Failure::usage(format!(
                    "the name {} does not resolve: {error}; give an address",
                    name.as_str()
                ))
            })?;
            Ok(found.map(|address: SocketAddr| address.ip()).collect())
        }
    }
}

/// Every interface but loopback; several rows if it has several addresses.
fn rows<'a>(snapshot: &'a Snapshot, remotes: &[IpAddr]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for interface in snapshot
        .interfaces
        .iter()
        .filter(|known| !known.is_loopback)
    {
        let usable = interface.addresses.iter().filter(|known| known.is_usable);
        let before = rows.len();
        for address in usable {
            rows.push(row(snapshot, interface, address.ip, remotes));
        }
        if rows.len() == before {
            rows.push(Row {
                interface,
                address: None,
                gateway: None,
                leads: Err("no address"),
                is_filtered: false,
            });
        }
    }
    rows
}

fn row<'a>(
    snapshot: &Snapshot,
    interface: &'a Interface,
    address: IpAddr,
    remotes: &[IpAddr],
) -> Row<'a> {
    let mut alike = remotes
        .iter()
        .filter(|remote| remote.is_ipv4() == address.is_ipv4());
    let way = alike.find_map(|remote| Some((*remote, snapshot.way(interface.index, *remote)?)));
    let leads = match way {
        _ if !interface.is_up => Err("switched off"),
        _ if !interface.is_running => Err("no carrier"),
        Some((remote, _)) => Ok(remote),
        None => Err("no route"),
    };
    Row {
        interface,
        address: Some(address),
        gateway: way.and_then(|(_, route)| route.gateway),
        is_filtered: leads.is_ok_and(|remote| snapshot.is_filtered(interface, address, remote)),
        leads,
    }
}

fn line(row: &Row<'_>) -> String {
    let address = row.address.map_or("-".to_owned(), |ip| ip.to_string());
    let way = match (row.leads, row.gateway) {
        (Err(why), _) => why.to_owned(),
        (Ok(_), Some(gateway)) => format!("usable, via {gateway}"),
        (Ok(_), None) => "usable".to_owned(),
    };
    let Interface {
        name,
        mtu_bytes,
        rp_filter,
        ..
    } = row.interface;
    format!("{name:<15} {address:<25} {way:<30} mtu {mtu_bytes:<6} rp_filter {rp_filter}")
}

fn json(row: &Row<'_>) -> String {
    let text = |ip: Option<IpAddr>| ip.map_or(Value::Null, |ip| ip.to_string().into());
    json!({
        "interface": row.interface.name,
        "address": text(row.address),
        "gateway": text(row.gateway),
        "is_usable": row.leads.is_ok(),
        "why_not": row.leads.err(),
        "mtu_bytes": row.interface.mtu_bytes,
        "rp_filter": row.interface.rp_filter,
        "is_filtered": row.is_filtered,
    })
    .to_string()
}

fn warn_of_filters(rows: &[Row<'_>]) {
    for row in rows.iter().filter(|row| row.is_filtered) {
        let name = &row.interface.name;
        notice(format_args!(
            "warning: rp_filter is strict on {name}, which drops what the server sends there; \
             `sysctl -w net.ipv4.conf.{name}.rp_filter=2` (and of `all`, if that is 1), or \
             `ctcp paths --apply`"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_iface::{Address, Prefix, Route};

    #[test]
    fn rows_say_what_is_usable_and_what_is_filtered() {
        let interface = |index: u32, name: &str, ip: Option<&str>, is_up| Interface {
            index,
            name: name.to_owned(),
            is_up,
            is_running: is_up,
            is_loopback: false,
            mtu_bytes: 1500,
            addresses: ip
                .map(|ip| Address {
                    ip: ip.parse().unwrap(),
                    prefix_len: 24,
                    is_usable: true,
                })
                .into_iter()
                .collect(),
            rp_filter: 1,
        };
        let route = |interface, gateway: &str, metric| Route {
            to: Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            interface,
            gateway: Some(gateway.parse().unwrap()),
            table: 254,
            metric,
        };
        let snapshot = Snapshot {
            interfaces: vec![
                interface(2, "eth0", Some("192.168.1.5"), true),
                interface(3, "wlan0", Some("10.9.8.7"), true),
                interface(4, "usb0", None, true),
                interface(5, "usb1", Some("10.5.5.5"), false),
            ],
            routes: vec![route(2, "192.168.1.1", 100), route(3, "10.9.0.1", 600)],
            rules: vec![],
        };
        let rows = rows(&snapshot, &ANYWHERE);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.leads.err(), row.is_filtered))
            .collect();
        assert_eq!(
            seen,
            [
                (None, false),
                (None, true),
                (Some("no address"), false),
                (Some("switched off"), false)
            ]
        );
        assert!(line(&rows[0]).contains("usable, via 192.168.1.1"));
        assert!(json(&rows[1]).contains("\"is_filtered\":true"));
    }
}

//! What the kernel of a namespace says and takes: snapshots, changes, routes and
//! rules. Where namespaces are not allowed, it says so and passes.

use std::net::IpAddr;
use std::process::{Command, ExitCode};
use std::time::Duration;

use ctcp_emu::namespace::Route;
use ctcp_emu::{LinkConfig, Namespace, Network, NetworkConfig, enter_user_namespace};
use ctcp_iface::{PolicyRoutes, Snapshot, Watcher};
use libtest_mimic::{Arguments, Trial};

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(reason) = try_namespaces()
    {
        eprintln!("SKIPPED: {reason}");
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 3] = [
        (
            "a_snapshot_shows_what_was_set_up",
            a_snapshot_shows_what_was_set_up,
        ),
        ("rules_are_set_and_taken_back", rules_are_set_and_taken_back),
        ("changes_are_heard_of", changes_are_heard_of),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn try_namespaces() -> Result<(), String> {
    enter_user_namespace().map_err(|error| error.to_string())?;
    Namespace::new("trial").map_err(|error| error.to_string())?;
    ctcp_emu::preflight::network()
        .map(drop)
        .map_err(|error| error.to_string())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two paths; the left side has a default route over the second.
fn network() -> Network {
    let wire = || LinkConfig::unlimited(Duration::ZERO);
    let mut config = NetworkConfig::single(wire(), wire());
    config.add_path(wire(), wire());
    let network = Network::start(config).expect("a network");
    let default = Route {
        gateway: Some(ip("10.77.1.2")),
        ..Route::new(ip("0.0.0.0"), 0, "path1")
    };
    left(&network).set_route(&default).expect("a route");
    network
}

fn left(network: &Network) -> &Namespace {
    network.namespace("left").expect("it has one")
}

fn snapshot(network: &Network) -> Snapshot {
    let taken = left(network).run(Snapshot::take).expect("a thread");
    taken.expect("the kernel answers")
}

fn run(network: &Network, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments);
    let mut process = left(network).spawn(command).expect("it starts");
    assert!(process.wait().expect("it ends").success(), "{arguments:?}");
}

fn a_snapshot_shows_what_was_set_up() {
    let network = network();
    let snapshot = snapshot(&network);
    let names: Vec<_> = snapshot
        .interfaces
        .iter()
        .map(|i| i.name.as_str())
        .collect();
    assert_eq!(names, ["lo", "path0", "path1"]);
    let path0 = snapshot.interface("path0").expect("it is there");
    assert!(path0.is_working() && !path0.is_loopback);
    assert_eq!(path0.source_for(ip("10.77.0.2")), Some(ip("10.77.0.1")));
    assert_eq!((path0.mtu_bytes, path0.addresses[0].prefix_len), (1500, 24));
    let with = snapshot.interface_with(ip("10.77.1.1")).expect("path1's");
    assert_eq!(with.name, "path1");
    let near = snapshot
        .way(path0.index, ip("10.77.0.2"))
        .expect("on the link");
    assert_eq!(near.gateway, None);
    assert_eq!(snapshot.way(path0.index, ip("10.9.9.9")), None);
    let far = snapshot
        .way(with.index, ip("10.9.9.9"))
        .expect("by default");
    assert_eq!(far.gateway, Some(ip("10.77.1.2")));
    let usable: Vec<_> = snapshot
        .usable(ip("10.9.9.9"))
        .map(|(i, _)| &i.name)
        .collect();
    assert_eq!(usable, ["path1"]);
}

fn rules_are_set_and_taken_back() {
    let network = network();
    let before = snapshot(&network);
    let wanted = ["path0", "path1"].map(|name| before.interface(name).expect("there"));
    let plan = PolicyRoutes::plan(&before, wanted);
    assert_eq!(plan.list.len(), 5, "{plan:?}");
    // Both must be done inside; so must be the dropping.
    let during = left(&network).run(|| {
        let again = plan.clone().apply().expect("root in here");
        std::mem::forget(again);
        let applied = plan.apply().expect("what is there already is no error");
        assert_eq!(applied.count(), 5);
        Snapshot::take().expect("the kernel answers")
    });
    let during = during.expect("a thread");
    assert!(during.has_rule_for(ip("10.77.0.1")), "{:?}", during.rules);
    assert!(during.has_rule_for(ip("10.77.1.1")));
    assert_eq!(during.routes.len(), before.routes.len() + 3);
    assert_eq!(snapshot(&network), before);
}

fn changes_are_heard_of() {
    if !std::path::Path::new("/usr/sbin/ip").exists() && !std::path::Path::new("/sbin/ip").exists()
    {
        eprintln!("SKIPPED: ip missing, install package iproute2");
        return;
    }
    let network = network();
    let inside = left(&network).run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut watcher = Watcher::new().expect("netlink");
            let mut wait_for = async |what: &str, is_so: fn(&Snapshot) -> bool| {
                let seen = async {
                    while !is_so(&Snapshot::take().expect("the kernel answers")) {
                        watcher.changed().await.expect("netlink");
                    }
                };
                let in_time = tokio::time::timeout(PATIENCE, seen).await;
                in_time.unwrap_or_else(|_| panic!("never heard: {what}"));
            };
            run(&network, "ip", &["link", "set", "path0", "down"]);
            wait_for("down", |now| {
                now.interface("path0")
                    .is_some_and(|known| !known.is_working())
            })
            .await;
            run(&network, "ip", &["link", "set", "path0", "up"]);
            wait_for("up", |now| {
                now.interface("path0")
                    .is_some_and(|known| known.is_working())
            })
            .await;
            run(
                &network,
                "ip",
                &["address", "add", "10.5.5.5/24", "dev", "path0"],
            );
            wait_for("address", |now| {
                now.interface_with([10, 5, 5, 5].into()).is_some()
            })
            .await;
            run(&network, "ip", &["link", "delete", "path1"]);
            wait_for("gone", |now| now.interface("path1").is_none()).await;
        });
    });
    inside.expect("a thread");
}

//! A client with two interfaces, in a namespace: it downloads over both while they
//! go down, come back and change addresses; what cannot be is named in one line
//! and the rest carries on; `ctcp paths`. Where namespaces are not allowed, it says
//! so and passes.

mod common;

use std::process::{Command, ExitCode, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Ctcp, Key, Web, assert_ok, body, curl, has, sha256, wait_until};
use ctcp_emu::{LinkConfig, Namespace, Network, NetworkConfig, enter_user_namespace};
use ctcp_units::{Rate, millis};
use libtest_mimic::{Arguments, Trial};
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(reason) = try_namespaces()
    {
        eprintln!("SKIPPED: {reason}");
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 8] = [
        (
            "a_download_outlives_its_interfaces_and_addresses",
            a_download_outlives_its_interfaces_and_addresses,
        ),
        (
            "paths_of_both_families_carry_one_download",
            paths_of_both_families_carry_one_download,
        ),
        (
            "a_path_that_ends_in_errors_is_left_and_comes_back",
            a_path_that_ends_in_errors_is_left_and_comes_back,
        ),
        (
            "a_path_that_icmp_errors_answer_is_left_and_comes_back",
            a_path_that_icmp_errors_answer_is_left_and_comes_back,
        ),
        (
            "a_kernel_that_does_not_answer_costs_no_path",
            a_kernel_that_does_not_answer_costs_no_path,
        ),
        (
            "what_cannot_be_is_named_and_the_rest_carries_on",
            what_cannot_be_is_named_and_the_rest_carries_on,
        ),
        (
            "auto_takes_interfaces_as_they_come",
            auto_takes_interfaces_as_they_come,
        ),
        (
            "rules_are_shown_set_and_removed",
            rules_are_shown_set_and_removed,
        ),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            if has("ip", "iproute2") && has("curl", "curl") {
                test();
            }
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn try_namespaces() -> Result<(), String> {
    enter_user_namespace().map_err(|error| error.to_string())?;
    Namespace::new("trial").map_err(|error| error.to_string())?;
    let kind = ctcp_emu::preflight::network();
    kind.map(drop).map_err(|error| error.to_string())
}

/// Two paths of 16 Mbit/s and 30 ms between a client's side and a server's, on
/// which a server and a web server run.
struct Lan {
    network: Network,
    _server: Ctcp,
    web: Web,
    server_key: Key,
    client_key: Key,
}

impl Lan {
    fn start() -> Self {
        Self::start_on("0.0.0.0:4500")
    }

    /// The server listens there.
    fn start_on(listen: &str) -> Self {
        let link = || LinkConfig::new(Rate::mbit(16), millis(15)).queue_bdp(1.0, millis(30));
        let mut config = NetworkConfig::single(link(), link());
        config.add_path(link(), link());
        config.seed = common::seed();
        let network = Network::start(config).expect("a network");
        let (server_key, client_key) = (Key::generate(), Key::generate());
        let right = network.namespace("right").expect("it has one");
        let start = || common::start_server(&server_key, &client_key, listen);
        let server = right.run(start).expect("a thread");
        let web = right.run(Web::start).expect("a thread");
        Self {
            network,
            _server: server,
            web,
            server_key,
            client_key,
        }
    }

    fn left(&self) -> &Namespace {
        self.network.namespace("left").expect("it has one")
    }

    /// Starts a client with these paths.
    fn client(&self, server: &str, paths: &[&str]) -> Ctcp {
        let mut args = vec!["client", "-v", "--json", "--socks", "127.0.0.1:0"];
        args.extend(["--server", server, "--server-key", &self.server_key.public]);
        args.extend(["--key", self.client_key.path()]);
        for path in paths {
            args.extend(["--path", path]);
        }
        self.left().run(|| Ctcp::start(&args)).expect("a thread")
    }

    /// Downloads through `client` and checks every byte.
    fn download(&self, client: &Ctcp, seed: u64, len: usize) {
        let url = self.web.url(&format!("/bytes/{seed}/{len}"));
        let socks = json_value(client, "socks5");
        let socks = socks.as_str().expect("text").parse().expect("an address");
        // The last one counts.
        let patience_s = (90 + len / 1_000_000).to_string();
        let run = || curl(socks, &["--max-time", &patience_s, &url]);
        let output = self.left().run(run).expect("a thread");
        assert_ok(&output);
        assert_eq!(output.stdout.len(), len);
        assert_eq!(
            sha256(&output.stdout),
            sha256(&body(seed, len)),
            "bytes differ"
        );
    }

    /// Downloads again and again, from now until `act` is through: what it does
    /// happens under way, however slow the machine. The first has `len` bytes.
    fn while_downloading(&self, client: &Ctcp, len: usize, act: impl FnOnce()) {
        /// Set when `act` is through, or has failed.
        struct End<'a>(&'a AtomicBool);

        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let transfer = scope.spawn(|| {
                self.download(client, 7, len);
                while !is_over.load(Ordering::Relaxed) {
                    self.download(client, 7, BYTES_A_ROUND / 4);
                }
            });
            let end = End(&is_over);
            act();
            drop(end);
            transfer.join().expect("every byte arrives");
        });
    }

    /// Runs `ip` on the client's side.
    fn ip(&self, line: &str) -> Output {
        ip_in(self.left(), line)
    }
}

fn ip_in(namespace: &Namespace, line: &str) -> Output {
    let run = || Command::new("ip").args(line.split(' ')).output();
    let output = namespace.run(run).expect("a thread").expect("it runs");
    assert_ok(&output);
    output
}

/// The value of a result line of a client that prints JSON.
fn json_value(client: &Ctcp, name: &str) -> Value {
    let mut found = None;
    wait_until(name, PATIENCE, || {
        let printed = client.stdout();
        let mut lines = printed
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        found = lines.find_map(|line: Value| line.get(name).cloned());
        found.is_some()
    });
    found.expect("it was waited for")
}

/// Paths that carried something, second by second as it was shown.
fn busy_paths(client: &Ctcp) -> Vec<usize> {
    let printed = client.stdout();
    let shown = printed.lines().filter_map(|line| {
        let line = serde_json::from_str::<Value>(line).ok()?;
        let rates = line["paths"].as_array()?.iter();
        let busy = rates.filter(|path| path["down_mbit"].as_f64() > Some(1.0));
        Some(busy.count())
    });
    shown.collect()
}

/// Waits for a second in which `count` paths carry something and which begins after
/// now: what was shown last may be of a time before things changed, and the next may
/// begin there.
fn wait_for_busy(what: &str, client: &Ctcp, count: usize) {
    let old = busy_paths(client).len() + 1;
    wait_until(what, PATIENCE, || {
        busy_paths(client)
            .iter()
            .skip(old)
            .any(|busy| *busy == count)
    });
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

fn wait_for(client: &Ctcp, part: &str, times: usize) {
    wait_until(&format!("{times} × {part}"), PATIENCE, || {
        count(&client.stderr(), part) >= times
    });
}

/// Lets `act` happen, and waits until `part` has been said once more than before.
fn says(client: &Ctcp, part: &str, act: impl FnOnce()) {
    let before = count(&client.stderr(), part);
    act();
    wait_for(client, part, before + 1);
}

/// Bytes downloaded while interfaces come and go once: twelve seconds at the least.
const BYTES_A_ROUND: usize = 48_000_000;

/// Length of that download. `CTCP_PATHS_BYTES=1000000000` takes some minutes, and
/// has interfaces come and go twenty times.
fn download_len() -> usize {
    let text = std::env::var("CTCP_PATHS_BYTES").ok();
    text.and_then(|text| text.parse().ok())
        .unwrap_or(BYTES_A_ROUND)
        .max(BYTES_A_ROUND)
}

fn a_download_outlives_its_interfaces_and_addresses() {
    let lan = Lan::start();
    let paths = ["path0", "path1@10.77.1.2:4500"];
    let client = lan.client("10.77.0.2:4500", &paths);
    wait_for(&client, "path path1@10.77.1.2:4500 is up: 10.77.1.1", 1);
    let (client, lan, len) = (&client, &lan, download_len());
    let says = |part: &str, act: &dyn Fn()| says(client, part, act);
    lan.while_downloading(client, len, || {
        let mut addresses = ["10.77.0.1", "10.77.0.77"];
        for _ in 0..len / BYTES_A_ROUND {
            wait_for_busy("both paths carry", client, 2);

            says("path path1@10.77.1.2:4500 from 10.77.1.1 has gone", &|| {
                drop(lan.ip("link set path1 down"));
            });
            thread::sleep(Duration::from_millis(500));
            says("path path1@10.77.1.2:4500 is up: 10.77.1.1", &|| {
                drop(lan.ip("link set path1 up"));
            });

            let [old, new] = addresses;
            says(&format!("path path0 from {old} has gone"), &|| {
                drop(lan.ip(&format!("address del {old}/24 dev path0")));
            });
            says(&format!("path path0 is up: {new}"), &|| {
                drop(lan.ip(&format!("address add {new}/24 dev path0")));
            });
            addresses.reverse();

            // All at once, and back one by one.
            lan.ip("link set path0 down");
            lan.ip("link set path1 down");
            thread::sleep(Duration::from_secs(1));
            lan.ip("link set path1 up");
            lan.ip("link set path0 up");
            wait_for_busy("both carry again", client, 2);
        }
    });
    assert_eq!(count(&client.stderr(), "connected to"), 1, "it never ended");
    let lines = client.stderr();
    assert!(count(&lines, "Mbit/s") > 2, "rates of each path: {lines}");
    if len > BYTES_A_ROUND {
        println!("{lines}\n{len} bytes arrived as they were sent");
    }
}

fn paths_of_both_families_carry_one_download() {
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        eprintln!("SKIPPED: this kernel has no IPv6");
        return;
    }
    let lan = Lan::start_on("[::]:4500");
    let right = lan.network.namespace("right").expect("it has one");
    for (namespace, address) in [(lan.left(), "fd00:77::1"), (right, "fd00:77::2")] {
        let address = address.parse().expect("an address");
        (namespace.add_address("path1", address, 64)).expect("the device is there");
    }
    let paths = ["path0", "path1@[fd00:77::2]:4500"];
    let client = lan.client("10.77.0.2:4500", &paths);
    wait_for(&client, "path path1@[fd00:77::2]:4500 is up: fd00:77::1", 1);
    lan.while_downloading(&client, BYTES_A_ROUND / 4, || {
        wait_for_busy("both carry", &client, 2);
        // The first path, over which it connected, goes, and comes back.
        lan.ip("link set path0 down");
        wait_for(&client, "path path0 from 10.77.0.1 has gone", 1);
        lan.ip("link set path0 up");
        wait_for_busy("both carry again", &client, 2);
    });
    assert_eq!(count(&client.stderr(), "connected to"), 1, "it never ended");
}

/// The server's host says at once that it knows no way.
fn a_path_that_ends_in_errors_is_left_and_comes_back() {
    let lan = Lan::start();
    let right = lan.network.namespace("right").expect("it has one");
    let paths = ["path0", "path1@10.77.1.2:4500"];
    let client = lan.client("10.77.0.2:4500", &paths);
    wait_for(&client, "path path1@10.77.1.2:4500 is up: 10.77.1.1", 1);
    lan.while_downloading(&client, BYTES_A_ROUND / 4, || {
        wait_for_busy("both carry", &client, 2);
        ip_in(right, "route add unreachable 10.77.1.1/32");
        wait_for_busy("one is left", &client, 1);
        ip_in(right, "route del unreachable 10.77.1.1/32");
        wait_for_busy("both carry again", &client, 2);
    });
    assert_eq!(count(&client.stderr(), "connected to"), 1, "it never ended");
}

/// Datagrams that come over path 1 are answered with ICMP's "host unreachable" at both ends, as
/// by a router that has lost its way: nothing but these errors passes. They count as
/// silence (docs/guide/paths.md), so the other path carries on.
fn a_path_that_icmp_errors_answer_is_left_and_comes_back() {
    let lan = Lan::start();
    let right = lan.network.namespace("right").expect("it has one");
    let ends = [lan.left(), right];
    let paths = ["path0", "path1@10.77.1.2:4500"];
    let client = lan.client("10.77.0.2:4500", &paths);
    wait_for(&client, "path path1@10.77.1.2:4500 is up: 10.77.1.1", 1);
    for end in ends {
        // Who forwards says why it does not, to everybody.
        for (name, value) in [
            ("net.ipv4.conf.path1.forwarding", "1"),
            ("net.ipv4.icmp_ratemask", "0"),
        ] {
            end.set_sysctl(name, value).expect("it is there");
        }
        // Before the rule that knows the own addresses, which is the first by itself.
        ip_in(end, "route add unreachable default table 77");
        ip_in(end, "rule add pref 20 table local");
        ip_in(end, "rule del pref 0");
    }
    lan.while_downloading(&client, BYTES_A_ROUND / 4, || {
        wait_for_busy("both carry", &client, 2);
        let before = ends.map(icmp_errors);
        for end in ends {
            ip_in(end, "rule add pref 10 iif path1 ipproto udp table 77");
        }
        wait_for_busy("one is left", &client, 1);
        for (end, before) in ends.into_iter().zip(before) {
            wait_until("errors arrive", PATIENCE, || icmp_errors(end) > before);
        }
        for end in ends {
            ip_in(end, "rule del pref 10");
        }
        wait_for_busy("both carry again", &client, 2);
    });
    let said = client.stderr();
    assert_eq!(count(&said, "connected to"), 1, "it never ended");
    assert_eq!(count(&said, "has gone"), 0, "an error closes no path");
}

/// ICMP messages "destination unreachable" that arrived there.
fn icmp_errors(namespace: &Namespace) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = namespace.run(read).expect("a thread").expect("it is there");
    let mut lines = text.lines().filter(|line| line.starts_with("Icmp: "));
    let mut words = || lines.next().expect("two lines").split(' ');
    let (names, values) = (words(), words());
    let mut found = names.zip(values);
    let found = found.find(|(name, _)| *name == "InDestUnreachs");
    found.expect("it is counted").1.parse().expect("a count")
}

/// All descriptors are used up when an address comes, so that the client cannot ask
/// what there is.
fn a_kernel_that_does_not_answer_costs_no_path() {
    let lan = Lan::start();
    let paths = ["path0", "path1@10.77.1.2:4500"];
    let client = lan.client("10.77.0.2:4500", &paths);
    wait_for(&client, "path path1@10.77.1.2:4500 is up: 10.77.1.1", 1);
    let usual = client.limit_descriptors(Some(0));
    says(&client, "cannot ask the kernel for interfaces", || {
        drop(lan.ip("address add 10.99.0.1/32 dev lo"));
    });
    assert_eq!(count(&client.stderr(), "has gone"), 0);
    // What it could not see it does when it can.
    lan.ip("link set path1 down");
    client.limit_descriptors(usual);
    wait_for(
        &client,
        "path path1@10.77.1.2:4500 from 10.77.1.1 has gone",
        1,
    );
    lan.ip("link set path1 up");
    wait_for(&client, "path path1@10.77.1.2:4500 is up: 10.77.1.1", 2);
    assert_eq!(count(&client.stderr(), "connected to"), 1, "it never ended");
}

fn what_cannot_be_is_named_and_the_rest_carries_on() {
    let lan = Lan::start();
    let paths = [
        "path0",
        "wlan7",
        "path0,backup",
        "10.77.1.1@203.0.113.9:4500",
        "10.77.1.1@10.77.1.99:4500",
        "10.5.5.5",
    ];
    let mut client = lan.client("10.77.0.2:4500", &paths);
    lan.download(&client, 8, 200_000);
    wait_for(&client, "10.77.1.99:4500 does not answer", 1);
    let said = client.stderr();
    for line in [
        "path wlan7: there is no interface wlan7 (there are: path0 path1)",
        "path path0: the same as path path0: once is enough",
        "path 10.77.1.1@203.0.113.9:4500: no route leads to 203.0.113.9 by path1",
        "path 10.77.1.1@10.77.1.99:4500: 10.77.1.99:4500 does not answer over it",
        "path 10.5.5.5: no interface has the address 10.5.5.5",
    ] {
        assert_eq!(count(&said, line), 1, "{line} in {said}");
    }
    lan.download(&client, 9, 200_000);
    client.terminate();

    let args = ["client", "--path", "wlan0,fast"];
    let output = Ctcp::run(&args);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("congestion=NAME, backup and cost=N"),
        "{said}"
    );
}

fn auto_takes_interfaces_as_they_come() {
    let lan = Lan::start();
    // Both lead to the server's address on path 0; its answers take path 0, too.
    lan.ip("link set path1 down");
    let client = lan.client("10.77.0.2:4500", &["auto"]);
    lan.download(&client, 10, 200_000);
    assert_eq!(count(&client.stderr(), "path path1 is up"), 0);
    lan.ip("link set path1 up");
    lan.ip("route add 10.77.0.2/32 dev path1 metric 500");
    wait_for(&client, "path path1 is up: 10.77.1.1 to 10.77.0.2:4500", 1);
    lan.ip("link set path0 down");
    wait_for(&client, "path path0 from 10.77.0.1 has gone", 1);
    lan.download(&client, 11, 200_000);
}

fn rules_are_shown_set_and_removed() {
    let lan = Lan::start();
    lan.ip("route add default dev path0 metric 10");
    lan.ip("route add default dev path1 metric 20");
    let filter = ("net.ipv4.conf.path1.rp_filter", "1");
    let set = lan.left().set_sysctl(filter.0, filter.1);
    set.expect("it is there");
    let shown = lan
        .left()
        .run(|| Ctcp::run(&["paths", "--server", "203.0.113.9:4500"]));
    let shown = shown.expect("a thread");
    assert_ok(&shown);
    let printed = String::from_utf8_lossy(&shown.stdout).into_owned();
    for part in [
        "path0",
        "10.77.1.1",
        "usable",
        "ip rule add from 10.77.1.1 table",
    ] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(said.contains("rp_filter is strict on path1"), "{said}");

    let rules = || String::from_utf8(lan.ip("rule show").stdout).expect("text");
    let before = rules();
    let args = ["paths", "--server", "203.0.113.9:4500", "--apply"];
    let mut applied = lan.left().run(|| Ctcp::start(&args)).expect("a thread");
    let during = rules();
    for address in ["10.77.0.1", "10.77.1.1"] {
        assert!(during.contains(&format!("from {address} ")), "{during}");
    }
    applied.signal(Signal::TERM);
    assert!(applied.wait().success(), "{}", applied.stderr());
    assert_eq!(rules(), before);
}

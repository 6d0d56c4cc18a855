//! Networks of namespaces: both kinds of attachment, TCP and UDP both ways,
//! losses and rates as configured, programs that end with us.
//!
//! This file has a `main` of its own, because whoever is not root enters a user
//! namespace before the first thread starts. Where namespaces are not allowed,
//! it says so and passes.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ctcp_emu::check::{self, CheckLine, Verdict};
use ctcp_emu::network::Path;
use ctcp_emu::{
    AttachmentKind, LinkConfig, Namespace, Network, NetworkConfig, PathConfig, TcpTuning,
    enter_user_namespace,
};
use ctcp_link::{EcnMarking, LinkCounters, LossModel, QueueSize};
use ctcp_units::{LossRate, Rate, millis};
use libtest_mimic::{Arguments, Failed, Trial};

const PATIENCE: Duration = Duration::from_secs(60);

type Test = fn(AttachmentKind);

const TESTS: &[(&str, Test)] = &[
    ("udp_goes_both_ways", udp_goes_both_ways),
    ("tcp_goes_both_ways", tcp_goes_both_ways),
    (
        "a_path_that_nobody_uses_is_silent",
        a_path_that_nobody_uses_is_silent,
    ),
    (
        "the_share_lost_is_the_one_asked_for",
        the_share_lost_is_the_one_asked_for,
    ),
    (
        "several_paths_keep_to_themselves",
        several_paths_keep_to_themselves,
    ),
    ("two_paths_share_a_bottleneck", two_paths_share_a_bottleneck),
    (
        "a_chain_of_links_adds_its_delays",
        a_chain_of_links_adds_its_delays,
    ),
    (
        "a_path_that_is_down_carries_nothing",
        a_path_that_is_down_carries_nothing,
    ),
    ("a_link_changes_under_way", a_link_changes_under_way),
    (
        "a_full_queue_marks_what_may_be_marked",
        a_full_queue_marks_what_may_be_marked,
    ),
    (
        "the_check_finds_what_was_configured",
        the_check_finds_what_was_configured,
    ),
    (
        "the_check_finds_what_is_wrong",
        the_check_finds_what_is_wrong,
    ),
    ("tcp_starts_as_the_route_says", tcp_starts_as_the_route_says),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(reason) = try_namespaces()
    {
        eprintln!("SKIPPED: {reason}");
        return ExitCode::SUCCESS;
    }
    let mut trials = vec![
        Trial::test("a_program_ends_with_its_namespace", || {
            a_program_ends_with_its_namespace();
            Ok(())
        }),
        Trial::test("work_inside_sees_the_namespace", || {
            work_inside_sees_the_namespace();
            Ok(())
        }),
    ];
    for kind in [AttachmentKind::Tun, AttachmentKind::Veth] {
        for &(name, test) in TESTS {
            trials.push(Trial::test(format!("{}::{name}", kind.name()), move || {
                if kind == AttachmentKind::Tun && !has_tun() {
                    eprintln!("SKIPPED: /dev/net/tun is out of reach");
                    return Ok::<(), Failed>(());
                }
                test(kind);
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn try_namespaces() -> Result<(), String> {
    enter_user_namespace().map_err(|error| error.to_string())?;
    Namespace::new("trial").map_err(|error| error.to_string())?;
    Ok(())
}

fn has_tun() -> bool {
    let tun = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    tun.is_ok()
}

/// A link that does nothing.
fn wire() -> LinkConfig {
    LinkConfig::unlimited(Duration::ZERO)
}

fn start(kind: AttachmentKind, config: NetworkConfig) -> Network {
    let config = NetworkConfig {
        attachment: Some(kind),
        seed: 7,
        ..config
    };
    Network::start(config).expect("a network")
}

fn left(network: &Network) -> &Namespace {
    network.namespace("left").expect("it has one")
}

fn right(network: &Network) -> &Namespace {
    network.namespace("right").expect("it has one")
}

/// A socket of `namespace` at `address` that waits for [`PATIENCE`] at most.
fn udp(namespace: &Namespace, address: IpAddr) -> UdpSocket {
    let bind = || UdpSocket::bind((address, 0)).expect("the address is there");
    let socket = namespace.run(bind).expect("a thread");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// Sockets at both ends of a path, connected to one another.
fn udp_pair(network: &Network, path: &Path) -> (UdpSocket, UdpSocket) {
    let namespace = |name: &str| network.namespace(name).expect("it has one");
    let one = udp(namespace(&path.left.namespace), path.left.address);
    let other = udp(namespace(&path.right.namespace), path.right.address);
    one.connect(other.local_addr().expect("bound"))
        .expect("a route");
    other
        .connect(one.local_addr().expect("bound"))
        .expect("a route");
    (one, other)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut space = [0; 2000];
    let len = socket.recv(&mut space).expect("it arrives");
    space[..len].to_vec()
}

/// Datagrams that arrive within `wait` of one another.
fn drain(socket: &UdpSocket, wait: Duration) -> usize {
    socket.set_read_timeout(Some(wait)).expect("a timeout");
    let mut space = [0; 2000];
    let count = std::iter::from_fn(|| socket.recv(&mut space).ok()).count();
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    count
}

/// Receives what is still to come of the `offered` datagrams that path 0's first link has
/// been given, `received` of which were received before; the link's counters.
fn receive_rest(
    network: &Network,
    offered: u64,
    mut received: u64,
    others: &[&UdpSocket],
) -> LinkCounters {
    let started = Instant::now();
    loop {
        let link = network.router().counters().expect("it runs").links[0];
        for socket in others {
            received += drain(socket, millis(50)) as u64;
        }
        let all_done = link.offered == offered && link.inside == 0;
        if all_done && link.delivered == received {
            return link;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{received} received of {link:?}"
        );
    }
}

fn udp_goes_both_ways(kind: AttachmentKind) {
    let network = start(kind, NetworkConfig::single(wire(), wire()));
    let (one, other) = udp_pair(&network, &network.paths()[0]);
    for len in [0, 1, 100, 1472, 1473, 1999] {
        let datagram = vec![len as u8; len];
        one.send(&datagram).expect("sent");
        assert_eq!(receive(&other), datagram);
        other.send(&datagram).expect("sent");
        assert_eq!(receive(&one), datagram);
    }
    let counters = network.router().counters().expect("it runs");
    // Two of the six were cut in two.
    assert_eq!(counters.links[0].delivered, 8);
    assert_eq!(counters.paths[0].to_left, 8);
    assert_eq!(counters.timing.count, 16);
}

/// Sends `len` bytes from one namespace to another by TCP and checks them.
fn transfer(from: &Namespace, to: &Namespace, at: IpAddr, len: usize) {
    let listener = to.run(|| TcpListener::bind((at, 0)).expect("the address is there"));
    let listener = listener.expect("a thread");
    let address: SocketAddr = listener.local_addr().expect("bound");
    let sent: Vec<u8> = (0..len).map(|index| (index / 7) as u8).collect();
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            let connect = || TcpStream::connect(address).expect("it listens");
            let mut stream = from.run(connect).expect("a thread");
            stream.write_all(&sent).expect("it is read");
        });
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("to its end");
        received
    });
    assert!(received == sent, "{} of {len} bytes", received.len());
}

fn tcp_goes_both_ways(kind: AttachmentKind) {
    let link = || LinkConfig::new(Rate::mbit(200), millis(1)).queue_bdp(4.0, millis(2));
    let network = start(kind, NetworkConfig::single(link(), link()));
    let path = &network.paths()[0];
    let len = 2_000_000;
    transfer(left(&network), right(&network), path.right.address, len);
    transfer(right(&network), left(&network), path.left.address, len);
    let counters = network.router().counters().expect("it runs");
    assert!(
        counters.links[0].delivered_bytes > 2_000_000,
        "{counters:?}"
    );
    assert!(
        counters.links[1].delivered_bytes > 2_000_000,
        "{counters:?}"
    );
    // Packets are as long as the wire's, not as a segmentation offload's.
    let mean = counters.links[0].delivered_bytes / counters.links[0].delivered;
    assert!(mean <= 1500, "{mean} bytes");
}

fn a_path_that_nobody_uses_is_silent(kind: AttachmentKind) {
    let network = start(kind, NetworkConfig::single(wire(), wire()));
    thread::sleep(Duration::from_millis(1200));
    let counters = network.router().counters().expect("it runs");
    assert_eq!(counters.links[0].offered + counters.links[1].offered, 0);
}

fn the_share_lost_is_the_one_asked_for(kind: AttachmentKind) {
    let losing = wire().loss(LossModel::Bernoulli(LossRate::clamped(0.2)));
    let network = start(kind, NetworkConfig::single(losing, wire()));
    let (one, other) = udp_pair(&network, &network.paths()[0]);
    let mut received = 0;
    for _ in 0..100 {
        for _ in 0..20 {
            one.send(&[1; 200]).expect("sent");
        }
        received += drain(&other, Duration::from_millis(3)) as u64;
    }
    let link = receive_rest(&network, 2000, received, &[&other]);
    // Five standard deviations of 2000 trials.
    assert!(1600_u64.abs_diff(link.delivered) < 90, "{link:?}");
    assert_eq!(network.missed(0).expect("there is one"), (0, 0));
}

fn several_paths_keep_to_themselves(kind: AttachmentKind) {
    let mut config = NetworkConfig::default();
    for _ in 0..3 {
        config.add_path(wire(), wire());
    }
    let network = start(kind, config);
    for (index, path) in network.paths().iter().enumerate() {
        let (one, other) = udp_pair(&network, path);
        for _ in 0..=index {
            one.send(b"x").expect("sent");
            receive(&other);
        }
    }
    let counters = network.router().counters().expect("it runs");
    let counts: Vec<_> = counters.paths.iter().map(|path| path.to_right).collect();
    assert_eq!(counts, [1, 2, 3]);
}

fn two_paths_share_a_bottleneck(kind: AttachmentKind) {
    let shared = LinkConfig::new(Rate::mbit(10), Duration::ZERO).queue(QueueSize::Packets(8));
    let config = NetworkConfig {
        links: vec![shared, wire()],
        paths: vec![
            PathConfig::new(0, 1).between("a", "right"),
            PathConfig::new(0, 1).between("b", "right"),
        ],
        ..NetworkConfig::default()
    };
    let network = start(kind, config);
    let (a, from_a) = udp_pair(&network, &network.paths()[0]);
    let (b, from_b) = udp_pair(&network, &network.paths()[1]);
    for _ in 0..20 {
        a.send(&[0; 1400]).expect("sent");
        b.send(&[0; 1400]).expect("sent");
    }
    let link = receive_rest(&network, 40, 0, &[&from_a, &from_b]);
    assert!(link.dropped_queue > 0, "{link:?}");
}

fn a_chain_of_links_adds_its_delays(kind: AttachmentKind) {
    let config = NetworkConfig {
        links: vec![
            LinkConfig::unlimited(millis(10)),
            LinkConfig::unlimited(millis(15)),
            wire(),
        ],
        paths: vec![PathConfig {
            forward: vec![0, 1],
            ..PathConfig::new(0, 2)
        }],
        ..NetworkConfig::default()
    };
    let network = start(kind, config);
    let (one, other) = udp_pair(&network, &network.paths()[0]);
    let fits = (0..200).any(|_| {
        let sent = Instant::now();
        one.send(b"x").expect("sent");
        receive(&other);
        let delay = sent.elapsed();
        assert!(delay >= millis(25), "{delay:?}");
        delay < millis(35)
    });
    assert!(fits, "later than 35 ms each time");
}

fn a_path_that_is_down_carries_nothing(kind: AttachmentKind) {
    let network = start(kind, NetworkConfig::single(wire(), wire()));
    let (one, other) = udp_pair(&network, &network.paths()[0]);
    let router = network.router();
    router.set_path_up(0, false).expect("there is one");
    one.send(b"lost").expect("sent");
    assert_eq!(drain(&other, Duration::from_millis(100)), 0);
    router.set_path_up(0, true).expect("there is one");
    one.send(b"here").expect("sent");
    assert_eq!(receive(&other), b"here");
    assert_eq!(router.counters().expect("it runs").paths[0].dropped_down, 1);
    let error = router.set_path_up(1, true).expect_err("there is one path");
    assert!(error.to_string().contains("no path 1"), "{error}");
}

fn a_link_changes_under_way(kind: AttachmentKind) {
    let network = start(kind, NetworkConfig::single(wire(), wire()));
    let (one, other) = udp_pair(&network, &network.paths()[0]);
    let all = LossModel::Bernoulli(LossRate::clamped(1.0));
    let router = network.router();
    router.reconfigure(0, wire().loss(all)).expect("possible");
    one.send(b"lost").expect("sent");
    assert_eq!(drain(&other, Duration::from_millis(100)), 0);
    let impossible = wire().duplication(2.0);
    let error = router.reconfigure(0, impossible).expect_err("refused");
    assert!(
        error.to_string().contains("duplication share is 2"),
        "{error}"
    );
    router.reconfigure(0, wire()).expect("possible");
    one.send(b"here").expect("sent");
    assert_eq!(receive(&other), b"here");
}

fn a_full_queue_marks_what_may_be_marked(kind: AttachmentKind) {
    let mut slow = LinkConfig::new(Rate::mbit(20), millis(5)).queue(QueueSize::Packets(200));
    slow.ecn = Some(EcnMarking {
        threshold: QueueSize::Packets(10),
        drops_not_capable: false,
    });
    let network = start(kind, NetworkConfig::single(slow, wire()));
    for namespace in network.namespaces() {
        namespace
            .set_sysctl("net.ipv4.tcp_ecn", "1")
            .expect("there is one");
    }
    let path = &network.paths()[0];
    transfer(
        left(&network),
        right(&network),
        path.right.address,
        2_000_000,
    );
    let counters = network.router().counters().expect("it runs");
    assert!(counters.links[0].marked > 0, "{counters:?}");
    let heard = right(&network).run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
    let heard = heard.expect("a thread").expect("there is one");
    let ce = netstat(&heard, "InCEPkts");
    assert_eq!(ce, counters.links[0].marked, "marks heard by the kernel");
    assert_eq!(counters.links[0].dropped_queue, 0);
}

/// A counter of `/proc/net/netstat`.
fn netstat(text: &str, name: &str) -> u64 {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let names = pair[0].split_whitespace();
        let values = pair[1].split_whitespace();
        if let Some((_, value)) = names.zip(values).find(|(found, _)| *found == name) {
            return value.parse().expect("a number");
        }
    }
    panic!("no counter {name}");
}

fn tcp_starts_as_the_route_says(kind: AttachmentKind) {
    let network = start(kind, NetworkConfig::single(wire(), wire()));
    let path = &network.paths()[0];
    let tuning = TcpTuning {
        congestion: Some("reno".to_owned()),
        initial_window_packets: Some(3),
        rto_min: Some(millis(250)),
    };
    network.tune_tcp(0, &tuning).expect("reno is always there");
    let listener = right(&network)
        .run(|| TcpListener::bind((path.right.address, 0)).expect("the address is there"))
        .expect("a thread");
    let address = listener.local_addr().expect("bound");
    let stream = left(&network)
        .run(|| TcpStream::connect(address).expect("it listens"))
        .expect("a thread");
    let congestion =
        nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::TcpCongestion);
    let congestion = congestion.expect("readable").into_string().expect("ASCII");
    assert_eq!(congestion.trim_end_matches('\0'), "reno");
    let unknown = TcpTuning {
        congestion: Some("carrierpigeon".to_owned()),
        ..TcpTuning::default()
    };
    let error = network.tune_tcp(0, &unknown).expect_err("no such thing");
    assert!(
        error.to_string().contains("modprobe tcp_carrierpigeon"),
        "{error}"
    );
}

/// Lines of a check that failed; other work on the machine can spoil one.
fn failures(network: &Network) -> Vec<CheckLine> {
    let lines = check::run(network).expect("it can be made");
    let failed = lines
        .into_iter()
        .filter(|line| line.verdict == Verdict::Fail);
    // How punctual the router is depends on the machine.
    failed
        .filter(|line| line.quantity != "timing_p99_us")
        .collect()
}

fn the_check_finds_what_was_configured(kind: AttachmentKind) {
    let up = LinkConfig::new(Rate::mbit(8), millis(10))
        .queue_bdp(1.0, millis(25))
        .loss(LossModel::Bernoulli(LossRate::clamped(0.05)));
    let down = LinkConfig::new(Rate::mbit(20), millis(15))
        .queue(QueueSize::Packets(50))
        .loss_after(LossModel::Bernoulli(LossRate::clamped(0.1)));
    let network = start(kind, NetworkConfig::single(up, down));
    let is_right = (0..10).any(|_| {
        let failed = failures(&network);
        println!("{failed:#?}");
        failed.is_empty()
    });
    assert!(is_right, "none of ten attempts");
}

fn the_check_finds_what_is_wrong(kind: AttachmentKind) {
    let link = || LinkConfig::new(Rate::mbit(8), millis(5)).queue(QueueSize::Packets(50));
    let network = start(kind, NetworkConfig::single(link(), link()));
    let other = LinkConfig::new(Rate::mbit(7), millis(9))
        .queue(QueueSize::Packets(50))
        .loss(LossModel::Bernoulli(LossRate::clamped(0.1)));
    network.router().reconfigure(0, other).expect("possible");
    let failed = failures(&network);
    for quantity in ["delay_ms", "loss_share", "rate_mbit"] {
        let found = failed
            .iter()
            .any(|line| line.quantity == quantity && line.direction == "up");
        assert!(found, "{quantity}: {failed:#?}");
    }
}

fn a_program_ends_with_its_namespace() {
    let namespace = Namespace::new("short").expect("a namespace");
    let mut command = Command::new("sh");
    // The one in the background has a session of its own.
    command.args(["-c", "setsid sleep 977 & echo started; wait"]);
    command.stdout(Stdio::piped());
    let mut process = namespace.spawn(command).expect("sh is everywhere");
    let mut line = [0; 8];
    let stdout = process.stdout.as_mut().expect("piped");
    stdout.read_exact(&mut line).expect("it says so");
    let started = Instant::now();
    while sleepers("977") == 0 && started.elapsed() < PATIENCE {
        thread::sleep(millis(5));
    }
    assert_eq!(sleepers("977"), 1);
    drop(process);
    drop(namespace);
    assert_eq!(sleepers("977"), 0);
}

/// Processes that sleep for so long.
fn sleepers(seconds: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("there is one").flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0");
    lines.filter(|line| line == wanted.as_bytes()).count()
}

fn work_inside_sees_the_namespace() {
    let namespace = Namespace::new("inside").expect("a namespace");
    namespace
        .set_sysctl("net.ipv4.tcp_ecn", "0")
        .expect("there is one");
    assert_eq!(
        namespace.sysctl("net.ipv4.tcp_ecn").expect("there is one"),
        "0"
    );
    let devices = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let devices = devices.expect("a thread").expect("there is one");
    let names = devices.lines().filter(|line| line.contains(':'));
    assert_eq!(names.count(), 1, "{devices}");
    let loopback = namespace.run(|| UdpSocket::bind("127.0.0.1:0").map(drop));
    loopback.expect("a thread").expect("loopback is up");
    let mut command = Command::new("no-such-program");
    command.arg("x");
    let error = namespace.spawn(command).expect_err("there is none");
    assert!(error.to_string().contains("is it installed?"), "{error}");
}

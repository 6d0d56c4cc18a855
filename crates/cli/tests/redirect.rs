//! A network behind a client: TCP of a namespace, redirected by the rules that
//! `ctcp redirect-rules` prints, arrives by both families; what is not redirected is
//! refused. Where namespaces or nftables are missing, it says so and passes.

mod common;

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Output, Stdio};

use common::{Ctcp, Key, Web, assert_ok, body, has, sha256};
use ctcp_emu::{Namespace, enter_user_namespace};
use libtest_mimic::{Arguments, Trial};

/// Nobody's addresses ([RFC5737], [RFC3849]): what is sent there must have been
/// redirected. The server has them on its loopback device, in its own namespace.
const FAR_V4: &str = "203.0.113.7";
const FAR_V6: &str = "2001:db8::7";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(reason) = try_namespaces()
    {
        eprintln!("SKIPPED: {reason}");
        return ExitCode::SUCCESS;
    }
    let trial = Trial::test("a_machine_behind_redirect_reaches_both_families", || {
        if has("nft", "nftables") && has("ip", "iproute2") && has("curl", "curl") {
            a_machine_behind_redirect_reaches_both_families();
        }
        Ok(())
    });
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn try_namespaces() -> Result<(), String> {
    enter_user_namespace().map_err(|error| error.to_string())?;
    let trial = Namespace::new("trial").map_err(|error| error.to_string())?;
    let made = trial.run(|| ip("link add trial0 type veth peer name trial1"));
    match made.map_err(|error| error.to_string())?.status.success() {
        true => Ok(()),
        false => Err("no veth devices here".to_owned()),
    }
}

fn ip(line: &str) -> Output {
    let mut ip = Command::new("ip");
    ip.args(line.split(' ')).output().expect("ip runs")
}

/// Runs `program` with this on its stdin.
fn feed(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it is ours")
}

fn curl(url: &str) -> Output {
    let quiet = [
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        "30",
    ];
    let mut curl = Command::new("curl");
    curl.args(quiet).arg(url).output().expect("curl runs")
}

/// Two namespaces with a cable between them: the client's, where everything is
/// redirected, and the server's, which alone has the far addresses.
fn namespaces() -> (Namespace, Namespace) {
    let near = Namespace::new("near").expect("allowed");
    let far = Namespace::new("far").expect("allowed");
    for (namespace, of) in [
        (&near, "all"),
        (&near, "default"),
        (&far, "all"),
        (&far, "default"),
    ] {
        let name = format!("net.ipv6.conf.{of}.disable_ipv6");
        namespace.set_sysctl(&name, "0").expect("there is IPv6");
    }
    let holder = far.holder_pid().expect("it has programs");
    let cable = format!("link add near type veth peer name far netns {holder}");
    let inside = |namespace: &Namespace, lines: &[&str]| {
        for line in lines {
            let output = namespace.run(|| ip(line)).expect("a thread");
            assert_ok(&output);
        }
    };
    inside(
        &near,
        &[
            "link set lo up",
            &cable,
            "address add 10.9.0.1/24 dev near",
            "-6 address add fd09::1/64 dev near nodad",
            "link set near up",
            "route add default via 10.9.0.2",
            "-6 route add default via fd09::2",
        ],
    );
    let (four, six) = (
        format!("address add {FAR_V4}/32 dev lo"),
        format!("-6 address add {FAR_V6}/128 dev lo nodad"),
    );
    inside(
        &far,
        &[
            "link set lo up",
            "address add 10.9.0.2/24 dev far",
            "-6 address add fd09::2/64 dev far nodad",
            "link set far up",
            &four,
            &six,
        ],
    );
    (near, far)
}

fn a_machine_behind_redirect_reaches_both_families() {
    let (near, far) = namespaces();
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let web_v4 = far
        .run(|| Web::start_on(&format!("{FAR_V4}:8080")))
        .expect("a thread");
    let web_v6 = far
        .run(|| Web::start_on(&format!("[{FAR_V6}]:8080")))
        .expect("a thread");
    let allowed = format!("{FAR_V4}/32,{FAR_V6}/128");
    let mut args = vec![
        "server",
        "--listen",
        "10.9.0.2:4500",
        "--key",
        server_key.path(),
    ];
    args.extend(["--allow", &client_key.public, "--egress-allow", &allowed]);
    let _server = far.run(|| Ctcp::start(&args)).expect("a thread");
    let mut args = vec![
        "client",
        "--server",
        "10.9.0.2:4500",
        "--socks",
        "127.0.0.1:0",
    ];
    args.extend([
        "--server-key",
        &server_key.public,
        "--key",
        client_key.path(),
    ]);
    args.extend(["--redirect", "[::]:1081", "-v"]);
    let client = near.run(|| Ctcp::start(&args)).expect("a thread");
    assert_eq!(client.result("redirect"), "[::]:1081");

    // Not through nftables: the listener is no open door.
    let direct = near
        .run(|| curl("http://127.0.0.1:1081/"))
        .expect("a thread");
    assert_ne!(direct.status.code(), Some(0));
    client.wait_for_stderr("was not redirected");

    let rules = Ctcp::run(&["redirect-rules", "--redirect", "[::]:1081", "--local"]);
    assert_ok(&rules);
    // Twice: setting them again must not add to them.
    for _ in 0..2 {
        let set = near.run(|| feed("nft", &["-f", "-"], &rules.stdout));
        assert_ok(&set.expect("a thread"));
    }
    for (web, seed) in [(&web_v4, 4), (&web_v6, 6)] {
        let url = web.url(&format!("/bytes/{seed}/300000"));
        let output = near.run(|| curl(&url)).expect("a thread");
        assert_ok(&output);
        assert_eq!(
            sha256(&output.stdout),
            sha256(&body(seed, 300_000)),
            "{url}"
        );
        let seen = web.peers();
        let is_far = |peer: &SocketAddr| [FAR_V4, FAR_V6].contains(&peer.ip().to_string().as_str());
        assert!(seen.iter().all(is_far), "the server connects: {seen:?}");
    }
    // A closed port of the far side is a reset, not a silence.
    let closed = format!("http://{FAR_V4}:8081/");
    let output = near.run(|| curl(&closed)).expect("a thread");
    assert_ne!(output.status.code(), Some(0));
    assert_ne!(output.status.code(), Some(28), "it must not hang");
}

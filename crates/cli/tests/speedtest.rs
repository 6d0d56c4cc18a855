//! `ctcp speedtest` over a path of a known rate.

mod common;

use common::{Ctcp, Key, assert_ok, seed};
use ctcp_emu::{LinkConfig, Relay, RelayConfig};
use ctcp_units::{Rate, millis};
use serde_json::Value;

#[test]
fn each_direction_is_tested_against_a_server_that_allows_it() {
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let server = |more: &[&str]| {
        let mut args = vec!["server", "--listen", "127.0.0.1:0"];
        args.extend(["--key", server_key.path(), "--allow", &client_key.public]);
        args.extend(more);
        Ctcp::start(&args)
    };
    let test = |address: &str, more: &[&str]| {
        let mut args = vec!["speedtest", "--server", address];
        args.extend(["--server-key", &server_key.public]);
        args.extend(["--key", client_key.path()]);
        args.extend(more);
        Ctcp::run(&args)
    };
    let allowing = server(&[]);
    let behind = allowing.result("listening").parse().expect("an address");
    let link = || LinkConfig::new(Rate::mbit(8), millis(10)).queue_bdp(1.0, millis(20));
    let any = "127.0.0.1:0".parse().expect("an address");
    let config = RelayConfig::new(any, behind, link(), link()).seed(seed());
    let relay = Relay::spawn(config).expect("the relay starts");
    let path = relay.local_addr().to_string();

    let output = test(&path, &["--time", "2s", "--json"]);
    assert_ok(&output);
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let number = |value: &Value| value.as_f64().expect("a number");
    for direction in ["up", "down"] {
        let found = &found[direction];
        // No machine is too slow for some bytes, and none moves more than the path.
        assert!(number(&found["bytes"]) > 10_000.0, "{direction}: {found}");
        let rate = number(&found["bits_per_second"]);
        assert!(rate < 8.8e6, "{direction}: {found}");
        let carried = &found["paths"][0];
        assert!(number(&carried["bytes"]) > 10_000.0, "{direction}: {found}");
        assert!(number(&carried["srtt_ms"]) >= 20.0, "{direction}: {found}");
    }

    let few = ["--direction", "up", "--bytes", "20kB", "--time", "60s"];
    let output = test(&path, &[&few[..], &["--json"]].concat());
    assert_ok(&output);
    let found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(found["up"]["bytes"], 20_000);
    assert_eq!(found["down"], Value::Null);

    let output = test(&path, &["--direction", "down", "--bytes", "50kB"]);
    assert_ok(&output);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("down ") && text.contains("path0"),
        "{text}"
    );

    for wrong in [["--time", "61s"], ["--bytes", "5GB"]] {
        let output = test(&path, &wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }

    let refusing = server(&["--no-speedtest"]);
    let output = test(&refusing.result("listening"), &["--time", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--no-speedtest"), "{said}");
}

//! `ctcp ping` over a path that loses more on the way out than back.

mod common;

use common::{Ctcp, Key, assert_ok, seed, start_server};
use ctcp_emu::{LinkConfig, Relay, RelayConfig};
use ctcp_link::LossModel;
use ctcp_units::{LossRate, Rate, millis};
use serde_json::Value;

#[test]
fn round_trips_and_losses_of_each_direction_are_told() {
    let (server_key, client_key) = (Key::generate(), Key::generate());
    let server = start_server(&server_key, &client_key, "127.0.0.1:0");
    let behind = server.result("listening").parse().expect("an address");
    let link = || LinkConfig::new(Rate::mbit(50), millis(15)).queue_bdp(1.0, millis(30));
    let lossy = link().loss(LossModel::Bernoulli(LossRate::clamped(0.3)));
    let any = "127.0.0.1:0".parse().expect("an address");
    let config = RelayConfig::new(any, behind, lossy, link()).seed(seed());
    let relay = Relay::spawn(config).expect("the relay starts");
    let path = relay.local_addr().to_string();
    let ping = |more: &[&str]| {
        let mut args = vec![
            "ping",
            "--server",
            &path,
            "--server-key",
            &server_key.public,
        ];
        args.extend(["--key", client_key.path()]);
        args.extend(more);
        Ctcp::run(&args)
    };
    let output = ping(&["--count", "100", "--interval", "20ms", "--json"]);
    assert_ok(&output);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&report["path"], &report["sent"]), (&0.into(), &100.into()));
    let number = |value: &Value| value.as_f64().expect("a number");
    // Starved of the processor, answers are late, never early.
    let rtt = number(&report["rtt_ms"]["median"]);
    assert!(rtt >= 30.0, "{report}");
    let out = &report["out"];
    assert!((0.1..0.5).contains(&number(&out["loss"])), "{report}");
    // On a busy machine one answer may tell of two pings: of the way back only the sum
    // is certain.
    let known = 100.0 - number(&report["unknown"]);
    let (arrived, back) = (known - number(&out["lost"]), &report["back"]);
    assert_eq!(number(&back["sent"]), arrived, "{report}");
    let answered = arrived - number(&back["lost"]);
    assert_eq!(number(&report["answered"]), answered, "{report}");
    assert!(answered > 10.0, "{report}");

    let output = ping(&["--count", "5", "--interval", "10ms"]);
    assert_ok(&output);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("lost on the way out") && text.contains("/5 "),
        "{text}"
    );

    // Bounded by time, whatever the count.
    let output = ping(&["--count", "100000", "--time", "500ms", "--json"]);
    assert_ok(&output);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(number(&report["sent"]) < 10_000.0, "{report}");

    drop(relay);
    let output = ping(&["--count", "1"]);
    assert_eq!(output.status.code(), Some(4), "nobody answers");
}

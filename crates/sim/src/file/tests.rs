use super::*;
use crate::scenario::Transport;

const GOOD: &str = r#"
seed = 7
time_limit = "20 s"
warmup = "2 s"
repetitions = 3

[network.dumbbell]
rtt = "25 ms"
down = { rate = "25 mbit", queue = "1 bdp", loss = "1 %" }

[[flow]]
name = "one"
tcp = { congestion = "reno" }

[sweep]
"network.dumbbell.down.loss" = ["0 %", "1 %"]
flow.one.tcp.congestion = ["reno", "cubic", "vegas"]
"#;

fn refused(text: &str) -> FileError {
    match parse("case.toml", text, &Overrides::default()) {
        Err(error) => error,
        Ok(batch) => panic!("{} points in\n{text}", batch.points.len()),
    }
}

#[test]
fn a_sweep_unfolds_into_every_combination() {
    let batch = parse("good.toml", GOOD, &Overrides::default()).unwrap();
    assert_eq!(batch.name, "good");
    assert_eq!(batch.points.len(), 6);
    let seeds: Vec<_> = batch.points[0].runs.iter().map(|run| run.seed).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let names: Vec<_> = batch
        .points
        .iter()
        .map(|point| {
            let Transport::Tcp(tcp) = &point.runs[0].flows[0].transport else {
                panic!("not TCP");
            };
            tcp.congestion.clone()
        })
        .collect();
    assert_eq!(names[..3], ["reno", "cubic", "vegas"]);
    let lossless = &batch.points[0].runs[0].network.links[0].config;
    let lossy = &batch.points[3].runs[0].network.links[0].config;
    assert_ne!(lossless, lossy);
    // The way back has the rate of the way there and loses nothing.
    assert!(
        batch.points[3].runs[0].network.links[1]
            .config
            .losses
            .is_empty()
    );
}

#[test]
fn the_command_line_wins() {
    let overrides = Overrides {
        seed: Some(40),
        repetitions: Some(1),
        set: vec![
            "network.dumbbell.down.loss=3 %".to_owned(),
            "warmup=1 s".to_owned(),
        ],
    };
    let batch = parse("good.toml", GOOD, &overrides).unwrap();
    assert_eq!(batch.points.len(), 3);
    assert_eq!(batch.points[0].runs[0].seed, 40);
    assert_eq!(batch.points[0].runs[0].warmup, Duration::from_secs(1));
}

#[test]
fn every_mistake_names_file_line_key_and_what_is_allowed() {
    for (from, to, line, says) in [
        ("warmup =", "warm_up =", 4, "unknown field `warm_up`"),
        ("\"2 s\"", "\"2 parsecs\"", 4, "a time with its unit"),
        ("25 mbit", "25", 9, "a rate with its unit"),
        (
            "loss = \"1 %\" }",
            "loss = \"120 %\" }",
            9,
            "between 0 and 100 %",
        ),
        ("1 bdp", "0 bdp", 9, "a queue above 0"),
        ("\"20 s\"", "\"0 s\"", 3, "a time above 0"),
        ("\"2 s\"", "\"30 s\"", 4, "leaves nothing after a warm-up"),
        (
            "repetitions = 3",
            "repetitions = 0",
            5,
            "it must be 1 to 10000",
        ),
        ("\"vegas\"]", "\"warp\"]", 17, "choose auto"),
        ("tcp = {", "tpc = {", 13, "unknown field `tpc`"),
        ("flow.one", "flow.two", 17, "no `flow` called `two`"),
        (
            "[\"0 %\", \"1 %\"]",
            "\"0 %\"",
            16,
            "needs a list of values",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let error = refused(&text);
        let message = error.to_string();
        assert!(message.starts_with("case.toml"), "{message}");
        assert!(message.contains(says), "{to}: {message}");
        assert_eq!(error.line, Some(line), "{to}: {message}");
    }
}

#[test]
fn impossible_settings_of_a_transport_name_the_flow_s_line_and_what_is_allowed() {
    for (transport, says) in [
        ("ctcp = { block = 0 }", "it must be 1 to 255 symbols"),
        ("ctcp = { mtu = 575 }", "it must be 576 to 65527 bytes"),
        (
            "tcp = { rto_min = \"61 s\" }",
            "must not exceed `rto_max`, 60s",
        ),
        ("tcp = { receive_window = 0 }", "lets nothing through"),
        ("constant = { rate = \"0 mbit\" }", "must be above 0"),
        ("go-back-n = { window_max = 0.0 }", "must be above 0"),
        ("tcp-nc = { redundancy = 0.5 }", "between 1 and 16"),
    ] {
        let text = format!(
            "time_limit = \"1 s\"\n[network.dumbbell]\nrtt = \"40 ms\"\n\
             down = {{ rate = \"1 mbit\", queue = \"1 bdp\" }}\n\
             [[flow]]\nname = \"one\"\n{transport}\n"
        );
        let error = refused(&text);
        assert!(error.message.contains(says), "{error}");
        assert_eq!(error.line, Some(6), "{error}");
    }
    for possible in ["ctcp = { mtu = 576 }", "tcp = { rto_min = \"60 s\" }"] {
        let table = toml::from_str(possible).unwrap();
        assert!(super::transport(&table).is_ok(), "{possible}");
    }
}

#[test]
fn a_flow_without_transport_is_told_what_there_is() {
    let text = GOOD
        .replace("tcp = { congestion = \"reno\" }", "")
        .replace("flow.one.tcp.congestion", "\"flow.one.start\"")
        .replace("\"reno\", \"cubic\", \"vegas\"", "\"1 s\"");
    let message = refused(&text).to_string();
    assert!(
        message.contains("flow `one`: needs one of `tcp`, `ctcp`"),
        "{message}"
    );
}

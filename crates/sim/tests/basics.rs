//! Whole runs: they repeat, they end, they count.

use ctcp_link::{LinkConfig, LossModel};
use ctcp_sim::{
    Application, CtcpConfig, Ended, Flow, Network, Report, Scenario, TcpConfig, Transport, run_all,
};
use ctcp_units::{LossRate, Rate, micros, millis, seconds};
use std::sync::{Arc, Mutex};

fn link(loss: f64) -> LinkConfig {
    LinkConfig::new(Rate::mbit(25), micros(12_500))
        .queue_bdp(1.0, millis(25))
        .loss(LossModel::Bernoulli(LossRate::clamped(loss)))
}

fn tcp(name: &str) -> Transport {
    Transport::Tcp(TcpConfig::default().congestion(name))
}

fn ctcp() -> Transport {
    Transport::Ctcp(CtcpConfig::default())
}

fn scenario(loss: f64) -> Scenario {
    Scenario::new("basics", Network::dumbbell(link(loss), link(0.0))).time_limit(seconds(10))
}

fn traced(scenario: &Scenario) -> (String, Report) {
    let trace = Arc::new(Mutex::new(String::new()));
    let sink = trace.clone();
    let report = scenario
        .run_traced(move |event| {
            use std::fmt::Write;
            writeln!(sink.lock().unwrap(), "{event:?}").unwrap();
        })
        .unwrap();
    let text = trace.lock().unwrap().clone();
    (text, report)
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let scenario = scenario(0.02)
        .flow(Flow::new("tcp", tcp("cubic")))
        .flow(Flow::new("ctcp", ctcp()))
        .time_limit(seconds(3));
    let (one, report) = traced(&scenario);
    let (two, again) = traced(&scenario);
    assert!(one.len() > 1_000_000, "{}", one.len());
    assert!(one == two, "two runs of the same seed differ");
    assert_eq!(report, again);
    let (other, _) = traced(&scenario.seed(2));
    assert!(one != other, "another seed gave the same trace");
}

#[test]
fn runs_over_all_cores_come_in_the_order_asked_for() {
    let scenarios: Vec<_> = (0..6)
        .map(|seed| {
            scenario(0.01)
                .seed(seed)
                .flow(Flow::new("one", tcp("reno")))
                .time_limit(seconds(2 + seed))
        })
        .collect();
    let together = run_all(&scenarios);
    for (scenario, report) in scenarios.iter().zip(together) {
        assert_eq!(report, scenario.run());
    }
}

#[test]
fn a_file_arrives_in_full_and_the_run_ends_with_it() {
    let file = Application::File { bytes: 1_000_000 };
    for transport in [tcp("reno"), ctcp()] {
        let report = scenario(0.01)
            .flow(Flow::new("file", transport).application(file.clone()))
            .run()
            .unwrap();
        let flow = &report.flows[0];
        assert_eq!(report.ended, Ended::AllDone);
        assert!(flow.is_done && report.simulated < seconds(10));
        assert_eq!(flow.bytes_in_order, 1_000_000);
        assert_eq!(flow.completions.len(), 1);
        assert_eq!(flow.completions[0].span(), flow.measured);
        assert!(report.notes().is_empty(), "{:?}", report.notes());
    }
}

#[test]
fn what_cannot_end_is_cut_at_its_limit_and_says_so() {
    let dead = LinkConfig::new(Rate::ZERO, millis(10));
    for (name, down) in [("rate 0", dead), ("loss 1", link(1.0))] {
        for transport in [tcp("reno"), ctcp()] {
            let report = Scenario::new(name, Network::dumbbell(down.clone(), link(0.0)))
                .flow(Flow::new("file", transport).application(Application::File { bytes: 1000 }))
                .time_limit(seconds(100))
                .run()
                .unwrap();
            assert_eq!(report.ended, Ended::TimeLimit, "{name}");
            assert_eq!(report.simulated, seconds(100));
            assert!(!report.flows[0].is_done);
            let notes = report.notes();
            assert!(notes[0].contains("had not ended at 100.000 s"), "{notes:?}");
        }
    }
}

#[test]
fn a_run_of_too_many_events_is_cut_and_says_so() {
    let report = scenario(0.0)
        .flow(Flow::new("bulk", tcp("reno")))
        .events_max(10_000)
        .run()
        .unwrap();
    assert_eq!(report.ended, Ended::EventLimit);
    assert!(report.packet_events <= 10_010);
    assert!(report.notes()[0].contains("raise events_max"));
}

#[test]
fn one_more_flow_changes_nothing_for_a_flow_elsewhere() {
    let network =
        || Network::parallel([("a", link(0.01), link(0.0)), ("b", link(0.01), link(0.0))]);
    let flow =
        |name: &str, path: usize| Flow::new(name, ctcp()).path(network().paths[path].clone());
    let alone = Scenario::new("alone", network())
        .flow(flow("one", 0))
        .time_limit(seconds(5))
        .run()
        .unwrap();
    let both = Scenario::new("both", network())
        .flow(flow("two", 1))
        .flow(flow("one", 0))
        .time_limit(seconds(5))
        .run()
        .unwrap();
    assert_eq!(alone.flow("one"), both.flow("one"));
}

#[test]
fn samples_cover_the_run_at_their_interval() {
    let report = scenario(0.0)
        .flow(Flow::new("bulk", tcp("reno")))
        .samples(millis(100))
        .run()
        .unwrap();
    assert_eq!(report.flows[0].samples.len(), 100);
    assert_eq!(report.links[0].samples.len(), 100);
    let mean = report.flows[0]
        .samples
        .iter()
        .map(|sample| sample.goodput_bits)
        .sum::<f64>()
        / 100.0;
    assert!((mean / report.flows[0].goodput_bits - 1.0).abs() < 1e-9);
}

#[test]
fn impossible_scenarios_are_refused_by_name() {
    use ctcp_sim::ScenarioError;
    assert_eq!(scenario(0.0).run(), Err(ScenarioError::NoFlows));
    let twice = scenario(0.0)
        .flow(Flow::new("a", ctcp()))
        .flow(Flow::new("a", ctcp()));
    assert_eq!(twice.run(), Err(ScenarioError::NameTaken("a".to_owned())));
    let unknown = scenario(0.0).flow(Flow::new("a", tcp("warp")));
    let refusal = unknown.run().unwrap_err().to_string();
    assert!(
        refusal.starts_with("flow `a`: there is no congestion controller `warp`"),
        "{refusal}"
    );
}

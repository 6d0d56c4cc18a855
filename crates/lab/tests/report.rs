//! The report over synthetic records: made here, from formulas and a seed, never
//! kept as results.

use std::fs;

use ctcp_lab::point::{Point, System, Workload};
use ctcp_lab::record::{DirectionOutcome, Fidelity, FlowOutcome, PathOutcome, Provenance, Record};
use ctcp_lab::report::{self, ReportError};
use ctcp_lab::{Scale, recipes};
use ctcp_units::Random;

/// What a flow might get: near the line for CTCP, √(1.5/p) for TCP.
fn goodput_mbit(point: &Point, index: usize, noise: f64) -> f64 {
    let path = &point.paths[0];
    let p = path.loss_down.process.mean_share().unwrap_or(0.5);
    let rate = path.rate_mbit * 0.957;
    let window_mbit = (1.5 / p.max(1e-6)).sqrt() * 12.0 / path.rtt_ms.max(1.0);
    let share = rate / point.flows.len() as f64;
    let tcp = window_mbit.min(share);
    let is_bbr =
        matches!(&point.flows[index].system, System::Tcp { congestion } if congestion == "bbr");
    let wanted = match &point.flows[index].system {
        System::Ctcp { .. } if point.flows.len() > 1 => rate - tcp,
        System::Ctcp { .. } => rate * (1.0 - 0.3 * p),
        _ if is_bbr => rate * (1.0 - p),
        _ => tcp,
    };
    wanted * (1.0 + 0.03 * (noise - 0.5))
}

fn outcome(point: &Point, index: usize, random: &mut Random) -> FlowOutcome {
    let goodput = goodput_mbit(point, index, random.unit()).max(0.01);
    let mut flow = FlowOutcome {
        name: point.flows[index].name.clone(),
        goodput_mbit: goodput,
        counted_s: 30.0,
        delivered_bytes: (goodput * 30e6 / 8.0) as u64,
        series_interval_s: 1.0,
        ..FlowOutcome::default()
    };
    flow.wire_bytes = Some((flow.delivered_bytes as f64 * 1.06) as u64);
    match point.flows[index].workload {
        Workload::Bulk { .. } => {}
        Workload::Fetch { bytes, count, .. } => {
            let each = bytes as f64 * 8e-6 / goodput + 3.0 * point.paths[0].rtt_ms / 1e3;
            for _ in 0..count {
                if flow.completion_s.iter().sum::<f64>() + each > point.time_limit_s {
                    flow.is_censored = true;
                    break;
                }
                flow.completion_s.push(each * (1.0 + 0.1 * random.unit()));
            }
        }
        Workload::Video {
            duration_s,
            rate_mbit,
            ..
        } => {
            let played = (duration_s * rate_mbit / goodput).max(duration_s) + 0.7;
            flow.is_censored = played > point.time_limit_s;
            flow.playout_s = (!flow.is_censored).then_some(played);
            flow.stalls = if goodput < rate_mbit {
                (duration_s / 0.6) as u32
            } else {
                0
            };
        }
    }
    flow
}

fn synthetic(point: Point) -> Record {
    let mut random = Random::from_seed(point.seed);
    let flows = (0..point.flows.len()).map(|index| outcome(&point, index, &mut random));
    let flows: Vec<_> = flows.collect();
    let down = DirectionOutcome {
        offered: 10_000,
        lost: (1e4 * point.paths[0].loss_down.process.mean_share().unwrap_or(0.5)) as u64,
        ..DirectionOutcome::default()
    };
    Record {
        flows,
        started_at: "2000-01-01T00:00:00Z".to_owned(),
        elapsed_s: 35.0,
        provenance: Provenance {
            commit: "synthetic".to_owned(),
            version: "0".to_owned(),
            kernel: "none".to_owned(),
            machine: "made up by a test & <nothing> measured".to_owned(),
            programs: vec!["curl 8".to_owned()],
        },
        fidelity: Some(Fidelity {
            timing_error_p50_us: 20.0,
            timing_error_p99_us: 80.0 + 20.0 * random.unit(),
            wakeup_delay_p99_us: 200.0,
            idle_share: 0.4,
            parallel_runs: 6,
            is_busy: random.chance(0.02),
        }),
        paths: vec![PathOutcome {
            down,
            ..PathOutcome::default()
        }],
        error: None,
        point,
    }
}

fn all(scale: Scale) -> Vec<Record> {
    let points = recipes()
        .iter()
        .flat_map(|recipe| recipe.points(scale, 1).unwrap());
    points.map(synthetic).collect()
}

/// Every tag that is opened is closed, in order.
fn assert_well_formed(name: &str, text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest
            .find('>')
            .unwrap_or_else(|| panic!("{name}: a tag without end"));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let tag_name = tag.split([' ', '\n']).next().unwrap_or("");
        if tag.starts_with('!') || tag.starts_with('?') || tag.ends_with('/') {
            continue;
        }
        if let Some(closed) = tag_name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{name}: </{closed}>");
        } else if !["meta", "br"].contains(&tag_name) {
            open.push(tag_name);
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} stay open");
}

#[test]
fn the_report_is_well_formed_and_needs_nothing_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    // To be looked at: CTCP_REPORT_DIR keeps the pages.
    let out = std::env::var_os("CTCP_REPORT_DIR").map_or(folder.path().to_owned(), Into::into);
    for (scale, name) in [(Scale::Quick, "quick"), (Scale::Full, "full")] {
        let records = all(scale);
        let summary = report::write(&records, &out.join(name)).unwrap();
        assert_eq!(summary.experiments, recipes().len());
        assert_eq!(summary.runs, records.len());
        let claims: usize = recipes().iter().map(|recipe| recipe.claims.len()).sum();
        assert_eq!(summary.met + summary.not_met + summary.not_measured, claims);
        assert!(summary.met > 0 && summary.not_met > 0);
        let page = fs::read_to_string(&summary.files[0]).unwrap();
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            let found = page
                .replace("http://www.w3.org/2000/svg", "")
                .contains(outside);
            assert!(!found, "{outside}");
        }
        for nonsense in ["NaN", "inf\"", "inf ", "None"] {
            assert!(!page.contains(nonsense), "{nonsense}");
        }
        for file in &summary.files {
            let text = fs::read_to_string(file).unwrap();
            let extension = file.extension().and_then(|e| e.to_str());
            if matches!(extension, Some("html" | "svg")) {
                assert_well_formed(&file.display().to_string(), &text);
            }
        }
    }
}

/// A quick run on a busy machine, kept to test the reader of results.
fn sample() -> Vec<Record> {
    let lines = include_str!("data/sample.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

#[test]
fn the_report_over_committed_records_says_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let summary = report::write(&sample(), folder.path()).unwrap();
    assert_eq!(
        (summary.experiments, summary.runs, summary.failed_runs),
        (1, 20, 0)
    );
    let page = fs::read_to_string(&summary.files[0]).unwrap();
    assert_well_formed("sample", &page);
    // 23.43 of 25 Mbit/s at 1 % loss, by the record itself.
    assert!(
        page.contains("0.937 at loss 1 % (asked: at least 0.96)"),
        "C1 of fig2a"
    );
    assert!(page.contains("No runs of: H-TCP, Westwood, Veno."));
    assert!(page.contains("20 on a machine too busy to be trusted"));
    let csv = fs::read_to_string(folder.path().join("cc14-fig2a-fig2a.csv")).unwrap();
    assert!(
        csv.lines()
            .any(|line| line.starts_with(",measured,Reno,0.01,0.189")),
        "{csv}"
    );
    assert!(
        csv.lines()
            .any(|line| line.starts_with(",printed,printed: standard TCP,0.01,0.2"))
    );
    assert!(
        csv.lines()
            .filter(|line| line.starts_with(",theory,"))
            .count()
            > 100
    );
}

#[test]
fn a_failed_run_is_named_and_counts_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut records: Vec<Record> = all(Scale::Quick)
        .into_iter()
        .filter(|record| record.point.experiment == "cc14-fig2a")
        .collect();
    records[0].error = Some("no <TUN> device".to_owned());
    records[0].flows.clear();
    let summary = report::write(&records, folder.path()).unwrap();
    assert_eq!((summary.failed_runs, summary.runs), (1, records.len() - 1));
    let page = fs::read_to_string(&summary.files[0]).unwrap();
    assert!(page.contains("no &lt;TUN&gt; device") && page.contains("1 run failed"));
}

#[test]
fn records_of_unknown_experiments_are_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = all(Scale::Quick);
    records[0].point.experiment = "mine".to_owned();
    let summary = report::write(&records, folder.path()).unwrap();
    assert_eq!(summary.unknown_experiments, ["mine"]);
    assert!(matches!(
        report::write(&records[..1], folder.path()),
        Err(ReportError::NoRecords)
    ));
}

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::record::FlowOutcome;
use crate::testbed::test_support::point;
use crate::venue::{Timing, Unable};

/// Answers at once; fails where the loss is 1.
#[derive(Debug, Default)]
struct Fake {
    ran: AtomicUsize,
    stops_after: Option<usize>,
}

impl Venue for Fake {
    fn preflight(&self, _: &[&Point]) -> Result<(), Unable> {
        Ok(())
    }

    fn load(&self, _: &Point) -> f64 {
        0.1
    }

    fn capacity_share(&self) -> f64 {
        1.0
    }

    fn run(&self, point: &Point, stop: &Stop) -> Result<Outcome, RunError> {
        let ran = self.ran.fetch_add(1, Ordering::SeqCst) + 1;
        if self.stops_after.is_some_and(|most| ran > most) {
            stop.set();
            return Err(RunError::Interrupted);
        }
        if point.at["loss"] == 1.0 {
            return Err(RunError::Failed("nothing passes".into()));
        }
        Ok(Outcome {
            flows: vec![FlowOutcome {
                goodput_mbit: 23.5,
                ..FlowOutcome::default()
            }],
            paths: vec![],
            timing: Some(Timing {
                p50_us: 20.0,
                p99_us: if point.at["loss"] == 0.5 {
                    5000.0
                } else {
                    50.0
                },
            }),
        })
    }
}

#[derive(Debug, Default)]
struct Ends(Mutex<Vec<Record>>);

impl Observer for Ends {
    fn on_begin(&self, _: &Point) {}

    fn on_end(&self, record: &Record) {
        self.0.lock().expect("no panic").push(record.clone());
    }
}

fn points(losses: &[f64]) -> Vec<Point> {
    losses
        .iter()
        .map(|&loss| {
            let mut point = point();
            point.at.insert("loss".into(), loss);
            point
        })
        .collect()
}

fn options(folder: &tempfile::TempDir) -> RunOptions {
    RunOptions {
        out: folder.path().join("results"),
        jobs: Some(2),
        again: false,
        provenance: Provenance {
            commit: "c0ffee".into(),
            ..Provenance::default()
        },
    }
}

fn go(fake: &Fake, losses: &[f64], options: &RunOptions) -> (Summary, usize, Vec<Record>) {
    let plan = Plan::new(points(losses), options).expect("readable");
    let venues = Venues {
        testbed: Some(fake),
        simulator: None,
    };
    let ends = Ends::default();
    let summary = run(&plan, &venues, options, &Stop::default(), &ends).expect("writable");
    (
        summary,
        plan.skipped,
        ends.0.into_inner().expect("no panic"),
    )
}

fn file(options: &RunOptions) -> PathBuf {
    options.out.join("test.jsonl")
}

#[test]
fn what_has_a_result_of_this_commit_is_not_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder);
    let (summary, skipped, _) = go(&Fake::default(), &[0.0, 0.013], &options);
    assert_eq!((summary.done, skipped), (2, 0));
    let fake = Fake::default();
    let (summary, skipped, _) = go(&fake, &[0.0, 0.013, 0.1], &options);
    assert_eq!((summary.done, skipped), (1, 2));
    assert_eq!(fake.ran.load(Ordering::SeqCst), 1);
    let mut other = options.clone();
    other.provenance.commit = "decaf".into();
    let (summary, skipped, _) = go(&Fake::default(), &[0.0], &other);
    assert_eq!((summary.done, skipped), (1, 0));
    other.again = true;
    let (summary, skipped, _) = go(&Fake::default(), &[0.0], &other);
    assert_eq!((summary.done, skipped), (1, 0));
}

#[test]
fn a_point_that_fails_is_recorded_and_the_rest_carries_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder);
    let (summary, _, records) = go(&Fake::default(), &[0.0, 1.0, 0.1], &options);
    assert_eq!((summary.done, summary.failed, summary.left), (2, 1, 0));
    let errors: Vec<_> = records.iter().filter_map(|r| r.error.as_deref()).collect();
    assert_eq!(errors, ["nothing passes"]);
    // It is tried again next time.
    let (summary, skipped, _) = go(&Fake::default(), &[0.0, 1.0, 0.1], &options);
    assert_eq!((summary.failed, skipped), (1, 2));
}

#[test]
fn an_interruption_leaves_whole_lines_and_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = RunOptions {
        jobs: Some(1),
        ..options(&folder)
    };
    let fake = Fake {
        stops_after: Some(1),
        ..Fake::default()
    };
    let (summary, _, _) = go(&fake, &[0.0, 0.1, 0.2], &options);
    assert_eq!((summary.done, summary.left), (1, 2));
    // As if the machine had died while a line was written.
    let mut text = std::fs::read_to_string(file(&options)).expect("written");
    assert_eq!(text.lines().count(), 1);
    text.push_str("{\"point\":{\"experi");
    std::fs::write(file(&options), text).expect("writable");
    let (summary, skipped, _) = go(&Fake::default(), &[0.0, 0.1, 0.2], &options);
    assert_eq!((summary.done, skipped), (2, 1));
    let text = std::fs::read_to_string(file(&options)).expect("written");
    for line in text.lines() {
        serde_json::from_str::<Record>(line).expect("a whole record");
    }
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn a_line_that_is_no_record_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&folder);
    std::fs::create_dir_all(&options.out).expect("writable");
    std::fs::write(file(&options), "{}\n").expect("writable");
    let error = Plan::new(points(&[0.0]), &options).expect_err("no record");
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn a_result_of_a_machine_that_was_late_is_marked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (summary, _, records) = go(&Fake::default(), &[0.5], &options(&folder));
    assert_eq!((summary.done, summary.busy), (1, 1));
    let fidelity = records[0].fidelity.expect("of the testbed");
    assert!(fidelity.is_busy && fidelity.parallel_runs == 1);
}

#[test]
fn a_venue_that_is_not_there_is_an_error_of_the_point() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut points = points(&[0.0]);
    points[0].venue = point::Venue::Simulator;
    let refusal = Venues::default().preflight(&points).expect_err("nobody");
    assert!(refusal.to_string().contains("--only"), "{refusal}");
    let options = options(&folder);
    let plan = Plan::new(points, &options).expect("readable");
    let ends = Ends::default();
    let stop = Stop::default();
    let summary = run(&plan, &Venues::default(), &options, &stop, &ends).expect("writable");
    assert_eq!(summary.failed, 1);
}

#[test]
fn the_last_good_result_of_a_place_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&folder);
    assert_eq!(read_results(&options.out).expect("none yet"), []);
    go(&Fake::default(), &[1.0, 0.0, 0.1], &options);
    options.again = true;
    options.provenance.commit = "decaf".into();
    go(&Fake::default(), &[0.1, 1.0], &options);
    let results = read_results(&options.out).expect("readable");
    let mut found: Vec<_> = results
        .iter()
        .map(|r| {
            (
                r.point.at["loss"],
                r.provenance.commit.as_str(),
                r.error.is_some(),
            )
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(
        found,
        [
            (0.0, "c0ffee", false),
            (0.1, "decaf", false),
            (1.0, "decaf", true)
        ]
    );
}

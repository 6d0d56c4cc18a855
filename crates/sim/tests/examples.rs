//! The examples that the repository offers can be run.

use std::path::Path;

use ctcp_sim::file::{Overrides, load};
use ctcp_sim::output::{csv, json_lines, table};

#[test]
fn every_example_can_be_read_and_its_first_point_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 12, "{}", files.len());
    for file in files {
        println!("{}", file.display());
        let full = match load(&file, &Overrides::default()) {
            Ok(batch) => batch,
            Err(error) => panic!("{error}"),
        };
        assert!(full.points.iter().all(|point| !point.runs.is_empty()));
        // Shortened: a test of the files, not of what they show.
        let short = Overrides {
            repetitions: Some(1),
            set: vec!["time_limit=12 s".to_owned(), "warmup=1 s".to_owned()],
            ..Overrides::default()
        };
        let mut batch = load(&file, &short).unwrap();
        batch.points.truncate(1);
        let results = batch.run().unwrap();
        let text = table(&results);
        println!("{text}");
        assert!(text.lines().count() > results[0].reports[0].flows.len());
        assert_eq!(
            csv(&results).lines().count(),
            1 + results[0].reports[0].flows.len()
        );
        for line in json_lines(&results).lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

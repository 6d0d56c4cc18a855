//! Every input that is kept runs through its target: what fuzzing once reached
//! or broke stays covered by `cargo test`, on stable Rust and without libFuzzer.

use std::fs;
use std::path::Path;

use ctcp_fuzz::TARGETS;

#[test]
fn every_kept_input_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, run) in TARGETS {
        let folder = corpus.join(name);
        let entries = fs::read_dir(&folder).expect("each target has a corpus");
        let mut inputs: Vec<_> = entries.map(|e| e.expect("it is listed").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} is empty", folder.display());
        println!("{name}: {} inputs", inputs.len());
        for path in inputs {
            let data = fs::read(&path).expect("a file");
            // The name of the input stands above a panic's message.
            println!("{}", path.display());
            run(&data);
        }
    }
}

#[test]
fn no_input_at_all_is_an_input() {
    for (_, run) in TARGETS {
        run(&[]);
    }
}

//! Every option that a page shows behind `ctcp` is one of that command.

use std::collections::BTreeMap;

use super::common::Ctcp;
use super::{page, pages, read, shown};

/// Words behind `ctcp` that are subcommands of one with subcommands.
const WITH_SUBCOMMANDS: [&str; 3] = ["emulate", "lab", "model"];

/// A call of `ctcp` in a line: its subcommand and its options.
fn call(line: &str) -> Option<(String, Vec<String>)> {
    let line = page::prompt(line).map_or(line, |(_, rest)| rest);
    // What follows is another program's.
    let line = line.split(" -- ").next().unwrap_or_default();
    let mut words = line
        .split(|c: char| c.is_whitespace() || "|;'\"`()[]".contains(c))
        .filter(|word| !word.is_empty())
        .skip_while(|word| *word != "ctcp" && !word.ends_with("/ctcp"));
    words.next()?;
    let mut words = words.skip_while(|word| word.starts_with('-')).peekable();
    let is_word = |word: &str| {
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let mut name = words.next().filter(|word| is_word(word))?.to_owned();
    if WITH_SUBCOMMANDS.contains(&name.as_str())
        && let Some(next) = words.next_if(|word| is_word(word) && !word.starts_with('-'))
    {
        name = format!("{name} {next}");
    }
    let options = words
        .take_while(|word| !word.starts_with('#'))
        .filter(|word| word.starts_with("--"))
        .map(|word| word.split('=').next().unwrap_or_default().to_owned());
    Some((name, options.collect()))
}

/// Lines with continuations joined.
fn joined(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn every_flag_exists() {
    let example = call("here$ ctcp -q emulate netns --rate 5mbit -- prog --other").expect("a call");
    assert_eq!(
        example,
        ("emulate netns".to_owned(), vec!["--rate".to_owned()])
    );

    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in pages() {
        for block in page::blocks(&read(&path)) {
            for line in joined(&block.text) {
                let Some((name, options)) = call(&line) else {
                    continue;
                };
                let help = helps.entry(name.clone()).or_insert_with(|| {
                    let mut args: Vec<&str> = name.split(' ').collect();
                    args.push("--help");
                    let output = Ctcp::run(&args);
                    String::from_utf8_lossy(&output.stdout).into_owned()
                });
                count += 1;
                if help.is_empty() {
                    wrong.push(format!("{}: no command `{name}`: {line}", shown(&path)));
                }
                for option in options {
                    let has = |word: &str| word.trim_end_matches(['.', ',', ';']) == option;
                    if !help.split([' ', '\n', '=', ',', '[', '`', ')']).any(has) {
                        wrong.push(format!("{}: no {option} in: {line}", shown(&path)));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 50, "only {count} calls of ctcp were found");
}

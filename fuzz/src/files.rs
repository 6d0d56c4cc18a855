//! What a receiver and a sender of files read: hellos, frames, answers, the list.
//! What parses is written again to the same bytes; whatever the list says, no
//! place it names lies outside the receiving folder.

use std::collections::BTreeSet;
use std::io::Read;

use ctcp_files::wire::{Answer, CHUNK_LEN_MAX, Frame, Hello, TEXT_LEN_MAX};
use ctcp_files::{DEPTH_MAX, Folder, Manifest, Name, Step};

use crate::Input;

/// The first byte chooses who reads the rest.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(4) {
        0 => hello(input.rest()),
        1 => answers(input.rest()),
        _ => frames(input.rest()),
    }
}

fn hello(bytes: &[u8]) {
    let mut rest = bytes;
    let Ok(hello) = Hello::read(&mut rest) else {
        return;
    };
    let mut out = Vec::new();
    hello.write(&mut out);
    // Flags that are not known are not written.
    assert_eq!(Hello::read(&mut &out[..]).ok(), Some(hello));
    assert_eq!(out.len(), bytes.len() - rest.len());
}

fn answers(mut bytes: &[u8]) {
    loop {
        let before = bytes;
        let Ok(answer) = Answer::read(&mut bytes) else {
            return;
        };
        let mut out = Vec::new();
        answer.write(&mut out);
        match answer {
            Answer::Failed(text) => assert_text(&text, &out),
            _ => assert_eq!(out, before[..before.len() - bytes.len()]),
        }
    }
}

/// Broken UTF-8 grew when it was read, and was cut when it was written.
fn assert_text(text: &str, out: &[u8]) {
    assert!(out.len() <= 3 + TEXT_LEN_MAX);
    assert!(text.as_bytes().starts_with(&out[3..]));
}

fn frames(mut bytes: &[u8]) {
    let mut manifest = Some(Manifest::default());
    let mut seen = BTreeSet::new();
    let mut chunk = Vec::new();
    while !bytes.is_empty() {
        let before = bytes;
        let Ok(frame) = Frame::read(&mut bytes) else {
            return;
        };
        let mut out = Vec::new();
        frame.write(&mut out);
        match frame {
            Frame::Failed(text) => assert_text(&text, &out),
            frame => {
                assert_eq!(out, before[..before.len() - bytes.len()]);
                match frame {
                    Frame::Chunk { len } => {
                        assert!((1..=CHUNK_LEN_MAX as u32).contains(&len));
                        chunk.resize(len as usize, 0);
                        if bytes.read_exact(&mut chunk).is_err() {
                            return;
                        }
                    }
                    Frame::Entry(entry) => {
                        let step = manifest.as_mut().map(|list| list.take(entry));
                        match step {
                            Some(Ok(step)) => check(step, &mut seen),
                            // A list that was refused is not gone on with.
                            Some(Err(error)) => {
                                assert!(!error.to_string().is_empty());
                                manifest = None;
                            }
                            None => {}
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    if let Some(manifest) = manifest {
        assert_eq!(manifest.end().is_ok(), manifest.depth() == 0);
    }
}

/// The place is inside, and new.
fn check(step: Step, seen: &mut BTreeSet<Vec<Name>>) {
    let place = |folder: &Folder, name: &Name| {
        assert!(folder.len() <= DEPTH_MAX);
        folder.iter().cloned().chain([name.clone()]).collect()
    };
    let path: Vec<Name> = match step {
        Step::Enter(folder) => {
            assert!((1..=DEPTH_MAX).contains(&folder.len()));
            folder.to_vec()
        }
        Step::File(file) => place(&file.folder, &file.name),
        Step::Link {
            folder,
            name,
            target,
            ..
        } => {
            // However it is resolved, name by name, it stays inside.
            let mut depth = folder.len() as i64;
            assert_ne!(target.first(), Some(&b'/'));
            for part in target.split(|&byte| byte == b'/') {
                match part {
                    b"" | b"." => {}
                    b".." => depth -= 1,
                    _ => depth += 1,
                }
                assert!(depth >= 0, "{target:?}");
            }
            place(&folder, &name)
        }
        Step::Leave(folder, _) => {
            assert!(seen.contains(&folder.to_vec()), "it was entered");
            return;
        }
    };
    for name in &path {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes != b"." && bytes != b"..");
        assert!(!bytes.contains(&b'/') && !bytes.contains(&0));
    }
    assert!(seen.insert(path), "nothing comes twice");
}

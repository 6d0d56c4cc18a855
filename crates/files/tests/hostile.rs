//! A sender that lies, and a receiver that does.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use ctcp_files::wire::{Answer, Entry, Frame, Greeting, Hello, Malformed, Meta, Time};
use ctcp_files::{
    ManifestError, Name, NameError, Quiet, ReceiveOptions, SendOptions, Source, Store, Summary,
    TransferError, receive, send,
};

/// What a receiver makes of these bytes after the hello.
fn receive_bytes(bytes: &[u8]) -> (Result<Summary, TransferError>, tempfile::TempDir) {
    let to = tempfile::tempdir().unwrap();
    let mut said = Vec::new();
    Hello::Sender(Greeting::default()).write(&mut said);
    said.extend(bytes);
    let mut store = Store::open(to.path()).unwrap();
    let mut answers = Vec::new();
    let options = ReceiveOptions::default();
    let result = receive(&mut store, options, &said[..], &mut answers, &Quiet);
    (result, to)
}

fn frames(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.write(&mut bytes);
    }
    bytes
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn file(text: &str, size: u64) -> Frame {
    Frame::Entry(Entry::File {
        name: name(text),
        meta: Meta::default(),
        size: Some(size),
    })
}

/// A file entry whose name is any bytes.
fn raw_file(name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend([0; 2 + 12 + 8]);
    bytes.push(name.len() as u8);
    bytes.extend(name);
    bytes
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (bytes, expected) in [
        (&b"../x"[..], NameError::Slash),
        (b"/etc/x", NameError::Slash),
        (b"..", NameError::Dots),
        (b".", NameError::Dots),
        (b"", NameError::Empty),
        (b"a\0b", NameError::Nul),
        (b".ctcp-0000000000000000.part", NameError::Reserved),
    ] {
        let (result, to) = receive_bytes(&raw_file(bytes));
        let error = result.expect_err("refused");
        assert!(
            matches!(error, TransferError::Malformed(Malformed::Name(e)) if e == expected),
            "{error}"
        );
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    let (result, _) = receive_bytes(&frames(&[file("a", 0), file("a", 0)]));
    assert!(matches!(
        result,
        Err(TransferError::Manifest(ManifestError::Order(_)))
    ));
}

#[test]
fn a_link_out_of_the_folder_is_refused() {
    let link = Frame::Entry(Entry::Link {
        name: name("l"),
        mtime: Time::default(),
        target: b"../../etc".as_slice().into(),
    });
    let (result, to) = receive_bytes(&frames(&[link]));
    assert!(matches!(
        result,
        Err(TransferError::Manifest(ManifestError::LinkOutside(_)))
    ));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

#[test]
fn a_file_larger_than_the_disk_is_refused_before_it_comes() {
    let (result, _) = receive_bytes(&frames(&[file("a", u64::MAX - 1)]));
    let error = result.expect_err("no disk is that large");
    assert!(matches!(error, TransferError::Full { .. }), "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
}

#[test]
fn an_endless_list_is_cut_off() {
    let mut bytes = Vec::new();
    for at in 0..=ctcp_files::WINDOW {
        file(&format!("{at:09}"), 5).write(&mut bytes);
    }
    let (result, _) = receive_bytes(&bytes);
    assert!(matches!(result, Err(TransferError::OutOfTurn(_))));
}

#[test]
fn contents_other_than_announced_get_no_name() {
    let end = Frame::End { hash: [0; 32] };
    let content = Frame::Content { offset: 0 };
    let chunk = |len: u32| {
        let mut bytes = frames(&[Frame::Chunk { len }]);
        bytes.resize(bytes.len() + len as usize, 1);
        bytes
    };
    // Longer, shorter, from the middle, unasked, with the wrong hash.
    let longer = [frames(&[file("a", 3), content.clone()]), chunk(4)].concat();
    let shorter = [
        frames(&[file("a", 3), content.clone()]),
        chunk(2),
        frames(&[end.clone(), Frame::Done]),
    ]
    .concat();
    let middle = frames(&[file("a", 3), Frame::Content { offset: 1 }]);
    let unasked = frames(std::slice::from_ref(&content));
    let nothing = frames(&[file("a", 3), Frame::Done]);
    for bytes in [longer, shorter, middle, unasked, nothing] {
        let (result, to) = receive_bytes(&bytes);
        assert!(
            matches!(result, Err(TransferError::OutOfTurn(_))),
            "{result:?}"
        );
        assert!(!to.path().join("a").exists());
    }
    let wrong = [
        frames(&[file("a", 3), content]),
        chunk(3),
        frames(&[end, Frame::Done]),
    ]
    .concat();
    let (result, to) = receive_bytes(&wrong);
    assert_eq!(result.expect("the rest may go on").failed, 1);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "thrown away");
}

#[test]
fn a_stream_that_ends_too_early_is_a_loss_and_not_an_end() {
    let whole = frames(&[file("a", 0), Frame::Content { offset: 0 }]);
    for len in 0..whole.len() {
        let (result, to) = receive_bytes(&whole[..len]);
        assert!(result.expect_err("no end").is_lost());
        assert!(!to.path().join("a").exists());
    }
}

#[test]
fn a_receiver_that_lies_gets_nothing_it_should_not() {
    let from = tempfile::tempdir().unwrap();
    let path = from.path().join("file");
    fs::write(&path, "secret").unwrap();
    for answer in [
        Answer::Want {
            offset: 7,
            hash: [0; 32],
        },
        Answer::Complete {
            files: 0,
            bytes: 0,
            failed: 0,
        },
    ] {
        let (here, mut there) = UnixStream::pair().unwrap();
        let source = Source::new(std::slice::from_ref(&path)).unwrap();
        let sending = thread::spawn(move || {
            let reader = here.try_clone().unwrap();
            send(&source, SendOptions::default(), reader, &here, &Quiet)
        });
        let mut bytes = Vec::new();
        Hello::Receiver.write(&mut bytes);
        answer.write(&mut bytes);
        there.write_all(&bytes).unwrap();
        let result = sending.join().unwrap();
        assert!(
            matches!(result, Err(TransferError::OutOfTurn(_))),
            "{result:?}"
        );
    }
}

#[test]
fn whoever_speaks_something_else_is_told_so() {
    let to = tempfile::tempdir().unwrap();
    let mut store = Store::open(to.path()).unwrap();
    let web = b"GET / HTTP/1.1\r\n\r\n";
    let options = ReceiveOptions::default();
    let error = receive(&mut store, options, &web[..], Vec::new(), &Quiet).unwrap_err();
    assert!(error.to_string().contains("ctcp send"), "{error}");
}

//! Whole transfers over a socket pair: what arrives, what does not, and how an
//! interrupted one goes on.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use common::{Cut, Log, assert_same, fill, parts, seed, transfer, transfer_with};
use ctcp_files::{
    LeftOut, Name, Quiet, ReceiveOptions, SendOptions, Source, Store, TransferError, receive,
    receive_pipe, send_pipe,
};
use ctcp_units::Random;
use proptest::prelude::*;

/// A tree with everything that can be in one.
fn tree(root: &Path, random: &mut Random) {
    for (path, len) in [
        ("empty", 0),
        ("one", 1),
        ("large", 1_000_000),
        ("a/chunk", 128 << 10),
        ("a/b/more", (128 << 10) + 1),
        ("a/b/ü \n", 10),
        ("z/1", 3),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        fs::write(&path, fill(random, len)).expect("written");
    }
    for at in 0..200 {
        fs::write(root.join("z").join(format!("small-{at}")), fill(random, at)).expect("written");
    }
    fs::create_dir(root.join("void")).expect("made");
    symlink("b/more", root.join("a/link")).expect("made");
    symlink("../large", root.join("a/up")).expect("made");
    let mode = |path: &str, mode| {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode("one", 0o400);
    mode("large", 0o755);
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for path in ["a/chunk", "a/b", "z"] {
        let file = fs::File::open(root.join(path)).expect("there");
        file.set_modified(old).expect("ours");
    }
    mode("void", 0o500);
}

#[test]
fn a_tree_arrives_as_it_is() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    tree(&top, &mut Random::from_seed(seed()));
    let (sent, received) = transfer(std::slice::from_ref(&top), to.path());
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.files, sent.failed), (207, 0));
    assert_eq!(sent, received);
    assert_same(&top, &to.path().join("top"));
    assert!(parts(to.path()).is_empty());
    // A second time there is nothing to do.
    let (again, _) = transfer(&[top], to.path());
    let again = again.unwrap();
    assert_eq!((again.files, again.bytes), (0, 0));
    assert_eq!(again.present_files, 207);
}

#[test]
fn what_is_newer_at_the_sender_replaces_what_is_there() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, "old").unwrap();
    transfer(std::slice::from_ref(&file), to.path()).0.unwrap();
    fs::write(&file, "newer").unwrap();
    let keeping = ReceiveOptions { is_keeping: true };
    let log = Log::default();
    let (_, kept) = transfer_with(
        std::slice::from_ref(&file),
        to.path(),
        SendOptions::default(),
        keeping,
        None,
        &log,
    );
    assert_eq!(kept.unwrap().failed, 0);
    assert_eq!(log.taken(), [("file".to_owned(), LeftOut::Kept)]);
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"old");
    transfer(std::slice::from_ref(&file), to.path()).0.unwrap();
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"newer");
    // Same size and time, other contents: only a comparison finds it.
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    let damaged = to.path().join("file");
    fs::write(&damaged, "NEWER").unwrap();
    let opened = fs::File::options().write(true).open(&damaged).unwrap();
    opened.set_modified(time).unwrap();
    transfer(std::slice::from_ref(&file), to.path()).0.unwrap();
    assert_eq!(fs::read(&damaged).unwrap(), b"NEWER");
    let compare = SendOptions { is_compare: true };
    for (files, present) in [(1, 0), (0, 1)] {
        let (_, received) = transfer_with(
            std::slice::from_ref(&file),
            to.path(),
            compare,
            ReceiveOptions::default(),
            None,
            &Quiet,
        );
        let received = received.unwrap();
        assert_eq!((received.files, received.present_files), (files, present));
        assert_eq!(fs::read(&damaged).unwrap(), b"newer");
    }
}

#[test]
fn what_an_interruption_left_is_not_sent_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, fill(&mut Random::from_seed(seed()), 4 << 20)).unwrap();
    let cut = Some(Cut::after(3 << 20));
    let plain = (SendOptions::default(), ReceiveOptions::default());
    let (sent, received) = transfer_with(
        std::slice::from_ref(&file),
        to.path(),
        plain.0,
        plain.1,
        cut,
        &Quiet,
    );
    assert!(sent.unwrap_err().is_lost() && received.unwrap_err().is_lost());
    assert!(!to.path().join("file").exists(), "nothing under the name");
    assert_eq!(parts(to.path()).len(), 1);
    let (again, _) = transfer(std::slice::from_ref(&file), to.path());
    let again = again.unwrap();
    assert!(again.present_bytes > 2 << 20, "{again:?}");
    assert_eq!(again.bytes + again.present_bytes, 4 << 20);
    assert_same(from.path(), to.path());
    assert!(parts(to.path()).is_empty());
}

#[test]
fn a_beginning_that_is_another_files_is_thrown_away() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    let plain = (SendOptions::default(), ReceiveOptions::default());
    let mut random = Random::from_seed(seed());
    fs::write(&file, fill(&mut random, 1 << 20)).unwrap();
    let cut = Some(Cut::after(600_000));
    let _ = transfer_with(
        std::slice::from_ref(&file),
        to.path(),
        plain.0,
        plain.1,
        cut,
        &Quiet,
    );
    fs::write(&file, fill(&mut random, 1 << 20)).unwrap();
    let again = transfer(std::slice::from_ref(&file), to.path()).0.unwrap();
    assert_eq!((again.bytes, again.present_bytes), (1 << 20, 0));
    assert_same(from.path(), to.path());
}

#[test]
fn a_pipe_goes_into_a_file_or_a_pipe() {
    let to = tempfile::tempdir().unwrap();
    let contents = fill(&mut Random::from_seed(seed()), 300_000);
    let name = Name::new(b"stream").unwrap();
    let sender = |contents: Vec<u8>, end: UnixStream| {
        let name = name.clone();
        thread::spawn(move || {
            let reader = end.try_clone().unwrap();
            send_pipe(&name, &contents[..], reader, &end, &Quiet)
        })
    };
    let (here, there) = UnixStream::pair().unwrap();
    let sending = sender(contents.clone(), here);
    let mut store = Store::open(to.path()).unwrap();
    let options = ReceiveOptions::default();
    receive(&mut store, options, &there, &there, &Quiet).unwrap();
    assert_eq!(sending.join().unwrap().unwrap().bytes, 300_000);
    assert_eq!(fs::read(to.path().join("stream")).unwrap(), contents);

    let (here, there) = UnixStream::pair().unwrap();
    let sending = sender(contents.clone(), here);
    let mut output = Vec::new();
    receive_pipe(&mut output, &there, &there, &Quiet).unwrap();
    sending.join().unwrap().unwrap();
    assert_eq!(output, contents);
}

#[test]
fn a_receiver_that_fails_tells_the_sender_why() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("clash")).unwrap();
    fs::write(from.path().join("clash/x"), "x").unwrap();
    fs::write(to.path().join("clash"), "a file").unwrap();
    let (sent, received) = transfer(&[from.path().join("clash")], to.path());
    assert!(matches!(received, Err(TransferError::InTheWay { .. })));
    let said = sent.unwrap_err().to_string();
    assert!(said.contains("gave up") && said.contains("clash"), "{said}");
}

#[test]
fn a_link_at_the_receiver_is_not_followed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(from.path().join("in")).unwrap();
    fs::write(from.path().join("in/file"), "harmful").unwrap();
    fs::write(from.path().join("top"), "harmful").unwrap();
    fs::write(outside.path().join("precious"), "precious").unwrap();
    symlink(outside.path(), to.path().join("in")).unwrap();
    symlink(outside.path().join("precious"), to.path().join("top")).unwrap();
    let (_, received) = transfer(&[from.path().join("in")], to.path());
    let said = received.unwrap_err().to_string();
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // A link under a file's own name is replaced, not written through.
    transfer(&[from.path().join("top")], to.path()).0.unwrap();
    assert_eq!(
        fs::read(outside.path().join("precious")).unwrap(),
        b"precious"
    );
    assert_eq!(fs::read(to.path().join("top")).unwrap(), b"harmful");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_before_the_start() {
    let error = Store::open(Path::new("/proc/nowhere")).expect_err("not writable");
    assert!(error.to_string().contains("/proc/nowhere"), "{error}");
}

/// Appends to a file of the tree once its contents are on their way.
struct Appends(PathBuf);

impl ctcp_files::Watch for Appends {
    fn moved(&self, _: u64) {
        let mut file = fs::File::options().append(true).open(&self.0).unwrap();
        file.write_all(b"more").unwrap();
    }
}

#[test]
fn a_file_that_changes_while_it_is_sent_does_not_arrive_under_its_name() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        fs::write(from.path().join(name), vec![7; 1 << 20]).unwrap();
    }
    let paths = [from.path().join("a"), from.path().join("b")];
    let (here, there) = UnixStream::pair().unwrap();
    let watch = Appends(paths[0].clone());
    let sending = thread::spawn(move || {
        let source = Source::new(&paths).unwrap();
        let reader = here.try_clone().unwrap();
        ctcp_files::send(&source, SendOptions::default(), reader, &here, &watch)
    });
    let mut store = Store::open(to.path()).unwrap();
    let log = Log::default();
    let options = ReceiveOptions::default();
    let received = receive(&mut store, options, &there, &there, &log).unwrap();
    let sent = sending.join().unwrap().unwrap();
    assert_eq!((sent.files, sent.failed), (1, 1));
    assert_eq!((received.files, received.failed), (1, 1));
    assert_eq!(log.taken(), [("a".to_owned(), LeftOut::Changed)]);
    assert!(!to.path().join("a").exists());
    assert_eq!(fs::read(to.path().join("b")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn two_receivers_or_two_senders_notice() {
    let to = tempfile::tempdir().unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let other = thread::spawn(move || {
        receive_pipe(&mut std::io::sink(), &here, &here, &Quiet).unwrap_err()
    });
    let mut store = Store::open(to.path()).unwrap();
    let options = ReceiveOptions::default();
    let error = receive(&mut store, options, &there, &there, &Quiet).unwrap_err();
    assert!(
        matches!(error, TransferError::SameRole("receives")),
        "{error}"
    );
    assert!(matches!(
        other.join().unwrap(),
        TransferError::SameRole(_) | TransferError::Lost(_)
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However often and wherever it is cut, in the end the same tree is there,
    /// and at no time is anything under a final name that is not whole.
    #[test]
    fn a_transfer_cut_anywhere_goes_on(cuts in prop::collection::vec(0_usize..1_500_000, 1..6), seed in 0_u64..1000) {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        tree(from.path(), &mut Random::from_seed(seed));
        let mut inside = from.path().as_os_str().to_owned();
        inside.push("/");
        let paths = [PathBuf::from(inside)];
        for after in cuts {
            let cut = Some(Cut::after(after));
            let _ = transfer_with(&paths, to.path(), SendOptions::default(), ReceiveOptions::default(), cut, &Quiet);
            common::assert_whole(from.path(), to.path());
        }
        let (sent, received) = transfer(&paths, to.path());
        prop_assert_eq!(sent.unwrap().failed, 0);
        prop_assert_eq!(received.unwrap().failed, 0);
        assert_same(from.path(), to.path());
        prop_assert!(parts(to.path()).is_empty());
        // Writable again, so that it can be thrown away.
        for root in [from.path(), to.path()] {
            fs::set_permissions(root.join("void"), fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
}

#[test]
fn memory_of_both_ends_does_not_grow_with_the_number_of_files() {
    // Twice the window, each in a folder of its own: more descriptors than a
    // process may have, were they kept.
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    for at in 0..2 * ctcp_files::WINDOW {
        let folder = top.join(format!("{at}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("f"), "x").unwrap();
    }
    let (sent, _) = transfer(std::slice::from_ref(&top), to.path());
    assert_eq!(sent.unwrap().files as usize, 2 * ctcp_files::WINDOW);
    assert_eq!(
        fs::read_dir(to.path().join("top")).unwrap().count(),
        2 * ctcp_files::WINDOW
    );
    let open = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 200, "{open} descriptors are open");
}

#[test]
fn a_reader_sees_the_end_of_what_was_cut() {
    let mut cut = Cut::after(3).wrap(&b"12345"[..]);
    let mut read = Vec::new();
    let error = cut.read_to_end(&mut read).expect_err("cut");
    assert_eq!(
        (read, error.kind()),
        (b"123".to_vec(), std::io::ErrorKind::ConnectionReset)
    );
}

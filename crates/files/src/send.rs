//! The sending end.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::error::TransferError;
use crate::name::{Name, Shown};
use crate::receive::WINDOW;
use crate::walk::{Found, Source, meta};
use crate::watch::{LeftOut, Summary, Watch};
use crate::wire::{
    Answer, CHUNK_LEN_MAX, Entry, Frame, GiveUp, Greeting, Hash, Hello, Meta, ReadError,
    write_chunk,
};

/// How a sender sends.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendOptions {
    /// Have the contents of files compared even if size and time agree.
    pub is_compare: bool,
}

/// Written at once to the stream.
const BATCH_LEN: usize = CHUNK_LEN_MAX;

/// How long the reason of a broken stream may take to arrive.
const REASON_PATIENCE: Duration = Duration::from_secs(2);

/// Sends everything in `source` and waits until the receiver has it.
///
/// `reader` is read by a thread of its own, which ends when the stream does:
/// close the stream after this has returned.
///
/// # Errors
/// [`TransferError`]. Single files that could not be sent are no error: see
/// [`Summary::failed`].
pub fn send(
    source: &Source,
    options: SendOptions,
    reader: impl Read + Send + 'static,
    writer: impl Write,
    watch: &dyn Watch,
) -> Result<Summary, TransferError> {
    let (files, bytes) = source.count();
    watch.totals(files, bytes);
    let greeting = Greeting {
        is_compare: options.is_compare,
        is_pipe: false,
        files,
        bytes,
    };
    Sender::new(reader, writer, watch).run(|sender| {
        sender.begin(greeting)?;
        sender.tree(source)
    })
}

/// Sends what `input` gives, to its end, as one file called `name`.
///
/// # Errors
/// [`TransferError`]; [`TransferError::Local`] if `input` fails.
pub fn send_pipe(
    name: &Name,
    mut input: impl Read,
    reader: impl Read + Send + 'static,
    writer: impl Write,
    watch: &dyn Watch,
) -> Result<Summary, TransferError> {
    watch.totals(1, 0);
    let greeting = Greeting {
        is_pipe: true,
        files: 1,
        ..Greeting::default()
    };
    Sender::new(reader, writer, watch).run(|sender| {
        sender.begin(greeting)?;
        sender.pipe(name, &mut input)
    })
}

/// A file or a folder's end that was announced and is not dealt with. The
/// receiver holds the same list, or a shorter one.
#[derive(Debug)]
enum Pending {
    File(Announced),
    Leave,
}

#[derive(Debug)]
struct Announced {
    path: PathBuf,
    size: u64,
    meta: Meta,
}

struct Sender<'a, W> {
    writer: W,
    out: Vec<u8>,
    answers: Receiver<Result<Answer, ReadError>>,
    hello: Option<Receiver<Result<Hello, ReadError>>>,
    watch: &'a dyn Watch,
    summary: Summary,
}

impl<'a, W: Write> Sender<'a, W> {
    fn new(reader: impl Read + Send + 'static, writer: W, watch: &'a dyn Watch) -> Self {
        let (hello_in, hello) = sync_channel(1);
        // Room for an answer to everything announced: an honest receiver is
        // never kept waiting, one that chatters is.
        let (answers_in, answers) = sync_channel(WINDOW + 1);
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            let first = Hello::read(&mut reader);
            let is_over = first.is_err();
            if hello_in.send(first).is_err() || is_over {
                return;
            }
            loop {
                let answer = Answer::read(&mut reader);
                let is_last = answer.is_err()
                    || matches!(answer, Ok(Answer::Complete { .. } | Answer::Failed(_)));
                if answers_in.send(answer).is_err() || is_last {
                    return;
                }
            }
        });
        Self {
            writer,
            out: Vec::with_capacity(2 * BATCH_LEN),
            answers,
            hello: Some(hello),
            watch,
            summary: Summary::default(),
        }
    }

    /// Does `work`; if it fails, tells the other side or learns from it why.
    fn run(
        mut self,
        work: impl FnOnce(&mut Self) -> Result<(), TransferError>,
    ) -> Result<Summary, TransferError> {
        match work(&mut self) {
            Ok(()) => Ok(self.summary),
            Err(error @ TransferError::Lost(_)) => Err(self.reason().unwrap_or(error)),
            Err(error @ TransferError::Peer(_)) => Err(error),
            Err(error) => {
                self.put(&Frame::Failed(error.to_string()));
                // The error that counts is the first.
                let _ = self.flush();
                Err(error)
            }
        }
    }

    /// What the receiver said before the stream broke.
    fn reason(&self) -> Option<TransferError> {
        loop {
            match self.answers.recv_timeout(REASON_PATIENCE) {
                Ok(Ok(Answer::Failed(text))) => return Some(peer(&text)),
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return None;
                }
            }
        }
    }

    fn begin(&mut self, greeting: Greeting) -> Result<(), TransferError> {
        Hello::Sender(greeting).write(&mut self.out);
        self.flush()?;
        let hello = self.hello.take().expect("it begins once");
        match hello.recv().map_err(|_| silent())? {
            Ok(Hello::Receiver) => Ok(()),
            Ok(Hello::Sender(_)) => Err(TransferError::SameRole("sends")),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn tree(&mut self, source: &Source) -> Result<(), TransferError> {
        let mut walk = source.walk();
        let mut is_listed = false;
        let mut pending = VecDeque::new();
        loop {
            while pending.len() < WINDOW && !is_listed {
                match walk.next() {
                    Some(found) => self.announce(found, &mut pending)?,
                    None => is_listed = true,
                }
            }
            match pending.pop_front() {
                Some(Pending::File(file)) => self.file(&file)?,
                Some(Pending::Leave) => {}
                None if is_listed => break,
                None => {}
            }
        }
        self.finish()
    }

    fn announce(
        &mut self,
        found: Found,
        pending: &mut VecDeque<Pending>,
    ) -> Result<(), TransferError> {
        let entry = match found {
            Found::LeftOut { path, why } => {
                self.left_out(&path, why);
                return Ok(());
            }
            Found::Entry(entry) => {
                if entry == Entry::Leave {
                    pending.push_back(Pending::Leave);
                }
                entry
            }
            Found::File { entry, path } => {
                if let Entry::File {
                    meta,
                    size: Some(size),
                    ..
                } = &entry
                {
                    let (size, meta) = (*size, *meta);
                    pending.push_back(Pending::File(Announced { path, size, meta }));
                }
                entry
            }
        };
        self.put(&Frame::Entry(entry));
        self.flush_if_full()
    }

    /// Does with the file what the receiver wants.
    fn file(&mut self, file: &Announced) -> Result<(), TransferError> {
        match self.answer()? {
            Answer::Skip => {
                self.summary.present_files += 1;
                self.present(file.size);
                Ok(())
            }
            Answer::Want { offset, hash } if offset <= file.size => {
                self.content(file, offset, &hash)
            }
            Answer::Want { .. } => Err(TransferError::OutOfTurn(
                "it has more of a file than there is",
            )),
            Answer::Complete { .. } => Err(TransferError::OutOfTurn("it is through too early")),
            Answer::Failed(text) => Err(peer(&text)),
        }
    }

    fn content(&mut self, file: &Announced, offset: u64, hash: &Hash) -> Result<(), TransferError> {
        self.watch
            .file(Shown(file.path.as_os_str().as_encoded_bytes()));
        let opened = open(file).and_then(|mut input| {
            let (hasher, offset) = take_up(&mut input, offset, hash)?;
            Ok((input, hasher, offset))
        });
        let Ok((mut input, mut hasher, offset)) = opened else {
            return self.give_up(file, LeftOut::Unreadable);
        };
        self.present(offset);
        self.put(&Frame::Content { offset });
        let mut left = file.size - offset;
        while left > 0 {
            let moved = self.chunk(left, &mut input, &mut hasher);
            match moved {
                Ok(0) => return self.give_up(file, LeftOut::Changed),
                Ok(len) => {
                    left -= len as u64;
                    self.flush_if_full()?;
                    self.moved(len);
                }
                Err(_) => return self.give_up(file, LeftOut::Unreadable),
            }
        }
        // Longer, or written to while we read.
        let is_same = input
            .metadata()
            .is_ok_and(|now| now.len() == file.size && meta(&now).mtime == file.meta.mtime);
        if !is_same {
            return self.give_up(file, LeftOut::Changed);
        }
        self.put(&Frame::End {
            hash: *hasher.finalize().as_bytes(),
        });
        self.summary.files += 1;
        self.flush_if_full()
    }

    /// Appends a chunk of `input`; answers how long it is.
    fn chunk(
        &mut self,
        most: u64,
        input: &mut impl Read,
        hasher: &mut blake3::Hasher,
    ) -> io::Result<usize> {
        write_chunk(&mut self.out, most, |room| {
            let len = loop {
                match input.read(room) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            hasher.update(&room[..len]);
            Ok(len)
        })
    }

    fn pipe(&mut self, name: &Name, input: &mut impl Read) -> Result<(), TransferError> {
        self.put(&Frame::Entry(Entry::File {
            name: name.clone(),
            meta: Meta::default(),
            size: None,
        }));
        match self.answer()? {
            Answer::Want { offset: 0, .. } => {}
            Answer::Failed(text) => return Err(peer(&text)),
            _ => {
                let what = "it has a part of a stream that begins now";
                return Err(TransferError::OutOfTurn(what));
            }
        }
        self.watch.file(Shown(name.as_bytes()));
        self.put(&Frame::Content { offset: 0 });
        let mut hasher = blake3::Hasher::new();
        loop {
            let read = self.chunk(u64::MAX, input, &mut hasher);
            match read.map_err(|error| TransferError::local("standard input", error))? {
                0 => break,
                len => {
                    // Whoever pipes something interactive waits for each piece.
                    self.flush()?;
                    self.moved(len);
                }
            }
        }
        self.put(&Frame::End {
            hash: *hasher.finalize().as_bytes(),
        });
        self.summary.files += 1;
        self.finish()
    }

    /// Waits until the receiver has everything.
    fn finish(&mut self) -> Result<(), TransferError> {
        self.put(&Frame::Done);
        match self.answer()? {
            Answer::Complete { files, failed, .. } => {
                // Some may have been damaged there, or kept from us.
                self.summary.files = self.summary.files.min(files);
                self.summary.failed = self.summary.failed.max(failed);
                Ok(())
            }
            Answer::Failed(text) => Err(peer(&text)),
            _ => Err(TransferError::OutOfTurn("it answers what nobody asked")),
        }
    }

    /// The next answer. What it may depend on goes out first.
    fn answer(&mut self) -> Result<Answer, TransferError> {
        let answer = match self.answers.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => {
                self.flush()?;
                self.answers.recv().map_err(|_| silent())?
            }
            Err(TryRecvError::Disconnected) => return Err(silent()),
        };
        answer.map_err(unreadable)
    }

    fn give_up(&mut self, file: &Announced, why: LeftOut) -> Result<(), TransferError> {
        self.left_out(&file.path, why);
        self.put(&Frame::GiveUp(match why {
            LeftOut::Changed => GiveUp::Changed,
            _ => GiveUp::Unreadable,
        }));
        self.flush_if_full()
    }

    fn left_out(&mut self, path: &Path, why: LeftOut) {
        if why.is_failure() {
            self.summary.failed += 1;
        }
        let shown = Shown(path.as_os_str().as_encoded_bytes());
        self.watch.left_out(shown, why);
    }

    fn present(&mut self, bytes: u64) {
        self.summary.present_bytes += bytes;
        self.watch.present(bytes);
    }

    fn moved(&mut self, len: usize) {
        self.summary.bytes += len as u64;
        self.watch.moved(len as u64);
    }

    fn put(&mut self, frame: &Frame) {
        frame.write(&mut self.out);
    }

    fn flush_if_full(&mut self) -> Result<(), TransferError> {
        if self.out.len() < BATCH_LEN {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        self.writer
            .write_all(&self.out)
            .and_then(|()| self.writer.flush())
            .map_err(TransferError::Lost)?;
        self.out.clear();
        Ok(())
    }
}

/// Opens a file that was announced, if it still is one.
fn open(file: &Announced) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let input = fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_follow.bits() as i32)
        .open(&file.path)?;
    match input.metadata()?.is_file() {
        true => Ok(input),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Hashes the `offset` bytes that the receiver has; if they are others, begins
/// anew.
fn take_up(input: &mut File, offset: u64, hash: &Hash) -> io::Result<(blake3::Hasher, u64)> {
    let mut hasher = blake3::Hasher::new();
    if offset == 0 {
        return Ok((hasher, 0));
    }
    let hashed = io::copy(&mut Read::by_ref(input).take(offset), &mut hasher)?;
    if hashed == offset && hasher.finalize() == *hash {
        return Ok((hasher, offset));
    }
    input.seek(SeekFrom::Start(0))?;
    Ok((blake3::Hasher::new(), 0))
}

fn silent() -> TransferError {
    TransferError::Lost(io::ErrorKind::UnexpectedEof.into())
}

/// What the other side said, safe to print.
pub(crate) fn peer(text: &str) -> TransferError {
    TransferError::Peer(Shown(text.as_bytes()).to_string())
}

/// An error of reading as one of the transfer.
pub(crate) fn unreadable(error: ReadError) -> TransferError {
    match error {
        ReadError::Io(error) => TransferError::Lost(error),
        ReadError::Malformed(error) => TransferError::Malformed(error),
        ReadError::Version(version) => TransferError::Version(version),
    }
}

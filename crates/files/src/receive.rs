//! The receiving end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use crate::error::TransferError;
use crate::manifest::{FilePlace, Folder, Manifest, Step, shown};
use crate::name::Shown;
use crate::send::{peer, unreadable};
use crate::store::{Present, Store};
use crate::watch::{LeftOut, Summary, Watch};
use crate::wire::{
    Answer, CHUNK_LEN_MAX, Entry, Frame, GiveUp, Greeting, Hash, Hello, Meta, ReadError,
};

/// Files and ends of folders that are announced and not dealt with, at most. At
/// 100 ms and files of 4 kB it lets 1.3 Gbit/s through.
pub const WINDOW: usize = 4096;

/// How a receiver receives.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceiveOptions {
    /// Files that are here and differ stay as they are.
    pub is_keeping: bool,
}

/// Receives into `store` until the sender is through.
///
/// # Errors
/// [`TransferError`]. Single files that did not arrive are no error: see
/// [`Summary::failed`].
pub fn receive(
    store: &mut Store,
    options: ReceiveOptions,
    reader: impl Read,
    writer: impl Write,
    watch: &dyn Watch,
) -> Result<Summary, TransferError> {
    Talk::new(reader, writer, watch).run(|talk| {
        let greeting = talk.begin()?;
        let mut folder = Receiver {
            talk,
            store,
            options,
            greeting,
            manifest: Manifest::default(),
            pending: VecDeque::new(),
            summary: Summary::default(),
            buffer: Vec::new(),
        };
        folder.receive()
    })
}

/// Receives one file and gives it to `output` as it comes.
///
/// # Errors
/// [`TransferError`]; [`TransferError::Damaged`] if what `output` got is not
/// what was sent.
pub fn receive_pipe(
    output: &mut impl Write,
    reader: impl Read,
    writer: impl Write,
    watch: &dyn Watch,
) -> Result<Summary, TransferError> {
    Talk::new(reader, writer, watch).run(|talk| {
        let greeting = talk.begin()?;
        if greeting.files > 1 {
            return Err(TransferError::NotOneFile);
        }
        one(talk, output)
    })
}

/// The stream, and who looks on.
struct Talk<'a, R, W> {
    reader: BufReader<R>,
    writer: W,
    out: Vec<u8>,
    watch: &'a dyn Watch,
}

impl<'a, R: Read, W: Write> Talk<'a, R, W> {
    fn new(reader: R, writer: W, watch: &'a dyn Watch) -> Self {
        Self {
            reader: BufReader::with_capacity(CHUNK_LEN_MAX, reader),
            writer,
            out: Vec::new(),
            watch,
        }
    }

    /// Does `work`; if it fails, tells the other side why.
    fn run(
        mut self,
        work: impl FnOnce(&mut Self) -> Result<Summary, TransferError>,
    ) -> Result<Summary, TransferError> {
        let result = work(&mut self);
        match &result {
            Ok(_) | Err(TransferError::Lost(_) | TransferError::Peer(_)) => {}
            Err(error) => {
                // The error that counts is the first.
                let _ = self.say(&Answer::Failed(error.to_string()));
                let _ = self.flush();
            }
        }
        result
    }

    fn begin(&mut self) -> Result<Greeting, TransferError> {
        Hello::Receiver.write(&mut self.out);
        self.flush()?;
        match Hello::read(&mut self.reader).map_err(unreadable)? {
            Hello::Sender(greeting) => {
                self.watch.totals(greeting.files, greeting.bytes);
                Ok(greeting)
            }
            Hello::Receiver => Err(TransferError::SameRole("receives")),
        }
    }

    /// The next frame. Before waiting for it, all answers go out.
    fn frame(&mut self) -> Result<Frame, TransferError> {
        if self.reader.buffer().is_empty() {
            self.flush()?;
        }
        match Frame::read(&mut self.reader).map_err(unreadable)? {
            Frame::Failed(text) => Err(peer(&text)),
            frame => Ok(frame),
        }
    }

    fn say(&mut self, answer: &Answer) -> Result<(), TransferError> {
        answer.write(&mut self.out);
        if self.out.len() < CHUNK_LEN_MAX {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.writer
            .write_all(&self.out)
            .and_then(|()| self.writer.flush())
            .map_err(TransferError::Lost)?;
        self.out.clear();
        Ok(())
    }

    /// Reads the bytes of a chunk.
    fn payload(&mut self, len: u32, buffer: &mut Vec<u8>) -> Result<(), TransferError> {
        buffer.resize(len as usize, 0);
        let read = self.reader.read_exact(buffer);
        read.map_err(|error| unreadable(ReadError::Io(error)))
    }
}

/// A file or a folder's end that was announced and is not dealt with.
enum Pending {
    File(Wanted),
    /// A file that is there: it only keeps the order.
    There,
    Leave(Folder, Meta),
}

struct Wanted {
    place: FilePlace,
    /// What the sender may begin at, beside 0.
    offset: u64,
    /// It is there as a whole and only compared.
    is_compared: bool,
}

struct Receiver<'a, 'b, R, W> {
    talk: &'a mut Talk<'b, R, W>,
    store: &'a mut Store,
    options: ReceiveOptions,
    greeting: Greeting,
    manifest: Manifest,
    pending: VecDeque<Pending>,
    summary: Summary,
    buffer: Vec<u8>,
}

impl<R: Read, W: Write> Receiver<'_, '_, R, W> {
    fn receive(&mut self) -> Result<Summary, TransferError> {
        loop {
            match self.talk.frame()? {
                Frame::Entry(entry) => {
                    let step = self.manifest.take(entry)?;
                    self.step(step)?;
                }
                Frame::Content { offset } => {
                    let wanted = self.next_wanted()?;
                    self.content(wanted, offset)?;
                }
                Frame::GiveUp(reason) => {
                    let wanted = self.next_wanted()?;
                    self.given_up(&wanted.place, reason);
                }
                Frame::Done => return self.finish(),
                Frame::Chunk { .. } | Frame::End { .. } => {
                    return Err(TransferError::OutOfTurn("contents of no file"));
                }
                Frame::Failed(_) => unreachable!("it is an error by now"),
            }
            self.settle()?;
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TransferError> {
        match step {
            Step::Enter(folder) => return self.store.enter(&folder),
            Step::Link {
                folder,
                name,
                mtime,
                target,
            } => return self.store.link(&folder, &name, &target, &mtime),
            Step::Leave(folder, meta) => self.pending.push_back(Pending::Leave(folder, meta)),
            Step::File(place) => {
                let (answer, pending) = self.decide(place)?;
                self.talk.say(&answer)?;
                self.pending.push_back(pending);
            }
        }
        if self.pending.len() > WINDOW {
            let what = "it lists more files ahead than are allowed";
            return Err(TransferError::OutOfTurn(what));
        }
        Ok(())
    }

    /// What to answer to a file.
    fn decide(&mut self, place: FilePlace) -> Result<(Answer, Pending), TransferError> {
        let (folder, name) = (&place.folder, &place.name);
        let size = place.size.unwrap_or(u64::MAX);
        match self.store.look(folder, name)? {
            Present::Folder => {
                return Err(TransferError::InTheWay {
                    path: shown(folder, name),
                    what: "is a folder here and a file there: move one of them away",
                });
            }
            Present::File { size: here, meta } if here == size => {
                if meta.mtime == place.meta.mtime && !self.greeting.is_compare {
                    return self.skip(&place, meta);
                }
                if self.greeting.is_compare
                    && let Ok(hash) = self.hash_whole(&place)
                {
                    return Ok(want(place, size, hash, true));
                }
                if self.options.is_keeping {
                    return Ok(self.keep(&place));
                }
            }
            Present::File { .. } | Present::Other if self.options.is_keeping => {
                return Ok(self.keep(&place));
            }
            _ => {}
        }
        let (here, hash) = self.part(&place, size);
        self.check_room(&place, here)?;
        Ok(want(place, here, hash, false))
    }

    fn skip(&mut self, place: &FilePlace, here: Meta) -> Result<(Answer, Pending), TransferError> {
        if here.mode != place.meta.mode {
            let dressed = self.store.dress(&place.folder, &place.name, &place.meta);
            dressed.map_err(|error| self.local(place, error))?;
        }
        self.there(place.size.unwrap_or(0));
        Ok((Answer::Skip, Pending::There))
    }

    fn keep(&mut self, place: &FilePlace) -> (Answer, Pending) {
        self.left_out(place, LeftOut::Kept);
        self.talk.watch.present(place.size.unwrap_or(0));
        (Answer::Skip, Pending::There)
    }

    fn there(&mut self, bytes: u64) {
        self.summary.present_files += 1;
        self.summary.present_bytes += bytes;
        self.talk.watch.present(bytes);
    }

    fn hash_whole(&mut self, place: &FilePlace) -> io::Result<Hash> {
        let mut file = self.store.open_whole(&place.folder, &place.name)?;
        hash_rest(&mut file).map(|(_, hash)| hash)
    }

    /// How much there is of an unfinished file, and its hash.
    fn part(&mut self, place: &FilePlace, size: u64) -> (u64, Hash) {
        let opened = self.store.open_part(&place.folder, &place.name, false);
        let hashed = opened.and_then(|mut file| hash_rest(&mut file));
        match hashed {
            Ok((len, hash)) if len <= size && place.size.is_some() => (len, hash),
            _ => (0, [0; 32]),
        }
    }

    fn check_room(&mut self, place: &FilePlace, here: u64) -> Result<(), TransferError> {
        /// Smaller files are not worth a look each.
        const LOOK_FROM: u64 = 1 << 20;
        let needed = place.size.unwrap_or(0).saturating_sub(here);
        if needed < LOOK_FROM {
            return Ok(());
        }
        match self.store.free_bytes(&place.folder) {
            Some(free) if free < needed => Err(TransferError::Full {
                path: shown(&place.folder, &place.name),
                needed,
                free,
            }),
            _ => Ok(()),
        }
    }

    /// The file whose turn it is.
    fn next_wanted(&mut self) -> Result<Wanted, TransferError> {
        match self.pending.pop_front() {
            Some(Pending::File(wanted)) => Ok(wanted),
            _ => Err(TransferError::OutOfTurn("contents that nobody wants")),
        }
    }

    /// Receives the contents of a file and gives it its name.
    fn content(&mut self, wanted: Wanted, offset: u64) -> Result<(), TransferError> {
        let place = &wanted.place;
        if offset != 0 && offset != wanted.offset {
            let what = "contents that begin in the middle";
            return Err(TransferError::OutOfTurn(what));
        }
        self.talk
            .watch
            .file(Shown(shown(&place.folder, &place.name).as_bytes()));
        if wanted.is_compared && offset == wanted.offset {
            return self.compare(place, offset);
        }
        if wanted.is_compared && self.options.is_keeping {
            return self.pass_over(place);
        }
        let (file, mut hasher) = self
            .open_at(place, offset)
            .map_err(|error| self.local(place, error))?;
        self.summary.present_bytes += offset;
        self.talk.watch.present(offset);
        let mut writer = &file;
        let received = self.chunks(place, offset, |bytes| {
            hasher.update(bytes);
            writer.write_all(bytes)
        });
        let end = match received {
            Ok(end) => end,
            Err(error) => {
                if place.size.is_none() {
                    self.store.discard(&place.folder, &place.name);
                }
                return Err(error);
            }
        };
        match end {
            Err(reason) => self.given_up(place, reason),
            Ok(hash) if hasher.finalize() == hash => {
                let meta = match place.size {
                    Some(_) => place.meta,
                    None => fresh(&file).map_err(|error| self.local(place, error))?,
                };
                (self.store)
                    .install(&place.folder, &place.name, &file, &meta)
                    .map_err(|error| self.local(place, error))?;
                self.summary.files += 1;
            }
            Ok(_) => {
                self.store.discard(&place.folder, &place.name);
                self.left_out(place, LeftOut::Damaged);
            }
        }
        Ok(())
    }

    /// The unfinished file, cut at `offset`, and the hash of what stays.
    fn open_at(&mut self, place: &FilePlace, offset: u64) -> io::Result<(File, blake3::Hasher)> {
        let mut file = self.store.open_part(&place.folder, &place.name, true)?;
        file.set_len(offset)?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file, &mut hasher)?;
        Ok((file, hasher))
    }

    /// A file that is there is compared: nothing comes but its hash.
    fn compare(&mut self, place: &FilePlace, size: u64) -> Result<(), TransferError> {
        match self.chunks(place, size, |_| Ok(()))? {
            Ok(_) => {
                let dressed = self.store.dress(&place.folder, &place.name, &place.meta);
                dressed.map_err(|error| self.local(place, error))?;
                self.there(size);
            }
            Err(reason) => self.given_up(place, reason),
        }
        Ok(())
    }

    /// The file here differs and is to stay; the contents come all the same.
    fn pass_over(&mut self, place: &FilePlace) -> Result<(), TransferError> {
        if self.chunks(place, 0, |_| Ok(()))?.is_ok() {
            self.summary.files += 1;
        }
        self.left_out(place, LeftOut::Kept);
        Ok(())
    }

    /// Hands the contents to `take` until their end; answers with their hash, or
    /// why they ended before.
    fn chunks(
        &mut self,
        place: &FilePlace,
        offset: u64,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Result<Hash, GiveUp>, TransferError> {
        let mut left = place.size.map_or(u64::MAX, |size| size - offset);
        loop {
            match self.talk.frame()? {
                Frame::Chunk { len } if u64::from(len) <= left => {
                    self.talk.payload(len, &mut self.buffer)?;
                    take(&self.buffer).map_err(|error| self.local(place, error))?;
                    left -= u64::from(len);
                    self.summary.bytes += u64::from(len);
                    self.talk.watch.moved(len.into());
                }
                Frame::End { hash } if left == 0 || place.size.is_none() => return Ok(Ok(hash)),
                Frame::GiveUp(reason) => return Ok(Err(reason)),
                _ => {
                    let what = "contents longer or shorter than announced";
                    return Err(TransferError::OutOfTurn(what));
                }
            }
        }
    }

    fn given_up(&mut self, place: &FilePlace, reason: GiveUp) {
        self.left_out(
            place,
            match reason {
                GiveUp::Changed => LeftOut::Changed,
                GiveUp::Unreadable => LeftOut::Unreadable,
            },
        );
    }

    fn left_out(&mut self, place: &FilePlace, why: LeftOut) {
        if why.is_failure() {
            self.summary.failed += 1;
        }
        let path = shown(&place.folder, &place.name);
        self.talk.watch.left_out(Shown(path.as_bytes()), why);
    }

    /// Does what waits for nothing any more.
    fn settle(&mut self) -> Result<(), TransferError> {
        while let Some(Pending::There | Pending::Leave(..)) = self.pending.front() {
            if let Some(Pending::Leave(folder, meta)) = self.pending.pop_front() {
                self.store.leave(&folder, &meta)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Summary, TransferError> {
        self.manifest.end()?;
        if !self.pending.is_empty() {
            return Err(TransferError::OutOfTurn("the end, with files missing"));
        }
        (self.store.sync()).map_err(|error| TransferError::local("the folder", error))?;
        complete(self.talk, self.summary)
    }

    fn local(&self, place: &FilePlace, error: io::Error) -> TransferError {
        TransferError::local(shown(&place.folder, &place.name), error)
    }
}

fn want(place: FilePlace, offset: u64, hash: Hash, is_compared: bool) -> (Answer, Pending) {
    let wanted = Wanted {
        place,
        offset,
        is_compared,
    };
    (Answer::Want { offset, hash }, Pending::File(wanted))
}

/// Receives the one file there is.
fn one<R: Read, W: Write>(
    talk: &mut Talk<'_, R, W>,
    output: &mut impl Write,
) -> Result<Summary, TransferError> {
    let mut manifest = Manifest::default();
    let mut summary = Summary::default();
    let mut buffer = Vec::new();
    let mut hasher = None;
    let mut is_through = false;
    loop {
        match talk.frame()? {
            Frame::Entry(Entry::File { name, meta, size }) => {
                let step = manifest.take(Entry::File { name, meta, size })?;
                let Step::File(place) = step else {
                    unreachable!("a file is a file");
                };
                if hasher.is_some() {
                    return Err(TransferError::NotOneFile);
                }
                talk.watch.file(Shown(place.name.as_bytes()));
                hasher = Some(blake3::Hasher::new());
                talk.say(&Answer::Want {
                    offset: 0,
                    hash: [0; 32],
                })?;
            }
            Frame::Entry(_) => return Err(TransferError::NotOneFile),
            Frame::Content { offset: 0 } => {}
            Frame::Chunk { len } if !is_through => {
                let Some(hasher) = &mut hasher else {
                    return Err(TransferError::OutOfTurn("contents of no file"));
                };
                talk.payload(len, &mut buffer)?;
                hasher.update(&buffer);
                let written = output.write_all(&buffer).and_then(|()| output.flush());
                written.map_err(|error| TransferError::local("standard output", error))?;
                summary.bytes += u64::from(len);
                talk.watch.moved(len.into());
            }
            Frame::End { hash } if !is_through => {
                let is_whole = hasher.as_ref().is_some_and(|h| h.finalize() == hash);
                if !is_whole {
                    return Err(TransferError::Damaged);
                }
                is_through = true;
                summary.files = 1;
            }
            Frame::GiveUp(_) => return Err(TransferError::Damaged),
            Frame::Done if is_through => return complete(talk, summary),
            _ => return Err(TransferError::OutOfTurn("the end, with files missing")),
        }
    }
}

fn complete<R: Read, W: Write>(
    talk: &mut Talk<'_, R, W>,
    summary: Summary,
) -> Result<Summary, TransferError> {
    talk.say(&Answer::Complete {
        files: summary.files,
        bytes: summary.bytes,
        failed: summary.failed,
    })?;
    talk.flush()?;
    Ok(summary)
}

/// Length and hash of a file from where it stands, which is its beginning.
fn hash_rest(file: &mut File) -> io::Result<(u64, Hash)> {
    let mut hasher = blake3::Hasher::new();
    let len = io::copy(file, &mut hasher)?;
    file.seek(SeekFrom::Start(0))?;
    Ok((len, *hasher.finalize().as_bytes()))
}

/// What a file gets that comes without permissions and time: what a new file
/// gets here, for its owner.
fn fresh(file: &File) -> io::Result<Meta> {
    let mut meta = crate::walk::meta(&file.metadata()?);
    meta.mode = 0o600;
    Ok(meta)
}

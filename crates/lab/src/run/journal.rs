//! The results of one experiment: a file of JSON lines that only grows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use thiserror::Error;

use crate::point::Point;
use crate::record::Record;

/// Why results cannot be read or written.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file or its folder is out of reach.
    #[error("cannot write {path}: {source}; choose another folder with --out")]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is there and cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no record.
    #[error("{path}, line {line}: {source}; remove the line, or the file")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// All results of a folder, file by file in the order of their names.
///
/// Of several records of one place, series and repetition the last good one
/// counts, or the last if none is good: a run at another scale or of a newer
/// commit replaces what was there.
///
/// # Errors
/// [`JournalError`]; a folder that is not there has no results.
pub fn read_results(folder: &Path) -> Result<Vec<Record>, JournalError> {
    let cannot_read = |source| JournalError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(cannot_read(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot_read)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
    files.sort();
    let mut results = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|source| JournalError::Read {
            path: path.clone(),
            source,
        })?;
        results.extend(latest(parse(&path, whole_lines(&text))?));
    }
    Ok(results)
}

/// The text without a last line that has no end.
fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

fn parse(path: &Path, text: &str) -> Result<Vec<Record>, JournalError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| JournalError::Malformed {
                path: path.to_owned(),
                line: index + 1,
                source,
            })
        })
        .collect()
}

/// One record for each place, series and repetition, where the first of them
/// stood.
fn latest(records: Vec<Record>) -> Vec<Record> {
    let mut kept: Vec<Record> = Vec::new();
    for record in records {
        let is_same = |other: &Record| {
            let (a, b) = (&other.point, &record.point);
            (&a.experiment, &a.series, &a.at, a.repetition)
                == (&b.experiment, &b.series, &b.at, b.repetition)
        };
        match kept.iter_mut().find(|other| is_same(other)) {
            Some(other) if record.error.is_none() || other.error.is_some() => *other = record,
            Some(_) => {}
            None => kept.push(record),
        }
    }
    kept
}

/// An experiment's file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    known: Vec<Record>,
}

impl Journal {
    /// The file of this experiment in a folder; both are made if they are not
    /// there. A line without its end is what an interruption left: it is removed.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(folder: &Path, experiment: &str) -> Result<Self, JournalError> {
        let path = folder.join(format!("{experiment}.jsonl"));
        let cannot_write = |source| JournalError::Write {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(cannot_write)?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(cannot_write)?;
        let text = fs::read_to_string(&path).map_err(|source| JournalError::Read {
            path: path.clone(),
            source,
        })?;
        let whole = whole_lines(&text);
        if whole.len() < text.len() {
            file.set_len(whole.len() as u64).map_err(cannot_write)?;
        }
        Ok(Self {
            known: parse(&path, whole)?,
            path,
            file: Mutex::new(file),
        })
    }

    /// Whether there was a good result for this point and commit when it was
    /// opened.
    pub fn has(&self, point: &Point, commit: &str) -> bool {
        self.known.iter().any(|record| {
            record.error.is_none() && record.provenance.commit == commit && record.point == *point
        })
    }

    /// Adds a record, as one line.
    ///
    /// # Errors
    /// [`JournalError::Write`].
    pub fn append(&self, record: &Record) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(record).expect("records are plain data");
        line.push(b'\n');
        let mut file = self.file.lock().expect("no holder panics");
        file.write_all(&line).map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

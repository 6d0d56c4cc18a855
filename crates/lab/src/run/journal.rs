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
        let whole_len = text.rfind('\n').map_or(0, |end| end + 1);
        if whole_len < text.len() {
            file.set_len(whole_len as u64).map_err(cannot_write)?;
        }
        let known = text[..whole_len]
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|source| JournalError::Malformed {
                    path: path.clone(),
                    line: index + 1,
                    source,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            path,
            file: Mutex::new(file),
            known,
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

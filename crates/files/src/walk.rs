//! What there is to send, in the order of the list.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::SourceError;
use crate::manifest::{DEPTH_MAX, stays_inside};
use crate::name::{Name, NameError, Shown};
use crate::watch::LeftOut;
use crate::wire::{Entry, Meta, TARGET_LEN_MAX, Time};

/// What a sender offers: files and folders, each under a name of its own.
#[derive(Debug, Clone)]
pub struct Source {
    tops: BTreeMap<Name, PathBuf>,
}

/// What the walk comes upon.
#[derive(Debug)]
pub(crate) enum Found {
    /// A folder's begin, a link, or a folder's end.
    Entry(Entry),
    /// A file, and where it is.
    File { entry: Entry, path: PathBuf },
    /// Something that is not sent.
    LeftOut { path: PathBuf, why: LeftOut },
}

impl Source {
    /// The files and folders at `paths`. A folder goes as a whole; with `/` at
    /// its end, what is in it goes instead. A symbolic link given here is
    /// followed.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn new(paths: &[PathBuf]) -> Result<Self, SourceError> {
        let mut tops = BTreeMap::new();
        for path in paths {
            let unreadable = |error| SourceError::Unreadable {
                path: path.clone(),
                error,
            };
            let metadata = fs::metadata(path).map_err(unreadable)?;
            if !metadata.is_file() && !metadata.is_dir() {
                return Err(SourceError::Special { path: path.clone() });
            }
            let is_contents = path.as_os_str().as_bytes().ends_with(b"/")
                || path.as_os_str() == "."
                || path.as_os_str() == "..";
            if metadata.is_dir() && is_contents {
                for (name, inner) in list(path).map_err(unreadable)? {
                    insert(&mut tops, name, inner)?;
                }
                continue;
            }
            let nameless = || SourceError::Nameless { path: path.clone() };
            let last = path.file_name().ok_or_else(nameless)?;
            let name = Name::new(last.as_bytes()).map_err(|_| nameless())?;
            // What was checked is what is read: a link is followed now.
            let real = fs::canonicalize(path).map_err(unreadable)?;
            insert(&mut tops, name, real)?;
        }
        Ok(Self { tops })
    }

    /// Files there are and their bytes, from one walk through all of it.
    pub fn count(&self) -> (u64, u64) {
        let (mut files, mut bytes) = (0, 0_u64);
        for found in self.walk() {
            if let Found::File { entry, .. } = found
                && let Entry::File { size, .. } = entry
            {
                files += 1;
                bytes = bytes.saturating_add(size.unwrap_or(0));
            }
        }
        (files, bytes)
    }

    pub(crate) fn walk(&self) -> Walk {
        let tops: Vec<_> = self.tops.clone().into_iter().collect();
        Walk {
            levels: vec![tops.into_iter()],
        }
    }
}

fn insert(
    tops: &mut BTreeMap<Name, PathBuf>,
    name: Name,
    path: PathBuf,
) -> Result<(), SourceError> {
    let shown = Shown(name.as_bytes()).to_string();
    match tops.insert(name, path) {
        None => Ok(()),
        Some(_) => Err(SourceError::Twice { name: shown }),
    }
}

/// What is in a folder, by name. Unfinished files of a transfer into it are
/// nobody's files yet.
fn list(folder: &Path) -> io::Result<Vec<(Name, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match Name::new(entry.file_name().as_bytes()) {
            Ok(name) => entries.push((name, entry.path())),
            Err(NameError::Reserved) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    entries.sort_unstable();
    Ok(entries)
}

/// Walks through a [`Source`]. Holds the lists of the folders it is in.
#[derive(Debug)]
pub(crate) struct Walk {
    levels: Vec<std::vec::IntoIter<(Name, PathBuf)>>,
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let Some((name, path)) = level.next() else {
            self.levels.pop();
            // The list of the tops is no folder.
            return match self.levels.is_empty() {
                true => None,
                false => Some(Found::Entry(Entry::Leave)),
            };
        };
        // Past this, `Manifest` counts the folders we are in.
        let depth = self.levels.len() - 1;
        Some(self.look(depth, name, path))
    }
}

impl Walk {
    fn look(&mut self, depth: usize, name: Name, path: PathBuf) -> Found {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            let why = LeftOut::Unreadable;
            return Found::LeftOut { path, why };
        };
        let kind = metadata.file_type();
        if kind.is_file() {
            return Found::File {
                entry: Entry::File {
                    name,
                    meta: meta(&metadata),
                    size: Some(metadata.len()),
                },
                path,
            };
        }
        if kind.is_symlink() {
            return link(depth, name, path, &metadata);
        }
        if !kind.is_dir() {
            let why = LeftOut::Special;
            return Found::LeftOut { path, why };
        }
        if depth >= DEPTH_MAX {
            let why = LeftOut::TooDeep;
            return Found::LeftOut { path, why };
        }
        match list(&path) {
            Ok(entries) => self.levels.push(entries.into_iter()),
            Err(_) => {
                let why = LeftOut::Unreadable;
                return Found::LeftOut { path, why };
            }
        }
        Found::Entry(Entry::Folder {
            name,
            meta: meta(&metadata),
        })
    }
}

fn link(depth: usize, name: Name, path: PathBuf, metadata: &fs::Metadata) -> Found {
    match fs::read_link(&path).map(|target| target.into_os_string().into_vec()) {
        Ok(target) if stays_inside(depth, &target) && target.len() <= TARGET_LEN_MAX => {
            Found::Entry(Entry::Link {
                name,
                mtime: mtime(metadata),
                target: target.into(),
            })
        }
        Ok(_) => Found::LeftOut {
            path,
            why: LeftOut::LinkOutside,
        },
        Err(_) => Found::LeftOut {
            path,
            why: LeftOut::Unreadable,
        },
    }
}

/// Permissions and time, as they are sent.
pub(crate) fn meta(metadata: &fs::Metadata) -> Meta {
    Meta {
        mode: (metadata.mode() & 0o777) as u16,
        mtime: mtime(metadata),
    }
}

fn mtime(metadata: &fs::Metadata) -> Time {
    Time {
        seconds: metadata.mtime(),
        nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn entries(source: &Source) -> Vec<String> {
        let mut manifest = Manifest::default();
        let mut said = Vec::new();
        for found in source.walk() {
            let (text, entry) = match found {
                Found::Entry(entry @ Entry::Leave) => ("leave".into(), Some(entry)),
                Found::File { entry, path } => (path.display().to_string(), Some(entry)),
                Found::Entry(entry) => (format!("{entry:?}"), Some(entry)),
                Found::LeftOut { path, why } => (format!("{} {why:?}", path.display()), None),
            };
            if let Some(entry) = entry {
                manifest.take(entry).expect("a walk is a list");
            }
            said.push(text);
        }
        manifest.end().expect("it closes what it opened");
        said
    }

    #[test]
    fn a_walk_goes_in_order_and_leaves_out_what_is_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().join("top");
        for inner in ["b", "b/c"] {
            fs::create_dir_all(top.join(inner)).expect("made");
        }
        for file in ["z", "a", "b.txt", "b/1", ".ctcp-0123456789abcdef.part"] {
            fs::write(top.join(file), file).expect("written");
        }
        std::os::unix::fs::symlink("/etc/passwd", top.join("b/out")).expect("made");
        std::os::unix::net::UnixListener::bind(top.join("y")).expect("a socket");
        let source = Source::new(std::slice::from_ref(&top)).expect("there");
        assert_eq!(source.count(), (4, 1 + 1 + 5 + 3));
        let said = entries(&source);
        let short: Vec<_> = said
            .iter()
            .map(|line| {
                let line = line.replace(&format!("{}/", top.display()), "");
                line.split(" {").next().expect("text").to_owned()
            })
            .collect();
        assert_eq!(
            short,
            [
                "Folder",
                "a",
                "Folder",
                "b/1",
                "Folder",
                "leave",
                "b/out LinkOutside",
                "leave",
                "b.txt",
                "y Special",
                "z",
                "leave"
            ]
        );
        // With a slash, what is in it.
        let mut inside = top.into_os_string();
        inside.push("/");
        let source = Source::new(&[inside.into()]).expect("there");
        assert_eq!(entries(&source).len(), short.len() - 2);
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let error = Source::new(&[missing]).expect_err("missing");
        assert!(error.to_string().contains("missing"), "{error}");
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        for path in [&one, &two] {
            fs::create_dir(path).expect("made");
            fs::write(path.join("same"), "").expect("written");
        }
        let twice = Source::new(&[one.join("same"), two.join("same")]);
        assert!(matches!(twice, Err(SourceError::Twice { .. })));
        assert!(matches!(
            Source::new(&["/".into(), "/dev/null".into()]),
            Err(SourceError::Special { .. })
        ));
    }
}

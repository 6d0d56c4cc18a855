//! The list of what is sent, checked entry by entry as it comes.
//!
//! Entries come in the order of a walk: a folder, what is in it, [`Entry::Leave`].
//! In each folder the names ascend strictly, byte by byte. So no name comes
//! twice, and the check needs memory for the depth only, not for the count.

use std::sync::Arc;

use thiserror::Error;

use crate::name::{Name, Shown};
use crate::wire::{Entry, Meta, Time};

/// Folders within folders, at most.
pub const DEPTH_MAX: usize = 128;

/// A folder, as the names that lead to it from the receiving folder; empty for
/// the receiving folder itself.
pub type Folder = Arc<[Name]>;

/// Where a file belongs, and how it shall look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// Its folder.
    pub folder: Folder,
    /// Its name there.
    pub name: Name,
    /// Its permissions and time.
    pub meta: Meta,
    /// Its length in bytes; `None` for a stream that ends when it ends.
    pub size: Option<u64>,
}

/// What an entry means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The folder is to exist; entries in it follow.
    Enter(Folder),
    /// The file is to exist.
    File(FilePlace),
    /// The symbolic link is to exist.
    Link {
        /// Its folder.
        folder: Folder,
        /// Its name there.
        name: Name,
        /// Its time.
        mtime: Time,
        /// Where it leads; stays inside.
        target: Box<[u8]>,
    },
    /// All that is in the folder was listed; when it is there, the folder gets
    /// its permissions and time.
    Leave(Folder, Meta),
}

/// Why a list cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// A name does not come after the one before it: it is there twice, or out
    /// of order.
    #[error("`{0}` comes twice or out of order")]
    Order(String),
    /// More than [`DEPTH_MAX`] folders deep.
    #[error("`{0}` is more than {DEPTH_MAX} folders deep")]
    TooDeep(String),
    /// A folder is left that was not entered.
    #[error("a folder ends that did not begin")]
    LeavesRoot,
    /// The list ends inside a folder.
    #[error("the list ends inside a folder")]
    EndsInside,
    /// A symbolic link leads out of the receiving folder.
    #[error("the link `{0}` leads out of its folder")]
    LinkOutside(String),
}

/// Checks a list.
#[derive(Debug)]
pub struct Manifest {
    /// The folders we are in, the receiving folder first.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    folder: Folder,
    meta: Meta,
    /// The name that came last here.
    last: Option<Name>,
}

impl Default for Manifest {
    fn default() -> Self {
        let root = Level {
            folder: Arc::from([]),
            meta: Meta::default(),
            last: None,
        };
        Self { levels: vec![root] }
    }
}

impl Manifest {
    /// Takes the next entry.
    ///
    /// # Errors
    /// [`ManifestError`]; the list is of no further use then.
    pub fn take(&mut self, entry: Entry) -> Result<Step, ManifestError> {
        match entry {
            Entry::Folder { name, meta } => {
                let parent = self.name(&name)?;
                if self.levels.len() > DEPTH_MAX {
                    return Err(ManifestError::TooDeep(shown(&parent, &name)));
                }
                let folder: Folder = parent.iter().cloned().chain([name]).collect();
                self.levels.push(Level {
                    folder: folder.clone(),
                    meta,
                    last: None,
                });
                Ok(Step::Enter(folder))
            }
            Entry::File { name, meta, size } => Ok(Step::File(FilePlace {
                folder: self.name(&name)?,
                name,
                meta,
                size,
            })),
            Entry::Link {
                name,
                mtime,
                target,
            } => {
                let folder = self.name(&name)?;
                if !stays_inside(folder.len(), &target) {
                    return Err(ManifestError::LinkOutside(shown(&folder, &name)));
                }
                Ok(Step::Link {
                    folder,
                    name,
                    mtime,
                    target,
                })
            }
            Entry::Leave => {
                let level = self.levels.pop().expect("the root is never popped");
                if self.levels.is_empty() {
                    return Err(ManifestError::LeavesRoot);
                }
                Ok(Step::Leave(level.folder, level.meta))
            }
        }
    }

    /// The folder in which `name` may come now.
    fn name(&mut self, name: &Name) -> Result<Folder, ManifestError> {
        let level = self.levels.last_mut().ok_or(ManifestError::LeavesRoot)?;
        if level.last.as_ref().is_some_and(|last| last >= name) {
            return Err(ManifestError::Order(shown(&level.folder, name)));
        }
        level.last = Some(name.clone());
        Ok(level.folder.clone())
    }

    /// Checks that the list may end here.
    ///
    /// # Errors
    /// [`ManifestError::EndsInside`].
    pub fn end(&self) -> Result<(), ManifestError> {
        match self.levels.len() {
            1 => Ok(()),
            _ => Err(ManifestError::EndsInside),
        }
    }

    /// Folders deep that the next entry is.
    pub fn depth(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }
}

/// A path in the receiving folder, ready to print.
pub(crate) fn shown(folder: &[Name], name: &Name) -> String {
    let mut path = Vec::new();
    for part in folder {
        path.extend_from_slice(part.as_bytes());
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    Shown(&path).to_string()
}

/// Whether a symbolic link in a folder `depth` deep cannot lead out of the
/// root: it is relative, climbs no further than to the root, and climbs only at
/// its beginning.
///
/// The beginning starts from a real folder, so climbing there is what it looks
/// like; after a name, `..` would climb from wherever a link of that name leads.
/// If all links keep to this, no chain of them leads out.
pub(crate) fn stays_inside(depth: usize, target: &[u8]) -> bool {
    if target.is_empty() || target[0] == b'/' || target.contains(&0) {
        return false;
    }
    let mut climbed = 0;
    let mut has_name = false;
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if has_name => return false,
            b".." => climbed += 1,
            _ => has_name = true,
        }
    }
    climbed <= depth
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    fn file(text: &str) -> Entry {
        Entry::File {
            name: name(text),
            meta: Meta::default(),
            size: Some(1),
        }
    }

    fn folder(text: &str) -> Entry {
        Entry::Folder {
            name: name(text),
            meta: Meta::default(),
        }
    }

    fn link(text: &str, target: &str) -> Entry {
        Entry::Link {
            name: name(text),
            mtime: Time::default(),
            target: target.as_bytes().into(),
        }
    }

    fn take_all(entries: Vec<Entry>) -> Result<(), ManifestError> {
        let mut manifest = Manifest::default();
        for entry in entries {
            manifest.take(entry)?;
        }
        manifest.end()
    }

    #[test]
    fn a_walk_is_a_list() {
        let list = vec![
            file("a"),
            folder("b"),
            file("a"),
            folder("c"),
            Entry::Leave,
            file("z"),
            Entry::Leave,
            file("b.txt"),
        ];
        assert_eq!(take_all(list), Ok(()));
    }

    #[test]
    fn a_name_comes_once_and_in_order() {
        let twice = Err(ManifestError::Order("a".into()));
        assert_eq!(take_all(vec![file("a"), file("a")]), twice);
        assert_eq!(take_all(vec![file("a"), folder("a")]), twice);
        assert_eq!(take_all(vec![file("b"), link("a", "b")]), twice);
        let inside = vec![folder("d"), file("b"), file("a")];
        assert_eq!(take_all(inside), Err(ManifestError::Order("d/a".into())));
    }

    #[test]
    fn folders_begin_and_end() {
        assert_eq!(take_all(vec![folder("a")]), Err(ManifestError::EndsInside));
        assert_eq!(take_all(vec![Entry::Leave]), Err(ManifestError::LeavesRoot));
    }

    #[test]
    fn depth_has_a_limit() {
        let chain = |depth| {
            let mut list: Vec<_> = (0..depth).map(|_| folder("d")).collect();
            list.extend((0..depth).map(|_| Entry::Leave));
            take_all(list)
        };
        assert_eq!(chain(DEPTH_MAX), Ok(()));
        assert!(matches!(
            chain(DEPTH_MAX + 1),
            Err(ManifestError::TooDeep(_))
        ));
    }

    #[test]
    fn a_link_stays_inside() {
        for (depth, target, is_inside) in [
            (0, "a", true),
            (0, "a/b/./c", true),
            (0, ".", true),
            (0, "..", false),
            (1, "..", true),
            (1, "../b", true),
            (1, "../../b", false),
            (1, ".././../b", false),
            (2, "../a/../..", false),
            (0, "a/..", false),
            (3, "/etc/passwd", false),
            (3, "", false),
            (3, "a\0", false),
        ] {
            let inside = stays_inside(depth, target.as_bytes());
            assert_eq!(inside, is_inside, "{target:?} at depth {depth}");
        }
        assert_eq!(
            take_all(vec![link("l", "../x")]),
            Err(ManifestError::LinkOutside("l".into()))
        );
    }
}

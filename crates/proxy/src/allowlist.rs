//! The clients that a server serves, by their public keys.
//!
//! A file holds one key a line, behind it a name if there is one, and limits:
//!
//! ```text
//! # the office
//! -_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s anna rate=20mbit streams=100
//! AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::key::{Key, KeyError, format_key, parse_key};
use crate::limits::{LimitError, Limits};

/// Longest name of a client, in bytes.
pub const NAME_LEN_MAX: usize = 64;

/// Longest file, in bytes; some 80 000 keys.
pub const FILE_LEN_MAX: u64 = 4 << 20;

/// Public keys, each with what the list says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    keys: BTreeMap<Key, Entry>,
}

/// What a list says of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The client's name.
    pub name: Option<String>,
    /// What it may take.
    pub limits: Limits,
}

impl fmt::Display for Entry {
    /// As it stands behind a key in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or_default();
        let limits = self.limits.to_string();
        let gap = if name.is_empty() || limits.is_empty() {
            ""
        } else {
            " "
        };
        write!(f, "{name}{gap}{limits}")
    }
}

/// Why text is no client's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    /// Empty, or longer than [`NAME_LEN_MAX`].
    #[error("a client's name has 1 to 64 bytes, this has {len}")]
    Length {
        /// Bytes given.
        len: usize,
    },
    /// A character that would break the file or the log.
    #[error("a client's name has no control characters, no # or =, and no space at its ends")]
    Character,
}

/// What is wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LineError {
    /// It does not begin with a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What follows the key is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// What follows the name is no limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Why text is no allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {source}")]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub source: LineError,
}

/// Why `--allow PUBKEY|FILE` did not give keys.
#[derive(Debug, Error)]
pub enum AllowError {
    /// Neither a key nor a file that exists.
    #[error("`{text}` is neither a public key ({key}) nor a file that exists")]
    Neither {
        /// The text given.
        text: String,
        /// Why it is no key.
        key: KeyError,
    },
    /// The file cannot be read.
    #[error("cannot read the allow-list {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than [`FILE_LEN_MAX`].
    #[error("the allow-list {} is larger than 4 MiB; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line of the file is wrong.
    #[error("the allow-list {}, {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        source: ParseError,
    },
}

/// Whether `name` can stand behind a key in a file.
///
/// # Errors
/// [`NameError`].
pub fn check_name(name: &str) -> Result<(), NameError> {
    if !(1..=NAME_LEN_MAX).contains(&name.len()) {
        return Err(NameError::Length { len: name.len() });
    }
    let is_bad = |c: char| c.is_control() || "#=".contains(c);
    if name.contains(is_bad) || name.trim() != name {
        return Err(NameError::Character);
    }
    Ok(())
}

impl AllowList {
    /// Reads the text of a file: a key and perhaps a name and limits a line; `#`
    /// starts a comment. Of a key that occurs twice, what is said last holds.
    ///
    /// # Errors
    /// [`ParseError`] with the first bad line.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut list = Self::default();
        for (index, line) in text.lines().enumerate() {
            let fail = |source| ParseError {
                line: index + 1,
                source,
            };
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let (key, rest) = content
                .split_once(char::is_whitespace)
                .unwrap_or((content, ""));
            let key = parse_key(key).map_err(|e| fail(e.into()))?;
            // The name ends before the first word that sets something.
            let name_end = rest.find('=').map_or(rest.len(), |at| {
                rest[..at].rfind(char::is_whitespace).unwrap_or(0)
            });
            let (name, limits) = rest.split_at(name_end);
            let limits = limits.parse().map_err(|e: LimitError| fail(e.into()))?;
            let name = Some(name.trim()).filter(|name| !name.is_empty());
            if let Some(name) = name {
                check_name(name).map_err(|e| fail(e.into()))?;
            }
            list.insert_limited(key, name, limits);
        }
        Ok(list)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`AllowError`], each variant naming the file.
    pub fn load(path: &Path) -> Result<Self, AllowError> {
        let unreadable = |source| AllowError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        let read = file.take(FILE_LEN_MAX + 1).read_to_string(&mut text);
        if read.map_err(unreadable)? as u64 > FILE_LEN_MAX {
            return Err(AllowError::TooLarge {
                path: path.to_owned(),
            });
        }
        Self::parse(&text).map_err(|source| AllowError::Parse {
            path: path.to_owned(),
            source,
        })
    }

    /// Adds what `--allow` gives: a key, or the keys of a file.
    ///
    /// # Errors
    /// [`AllowError`].
    pub fn add_argument(&mut self, text: &str) -> Result<(), AllowError> {
        let not_a_key = match parse_key(text) {
            Ok(key) => {
                self.insert(key, None);
                return Ok(());
            }
            Err(error) => error,
        };
        let path = Path::new(text);
        if !path.exists() {
            return Err(AllowError::Neither {
                text: text.to_owned(),
                key: not_a_key,
            });
        }
        self.extend(Self::load(path)?);
        Ok(())
    }

    /// Adds a key. A name replaces an earlier one; no name leaves it. Returns
    /// whether the key is new.
    pub fn insert(&mut self, key: Key, name: Option<&str>) -> bool {
        self.insert_limited(key, name, Limits::default())
    }

    /// The same with limits, each of which replaces an earlier one.
    pub fn insert_limited(&mut self, key: Key, name: Option<&str>, limits: Limits) -> bool {
        let known = self.keys.contains_key(&key);
        let own = self.keys.entry(key).or_default();
        if let Some(name) = name {
            own.name = Some(name.to_owned());
        }
        own.limits = limits.or(own.limits);
        !known
    }

    /// Adds all keys of another list.
    pub fn extend(&mut self, other: Self) {
        for (key, entry) in other.keys {
            self.insert_limited(key, entry.name.as_deref(), entry.limits);
        }
    }

    /// Whether the key is on the list.
    pub fn allows(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// The name that goes with a key.
    pub fn name(&self, key: &Key) -> Option<&str> {
        self.get(key)?.name.as_deref()
    }

    /// What the list says of a key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.keys.get(key)
    }

    /// All keys with what the list says of them, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.keys.iter()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nobody is allowed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Adds a key at the end of a file, which is made if it does not exist. What the
/// file holds stays as it is, comments included. Readers see the old file or the
/// new one, never a part, and after a crash either is whole: a new file is
/// written beside the old one, synced, and takes its name. One process at a time.
///
/// # Errors
/// What the system says; the old file is then untouched. A name that
/// [`check_name`] refuses is [`io::ErrorKind::InvalidInput`].
pub fn append_to_file(path: &Path, key: &Key, name: Option<&str>) -> io::Result<()> {
    if let Some(name) = name {
        check_name(name).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    }
    // Behind a symbolic link, the file that it names is replaced, not the link.
    let path = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let (mut bytes, permissions) = match fs::read(&path) {
        Ok(bytes) => (bytes, Some(fs::metadata(&path)?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), None),
        Err(error) => return Err(error),
    };
    if bytes.last().is_some_and(|&last| last != b'\n') {
        bytes.push(b'\n');
    }
    let line = format!("{} {}", format_key(key), name.unwrap_or(""));
    bytes.extend(line.trim_end().as_bytes());
    bytes.push(b'\n');

    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&bytes)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|e| e.error)?;
    // The new name itself lasts only once its folder is on the disk.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: Key = [0xFB; 32];
    const BOB: Key = [2; 32];

    fn text(key: &Key) -> String {
        format_key(key)
    }

    #[test]
    fn a_file_has_keys_names_and_comments() {
        let (anna, bob) = (text(&ANNA), text(&BOB));
        let list = AllowList::parse(&format!(
            "# office\n\n{anna} anna's laptop  # since May\r\n\t{bob}\n"
        ))
        .expect("well formed");
        assert_eq!(list.len(), 2);
        assert_eq!(list.name(&ANNA), Some("anna's laptop"));
        assert!(list.allows(&BOB));
        assert_eq!(list.name(&BOB), None);
        assert!(!list.allows(&[0; 32]));
    }

    #[test]
    fn a_line_may_set_limits() {
        let (anna, bob) = (text(&ANNA), text(&BOB));
        let mut list = AllowList::parse(&format!(
            "{anna} anna's laptop\trate=20mbit  streams=5 # slow\n{bob} streams=0\n"
        ))
        .expect("well formed");
        assert_eq!(list.name(&ANNA), Some("anna's laptop"));
        let shown = |list: &AllowList, key| list.get(key).expect("there").to_string();
        assert_eq!(
            shown(&list, &ANNA),
            "anna's laptop rate=20000000bit streams=5"
        );
        assert_eq!(shown(&list, &BOB), "streams=0");
        // Another list says more of one and nothing of the other.
        let more = format!("{anna} streams=7\n{bob} bob\n");
        list.extend(AllowList::parse(&more).expect("well formed"));
        assert_eq!(
            shown(&list, &ANNA),
            "anna's laptop rate=20000000bit streams=7"
        );
        assert_eq!(shown(&list, &BOB), "bob streams=0");
        for (line, words) in [
            ("anna speed=1", "`speed=1` is no option"),
            ("anna rate=fast", "`fast` is no rate"),
            ("rate=1mbit anna", "`anna` is no option"),
        ] {
            let error = AllowList::parse(&format!("\n{anna} {line}")).expect_err(line);
            assert_eq!(error.line, 2);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let anna = text(&ANNA);
        let error = AllowList::parse(&format!("{anna}\n\nnot/a.key\n")).expect_err("line 3");
        assert_eq!(error.line, 3);
        let cause = KeyError::BadCharacter { character: '.' };
        assert_eq!(error.source, LineError::Key(cause));
        assert!(error.to_string().starts_with("line 3: "));
        let long = "n".repeat(65);
        let error = AllowList::parse(&format!("{anna} {long}")).expect_err("line 1");
        assert_eq!(error.source, LineError::Name(NameError::Length { len: 65 }));
    }

    #[test]
    fn an_argument_is_a_key_or_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("allow");
        fs::write(&path, format!("{} anna\n", text(&ANNA))).expect("written");
        let mut list = AllowList::default();
        list.add_argument(&text(&BOB)).expect("a key");
        list.add_argument(path.to_str().expect("UTF-8"))
            .expect("a file");
        assert_eq!(list.len(), 2);

        let error = list.add_argument("missing.txt").expect_err("neither");
        assert!(error.to_string().contains("neither a public key"));
        let error = list.add_argument(folder.path().to_str().expect("UTF-8"));
        assert!(matches!(error, Err(AllowError::Read { .. })));
        fs::write(&path, "garbage\n").expect("written");
        let error = list.add_argument(path.to_str().expect("UTF-8"));
        let error = error.expect_err("a bad line").to_string();
        assert!(error.contains("allow, line 1: "), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read_whole() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let line = format!("{}\n", "#".repeat(1023));
        fs::write(file.path(), line.repeat(4096)).expect("written");
        assert!(AllowList::load(file.path()).is_ok());
        fs::write(file.path(), line.repeat(4097)).expect("written");
        let error = AllowList::load(file.path());
        assert!(matches!(error, Err(AllowError::TooLarge { .. })));
    }

    #[test]
    fn appending_keeps_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("allow");
        append_to_file(&path, &ANNA, Some("anna")).expect("made");
        let anna = text(&ANNA);
        assert_eq!(
            fs::read_to_string(&path).expect("there"),
            format!("{anna} anna\n")
        );
        // A comment without an end of line, as an editor may leave it.
        fs::write(&path, format!("{anna} anna\n# end")).expect("written");
        append_to_file(&path, &BOB, None).expect("appended");
        let bob = text(&BOB);
        let wanted = format!("{anna} anna\n# end\n{bob}\n");
        assert_eq!(fs::read_to_string(&path).expect("there"), wanted);
        assert_eq!(AllowList::load(&path).expect("well formed").len(), 2);
        // Nothing is left beside it.
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn appending_keeps_permissions_and_follows_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("allow"), folder.path().join("link"));
        fs::write(&path, "").expect("written");
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(&path, mode).expect("ours");
        symlink(&path, &link).expect("a link");
        append_to_file(&link, &ANNA, None).expect("appended");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(AllowList::load(&path).expect("well formed").len(), 1);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_name_cannot_smuggle_in_a_second_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("allow");
        let name = format!("x\n{}", "A".repeat(43));
        let error = append_to_file(&path, &ANNA, Some(&name)).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(!path.exists());
        assert_eq!(check_name("a#b"), Err(NameError::Character));
        assert_eq!(check_name("a streams=9"), Err(NameError::Character));
        assert_eq!(check_name(" a"), Err(NameError::Character));
        assert_eq!(check_name(""), Err(NameError::Length { len: 0 }));
    }
}

//! Private keys on disk: 43 characters of base64url in a file that only its
//! owner may read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ctcp::{Identity, SecretKey};
use ctcp_proto::crypto::SecretRandom;

use crate::failure::Failure;

/// A generator seeded by the operating system.
pub(crate) fn system_random() -> Result<SecretRandom, Failure> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::failed(format!("the system has no randomness to give: {error}"))
    })?;
    Ok(SecretRandom::from_seed(seed))
}

/// A new identity.
pub(crate) fn generate() -> Result<Identity, Failure> {
    Ok(Identity::generate(&mut system_random()?))
}

/// Reads a key file; refuses one that others may read.
pub(crate) fn load(path: &Path) -> Result<Identity, Failure> {
    let shown = path.display();
    if !path.exists() {
        return Err(Failure::usage(format!(
            "the key file {shown} does not exist; make one with `ctcp keygen --out {shown}`"
        )));
    }
    let text = read_private(path)?;
    // The message of the error does not repeat the text: it may be a secret.
    let secret: SecretKey = text.trim().parse().map_err(|error| {
        Failure::usage(format!(
            "the key file {shown} holds no private key: {error}"
        ))
    })?;
    Ok(Identity::from_secret(secret))
}

/// Reads a file that holds a secret; refuses one that others may read.
pub(crate) fn read_private(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let unreadable = |error| Failure::usage(format!("cannot read {shown}: {error}"));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "{shown} holds a secret and can be read by others (mode {mode:04o}): run \
             `chmod 600 {shown}`, and make a new one if someone may have read it"
        )));
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// Writes a key file with mode 0600. An existing one is replaced only if
/// `is_forced`, and then as a whole.
pub(crate) fn save(path: &Path, identity: &Identity, is_forced: bool) -> Result<(), Failure> {
    let text = identity.secret().to_text();
    let line = format!("{}\n", text.as_str());
    let written = if is_forced {
        write_private(path, line.as_bytes())
    } else {
        create_private(path, line.as_bytes())
    };
    written.map_err(|error| {
        let shown = path.display();
        if error.kind() == io::ErrorKind::AlreadyExists {
            Failure::usage(format!(
                "{shown} exists; whoever uses it would lose their identity: \
                 choose another file, or replace it with --force"
            ))
        } else {
            Failure::usage(format!("cannot write the key file {shown}: {error}"))
        }
    })
}

/// The identity in `path`, made if there is none. Tells whether it was made.
pub(crate) fn load_or_create(path: &Path) -> Result<(Identity, bool), Failure> {
    if path.exists() {
        return Ok((load(path)?, false));
    }
    let identity = generate()?;
    save(path, &identity, false)?;
    Ok((identity, true))
}

/// Writes a new file that nobody else may read.
fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes a file that nobody else may read, or replaces it as a whole.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Temporary files are made with mode 0600, and the rename keeps it.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("exists").permissions().mode() & 0o777
    }

    #[test]
    fn a_key_file_is_private_and_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let (made, is_new) = load_or_create(&path).expect("writable");
        assert!(is_new);
        assert_eq!(mode(&path), 0o600);
        let (read, is_new) = load_or_create(&path).expect("readable");
        assert!(!is_new);
        assert_eq!(read, made);
    }

    #[test]
    fn a_key_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let (first, second) = (generate().expect("random"), generate().expect("random"));
        save(&path, &first, false).expect("new");
        let refusal = save(&path, &second, false).expect_err("exists");
        assert!(refusal.message.contains("--force"), "{}", refusal.message);
        assert_eq!(load(&path).expect("whole"), first);
        save(&path, &second, true).expect("forced");
        assert_eq!(load(&path).expect("whole"), second);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        load_or_create(&path).expect("writable");
        for bad in [0o644, 0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(bad)).expect("ours");
            let refusal = load(&path).expect_err("too open");
            assert!(refusal.message.contains("chmod 600"), "{}", refusal.message);
        }
    }

    #[test]
    fn a_file_that_holds_no_key_does_not_show_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        write_private(&path, b"hunter2\n").expect("writable");
        let refusal = load(&path).expect_err("no key");
        assert!(!refusal.message.contains("hunter2"));
        let missing = load(&folder.path().join("none")).expect_err("missing");
        assert!(missing.message.contains("ctcp keygen"));
    }
}

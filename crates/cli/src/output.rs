//! What a command says: results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::{Map, Value};

use crate::failure::Failure;

static IS_QUIET: AtomicBool = AtomicBool::new(false);
static HAS_JSON_NOTICES: AtomicBool = AtomicBool::new(false);

/// Silences [`notice`] for the rest of the process.
pub(crate) fn set_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether only what went wrong is to be said.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Makes [`notice`] print JSON objects, as the log does.
pub(crate) fn set_json_notices() {
    HAS_JSON_NOTICES.store(true, Ordering::Relaxed);
}

/// Tells a person something on stderr, unless they asked for quiet.
pub(crate) fn notice(message: impl Display) {
    if IS_QUIET.load(Ordering::Relaxed) {
        return;
    }
    if HAS_JSON_NOTICES.load(Ordering::Relaxed) {
        let message = message.to_string();
        let line = serde_json::json!({ "level": "NOTICE", "fields": { "message": message } });
        eprintln!("{line}");
    } else {
        eprintln!("ctcp: {message}");
    }
}

/// One result on stdout: a line `name  value  note`, or an object
/// `{"name": value}`.
///
/// Whoever reads may have left; results are then nobody's concern.
pub(crate) fn result(is_json: bool, name: &str, value: impl Display, note: &str) {
    let line = if is_json {
        let pair = (name.to_owned(), Value::String(value.to_string()));
        Value::Object(Map::from_iter([pair])).to_string()
    } else if note.is_empty() {
        format!("{name:<10}{value}")
    } else {
        format!("{name:<10}{value}    {note}")
    };
    print_line(&line);
}

/// One line on stdout, at once even if stdout is a pipe.
pub(crate) fn print_line(line: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}

/// How a script learns that a service accepts connections.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadyArgs {
    /// Write READY into this file, too, once connections are accepted; it is
    /// removed at the end
    #[arg(long, value_name = "FILE", env = "CTCP_READY_FILE")]
    ready_file: Option<PathBuf>,
}

/// Removes the ready file when the service ends.
#[derive(Debug)]
pub(crate) struct Ready(Option<PathBuf>);

impl ReadyArgs {
    /// Says `READY` on stderr and in the file.
    pub(crate) fn announce(&self) -> Result<Ready, Failure> {
        if let Some(path) = &self.ready_file {
            write_ready(path)?;
        }
        eprintln!("READY");
        Ok(Ready(self.ready_file.clone()))
    }
}

/// Whoever waits for the file must not see it empty, so it comes by a rename.
fn write_ready(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(b"READY\n")?;
        file.persist(path).map_err(|e| e.error)
    });
    written.map(drop).map_err(|error| {
        let path = path.display();
        Failure::usage(format!("cannot write the ready file {path}: {error}"))
    })
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

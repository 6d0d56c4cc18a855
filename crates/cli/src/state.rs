//! What `ctcp` remembers between runs: `$XDG_STATE_HOME/ctcp`, or
//! `~/.local/state/ctcp`, or where `--state` says.
//!
//! | file | holds |
//! |---|---|
//! | `server.key`, `client.key` | the identities, mode 0600 |
//! | `allow` | clients that were enrolled by an invite |
//! | `invites` | hashes of the invites outstanding |
//! | `files/` | the same for `ctcp send` and `ctcp receive` |
//! | `known-server` | `HOST:PORT PUBLICKEY` of the server this client is paired with |

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use clap::Args;
use ctcp::PublicKey;
use ctcp_proxy::target::Target;

use crate::failure::Failure;
use crate::keys;

/// Where the state is.
#[derive(Debug, Clone, Args)]
pub(crate) struct StateArgs {
    /// Folder for what is remembered: identities, enrolled keys, the paired
    /// server [default: $XDG_STATE_HOME/ctcp or ~/.local/state/ctcp]
    #[arg(long, value_name = "DIR", env = "CTCP_STATE")]
    pub(crate) state: Option<PathBuf>,
}

/// The folder of the state.
#[derive(Debug, Clone)]
pub(crate) struct State(PathBuf);

/// A server, and the key that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) address: Target,
    pub(crate) key: PublicKey,
}

impl StateArgs {
    /// The folder; it may not exist yet.
    pub(crate) fn locate(&self) -> Result<State, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let xdg = || variable("XDG_STATE_HOME").map(|base| PathBuf::from(base).join("ctcp"));
        let home = || variable("HOME").map(|base| PathBuf::from(base).join(".local/state/ctcp"));
        let folder = self.state.clone().or_else(xdg).or_else(home);
        folder.map(State).ok_or_else(|| {
            Failure::usage("neither XDG_STATE_HOME nor HOME is set: say --state DIR")
        })
    }
}

impl State {
    /// Makes the folder, for its owner only.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made.map_err(|error| {
            let shown = self.0.display();
            Failure::usage(format!(
                "cannot make the folder {shown}: {error}; choose another with --state DIR"
            ))
        })
    }

    /// What file transfers remember, apart from the proxies.
    pub(crate) fn files(&self) -> Self {
        Self(self.0.join("files"))
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.0.join("server.key")
    }

    pub(crate) fn client_key(&self) -> PathBuf {
        self.0.join("client.key")
    }

    pub(crate) fn allow(&self) -> PathBuf {
        self.0.join("allow")
    }

    pub(crate) fn invites(&self) -> PathBuf {
        self.0.join("invites")
    }

    fn known_server(&self) -> PathBuf {
        self.0.join("known-server")
    }

    /// The server this client is paired with, if it is.
    pub(crate) fn load_server(&self) -> Result<Option<Server>, Failure> {
        let path = self.known_server();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let shown = path.display();
                return Err(Failure::usage(format!("cannot read {shown}: {error}")));
            }
        };
        let mut words = text.split_whitespace();
        let parsed = (|| {
            let address = words.next()?.parse().ok()?;
            let key = words.next()?.parse().ok()?;
            Some(Server { address, key })
        })();
        let damaged = || {
            let shown = path.display();
            Failure::usage(format!(
                "{shown} is damaged: delete it and pair again with `ctcp client -`"
            ))
        };
        parsed.ok_or_else(damaged).map(Some)
    }

    /// Remembers the server this client is paired with.
    pub(crate) fn save_server(&self, server: &Server) -> Result<(), Failure> {
        let path = self.known_server();
        let line = format!("{} {}\n", server.address, server.key);
        keys::write_private(&path, line.as_bytes())
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn state(folder: &Path) -> State {
        let args = StateArgs {
            state: Some(folder.to_owned()),
        };
        args.locate().expect("given")
    }

    #[test]
    fn a_paired_server_is_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = state(&folder.path().join("deep/state"));
        assert_eq!(state.load_server(), Ok(None));
        state.create().expect("writable");
        let server = Server {
            address: "vpn.example:4500".parse().expect("an address"),
            key: PublicKey::from_bytes([7; 32]),
        };
        state.save_server(&server).expect("writable");
        assert_eq!(state.load_server(), Ok(Some(server)));
    }

    #[test]
    fn a_damaged_memory_names_file_and_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("known-server"), "vpn.example").expect("writable");
        let failure = state(folder.path()).load_server().expect_err("damaged");
        assert!(failure.message.contains("known-server"));
        assert!(failure.message.contains("ctcp client -"));
    }
}

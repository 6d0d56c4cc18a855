//! The two identities of CTCP's ends, made once per run as users make them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server's and a client's private key files and public keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) server_file: PathBuf,
    pub(crate) server_public: String,
    pub(crate) client_file: PathBuf,
    pub(crate) client_public: String,
}

impl Keys {
    /// Runs `ctcp keygen` twice; the error is one line.
    pub(crate) fn generate(ctcp: &Path, folder: &Path) -> Result<Self, String> {
        let make = |name: &str| {
            let file = folder.join(name);
            let output = Command::new(ctcp)
                .args(["keygen", "--force", "--out"])
                .arg(&file)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("cannot run {}: {error}", ctcp.display()))?;
            let public = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            match output.status.success() && !public.is_empty() {
                true => Ok((file, public)),
                false => Err(format!(
                    "`{} keygen` failed: {}",
                    ctcp.display(),
                    String::from_utf8_lossy(&output.stderr).trim()
                )),
            }
        };
        let (server_file, server_public) = make("server.key")?;
        let (client_file, client_public) = make("client.key")?;
        Ok(Self {
            server_file,
            server_public,
            client_file,
            client_public,
        })
    }
}

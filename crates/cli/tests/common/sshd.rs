//! An ssh server for the user that runs the tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// It runs until it is dropped.
pub struct Sshd {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sshd {
    /// On a free port of loopback.
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = free.local_addr().expect("bound");
        drop(free);
        Self::start_at(address, "")
    }

    /// At `address`; `force`, unless empty, runs in place of what is asked for.
    pub fn start_at(address: SocketAddr, force: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(name))
                .output()
                .expect("ssh-keygen runs");
            super::assert_ok(&made);
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut config = format!(
            "ListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
            at("host"),
            at("user.pub")
        );
        if !force.is_empty() {
            config.push_str(&format!("ForceCommand {force}\n"));
        }
        std::fs::write(folder.path().join("config"), config).expect("written");
        if rustix::process::geteuid().is_root() {
            // sshd wants it to exist; where it is missing, no sshd has ever run.
            let _ = std::fs::create_dir_all("/run/sshd");
        }
        let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|program| Path::new(program).exists())
            .expect("sshd wants to be started by its full path");
        let child = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(folder.path().join("config"))
            .stderr(Stdio::null())
            .spawn()
            .expect("sshd runs");
        let sshd = Self {
            child,
            folder,
            port: address.port(),
        };
        let reached = match address.ip() {
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        super::wait_until("sshd", Duration::from_secs(10), || {
            TcpStream::connect((reached, address.port())).is_ok()
        });
        sshd
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The key that it lets in.
    pub fn user_key(&self) -> String {
        self.folder.path().join("user").display().to_string()
    }

    /// What a client says to get in without being asked.
    pub fn client_config(&self) -> String {
        format!(
            "User {}\nIdentityFile {}\nBatchMode yes\nStrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\nLogLevel ERROR\n",
            user(),
            self.user_key()
        )
    }
}

/// Who runs the tests.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

//! What listens beside the server for one flow.

use std::fs;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use ctcp_emu::{Namespace, Process};
use rustix::net as socket;
use socket2::{Domain, Protocol, Socket, Type};

use crate::point::{Flow, Program, System, Workload};
use crate::testbed::bed::Bed;
use crate::testbed::service::Service;
use crate::venue::RunError;
use crate::workload::{
    Content, Deadline, Film, IPERF_PORT, RSYNC_PORT, Site, WebServer, find_program,
    wait_for_listener, web_port,
};

/// The servers of one flow. They end when dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    _web: WebServer,
    _rsync: Option<RsyncDaemon>,
    _iperf: Option<Service>,
}

impl Servers {
    /// Starts what the flow needs.
    pub(crate) fn start(
        bed: &Arc<Bed>,
        flow: &Flow,
        index: usize,
        content: &Arc<Content>,
        film: Option<&Film>,
        folder: &Path,
        deadline: &Deadline,
    ) -> Result<Self, RunError> {
        let ip = bed.server_address(0, index);
        let listen = |port, protocol| {
            // Further subflows come to other addresses.
            let ip = match flow.system {
                System::Mptcp { .. } => Ipv4Addr::UNSPECIFIED,
                _ => ip,
            };
            let address = SocketAddr::from((ip, port));
            let bound = bed.server().run(|| bind(address, protocol));
            let bound = bound.map_err(|error| RunError::Failed(error.to_string()))?;
            bound.map_err(|error| RunError::failed(format!("cannot listen on {address}"), error))
        };
        let protocol = match flow.system {
            System::Mptcp { .. } => Protocol::MPTCP,
            _ => Protocol::TCP,
        };
        let site = Site {
            content: content.clone(),
            film: film.map(|film| film.path.clone()),
            congestion: match &flow.system {
                System::Mptcp { congestion } => Some(congestion.clone()),
                _ => None,
            },
        };
        let web = WebServer::start(listen(web_port(index), protocol)?, site);
        let mut servers = Self {
            _web: web,
            _rsync: None,
            _iperf: None,
        };
        match flow.workload {
            Workload::Fetch {
                bytes,
                program: Program::Rsync,
                ..
            } => {
                let listener = listen(RSYNC_PORT, protocol)?;
                let daemon = RsyncDaemon::start(bed, listener, content, bytes, folder)?;
                servers._rsync = Some(daemon);
            }
            Workload::Fetch {
                program: Program::Iperf3,
                ..
            } => {
                let mut command = Command::new(find("iperf3"));
                command.args(["--server", "--bind", &ip.to_string(), "--port"]);
                command.arg(IPERF_PORT.to_string());
                servers._iperf = Some(Service::start(bed.server(), "iperf3 --server", command)?);
                let address = SocketAddr::from((ip, IPERF_PORT));
                wait_for_listener(bed.server(), address, deadline)
                    .map_err(|error| error.into_run_error("iperf3 does not listen"))?;
            }
            _ => {}
        }
        Ok(servers)
    }
}

fn find(program: &str) -> std::path::PathBuf {
    find_program(program).unwrap_or_else(|| program.into())
}

fn bind(address: SocketAddr, protocol: Protocol) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

/// rsync's daemon, one process a connection, which inherits the connection as its
/// standard input: so none of them goes into the background.
#[derive(Debug)]
struct RsyncDaemon {
    listener: Arc<TcpListener>,
    running: Arc<Mutex<Vec<Process>>>,
    accepting: Option<JoinHandle<()>>,
}

impl RsyncDaemon {
    fn start(
        bed: &Arc<Bed>,
        listener: TcpListener,
        content: &Content,
        bytes: u64,
        folder: &Path,
    ) -> Result<Self, RunError> {
        let shared = folder.join("served");
        let config = folder.join("rsyncd.conf");
        let written = fs::create_dir_all(&shared)
            .and_then(|()| write_object(&shared.join("object"), content, bytes))
            .and_then(|()| {
                // As root it would become nobody, who may not read the folder.
                let user = if may_change_groups() {
                    "uid = 0\ngid = 0\n"
                } else {
                    ""
                };
                let text = format!(
                    "use chroot = no\n{user}reverse lookup = no\n\
                     [lab]\npath = {}\nread only = yes\n",
                    shared.display()
                );
                fs::write(&config, text)
            });
        written.map_err(|error| RunError::failed(folder.display(), error))?;
        let listener = Arc::new(listener);
        let running = Arc::new(Mutex::new(Vec::new()));
        let accepting = {
            let (listener, running, bed) = (listener.clone(), running.clone(), bed.clone());
            thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    serve(bed.server(), stream, &config, &running);
                }
            })
        };
        Ok(Self {
            listener,
            running,
            accepting: Some(accepting),
        })
    }
}

impl Drop for RsyncDaemon {
    fn drop(&mut self) {
        let _ = socket::shutdown(&self.listener, socket::Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.running.lock().expect("no holder panics").clear();
    }
}

fn serve(server: &Namespace, stream: TcpStream, config: &Path, running: &Mutex<Vec<Process>>) {
    let _ = stream.set_nodelay(true);
    let spare = stream.try_clone();
    let mut command = rsync_command();
    command
        .arg("--daemon")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = running.lock().expect("no holder panics");
    running.retain_mut(|process| matches!(process.try_wait(), Ok(None)));
    match server.spawn(command) {
        Ok(process) => running.push(process),
        // The client sees the connection end, and says so.
        Err(error) => {
            tracing::warn!(%error, "no rsync daemon");
            drop(spare.map(|stream| stream.shutdown(Shutdown::Both)));
        }
    }
}

/// rsync as somebody who is not root in a user namespace with a single user: as
/// root it would change its groups, which the kernel forbids there.
fn rsync_command() -> Command {
    if may_change_groups() {
        return Command::new(find("rsync"));
    }
    let mut command = Command::new(find("unshare"));
    command.args(["--user", "--map-user=1", "--map-group=1"]);
    command.arg(find("rsync"));
    command
}

fn may_change_groups() -> bool {
    fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "allow")
}

fn write_object(path: &Path, content: &Content, bytes: u64) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut written = 0;
    while written < bytes {
        let part = content.at(written);
        let len = (part.len() as u64).min(bytes - written) as usize;
        file.write_all(&part[..len])?;
        written += len as u64;
    }
    file.flush()
}

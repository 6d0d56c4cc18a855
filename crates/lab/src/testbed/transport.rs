//! Systems under test: how each carries connections from client to server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::point::{Flow, System};
use crate::testbed::bed::{Bed, text};
use crate::testbed::counters::{Counters, Received};
use crate::testbed::keys::Keys;
use crate::testbed::mptcp;
use crate::testbed::service::Service;
use crate::venue::RunError;
use crate::workload::{Carrier, Deadline, wait_for_listener};

/// UDP port of CTCP's server, at the flow's own address.
const CTCP_PORT: u16 = 4500;
/// SOCKS port of the first flow; the others follow.
const SOCKS_PORT: u16 = 1080;

/// How long a system may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// How long it may take to end.
const END_MAX: Duration = Duration::from_millis(300);

/// A system that carries one flow.
#[derive(Debug)]
pub(crate) struct Transport {
    carrier: Carrier,
    /// The client's side last; it is ended first.
    services: Vec<Service>,
    again: Option<Again>,
    /// Where CTCP tells of itself.
    counters: Option<Counters>,
}

/// What it takes to start the client's side anew.
#[derive(Debug)]
struct Again {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

/// With what systems are started.
#[derive(Debug)]
pub(crate) struct Kit<'a> {
    /// The `ctcp` under test.
    pub(crate) ctcp: &'a Path,
    pub(crate) keys: Option<&'a Keys>,
    /// Where the processes of the flow shall have their control sockets.
    pub(crate) control: Option<Counters>,
}

impl Transport {
    /// Starts the system of flow `index`.
    pub(crate) fn start(
        bed: &Bed,
        kit: &Kit<'_>,
        flow: &Flow,
        index: usize,
        deadline: &Deadline,
    ) -> Result<Self, RunError> {
        let deadline = deadline.within(START_MAX);
        let socks = SocketAddr::from((Ipv4Addr::LOCALHOST, SOCKS_PORT + index as u16));
        match &flow.system {
            System::Tcp { .. } => Ok(Self::of_kernel(Carrier::Direct)),
            System::Mptcp { .. } => {
                mptcp::set_up(bed, index, &deadline)?;
                Ok(Self::of_kernel(Carrier::Multipath))
            }
            System::Ctcp {
                congestion,
                redundancy,
                arguments,
            } => {
                let mut common = vec!["--congestion".to_owned(), congestion.clone()];
                if !redundancy.is_empty() {
                    common.extend(["--redundancy".to_owned(), redundancy.clone()]);
                }
                common.extend(arguments.iter().cloned());
                if let Some(control) = &kit.control {
                    let folder = control.folder().display().to_string();
                    common.extend(["--control".to_owned(), folder]);
                }
                Self::start_ctcp(bed, kit, (index, flow.paths_each), socks, common, &deadline)
            }
            System::Simulated { .. } | System::Model { .. } | System::Suite { .. } => {
                Err(RunError::Failed(
                    "simulated transports and equations do not run on the testbed".into(),
                ))
            }
            System::External {
                server_command,
                client_command,
            } => {
                let filled = |text: &str| fill(text, bed, index, socks.port());
                Self::start_external(
                    bed,
                    &filled(server_command),
                    &filled(client_command),
                    socks,
                    &deadline,
                )
            }
        }
    }

    fn of_kernel(carrier: Carrier) -> Self {
        Self {
            carrier,
            services: vec![],
            again: None,
            counters: None,
        }
    }

    /// Starts both of CTCP's proxies, as users do.
    fn start_ctcp(
        bed: &Bed,
        kit: &Kit<'_>,
        (index, paths_each): (usize, u32),
        socks: SocketAddr,
        common: Vec<String>,
        deadline: &Deadline,
    ) -> Result<Self, RunError> {
        let keys = kit.keys.ok_or_else(|| RunError::Failed("no keys".into()))?;
        let server = bed.server_address(0, index);
        let path_count = bed.path_count() * paths_each as usize;
        let listen = match path_count {
            1 => SocketAddr::from((server, CTCP_PORT)),
            _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, CTCP_PORT + index as u16)),
        };
        let mut command = ctcp_command(kit.ctcp);
        command
            .args(["server", "--listen", &listen.to_string()])
            .arg("--key")
            .arg(&keys.server_file)
            .args(["--allow", &keys.client_public])
            .args(["--egress-allow", &format!("{server}/32")])
            .args(&common);
        let service = Service::start(bed.server(), "ctcp server", command)?;
        service.wait_ready(deadline)?;

        let mut arguments = vec!["client".to_owned(), "--server".to_owned()];
        arguments.push(SocketAddr::from((server, listen.port())).to_string());
        arguments.extend(["--server-key".to_owned(), keys.server_public.clone()]);
        arguments.extend(["--key".to_owned(), keys.client_file.display().to_string()]);
        arguments.extend(["--socks".to_owned(), socks.to_string()]);
        if path_count > 1 {
            for path in 0..bed.path_count() {
                let remote = SocketAddr::from((bed.server_address(path, index), listen.port()));
                let further = (1..paths_each).map(|way| bed.way_address(path, index, way));
                for local in std::iter::once(bed.client_address(path, index)).chain(further) {
                    arguments.extend(["--path".to_owned(), format!("{local}@{remote}")]);
                }
            }
        }
        arguments.extend(common);
        let again = Again {
            name: "ctcp client",
            program: kit.ctcp.to_owned(),
            arguments,
        };
        let client = again.start(bed, deadline)?;
        Ok(Self {
            carrier: Carrier::Socks(socks),
            services: vec![service, client],
            again: Some(again),
            counters: kit.control.clone(),
        })
    }

    fn start_external(
        bed: &Bed,
        server_command: &str,
        client_command: &str,
        socks: SocketAddr,
        deadline: &Deadline,
    ) -> Result<Self, RunError> {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(line);
            command
        };
        let server = Service::start(bed.server(), server_command, shell(server_command))?;
        let mut client = Service::start(bed.client(), client_command, shell(client_command))?;
        wait_for_listener(bed.client(), socks, deadline).map_err(|error| {
            let ended = client.check_alive().err();
            ended.unwrap_or_else(|| {
                error.into_run_error(&format!("`{client_command}` does not listen on {socks}"))
            })
        })?;
        Ok(Self {
            carrier: Carrier::Socks(socks),
            services: vec![server, client],
            again: None,
            counters: None,
        })
    }

    pub(crate) fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// What the client has received so far, if the system tells.
    pub(crate) fn received(&self) -> Option<Received> {
        self.counters.as_ref()?.received()
    }

    /// The sender's smoothed round trip, seconds, if the system tells.
    pub(crate) fn srtt_s(&self) -> Option<f64> {
        self.counters.as_ref()?.srtt_s()
    }

    /// Ends the client's side and starts it anew: the next connection of a flow
    /// begins with a handshake. The kernel's connections always do.
    pub(crate) fn restart(&mut self, bed: &Bed, deadline: &Deadline) -> Result<(), RunError> {
        let Some(again) = &self.again else {
            return Ok(());
        };
        if let Some(client) = self.services.pop() {
            client.stop(END_MAX);
        }
        self.services.push(again.start(bed, deadline)?);
        Ok(())
    }

    /// Whether a connection is kept between the flow's own.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.carrier, Carrier::Socks(_))
    }

    /// That nothing ended by itself.
    pub(crate) fn check_alive(&mut self) -> Result<(), RunError> {
        self.services.iter_mut().try_for_each(Service::check_alive)
    }
}

impl Again {
    fn start(&self, bed: &Bed, deadline: &Deadline) -> Result<Service, RunError> {
        let mut command = ctcp_command(&self.program);
        command.args(&self.arguments);
        let service = Service::start(bed.client(), self.name, command)?;
        service.wait_ready(&deadline.within(START_MAX))?;
        Ok(service)
    }
}

/// Runs `ctcp` as the command line says and no environment variable else.
fn ctcp_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CTCP_") && name != "CTCP_GF256_KERNEL" {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG");
    command
}

/// Replaces `{server}`, `{port}` and `{target}` in a user's command.
fn fill(line: &str, bed: &Bed, index: usize, socks_port: u16) -> String {
    let server = text(bed.server_address(0, index));
    let target = format!("{server}:{}", crate::workload::web_port(index));
    line.trim()
        .replace("{server}", &server)
        .replace("{port}", &socks_port.to_string())
        .replace("{target}", &target)
}

//! Network namespaces that vanish with the process.
//!
//! A [`Namespace`] is held by a descriptor of this process and by the programs
//! in it; no name is left in the file system. Work is done inside by threads
//! that enter it ([`Namespace::run`]), programs run there by
//! [`Namespace::spawn`].
//!
//! Programs live in a process namespace of their own, whose first process ends
//! when this process does, whatever ends it; then the kernel ends all the others
//! with SIGKILL, those among them that went into the background.
//!
//! Creating namespaces takes privileges over the network. Root has them;
//! everybody else gets them over namespaces of their own by
//! [`enter_user_namespace`], first thing in `main`.

mod netlink;
mod process;
mod user;

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use ctcp_units::Duration;
use nix::sched::{CloneFlags, setns, unshare};
use thiserror::Error;

use process::Launcher;
pub use process::Process;
pub use user::{Standing, UserNamespaceError, enter_user_namespace};

pub(crate) use netlink::{Veth, is_operating, set_queue, set_up_without_arp};

/// Why something could not be done in a namespace.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// The kernel gives no network namespace.
    #[error("no network namespace `{name}`: {source}; {}", user::remedy())]
    Create {
        /// The name it was to have.
        name: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A thread cannot be started, or cannot enter the namespace.
    #[error("cannot enter namespace `{name}`: {source}")]
    Enter {
        /// Which one.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A program cannot be run.
    #[error("cannot run `{program}` in namespace `{name}`: {source}; is it installed?")]
    Spawn {
        /// Which namespace.
        name: String,
        /// The program.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// Programs cannot be kept together.
    #[error(
        "no process namespace for `{name}`: {source}; it takes `cat` (package coreutils) and \
         privileges: run as root, or see `sysctl user.max_pid_namespaces`"
    )]
    Processes {
        /// Which namespace.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A device, address, route or sysctl cannot be set.
    #[error("cannot {what} in namespace `{name}`: {source}")]
    Set {
        /// What was to be set, with its value.
        what: String,
        /// Which namespace.
        name: String,
        /// What the kernel says.
        source: io::Error,
    },
}

/// A route, with what TCP connections over it start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub destination: IpAddr,
    /// Bits of `destination` that count.
    pub prefix_len: u8,
    /// The device that leads there.
    pub device: String,
    /// The next router; none if the destination is at the other end of the device.
    pub gateway: Option<IpAddr>,
    /// Own address that packets bear unless their socket says otherwise.
    pub source: Option<IpAddr>,
    /// Congestion control of TCP connections that use it, such as `cubic`.
    pub congestion: Option<String>,
    /// Initial window of TCP connections that use it, in packets.
    pub initial_window_packets: Option<u32>,
    /// Shortest retransmission timeout of TCP connections that use it; whole
    /// milliseconds.
    pub rto_min: Option<Duration>,
}

impl Route {
    /// A route to what is at the other end of `device`.
    pub fn new(destination: IpAddr, prefix_len: u8, device: &str) -> Self {
        Self {
            destination,
            prefix_len,
            device: device.to_owned(),
            gateway: None,
            source: None,
            congestion: None,
            initial_window_packets: None,
            rto_min: None,
        }
    }
}

/// A network namespace. Dropping it ends its programs; it vanishes with the last
/// thread and socket inside.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    net: File,
    /// Started with the first program.
    launcher: Mutex<Option<Launcher>>,
}

impl Namespace {
    /// An empty namespace, its loopback device up. `name` is for messages only.
    ///
    /// IPv6 is off on devices to come, until they get an address of that kind:
    /// what the kernel sends on its own account would disturb the counts.
    ///
    /// # Errors
    /// [`NamespaceError::Create`] without the privilege; see
    /// [`enter_user_namespace`].
    pub fn new(name: &str) -> Result<Self, NamespaceError> {
        let create = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        let created = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, create)?;
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
        });
        let net = created.map_err(|source| NamespaceError::Create {
            name: name.to_owned(),
            source,
        })?;
        let namespace = Self {
            name: name.to_owned(),
            net,
            launcher: Mutex::new(None),
        };
        namespace.set("bring up loopback", || netlink::set_up("lo"))?;
        if fs::exists("/proc/sys/net/ipv6").unwrap_or(false) {
            namespace.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        Ok(namespace)
    }

    /// What it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file that programs can enter it by while this process lives:
    /// `nsenter --net=PATH`.
    pub fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        let (pid, fd) = (std::process::id(), self.net.as_raw_fd());
        format!("/proc/{pid}/fd/{fd}").into()
    }

    /// Runs `work` in a thread inside and waits for it. Sockets opened there, and
    /// threads started there, stay inside. A panic of `work` goes on here.
    ///
    /// # Errors
    /// [`NamespaceError::Enter`] if no thread can be had.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
        let entered = thread::scope(|scope| {
            let inside = || self.enter().map(|()| work());
            let thread = thread::Builder::new()
                .name(self.name.clone())
                .spawn_scoped(scope, inside)?;
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        entered.map_err(|source| self.enter_error(source))
    }

    /// Starts a thread inside.
    ///
    /// # Errors
    /// [`NamespaceError::Enter`] if no thread can be had.
    pub fn spawn_thread<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, NamespaceError> {
        // Started from a thread inside, it is inside.
        let name = self.name.clone();
        self.run(|| thread::Builder::new().name(name).spawn(work))?
            .map_err(|source| self.enter_error(source))
    }

    /// Starts a program inside. It ends with this process at the latest, with
    /// all that it starts.
    ///
    /// The program sees process numbers of its own process namespace.
    ///
    /// # Errors
    /// [`NamespaceError::Spawn`] if there is no such program,
    /// [`NamespaceError::Processes`] if it could not be kept from outliving us.
    pub fn spawn(&self, command: Command) -> Result<Process, NamespaceError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let spawned = self.with_launcher(|launcher| launcher.spawn(command))?;
        spawned.map_err(|source| NamespaceError::Spawn {
            name: self.name.clone(),
            program,
            source,
        })
    }

    /// The process number of one that stays in the namespace as long as we do,
    /// for `nsenter --target`.
    ///
    /// # Errors
    /// [`NamespaceError::Processes`].
    pub fn holder_pid(&self) -> Result<u32, NamespaceError> {
        self.with_launcher(|launcher| launcher.holder_pid())
    }

    /// Sets a sysctl of the namespace, by its name with dots.
    ///
    /// # Errors
    /// [`NamespaceError::Set`] if there is no such sysctl, the value is not one,
    /// or the kernel reserves it for root (the set of congestion controls is).
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), NamespaceError> {
        let path = sysctl_path(name);
        self.set(&format!("set sysctl {name}={value}"), || {
            fs::write(path, value)
        })
    }

    /// Reads a sysctl of the namespace, by its name with dots.
    ///
    /// # Errors
    /// [`NamespaceError::Set`] if there is no such sysctl.
    pub fn sysctl(&self, name: &str) -> Result<String, NamespaceError> {
        let path = sysctl_path(name);
        self.set(&format!("read sysctl {name}"), || {
            fs::read_to_string(path).map(|text| text.trim().to_owned())
        })
    }

    /// Adds an address to a device, with the route to its network.
    ///
    /// # Errors
    /// [`NamespaceError::Set`].
    pub fn add_address(
        &self,
        device: &str,
        address: IpAddr,
        prefix_len: u8,
    ) -> Result<(), NamespaceError> {
        if address.is_ipv6() {
            self.set_sysctl(&format!("net.ipv6.conf.{device}.disable_ipv6"), "0")?;
        }
        self.set(&format!("add {address}/{prefix_len} to {device}"), || {
            netlink::add_address(device, address, prefix_len)
        })
    }

    /// Adds a route, or replaces the one to the same network.
    ///
    /// # Errors
    /// [`NamespaceError::Set`]: the device is not there or not up, or the
    /// congestion control is not loaded (`modprobe tcp_NAME`).
    pub fn set_route(&self, route: &Route) -> Result<(), NamespaceError> {
        let Route {
            destination,
            prefix_len,
            device,
            ..
        } = route;
        let mut what = format!("set route to {destination}/{prefix_len} by {device}");
        if let Some(congestion) = &route.congestion {
            what += &format!(" with {congestion} (see `modprobe tcp_{congestion}`)");
        }
        self.set(&what, || netlink::set_route(route))
    }

    /// Brings a device up.
    ///
    /// # Errors
    /// [`NamespaceError::Set`] if there is no such device.
    pub fn set_up(&self, device: &str) -> Result<(), NamespaceError> {
        self.set(&format!("bring up {device}"), || netlink::set_up(device))
    }

    /// What a device has sent since it was made.
    pub(crate) fn device_counts(&self, device: &str) -> Result<DeviceCounts, NamespaceError> {
        self.set(&format!("read the counts of {device}"), || {
            let text = fs::read_to_string("/proc/thread-self/net/dev")?;
            DeviceCounts::find(&text, device).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    /// Does `work` inside; an error is one of setting `what`.
    pub(crate) fn set<R: Send>(
        &self,
        what: &str,
        work: impl FnOnce() -> io::Result<R> + Send,
    ) -> Result<R, NamespaceError> {
        self.run(work)?.map_err(|source| NamespaceError::Set {
            what: what.to_owned(),
            name: self.name.clone(),
            source,
        })
    }

    /// Moves the calling thread inside.
    fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.net, CloneFlags::CLONE_NEWNET)?)
    }

    pub(crate) fn descriptor(&self) -> &File {
        &self.net
    }

    fn enter_error(&self, source: io::Error) -> NamespaceError {
        let name = self.name.clone();
        NamespaceError::Enter { name, source }
    }

    fn with_launcher<R>(&self, work: impl FnOnce(&Launcher) -> R) -> Result<R, NamespaceError> {
        let mut place = self
            .launcher
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        if place.is_none() {
            let net = self.net.try_clone();
            let started = net.and_then(|net| Launcher::start(&self.name, net));
            *place = Some(started.map_err(|source| NamespaceError::Processes {
                name: self.name.clone(),
                source,
            })?);
        }
        Ok(work(place.as_ref().expect("it was just put there")))
    }
}

/// What a device has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceCounts {
    pub(crate) packets: u64,
    /// Packets that found its queue full.
    pub(crate) dropped: u64,
}

impl DeviceCounts {
    /// Finds a device in the text of `/proc/net/dev`: eight columns of what was
    /// received, then bytes, packets, errors and drops of what was sent.
    fn find(text: &str, device: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, counts) = lines.find(|(name, _)| name.trim() == device)?;
        let mut sent = counts.split_whitespace().skip(8).map(str::parse);
        Some(Self {
            packets: sent.nth(1)?.ok()?,
            dropped: sent.nth(1)?.ok()?,
        })
    }
}

fn sysctl_path(name: &str) -> PathBuf {
    format!("/proc/sys/{}", name.replace('.', "/")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_a_device_are_in_its_columns() {
        let text = "Inter-| Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                    path0: 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26\n";
        let found = DeviceCounts::find(text, "path0").expect("it is there");
        assert_eq!((found.packets, found.dropped), (20, 22));
        assert_eq!(DeviceCounts::find(text, "path"), None);
        assert_eq!(DeviceCounts::find("path0: 1 2", "path0"), None);
    }
}

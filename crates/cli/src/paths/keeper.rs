//! Keeps a connection on the paths that there can be: opens them, follows the
//! host's interfaces as they come, go and change, and says what happens.
//!
//! A path whose interface or address has gone is closed, which the server learns
//! over the others at once; one whose address has changed is opened anew before
//! the old one is closed. The last path that works is never closed: it comes back
//! with its interface, or makes way for the first that is proven. While the kernel
//! does not tell what there is (no descriptor is left to ask it with), all stays as
//! it is.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ctcp::{Connection, OpenPathError, PathConfig, PathEvent, PathId};
use ctcp_iface::{Snapshot, Watcher};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};

use super::plan::{Plan, Want, Wish, plan, plan_unseen};
use crate::output::notice;

/// How long after a failure the next attempt is made if nothing changes.
const RETRY: Duration = Duration::from_secs(5);

/// What messages and tables call the paths of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels(Arc<Mutex<BTreeMap<PathId, String>>>);

impl Labels {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is called.
    pub(crate) fn of(&self, path: PathId) -> String {
        let known = self.lock().get(&path).cloned();
        known.unwrap_or_else(|| path.to_string())
    }

    fn set(&self, path: PathId, label: &str) {
        self.lock().insert(path, label.to_owned());
    }

    fn forget(&self, path: PathId) {
        self.lock().remove(&path);
    }
}

/// Works out what there can be now.
pub(crate) fn look(wishes: &[Wish]) -> Plan {
    match Snapshot::take() {
        Ok(snapshot) => plan(wishes, &snapshot),
        Err(error) => plan_unseen(wishes, &error.to_string()),
    }
}

/// A path that exists.
#[derive(Debug)]
struct Open {
    id: PathId,
    want: Want,
}

/// Whether the kernel tells what interfaces there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// It never did.
    Mute,
    Tells,
    /// It did, and the last time it was asked it failed.
    Fails,
}

/// One connection's paths.
#[derive(Debug)]
pub(crate) struct Keeper {
    connection: Connection,
    wishes: Vec<Wish>,
    labels: Labels,
    /// Those that are wanted.
    open: Vec<Open>,
    /// Those that are not, and are closed as soon as another works.
    leaving: Vec<Open>,
    /// What has been said of paths that cannot be.
    said: BTreeMap<usize, String>,
    kernel: Kernel,
    retry_at: Option<Instant>,
}

impl Keeper {
    /// Of a connection that was made by `first`.
    pub(crate) fn new(connection: Connection, wishes: Vec<Wish>, first: Want) -> Self {
        let labels = Labels::default();
        labels.set(PathId(0), &first.label);
        Self {
            connection,
            wishes,
            labels,
            open: vec![Open {
                id: PathId(0),
                want: first,
            }],
            leaving: Vec::new(),
            said: BTreeMap::new(),
            kernel: Kernel::Mute,
            retry_at: None,
        }
    }

    /// What the paths are called.
    pub(crate) fn labels(&self) -> Labels {
        self.labels.clone()
    }

    /// Runs until the connection ends.
    pub(crate) async fn run(mut self) {
        // Before the first look, so that no change falls between.
        let mut watcher = Watcher::new();
        if let Err(error) = &watcher {
            notice(format_args!(
                "cannot watch interfaces: {error}; paths stay as they are now"
            ));
        }
        self.refresh();
        let connection = self.connection.clone();
        loop {
            tokio::select! {
                _ = connection.closed() => return,
                event = connection.path_event() => match event {
                    Some(event) => self.on_event(event),
                    None => return,
                },
                changed = heard(&mut watcher) => match changed {
                    Ok(()) => self.refresh(),
                    Err(error) => {
                        notice(format_args!(
                            "interfaces are not watched any more: {error}; paths stay as they \
                             are now"
                        ));
                        watcher = Err(error);
                    }
                },
                () = due(self.retry_at) => self.refresh(),
            }
        }
    }

    /// Compares what there is with what there can be, and acts.
    fn refresh(&mut self) {
        self.retry_at = None;
        let Some(Plan { wants, problems }) = self.look() else {
            self.retry_at = Some(Instant::now() + RETRY);
            return;
        };
        self.report(problems);
        self.dismiss_unwanted(&wants);
        for want in wants {
            let known = self.open.iter().find(|open| open.want.key == want.key);
            if known.is_none() {
                self.open_path(want);
            }
        }
        self.close_leaving();
    }

    /// What there can be now. None if the kernel told before and does not at the
    /// moment: that says nothing about the paths there are.
    fn look(&mut self) -> Option<Plan> {
        match Snapshot::take() {
            Ok(snapshot) => {
                self.kernel = Kernel::Tells;
                Some(plan(&self.wishes, &snapshot))
            }
            Err(error) if self.kernel == Kernel::Mute => {
                Some(plan_unseen(&self.wishes, &error.to_string()))
            }
            Err(error) => {
                if self.kernel == Kernel::Tells {
                    notice(format_args!(
                        "{error}; paths stay as they are until it answers again"
                    ));
                }
                self.kernel = Kernel::Fails;
                None
            }
        }
    }

    /// Says what cannot be, each thing once.
    fn report(&mut self, problems: BTreeMap<usize, String>) {
        for (spec, line) in &problems {
            if self.said.get(spec) != Some(line) {
                notice(line);
            }
        }
        self.said = problems;
    }

    /// Moves what is not wanted any more to those that leave, and back what is.
    fn dismiss_unwanted(&mut self, wants: &[Want]) {
        let is_wanted = |open: &Open| wants.iter().any(|want| want.is_same_way(&open.want));
        let (stay, leave) = self.open.drain(..).partition(is_wanted);
        self.open = stay;
        let open = &self.open;
        let is_missed = |gone: &Open| {
            is_wanted(gone) && open.iter().all(|known| known.want.key != gone.want.key)
        };
        let (back, gone): (Vec<_>, Vec<_>) = self.leaving.drain(..).partition(is_missed);
        self.open.extend(back);
        self.leaving = gone;
        self.leaving.extend(leave);
    }

    fn open_path(&mut self, want: Want) {
        let opened = open(&want, |config| self.connection.open_path(config));
        match opened {
            Ok(id) => {
                debug!("path {} from {} is being proven", want.label, want.local);
                self.labels.set(id, &want.label);
                self.open.push(Open { id, want });
            }
            Err(OpenPathError::Refused(ctcp_proto::OpenPathError::NotOpen)) => {}
            Err(error) => {
                let line = format!("path {}: {error}", want.label);
                if self.said.get(&want.key.spec) != Some(&line) {
                    notice(&line);
                }
                self.said.insert(want.key.spec, line);
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Closes what leaves, but for the last path that works.
    fn close_leaving(&mut self) {
        let connection = &self.connection;
        self.leaving.retain(|gone| {
            let is_last = matches!(
                connection.close_path(gone.id),
                Err(ctcp::ClosePathError::Last(_))
            );
            if !is_last {
                notice(format_args!(
                    "path {} from {} has gone",
                    gone.want.label, gone.want.local
                ));
            }
            is_last
        });
    }

    fn on_event(&mut self, event: PathEvent) {
        match event {
            PathEvent::Validated(path) => {
                if let Some(open) = self.open.iter().find(|open| open.id == path) {
                    let Want {
                        label,
                        local,
                        remote,
                        ..
                    } = &open.want;
                    notice(format_args!("path {label} is up: {local} to {remote}"));
                }
                self.close_leaving();
            }
            PathEvent::Down(path) => {
                let label = self.labels.of(path);
                notice(format_args!("path {label} is silent; it is tried on"));
            }
            PathEvent::Recovered(path) => {
                notice(format_args!("path {} is back", self.labels.of(path)));
            }
            PathEvent::Unanswered { path, remote } => notice(format_args!(
                "path {}: {remote} does not answer over it; attempts go on, the other paths \
                 carry on",
                self.labels.of(path)
            )),
            PathEvent::Closed(path) => {
                self.leaving.retain(|known| known.id != path);
                let before = self.open.len();
                self.open.retain(|known| known.id != path);
                self.labels.forget(path);
                if self.open.len() < before {
                    // The server's doing.
                    self.retry_at = Some(Instant::now() + RETRY);
                }
            }
            PathEvent::Degraded(path) => debug!("path {} degraded", self.labels.of(path)),
            PathEvent::AddressChanged { path, remote } => {
                info!("path {} leads to {remote} now", self.labels.of(path));
            }
        }
    }
}

/// Opens a path bound to its interface, or to its address alone where the system
/// does not allow that.
fn open(
    want: &Want,
    open: impl Fn(&PathConfig) -> Result<PathId, OpenPathError>,
) -> Result<PathId, OpenPathError> {
    let mut config = PathConfig::new(SocketAddr::new(want.local, 0), want.remote);
    config.options = want.options.clone();
    config.interface = want.interface.as_ref().map(|(_, name)| name.clone());
    match open(&config) {
        Err(OpenPathError::Bind { error, .. }) if is_forbidden(&error) => {
            config.interface = None;
            warn_of_routes(&want.label);
            open(&config)
        }
        result => result,
    }
}

/// Whether a socket may not be bound to an interface: kernels before 5.7 ask for
/// privileges.
pub(crate) fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Says what follows from that.
pub(crate) fn warn_of_routes(label: &str) {
    notice(format_args!(
        "path {label}: this system does not let us choose the interface, so that routes decide; \
         `ctcp paths --apply` as root makes them follow the address"
    ));
}

/// The next change of interfaces; never, if nobody listens.
async fn heard(watcher: &mut io::Result<Watcher>) -> io::Result<()> {
    match watcher {
        Ok(watcher) => watcher.changed().await,
        Err(_) => pending().await,
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

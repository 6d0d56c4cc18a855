//! The paths of a connection: opened and closed, their ids, what becomes of them.
//!
//! The client opens paths. The server hands it connection ids for some paths
//! ahead; a client's first packet on a path carries its own id for it and a
//! challenge. The path is used when both ends have proven that they can be
//! reached there. Ids of paths only grow; a path that was closed stays so.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use ctcp_congestion::{Params, UnknownController, controller_by_name, resolved_name};
use ctcp_units::{Duration, Instant, PathId, millis, seconds};
use thiserror::Error;

use super::receive::note;
use super::{Connection, ConnectionError, Event};
use crate::block::PATHS_MAX;
use crate::config::TransportConfig;
use crate::crypto::{IdCipher, ReplayWindow};
use crate::path::{Candidate, Control, MtuMode, Path, PathPlace, PathSetup, PathState, PathUse};
use crate::stream::Side;
use crate::wire::ConnectionId;

/// Ids of paths that a client is given ahead.
const IDS_AHEAD: u32 = PATHS_MAX as u32 - 1;
/// Ids that a client keeps for paths it has not opened.
const IDS_KEPT: usize = 16;
/// A server does not begin paths while so much that it said about paths has not
/// been acknowledged: a client that only opens them costs bounded memory.
const PATH_CONTROLS_MAX: usize = 64;
/// Challenges of a path being opened are first so far apart, …
pub(super) const OPENING_PAUSE: Duration = millis(250);
/// … then twice that, and so on up to this.
pub(super) const OPENING_PAUSE_MAX: Duration = seconds(5);

/// How a path is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathOptions {
    /// It carries data only while no other path can.
    pub is_backup: bool,
    /// Hundredths of a second that data may wait for another path rather than
    /// take this one: for metered links. 0, the default, costs nothing.
    pub cost: u8,
    /// Name of the congestion controller for what this end sends; the
    /// connection's if none is given.
    pub congestion: Option<String>,
}

/// Why a path was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenPathError {
    /// Only the client opens paths.
    #[error("only the client opens paths")]
    NotClient,
    /// There is no connection: not yet, or not any more.
    #[error("the connection is not open")]
    NotOpen,
    /// As many as there can be. Close one first.
    #[error("a connection has at most {PATHS_MAX} paths; close one first")]
    TooMany,
    /// A path leads from this local to this remote address already.
    #[error("there is a path from {local} to {remote} already: {path}")]
    Duplicate {
        /// That path.
        path: PathId,
        /// Where it begins.
        local: SocketAddr,
        /// Where it leads.
        remote: SocketAddr,
    },
    /// No such controller.
    #[error(transparent)]
    Congestion(#[from] UnknownController),
    /// Every id has been used.
    #[error("the connection has used up its path ids: connect again")]
    IdsExhausted,
}

/// Why a path was not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ClosePathError {
    /// There is no such path.
    #[error("there is no {0}")]
    Unknown(PathId),
    /// A connection keeps its last path that works.
    #[error("no path but {0} works: open another first, or close the connection")]
    Last(PathId),
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEvent {
    /// Both ends can be reached over it: it is in use.
    Validated(PathId),
    /// It has been silent for longer than it ever should be.
    Degraded(PathId),
    /// It has been silent for long; it is probed, and comes back by itself.
    Down(PathId),
    /// It is heard of again.
    Recovered(PathId),
    /// Nobody has answered at the address so far. Attempts go on.
    Unanswered {
        /// The path.
        path: PathId,
        /// Who was asked.
        remote: SocketAddr,
    },
    /// The peer has another address there.
    AddressChanged {
        /// The path.
        path: PathId,
        /// The address.
        remote: SocketAddr,
    },
    /// It is gone.
    Closed(PathId),
}

/// Makes the ids that the peer puts into packets to us.
#[derive(Debug, Clone)]
pub(crate) struct LocalIds {
    pub(crate) cipher: Arc<IdCipher>,
    /// The connection's number at its endpoint.
    pub(crate) connection: u64,
}

impl LocalIds {
    pub(crate) fn id(&self, path: PathId) -> ConnectionId {
        ConnectionId(self.cipher.id(self.connection, path.0))
    }
}

/// Which path ids have been used and may be.
#[derive(Debug)]
pub(super) struct PathIds {
    local: LocalIds,
    /// A client's next path.
    next: u32,
    /// A server has handed out ids of all paths below.
    issued_below: u32,
    /// Highest id seen, and before it, bit by bit, which of the 64 below.
    newest: u32,
    seen: u64,
    /// The server's ids for paths not opened yet.
    kept: VecDeque<(PathId, ConnectionId)>,
}

impl PathIds {
    pub(super) fn new(local: LocalIds) -> Self {
        Self {
            local,
            next: 1,
            issued_below: 1,
            newest: 0,
            seen: 0,
            kept: VecDeque::new(),
        }
    }

    /// Whether the path was opened at some time.
    fn was_opened(&self, path: PathId) -> bool {
        match self.newest.checked_sub(path.0) {
            None => false,
            Some(0) => true,
            // Too old to tell; nothing that old is opened any more.
            Some(distance) => distance > 64 || self.seen >> (distance - 1) & 1 == 1,
        }
    }

    fn note_opened(&mut self, path: PathId) {
        if let Some(ahead) = path.0.checked_sub(self.newest).filter(|ahead| *ahead > 0) {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0);
            if ahead <= 64 {
                self.seen |= 1 << (ahead - 1);
            }
            self.newest = path.0;
        } else if let Some(distance) = (self.newest - path.0).checked_sub(1) {
            self.seen |= 1u64.checked_shl(distance).unwrap_or(0);
        }
    }
}

/// What a path needs beside its place.
///
/// Only the first path is told what is remembered: of others the address of the far
/// side does not tell whether they are the same.
pub(super) fn path_setup(
    config: &TransportConfig,
    remote: SocketAddr,
    name: &str,
    is_first: bool,
) -> PathSetup {
    // 20 bytes more of IP header.
    let mtu = match config.mtu {
        MtuMode::Probed { ceiling } if remote.is_ipv6() => MtuMode::Probed {
            ceiling: ceiling.saturating_sub(20),
        },
        mode => mode,
    };
    let params = Params {
        resume: config.congestion_params.resume.filter(|_| is_first),
        ..config.congestion_params
    };
    PathSetup {
        controller: controller_by_name(name, &params)
            .expect("names are checked before a path is made"),
        mtu,
        is_ecn_enabled: config.is_ecn_enabled,
    }
}

impl Connection {
    /// Opens a path from `local`, which the driver has a socket for, to `remote`,
    /// an address of the server. It is used once both ends have proven that they
    /// can be reached; [`PathEvent`]s tell.
    ///
    /// # Errors
    /// [`OpenPathError`].
    pub fn open_path(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        options: &PathOptions,
    ) -> Result<PathId, OpenPathError> {
        self.advance(now);
        if self.side != Side::Client {
            return Err(OpenPathError::NotClient);
        }
        if !self.is_open() {
            return Err(OpenPathError::NotOpen);
        }
        let twin = |path: &&Path| path.local == Some(local) && path.remote == remote;
        if let Some(path) = self.paths.iter().find(twin).map(|path| path.id) {
            return Err(OpenPathError::Duplicate {
                path,
                local,
                remote,
            });
        }
        let slot = self.free_slot().ok_or(OpenPathError::TooMany)?;
        let name = options.congestion.as_ref();
        let name = name.unwrap_or(&self.config.congestion).clone();
        resolved_name(&name)?;
        let id = PathId(self.ids.next);
        if id.0 >= IdCipher::PATHS_END {
            return Err(OpenPathError::IdsExhausted);
        }
        self.ids.next += 1;
        self.ids.note_opened(id);
        let kept = self.ids.kept.iter().position(|(path, _)| *path == id);
        let remote_id = kept.and_then(|place| self.ids.kept.remove(place));
        let place = PathPlace {
            id,
            slot,
            local: Some(local),
            remote,
            remote_id: remote_id.map(|(_, id)| id),
        };
        let mut path = Path::new(now, place, path_setup(&self.config, remote, &name, false));
        path.usage = PathUse {
            sequence: 0,
            is_backup: options.is_backup,
            cost: options.cost,
        };
        path.candidate = Some(Candidate {
            address: remote,
            challenge: self.random.array(),
            due: now,
            tries_left: u8::MAX,
            pause: OPENING_PAUSE,
            bytes_left: usize::MAX,
        });
        self.paths.push(path);
        Ok(id)
    }

    /// Tells the driver's name of the local address of a path: of the first one,
    /// or of one whose socket was replaced. What the path has learnt is void if
    /// `is_new`, as it leads over another address now.
    ///
    /// # Errors
    /// There is no such path.
    pub fn set_path_local(
        &mut self,
        now: Instant,
        path: PathId,
        local: SocketAddr,
        is_new: bool,
    ) -> Result<(), ClosePathError> {
        self.advance(now);
        let index = self.path_index(path).ok_or(ClosePathError::Unknown(path))?;
        self.paths[index].local = Some(local);
        if is_new && self.is_open() && self.paths[index].is_validated {
            self.change_address(now, index, self.paths[index].remote);
            self.paths[index].is_ping_due = true;
        }
        Ok(())
    }

    /// Changes how a path is used; the client's word counts at both ends.
    ///
    /// # Errors
    /// There is no such path.
    pub fn set_path_use(
        &mut self,
        path: PathId,
        is_backup: bool,
        cost: u8,
    ) -> Result<(), ClosePathError> {
        let index = self.path_index(path).ok_or(ClosePathError::Unknown(path))?;
        let sequence = self.paths[index].usage.sequence + 1;
        self.paths[index].usage = PathUse {
            sequence,
            is_backup,
            cost,
        };
        self.say_path_use(index);
        Ok(())
    }

    /// Sends a ping on a path with the next datagrams; who listens learns of it as
    /// [`TraceEvent::Ping`](crate::TraceEvent::Ping), and [`crate::PingLog`] of what
    /// becomes of it. Asked twice before it leaves, it leaves once. On a path that has
    /// yet to prove itself it waits for that.
    ///
    /// # Errors
    /// There is no such path.
    pub fn ping_path(&mut self, now: Instant, path: PathId) -> Result<(), ClosePathError> {
        self.advance(now);
        let index = self.path_index(path).ok_or(ClosePathError::Unknown(path))?;
        self.paths[index].is_ping_wanted = true;
        Ok(())
    }

    /// Closes a path. What was on its way goes out on the others.
    ///
    /// # Errors
    /// [`ClosePathError`]: there is no such path, or no other.
    pub fn close_path(&mut self, now: Instant, path: PathId) -> Result<(), ClosePathError> {
        self.advance(now);
        let index = self.path_index(path).ok_or(ClosePathError::Unknown(path))?;
        if !self.has_validated_beside(index) {
            return Err(ClosePathError::Last(path));
        }
        self.remove_path(index);
        self.say_of_path(Control::PathClose(path));
        Ok(())
    }

    /// The driver cannot send on the path: the host knows no way there. It is
    /// spared at once if there are others, and probed.
    pub fn on_path_error(&mut self, now: Instant, path: PathId) {
        self.advance(now);
        if let Some(index) = self.path_index(path)
            && let Some(state) = self.paths[index].suspect()
        {
            self.on_path_silence(now, index, state);
        }
    }

    /// The driver can hand over nothing more on the path, as the buffer of its
    /// socket is full, or it can again: meanwhile [`Connection::poll_transmit`] has
    /// nothing for it, but for what was ready before. Unknown paths do not matter.
    pub fn set_path_blocked(&mut self, path: PathId, is_blocked: bool) {
        if let Some(index) = self.path_index(path) {
            self.paths[index].is_blocked = is_blocked;
        }
    }

    /// Whether another path can say what this one cannot.
    pub(super) fn has_way_beside(&self, path: &Path) -> bool {
        let mut others = self.paths.iter().filter(|other| other.id != path.id);
        others.any(|other| other.is_validated && other.remote_id.is_some() && !other.is_blocked)
    }

    /// A place in the arrays over paths.
    fn free_slot(&self) -> Option<usize> {
        (0..PATHS_MAX).find(|slot| self.paths.iter().all(|path| path.slot != *slot))
    }

    fn say_path_use(&mut self, index: usize) {
        let path = &self.paths[index];
        let PathUse {
            sequence,
            is_backup,
            cost,
        } = path.usage;
        let path = path.id;
        self.say_of_path(Control::PathUse {
            path,
            sequence,
            is_backup,
            cost,
        });
    }

    fn say_of_path(&mut self, control: Control) {
        self.path_controls += 1;
        self.controls.push_back(control);
    }

    /// A control frame about a path was lost: whether to say it again.
    pub(super) fn is_path_control_wanted(&self, control: Control) -> bool {
        match control {
            Control::PathUse { path, sequence, .. } => self
                .path_index(path)
                .is_some_and(|index| self.paths[index].usage.sequence == sequence),
            Control::PathId { path, .. } => !self.ids.was_opened(path),
            _ => true,
        }
    }

    /// A server gives its client ids for the next paths.
    pub(super) fn issue_path_ids(&mut self) {
        let end = (self.ids.newest + 1 + IDS_AHEAD).min(IdCipher::PATHS_END);
        for path in (self.ids.issued_below..end).map(PathId) {
            let id = self.ids.local.id(path);
            self.say_of_path(Control::PathId { path, id });
        }
        self.ids.issued_below = self.ids.issued_below.max(end);
    }

    /// Our own id for a path, which the packets that open it carry.
    pub(super) fn local_path_id(&self, path: PathId) -> ConnectionId {
        self.ids.local.id(path)
    }

    /// The peer puts this id into packets to it on `path`.
    pub(super) fn on_path_id(&mut self, path: PathId, id: ConnectionId) {
        if let Some(index) = self.path_index(path) {
            self.paths[index].remote_id.get_or_insert(id);
        } else if self.side == Side::Client
            && path.0 >= self.ids.next
            && self.ids.kept.len() < IDS_KEPT
            && self.ids.kept.iter().all(|(known, _)| *known != path)
        {
            self.ids.kept.push_back((path, id));
        }
    }

    pub(super) fn on_path_use(&mut self, path: PathId, usage: PathUse) {
        if self.side == Side::Server
            && let Some(index) = self.path_index(path)
        {
            let known = &mut self.paths[index].usage;
            if usage.sequence >= known.sequence {
                *known = usage;
            }
        }
    }

    /// The peer closed a path.
    pub(super) fn on_path_close(&mut self, path: PathId) {
        // The last one stays: the peer has another that has yet to prove itself.
        if let Some(index) = self.path_index(path)
            && self.has_validated_beside(index)
        {
            self.remove_path(index);
        }
    }

    fn has_validated_beside(&self, index: usize) -> bool {
        let mut paths = self.paths.iter().enumerate();
        paths.any(|(at, path)| at != index && path.is_validated)
    }

    /// Whether there was such a path; what still speaks of it is no violation.
    pub(super) fn was_path_opened(&self, path: PathId) -> bool {
        self.ids.was_opened(path)
    }

    /// Whether a packet on `path`, which there is not, may be the first of it.
    pub(super) fn may_begin(&self, path: PathId) -> bool {
        self.side == Side::Server
            && path.0 < self.ids.issued_below
            && !self.ids.was_opened(path)
            && self.path_controls < PATH_CONTROLS_MAX
            && (self.free_slot().is_some() || self.dispensable().is_some())
    }

    /// The path that makes way for a new one: none that is in use.
    fn dispensable(&self) -> Option<usize> {
        let idle = self
            .paths
            .iter()
            .enumerate()
            .filter(|(_, path)| matches!(path.state(), PathState::Down | PathState::Probing));
        let oldest = idle.min_by_key(|(_, path)| path.last_received);
        oldest.map(|(index, _)| index)
    }

    /// An authentic packet came on a new path from `remote`; returns its index.
    pub(super) fn begin_path(
        &mut self,
        now: Instant,
        id: PathId,
        remote: SocketAddr,
        replay: ReplayWindow,
    ) -> Option<usize> {
        if self.free_slot().is_none() {
            let index = self.dispensable()?;
            let gone = self.paths[index].id;
            self.remove_path(index);
            self.say_of_path(Control::PathClose(gone));
        }
        self.ids.note_opened(id);
        self.issue_path_ids();
        let place = PathPlace {
            id,
            slot: self.free_slot()?,
            local: None,
            remote,
            remote_id: None,
        };
        let setup = path_setup(&self.config, remote, &self.config.congestion, false);
        let mut path = Path::new(now, place, setup);
        path.replay = replay;
        self.paths.push(path);
        Some(self.paths.len() - 1)
    }

    /// The peer has proven that it can be reached over a new path.
    pub(super) fn on_path_validated(&mut self, now: Instant, index: usize, remote: SocketAddr) {
        let path = &mut self.paths[index];
        path.remote = remote;
        path.candidate = None;
        path.is_validated = true;
        path.last_received = now;
        let id = path.id;
        if self.side == Side::Client && self.paths[index].usage != PathUse::default() {
            self.say_path_use(index);
        }
        self.tell_path(PathEvent::Validated(id));
    }

    pub(super) fn tell_path(&mut self, event: PathEvent) {
        self.events.push_back(Event::Path(event));
    }

    /// Acts on the silence of paths.
    pub(super) fn watch_paths(&mut self, now: Instant) {
        for index in 0..self.paths.len() {
            if let Some(state) = self.paths[index].poll_silence(now) {
                self.on_path_silence(now, index, state);
            }
        }
    }

    /// A path is silent: what it carries goes out on the others, if there are.
    fn on_path_silence(&mut self, now: Instant, index: usize, state: PathState) {
        let id = self.paths[index].id;
        self.tell_path(match state {
            PathState::Down => PathEvent::Down(id),
            _ => PathEvent::Degraded(id),
        });
        let has_others = self
            .paths
            .iter()
            .any(|path| path.state() == PathState::Active);
        if !has_others {
            return;
        }
        let (path, sender) = (&mut self.paths[index], &mut self.sender);
        let slot = path.slot;
        path.age_before(now + millis(1), |block| sender.on_gone(block, slot, false));
        self.repeat_controls(index);
        if state == PathState::Down {
            self.fit_blocks_to_mtu();
        }
    }

    /// What control frames said on the path is said again.
    pub(super) fn repeat_controls(&mut self, index: usize) {
        while let Some(control) = self.paths[index].control_log.take_oldest() {
            self.on_control_fate(control, false);
        }
    }

    /// Forgets a path. What was on its way counts as lost.
    pub(super) fn remove_path(&mut self, index: usize) {
        let (path, fates) = (&mut self.paths[index], &mut self.fates);
        let id = path.id;
        path.give_up(|resolved, has_arrived| note(fates, resolved, has_arrived));
        self.settle_fates(index);
        self.repeat_controls(index);
        self.copies.clear(self.paths[index].slot);
        self.bottlenecks.forget(self.paths[index].slot);
        self.paths.remove(index);
        self.couple(self.now);
        self.responses.retain(|(path, _, _)| *path != id);
        if self.held.as_ref().is_some_and(|(held, _)| held.path == id) {
            self.held = None;
        }
        let before = self.controls.len();
        self.controls
            .retain(|control| !matches!(control, Control::PathUse { path, .. } if *path == id));
        self.path_controls -= before - self.controls.len();
        self.tell_path(PathEvent::Closed(id));
        self.fit_blocks_to_mtu();
    }

    /// Which paths may carry symbols: those that are validated and alive, and
    /// backups only if nothing else is; if none is alive, any. One that is blocked
    /// for a moment leaves nothing to backups; if it stays so, it falls silent.
    pub(super) fn usable_paths(&self) -> [bool; PATHS_MAX] {
        let rank = |path: &Path| (path.state(), path.usage.is_backup);
        let is_ready = |path: &&Path| path.is_validated && path.remote_id.is_some();
        let best = self.paths.iter().filter(is_ready).map(rank).min();
        let mut usable = [false; PATHS_MAX];
        for (path, usable) in self.paths.iter().zip(&mut usable) {
            // While none is alive each may be the first to answer.
            *usable = is_ready(&path)
                && !path.is_blocked
                && match best {
                    Some((PathState::Active, _)) => Some(rank(path)) == best,
                    _ => true,
                };
        }
        usable
    }

    /// Nothing was heard for as long as one of both ends is willing to wait.
    pub(super) fn idle_timeout(&self) -> Duration {
        let peer = self
            .peer_params
            .map(|params| params.idle_timeout.max(seconds(1)));
        self.config.idle_timeout.min(peer.unwrap_or(Duration::MAX))
    }

    /// Opening a path has gone without an answer for long.
    pub(super) fn note_unanswered(&mut self, index: usize) {
        let path = &self.paths[index];
        let (path, remote) = (path.id, path.remote);
        self.tell_path(PathEvent::Unanswered { path, remote });
    }

    /// The error of a connection nothing was heard of.
    pub(super) fn idle_error(&self, now: Instant) -> ConnectionError {
        ConnectionError::IdleTimeout(now - self.last_received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SecretRandom;

    fn ids() -> PathIds {
        let cipher = Arc::new(IdCipher::generate(&mut SecretRandom::from_seed([1; 32])));
        PathIds::new(LocalIds {
            cipher,
            connection: 3,
        })
    }

    #[test]
    fn a_path_id_is_used_once() {
        let mut ids = ids();
        assert!(ids.was_opened(PathId(0)));
        for id in [3, 1, 7, 70, 69, 2] {
            if id != 2 {
                assert!(!ids.was_opened(PathId(id)), "{id}");
            }
            ids.note_opened(PathId(id));
        }
        for id in 0..=70 {
            let is_old = id < 6;
            let is_expected = is_old || [7, 69, 70].contains(&id);
            assert_eq!(ids.was_opened(PathId(id)), is_expected, "{id}");
        }
        assert!(!ids.was_opened(PathId(71)));
        ids.note_opened(PathId(5000));
        assert!(!ids.was_opened(PathId(4999)));
        assert!(ids.was_opened(PathId(4000)));
    }
}

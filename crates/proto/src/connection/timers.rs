//! What is due when. Every part states its own deadline; the earliest counts.

use ctcp_units::{Duration, Instant, millis, seconds};

use super::plan::Choice;
use super::receive::note;
use super::{Connection, Phase};
use crate::path::Path;
use crate::stream::Side;

/// Time without symbols after which a client asks for a sign of life, if three
/// probe timeouts are not more.
const QUIET: Duration = seconds(1);
/// So often, after one, two and then four times this; from then on keep-alive
/// must do.
const QUIET_ASKED_MAX: u32 = 6;
/// An end that only receives on one of several paths asks so often whether it is
/// heard there, if a round trip is not more: it notices that the path has died, or
/// that its acknowledgements must take another.
const LISTENING: Duration = millis(125);

impl Connection {
    /// When to call [`Connection::handle_timeout`] if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Hello(hello) => Some(hello.deadline()),
            Phase::Unproven { until } => Some(*until),
            Phase::Closing { until, .. } | Phase::Draining { until } => Some(*until),
            Phase::Gone => None,
            Phase::Open => {
                let paths = self.paths.iter().flat_map(|path| {
                    let candidate = path.candidate.filter(|_| path.remote_id.is_some());
                    let is_in_use = path.is_validated;
                    // What cannot leave has no time at which it should.
                    let may_leave = !path.is_blocked;
                    [
                        path.deadline(),
                        path.arrivals
                            .due()
                            .filter(|_| may_leave || self.has_way_beside(path)),
                        path.mtu.next_timeout().filter(|_| is_in_use && may_leave),
                        candidate
                            .map(|candidate| candidate.due)
                            .filter(|_| may_leave),
                        self.keep_alive_deadline(path),
                        self.listening_deadline(path),
                    ]
                });
                let keys = self.keys.as_ref().and_then(|keys| keys.deadline());
                paths
                    .chain([keys, Some(self.idle_deadline()), self.pacing_deadline()])
                    .chain([self.datagrams.due()])
                    .flatten()
                    .min()
            }
        }
    }

    fn idle_deadline(&self) -> Instant {
        self.last_received + self.idle_timeout()
    }

    /// Only the client keeps the way open: the NAT is on its side.
    ///
    /// It also asks a few times, ever later, when symbols stop coming: should the
    /// NAT have given it another address, what the server sends is lost, and a
    /// reader has nothing else to say by which the server could find out.
    fn keep_alive_deadline(&self, path: &Path) -> Option<Instant> {
        if self.side != Side::Client || !path.is_validated {
            return None;
        }
        let patience = (path.probe_timeout() * 3).min(self.idle_timeout());
        let quiet = (path.quiet_asked < QUIET_ASKED_MAX)
            .then(|| QUIET.max(patience) * (1 << path.quiet_asked.min(2)));
        let interval = [quiet, self.config.keep_alive]
            .into_iter()
            .flatten()
            .min()?;
        Some(path.last_received.max(path.last_asked) + interval)
    }

    /// When to ask on a path whether this end is heard there.
    fn listening_deadline(&self, path: &Path) -> Option<Instant> {
        if self.paths.len() == 1 || !path.is_validated {
            return None;
        }
        Some(path.unheard_since()? + LISTENING.max(path.srtt()))
    }

    /// When the pacer lets go what tokens would pay for already.
    fn pacing_deadline(&self) -> Option<Instant> {
        let has_symbols = self.has_symbols_to_send();
        if !has_symbols && self.datagrams.is_idle(self.now) {
            return None;
        }
        let content_max = self.content_max();
        let is_alone = self.paths.len() == 1;
        let ready = self.paths.iter().enumerate().filter(|(index, path)| {
            path.is_validated
                && !path.is_blocked
                && path.has_token()
                && (has_symbols
                    && (is_alone || self.pick(self.now, *index, content_max) != Choice::Nothing)
                    || self.carries_next_datagram(*index))
        });
        ready.map(|(_, path)| path.next_send_time(self.now)).min()
    }

    /// Acts on every deadline that has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        match &self.phase {
            Phase::Hello(_) | Phase::Unproven { .. } => self.handle_handshake_timeout(now),
            Phase::Closing { until, .. } | Phase::Draining { until } if now >= *until => {
                self.phase = Phase::Gone;
            }
            Phase::Closing { .. } | Phase::Draining { .. } | Phase::Gone => {}
            Phase::Open => self.handle_open_timeout(now),
        }
    }

    fn handle_open_timeout(&mut self, now: Instant) {
        if now >= self.idle_deadline() {
            let error = self.idle_error(now);
            return self.end(now, 0, "idle", error);
        }
        for index in 0..self.paths.len() {
            let deadline = self.keep_alive_deadline(&self.paths[index]);
            if deadline.is_some_and(|at| at <= now) {
                let path = &mut self.paths[index];
                path.last_asked = now;
                path.quiet_asked = (path.quiet_asked + 1).min(QUIET_ASKED_MAX);
                path.is_ping_due = true;
            }
            let deadline = self.listening_deadline(&self.paths[index]);
            if deadline.is_some_and(|at| at <= now) {
                let path = &mut self.paths[index];
                path.last_asked = now;
                path.is_ping_due = true;
            }
        }
        if let Some(keys) = &mut self.keys {
            keys.handle_timeout(now);
        }
        self.datagrams.handle_timeout(now);
        for index in 0..self.paths.len() {
            if self.paths[index].deadline().is_some_and(|at| at <= now) {
                self.handle_path_timeout(now, index);
            }
        }
        self.watch_paths(now);
    }

    fn handle_path_timeout(&mut self, now: Instant, index: usize) {
        let (path, fates) = (&mut self.paths[index], &mut self.fates);
        let is_mtu_fallen = path.handle_timeout(now, |resolved, has_arrived| {
            note(fates, resolved, has_arrived);
        });
        if path.probes_due > 0 {
            self.stats.probe_timeouts += 1;
            // The probe says again what may have been lost: a peer that waits
            // for credit has nothing to send by which the loss would show.
            self.repeat_controls(index);
        }
        self.settle_fates(index);
        self.age_path(index, now);
        self.hear_news(now, index);
        if is_mtu_fallen {
            self.fit_blocks_to_mtu();
        }
    }
}

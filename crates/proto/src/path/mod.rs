//! One path: everything that is counted, timed and controlled per path.
//!
//! A path owns its estimators, its ledger of sent packets, its arrivals, its
//! pacer and its controller. What an acknowledgement means for blocks and
//! control frames it hands on; what it means for the path it settles here.

mod arrivals;
mod bottleneck;
mod control_log;
mod ecn;
mod feedback;
mod ledger;
mod loss;
mod mtu;
mod pacer;
mod process;
mod ranges;
mod rtt;
mod state;

pub(crate) use arrivals::{ACK_DELAY_MAX, Arrivals};
pub(crate) use bottleneck::{Bottlenecks, linked_growth};
pub(crate) use control_log::{Control, ControlLog};
pub use ecn::{EcnFailure, EcnState};
pub(crate) use ledger::{Cargo, Resolved};
pub use mtu::MtuMode;
pub(crate) use process::LossProcess;
pub use state::PathState;

use std::net::SocketAddr;

use ctcp_congestion::{
    Controller, ControllerState, CouplingEvent, PartnerLossEvent, PathChangeEvent, Remembered,
    SentEvent, SilenceEvent,
};
use ctcp_units::{Duration, Instant, PacketNumber, PathId, millis, seconds};

use crate::crypto::ReplayWindow;
use crate::schedule::PathView;
use crate::wire::ConnectionId;
use ecn::EcnValidator;
use ledger::{Ledger, SendState};
use loss::{AckTally, LossEstimator, LossLedger};
use mtu::{MtuDiscovery, MtuPacket};
use pacer::Pacer;
use process::RoundLosses;
use rtt::RttEstimator;
use state::Watch;

/// Age at which packets no longer count towards their block, in round trips
/// ([MP12] §III-E, `age_factor`).
const AGE_FACTOR: f64 = 1.5;
/// Probe timeouts without an answer, and the time that must have passed, before
/// a path counts as silent and its window collapses.
const SILENCE_PROBES: u32 = 3;
const SILENCE_SPAN: Duration = millis(1000);
/// Probes of a silent path are at most so far apart, or two round trips, so
/// that a path that works again is noticed at once.
const PROBE_INTERVAL_MAX: Duration = seconds(1);
/// Packets between two announcements of the ACK floor.
const FLOOR_EVERY: u64 = 128;

/// Bytes sent to an address that has not been proven for each that came from it.
const AMPLIFICATION_MAX: usize = 3;

/// A change of the peer's address that has yet to be proven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) address: SocketAddr,
    pub(crate) challenge: [u8; 8],
    /// When the challenge is sent (again).
    pub(crate) due: Instant,
    pub(crate) tries_left: u8,
    /// Time to the next challenge.
    pub(crate) pause: Duration,
    /// Bytes that may still be sent there: [`AMPLIFICATION_MAX`] times what came
    /// from there.
    pub(crate) bytes_left: usize,
}

/// How the user wants a path to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathUse {
    /// Higher ones are newer.
    pub(crate) sequence: u64,
    pub(crate) is_backup: bool,
    pub(crate) cost: u8,
}

/// Where a path leads and where it stands in its connection.
#[derive(Debug)]
pub(crate) struct PathPlace {
    pub(crate) id: PathId,
    /// Place in arrays over the paths in use.
    pub(crate) slot: usize,
    /// The local address, as the driver names it.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: SocketAddr,
    /// What goes into packets to the peer, if that is known.
    pub(crate) remote_id: Option<ConnectionId>,
}

/// What is the same for all paths of a connection.
#[derive(Debug)]
pub(crate) struct PathSetup {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) mtu: MtuMode,
    pub(crate) is_ecn_enabled: bool,
}

#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    /// Place in arrays over the paths in use.
    pub(crate) slot: usize,
    /// The local address, as the driver names it.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: SocketAddr,
    /// What goes into packets to the peer, if that is known.
    pub(crate) remote_id: Option<ConnectionId>,
    /// The peer has proven that it receives at `remote`.
    pub(crate) is_validated: bool,
    pub(crate) candidate: Option<Candidate>,
    pub(crate) usage: PathUse,
    /// The last packet that came in.
    pub(crate) last_received: Instant,
    /// The last sign of life asked for because none came.
    pub(crate) last_asked: Instant,
    /// Signs of life asked for since the last symbol came.
    pub(crate) quiet_asked: u32,
    /// A sign of life is to be asked for.
    pub(crate) is_ping_due: bool,
    /// The application wants a ping, and to know what becomes of it.
    pub(crate) is_ping_wanted: bool,
    /// The last symbol that came in.
    pub(crate) last_symbol: Instant,
    /// The driver can hand over nothing more for it at the moment.
    pub(crate) is_blocked: bool,
    pub(crate) replay: ReplayWindow,
    pub(crate) arrivals: Arrivals,
    pub(crate) control_log: ControlLog,
    pub(crate) mtu: MtuDiscovery,
    ledger: Ledger,
    rtt: RttEstimator,
    loss: LossEstimator,
    tally: LossLedger,
    rounds: RoundLosses,
    ecn: EcnValidator,
    pacer: Pacer,
    controller: Box<dyn Controller>,
    /// Probe timeouts since the last acknowledgement.
    probe_count: u32,
    /// Probes that may be sent now, tokens or not.
    pub(crate) probes_due: u32,
    last_progress: Instant,
    watch: Watch,
    is_silent: bool,
    pub(crate) is_app_limited: bool,
    floor_announced: u64,
    ecn_ce: u64,
    packets_lost: u64,
    /// The path's part of a flow at its bottleneck; below 1 where others share it.
    bottleneck_share: f64,
    /// What the last ACK told, until it is taken.
    news: PathNews,
    bytes: ByteCounts,
    bytes_delivered: u64,
    packets_received: u64,
    bytes_useful: u64,
}

/// What other paths behind the same bottleneck want to know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathNews {
    /// The last round trip measured.
    pub(crate) rtt: Option<Duration>,
    /// Packets lost.
    pub(crate) lost_packets: u64,
}

/// UDP payload that a path has carried, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteCounts {
    /// Sent, all kinds of packets.
    pub sent: u64,
    /// Acknowledged by the peer; what it grows by in a second is the path's rate.
    pub acknowledged: u64,
    /// Received, opened and not seen before.
    pub received: u64,
}

/// What a path shows of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStats {
    /// The path.
    pub id: PathId,
    /// Where it begins, as the driver named it; `None` on the side that did not
    /// open it.
    pub local: Option<SocketAddr>,
    /// Where it leads.
    pub remote: SocketAddr,
    /// What may be expected of it.
    pub state: PathState,
    /// It carries data only while no other path can.
    pub is_backup: bool,
    /// Hundredths of a second that data may wait for another path instead.
    pub cost: u8,
    /// Smoothed round trip; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Mean deviation of the round trip.
    pub rttvar: Option<Duration>,
    /// Smallest round trip of the path's life.
    pub rtt_min: Option<Duration>,
    /// Latest round trip.
    pub rtt_latest: Option<Duration>,
    /// Short-term estimate of the share of packets lost, `p` of [MP12].
    pub loss_rate: f64,
    /// Long-term estimate, `p_long`.
    pub loss_rate_long: f64,
    /// Packets that hold a token.
    pub in_flight: u64,
    /// State of the controller.
    pub controller: ControllerState,
    /// The controller's name.
    pub congestion: &'static str,
    /// The path's part of one flow at its bottleneck: below 1 where other paths of
    /// the connection share it and are coupled.
    pub bottleneck_share: f64,
    /// UDP payload in use, bytes.
    pub mtu: u16,
    /// Trust in ECN.
    pub ecn: EcnState,
    /// Packets marked CE, reported by the peer.
    pub ecn_ce: u64,
    /// Packets sent on the path, all kinds.
    pub packets_sent: u64,
    /// Packets that stand as lost.
    pub packets_lost: u64,
    /// What it has carried, both ways.
    pub bytes: ByteCounts,
    /// UDP payload of the symbols that were acknowledged, coded ones among them, and of
    /// datagrams, bytes.
    pub bytes_delivered: u64,
    /// Packets received on the path, all kinds.
    pub packets_received: u64,
    /// Packets that were sent by the peer before the newest one received, and have
    /// not arrived (yet).
    pub packets_missing: u64,
    /// Content of the symbols received that brought a degree of freedom, bytes.
    pub bytes_useful: u64,
}

impl Path {
    pub(crate) fn new(now: Instant, place: PathPlace, setup: PathSetup) -> Self {
        let mtu = MtuDiscovery::new(setup.mtu);
        Self {
            id: place.id,
            slot: place.slot,
            local: place.local,
            remote: place.remote,
            remote_id: place.remote_id,
            is_validated: false,
            candidate: None,
            usage: PathUse::default(),
            last_received: now,
            last_asked: now,
            quiet_asked: 0,
            is_ping_due: false,
            is_ping_wanted: false,
            last_symbol: now,
            is_blocked: false,
            replay: ReplayWindow::new(),
            arrivals: Arrivals::new(),
            control_log: ControlLog::default(),
            pacer: Pacer::new(mtu.current().into()),
            mtu,
            ledger: Ledger::new(now),
            rtt: RttEstimator::new(),
            loss: LossEstimator::default(),
            tally: LossLedger::new(),
            rounds: RoundLosses::default(),
            ecn: EcnValidator::new(setup.is_ecn_enabled),
            controller: setup.controller,
            probe_count: 0,
            probes_due: 0,
            last_progress: now,
            watch: Watch::new(now),
            is_silent: false,
            is_app_limited: false,
            floor_announced: 0,
            ecn_ce: 0,
            packets_lost: 0,
            bottleneck_share: 1.0,
            news: PathNews::default(),
            bytes: ByteCounts::default(),
            bytes_delivered: 0,
            packets_received: 0,
            bytes_useful: 0,
        }
    }

    /// How packets are lost, for redundancy to be planned with.
    pub(crate) fn loss_process(&self) -> LossProcess {
        let rate = self.loss.planning_rate();
        let rounds = self.rounds.loss();
        LossProcess {
            rate,
            has_ceased: self.ledger.runs().has_ceased(rate),
            correlation: self.ledger.runs().correlation(rate),
            round_mean: rounds.mean(),
            round_deviation: rounds.deviation(),
        }
    }

    /// Largest UDP payload for ordinary packets.
    pub(crate) const fn udp_payload_max(&self) -> usize {
        self.mtu.current() as usize
    }

    /// Time the peer may need to answer, without backing off.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.rtt.probe_timeout(ACK_DELAY_MAX)
    }

    pub(crate) fn srtt(&self) -> Duration {
        self.rtt.srtt()
    }

    /// A round trip has been measured.
    pub(crate) const fn has_rtt(&self) -> bool {
        self.rtt.has_sample()
    }

    /// Number the next packet will have.
    pub(crate) fn next_number(&self) -> PacketNumber {
        self.ledger.next_number()
    }

    /// What the scheduler sees of it at `now`.
    pub(crate) fn view(&self, now: Instant, is_usable: bool) -> PathView {
        let tokens = self.controller.tokens();
        let srtt = self.rtt.srtt();
        let has_token = self.has_token();
        // Tokens come back once a round trip each.
        let wait = if has_token {
            self.next_send_time(now) - now
        } else {
            srtt.div_f64(tokens.max(1.0))
        };
        PathView {
            is_usable,
            has_token,
            wait,
            srtt,
            loss_rate: self.loss.planning_rate(),
            in_flight: self.ledger.in_flight(),
            tokens,
            cost: self.usage.cost,
        }
    }

    /// A token is there: one more packet may be in flight ([MP12] §III-C).
    pub(crate) fn has_token(&self) -> bool {
        (self.ledger.in_flight() + 1) as f64 <= self.controller.tokens()
    }

    /// The pacer lets a packet go at `now`.
    pub(crate) fn may_send(&self, now: Instant) -> bool {
        self.pacer.can_send(now)
    }

    /// When the pacer lets the next packet go.
    pub(crate) fn next_send_time(&self, now: Instant) -> Instant {
        self.pacer.next_send_time(now)
    }

    pub(crate) fn marks_packets(&self) -> bool {
        self.ecn.marks_packets()
    }

    /// An authentic packet of `len` bytes of UDP payload has come.
    pub(crate) fn on_received(&mut self, now: Instant, len: usize) {
        self.last_received = now;
        self.packets_received += 1;
        self.bytes.received += len as u64;
    }

    /// A packet of `len` bytes of UDP payload leaves; returns its number.
    pub(crate) fn on_sent(&mut self, now: Instant, len: u16, cargo: Cargo, is_marked: bool) {
        if self.ledger.eliciting_open() == 0 {
            self.watch.begin(now);
        }
        self.bytes.sent += u64::from(len);
        let number = self.ledger.on_sent(
            now,
            len,
            cargo,
            SendState {
                is_app_limited: self.is_app_limited,
                is_marked,
                lost_before: self.packets_lost,
            },
        );
        if is_marked {
            self.ecn.on_sent_marked(number);
        }
        if cargo.holds_token() {
            self.pacer.on_sent(now, len.into());
            self.controller.on_sent(&SentEvent {
                now,
                number,
                in_flight: self.ledger.in_flight(),
                app_limited: self.is_app_limited,
            });
        }
        if let Cargo::MtuProbe(size) = cargo {
            self.mtu.on_probe_sent(size);
        }
    }

    /// One that arrived brought a degree of freedom with `len` bytes of content.
    pub(crate) fn on_useful(&mut self, len: usize) {
        self.bytes_useful += len as u64;
    }

    /// What a later connection may be told of the path.
    pub(crate) fn learnt(&self) -> Option<Remembered> {
        self.controller.learnt()
    }

    /// Sets the pacer by what the controller now says.
    fn refresh(&mut self, now: Instant) {
        self.pacer.set_packet_bytes(self.mtu.current().into());
        self.pacer.set_rtt(self.rtt.srtt());
        let rate = self.controller.pacing_rate(self.rtt.measured_srtt());
        self.pacer.set_packets_per_second(now, rate);
    }

    /// Packets older than 1.5 round trips no longer count towards their blocks.
    pub(crate) fn age(&mut self, now: Instant, on_aged: impl FnMut(u64)) {
        self.age_before(now.saturating_sub(self.rtt.age(AGE_FACTOR)), on_aged);
    }

    /// Packets sent before `limit` no longer count towards their blocks.
    pub(crate) fn age_before(&mut self, limit: Instant, mut on_aged: impl FnMut(u64)) {
        self.ledger.age(limit, |packet| {
            if let Cargo::Symbol { block } = packet.cargo {
                on_aged(block);
            }
        });
    }

    /// When loss detection or a probe is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if !self.is_validated {
            // Challenges have a time of their own.
            return None;
        }
        let loss = self.ledger.loss_deadline(self.rtt.reordering_delay());
        let others = [self.probe_deadline(), self.silence_deadline()];
        loss.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn probe_deadline(&self) -> Option<Instant> {
        // The next one counts from when this one left, which it cannot.
        if self.ledger.eliciting_open() == 0 || self.is_blocked {
            return None;
        }
        let timeout = self.probe_timeout();
        let backed_off = timeout.saturating_mul(1 << self.probe_count.min(10));
        let longest = PROBE_INTERVAL_MAX.max(timeout * 2);
        Some(self.ledger.last_eliciting_at()? + backed_off.min(longest))
    }

    /// Acts on [`Path::deadline`]. Returns whether the MTU fell.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        mut on_resolved: impl FnMut(&Resolved, bool),
    ) -> bool {
        let mut is_mtu_fallen = false;
        let span = self.rtt.reordering_delay();
        if self.ledger.loss_deadline(span).is_some_and(|at| at <= now) {
            let entry = AckTally::default();
            is_mtu_fallen = self.settle_losses(now, entry, &mut on_resolved);
            self.refresh(now);
        }
        if self.probe_deadline().is_some_and(|at| at <= now) {
            self.probe_count += 1;
            let tokens = self.controller.state().tokens;
            self.probes_due = self.loss_process().probes(tokens);
            let silent_for = now - self.last_progress;
            // Once, as a rule; again only before the ledger grows without bound.
            if (!self.is_silent || self.ledger.is_crowded())
                && self.probe_count >= SILENCE_PROBES
                && silent_for >= SILENCE_SPAN.max(self.srtt() * 4)
            {
                is_mtu_fallen |= self.fall_silent(now, &mut on_resolved);
            }
        }
        is_mtu_fallen
    }

    /// Nothing has come back for long: what is in flight is gone, and its loss
    /// says nothing about the path as it will be. Returns whether the MTU fell.
    fn fall_silent(&mut self, now: Instant, on_resolved: &mut impl FnMut(&Resolved, bool)) -> bool {
        self.is_silent = true;
        let mtu = &mut self.mtu;
        let mut given_up = 0;
        let mut is_mtu_fallen = false;
        self.ledger.lose_all(|resolved| {
            if let Cargo::MtuProbe(size) = resolved.packet.cargo {
                mtu.on_probe_lost(now, size);
            } else {
                is_mtu_fallen |= mtu.on_lost(now, &mtu_packet(resolved));
                given_up += 1;
            }
            on_resolved(resolved, false);
        });
        self.tally.give_up(given_up);
        self.controller.on_silence(&SilenceEvent {
            now,
            largest_sent: self.largest_sent(),
            in_flight: self.ledger.in_flight(),
        });
        self.refresh(now);
        is_mtu_fallen
    }

    /// A packet of `len` bytes came from `address`, which is not the path's.
    pub(crate) fn on_unproven_bytes(&mut self, address: SocketAddr, len: usize) {
        if let Some(candidate) = &mut self.candidate
            && candidate.address == address
        {
            let more = candidate.bytes_left.saturating_add(AMPLIFICATION_MAX * len);
            candidate.bytes_left = more;
        }
    }

    /// Whether `len` bytes may go to `address` now; they then count as sent.
    pub(crate) fn spend_unproven(&mut self, address: SocketAddr, len: usize) -> bool {
        if address == self.remote && self.is_validated {
            return true;
        }
        match &mut self.candidate {
            Some(candidate) if candidate.address == address => {
                let is_allowed = candidate.bytes_left >= len;
                candidate.bytes_left -= len * usize::from(is_allowed);
                is_allowed
            }
            _ => false,
        }
    }

    /// What has been learnt since it was last taken.
    pub(crate) fn take_news(&mut self) -> PathNews {
        core::mem::take(&mut self.news)
    }

    /// Window in packets and round trip in seconds.
    pub(crate) fn window_and_rtt(&self) -> (f64, f64) {
        (self.controller.tokens(), self.rtt.srtt().as_secs_f64())
    }

    /// Other paths share the bottleneck: this one has `share` of a flow there, and
    /// grows by `growth` of its step. 1 and 1: none does.
    pub(crate) fn couple(&mut self, now: Instant, share: f64, growth: f64) {
        if share >= 1.0 && self.bottleneck_share >= 1.0 {
            return;
        }
        self.bottleneck_share = share;
        self.controller
            .on_coupling(&CouplingEvent { now, share, growth });
        self.refresh(now);
    }

    /// A path behind the same bottleneck lost packets.
    pub(crate) fn on_partner_loss(&mut self, now: Instant, lost_packets: u64) {
        self.controller.on_partner_loss(&PartnerLossEvent {
            now,
            lost_packets,
            largest_sent: self.largest_sent(),
        });
        self.refresh(now);
    }

    /// The path leads over a new, proven address: what was learnt is void.
    pub(crate) fn on_address_changed(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        mut on_resolved: impl FnMut(&Resolved, bool),
    ) {
        self.remote = remote;
        self.candidate = None;
        self.is_validated = true;
        self.rtt.reset();
        self.loss.reset();
        self.rounds = RoundLosses::default();
        self.mtu.reset();
        self.ecn.on_path_change();
        self.give_up(&mut on_resolved);
        self.ledger.forget_path();
        self.controller.on_path_change(&PathChangeEvent {
            now,
            largest_sent: self.largest_sent(),
        });
        self.probe_count = 0;
        self.probes_due = 1;
        self.last_progress = now;
        self.watch.on_progress(now);
        self.is_silent = false;
        self.bottleneck_share = 1.0;
        self.news = PathNews::default();
        self.refresh(now);
    }

    /// Nothing that is on its way is waited for any more.
    pub(crate) fn give_up(&mut self, mut on_resolved: impl FnMut(&Resolved, bool)) {
        let mut given_up = 0;
        self.ledger.lose_all(|resolved| {
            given_up += u64::from(!matches!(resolved.packet.cargo, Cargo::MtuProbe(_)));
            on_resolved(resolved, false);
        });
        self.tally.give_up(given_up);
    }

    /// A probe must also try a size that passes everywhere: what is lost may be
    /// lost for its length.
    pub(crate) fn wants_small_probe(&self) -> bool {
        self.probe_count >= 2 || self.mtu.is_suspicious()
    }

    /// A floor worth announcing: ranges below it need not be reported any more.
    pub(crate) fn take_floor(&mut self) -> Option<u64> {
        let floor = self.ledger.frontier();
        let has_gaps = self.packets_lost > 0;
        (has_gaps && floor >= self.floor_announced + FLOOR_EVERY).then(|| {
            self.floor_announced = floor;
            floor
        })
    }

    /// Packets in the ledger.
    #[cfg(test)]
    pub(crate) fn slots_held(&self) -> usize {
        self.ledger.slots_held()
    }

    pub(crate) fn stats(&self) -> PathStats {
        let measured = |span| self.rtt.has_sample().then_some(span);
        let loss = self.loss.estimate();
        PathStats {
            id: self.id,
            local: self.local,
            remote: self.remote,
            state: self.state(),
            is_backup: self.usage.is_backup,
            cost: self.usage.cost,
            srtt: measured(self.rtt.srtt()),
            rttvar: measured(self.rtt.rttvar()),
            rtt_min: measured(self.rtt.rtt_min()),
            rtt_latest: measured(self.rtt.latest()),
            loss_rate: loss.p.share(),
            loss_rate_long: loss.p_long.share(),
            in_flight: self.ledger.in_flight(),
            controller: self.controller.state(),
            congestion: self.controller.name(),
            bottleneck_share: self.bottleneck_share,
            mtu: self.mtu.current(),
            ecn: self.ecn.state(),
            ecn_ce: self.ecn_ce,
            packets_sent: self.ledger.next_number().0,
            packets_lost: self.packets_lost,
            bytes: self.bytes,
            bytes_delivered: self.bytes_delivered,
            packets_received: self.packets_received,
            packets_missing: self
                .arrivals
                .expected()
                .saturating_sub(self.packets_received),
            bytes_useful: self.bytes_useful,
        }
    }
}

fn mtu_packet(resolved: &Resolved) -> MtuPacket {
    MtuPacket {
        size: resolved.packet.len,
        number: resolved.number,
        sent_at: resolved.packet.sent_at,
    }
}

//! What acknowledgements and losses mean for the path they happened on: its
//! estimators and its controller hear of them as named events.

use ctcp_congestion::{AckEvent, DeliverySample, EcnEvent, LossEvent, SpuriousLossEvent};
use ctcp_units::{Duration, Instant, PacketNumber};

use super::ecn::{EcnAck, EcnCounts};
use super::loss::AckTally;
use super::{ACK_DELAY_MAX, Cargo, Path, Resolved, ledger, mtu_packet};
use crate::wire::AckView;

impl Path {
    /// Takes in an ACK. `on_resolved` hears of every packet whose fate became
    /// known, and whether it arrived; `on_aged` of those too old to count on.
    /// `is_same_path`: the ACK came on this path, so it gives an RTT sample.
    ///
    /// Returns `None` if it acknowledges what was never sent, else whether the
    /// path's MTU fell.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &AckView<'_>,
        is_same_path: bool,
        mut on_resolved: impl FnMut(&Resolved, bool),
    ) -> Option<bool> {
        let mut marked_acked = 0;
        let mut spurious = 0;
        let mut symbol_bytes = 0;
        let (mtu, controller) = (&mut self.mtu, &mut self.controller);
        let bytes_acknowledged = &mut self.bytes.acknowledged;
        let outcome = self.ledger.on_ack(now, ack.ranges, |resolved| {
            *bytes_acknowledged += u64::from(resolved.packet.len);
            marked_acked += u64::from(resolved.packet.is_marked);
            if resolved.packet.cargo.holds_token() {
                symbol_bytes += u64::from(resolved.packet.len);
            }
            if let Cargo::MtuProbe(size) = resolved.packet.cargo {
                mtu.on_probe_acked(now, size);
            } else {
                mtu.on_acked(&mtu_packet(resolved));
                if resolved.was_lost {
                    spurious += 1;
                    let number = resolved.number;
                    controller.on_spurious_loss(&SpuriousLossEvent { now, number });
                }
            }
            on_resolved(resolved, true);
        })?;
        self.bytes_delivered += symbol_bytes;
        let mut rtt_sample = None;
        if let Some((_, newest)) = &outcome.newest
            && is_same_path
        {
            let delay = ack.delay.min(ACK_DELAY_MAX);
            let measured = now - newest.sent_at;
            rtt_sample = Some(self.rtt.on_sample(now, measured, delay, newest.len));
            self.news.rtt = rtt_sample;
        }
        if outcome.acked > 0 {
            self.probe_count = 0;
            self.probes_due = 0;
            self.last_progress = now;
            self.watch.on_progress(now);
            self.is_silent = false;
        }
        let entry = AckTally {
            newly_acked: outcome.acked.into(),
            spurious,
            newly_lost: 0,
            received_total: Some(ack.received),
        };
        let is_mtu_fallen = self.settle_losses(now, entry, &mut on_resolved);
        if let Some((newest, _)) = outcome.newest {
            let next = self.ledger.next_number();
            self.rounds.on_newest(newest, next);
        }
        self.report_ecn(now, ack, marked_acked, &outcome);
        self.report_ack(now, rtt_sample, &outcome);
        self.refresh(now);
        Some(is_mtu_fallen)
    }

    /// Declares losses and reports them to estimators and controller. Returns
    /// whether the MTU fell.
    pub(super) fn settle_losses(
        &mut self,
        now: Instant,
        mut entry: AckTally,
        on_resolved: &mut impl FnMut(&Resolved, bool),
    ) -> bool {
        let span = self.rtt.reordering_delay();
        let mut first = None;
        let mut last = None;
        let mut is_mtu_fallen = false;
        let (mtu, ecn) = (&mut self.mtu, &mut self.ecn);
        self.ledger.detect_losses(now, span, |resolved| {
            if let Cargo::MtuProbe(size) = resolved.packet.cargo {
                mtu.on_probe_lost(now, size);
            } else {
                is_mtu_fallen |= mtu.on_lost(now, &mtu_packet(resolved));
                entry.newly_lost += 1;
                first.get_or_insert(resolved.number);
                last = Some((resolved.number, resolved.packet.sent_at));
            }
            if resolved.packet.is_marked {
                ecn.on_lost_marked(resolved.number);
            }
            on_resolved(resolved, false);
        });
        let tally = self.tally.enter(&entry);
        self.loss.on_tally(&tally);
        self.rounds.on_packets(tally.acked, tally.lost);
        self.packets_lost = self.tally.lost_total();
        if tally.lost > 0
            && let (Some(first_lost), Some((last_lost, last_lost_sent_at))) = (first, last)
        {
            self.news.lost_packets += tally.lost;
            self.controller.on_loss(&LossEvent {
                now,
                lost_packets: tally.lost,
                first_lost,
                last_lost,
                last_lost_sent_at,
                largest_sent: self.largest_sent(),
                in_flight: self.ledger.in_flight(),
                rtt: self.rtt.summary(),
                loss: self.loss.estimate(),
            });
        }
        is_mtu_fallen
    }

    pub(super) fn largest_sent(&self) -> PacketNumber {
        PacketNumber(self.ledger.next_number().0.saturating_sub(1))
    }

    fn report_ecn(
        &mut self,
        now: Instant,
        ack: &AckView<'_>,
        newly_acked_ect: u64,
        outcome: &ledger::AckOutcome,
    ) {
        let ce_packets = self.ecn.on_ack(&EcnAck {
            newly_acked_ect,
            advances_largest: outcome.newest.is_some(),
            counts: Some(EcnCounts {
                ect0: ack.ecn.ect0,
                ect1: 0,
                ce: ack.ecn.ce,
            }),
        });
        if ce_packets > 0
            && let Some((newest_acked, newest)) = &outcome.newest
        {
            self.ecn_ce += ce_packets;
            self.controller.on_ecn(&EcnEvent {
                now,
                ce_packets,
                newest_acked: *newest_acked,
                sent_at: newest.sent_at,
                largest_sent: self.largest_sent(),
                in_flight: self.ledger.in_flight(),
                rtt: self.rtt.summary(),
            });
        }
    }

    fn report_ack(
        &mut self,
        now: Instant,
        rtt_sample: Option<Duration>,
        outcome: &ledger::AckOutcome,
    ) {
        let Some((newest_acked, newest)) = &outcome.newest else {
            return;
        };
        let delivered = self.ledger.delivered();
        let interval = (now - newest.delivered_at).max(now - newest.sent_at);
        let delivery = (!interval.is_zero()).then(|| DeliverySample {
            delivered_packets: delivered - newest.delivered_before,
            interval,
            delivered_packets_before: newest.delivered_before,
            lost_packets: self.packets_lost.saturating_sub(newest.lost_before),
            in_flight_at_send: newest.in_flight_before,
            app_limited: newest.app_limited,
        });
        self.controller.on_ack(&AckEvent {
            now,
            newest_acked: *newest_acked,
            sent_at: newest.sent_at,
            largest_sent: self.largest_sent(),
            acked_packets: outcome.acked.into(),
            in_flight: self.ledger.in_flight(),
            app_limited: newest.app_limited,
            in_recovery: false,
            rtt_sample,
            rtt: self.rtt.summary(),
            delivered_packets: delivered,
            delivery,
            loss: self.loss.estimate(),
        });
    }
}

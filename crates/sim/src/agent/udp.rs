//! Datagrams without feedback: constant, on and off, or at random.

use ctcp_units::{Duration, Instant, Random, Rate};

use super::{Agent, AgentStats, Arrival, Outbox};
use crate::engine::{Payload, RouteId};

/// When datagrams leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UdpPattern {
    /// One after the other at the rate.
    Constant,
    /// At the rate for `on`, then nothing for `off`, and again ([FEC] Fig. 2).
    OnOff {
        /// Sending.
        on: Duration,
        /// Silent.
        off: Duration,
    },
    /// With exponentially distributed gaps whose mean gives the rate ([CC14]
    /// Fig. 8).
    Exponential,
}

/// Settings of a source of datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpConfig {
    /// Rate while it sends, headers counted; not zero.
    pub rate: Rate,
    /// When it sends.
    pub pattern: UdpPattern,
    /// Length of a packet, headers counted; not zero.
    pub packet_bytes: u32,
    /// When it stops for good; `None`: never.
    pub stop: Option<Duration>,
}

impl UdpConfig {
    /// A source that never pauses, in packets of 1500 bytes.
    pub fn constant(rate: Rate) -> Self {
        Self {
            rate,
            pattern: UdpPattern::Constant,
            packet_bytes: 1500,
            stop: None,
        }
    }

    /// The same, on and off.
    #[must_use]
    pub fn on_off(self, on: Duration, off: Duration) -> Self {
        Self {
            pattern: UdpPattern::OnOff { on, off },
            ..self
        }
    }
}

/// The source.
#[derive(Debug)]
pub(crate) struct UdpServer {
    config: UdpConfig,
    route: RouteId,
    random: Random,
    start: Instant,
    next_at: Option<Instant>,
    stats: AgentStats,
}

impl UdpServer {
    pub(crate) fn new(config: &UdpConfig, route: RouteId, start: Instant, random: Random) -> Self {
        Self {
            config: config.clone(),
            route,
            random,
            start,
            next_at: Some(start),
            stats: AgentStats::default(),
        }
    }

    /// When the packet after one that left at `now` leaves.
    fn next_after(&mut self, now: Instant) -> Instant {
        let gap = self
            .config
            .rate
            .time_for_bytes(self.config.packet_bytes.into());
        match self.config.pattern {
            UdpPattern::Constant => now + gap,
            UdpPattern::Exponential => {
                now + Duration::from_secs_f64(self.random.exponential(gap.as_secs_f64()))
            }
            UdpPattern::OnOff { on, off } => {
                let next = now + gap;
                let period = (on + off).as_nanos() as u64;
                let into = (next - self.start).as_nanos() as u64 % period;
                match into < on.as_nanos() as u64 {
                    true => next,
                    false => next + Duration::from_nanos(period - into),
                }
            }
        }
    }
}

impl Agent for UdpServer {
    fn handle_packet(&mut self, _now: Instant, _arrival: Arrival, _out: &mut Outbox) {}

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.next_at.is_none_or(|at| at > now) {
            return;
        }
        if self
            .config
            .stop
            .is_some_and(|span| now >= Instant::EPOCH + span)
        {
            self.next_at = None;
            return;
        }
        self.stats.data_packets += 1;
        out.send(self.route, self.config.packet_bytes, Payload::Filler);
        self.next_at = Some(self.next_after(now));
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_at
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        self.stats
    }
}

/// The sink: what comes counts as delivered.
#[derive(Debug, Default)]
pub(crate) struct UdpClient {
    bytes: u64,
}

impl Agent for UdpClient {
    fn handle_packet(&mut self, _now: Instant, arrival: Arrival, _out: &mut Outbox) {
        self.bytes += u64::from(arrival.len_bytes);
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Outbox) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn stats(&self, _now: Instant) -> AgentStats {
        AgentStats {
            bytes_in_order: self.bytes,
            ..AgentStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{millis, seconds};

    fn moments(config: &UdpConfig, until: Duration) -> Vec<Instant> {
        let random = Random::from_seed(1);
        let mut server = UdpServer::new(config, RouteId(0), Instant::EPOCH, random);
        let mut moments = Vec::new();
        let mut out = Outbox::default();
        while let Some(at) = server.deadline().filter(|&at| at < Instant::EPOCH + until) {
            server.handle_timeout(at, &mut out);
            moments.push(at);
        }
        assert_eq!(moments.len(), out.packets.len());
        moments
    }

    #[test]
    fn half_of_the_time_on_gives_half_of_the_peak() {
        let config = UdpConfig::constant(Rate::mbit(12)).on_off(millis(500), millis(500));
        let moments = moments(&config, seconds(10));
        assert_eq!(moments.len(), 5000);
        assert!(
            moments
                .iter()
                .all(|at| at.as_nanos() % 1_000_000_000 < 500_000_000)
        );
    }

    #[test]
    fn exponential_gaps_keep_the_mean() {
        let config = UdpConfig {
            pattern: UdpPattern::Exponential,
            ..UdpConfig::constant(Rate::mbit(12))
        };
        let count = moments(&config, seconds(20)).len();
        assert!((19_400..20_600).contains(&count), "{count}");
    }
}

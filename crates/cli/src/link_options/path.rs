//! A path, put together from settings.

use ctcp_link::{
    ConfigError, EcnMarking, GilbertElliott, Jitter, LinkConfig, LossModel, Outage, QueueSize,
    RateLimit, RateTrace,
};
use ctcp_units::{Duration, LossRate, Rate};

use super::setting::{self, Queue, Setting, Way};

/// What a direction has unless an option says otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub(crate) rate: Option<Rate>,
    pub(crate) rtt: Duration,
    pub(crate) loss: LossRate,
}

/// One direction, before the queue's length is known in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Direction {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Duration,
    pub(crate) loss: LossRate,
    loss_after: LossRate,
    /// In place of the rate, which is then its mean.
    trace: Option<RateTrace>,
    pub(crate) burst: Option<f64>,
    queue: Queue,
    jitter: Duration,
    reorder: Option<(LossRate, Duration)>,
    duplicate: LossRate,
    corrupt: LossRate,
    outages: Vec<Outage>,
    ecn: Option<QueueSize>,
    mtu: Option<u32>,
}

impl Direction {
    pub(super) fn new(defaults: Defaults) -> Self {
        Self {
            rate: defaults.rate,
            trace: None,
            delay: defaults.rtt / 2,
            loss: defaults.loss,
            loss_after: LossRate::ZERO,
            burst: None,
            queue: Queue::Bdp(1.0),
            jitter: Duration::ZERO,
            reorder: None,
            duplicate: LossRate::ZERO,
            corrupt: LossRate::ZERO,
            outages: Vec::new(),
            ecn: None,
            mtu: None,
        }
    }

    pub(super) fn apply(&mut self, setting: Setting) {
        match setting {
            Setting::Rate(rate) => {
                self.rate = Some(rate);
                self.trace = None;
            }
            Setting::RateTrace(trace) => {
                self.rate = Some(trace.mean_rate());
                self.trace = Some(trace);
            }
            Setting::Delay(delay) => self.delay = delay,
            Setting::Rtt(rtt) => self.delay = rtt / 2,
            Setting::Loss(loss) => self.loss = loss,
            Setting::LossAfter(loss) => self.loss_after = loss,
            Setting::Burst(packets) => self.burst = Some(packets),
            Setting::Queue(queue) => self.queue = queue,
            Setting::Jitter(most) => self.jitter = most,
            Setting::Reorder(share, time) => self.reorder = Some((share, time)),
            Setting::Duplicate(share) => self.duplicate = share,
            Setting::Corrupt(share) => self.corrupt = share,
            Setting::Outage(outage) => self.outages.push(outage),
            Setting::Ecn(threshold) => self.ecn = Some(threshold),
            Setting::Mtu(bytes) => self.mtu = Some(bytes),
        }
    }

    fn loss_model(&self, mean: LossRate) -> Result<Option<LossModel>, ConfigError> {
        if mean == LossRate::ZERO {
            return Ok(None);
        }
        Ok(Some(match self.burst {
            Some(packets) => {
                LossModel::GilbertElliott(GilbertElliott::from_mean_and_burst(mean, packets)?)
            }
            None => LossModel::Bernoulli(mean),
        }))
    }

    /// The link, for a path of this round trip.
    fn config(&self, rtt: Duration) -> Result<LinkConfig, ConfigError> {
        let mut link = match self.rate {
            Some(rate) => LinkConfig::new(rate, self.delay),
            None => LinkConfig::unlimited(self.delay),
        };
        if let Some(trace) = &self.trace {
            link = link.rate(RateLimit::Trace(trace.clone()));
        }
        link = match self.queue {
            Queue::Bdp(count) => link.queue_bdp(count, rtt),
            Queue::Size(size) => link.queue(size),
        };
        if let Some(model) = self.loss_model(self.loss)? {
            link = link.loss(model);
        }
        if let Some(model) = self.loss_model(self.loss_after)? {
            link = link.loss_after(model);
        }
        if !self.outages.is_empty() {
            let mut outages = self.outages.clone();
            outages.sort_by_key(|outage| outage.start);
            link = link.loss(LossModel::Outages(outages));
        }
        if !self.jitter.is_zero() {
            link = link.jitter(Jitter::Uniform { max: self.jitter });
        }
        if let Some((share, extra)) = self.reorder {
            link = link.reordering(share.share(), extra);
        }
        link.ecn = self.ecn.map(|threshold| EcnMarking {
            threshold,
            drops_not_capable: false,
        });
        link.mtu_bytes = self.mtu;
        let link = link
            .duplication(self.duplicate.share())
            .corruption(self.corrupt.share());
        link.validate()?;
        Ok(link)
    }
}

/// A path: towards the server, and back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathSpec {
    pub(crate) up: Direction,
    pub(crate) down: Direction,
}

impl PathSpec {
    /// Sets `name` to `value` as `--name VALUE` would, in the directions `way`.
    /// New outages take the place of those there are.
    ///
    /// # Errors
    /// What is wrong with name or value; then nothing changes.
    pub(crate) fn set(&mut self, way: Way, name: &str, value: &str) -> Result<(), String> {
        let setting = setting::read(way, name, value)?;
        let directions = match way {
            Way::Both => [Some(&mut self.up), Some(&mut self.down)],
            Way::Up => [Some(&mut self.up), None],
            Way::Down => [None, Some(&mut self.down)],
        };
        for direction in directions.into_iter().flatten() {
            if matches!(setting, Setting::Outage(_)) {
                direction.outages.clear();
            }
            direction.apply(setting.clone());
        }
        Ok(())
    }

    /// The round trip of an empty path.
    pub(crate) fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Both links.
    ///
    /// # Errors
    /// A value that makes no sense, with the direction that has it.
    pub(crate) fn links(&self) -> Result<(LinkConfig, LinkConfig), String> {
        let rtt = self.rtt();
        let up = self.up.config(rtt).map_err(|e| format!("link up: {e}"))?;
        let down = self
            .down
            .config(rtt)
            .map_err(|e| format!("link down: {e}"))?;
        Ok((up, down))
    }
}

//! The `[network]` of a file.

use ctcp_link::{
    EcnMarking, GilbertElliott, Interference, Jitter, LinkConfig, LossModel, QueueSize,
};
use ctcp_units::{Duration, LossRate};
use serde::Deserialize;

use super::quantity::{OutageText, PositiveSpan, Queue, Share, Span, Speed};
use crate::topology::{FlowPath, Network};

/// One of the usual networks, or links and paths by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkFile {
    dumbbell: Option<HopFile>,
    chain: Option<Vec<HopFile>>,
    parallel: Option<Vec<HopFile>>,
    #[serde(rename = "parking-lot")]
    parking_lot: Option<ParkingLotFile>,
    #[serde(default)]
    link: Vec<NamedLinkFile>,
    #[serde(default)]
    path: Vec<PathFile>,
}

/// Both directions of one hop.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct HopFile {
    name: Option<String>,
    /// Each direction gets half of it as its delay, unless it has its own.
    rtt: Option<Span>,
    down: LinkFile,
    /// Left out: the rate, delay and queue of `down`, and nothing lost.
    up: Option<LinkFile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParkingLotFile {
    hops: usize,
    rtt: Option<Span>,
    down: LinkFile,
    up: Option<LinkFile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedLinkFile {
    name: String,
    /// Round trip that `bdp` refers to.
    rtt: Option<Span>,
    link: LinkFile,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFile {
    down: Vec<String>,
    up: Vec<String>,
}

/// One direction of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    /// Left out: no limit.
    rate: Option<Speed>,
    delay: Option<Span>,
    queue: Option<Queue>,
    /// Before the rate limiter.
    loss: Option<Share>,
    /// Behind it.
    loss_after: Option<Share>,
    /// Mean length of bursts of either, packets.
    burst: Option<f64>,
    /// Every n-th packet, before the rate limiter.
    loss_every: Option<u64>,
    interference: Option<InterferenceFile>,
    #[serde(default)]
    outages: Vec<OutageText>,
    jitter: Option<Span>,
    reorder: Option<Share>,
    reorder_delay: Option<PositiveSpan>,
    duplicate: Option<Share>,
    corrupt: Option<Share>,
    /// Packets are marked when the queue is longer than this.
    ecn: Option<Queue>,
    mtu: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterferenceFile {
    period: PositiveSpan,
    pulse: PositiveSpan,
}

impl NetworkFile {
    /// The network; the message says what is wrong.
    pub(super) fn build(&self) -> Result<Network, String> {
        let kinds = [
            self.dumbbell.is_some(),
            self.chain.is_some(),
            self.parallel.is_some(),
            self.parking_lot.is_some(),
            !self.link.is_empty(),
        ];
        if kinds.iter().filter(|&&is_there| is_there).count() != 1 {
            return Err(
                "`network` must have one of `dumbbell`, `chain`, `parallel`, `parking-lot`, \
                 or `link` with `path`"
                    .to_owned(),
            );
        }
        if let Some(hop) = &self.dumbbell {
            let (down, up) = hop.links(hop.rtt())?;
            return Ok(Network::dumbbell(down, up));
        }
        if let Some(hops) = &self.chain {
            let rtt = hops.iter().map(HopFile::rtt).sum();
            let links = named(hops, "hop", |hop| hop.links(rtt))?;
            return Ok(Network::chain(borrowed(&links)));
        }
        if let Some(hops) = &self.parallel {
            let links = named(hops, "path", |hop| hop.links(hop.rtt()))?;
            return Ok(Network::parallel(borrowed(&links)));
        }
        if let Some(lot) = &self.parking_lot {
            if !(1..=100).contains(&lot.hops) {
                return Err(format!("`hops` is {}: it must be 1 to 100", lot.hops));
            }
            let hop = HopFile {
                name: None,
                rtt: lot.rtt,
                down: lot.down.clone(),
                up: lot.up.clone(),
            };
            let (down, up) = hop.links(hop.rtt() * lot.hops as u32)?;
            return Ok(Network::parking_lot(lot.hops, &down, &up));
        }
        self.build_custom()
    }

    fn build_custom(&self) -> Result<Network, String> {
        let mut network = Network::new();
        for named in &self.link {
            if network.place(&named.name).is_some() {
                return Err(format!("two links are called `{}`", named.name));
            }
            let delay = named.link.delay.map_or(Duration::ZERO, |span| span.0);
            let rtt = named.rtt.map_or(delay * 2, |span| span.0);
            let config = named
                .link
                .build(delay, rtt)
                .map_err(|error| format!("link `{}`: {error}", named.name))?;
            network.add(&named.name, config);
        }
        for path in &self.path {
            let places = |names: &[String]| -> Result<Vec<usize>, String> {
                names
                    .iter()
                    .map(|name| {
                        network
                            .place(name)
                            .ok_or_else(|| format!("a path leads over `{name}`, which is no link"))
                    })
                    .collect()
            };
            let path = FlowPath {
                down: places(&path.down)?,
                up: places(&path.up)?,
            };
            network.paths.push(path);
        }
        if network.paths.is_empty() {
            return Err("`network.link` needs at least one `[[network.path]]`".to_owned());
        }
        Ok(network)
    }
}

type NamedPair = (String, LinkConfig, LinkConfig);

fn named(
    hops: &[HopFile],
    kind: &str,
    links: impl Fn(&HopFile) -> Result<(LinkConfig, LinkConfig), String>,
) -> Result<Vec<NamedPair>, String> {
    if hops.is_empty() {
        return Err("a network needs at least one hop".to_owned());
    }
    let mut all: Vec<NamedPair> = Vec::new();
    for (index, hop) in hops.iter().enumerate() {
        let name = hop.name.clone().unwrap_or_else(|| format!("{kind}{index}"));
        if all.iter().any(|(other, ..)| *other == name) {
            return Err(format!("two hops are called `{name}`"));
        }
        let (down, up) = links(hop)?;
        all.push((name, down, up));
    }
    Ok(all)
}

fn borrowed(links: &[NamedPair]) -> impl Iterator<Item = (&str, LinkConfig, LinkConfig)> {
    links
        .iter()
        .map(|(name, down, up)| (name.as_str(), down.clone(), up.clone()))
}

impl HopFile {
    fn half(&self) -> Duration {
        self.rtt.map_or(Duration::ZERO, |span| span.0 / 2)
    }

    fn down_delay(&self) -> Duration {
        self.down.delay.map_or(self.half(), |span| span.0)
    }

    fn up_delay(&self) -> Duration {
        match &self.up {
            Some(up) => up.delay.map_or(self.half(), |span| span.0),
            None => self.down_delay(),
        }
    }

    /// Propagation there and back.
    fn rtt(&self) -> Duration {
        self.down_delay() + self.up_delay()
    }

    /// Both directions; `rtt` is what a bandwidth-delay product refers to.
    fn links(&self, rtt: Duration) -> Result<(LinkConfig, LinkConfig), String> {
        let down = self
            .down
            .build(self.down_delay(), rtt)
            .map_err(|error| format!("`down`: {error}"))?;
        let up = match &self.up {
            Some(up) => up
                .build(self.up_delay(), rtt)
                .map_err(|error| format!("`up`: {error}"))?,
            None => LinkFile {
                rate: self.down.rate,
                queue: self.down.queue,
                ..LinkFile::default()
            }
            .build(self.up_delay(), rtt)?,
        };
        Ok((down, up))
    }
}

impl LinkFile {
    fn build(&self, delay: Duration, rtt: Duration) -> Result<LinkConfig, String> {
        let mut link = match self.rate {
            Some(rate) => LinkConfig::new(rate.0, delay),
            None => LinkConfig::unlimited(delay),
        };
        if let Some(queue) = self.queue {
            link = link.queue(self.size(queue, rtt)?);
        }
        if let Some(loss) = self.loss {
            link = link.loss(self.model(loss.0)?);
        }
        if let Some(loss) = self.loss_after {
            link = link.loss_after(self.model(loss.0)?);
        }
        if let Some(every) = self.loss_every {
            link = link.loss(LossModel::EveryNth(every));
        }
        if let Some(pulses) = self.interference {
            link = link.loss_after(LossModel::Interference(Interference {
                period: pulses.period.0,
                pulse: pulses.pulse.0,
                phase: Duration::ZERO,
            }));
        }
        if !self.outages.is_empty() {
            let outages = self.outages.iter().map(|outage| outage.0).collect();
            link = link.loss(LossModel::Outages(outages));
        }
        if let Some(jitter) = self.jitter {
            link = link.jitter(Jitter::Uniform { max: jitter.0 });
        }
        match (self.reorder, self.reorder_delay) {
            (Some(share), Some(span)) => link = link.reordering(share.0.share(), span.0),
            (None, None) => {}
            _ => return Err("`reorder` and `reorder_delay` go together".to_owned()),
        }
        link.duplication_share = self.duplicate.map_or(0.0, |share| share.0.share());
        link.corruption_share = self.corrupt.map_or(0.0, |share| share.0.share());
        if let Some(threshold) = self.ecn {
            link.ecn = Some(EcnMarking {
                threshold: self.size(threshold, rtt)?,
                drops_not_capable: false,
            });
        }
        link.mtu_bytes = self.mtu;
        link.validate().map_err(|error| error.to_string())?;
        Ok(link)
    }

    fn size(&self, queue: Queue, rtt: Duration) -> Result<QueueSize, String> {
        match (queue, self.rate) {
            (Queue::Size(size), _) => Ok(size),
            (Queue::Bdp(count), Some(rate)) => Ok(QueueSize::bdp(count, rate.0, rtt)),
            (Queue::Bdp(_), None) => {
                Err("a queue in `bdp` needs a `rate`; give it packets or kB".to_owned())
            }
        }
    }

    fn model(&self, share: LossRate) -> Result<LossModel, String> {
        match self.burst {
            None => Ok(LossModel::Bernoulli(share)),
            Some(burst) => GilbertElliott::from_mean_and_burst(share, burst)
                .map(LossModel::GilbertElliott)
                .map_err(|error| error.to_string()),
        }
    }
}

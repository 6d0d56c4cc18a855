//! One run: builds the network and its agents, steps them, measures.

use ctcp_units::{Duration, Instant, Random};

use crate::agent::ctcp;
use crate::agent::gbn::{GoBackNClient, GoBackNServer};
use crate::agent::nc::{NcClient, NcRelay, NcServer};
use crate::agent::tcp::{TcpClient, TcpServer};
use crate::agent::udp::{UdpClient, UdpServer};
use crate::agent::{Agent, AgentStats};
use crate::app::AppState;
use crate::engine::{AgentId, RouteCounters, RouteId, Simulation, Tracer};
use crate::report::{Ended, FlowReport, FlowSample, LinkReport, LinkSample, Report};
use crate::scenario::{Flow, Scenario, ScenarioError, Transport};

/// Least interval at which a run looks whether all is done.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Looks per run without samples.
const LOOKS: u32 = 2000;

/// A flow's place in the simulation.
struct Placed {
    server: AgentId,
    client: AgentId,
    /// Routes of the data and of what comes back, per path.
    down: Vec<RouteId>,
    up: Vec<RouteId>,
    /// The routes of the data are one way, cut at relays, and not several.
    has_relays: bool,
}

/// Counts of a flow at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Snapshot {
    at: Instant,
    server: AgentStats,
    client: AgentStats,
    down: RouteCounters,
    up: RouteCounters,
}

/// The generator of the part that `label` names. Labels keep the parts apart:
/// another flow or link changes nothing for those there are.
pub(crate) fn named_seed(seed: u64, label: &str) -> u64 {
    // FNV-1a over the label, then one step of the generator itself.
    let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Random::from_seed(seed ^ hash).next_u64()
}

/// Runs `scenario`; `tracer` hears of every packet.
pub(crate) fn run(scenario: &Scenario, tracer: Option<Tracer>) -> Result<Report, ScenarioError> {
    scenario.check()?;
    let links = scenario.network.links.iter().map(|link| {
        let seed = named_seed(scenario.seed, &format!("link/{}", link.name));
        (link.config.clone(), seed)
    });
    let mut simulation =
        Simulation::new(links, tracer).map_err(|(place, error)| ScenarioError::Link {
            link: scenario.network.links[place].name.clone(),
            error,
        })?;
    let flows = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| place(&mut simulation, scenario, index, flow))
        .collect::<Result<Vec<_>, _>>()?;
    simulation.start();
    Ok(Run {
        scenario,
        simulation,
        flows,
        warm: Vec::new(),
        samples: Vec::new(),
    }
    .finish())
}

/// Adds routes and agents of a flow.
fn place(
    simulation: &mut Simulation,
    scenario: &Scenario,
    index: usize,
    flow: &Flow,
) -> Result<Placed, ScenarioError> {
    let mut random = Random::from_seed(named_seed(scenario.seed, &format!("flow/{}", flow.name)));
    let (client_id, server_id) = (simulation.next_agent(0), simulation.next_agent(1));
    let paths = match flow.paths.is_empty() {
        true => &scenario.network.paths,
        false => &flow.paths,
    };
    let relays = match &flow.transport {
        Transport::Nc(config) => config.relay_redundancy.is_some(),
        _ => false,
    };
    let mut placed = Placed {
        server: server_id,
        client: client_id,
        down: Vec::new(),
        up: Vec::new(),
        has_relays: relays,
    };
    for path in paths {
        // With relays every link is a route of its own; the client's is last.
        match relays {
            true => {
                for (hop, &link) in path.down.iter().enumerate() {
                    let is_last = hop + 1 == path.down.len();
                    let to = match is_last {
                        true => client_id,
                        false => simulation.next_agent(2 + hop),
                    };
                    placed
                        .down
                        .push(simulation.add_route(index, vec![link], to));
                }
            }
            false => placed
                .down
                .push(simulation.add_route(index, path.down.clone(), client_id)),
        }
        placed
            .up
            .push(simulation.add_route(index, path.up.clone(), server_id));
    }
    let app = AppState::new(
        flow.application.clone(),
        Instant::EPOCH + flow.start,
        random.fork(1),
    );
    let refuse = |message: String| ScenarioError::Flow {
        flow: flow.name.clone(),
        message,
    };
    let (client, server): (Box<dyn Agent>, Box<dyn Agent>) = match &flow.transport {
        Transport::Tcp(config) => (
            Box::new(TcpClient::new(config, placed.up[0], app)),
            Box::new(
                TcpServer::new(config, placed.down[0], random.fork(2))
                    .map_err(|error| refuse(error.to_string()))?,
            ),
        ),
        Transport::Ctcp(config) => {
            let ways: Vec<ctcp::Way> = placed
                .up
                .iter()
                .zip(&placed.down)
                .map(|(&outward, &inward)| ctcp::Way { outward, inward })
                .collect();
            let (client, server) = ctcp::pair(config, &ways, app, &mut random)
                .map_err(|error| refuse(error.to_string()))?;
            (Box::new(client), Box::new(server))
        }
        Transport::GoBackN(config) => (
            Box::new(GoBackNClient::new(config, placed.up[0], app)),
            Box::new(GoBackNServer::new(config, placed.down[0])),
        ),
        Transport::Nc(config) => (
            Box::new(NcClient::new(config, placed.up[0], app)),
            Box::new(
                NcServer::new(config, placed.down[0], random.fork(2))
                    .map_err(|error| refuse(error.to_string()))?,
            ),
        ),
        Transport::Udp(config) => {
            let start = Instant::EPOCH + flow.start;
            let server = UdpServer::new(config, placed.down[0], start, random.fork(2));
            (Box::new(UdpClient::default()), Box::new(server))
        }
    };
    simulation.add_agent(client);
    simulation.add_agent(server);
    if let Transport::Nc(config) = &flow.transport
        && let Some(redundancy) = config.relay_redundancy
    {
        for &route in &placed.down[1..] {
            let random = random.fork(3);
            let relay = NcRelay::new(config.packet_bytes, redundancy, route, random);
            simulation.add_agent(Box::new(relay));
        }
    }
    Ok(placed)
}

struct Run<'a> {
    scenario: &'a Scenario,
    simulation: Simulation,
    flows: Vec<Placed>,
    /// The flows at the end of the warm-up.
    warm: Vec<Snapshot>,
    samples: Vec<Snapshot>,
}

impl Run<'_> {
    fn finish(mut self) -> Report {
        let scenario = self.scenario;
        let mut series = vec![Vec::new(); self.flows.len()];
        let mut link_series = vec![Vec::new(); scenario.network.links.len()];
        let limit = Instant::EPOCH + scenario.time_limit;
        let warmup = Instant::EPOCH + scenario.warmup;
        let look = scenario
            .sample_interval
            .unwrap_or_else(|| (scenario.time_limit / LOOKS).max(LOOK_MIN));
        self.samples = self.snapshots();
        let mut next_look = Instant::EPOCH + look;
        let ended = loop {
            let until = match self.warm.is_empty() {
                true => next_look.min(warmup),
                false => next_look,
            };
            let until = until.min(limit);
            let reached = self.simulation.run_until(until, scenario.events_max);
            if reached == crate::engine::Reached::EventLimit {
                break Ended::EventLimit;
            }
            if self.warm.is_empty() && until >= warmup {
                self.warm = self.snapshots();
            }
            if until == next_look {
                next_look += look;
                if scenario.sample_interval.is_some() {
                    self.sample(&mut series, &mut link_series);
                }
            }
            if scenario.stops_when_done && self.is_all_done() {
                break Ended::AllDone;
            }
            if until >= limit {
                break Ended::TimeLimit;
            }
        };
        if self.warm.is_empty() {
            // Cut before the end of the warm-up: nothing was to be counted, so
            // everything is.
            self.warm = vec![Snapshot::default(); self.flows.len()];
        }
        let end = self.snapshots();
        let flows = self
            .flows
            .iter()
            .enumerate()
            .map(|(index, placed)| {
                self.flow_report(
                    index,
                    placed,
                    &end[index],
                    core::mem::take(&mut series[index]),
                )
            })
            .collect();
        let links = (0..scenario.network.links.len())
            .map(|place| LinkReport {
                name: scenario.network.links[place].name.clone(),
                counters: self.simulation.link_counters(place),
                samples: core::mem::take(&mut link_series[place]),
            })
            .collect();
        let census = self.simulation.census();
        assert!(census.is_conserved(), "packets went missing: {census:?}");
        Report {
            name: scenario.name.clone(),
            seed: scenario.seed,
            ended,
            simulated: self.simulation.now() - Instant::EPOCH,
            packet_events: self.simulation.packet_events,
            census,
            flows,
            links,
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let now = self.simulation.now();
        self.flows
            .iter()
            .map(|placed| Snapshot {
                at: now,
                server: self.simulation.agent(placed.server).stats(now),
                client: self.simulation.agent(placed.client).stats(now),
                down: match placed.has_relays {
                    true => self.end_to_end(&placed.down),
                    false => self.sum(&placed.down),
                },
                up: self.sum(&placed.up),
            })
            .collect()
    }

    /// What entered the first and left the last of these routes.
    fn end_to_end(&self, routes: &[RouteId]) -> RouteCounters {
        let first = self.simulation.route_counters(routes[0]);
        let last = self.simulation.route_counters(routes[routes.len() - 1]);
        RouteCounters {
            sent: first.sent,
            sent_bytes: first.sent_bytes,
            ..last
        }
    }

    fn sum(&self, routes: &[RouteId]) -> RouteCounters {
        let mut sum = RouteCounters::default();
        for &route in routes {
            let counters = self.simulation.route_counters(route);
            sum.sent += counters.sent;
            sum.sent_bytes += counters.sent_bytes;
            sum.received += counters.received;
            sum.received_bytes += counters.received_bytes;
            sum.received_up_to += counters.received_up_to;
            sum.marked += counters.marked;
        }
        sum
    }

    fn sample(&mut self, series: &mut [Vec<FlowSample>], links: &mut [Vec<LinkSample>]) {
        let now = self.simulation.now();
        let snapshots = self.snapshots();
        for (index, (old, new)) in self.samples.iter().zip(&snapshots).enumerate() {
            series[index].push(FlowSample {
                at: now,
                tokens: new.server.window,
                in_flight: new.server.in_flight,
                srtt: new.server.srtt,
                goodput_bits: rate(
                    new.client.bytes_in_order - old.client.bytes_in_order,
                    new.at - old.at,
                ),
                loss: loss_between(&old.down, &new.down),
            });
        }
        for (place, series) in links.iter_mut().enumerate() {
            let counters = self.simulation.link_counters(place);
            series.push(LinkSample {
                at: now,
                queue_packets: counters.queue_packets,
                queue_bytes: counters.queue_bytes,
            });
        }
        self.samples = snapshots;
    }

    fn is_all_done(&self) -> bool {
        let mut finite = 0;
        for placed in &self.flows {
            let Some(app) = self.simulation.agent(placed.client).app() else {
                continue;
            };
            if app.is_finite() {
                if !app.is_done() {
                    return false;
                }
                finite += 1;
            }
        }
        finite > 0
    }

    fn flow_report(
        &self,
        index: usize,
        placed: &Placed,
        end: &Snapshot,
        samples: Vec<FlowSample>,
    ) -> FlowReport {
        let flow = &self.scenario.flows[index];
        let warm = &self.warm[index];
        let app = self.simulation.agent(placed.client).app();
        let completions = app
            .map(|app| app.completions().to_vec())
            .unwrap_or_default();
        let is_done = app.is_some_and(AppState::is_done);
        let started = Instant::EPOCH + flow.start;
        let from = warm.at.max(started);
        // What is done does not wait for the others.
        let until = match completions.last() {
            Some(last) if is_done => last.done_at.max(from),
            _ => end.at,
        };
        let span = until - from;
        let bytes = end.client.bytes_in_order - warm.client.bytes_in_order;
        let samples_count = end.server.srtt_samples - warm.server.srtt_samples;
        let srtt_sum = end.server.srtt_sum_nanos - warm.server.srtt_sum_nanos;
        let srtt_mean = srtt_sum
            .checked_div(u128::from(samples_count))
            .map(|nanos| Duration::from_nanos(nanos as u64));
        let window_span = (end.at - from).as_secs_f64();
        let window_sum = end.server.window_integral - warm.server.window_integral;
        FlowReport {
            name: flow.name.clone(),
            measured: span,
            goodput_bits: rate(bytes, span),
            throughput_bits: rate(end.down.sent_bytes - warm.down.sent_bytes, span),
            bytes_in_order: bytes,
            bytes_sent: end.down.sent_bytes - warm.down.sent_bytes,
            bytes_returned: end.up.sent_bytes - warm.up.sent_bytes,
            packets_sent: end.down.sent - warm.down.sent,
            packets_received: end.down.received - warm.down.received,
            data_packets: end.server.data_packets - warm.server.data_packets,
            retransmissions: end.server.retransmissions - warm.server.retransmissions,
            coded_packets: end.server.coded_packets - warm.server.coded_packets,
            useless_packets: end.client.useless_packets - warm.client.useless_packets,
            recovered_packets: end.client.recovered_packets - warm.client.recovered_packets,
            timeouts: end.server.timeouts - warm.server.timeouts,
            time_in_timeout: end
                .server
                .time_in_timeout
                .saturating_sub(warm.server.time_in_timeout),
            backoffs: end.server.backoffs - warm.server.backoffs,
            loss_seen: loss_between(&warm.down, &end.down).unwrap_or(0.0),
            marked_packets: end.down.marked - warm.down.marked,
            srtt_mean,
            tokens_mean: if window_span > 0.0 {
                window_sum / window_span
            } else {
                0.0
            },
            is_finite: app.is_some_and(AppState::is_finite),
            is_done,
            completion_count: app.map_or(0, AppState::completion_count),
            completions,
            video: app.and_then(AppState::video),
            samples,
        }
    }
}

/// Bits per second; 0 over no time.
fn rate(bytes: u64, span: Duration) -> f64 {
    if span.is_zero() {
        return 0.0;
    }
    bytes as f64 * 8.0 / span.as_secs_f64()
}

/// Share of the packets between two moments that did not come, by the highest
/// place received; `None` if none was due.
fn loss_between(old: &RouteCounters, new: &RouteCounters) -> Option<f64> {
    let due = new.received_up_to - old.received_up_to;
    let came = new.received - old.received;
    (due > 0).then(|| (1.0 - came as f64 / due as f64).max(0.0))
}

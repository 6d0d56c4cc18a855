//! Links, routes and agents, stepped from event to event.

use ctcp_link::{ConfigError, Ecn, Fate, Link, LinkConfig, LinkCounters, Packet};
use ctcp_units::Instant;

use super::packet::{Payload, RouteId, SimPacket};
use super::queue::EventQueue;
use super::trace::{TraceEvent, TraceKind};
use crate::agent::{Agent, Arrival, Outbox};

/// A link's place in the simulation.
pub(crate) type LinkIndex = usize;

/// An agent's place in the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentId(pub(crate) usize);

/// Packets of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RouteCounters {
    /// Sent by the agent.
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Handed to the agent at the end.
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    /// One more than the highest place received: what lies below and was not
    /// received is lost (or late).
    pub(crate) received_up_to: u64,
    /// Marked Congestion Experienced on arrival.
    pub(crate) marked: u64,
}

#[derive(Debug)]
struct Route {
    links: Vec<LinkIndex>,
    to: AgentId,
    flow: usize,
    counters: RouteCounters,
}

/// Where all packets of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// Sent by agents.
    pub sent: u64,
    /// Received by agents.
    pub received: u64,
    /// Lost or dropped by links.
    pub lost: u64,
    /// Copies that links made.
    pub duplicated: u64,
    /// Inside links.
    pub inside: u64,
}

impl Census {
    /// Whether every packet is accounted for.
    pub const fn is_conserved(&self) -> bool {
        self.sent + self.duplicated == self.received + self.lost + self.inside
    }
}

/// Called for every event of a packet.
pub(crate) type Tracer = Box<dyn FnMut(&TraceEvent) + Send>;

/// A network with its agents, at one moment.
pub(crate) struct Simulation {
    now: Instant,
    queue: EventQueue,
    links: Vec<Link<SimPacket>>,
    routes: Vec<Route>,
    agents: Vec<Box<dyn Agent>>,
    outbox: Outbox,
    tracer: Option<Tracer>,
    /// Moments at which an agent or a link was served.
    pub(crate) steps: u64,
    /// Packets offered to links and packets that arrived at their ends.
    pub(crate) packet_events: u64,
}

/// Outcome of [`Simulation::run_until`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The moment asked for.
    Moment,
    /// The limit on packet events.
    EventLimit,
}

impl Simulation {
    /// A network without agents.
    ///
    /// # Errors
    /// The place of the first link whose configuration is impossible, and why.
    pub(crate) fn new(
        links: impl IntoIterator<Item = (LinkConfig, u64)>,
        tracer: Option<Tracer>,
    ) -> Result<Self, (LinkIndex, ConfigError)> {
        let links = links
            .into_iter()
            .enumerate()
            .map(|(index, (config, seed))| {
                Link::new(config, seed, Instant::EPOCH).map_err(|error| (index, error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            now: Instant::EPOCH,
            queue: EventQueue::default(),
            links,
            routes: Vec::new(),
            agents: Vec::new(),
            outbox: Outbox::default(),
            tracer,
            steps: 0,
            packet_events: 0,
        })
    }

    /// The id that the next agent will have; `ahead` further agents in between.
    pub(crate) fn next_agent(&self, ahead: usize) -> AgentId {
        AgentId(self.agents.len() + ahead)
    }

    /// Adds a route over `links`, at least one, to an agent that may yet have to
    /// be added.
    pub(crate) fn add_route(&mut self, flow: usize, links: Vec<LinkIndex>, to: AgentId) -> RouteId {
        assert!(!links.is_empty(), "a route has at least one link");
        let id = RouteId(self.routes.len() as u32);
        self.routes.push(Route {
            links,
            to,
            flow,
            counters: RouteCounters::default(),
        });
        id
    }

    /// Adds an agent.
    pub(crate) fn add_agent(&mut self, agent: Box<dyn Agent>) -> AgentId {
        let id = self.next_agent(0);
        self.agents.push(agent);
        id
    }

    /// To be called once, when all agents are there.
    pub(crate) fn start(&mut self) {
        self.queue = EventQueue::new(self.links.len() + self.agents.len());
        for index in 0..self.agents.len() {
            self.schedule_agent(index);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn agent(&self, id: AgentId) -> &dyn Agent {
        self.agents[id.0].as_ref()
    }

    pub(crate) fn route_counters(&self, route: RouteId) -> RouteCounters {
        self.routes[route.0 as usize].counters
    }

    /// Counters of a link as of now.
    pub(crate) fn link_counters(&mut self, index: LinkIndex) -> LinkCounters {
        let now = self.now;
        self.links[index].advance(now);
        self.links[index].counters()
    }

    /// Where all packets are now.
    pub(crate) fn census(&mut self) -> Census {
        let mut census = Census::default();
        for route in &self.routes {
            census.sent += route.counters.sent;
            census.received += route.counters.received;
        }
        for index in 0..self.links.len() {
            let counters = self.link_counters(index);
            assert!(counters.is_conserved(), "link {index} lost track");
            census.lost += counters.lost() + counters.dropped();
            census.duplicated += counters.duplicated;
            census.inside += counters.inside;
        }
        census
    }

    /// Lets happen what happens up to `until`, unless `packet_events` reach
    /// `events_max` first.
    pub(crate) fn run_until(&mut self, until: Instant, events_max: u64) -> Reached {
        while let Some((at, source)) = self.queue.peek() {
            if at > until {
                break;
            }
            if self.packet_events.max(self.steps) >= events_max {
                return Reached::EventLimit;
            }
            debug_assert!(at >= self.now, "time goes back from {} to {at}", self.now);
            self.now = at;
            self.steps += 1;
            match source.checked_sub(self.links.len()) {
                None => self.serve_link(source),
                Some(agent) => self.serve_agent(agent),
            }
        }
        self.now = self.now.max(until);
        Reached::Moment
    }

    fn serve_link(&mut self, index: LinkIndex) {
        while let Some(delivered) = self.links[index].poll_delivery(self.now) {
            self.packet_events += 1;
            let mut packet = delivered.payload;
            if let (Some(corruption), Payload::Datagram(datagram)) =
                (delivered.corruption, &mut packet.payload)
            {
                corruption.apply(datagram.bytes_mut());
            }
            let is_damaged = delivered.corruption.is_some();
            packet.hop += 1;
            let route = &self.routes[packet.route.0 as usize];
            match route.links.get(packet.hop as usize) {
                Some(&next) => {
                    let onward = Packet::new(delivered.len_bytes, packet).ecn(delivered.ecn);
                    self.offer(next, onward, TraceKind::Forwarded);
                }
                None => self.hand_over(
                    index,
                    packet,
                    delivered.len_bytes,
                    delivered.ecn == Ecn::Ce,
                    is_damaged,
                ),
            }
        }
        self.schedule_link(index);
    }

    /// The packet has come to the end of its route.
    fn hand_over(
        &mut self,
        link: LinkIndex,
        packet: SimPacket,
        len_bytes: u32,
        is_marked: bool,
        is_damaged: bool,
    ) {
        let (id, index) = (packet.route, packet.index);
        let route = &mut self.routes[id.0 as usize];
        route.counters.received += 1;
        route.counters.received_bytes += u64::from(len_bytes);
        route.counters.received_up_to = route.counters.received_up_to.max(index + 1);
        route.counters.marked += u64::from(is_marked);
        let (to, flow) = (route.to, route.flow);
        if let Some(tracer) = &mut self.tracer {
            tracer(&TraceEvent {
                at: self.now,
                kind: TraceKind::Received,
                link,
                flow,
                route: id.0 as usize,
                index,
                len_bytes,
            });
        }
        // A checksum finds the damage; only the real transport looks itself.
        if is_damaged && !matches!(packet.payload, Payload::Datagram(_)) {
            return;
        }
        let arrival = Arrival {
            route: id,
            len_bytes,
            is_marked,
            payload: packet.payload,
        };
        self.agents[to.0].handle_packet(self.now, arrival, &mut self.outbox);
        self.flush(to.0);
    }

    fn serve_agent(&mut self, index: usize) {
        self.agents[index].handle_timeout(self.now, &mut self.outbox);
        self.flush(index);
    }

    /// Sends what the agent has put out, and asks when it wants to be called.
    fn flush(&mut self, agent: usize) {
        let mut outgoing = core::mem::take(&mut self.outbox.packets);
        for out in outgoing.drain(..) {
            let route = &mut self.routes[out.route.0 as usize];
            let index = route.counters.sent;
            route.counters.sent += 1;
            route.counters.sent_bytes += u64::from(out.len_bytes);
            let first = route.links[0];
            let packet = SimPacket {
                route: out.route,
                hop: 0,
                index,
                payload: out.payload,
            };
            self.offer(
                first,
                Packet::new(out.len_bytes, packet).ecn(out.ecn),
                TraceKind::Sent,
            );
        }
        self.outbox.packets = outgoing;
        self.schedule_agent(agent);
    }

    fn offer(&mut self, index: LinkIndex, packet: Packet<SimPacket>, kind: TraceKind) {
        self.packet_events += 1;
        let mut event = TraceEvent {
            at: self.now,
            kind,
            link: index,
            flow: self.routes[packet.payload.route.0 as usize].flow,
            route: packet.payload.route.0 as usize,
            index: packet.payload.index,
            len_bytes: packet.len_bytes,
        };
        let fate = self.links[index].send(self.now, packet);
        if let Some(tracer) = &mut self.tracer {
            tracer(&event);
            event.kind = match fate {
                Fate::Accepted => event.kind,
                Fate::Lost(_) => TraceKind::Lost,
                Fate::QueueFull | Fate::TooLong | Fate::LinkFull => TraceKind::Dropped,
            };
            if event.kind != kind {
                tracer(&event);
            }
        }
        if fate == Fate::Accepted {
            self.schedule_link(index);
        }
    }

    fn schedule_link(&mut self, index: LinkIndex) {
        let next = self.links[index].next_event();
        // A link that promises something now and gives nothing would be asked
        // for ever; jitter makes it name a moment that is too early.
        let next = next.map(|at| at.max(self.now));
        self.queue.set(index, next);
    }

    fn schedule_agent(&mut self, index: usize) {
        let deadline = self.agents[index].deadline();
        self.queue.set(
            self.links.len() + index,
            deadline.map(|at| at.max(self.now)),
        );
    }
}

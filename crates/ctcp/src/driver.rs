//! The task behind an endpoint: sockets in, connections, sockets out.
//!
//! Each round it takes what others wish ([`Inbox`](crate::shared::Inbox)), one
//! batch of datagrams and the deadlines that have passed, hands them to their
//! connections, and then serves each connection concerned: sends what it has to
//! send, wakes who waits, notes its next deadline. When a round brought nothing,
//! it sleeps until the socket, the timer or a wish wakes it.
//!
//! Lock order: routing before connection; never two connections. No lock is held
//! while a system call sends.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ctcp_proto::{ConnectionHandle, Ecn, Verdict};
use ctcp_units::{Instant, PathId, millis};

use crate::clock::wall_nanos;
use crate::connection::Connection;
use crate::endpoint::EndpointShared;
use crate::shared::{ConnectionShared, lock};
use crate::socket::{LOTS, Lots, Outgoing, Sent, Socket};
use crate::sockets::{SocketId, Sockets};
use crate::timer::Timer;

/// Rounds in one go before other tasks of the thread get their turn.
const ROUNDS_MAX: usize = 4;
/// Batches one connection may send before the others and the socket get their
/// turn.
const BATCHES_PER_TURN: usize = 4;
/// How long a stopping endpoint tries to get rid of its last datagrams.
const LAST_WORDS: std::time::Duration = millis(250);

/// The task. It ends when the last handle of its endpoint is gone.
pub(crate) struct Driver {
    shared: Arc<EndpointShared>,
    sockets: Sockets,
    timer: Timer,
    /// Connections to serve, each once.
    queue: VecDeque<Arc<ConnectionShared>>,
    /// Spare of the inbox.
    wished: Vec<Arc<ConnectionShared>>,
    /// Every connection that has a deadline, under that deadline or an earlier
    /// moment: an entry is not moved when the deadline moves on.
    deadlines: BTreeMap<(Instant, ConnectionHandle), Arc<ConnectionShared>>,
    lots: Lots,
    arrivals: Vec<Arrival>,
    /// Connections that `arrivals` speak of.
    receivers: Vec<Arc<ConnectionShared>>,
    out: Vec<u8>,
    /// What the send buffers had no room for, in the order in which it was to
    /// leave: of each path of a connection little more than one batch, as the path
    /// counts as blocked meanwhile. The other paths go on.
    unsent: VecDeque<Unsent>,
    /// Spare for wakers.
    wakers: Vec<Waker>,
    /// When to end, whatever is left to send.
    stops_at: Option<Instant>,
}

/// One datagram that belongs to a connection.
struct Arrival {
    /// Index in `receivers`.
    receiver: usize,
    path: PathId,
    from: SocketAddr,
    to: Option<IpAddr>,
    ecn: Option<Ecn>,
    lot: usize,
    start: usize,
    len: usize,
}

struct Unsent {
    connection: Arc<ConnectionShared>,
    path: PathId,
    socket: SocketId,
    remote: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<Ecn>,
    segment_len: usize,
    contents: Vec<u8>,
}

impl Unsent {
    fn outgoing(&self) -> Outgoing<'_> {
        Outgoing {
            remote: self.remote,
            source: self.source,
            ecn: self.ecn,
            contents: &self.contents,
            segment_len: self.segment_len,
        }
    }
}

/// Whether there may be more to do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Done,
    More,
}

impl Driver {
    pub(crate) fn new(shared: Arc<EndpointShared>, socket: Socket) -> io::Result<Self> {
        Ok(Self {
            shared,
            sockets: Sockets::new(socket),
            timer: Timer::new()?,
            queue: VecDeque::new(),
            wished: Vec::new(),
            deadlines: BTreeMap::new(),
            lots: Lots::new(),
            arrivals: Vec::new(),
            receivers: Vec::new(),
            out: Vec::new(),
            unsent: VecDeque::new(),
            wakers: Vec::new(),
            stops_at: None,
        })
    }

    fn round(&mut self, cx: &mut Context<'_>) -> Work {
        let mut work = self.take_wishes();
        let now = self.shared.clock.now();
        if self.socket_work(cx) == Work::More {
            work = Work::More;
        }
        if self.timer.poll(cx).is_ready() {
            work = Work::More;
        }
        if self.expire(now) == Work::More {
            work = Work::More;
        }
        self.flush(cx);
        let blocked_before = self.unsent.len();
        while let Some(connection) = self.queue.pop_front() {
            work = Work::More;
            self.serve(now, &connection);
        }
        if self.unsent.len() > blocked_before {
            // Asks to be told of room.
            self.flush(cx);
        }
        work
    }

    /// Takes what other tasks put into the inbox.
    fn take_wishes(&mut self) -> Work {
        let taken = self.shared.inbox.take(&mut self.wished);
        let is_idle = self.wished.is_empty() && taken.socket.is_none();
        let work = match is_idle && taken.new_sockets.is_empty() {
            true => Work::Done,
            false => Work::More,
        };
        self.queue.extend(self.wished.drain(..));
        for (id, socket) in taken.new_sockets {
            self.sockets.add(id, socket);
        }
        if let Some(socket) = taken.socket {
            self.move_to(socket);
        }
        if taken.stop && self.stops_at.is_none() {
            self.close_all();
            return Work::More;
        }
        work
    }

    fn move_to(&mut self, socket: Socket) {
        let local = socket.local_addr();
        self.sockets.replace_own(socket);
        for unsent in std::mem::take(&mut self.unsent) {
            self.unblock(&unsent.connection, unsent.path);
        }
        for connection in self.shared.all_connections() {
            {
                let mut state = connection.lock();
                let now = state.advance(self.shared.clock.now());
                for path in state.proto.stats().paths {
                    if state.route(path.id) == SocketId::OWN {
                        // It was there a moment ago.
                        let _ = state.proto.set_path_local(now, path.id, local, true);
                    }
                }
            }
            connection.wake_driver();
        }
    }

    fn close_all(&mut self) {
        let now = self.shared.clock.now();
        self.stops_at = Some(now + LAST_WORDS);
        lock(&self.shared.routing).is_stopped = true;
        for connection in self.shared.all_connections() {
            connection.close(0, "");
        }
    }

    /// Receives one batch from each socket and hands it out.
    ///
    /// The clock is read after the batch is there. Read before, a thread that the
    /// system held up in between would date an ACK back by that time, and one round
    /// trip that is too short misleads a path's `rtt_min` for good: seen as a flow
    /// of 20 Mbit/s that fell to 7 and stayed there.
    fn socket_work(&mut self, cx: &mut Context<'_>) -> Work {
        let mut work = Work::Done;
        for place in 0..self.sockets.count() {
            let socket = self.sockets.at(place);
            if let Poll::Ready(count) = socket.poll_receive(cx, &mut self.lots) {
                let now = self.shared.clock.now();
                self.route(now, place, count);
                self.deliver(now);
                work = Work::More;
            }
        }
        work
    }

    /// Finds the connections that the first `count` lots are for, which came by
    /// the socket at `place`.
    fn route(&mut self, now: Instant, place: usize, count: usize) {
        let Self {
            shared,
            sockets,
            lots,
            arrivals,
            receivers,
            out,
            queue,
            ..
        } = self;
        let socket = sockets.at(place);
        let wall_nanos = wall_nanos();
        let names_source = socket.is_wildcard();
        let mut routing = lock(&shared.routing);
        debug_assert!(count <= LOTS);
        for (index, lot) in lots.filled(count).enumerate() {
            let to = lot.to.filter(|_| names_source);
            let mut start = 0;
            for datagram in lot.bytes.chunks_mut(lot.segment_len) {
                let len = datagram.len();
                let verdict = routing
                    .proto
                    .handle_datagram(now, wall_nanos, lot.from, datagram);
                let routed = match verdict {
                    Verdict::Route { handle, path } => Some((handle, path)),
                    Verdict::Accepted { handle, connection } => {
                        let links = (shared.inbox.clone(), shared.maker.clone());
                        let clock = shared.clock;
                        let connection =
                            ConnectionShared::new(handle, *connection, true, clock, links);
                        routing.connections.insert(handle, connection.clone());
                        if routing.is_stopped {
                            connection.close(0, "");
                        }
                        if connection.enqueue() {
                            queue.push_back(connection);
                        }
                        None
                    }
                    Verdict::Dropped | Verdict::Replied => None,
                };
                // Answers leave before anything the new connection may say. A full
                // send buffer loses them; the client asks again.
                while let Some(transmit) = routing.proto.poll_transmit(out) {
                    socket.send(&Outgoing {
                        remote: transmit.remote,
                        source: to,
                        ecn: transmit.ecn,
                        contents: &out[..transmit.len],
                        segment_len: transmit.segment_len,
                    });
                }
                let known = routed.and_then(|(handle, path)| {
                    let is_last = receivers.last().is_some_and(|last| last.handle == handle);
                    if !is_last {
                        receivers.push(routing.connections.get(&handle)?.clone());
                    }
                    Some((receivers.len() - 1, path))
                });
                if let Some((receiver, path)) = known {
                    arrivals.push(Arrival {
                        receiver,
                        path,
                        from: lot.from,
                        to,
                        ecn: lot.ecn,
                        lot: index,
                        start,
                        len,
                    });
                }
                start += len;
            }
        }
    }

    /// Hands routed datagrams to their connections.
    fn deliver(&mut self, now: Instant) {
        let arrivals = std::mem::take(&mut self.arrivals);
        for run in arrivals.chunk_by(|one, other| one.receiver == other.receiver) {
            let connection = &self.receivers[run[0].receiver];
            {
                let mut state = connection.lock();
                let now = state.advance(now);
                for arrival in run {
                    if connection.is_accepted
                        && let Some(to) = arrival.to
                    {
                        state.on_arrival(arrival.path, to);
                    }
                    let datagram = self.lots.datagram(arrival.lot, arrival.start, arrival.len);
                    state.proto.handle_datagram(
                        now,
                        arrival.path,
                        arrival.from,
                        arrival.ecn,
                        datagram,
                    );
                }
            }
            if connection.enqueue() {
                self.queue.push_back(connection.clone());
            }
        }
        self.arrivals = arrivals;
        self.arrivals.clear();
        self.receivers.clear();
    }

    /// Handles the deadlines that have passed.
    fn expire(&mut self, now: Instant) -> Work {
        let mut work = Work::Done;
        while let Some(entry) = self.deadlines.first_entry()
            && entry.key().0 <= now
        {
            let connection = entry.remove();
            work = Work::More;
            {
                let mut state = connection.lock();
                state.deadline = None;
                let now = state.advance(now);
                if state.proto.poll_timeout().is_some_and(|due| due <= now) {
                    state.proto.handle_timeout(now);
                }
            }
            if connection.enqueue() {
                self.queue.push_back(connection);
            }
        }
        work
    }

    /// Sends what `connection` has to send, wakes who waits for it, and notes its
    /// deadline.
    fn serve(&mut self, now: Instant, connection: &Arc<ConnectionShared>) {
        connection.dequeue();
        let mut is_through = false;
        for _ in 0..BATCHES_PER_TURN {
            if !self.send_batch(now, connection) {
                is_through = true;
                break;
            }
        }
        let (news, is_drained) = {
            let mut state = connection.lock();
            let news = state.take_events(&mut self.wakers);
            for socket in state.orphans.drain(..) {
                self.sockets.remove(socket);
            }
            let is_drained = is_through && state.proto.is_drained();
            let old = state.deadline;
            let due = state.proto.poll_timeout().filter(|_| !is_drained);
            let is_kept = matches!((old, due), (Some(old), Some(due)) if old <= due);
            if !is_kept {
                state.deadline = due;
                drop(state);
                if let Some(old) = old {
                    self.deadlines.remove(&(old, connection.handle));
                }
                if let Some(due) = due {
                    let key = (due, connection.handle);
                    self.deadlines.insert(key, connection.clone());
                }
            }
            (news, is_drained)
        };
        self.wakers.drain(..).for_each(Waker::wake);
        connection.spread(news);
        if news.is_connected && connection.is_accepted {
            lock(&self.shared.arrived).push_back(Connection::new(connection.clone()));
            self.shared.arrival.notify_waiters();
        }
        if is_drained {
            self.forget(connection);
        } else if !is_through && connection.enqueue() {
            self.queue.push_back(connection.clone());
        }
    }

    /// Sends one batch; false if there is none.
    fn send_batch(&mut self, now: Instant, connection: &Arc<ConnectionShared>) -> bool {
        let (transmit, source, route) = {
            let mut state = connection.lock();
            let now = state.advance(now);
            let segments_max = self.sockets.own().segments_max();
            let Some(transmit) = state.proto.poll_transmit(now, &mut self.out, segments_max) else {
                return false;
            };
            let path = transmit.path;
            (transmit, state.source(path), state.route(path))
        };
        let Some(socket) = self.sockets.get(route) else {
            // Its path has been closed.
            return true;
        };
        let mut unsent = Unsent {
            connection: connection.clone(),
            path: transmit.path,
            socket: route,
            remote: transmit.remote,
            source: source.filter(|_| socket.is_wildcard()),
            ecn: transmit.ecn,
            segment_len: transmit.segment_len,
            contents: std::mem::take(&mut self.out),
        };
        let is_first = self.unsent.iter().all(|unsent| unsent.socket != route);
        let sent = match is_first {
            true => socket.send(&unsent.outgoing()),
            false => Sent::NOTHING,
        };
        if sent.is_without_way {
            let mut state = connection.lock();
            let now = state.advance(now);
            state.proto.on_path_error(now, transmit.path);
        }
        if sent.bytes == unsent.contents.len() {
            self.out = unsent.contents;
        } else {
            unsent.contents.drain(..sent.bytes);
            let mut state = connection.lock();
            state.proto.set_path_blocked(transmit.path, true);
            drop(state);
            self.unsent.push_back(unsent);
        }
        true
    }

    /// Sends what had no room before, and else asks to be told of room.
    fn flush(&mut self, cx: &mut Context<'_>) {
        if self.unsent.is_empty() {
            return;
        }
        let mut full: Vec<SocketId> = Vec::new();
        let mut freed = Vec::new();
        for mut unsent in std::mem::take(&mut self.unsent) {
            let is_full = full.contains(&unsent.socket);
            while !is_full && let Some(socket) = self.sockets.get(unsent.socket) {
                if socket.poll_writable(cx).is_pending() {
                    full.push(unsent.socket);
                    break;
                }
                let sent = socket.send(&unsent.outgoing());
                unsent.contents.drain(..sent.bytes);
                if unsent.contents.is_empty() {
                    break;
                }
            }
            let is_open = self.sockets.get(unsent.socket).is_some();
            if is_open && !unsent.contents.is_empty() {
                self.unsent.push_back(unsent);
            } else {
                freed.push((unsent.connection, unsent.path));
            }
        }
        for (connection, path) in freed {
            self.unblock(&connection, path);
        }
    }

    /// There is room for a path again, unless more of it waits.
    fn unblock(&mut self, connection: &Arc<ConnectionShared>, path: PathId) {
        let handle = connection.handle;
        let mut waiting = self.unsent.iter();
        if waiting.any(|unsent| unsent.connection.handle == handle && unsent.path == path) {
            return;
        }
        connection.lock().proto.set_path_blocked(path, false);
        if connection.enqueue() {
            self.queue.push_back(connection.clone());
        }
    }

    /// The connection has nothing more to do.
    fn forget(&mut self, connection: &ConnectionShared) {
        let learnt = {
            let mut held = connection.lock();
            for socket in held.take_sockets() {
                self.sockets.remove(socket);
            }
            held.proto.learnt()
        };
        {
            let mut routing = lock(&self.shared.routing);
            if routing.connections.remove(&connection.handle).is_none() {
                return;
            }
            routing.proto.forget(connection.handle);
            if let Some(learnt) = learnt {
                routing.proto.remember(self.shared.clock.now(), &learnt);
            }
        }
        self.shared.departure.notify_waiters();
    }

    /// Whether a stopping endpoint has nothing left to say.
    fn is_finished(&self) -> bool {
        self.stops_at.is_some_and(|at| {
            (self.queue.is_empty() && self.unsent.is_empty()) || self.shared.clock.now() >= at
        })
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..ROUNDS_MAX {
            if this.round(cx) == Work::More {
                continue;
            }
            if this.is_finished() {
                return Poll::Ready(());
            }
            let first = this.deadlines.first_key_value().map(|((due, _), _)| *due);
            let next = first.into_iter().chain(this.stops_at).min();
            if let Some(next) = next {
                this.timer.arm(this.shared.clock.now(), next);
                if this.timer.poll(cx).is_ready() {
                    continue;
                }
            }
            if this.shared.inbox.wait(cx.waker()) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whatever ended the driver (the last handle, the runtime, a failure inside),
/// nobody waits for it any longer.
impl Drop for Driver {
    fn drop(&mut self) {
        let connections = {
            let mut routing = lock(&self.shared.routing);
            routing.is_stopped = true;
            std::mem::take(&mut routing.connections)
        };
        for connection in connections.values() {
            connection.abandon();
        }
        let arrived = std::mem::take(&mut *lock(&self.shared.arrived));
        drop(arrived);
        self.shared.inbox.close();
        self.shared.arrival.notify_waiters();
        self.shared.departure.notify_waiters();
    }
}

//! What a connection's handles, its streams and the driver share.
//!
//! Each connection has one lock. Whoever changes something inside puts the
//! connection into the driver's [`Inbox`]; the driver then sends what there is
//! to send and wakes who waited. Only the driver sends, so that datagrams leave
//! in the order of their numbers.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use ctcp_proto::stream::StreamEvent;
use ctcp_proto::{ConnectionError, ConnectionHandle, Event, PathEvent, PublicKey};
use ctcp_units::{Instant, PathId, StreamId};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::socket::Socket;
use crate::sockets::{SocketId, SocketMaker};

/// What happened to paths and nobody has asked for yet; older things are
/// forgotten.
const PATH_EVENTS_MAX: usize = 64;

/// Datagrams of one stream that wait to be read; later ones are dropped.
const DATAGRAMS_MAX: usize = 128;

/// Locks, also after another thread died inside: what matters then is that
/// nobody waits for ever.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What others want of the driver.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    wishes: Mutex<Wishes>,
}

#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// Connections in which something changed.
    pub(crate) connections: Vec<Arc<ConnectionShared>>,
    /// A socket to go on with.
    pub(crate) socket: Option<Socket>,
    /// Sockets of further paths.
    pub(crate) new_sockets: Vec<(SocketId, Socket)>,
    /// Close everything and end.
    pub(crate) stop: bool,
    /// There is no driver any more.
    is_closed: bool,
    waker: Option<Waker>,
}

impl Wishes {
    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.socket.is_none() && self.new_sockets.is_empty()
    }
}

/// Wishes beside the connections.
pub(crate) struct Taken {
    pub(crate) socket: Option<Socket>,
    pub(crate) new_sockets: Vec<(SocketId, Socket)>,
    pub(crate) stop: bool,
}

impl Inbox {
    /// Changes the wishes and wakes the driver.
    pub(crate) fn put(&self, change: impl FnOnce(&mut Wishes)) {
        let waker = {
            let mut wishes = lock(&self.wishes);
            if wishes.is_closed {
                return;
            }
            change(&mut wishes);
            wishes.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes everything: the connections into `connections`, which is empty.
    pub(crate) fn take(&self, connections: &mut Vec<Arc<ConnectionShared>>) -> Taken {
        let mut wishes = lock(&self.wishes);
        std::mem::swap(&mut wishes.connections, connections);
        Taken {
            socket: wishes.socket.take(),
            new_sockets: std::mem::take(&mut wishes.new_sockets),
            stop: wishes.stop,
        }
    }

    /// Forgets all wishes, now and later: connections that lie here hold the
    /// inbox, and would never go.
    pub(crate) fn close(&self) {
        let wishes = std::mem::take(&mut *lock(&self.wishes));
        lock(&self.wishes).is_closed = true;
        // Not under the lock: what is dropped here may have wishes.
        drop(wishes);
    }

    /// Has `waker` woken by the next wish, unless there is one already.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut wishes = lock(&self.wishes);
        if !wishes.is_empty() {
            return false;
        }
        wishes.waker = Some(waker.clone());
        true
    }
}

/// One connection as its handles, its streams and the driver see it.
#[derive(Debug)]
pub(crate) struct ConnectionShared {
    pub(crate) handle: ConnectionHandle,
    pub(crate) peer_key: PublicKey,
    /// A server's connection: its datagrams leave from where the client's came.
    pub(crate) is_accepted: bool,
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox>,
    /// Makes sockets for further paths.
    pub(crate) maker: Arc<SocketMaker>,
    /// Already in the inbox or the driver's queue.
    is_queued: AtomicBool,
    state: Mutex<State>,
    /// Connected, or ended.
    pub(crate) settled: Notify,
    /// The peer opened streams, or the connection ended.
    pub(crate) incoming: Notify,
    /// One more stream may be opened, or the connection ended.
    pub(crate) credit: Notify,
    /// Something happened to a path, or the connection ended.
    pub(crate) paths: Notify,
}

impl ConnectionShared {
    pub(crate) fn new(
        handle: ConnectionHandle,
        connection: ctcp_proto::Connection,
        is_accepted: bool,
        clock: Clock,
        links: (Arc<Inbox>, Arc<SocketMaker>),
    ) -> Arc<Self> {
        let (inbox, maker) = links;
        Arc::new(Self {
            handle,
            peer_key: connection.peer_key(),
            is_accepted,
            clock,
            inbox,
            maker,
            is_queued: AtomicBool::new(false),
            state: Mutex::new(State {
                proto: connection,
                now: clock.now(),
                is_connected: false,
                error: None,
                slots: BTreeMap::new(),
                sources: Vec::new(),
                routes: Vec::new(),
                orphans: Vec::new(),
                path_events: VecDeque::new(),
                deadline: None,
            }),
            settled: Notify::new(),
            incoming: Notify::new(),
            credit: Notify::new(),
            paths: Notify::new(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Marks it as queued; false if it was already.
    pub(crate) fn enqueue(&self) -> bool {
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Before it is served: whatever changes from now on queues it again.
    pub(crate) fn dequeue(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// Something changed that the driver should look at. Not under the lock.
    pub(crate) fn wake_driver(self: &Arc<Self>) {
        if self.enqueue() {
            self.inbox
                .put(|wishes| wishes.connections.push(self.clone()));
        }
    }

    /// Wakes those that wait for what `news` tells.
    pub(crate) fn spread(&self, news: News) {
        if news.is_settled {
            self.settled.notify_waiters();
        }
        if news.is_incoming {
            self.incoming.notify_waiters();
        }
        if news.is_credit {
            self.credit.notify_waiters();
        }
        if news.is_of_paths {
            self.paths.notify_waiters();
        }
    }

    /// Closes with `code` and `reason`, once.
    pub(crate) fn close(self: &Arc<Self>, code: u32, reason: &str) {
        let mut wakers = Vec::new();
        let news = {
            let mut state = self.lock();
            if state.error.is_some() {
                return;
            }
            let now = state.advance(self.clock.now());
            state.proto.close(now, code, reason);
            // From now on whoever uses it learns that it is closed.
            state.take_events(&mut wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.spread(news);
        self.wake_driver();
    }

    /// Ends without a word to the peer: the driver is gone.
    pub(crate) fn abandon(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            if state.error.is_none() {
                state.error = Some(ConnectionError::LocallyClosed);
            }
            state.take_all_wakers(&mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
        self.spread(News::ALL);
    }
}

/// What happened to a connection as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct News {
    pub(crate) is_settled: bool,
    pub(crate) is_incoming: bool,
    pub(crate) is_credit: bool,
    pub(crate) is_of_paths: bool,
    /// It is connected since now.
    pub(crate) is_connected: bool,
}

impl News {
    const ALL: Self = Self {
        is_settled: true,
        is_incoming: true,
        is_credit: true,
        is_of_paths: true,
        is_connected: false,
    };
}

/// What the lock of a connection guards.
pub(crate) struct State {
    pub(crate) proto: ctcp_proto::Connection,
    /// The latest moment told to `proto`.
    now: Instant,
    pub(crate) is_connected: bool,
    /// Why it ended.
    pub(crate) error: Option<ConnectionError>,
    /// Streams that somebody holds a handle of.
    pub(crate) slots: BTreeMap<StreamId, Slot>,
    /// The address of ours that each path's datagrams were last sent to.
    sources: Vec<(PathId, IpAddr)>,
    /// The sockets of paths that do not use the endpoint's own.
    routes: Vec<(PathId, SocketId)>,
    /// Sockets whose paths have gone.
    pub(crate) orphans: Vec<SocketId>,
    /// What happened to paths, the newest at most.
    pub(crate) path_events: VecDeque<PathEvent>,
    /// Under which moment the driver has it in its table of deadlines.
    pub(crate) deadline: Option<Instant>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("is_connected", &self.is_connected)
            .field("error", &self.error)
            .field("streams", &self.slots.len())
            .finish_non_exhaustive()
    }
}

/// Who waits for one stream, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Waits for the peer to have everything.
    pub(crate) finisher: Option<Waker>,
    /// Waits for the stream to break.
    pub(crate) watcher: Option<Waker>,
    /// The peer reset its sending half with this code.
    pub(crate) reset: Option<u32>,
    /// The peer stopped our sending half with this code.
    pub(crate) stopped: Option<u32>,
    /// Everything and the end reached the peer.
    pub(crate) is_delivered: bool,
    /// Halves of it that somebody holds.
    pub(crate) halves: u8,
    /// Datagrams that came for it, the oldest first; `None` while nobody asks for them.
    pub(crate) datagrams: Option<VecDeque<Vec<u8>>>,
    /// Waits for the next of them.
    pub(crate) datagram_reader: Option<Waker>,
}

impl Slot {
    fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.reader.take());
        wakers.extend(self.writer.take());
        wakers.extend(self.finisher.take());
        wakers.extend(self.watcher.take());
        wakers.extend(self.datagram_reader.take());
    }
}

impl State {
    /// The moment to tell `proto`, whose time never goes back: `now`, or what it
    /// was told last by another thread whose clock reading was later.
    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Puts down events; who is to be woken for them goes into `wakers`.
    pub(crate) fn take_events(&mut self, wakers: &mut Vec<Waker>) -> News {
        let mut news = News::default();
        self.take_datagrams(wakers);
        while let Some(event) = self.proto.poll_event() {
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    news.is_settled = true;
                    news.is_connected = true;
                }
                Event::Closed(error) => {
                    self.error.get_or_insert(error);
                    self.take_all_wakers(wakers);
                    news = News {
                        is_connected: news.is_connected,
                        ..News::ALL
                    };
                }
                Event::Stream(event) => self.on_stream_event(event, &mut news, wakers),
                Event::Path(event) => {
                    self.on_path_event(event);
                    news.is_of_paths = true;
                }
            }
        }
        news
    }

    /// Hands datagrams to the streams that want them; the newest are dropped where
    /// nobody reads.
    fn take_datagrams(&mut self, wakers: &mut Vec<Waker>) {
        while let Some((id, data)) = self.proto.poll_datagram() {
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            if let Some(waiting) = &mut slot.datagrams
                && waiting.len() < DATAGRAMS_MAX
            {
                waiting.push_back(data);
                wakers.extend(slot.datagram_reader.take());
            }
        }
    }

    fn on_path_event(&mut self, event: PathEvent) {
        if let PathEvent::Closed(path) = event {
            let gone = self.routes.iter().position(|(known, _)| *known == path);
            self.orphans
                .extend(gone.map(|place| self.routes.swap_remove(place).1));
            self.sources.retain(|(known, _)| *known != path);
        }
        if self.path_events.len() >= PATH_EVENTS_MAX {
            self.path_events.pop_front();
        }
        self.path_events.push_back(event);
    }

    /// `path` has a socket of its own.
    pub(crate) fn add_route(&mut self, path: PathId, socket: SocketId) {
        self.routes.push((path, socket));
    }

    /// The socket that datagrams on `path` leave from.
    pub(crate) fn route(&self, path: PathId) -> SocketId {
        let known = self.routes.iter().find(|(known, _)| *known == path);
        known.map_or(SocketId::OWN, |(_, socket)| *socket)
    }

    /// The connection has gone: so have its sockets.
    pub(crate) fn take_sockets(&mut self) -> Vec<SocketId> {
        let mut sockets = std::mem::take(&mut self.orphans);
        sockets.extend(self.routes.drain(..).map(|(_, socket)| socket));
        sockets
    }

    fn on_stream_event(&mut self, event: StreamEvent, news: &mut News, wakers: &mut Vec<Waker>) {
        let slots = &mut self.slots;
        match event {
            StreamEvent::Opened => news.is_incoming = true,
            StreamEvent::CreditOpened => news.is_credit = true,
            StreamEvent::Readable(id) => {
                wakers.extend(slots.get_mut(&id).and_then(|slot| slot.reader.take()));
            }
            StreamEvent::Writable(id) => {
                wakers.extend(slots.get_mut(&id).and_then(|slot| slot.writer.take()));
            }
            StreamEvent::Reset { id, code } => {
                if let Some(slot) = slots.get_mut(&id) {
                    slot.reset = Some(code);
                    slot.take_wakers(wakers);
                }
            }
            StreamEvent::Stopped { id, code } => {
                if let Some(slot) = slots.get_mut(&id) {
                    slot.stopped = Some(code);
                    slot.take_wakers(wakers);
                }
            }
            StreamEvent::Finished(id) => {
                if let Some(slot) = slots.get_mut(&id) {
                    slot.is_delivered = true;
                    wakers.extend(slot.finisher.take());
                }
            }
        }
    }

    fn take_all_wakers(&mut self, wakers: &mut Vec<Waker>) {
        for slot in self.slots.values_mut() {
            slot.take_wakers(wakers);
        }
    }

    /// A datagram came on `path` to our address `ip`.
    pub(crate) fn on_arrival(&mut self, path: PathId, ip: IpAddr) {
        match self.sources.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) => *known = ip,
            None => self.sources.push((path, ip)),
        }
    }

    /// The address of ours to send from on `path`.
    pub(crate) fn source(&self, path: PathId) -> Option<IpAddr> {
        let known = self.sources.iter().find(|(known, _)| *known == path);
        known.map(|(_, ip)| *ip)
    }
}

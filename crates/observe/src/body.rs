//! Answers: whole ones, and the stream of events that goes on until the reader
//! leaves.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::observer::Observer;

/// Time between two events: often enough to look alive.
const EVENT_INTERVAL: Duration = Duration::from_millis(500);

/// What is sent behind the headers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All at once.
    Whole(Option<Bytes>),
    /// A snapshot at every tick.
    Events(Events),
}

/// Server-sent events. A snapshot is taken when the last one has been written,
/// so a slow reader gets fewer, and nothing piles up.
#[derive(Debug)]
pub(crate) struct Events {
    observer: Observer,
    ticks: Interval,
    has_begun: bool,
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(crate) fn events(observer: Observer) -> Self {
        let mut ticks = interval(EVENT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self::Events(Events {
            observer,
            ticks,
            has_begun: false,
        })
    }
}

impl Events {
    fn next(&mut self) -> Bytes {
        let snapshot = serde_json::to_string(&self.observer.snapshot());
        // A value without maps or foreign numbers always has a form in JSON.
        let snapshot = snapshot.unwrap_or_default();
        let retry = if self.has_begun { "" } else { "retry: 1000\n" };
        self.has_begun = true;
        format!("{retry}data: {snapshot}\n\n").into()
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => {
                ready!(events.ticks.poll_tick(cx));
                Poll::Ready(Some(Ok(Frame::data(events.next()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

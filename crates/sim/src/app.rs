//! Applications: what a client asks for and what it does with the bytes.
//!
//! All of them download: the client requests so many bytes, the server sends
//! them. They live at the client and know nothing of the transport.
//!
//! The player follows [CC14] Fig. 6 as `experiments.md` reads it: constant rate,
//! a start-up buffer, a stall when the buffer is empty, and on again when a block
//! is buffered.

use ctcp_units::{Duration, Instant, Random, Rate};

/// Completed requests whose times are kept one by one.
const COMPLETIONS_MAX: usize = 10_000;

/// What a flow is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Application {
    /// As much as goes, without end.
    Bulk,
    /// One file of this many bytes, at least 1.
    File {
        /// Its length.
        bytes: u64,
    },
    /// Objects one after the other.
    Web {
        /// Sizes, taken in turn; at least one, each at least 1.
        sizes: Vec<u64>,
        /// How many objects; `None`: without end.
        count: Option<u64>,
        /// Pause between one object and the next request.
        think: Think,
        /// Each object over a connection of its own (TCP only: the real
        /// transport keeps its connection and opens a stream).
        is_cold: bool,
    },
    /// A film of constant rate.
    Video {
        /// Its rate, not zero.
        rate: Rate,
        /// Its length.
        length: Duration,
        /// Played time buffered before it starts.
        startup: Duration,
        /// Played time buffered before it goes on after a stall.
        block: Duration,
    },
}

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Think {
    /// Always the same.
    Fixed(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

/// One request that was answered in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// When the client set out to ask, connection set-up included if it is cold
    /// or the first.
    pub asked_at: Instant,
    /// When the last byte came.
    pub done_at: Instant,
    /// Length of the object.
    pub bytes: u64,
}

impl Completion {
    /// How long it took.
    pub fn span(&self) -> Duration {
        self.done_at - self.asked_at
    }
}

/// What a film's player saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VideoReport {
    /// From the request to the first picture; `None` if it never came.
    pub startup: Option<Duration>,
    /// Times the buffer ran empty.
    pub stalls: u64,
    /// Time spent stalled.
    pub stalled: Duration,
    /// From the first picture to the last, stalls included; `None` if the film
    /// had not come in full when the run was cut.
    pub playout: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Player {
    /// Standing still at byte `from` since `since`, until this many have come.
    Buffering {
        from: f64,
        until_bytes: f64,
        since: Instant,
    },
    /// Showing byte `from` at `since`.
    Playing { from: f64, since: Instant },
}

/// An application at work.
#[derive(Debug)]
pub(crate) struct AppState {
    what: Application,
    random: Random,
    /// Bytes asked for in all.
    requested: u64,
    received: u64,
    /// When the open request was made, and the bytes at which it is answered.
    open: Option<(Instant, u64)>,
    /// When the next request is due.
    next_at: Option<Instant>,
    requests: u64,
    completions: Vec<Completion>,
    completion_count: u64,
    is_done: bool,
    player: Option<Player>,
    started_at: Instant,
    first_picture: Option<Instant>,
    video: VideoReport,
}

impl AppState {
    /// An application that makes its first request at `start`.
    pub(crate) fn new(what: Application, start: Instant, random: Random) -> Self {
        Self {
            what,
            random,
            requested: 0,
            received: 0,
            open: None,
            next_at: Some(start),
            requests: 0,
            completions: Vec::new(),
            completion_count: 0,
            is_done: false,
            player: None,
            started_at: start,
            first_picture: None,
            video: VideoReport::default(),
        }
    }

    /// Bytes asked for since the start; `u64::MAX`: without end.
    pub(crate) const fn requested(&self) -> u64 {
        self.requested
    }

    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Requests made so far.
    pub(crate) const fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether each request wants a connection of its own.
    pub(crate) const fn is_cold(&self) -> bool {
        matches!(self.what, Application::Web { is_cold: true, .. })
    }

    /// Everything asked for has come, and no more will be asked.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether it ends at all.
    pub(crate) const fn is_finite(&self) -> bool {
        !matches!(
            self.what,
            Application::Bulk | Application::Web { count: None, .. }
        )
    }

    /// Whether bytes are outstanding.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.next_at
    }

    pub(crate) fn completions(&self) -> &[Completion] {
        &self.completions
    }

    pub(crate) const fn completion_count(&self) -> u64 {
        self.completion_count
    }

    pub(crate) fn video(&self) -> Option<VideoReport> {
        matches!(self.what, Application::Video { .. }).then_some(self.video)
    }

    /// Makes the next request if it is due; returns whether one was made.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.next_at.is_none_or(|at| at > now) {
            return false;
        }
        self.next_at = None;
        let bytes = match &self.what {
            Application::Bulk => u64::MAX,
            Application::File { bytes } => *bytes,
            Application::Web { sizes, .. } => sizes[(self.requests % sizes.len() as u64) as usize],
            Application::Video { rate, length, .. } => rate.bytes_in(*length).max(1),
        };
        if let Application::Video { rate, startup, .. } = &self.what {
            self.player = Some(Player::Buffering {
                from: 0.0,
                until_bytes: bytes_of(*rate, *startup).min(bytes as f64),
                since: now,
            });
        }
        self.requests += 1;
        self.requested = self.requested.saturating_add(bytes);
        self.open = Some((now, self.requested));
        true
    }

    /// `bytes` more have come in order.
    pub(crate) fn on_bytes(&mut self, now: Instant, bytes: u64) {
        self.update_player(now, bytes);
        self.received += bytes;
        if let Some((asked_at, until)) = self.open
            && self.received >= until
        {
            self.open = None;
            let object = match &self.what {
                Application::Web { sizes, .. } => {
                    sizes[((self.requests - 1) % sizes.len() as u64) as usize]
                }
                _ => until,
            };
            self.complete(Completion {
                asked_at,
                done_at: now,
                bytes: object,
            });
        }
    }

    fn complete(&mut self, completion: Completion) {
        self.completion_count += 1;
        if self.completions.len() < COMPLETIONS_MAX {
            self.completions.push(completion);
        }
        match &self.what {
            Application::Web { count, think, .. } if count.is_none_or(|n| self.requests < n) => {
                let pause = match think {
                    Think::Fixed(span) => *span,
                    Think::Exponential(mean) => {
                        Duration::from_secs_f64(self.random.exponential(mean.as_secs_f64()))
                    }
                };
                self.next_at = Some(completion.done_at + pause);
            }
            _ => self.is_done = true,
        }
    }

    /// Brings the player up to `now`, when `bytes` more have come.
    fn update_player(&mut self, now: Instant, bytes: u64) {
        let (Some(player), Application::Video { rate, block, .. }) = (self.player, &self.what)
        else {
            return;
        };
        let (rate, block) = (*rate, *block);
        let total = self.requested as f64;
        let per_second = rate.as_bits_per_second() as f64 / 8.0;
        let had = self.received as f64;
        let mut player = player;
        if let Player::Playing { from, since } = player {
            let empty_at = since + Duration::from_secs_f64((had - from) / per_second);
            if empty_at < now && had < total {
                self.video.stalls += 1;
                player = Player::Buffering {
                    from: had,
                    until_bytes: (had + bytes_of(rate, block)).min(total),
                    since: empty_at,
                };
            }
        }
        let have = had + bytes as f64;
        if let Player::Buffering {
            from,
            until_bytes,
            since,
        } = player
            && have >= until_bytes
        {
            if self.first_picture.is_none() {
                self.first_picture = Some(now);
                self.video.startup = Some(now - self.started_at);
            } else {
                self.video.stalled += now - since;
            }
            player = Player::Playing { from, since: now };
        }
        if let (Player::Playing { from, since }, Some(first)) = (player, self.first_picture)
            && have >= total
        {
            let end = since + Duration::from_secs_f64((total - from) / per_second);
            self.video.playout = Some(end - first);
        }
        self.player = Some(player);
    }
}

fn bytes_of(rate: Rate, span: Duration) -> f64 {
    rate.as_bits_per_second() as f64 / 8.0 * span.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{millis, seconds};

    fn at(span: Duration) -> Instant {
        Instant::EPOCH + span
    }

    fn video(startup: Duration) -> AppState {
        let what = Application::Video {
            rate: Rate::kbit(8),
            length: seconds(10),
            startup,
            block: seconds(2),
        };
        let mut app = AppState::new(what, Instant::EPOCH, Random::from_seed(1));
        assert!(app.handle_timeout(Instant::EPOCH));
        app
    }

    #[test]
    fn a_film_that_comes_in_time_plays_for_its_length() {
        let mut app = video(seconds(1));
        for step in 1..=20 {
            app.on_bytes(at(millis(400 * step)), 500);
        }
        let report = app.video().unwrap();
        assert_eq!(report.startup, Some(millis(800)));
        assert_eq!((report.stalls, report.playout), (0, Some(seconds(10))));
        assert!(app.is_done());
    }

    #[test]
    fn a_late_byte_stalls_the_film_until_a_block_is_there() {
        let mut app = video(seconds(1));
        app.on_bytes(at(seconds(1)), 1000);
        // Empty at 2 s; 1 KB at 3 s is half a block, the rest comes at 4 s.
        app.on_bytes(at(seconds(3)), 1000);
        app.on_bytes(at(seconds(4)), 8000);
        let report = app.video().unwrap();
        assert_eq!((report.stalls, report.stalled), (1, seconds(2)));
        assert_eq!(report.playout, Some(seconds(12)));
    }

    #[test]
    fn objects_are_asked_for_one_after_the_other() {
        let what = Application::Web {
            sizes: vec![10, 20],
            count: Some(3),
            think: Think::Fixed(seconds(1)),
            is_cold: false,
        };
        let mut app = AppState::new(what, Instant::EPOCH, Random::from_seed(1));
        assert!(app.handle_timeout(Instant::EPOCH));
        assert_eq!(app.requested(), 10);
        app.on_bytes(at(seconds(2)), 10);
        assert!(!app.handle_timeout(at(millis(2999))));
        assert!(app.handle_timeout(at(seconds(3))));
        assert_eq!(app.requested(), 30);
        app.on_bytes(at(seconds(4)), 20);
        assert!(app.handle_timeout(at(seconds(5))));
        app.on_bytes(at(seconds(6)), 10);
        assert!(app.is_done());
        let spans: Vec<_> = app
            .completions()
            .iter()
            .map(|done| (done.bytes, done.span()))
            .collect();
        assert_eq!(
            spans,
            [(10, seconds(2)), (20, seconds(1)), (10, seconds(1))]
        );
    }
}

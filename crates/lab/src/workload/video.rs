//! A film of constant rate, played as it comes.
//!
//! The player is ours: it fetches by HTTP, starts when so many seconds are
//! buffered, stands still when the buffer is empty, and goes on when as much is
//! buffered again, or all is there. What it plays it hands to ffmpeg, which
//! decodes it at that moment; at the end ffmpeg must have seen every picture.
//!
//! ffmpeg cannot be the player itself: reading at the film's natural rate
//! (`-re`), it makes up for a standstill by reading faster afterwards, which no
//! spectator does, and it has no buffer to fill before it goes on.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ctcp_emu::Process;

use crate::point::Program;
use crate::record::FlowOutcome;
use crate::venue::RunError;
use crate::workload::dial::DialError;
use crate::workload::fetch::{Body, FetchError, Got, get_bytes};
use crate::workload::film::{Film, PICTURES_PER_SECOND};
use crate::workload::meter::Meter;
use crate::workload::{Sample, Stage, find_program};

/// How often the player looks at its buffer: a quarter of a picture.
const TICK: Duration = Duration::from_millis(10);

/// Pictures that may be missing at the end of a film that came whole: those that
/// a decoder holds back for want of the next.
const PICTURES_MISSING_MAX: u64 = 3;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Showing {
    pub(crate) duration_s: f64,
    pub(crate) rate_mbit: f64,
    pub(crate) buffer_s: f64,
    pub(crate) program: Program,
}

/// Plays the film once.
pub(crate) fn run(stage: &Stage<'_>, showing: &Showing) -> Result<FlowOutcome, RunError> {
    let film = stage.film.ok_or_else(|| {
        let Showing {
            duration_s,
            rate_mbit,
            ..
        } = showing;
        RunError::Failed(format!("no film of {duration_s} s at {rate_mbit} Mbit/s"))
    })?;
    let meter = Meter::start();
    let from = Sample::take(stage);
    let (mut player, ended) = thread::scope(|scope| {
        let fetcher = scope.spawn(|| {
            let fetched = fetch(stage, film, &meter);
            (fetched, meter.began().elapsed())
        });
        let played = play(stage, film, showing, &meter, || fetcher.is_finished());
        let (fetched, took) = fetcher.join().expect("the fetcher does not panic");
        fetched.and_then(|got| Ok((played?, (got, took))))
    })?;
    let (got, took) = ended;
    let to = Sample::take(stage);
    let pictures = player.screen.take().map(Screen::close).transpose()?;
    if let Some(pictures) = pictures.filter(|_| player.playout.is_some()) {
        let expected = (film.duration_s * PICTURES_PER_SECOND).round() as u64;
        if pictures + PICTURES_MISSING_MAX < expected {
            return Err(RunError::Failed(format!(
                "flow `{}`: ffmpeg decoded {pictures} of {expected} pictures",
                stage.flow.name
            )));
        }
    }
    Ok(FlowOutcome {
        delivered_bytes: meter.bytes(),
        counted_s: took.as_secs_f64(),
        is_censored: got == Got::Cut || player.playout.is_none(),
        stalls: player.stalls,
        playout_s: player.playout.map(|time| time.as_secs_f64()),
        wire_bytes: Some(to.wire_bytes - from.wire_bytes),
        series_bytes: meter.series(),
        ..FlowOutcome::default()
    })
}

/// Fetches the film and compares it.
fn fetch(stage: &Stage<'_>, film: &Film, meter: &Meter) -> Result<Got, RunError> {
    let mut at = 0;
    let len = film.bytes.len() as u64;
    let got = get_bytes(stage, "film", Body::Other(len), &stage.deadline, |bytes| {
        if film.bytes.get(at..at + bytes.len()) != Some(bytes) {
            let flow = &stage.flow.name;
            return Err(RunError::Failed(format!(
                "flow `{flow}` delivered wrong bytes of the film"
            )));
        }
        at += bytes.len();
        meter.add(bytes.len());
        Ok(())
    });
    match got {
        Ok(got) => Ok(got),
        Err(FetchError::Dial(DialError::Late)) => Ok(Got::Cut),
        Err(error) => Err(error.into_run_error(&stage.flow.name)),
    }
}

/// Plays until the film or the time is over.
fn play(
    stage: &Stage<'_>,
    film: &Film,
    showing: &Showing,
    meter: &Meter,
    is_fetched: impl Fn() -> bool,
) -> Result<Played, RunError> {
    let mut screen = match showing.program {
        Program::Ffmpeg => Some(Screen::open(stage, film)?),
        _ => None,
    };
    let mut player = Player::new(film, showing.buffer_s);
    let mut last = Instant::now();
    loop {
        let in_time = stage.deadline.sleep_until(last + TICK)?;
        let now = Instant::now();
        player.step(now - last, meter.bytes());
        last = now;
        if let Some(screen) = &mut screen {
            screen.show(player.position_bytes());
        }
        let is_lost = is_fetched() && meter.bytes() < film.bytes.len() as u64;
        if player.is_over() || !in_time || is_lost {
            return Ok(Played {
                stalls: player.stalls,
                playout: player.is_over().then(|| meter.began().elapsed()),
                screen,
            });
        }
    }
}

#[derive(Debug)]
struct Played {
    stalls: u32,
    playout: Option<Duration>,
    screen: Option<Screen>,
}

/// The buffer of a player and where it stands in the film.
#[derive(Debug)]
struct Player {
    film_bytes: f64,
    bytes_per_second: f64,
    /// Buffered bytes with which it starts and goes on.
    enough_bytes: f64,
    /// Played so far.
    position_bytes: f64,
    is_playing: bool,
    has_begun: bool,
    stalls: u32,
}

impl Player {
    fn new(film: &Film, buffer_s: f64) -> Self {
        Self {
            film_bytes: film.bytes.len() as f64,
            bytes_per_second: film.bytes_per_second(),
            enough_bytes: buffer_s * film.bytes_per_second(),
            position_bytes: 0.0,
            is_playing: false,
            has_begun: false,
            stalls: 0,
        }
    }

    /// Time goes on, and so many bytes of the film have come by now.
    fn step(&mut self, elapsed: Duration, received: u64) {
        let received = received as f64;
        if self.is_playing {
            let wanted = self.position_bytes + elapsed.as_secs_f64() * self.bytes_per_second;
            self.position_bytes = wanted.min(received);
            if wanted > received && received < self.film_bytes {
                self.is_playing = false;
                self.stalls += 1;
            }
        }
        let is_enough =
            received - self.position_bytes >= self.enough_bytes || received >= self.film_bytes;
        if !self.is_playing && received > 0.0 && is_enough {
            self.is_playing = true;
            self.has_begun = true;
        }
    }

    fn is_over(&self) -> bool {
        self.has_begun && self.position_bytes >= self.film_bytes
    }

    fn position_bytes(&self) -> usize {
        self.position_bytes as usize
    }
}

/// ffmpeg, decoding what is played.
#[derive(Debug)]
struct Screen {
    process: Process,
    /// Ends of the parts to show.
    parts: mpsc::Sender<usize>,
    feeder: thread::JoinHandle<()>,
    reporter: thread::JoinHandle<u64>,
    shown: usize,
}

impl Screen {
    fn open(stage: &Stage<'_>, film: &Film) -> Result<Self, RunError> {
        let mut command = Command::new(find_program("ffmpeg").unwrap_or_else(|| "ffmpeg".into()));
        command
            .args(["-hide_banner", "-loglevel", "error", "-threads", "1"])
            .args(["-f", "mpegts", "-i", "pipe:0", "-f", "null", "-nostats"])
            .args(["-progress", "pipe:1", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = stage
            .bed
            .client()
            .spawn(command)
            .map_err(|error| RunError::Failed(error.to_string()))?;
        let mut input = process.stdin.take().expect("it is piped");
        let mut output = process.stdout.take().expect("it is piped");
        let (parts, inbox) = mpsc::channel();
        let bytes = film.bytes.clone();
        let feeder = thread::spawn(move || {
            let mut from = 0;
            for to in inbox {
                // If ffmpeg has died, its count of pictures tells.
                if input.write_all(&bytes[from..to]).is_err() {
                    return;
                }
                from = to;
            }
        });
        let reporter = thread::spawn(move || {
            let mut said = String::new();
            let _ = output.read_to_string(&mut said);
            let counts = said.lines().filter_map(|line| line.strip_prefix("frame="));
            counts
                .filter_map(|count| count.trim().parse().ok())
                .max()
                .unwrap_or(0)
        });
        Ok(Self {
            process,
            parts,
            feeder,
            reporter,
            shown: 0,
        })
    }

    fn show(&mut self, to: usize) {
        if to > self.shown {
            self.shown = to;
            let _ = self.parts.send(to);
        }
    }

    /// The pictures that ffmpeg has decoded.
    fn close(mut self) -> Result<u64, RunError> {
        drop(self.parts);
        self.feeder.join().expect("the feeder does not panic");
        self.process
            .wait()
            .map_err(|error| RunError::failed("cannot wait for ffmpeg", error))?;
        Ok(self.reporter.join().expect("the reporter does not panic"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Ten seconds of 1000 bytes each.
    fn player(buffer_s: f64) -> Player {
        let film = Film {
            path: "none".into(),
            bytes: Arc::new(vec![0; 10_000]),
            duration_s: 10.0,
        };
        Player::new(&film, buffer_s)
    }

    /// Plays with `received` bytes at each second; how many seconds it takes.
    fn play(player: &mut Player, received: impl Fn(u64) -> u64) -> u64 {
        (0..10_000)
            .find(|&tick| {
                player.step(TICK, received(tick));
                player.is_over()
            })
            .map_or(u64::MAX, |tick| tick / 100)
    }

    #[test]
    fn a_film_that_comes_fast_enough_plays_without_a_stall() {
        let mut player = player(1.0);
        let took = play(&mut player, |tick| (tick * 20).min(10_000));
        assert_eq!((player.stalls, took), (0, 10));
    }

    #[test]
    fn a_film_that_comes_at_half_its_rate_takes_twice_as_long() {
        let mut player = player(1.0);
        let took = play(&mut player, |tick| (tick * 5).min(10_000));
        assert!((20..=21).contains(&took), "{took} s");
        // One second buffered plays for two while another one comes; each
        // round takes four seconds of film time.
        assert!(
            (4..=10).contains(&player.stalls),
            "{} stalls",
            player.stalls
        );
    }

    #[test]
    fn a_player_waits_for_its_buffer_before_it_begins() {
        let mut player = player(2.0);
        player.step(TICK, 1999);
        assert!(!player.is_playing);
        player.step(TICK, 2000);
        assert!(player.is_playing);
        assert_eq!(player.stalls, 0);
    }

    #[test]
    fn the_rest_of_a_film_plays_with_less_than_the_buffer() {
        let mut player = player(20.0);
        player.step(TICK, 9_999);
        assert!(!player.is_playing);
        player.step(TICK, 10_000);
        assert!(player.is_playing);
    }
}

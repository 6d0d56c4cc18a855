//! What a person sees while experiments run: a bar with the time left, and a line
//! for each outcome.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ctcp_lab::run::Observer;
use ctcp_lab::{Point, Recipe, Record};
use indicatif::{ProgressBar, ProgressStyle};

use super::list::rough;
use crate::output::print_line;

/// How often the time left is worked out.
const TICK: Duration = Duration::from_millis(500);

/// Steps of the bar.
const STEPS: u64 = 10_000;

/// Draws and prints.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    is_json: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    /// Expected for all, at the schedule's pace.
    expected: Duration,
    /// The same for one after the other.
    work_s: f64,
    done_s: f64,
    /// By series, place and repetition: since when, and for how long.
    running: BTreeMap<String, (Instant, f64)>,
    count: usize,
    done: usize,
}

impl Progress {
    /// Begins. `expected` is how long all of them will take.
    pub(crate) fn new(points: &[Point], expected: Duration, is_json: bool) -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{bar:30} {msg}").expect("a right template");
        bar.set_style(style);
        let durations = points
            .iter()
            .map(|p| ctcp_lab::run::duration(p).as_secs_f64());
        Self {
            bar,
            is_json,
            state: Mutex::new(State {
                began: Instant::now(),
                expected,
                work_s: durations.sum::<f64>().max(1e-3),
                done_s: 0.0,
                running: BTreeMap::new(),
                count: points.len(),
                done: 0,
            }),
        }
    }

    /// Draws until `is_over`.
    pub(crate) fn draw(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            let state = self.state.lock().expect("no holder panics");
            self.bar.set_position((state.share() * STEPS as f64) as u64);
            self.bar.set_message(state.line());
            drop(state);
            std::thread::sleep(TICK);
        }
        self.bar.finish_and_clear();
    }

    fn show(&self, record: &Record) {
        let line = match self.is_json {
            true => serde_json::to_string(record).expect("records are plain data"),
            false => describe(record),
        };
        self.bar.suspend(|| print_line(&line));
    }
}

impl State {
    fn share(&self) -> f64 {
        let running: f64 = self
            .running
            .values()
            .map(|(since, takes)| since.elapsed().as_secs_f64().min(*takes))
            .sum();
        ((self.done_s + running) / self.work_s).min(1.0)
    }

    fn line(&self) -> String {
        let share = self.share();
        let elapsed = self.began.elapsed();
        // At the beginning the plan knows better than the pace so far.
        let left = match share {
            s if s < 0.05 => self.expected.mul_f64(1.0 - s),
            s => elapsed.mul_f64((1.0 - s) / s),
        };
        let names: Vec<&str> = self.running.keys().map(String::as_str).take(2).collect();
        let more = match self.running.len() {
            count @ 3.. => format!(" and {} more", count - 2),
            _ => String::new(),
        };
        let (done, count, left) = (self.done, self.count, rough(left));
        format!("{done}/{count}  {left} left  {}{more}", names.join(", "))
    }
}

impl Observer for Progress {
    fn on_begin(&self, point: &Point) {
        let takes = ctcp_lab::run::duration(point).as_secs_f64();
        let mut state = self.state.lock().expect("no holder panics");
        state.running.insert(name(point), (Instant::now(), takes));
    }

    fn on_end(&self, record: &Record) {
        let mut state = self.state.lock().expect("no holder panics");
        if let Some((_, takes)) = state.running.remove(&name(&record.point)) {
            state.done_s += takes;
        }
        state.done += 1;
        drop(state);
        self.show(record);
    }
}

/// A point as people read it.
fn name(point: &Point) -> String {
    let place = match Recipe::by_id(&point.experiment) {
        Ok(recipe) => recipe.place(&point.at),
        Err(_) => format!("{:?}", point.at),
    };
    let repetition = match point.repetition {
        0 => String::new(),
        again => format!(" #{}", again + 1),
    };
    format!("{} {} {place}{repetition}", point.experiment, point.series)
}

/// An outcome on a line.
pub(super) fn describe(record: &Record) -> String {
    let mut line = format!("{:<60}", name(&record.point));
    if let Some(error) = &record.error {
        return line + "  failed: " + error;
    }
    let many = record.flows.len() > 1;
    for flow in &record.flows {
        if many {
            line += &format!("  {}", flow.name);
        }
        if !flow.scores.is_empty() {
            for score in &flow.scores {
                line += &format!("  {} {:.3}", score.figure, score.value);
            }
        } else if let Some(playout) = flow.playout_s {
            line += &format!("  played in {playout:.1} s, {} stalls", flow.stalls);
        } else if let Some(mean) = mean(&flow.completion_s) {
            line += &format!("  {mean:.3} s");
        } else {
            line += &format!("  {:.3} Mbit/s", flow.goodput_mbit);
        }
        if let (Some(wire), 1..) = (flow.wire_bytes, flow.delivered_bytes) {
            line += &format!(
                ", {:.3} sent per byte",
                wire as f64 / flow.delivered_bytes as f64
            );
        }
        if flow.is_censored {
            line += ", cut";
        }
    }
    if record.fidelity.is_some_and(|fidelity| fidelity.is_busy) {
        line += "  (machine busy)";
    }
    line
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

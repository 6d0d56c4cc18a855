//! What a person sees while files move: a bar on the terminal, and a line for
//! each thing that is left out.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ctcp_files::{LeftOut, Shown, Summary, Watch};
use indicatif::{DecimalBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;

use crate::output::{is_quiet, notice, print_line, result};

/// Lines about things left out; the rest is counted.
const LINES_MAX: u64 = 20;

const BAR: &str = "{bar:24} {percent:>3} %  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {left}  {wide_msg}";

/// When nothing has moved for so long, the bar says so instead of guessing the end.
const STALL: Duration = Duration::from_secs(3);
const SPINNER: &str = "{spinner} {decimal_bytes}  {decimal_bytes_per_sec}  {wide_msg}";

/// Draws and counts.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Mutex<ProgressBar>,
    began: Mutex<Option<Instant>>,
    left_out: AtomicU64,
    /// Of all attempts together.
    bytes_moved: AtomicU64,
    /// When bytes moved last.
    moved_at: Arc<Mutex<Instant>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            bar: Mutex::new(ProgressBar::hidden()),
            began: Mutex::new(None),
            left_out: AtomicU64::new(0),
            bytes_moved: AtomicU64::new(0),
            moved_at: Arc::new(Mutex::new(Instant::now())),
        }
    }
}

impl Progress {
    fn bar(&self) -> ProgressBar {
        self.bar.lock().expect("never held in a panic").clone()
    }

    /// Says something without disturbing the bar.
    pub(super) fn say(&self, message: impl std::fmt::Display) {
        self.bar().suspend(|| notice(message));
    }

    /// Bytes moved so far, in all attempts.
    pub(super) fn bytes_moved(&self) -> u64 {
        self.bytes_moved.load(Ordering::Relaxed)
    }

    /// Takes the bar away and says what was done.
    pub(super) fn report(&self, verb: &str, summary: &Summary, is_json: bool, is_on_stderr: bool) {
        self.bar().finish_and_clear();
        let began = self.began.lock().expect("never held in a panic").take();
        let took = began.map_or(Duration::ZERO, |began| began.elapsed());
        let moved = self.bytes_moved.swap(0, Ordering::Relaxed);
        let rate = 8.0 * moved as f64 / took.as_secs_f64().max(1e-3);
        let skipped = self
            .left_out
            .swap(0, Ordering::Relaxed)
            .saturating_sub(LINES_MAX);
        if skipped > 0 {
            notice(format_args!("and {skipped} more"));
        }
        if is_json {
            let line = json!({
                "files": summary.files,
                "bytes": moved,
                "present_files": summary.present_files,
                "present_bytes": summary.present_bytes,
                "failed": summary.failed,
                "seconds": took.as_secs_f64(),
                "bits_per_second": rate,
            });
            match is_on_stderr {
                true => eprintln!("{line}"),
                false => print_line(&line.to_string()),
            }
            return;
        }
        let value = format!("{}, {}", count(summary.files, "file"), decimal(moved));
        let mut note = format!("{:.1} s, {:.1} Mbit/s", took.as_secs_f64(), rate / 1e6);
        if summary.present_bytes > 0 || summary.present_files > 0 {
            let files = count(summary.present_files, "file");
            let bytes = decimal(summary.present_bytes);
            note.push_str(&format!("; there already: {files}, {bytes}"));
        }
        match is_on_stderr {
            true => notice(format_args!("{verb} {value} ({note})")),
            false => result(false, verb, value, &note),
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar().finish_and_clear();
    }
}

impl Watch for Progress {
    fn totals(&self, files: u64, bytes: u64) {
        self.began
            .lock()
            .expect("never held in a panic")
            .get_or_insert_with(Instant::now);
        if is_quiet() {
            return;
        }
        let is_known = files != 1 || bytes > 0;
        // Draws nothing unless stderr is a terminal.
        let bar = match is_known {
            true => ProgressBar::new(bytes),
            false => ProgressBar::new_spinner(),
        };
        let template = if is_known { BAR } else { SPINNER };
        let moved_at = self.moved_at.clone();
        *moved_at.lock().expect("never held in a panic") = Instant::now();
        let left = move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let idle = moved_at.lock().expect("never held in a panic").elapsed();
            // Writing into memory cannot fail.
            let _ = text.write_str(&left(state.eta(), idle));
        };
        let style = ProgressStyle::with_template(template).expect("a right template");
        bar.set_style(style.with_key("left", left));
        bar.enable_steady_tick(Duration::from_millis(250));
        let old = std::mem::replace(&mut *self.bar.lock().expect("never held in a panic"), bar);
        old.finish_and_clear();
    }

    fn file(&self, path: Shown<'_>) {
        let bar = self.bar();
        // The text costs more than a small file.
        if !bar.is_hidden() {
            bar.set_message(short(&path.to_string()).to_owned());
        }
    }

    fn moved(&self, bytes: u64) {
        self.bytes_moved.fetch_add(bytes, Ordering::Relaxed);
        *self.moved_at.lock().expect("never held in a panic") = Instant::now();
        self.bar().inc(bytes);
    }

    /// What is there takes no time: the bar is about the rest.
    fn present(&self, bytes: u64) {
        let bar = self.bar();
        if let Some(len) = bar.length() {
            bar.set_length(len.saturating_sub(bytes));
        }
    }

    fn left_out(&self, path: Shown<'_>, why: LeftOut) {
        if self.left_out.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
            self.say(format_args!("{path}: {}", why.reason()));
        }
    }
}

/// What the bar says of time, when the end is expected in `eta` and nothing has
/// moved for `idle`.
fn left(eta: Duration, idle: Duration) -> String {
    let mut text = String::new();
    let seconds = idle.as_secs();
    // Writing into memory cannot fail.
    let _ = match idle >= STALL {
        true => write!(text, "nothing has moved for {seconds} s"),
        false => write!(text, "{:#} left", HumanDuration(eta)),
    };
    text
}

/// A path as the bar shows it: the sender's begin far away, at the root.
fn short(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    match path.starts_with('/') {
        true => name.unwrap_or(path),
        false => path,
    }
}

fn count(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn decimal(bytes: u64) -> String {
    DecimalBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_says_when_nothing_moves_instead_of_guessing() {
        let eta = Duration::from_secs(90);
        assert!(left(eta, STALL - Duration::from_millis(1)).ends_with(" left"));
        assert_eq!(
            left(eta, Duration::from_secs(14)),
            "nothing has moved for 14 s"
        );
    }

    #[test]
    fn the_bar_shows_names_and_no_way_from_the_root() {
        assert_eq!(short("/home/anna/photos/one.jpg"), "one.jpg");
        assert_eq!(short("photos/one.jpg"), "photos/one.jpg");
    }
}

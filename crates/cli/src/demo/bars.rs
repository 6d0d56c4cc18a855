//! The race as it goes: a live bar per runner, or lines where there is no
//! terminal.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ctcp_units::Rate;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often the bars move.
const FRAME: Duration = Duration::from_millis(100);

/// How often lines are printed where there is no terminal.
const LINE: Duration = Duration::from_secs(2);

/// How far a runner is; its download writes, the bars read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// So many bytes are there.
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Who runs, by name.
pub(crate) type Runners = Vec<(String, Progress)>;

/// Shows all runners on stderr until it is dropped by whoever awaits it.
pub(crate) async fn show(runners: &Runners, size: u64) -> std::convert::Infallible {
    if std::io::stderr().is_terminal() {
        show_bars(runners, size).await
    } else {
        print_lines(runners, size).await
    }
}

/// Removes the bars when they are no longer shown.
struct Bars(Vec<ProgressBar>);

impl Drop for Bars {
    fn drop(&mut self) {
        for bar in &self.0 {
            bar.finish_and_clear();
        }
    }
}

async fn show_bars(runners: &Runners, size: u64) -> std::convert::Infallible {
    let board = MultiProgress::new();
    let bars = runners.iter().map(|(name, _)| {
        board.add(
            ProgressBar::new(size)
                .with_style(style())
                .with_prefix(name.clone()),
        )
    });
    let bars = Bars(bars.collect());
    let started = Instant::now();
    loop {
        for (bar, (_, progress)) in bars.0.iter().zip(runners) {
            if bar.is_finished() {
                continue;
            }
            let bytes = progress.bytes();
            let rate = Rate::from_bytes_in(bytes, started.elapsed());
            bar.set_message(format!("{:.1}", rate.as_mbit()));
            bar.set_position(bytes);
            if bytes >= size {
                bar.abandon();
            }
        }
        tokio::time::sleep(FRAME).await;
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("  {prefix:<6} {bar:44.green/dim} {percent:>3} %  {msg:>5} Mbit/s")
        .expect("the template is well formed")
        .progress_chars("━━─")
}

async fn print_lines(runners: &Runners, size: u64) -> std::convert::Infallible {
    let started = Instant::now();
    loop {
        tokio::time::sleep(LINE).await;
        eprintln!("{}", line(runners, size, started.elapsed()));
    }
}

fn line(runners: &Runners, size: u64, elapsed: Duration) -> String {
    let mut line = format!("{:>4.0} s", elapsed.as_secs_f64());
    for (name, progress) in runners {
        let percent = progress.bytes().saturating_mul(100) / size.max(1);
        let _ = write!(line, "   {name} {percent:>3} %");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_everybody_is() {
        let (fast, slow) = (Progress::default(), Progress::default());
        fast.set(150);
        slow.set(9);
        let runners = vec![("CTCP".to_owned(), fast), ("CUBIC".to_owned(), slow)];
        assert_eq!(
            line(&runners, 200, Duration::from_secs(4)),
            "   4 s   CTCP  75 %   CUBIC   4 %"
        );
    }
}

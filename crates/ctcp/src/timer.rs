//! One deadline, kept to the microsecond.
//!
//! tokio's own timers count milliseconds. At 25 Mbit/s a packet takes 0.48 ms,
//! so pacing by them would send in bursts of two or three; on Linux a timer of
//! the kernel (`timerfd`) is used instead. Elsewhere it is tokio's.

use std::io;
use std::task::{Context, Poll};

use ctcp_units::Instant;

/// Goes off at the deadline it was armed with, or earlier.
#[derive(Debug)]
pub(crate) struct Timer {
    alarm: imp::Alarm,
    armed: Option<Instant>,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            alarm: imp::Alarm::new()?,
            armed: None,
        })
    }

    /// Makes it go off at `deadline`.
    ///
    /// A timer armed with an earlier moment stays as it is: deadlines mostly
    /// move on with every packet, and going off once too early costs less than
    /// a system call each time.
    pub(crate) fn arm(&mut self, now: Instant, deadline: Instant) {
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.alarm.set(deadline - now);
        self.armed = Some(deadline);
    }

    /// Ready once after it went off; whoever asks is woken when it does.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_off = self.alarm.poll(cx).is_ready();
        if is_off {
            self.armed = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll};

    use ctcp_units::Duration;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    #[derive(Debug)]
    pub(super) struct Alarm(AsyncFd<OwnedFd>);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe, because a type may lend a descriptor \
                          that it does not own; an OwnedFd owns its"
            )]
            AsyncFd::with_interest(fd, Interest::READABLE).map(Self)
        }

        pub(super) fn set(&mut self, span: Duration) {
            // Zero would disarm it.
            let span = span.max(Duration::from_nanos(1));
            let setting = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: span.subsec_nanos().into(),
                },
            };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting)
                .expect("a timer of ours takes any positive span");
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            // The count is never read: setting the timer again clears it, and the
            // reactor reports edges.
            match self.0.poll_read_ready(cx) {
                Poll::Ready(Ok(mut guard)) => {
                    guard.clear_ready();
                    Poll::Ready(())
                }
                // The runtime is shutting down; the driver goes with it.
                Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use ctcp_units::Duration;
    use tokio::time::{Instant, Sleep, sleep};

    #[derive(Debug)]
    pub(super) struct Alarm {
        sleep: Pin<Box<Sleep>>,
        is_set: bool,
    }

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self {
                sleep: Box::pin(sleep(Duration::ZERO)),
                is_set: false,
            })
        }

        pub(super) fn set(&mut self, span: Duration) {
            self.sleep.as_mut().reset(Instant::now() + span);
            self.is_set = true;
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            if !self.is_set || self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.is_set = false;
            Poll::Ready(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use ctcp_units::{micros, seconds};

    use super::*;
    use crate::clock::Clock;

    #[tokio::test]
    async fn it_goes_off_within_a_fraction_of_a_millisecond() {
        let clock = Clock::start();
        let mut timer = Timer::new().unwrap();
        let mut errors = Vec::new();
        for _ in 0..20 {
            let deadline = clock.now() + micros(300);
            timer.arm(clock.now(), deadline);
            poll_fn(|cx| timer.poll(cx)).await;
            assert!(clock.now() >= deadline);
            errors.push(clock.now() - deadline);
        }
        errors.sort();
        // The median: a busy machine may be late with any single one.
        if cfg!(target_os = "linux") {
            assert!(errors[10] < micros(600), "{errors:?}");
        }
    }

    #[tokio::test]
    async fn an_earlier_deadline_replaces_a_later_one() {
        let clock = Clock::start();
        let mut timer = Timer::new().unwrap();
        let now = clock.now();
        timer.arm(now, now + seconds(3600));
        timer.arm(now, now + micros(100));
        poll_fn(|cx| timer.poll(cx)).await;
    }

    #[tokio::test]
    async fn a_deadline_in_the_past_goes_off_at_once() {
        let clock = Clock::start();
        let mut timer = Timer::new().unwrap();
        timer.arm(clock.now(), Instant::EPOCH);
        poll_fn(|cx| timer.poll(cx)).await;
    }
}

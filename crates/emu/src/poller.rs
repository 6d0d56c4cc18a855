//! Sleeping until a socket can be read, a moment has come, or someone calls.
//!
//! The moment is kept by a timer file rather than by the timeout of the wait:
//! the kernel rounds timeouts up by its timer slack of 50 µs, timers not at all.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ctcp_units::{Duration, Instant};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock;

/// A moment closer than this is waited for awake: falling asleep and being woken
/// takes about as long.
const AWAKE: Duration = Duration::from_micros(20);

/// Ready sockets reported by one wait; the others come with the next.
const EVENTS_MAX: usize = 64;

const TIMER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

const NEVER: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Wakes the poller it belongs to, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // It fails only when 2^64 calls are pending, and then a wake is pending.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// A set of sockets, a timer and a waker.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    waker: Waker,
    /// What the timer is set to; it need not be set again to the same.
    armed: Option<Instant>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let waker = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Self {
            epoll,
            timer,
            waker: Waker(Arc::new(waker)),
            armed: None,
        })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Reports `socket` as `token` while it can be read. Closing it ends that.
    pub(crate) fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            EventFlags::IN,
        )?;
        Ok(())
    }

    /// Waits until `until` at the latest, or for ever; puts the tokens of the
    /// sockets that can be read into `ready`. Says whether the waker called.
    pub(crate) fn wait(
        &mut self,
        until: Option<Instant>,
        ready: &mut Vec<u64>,
    ) -> io::Result<bool> {
        let is_near = until.is_some_and(|until| until <= clock::now() + AWAKE);
        if !is_near {
            self.arm(until)?;
        }
        let timeout = is_near.then_some(&NEVER);
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_MAX];
        ready.clear();
        let events = match epoll::wait(&self.epoll, &mut space, timeout) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut is_called = false;
        for event in events {
            match event.data.u64() {
                // Setting it for the next moment silences it; reading it is not
                // needed.
                TIMER => self.armed = None,
                WAKER => is_called = true,
                token => ready.push(token),
            }
        }
        if is_called {
            let _ = rustix::io::read(&self.waker.0, &mut [0u8; 8]);
        }
        Ok(is_called)
    }

    fn arm(&mut self, until: Option<Instant>) -> io::Result<()> {
        let Some(at) = until else {
            if self.armed.is_none() {
                // Maybe expired and not silenced: an unset timer is silent.
                self.set(NEVER)?;
            }
            // A timer still set wakes once for nothing, which is harmless.
            return Ok(());
        };
        if self.armed != until {
            self.set(clock::to_timespec(at))?;
            self.armed = until;
        }
        Ok(())
    }

    fn set(&self, value: Timespec) -> io::Result<()> {
        let setting = Itimerspec {
            it_interval: NEVER,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{millis, seconds};
    use std::net::UdpSocket;

    #[test]
    fn it_wakes_at_its_moment_and_not_before() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            let until = clock::now() + millis(3);
            while clock::now() < until {
                assert!(!poller.wait(Some(until), &mut ready).unwrap());
                assert!(ready.is_empty());
            }
        }
    }

    #[test]
    fn it_names_the_socket_that_can_be_read_until_it_has_been() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&socket, 7).unwrap();
        let mut ready = Vec::new();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready, [7]);
        }
        socket.recv(&mut [0; 9]).unwrap();
        poller
            .wait(Some(clock::now() + millis(1)), &mut ready)
            .unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_call_from_another_thread_wakes_it_once() {
        let mut poller = Poller::new().unwrap();
        let waker = poller.waker();
        let caller = std::thread::spawn(move || waker.wake());
        let mut ready = Vec::new();
        let far = clock::now() + seconds(60);
        assert!(poller.wait(Some(far), &mut ready).unwrap());
        caller.join().unwrap();
        assert!(!poller.wait(Some(clock::now()), &mut ready).unwrap());
    }

    #[test]
    fn an_expired_timer_is_silent_when_there_is_nothing_to_wait_for() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let until = clock::now() + millis(1);
        while clock::now() < until {
            poller.wait(Some(until), &mut ready).unwrap();
        }
        let waker = poller.waker();
        let caller = std::thread::spawn(move || {
            std::thread::sleep(millis(20));
            waker.wake();
        });
        let mut wakes = 1;
        while !poller.wait(None, &mut ready).unwrap() {
            wakes += 1;
        }
        assert!(wakes <= 3, "{wakes} wakes");
        caller.join().unwrap();
    }
}

//! Probes over a path: packets with a number and the moment they were sent.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::thread;
use std::time::Instant as Clock;

use ctcp_units::{Duration, Instant, Rate};

use super::CheckError;
use super::expect::{Expectation, PROBE_BYTES};
use crate::clock;
use crate::network::Network;

/// IP and UDP headers.
const HEADER_BYTES: usize = 28;
const FULL_BYTES: usize = 1500;

/// Small probes sent at most, and the longest that sending may take.
const PROBES_MAX: f64 = 4000.0;
const SPAN_MAX: f64 = 4.0;

/// Longer than a packet waits anywhere but in the emulator.
const STRAGGLERS: Duration = Duration::from_millis(200);

const RECEIVE_BYTES: usize = 4 << 20;

/// Sockets at both ends of a path, connected to one another.
pub(super) struct Probes {
    left: UdpSocket,
    right: UdpSocket,
}

/// One direction of [`Probes`].
pub(super) struct Route<'a> {
    from: &'a UdpSocket,
    to: &'a UdpSocket,
}

/// What became of a series of probes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrivals {
    pub(super) sent: u64,
    /// Different ones that arrived.
    pub(super) unique: u64,
    /// Those that arrived again.
    pub(super) duplicates: u64,
}

impl Probes {
    pub(super) fn open(network: &Network, index: usize) -> Result<Self, CheckError> {
        let path = &network.paths()[index];
        let failed = |source| CheckError::Probe {
            path: index,
            source,
        };
        let open = |end: &crate::network::PathEnd| -> Result<UdpSocket, CheckError> {
            let namespace = network
                .namespace(&end.namespace)
                .expect("a path's ends have namespaces");
            let bind = || UdpSocket::bind((end.address, 0));
            let socket = namespace.run(bind)?.map_err(failed)?;
            enlarge(&socket);
            Ok(socket)
        };
        let (left, right) = (open(&path.left)?, open(&path.right)?);
        let join = |one: &UdpSocket, other: &UdpSocket| one.connect(other.local_addr()?);
        join(&left, &right).map_err(failed)?;
        join(&right, &left).map_err(failed)?;
        Ok(Self { left, right })
    }

    pub(super) fn route(&self, is_up: bool) -> Route<'_> {
        let (from, to) = match is_up {
            true => (&self.left, &self.right),
            false => (&self.right, &self.left),
        };
        Route { from, to }
    }

    /// The delays of one probe there and one back; none if one was lost.
    pub(super) fn ping(&self, patience: Duration) -> io::Result<Option<(Duration, Duration)>> {
        let mut delays = [Duration::ZERO; 2];
        for (delay, is_up) in delays.iter_mut().zip([true, false]) {
            match self.route(is_up).one(patience)? {
                Some(found) => *delay = found,
                None => return Ok(None),
            }
        }
        Ok(Some((delays[0], delays[1])))
    }
}

/// As large as the system allows.
fn enlarge(socket: &UdpSocket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BYTES);
    }
}

fn probe(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len - HEADER_BYTES];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..16].copy_from_slice(&clock::now().as_nanos().to_be_bytes());
    bytes
}

/// Number and moment of sending.
fn read(bytes: &[u8]) -> Option<(u64, Instant)> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    Some((word(0)?, Instant::from_nanos(word(8)?)))
}

impl Route<'_> {
    /// Receives one packet; none if none comes in time.
    fn receive<'a>(&self, space: &'a mut [u8], wait: Duration) -> io::Result<Option<&'a [u8]>> {
        self.to
            .set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
        match self.to.recv(space) {
            Ok(len) => Ok(Some(&space[..len])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The delay of one probe.
    fn one(&self, patience: Duration) -> io::Result<Option<Duration>> {
        // Whatever is left of earlier ones would be taken for it.
        let number = clock::now().as_nanos();
        self.from.send(&probe(number, PROBE_BYTES as usize))?;
        let give_up = Clock::now() + patience;
        let mut space = [0; 2048];
        loop {
            let left = give_up.saturating_duration_since(Clock::now());
            if left.is_zero() {
                return Ok(None);
            }
            let Some(bytes) = self.receive(&mut space, left)? else {
                return Ok(None);
            };
            let now = clock::now();
            if let Some((found, sent_at)) = read(bytes)
                && found == number
            {
                return Ok(Some(now - sent_at));
            }
        }
    }

    /// Small probes, `per_second` of them, and what of them arrives.
    pub(super) fn send_slowly(&self, per_second: f64, delay_max: Duration) -> io::Result<Arrivals> {
        let count = PROBES_MAX.min(per_second * SPAN_MAX).max(20.0) as u64;
        let pause = Duration::from_secs_f64(1.0 / per_second);
        let mut seen = vec![false; count as usize];
        let mut arrivals = Arrivals {
            sent: count,
            ..Arrivals::default()
        };
        thread::scope(|scope| -> io::Result<()> {
            let sender = scope.spawn(|| -> io::Result<()> {
                let start = Clock::now();
                for number in 0..count {
                    let at = start + pause.mul_f64(number as f64);
                    thread::sleep(at.saturating_duration_since(Clock::now()));
                    self.from.send(&probe(number, PROBE_BYTES as usize))?;
                }
                Ok(())
            });
            let mut space = [0; 2048];
            loop {
                let is_over = sender.is_finished();
                match self.receive(&mut space, delay_max + STRAGGLERS)? {
                    Some(bytes) => {
                        let number = read(bytes).map_or(u64::MAX, |(number, _)| number);
                        match seen.get_mut(number as usize) {
                            Some(seen) if *seen => arrivals.duplicates += 1,
                            Some(seen) => {
                                *seen = true;
                                arrivals.unique += 1;
                            }
                            None => {}
                        }
                    }
                    None if is_over => break,
                    None => {}
                }
            }
            sender
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the sender ended")))
        })?;
        Ok(arrivals)
    }

    /// Full packets at `rate`; the rate at which they arrive in `span`, counted
    /// from when the link is busy, in bits a second.
    pub(super) fn flood(
        &self,
        rate: Rate,
        expected: &Expectation,
        span: Duration,
    ) -> io::Result<f64> {
        let pause = rate.time_for_bytes(FULL_BYTES as u64);
        // Until the first packet has arrived, and a few more.
        let warm_up = expected.delay_max + STRAGGLERS + pause * 5;
        let end = Clock::now() + warm_up + span;
        let bits = thread::scope(|scope| -> io::Result<f64> {
            let sender = scope.spawn(|| -> io::Result<()> {
                let bytes = probe(u64::MAX, FULL_BYTES);
                let (start, mut count) = (Clock::now(), 0.0);
                while Clock::now() < end {
                    let at = start + pause.mul_f64(count);
                    thread::sleep(at.saturating_duration_since(Clock::now()));
                    self.from.send(&bytes)?;
                    count += 1.0;
                }
                Ok(())
            });
            let begin = end - span;
            let mut space = [0; 2048];
            let (mut first, mut last, mut count) = (None, begin, 0.0);
            while Clock::now() < end {
                let wait = end.saturating_duration_since(Clock::now());
                let Some(_) = self.receive(&mut space, wait)? else {
                    continue;
                };
                let now = Clock::now();
                if now >= begin {
                    // The first one only starts the clock.
                    count += f64::from(u8::from(first.is_some()));
                    first.get_or_insert(now);
                    last = now;
                }
            }
            sender
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the sender ended")))?;
            let elapsed = last.saturating_duration_since(first.unwrap_or(begin));
            Ok(match elapsed.is_zero() {
                true => 0.0,
                false => count * FULL_BYTES as f64 * 8.0 / elapsed.as_secs_f64(),
            })
        })?;
        self.drain(expected)?;
        Ok(bits)
    }

    /// Lets what is still inside arrive, so that the next probe meets no queue.
    fn drain(&self, expected: &Expectation) -> io::Result<()> {
        let mut space = [0; 2048];
        let wait = expected.delay_max + STRAGGLERS;
        while self.receive(&mut space, wait)?.is_some() {}
        Ok(())
    }
}

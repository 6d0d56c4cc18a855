//! A source of steady rate, and how late what it sends arrives.
//!
//! Every 5 ms there is a portion to send: the time at which it was due, in
//! nanoseconds since the content was made, and then the content from that place on.
//! Server and client are threads of one process, so they read one clock. A portion
//! that waits because the transport takes no more is late from when it was due.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::workload::content::Content;

/// From one portion to the next.
pub(crate) const INTERVAL: Duration = Duration::from_millis(5);

/// Bytes of the time that a portion begins with.
const STAMP_LEN: usize = 8;

/// Longest portion: 10 Gbit/s.
const LEN_MAX: usize = 6_250_000;

/// Portions kept: an hour of them.
const COUNT_MAX: usize = 720_000;

/// Bytes of a portion at a rate.
pub(crate) fn portion_len(mbit: f64) -> usize {
    let len = (mbit * 1e6 / 8.0 * INTERVAL.as_secs_f64()).round() as usize;
    len.clamp(STAMP_LEN, LEN_MAX)
}

/// Sends portions of `len` bytes for as long as somebody reads.
///
/// # Errors
/// What the connection says when nobody does.
pub(crate) fn send(mut stream: impl Write, content: &Content, len: usize) -> io::Result<()> {
    let len = len.clamp(STAMP_LEN, LEN_MAX);
    let mut portion = Vec::with_capacity(len);
    let mut due = Instant::now();
    let mut offset = 0;
    loop {
        let until = due.saturating_duration_since(Instant::now());
        if !until.is_zero() {
            thread::sleep(until);
        }
        portion.clear();
        let stamp = due.saturating_duration_since(content.made()).as_nanos() as u64;
        portion.extend_from_slice(&stamp.to_be_bytes());
        while portion.len() < len {
            let some = content.at(offset + portion.len() as u64);
            let wanted = (len - portion.len()).min(some.len());
            portion.extend_from_slice(&some[..wanted]);
        }
        stream.write_all(&portion)?;
        offset += len as u64;
        due += INTERVAL;
    }
}

/// The portions as they arrive.
#[derive(Debug)]
pub(crate) struct Portions {
    content: Arc<Content>,
    len: usize,
    /// Bytes so far.
    offset: u64,
    stamp: [u8; STAMP_LEN],
    /// When each was there, and how late.
    seen: Vec<(Instant, Duration)>,
}

impl Portions {
    pub(crate) fn new(content: &Arc<Content>, len: usize) -> Self {
        Self {
            content: content.clone(),
            len,
            offset: 0,
            stamp: [0; STAMP_LEN],
            seen: Vec::new(),
        }
    }

    /// Bytes of each.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes what arrived; the error tells after which byte something wrong did.
    pub(crate) fn take(&mut self, now: Instant, mut bytes: &[u8]) -> Result<(), u64> {
        while !bytes.is_empty() {
            let at = (self.offset % self.len as u64) as usize;
            let end = match at < STAMP_LEN {
                true => STAMP_LEN,
                false => self.len,
            };
            let (part, rest) = bytes.split_at(bytes.len().min(end - at));
            if at < STAMP_LEN {
                self.stamp[at..at + part.len()].copy_from_slice(part);
            } else if !self.content.matches(self.offset, part) {
                return Err(self.offset);
            }
            self.offset += part.len() as u64;
            if self.offset.is_multiple_of(self.len as u64) && self.seen.len() < COUNT_MAX {
                let due = Duration::from_nanos(u64::from_be_bytes(self.stamp));
                let age = now.saturating_duration_since(self.content.made());
                self.seen.push((now, age.saturating_sub(due)));
            }
            bytes = rest;
        }
        Ok(())
    }

    /// How late those were that arrived between two moments.
    pub(crate) fn delays(&self, from: Instant, until: Instant) -> Delays {
        let is_counted = |(at, _): &&(Instant, Duration)| (from..until).contains(at);
        let mut sorted: Vec<_> = self
            .seen
            .iter()
            .filter(is_counted)
            .map(|one| one.1)
            .collect();
        sorted.sort_unstable();
        Delays { sorted }
    }
}

/// How late portions were.
#[derive(Debug)]
pub(crate) struct Delays {
    sorted: Vec<Duration>,
}

impl Delays {
    /// Milliseconds that this share of them did not exceed.
    pub(crate) fn ms(&self, share: f64) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        let place = ((self.sorted.len() as f64 * share) as usize).min(last);
        Some(self.sorted[place].as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then fails.
    struct Reader {
        taken: Vec<u8>,
        most: usize,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.taken.len() >= self.most {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_sent_is_taken_and_timed_in_whatever_pieces() {
        let content = Arc::new(Content::new(3));
        let len = portion_len(0.8);
        assert_eq!(len, 500);
        let mut reader = Reader {
            taken: vec![],
            most: 5 * len,
        };
        send(&mut reader, &content, len).expect_err("the reader leaves");
        let mut portions = Portions::new(&content, len);
        let start = Instant::now();
        for piece in reader.taken.chunks(7) {
            portions.take(start, piece).expect("right bytes");
        }
        let delays = portions.delays(start, start + INTERVAL);
        assert_eq!(delays.sorted.len(), 5);
        // The first was due four intervals before the last.
        assert!(delays.ms(1.0) >= delays.ms(0.0).map(|ms| ms + 19.9));
        assert_eq!(
            portions.delays(start + INTERVAL, start + INTERVAL).ms(0.5),
            None
        );
    }

    #[test]
    fn a_wrong_byte_is_named() {
        let content = Arc::new(Content::new(4));
        let mut portions = Portions::new(&content, 100);
        let mut bytes = vec![0; STAMP_LEN];
        bytes.extend_from_slice(&content.at(STAMP_LEN as u64)[..92]);
        let now = Instant::now();
        assert_eq!(portions.take(now, &bytes), Ok(()));
        assert_eq!(portions.take(now, &bytes), Err(108));
    }
}

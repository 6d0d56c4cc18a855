//! The event queue: at most one entry per source, in the order of time.
//!
//! A source (a link, an agent, the sampler) has one next moment at which
//! something happens to it. The queue is a binary heap over the sources that
//! knows each one's place, so a moment can be moved instead of being left behind
//! as a stale entry: its memory is the number of sources, however long the
//! simulated time. Ties go to the source that was scheduled first.

use ctcp_units::Instant;

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    /// Counts schedulings; breaks ties.
    sequence: u64,
    source: u32,
}

/// What happens next, by source.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Entry>,
    /// Place in the heap of each source, or [`ABSENT`].
    places: Vec<u32>,
    next_sequence: u64,
}

impl EventQueue {
    /// An empty queue for sources `0..count`.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            heap: Vec::with_capacity(count),
            places: vec![ABSENT; count],
            next_sequence: 0,
        }
    }

    /// The next moment and whose it is.
    pub(crate) fn peek(&self) -> Option<(Instant, usize)> {
        self.heap
            .first()
            .map(|entry| (entry.at, entry.source as usize))
    }

    /// Sets when something happens to `source` next; `None`: nothing will.
    ///
    /// A source whose moment does not change keeps its place among equals.
    pub(crate) fn set(&mut self, source: usize, at: Option<Instant>) {
        let place = self.places[source];
        match (place, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                let sequence = self.sequence();
                self.heap.push(Entry {
                    at,
                    sequence,
                    source: source as u32,
                });
                self.rise(self.heap.len() - 1);
            }
            (place, None) => self.remove(place as usize),
            (place, Some(at)) => {
                let place = place as usize;
                if self.heap[place].at == at {
                    return;
                }
                let is_earlier = at < self.heap[place].at;
                self.heap[place].at = at;
                self.heap[place].sequence = self.sequence();
                if is_earlier {
                    self.rise(place);
                } else {
                    self.sink(place);
                }
            }
        }
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn remove(&mut self, place: usize) {
        self.places[self.heap[place].source as usize] = ABSENT;
        let last = self.heap.pop().expect("the entry to remove is in the heap");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.rise(place);
            self.sink(self.places[last.source as usize] as usize);
        }
    }

    /// Moves the entry at `place` up to where it belongs.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Moves the entry at `place` down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.source as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::Random;

    fn at(nanos: u64) -> Option<Instant> {
        Some(Instant::from_nanos(nanos))
    }

    #[test]
    fn equal_moments_come_in_the_order_they_were_set() {
        let mut queue = EventQueue::new(4);
        for source in [2, 0, 3, 1] {
            queue.set(source, at(5));
        }
        let mut order = Vec::new();
        while let Some((_, source)) = queue.peek() {
            order.push(source);
            queue.set(source, None);
        }
        assert_eq!(order, [2, 0, 3, 1]);
    }

    #[test]
    fn a_moment_set_again_does_not_lose_its_turn() {
        let mut queue = EventQueue::new(2);
        queue.set(0, at(5));
        queue.set(1, at(5));
        queue.set(0, at(5));
        assert_eq!(queue.peek(), Some((Instant::from_nanos(5), 0)));
        queue.set(0, at(6));
        assert_eq!(queue.peek(), Some((Instant::from_nanos(5), 1)));
    }

    #[test]
    fn it_agrees_with_a_sorted_list_whatever_is_moved() {
        let mut random = Random::from_seed(3);
        let mut queue = EventQueue::new(17);
        let mut model: Vec<Option<(Instant, u64)>> = vec![None; 17];
        for turn in 1..20_000u64 {
            let source = random.below(17) as usize;
            let moment = random
                .chance(0.8)
                .then(|| Instant::from_nanos(random.below(50)));
            if model[source].map(|(at, _)| at) != moment {
                model[source] = moment.map(|at| (at, turn));
            }
            queue.set(source, moment);
            let first = (0..17)
                .filter_map(|source| model[source].map(|key| (key, source)))
                .min();
            assert_eq!(
                queue.peek(),
                first.map(|((at, _), source)| (at, source)),
                "turn {turn}"
            );
        }
    }
}

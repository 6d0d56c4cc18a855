//! Random operations on two ends over a hostile network, with a model beside
//! them of what each stream must bring.

use std::collections::BTreeMap;

use ctcp_units::Random;

use super::network::Network;
use super::*;

/// What happened to one direction of a stream, seen from outside.
#[derive(Debug, Default, Clone, Copy)]
struct Direction {
    written: u64,
    is_finished: bool,
    /// The writer gave up, or was made to.
    is_reset: bool,
    read: u64,
    has_ended: bool,
    has_reset: bool,
    is_stopped: bool,
    is_told_finished: bool,
}

fn byte_at(id: StreamId, by: usize, offset: u64) -> u8 {
    (offset * 31 + (offset >> 8) * 7 + id.0 * 13 + by as u64 * 101) as u8
}

/// Two ends, two directions of network, and the model.
struct World {
    random: Random,
    ends: [Streams; 2],
    networks: [Network; 2],
    /// By stream and writer.
    model: BTreeMap<(StreamId, usize), Direction>,
    /// What each application has a hold of.
    known: [Vec<StreamId>; 2],
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let config = |random: &mut Random, side| StreamsConfig {
            max_streams: 1 + random.below(8),
            local_streams_max: 1 + random.below(8),
            max_stream_data: 8192 + random.below(8192),
            stream_window_max: 8192 << random.below(5),
            stream_send_buffer_max: 8192 << random.below(4),
            ..small(side)
        };
        let client = config(&mut random, Side::Client);
        let server = config(&mut random, Side::Server);
        let (client, server) = pair(client, server);
        Self {
            random,
            ends: [client, server],
            networks: Default::default(),
            model: BTreeMap::new(),
            known: Default::default(),
        }
    }

    fn is_wild(&mut self) -> bool {
        self.random.chance(0.02)
    }

    fn add(&mut self, end: usize, id: StreamId) {
        self.known[end].push(id);
        for by in 0..2 {
            self.model.entry((id, by)).or_default();
        }
    }

    fn write(&mut self, end: usize, id: StreamId) {
        let len = match self.random.below(3) {
            0 => self.random.below(20),
            1 => self.random.below(3000),
            _ => self.random.below(40_000),
        };
        let direction = self.model.get_mut(&(id, end)).expect("a known stream");
        let start = direction.written;
        let data: Vec<u8> = (start..start + len).map(|o| byte_at(id, end, o)).collect();
        match self.ends[end].write(id, &data) {
            Ok(written) => {
                assert!(!direction.is_finished && !direction.is_reset);
                direction.written += written as u64;
            }
            Err(WriteError::Blocked) => assert!(!direction.is_finished),
            Err(WriteError::Finished) => assert!(direction.is_finished),
            Err(WriteError::Stopped(code)) => {
                assert_eq!(code, 2);
                assert!(direction.is_reset && direction.is_stopped);
            }
            Err(WriteError::Reset) => assert!(direction.is_reset),
            Err(WriteError::Unknown) => {
                assert!(direction.is_reset || direction.is_told_finished);
            }
        }
    }

    fn read(&mut self, end: usize, id: StreamId) {
        let direction = self.model.get_mut(&(id, 1 - end)).expect("a known stream");
        let mut out = vec![0; self.random.below(20_000) as usize + 1];
        match self.ends[end].read(id, &mut out) {
            Ok(Read::Bytes(len)) => {
                assert!(!direction.has_ended && !direction.has_reset && !direction.is_stopped);
                for byte in &out[..len] {
                    assert_eq!(*byte, byte_at(id, 1 - end, direction.read));
                    direction.read += 1;
                }
                assert!(direction.read <= direction.written);
            }
            Ok(Read::End) => {
                assert!(direction.is_finished && !direction.has_reset && !direction.is_stopped);
                assert_eq!(direction.read, direction.written, "never short");
                direction.has_ended = true;
            }
            Err(ReadError::Blocked) => assert!(!direction.has_ended && !direction.has_reset),
            Err(ReadError::Reset(_)) => {
                assert!(direction.is_reset && !direction.has_ended);
                direction.has_reset = true;
            }
            Err(ReadError::Stopped) => assert!(direction.is_stopped),
            Err(ReadError::Unknown) => {
                assert!(direction.has_ended || direction.has_reset || direction.is_stopped);
            }
        }
    }

    fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                StreamEvent::Opened => {
                    while let Some(id) = self.ends[end].accept() {
                        self.add(end, id);
                    }
                }
                StreamEvent::Stopped { id, .. } => {
                    let direction = self.model.get_mut(&(id, end)).expect("a known stream");
                    assert!(direction.is_stopped && !direction.is_reset);
                    direction.is_reset = true;
                }
                StreamEvent::Reset { id, .. } => {
                    let direction = self.model.get_mut(&(id, 1 - end)).expect("a known stream");
                    assert!(direction.is_reset && !direction.is_stopped);
                }
                StreamEvent::Finished(id) => {
                    let direction = self.model.get_mut(&(id, end)).expect("a known stream");
                    assert!(direction.is_finished && !direction.is_told_finished);
                    direction.is_told_finished = true;
                    // Without the symbols, the reader could still read it all.
                    if let Some(stream) = self.ends[1 - end].streams.get(&id) {
                        let assembler = &stream.receive.assembler;
                        let ready = assembler.read_offset() + assembler.readable();
                        assert_eq!(stream.receive.final_offset, Some(ready));
                    }
                }
                StreamEvent::Readable(id) => {
                    let direction = self.model[&(id, 1 - end)];
                    let before = direction.read;
                    self.read(end, id);
                    let after = self.model[&(id, 1 - end)];
                    assert!(
                        after.read > before || after.has_ended || after.has_reset,
                        "readable means that there is something"
                    );
                }
                StreamEvent::Writable(_) | StreamEvent::CreditOpened => {}
            }
        }
    }

    fn finish(&mut self, end: usize, id: StreamId) {
        if self.ends[end].finish(id).is_ok() {
            self.model.get_mut(&(id, end)).expect("known").is_finished = true;
        }
    }

    fn operate(&mut self, end: usize) {
        if self.random.chance(0.1)
            && let Ok(id) = self.ends[end].open()
        {
            self.add(end, id);
        }
        // Streams of late are worked at more.
        let count = self.known[end].len() as u64;
        if count == 0 {
            return;
        }
        let back = self.random.below(count.min(12));
        let id = self.known[end][(count - 1 - back) as usize];
        match self.random.below(10) {
            0..4 => self.write(end, id),
            4..8 => self.read(end, id),
            8 if self.random.chance(0.2) => self.finish(end, id),
            _ if self.is_wild() => {
                let direction = self.model.get_mut(&(id, end)).expect("known");
                if !direction.is_told_finished {
                    direction.is_reset = true;
                    self.ends[end].reset(id, 1);
                }
            }
            _ if self.is_wild() => {
                let direction = self.model.get_mut(&(id, 1 - end)).expect("known");
                if !direction.has_ended && !direction.has_reset {
                    direction.is_stopped = true;
                }
                self.ends[end].stop(id, 2);
            }
            _ => {}
        }
    }

    fn move_network(&mut self, end: usize, is_fair: bool) {
        let Self {
            random,
            ends,
            networks,
            ..
        } = self;
        let [one, two] = ends;
        let (from, to) = if end == 0 { (one, two) } else { (two, one) };
        networks[end].send(random, from);
        networks[end].step(random, is_fair, from, to);
        self.take_events(0);
        self.take_events(1);
    }

    fn check(&self) {
        self.ends.iter().for_each(check_books);
    }

    /// Lets both applications finish and read everything.
    fn wind_up(&mut self) {
        for round in 0..200_000 {
            for end in 0..2 {
                self.move_network(end, true);
                if round % 10 != 0 {
                    continue;
                }
                for id in self.known[end].clone() {
                    self.finish(end, id);
                    self.read(end, id);
                    let _ = self.ends[end].write(id, b"");
                }
            }
            let is_done = self
                .ends
                .iter()
                .all(|end| end.count() == 0 && end.is_idle())
                && self.networks.iter().all(Network::is_empty);
            if is_done {
                return;
            }
        }
        panic!("not done: {:#?}", self.ends);
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for step in 0..4000 {
        let end = world.random.below(2) as usize;
        world.operate(end);
        for end in 0..2 {
            world.move_network(end, false);
        }
        if step % 16 == 0 {
            world.check();
        }
    }
    world.wind_up();
    world.check();
    for ((id, by), direction) in &world.model {
        let (ended, reset, stopped) = (
            direction.has_ended,
            direction.has_reset,
            direction.is_stopped,
        );
        assert!(ended || reset || stopped, "{id} by {by}: {direction:?}");
        if !direction.is_reset && !stopped {
            assert!(direction.is_told_finished, "{id} by {by}: {direction:?}");
        }
    }
    for end in &world.ends {
        assert_eq!(
            end.receive_credit.received, end.receive_credit.consumed,
            "all credit came back"
        );
    }
    let [client, server] = &world.ends;
    assert_eq!(client.send_credit.sent, server.receive_credit.received);
    assert_eq!(server.send_credit.sent, client.receive_credit.received);
}

#[test]
fn random_operations_over_a_hostile_network_bring_every_byte_or_a_reset() {
    let seed = seed();
    for index in 0..60 {
        println!("world {index}");
        run(seed ^ index << 32);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = || {
        let mut world = World::new(5);
        for _ in 0..1000 {
            world.operate(0);
            world.operate(1);
            for end in 0..2 {
                world.move_network(end, false);
            }
        }
        format!("{:?} {:?}", world.ends, world.networks)
    };
    assert_eq!(trace(), trace());
}

/// Bytes that look like stream frames but were sent by nobody.
#[test]
fn arbitrary_symbols_are_refused_or_harmless() {
    let seed = seed();
    let mut random = Random::from_seed(seed);
    for _ in 0..300 {
        let (_, mut server) = small_pair();
        for _ in 0..100 {
            let mut content = vec![0; random.below(60) as usize];
            random.fill(&mut content);
            if let Some(first) = content.first_mut() {
                *first = 0x80 | (*first & 0x6C);
            }
            if content.len() > 1 && random.chance(0.9) {
                content[1] &= 0x0E;
            }
            if server.on_symbol(&content).is_err() {
                break;
            }
            check_books(&server);
        }
    }
}

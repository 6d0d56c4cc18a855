//! The streams of a connection: a pair over a bad network against a model of
//! what each must bring, and one end against a peer that makes things up.

use std::collections::BTreeMap;

use ctcp_proto::stream::{
    FILL_ROOM_MIN, Side, StreamControl, StreamViolation, Streams, StreamsConfig,
};
use ctcp_units::{StreamId, SymbolId};

use crate::Input;
use crate::model::Model;

const OPERATIONS_MAX: usize = 2000;
/// Symbols and control frames underway at most.
const UNDERWAY_MAX: usize = 40;

/// The first byte chooses between the pair and the liar.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.below(3) < 2 {
        pair(&mut input);
    } else {
        liar(&mut input);
    }
}

/// Small limits, so that operations reach them.
pub(crate) fn config(input: &mut Input<'_>, side: Side) -> StreamsConfig {
    StreamsConfig {
        side,
        max_data: 512 << 10,
        max_stream_data: 8192 + 512 * u64::from(input.u8() % 16),
        stream_window_max: 8192 << (input.u8() % 5),
        max_streams: 1 + u64::from(input.u8() % 8),
        local_streams_max: 1 + u64::from(input.u8() % 8),
        send_buffer_floor: 8 << 10,
        stream_send_buffer_max: 8192 << (input.u8() % 4),
        send_buffer_bytes_max: 128 << 10,
    }
}

fn hear(streams: &mut Streams, said: StreamControl) -> Result<(), StreamViolation> {
    match said {
        StreamControl::MaxData(max) => streams.on_max_data(max),
        StreamControl::MaxStreams(max) => streams.on_max_streams(max),
        StreamControl::MaxStreamData { id, max } => streams.on_max_stream_data(id, max)?,
        StreamControl::Reset {
            id,
            code,
            final_offset,
        } => streams.on_reset_stream(id, code, final_offset)?,
        StreamControl::Stop { id, code } => streams.on_stop_sending(id, code)?,
    }
    Ok(())
}

/// What memory may grow to, whatever the peer does.
fn check_memory(streams: &Streams, config: &StreamsConfig) {
    let chunks = config.max_data + config.send_buffer_bytes_max;
    let rounding = streams.count() as u64 * (config.send_buffer_floor + 5 * 8192);
    assert!(streams.memory_bytes() as u64 <= chunks + rounding + (1 << 20));
    assert!(streams.bytes_buffered_receive() <= config.max_data);
    let streams_max = config.max_streams + config.local_streams_max;
    assert!(streams.count() as u64 <= streams_max);
}

/// One direction of the network. The sender keeps symbols until they arrived.
#[derive(Debug, Default)]
struct Network {
    next: SymbolId,
    window: BTreeMap<SymbolId, (Vec<u8>, bool)>,
    /// Abandoned, and perhaps only late.
    late: Vec<Vec<u8>>,
    control: Vec<StreamControl>,
}

impl Network {
    fn first_missing(&self) -> Option<usize> {
        self.window.values().position(|symbol| !symbol.1)
    }
}

struct Pair {
    ends: [Streams; 2],
    networks: [Network; 2],
    model: Model,
}

fn pair(input: &mut Input<'_>) {
    let configs = [config(input, Side::Client), config(input, Side::Server)];
    let join = |own: usize, peer: usize| {
        let mut streams = Streams::new(configs[own]);
        let peer = &configs[peer];
        streams.set_peer_limits(peer.max_data, peer.max_stream_data, peer.max_streams);
        streams
    };
    let mut pair = Pair {
        ends: [join(0, 1), join(1, 0)],
        networks: Default::default(),
        model: Model::default(),
    };
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        let end = usize::from(operation >> 7);
        match operation & 0x0F {
            0 => pair.model.open(end, &mut pair.ends[end]),
            1..5 => pair.model.operate(input, end, &mut pair.ends[end]),
            5..8 => pair.send(input, end),
            _ => pair.carry(end, operation >> 4 & 7, input.u8().into()),
        }
        for (end, config) in configs.iter().enumerate() {
            pair.take_events(end);
            check_memory(&pair.ends[end], config);
        }
    }
    pair.settle();
}

impl Pair {
    fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            self.model.on_event(end, event, &mut self.ends[end]);
        }
    }

    /// Makes a control frame and a symbol of what an end has to say.
    fn send(&mut self, input: &mut Input<'_>, end: usize) {
        let room = FILL_ROOM_MIN + usize::from(input.u16()) % 1500;
        self.send_with_room(end, room);
    }

    fn send_with_room(&mut self, end: usize, room: usize) {
        let (streams, network) = (&mut self.ends[end], &mut self.networks[end]);
        if network.control.len() < UNDERWAY_MAX
            && let Some(said) = streams.poll_control()
        {
            let mut bytes = Vec::new();
            said.frame().write(&mut bytes);
            assert!(bytes.len() <= StreamControl::LEN_MAX);
            network.control.push(said);
        }
        if network.window.len() >= UNDERWAY_MAX {
            return;
        }
        let mut content = Vec::new();
        let can_fill = streams.can_fill();
        let len = streams.fill_symbol(network.next, room, &mut content);
        assert_eq!(len, content.len());
        assert_eq!(can_fill, len > 0, "can_fill agrees with fill_symbol");
        assert!(len <= room);
        if len > 0 {
            network.window.insert(network.next, (content, false));
            network.next = network.next.next();
        }
    }

    /// What happens to something underway from `end`.
    fn carry(&mut self, end: usize, fate: u8, which: usize) {
        let [client, server] = &mut self.ends;
        let (from, to) = match end {
            0 => (client, server),
            _ => (server, client),
        };
        let network = &mut self.networks[end];
        let mut late = None;
        match fate {
            // A control frame arrives and is known to have, or is thought lost;
            // or it is lost, or repeated.
            0..3 => {
                if network.control.is_empty() {
                    return;
                }
                let index = which % network.control.len();
                let said = if which < 0x80 {
                    network.control.swap_remove(index)
                } else {
                    network.control[index]
                };
                if fate != 2 {
                    hear(to, said).expect("an honest peer");
                }
                match fate {
                    _ if which >= 0x80 => {}
                    0 => from.on_control_acked(said),
                    _ => from.on_control_lost(said),
                }
            }
            3 => {
                if !network.late.is_empty() {
                    let index = which % network.late.len();
                    to.on_symbol(&network.late[index]).expect("an honest peer");
                }
            }
            4..7 => {
                let Some((_, (content, has_arrived))) =
                    network.window.iter_mut().nth(which % UNDERWAY_MAX)
                else {
                    return;
                };
                if fate < 6 {
                    to.on_symbol(content).expect("an honest peer");
                    *has_arrived = true;
                } else if !*has_arrived {
                    from.requeue(content);
                    *has_arrived = true;
                    late = Some(core::mem::take(content));
                }
            }
            _ => {
                while let Some(first) = network.window.first_entry()
                    && first.get().1
                {
                    first.remove();
                }
                let base = network.window.keys().next().copied();
                from.on_symbols_complete(base.unwrap_or(network.next));
            }
        }
        network
            .late
            .extend(late.filter(|_| network.late.len() < UNDERWAY_MAX));
    }

    /// The network turns perfect and everyone reads: nothing gets stuck.
    fn settle(&mut self) {
        for _ in 0..4000 {
            for end in 0..2 {
                self.take_events(end);
                self.model.wind_up(end, &mut self.ends[end]);
            }
            for end in 0..2 {
                self.send_with_room(end, 1430);
                self.carry(end, 0, 0);
                while let Some(place) = self.networks[end].first_missing() {
                    self.carry(end, 4, place);
                }
                self.carry(end, 7, 0);
            }
            let is_quiet = |end: usize| {
                let network = &self.networks[end];
                let is_sent = network.window.is_empty() && network.control.is_empty();
                is_sent && !self.ends[end].can_fill() && !self.ends[end].has_control()
            };
            if is_quiet(0) && is_quiet(1) && self.model.is_through() {
                break;
            }
        }
        assert!(self.model.is_through(), "stuck: {:?}", self.model);
        for (end, streams) in self.ends.iter_mut().enumerate() {
            self.model.let_go(end, streams);
            assert_eq!(streams.bytes_buffered_send(), 0);
            assert_eq!(streams.bytes_buffered_receive(), 0);
            assert_eq!(streams.count(), 0, "streams that are through are forgotten");
        }
    }
}

/// An end whose peer sends whatever it likes. Ends with the first violation, as
/// a connection would.
fn liar(input: &mut Input<'_>) {
    let config = config(input, Side::Server);
    let mut streams = Streams::new(config);
    streams.set_peer_limits(input.u64() >> 2, input.u64() >> 2, input.u64() >> 2);
    let mut next = SymbolId(0);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut said = Vec::new();
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        // Of both sides, few enough to meet again.
        let id = StreamId(u64::from(operation >> 4));
        let outcome = match operation & 0x0F {
            0 => {
                let len = usize::from(input.u8());
                streams.on_symbol(input.bytes(len))
            }
            1..4 => streams.on_symbol(&frames(input)),
            4 => hear(&mut streams, control(input, id)),
            5 => {
                let mut out = vec![0; usize::from(input.u16())];
                let _ = streams.read(id, &mut out);
                Ok(())
            }
            6 => {
                let _ = streams.write(id, &vec![7; usize::from(input.u16())]);
                Ok(())
            }
            7 => {
                match input.below(4) {
                    0 => drop(streams.open()),
                    1 => drop(streams.finish(id)),
                    2 => streams.reset(id, 1),
                    _ => streams.stop(id, 2),
                }
                Ok(())
            }
            8..11 => {
                let mut content = Vec::new();
                let room = FILL_ROOM_MIN + usize::from(input.u16()) % 1500;
                let can_fill = streams.can_fill();
                let len = streams.fill_symbol(next, room, &mut content);
                assert_eq!(can_fill, len > 0);
                assert!(len == content.len() && len <= room);
                if len > 0 {
                    next = next.next();
                    sent.push(content);
                    sent.truncate(UNDERWAY_MAX);
                }
                Ok(())
            }
            11 => {
                // Each symbol is given back once.
                if !sent.is_empty() {
                    let content = sent.swap_remove(input.below(256) % sent.len());
                    streams.requeue(&content);
                }
                Ok(())
            }
            12 => {
                streams.on_symbols_complete(SymbolId(next.0.min(input.u64())));
                Ok(())
            }
            13 => {
                said.extend(streams.poll_control().filter(|_| said.len() < UNDERWAY_MAX));
                Ok(())
            }
            14 => {
                if !said.is_empty() {
                    let control = said.swap_remove(input.below(256) % said.len());
                    if input.bool() {
                        streams.on_control_acked(control);
                    } else {
                        streams.on_control_lost(control);
                    }
                }
                Ok(())
            }
            _ => {
                let _ = streams.accept();
                Ok(())
            }
        };
        if let Err(violation) = outcome {
            assert!(!violation.to_string().is_empty());
            return;
        }
        let mut events = 0;
        while streams.poll_event().is_some() {
            events += 1;
        }
        assert!(events <= 100, "events are bounded by the streams");
        check_memory(&streams, &config);
    }
}

/// A symbol of well-formed frames that say anything.
pub(crate) fn frames(input: &mut Input<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=input.below(3) {
        let shape = input.u8();
        let (is_fin, id) = (shape & 0x80 != 0, shape >> 3 & 0x0F);
        let offset = match shape & 7 {
            0 => 0,
            1..6 => u32::from(input.u16()) * u32::from(shape & 7),
            _ => u32::from_be_bytes(input.array()),
        };
        let len = input.u8() as u16 * u16::from(input.u8() % 6 + 1);
        out.push(0x80 | u8::from(is_fin) << 6 | 0x20 | 3 << 2);
        out.push(id);
        out.extend(offset.to_be_bytes());
        out.extend(len.to_be_bytes());
        out.resize(out.len() + usize::from(len), id);
    }
    out
}

fn control(input: &mut Input<'_>, id: StreamId) -> StreamControl {
    // A varint's 62 bits, and mostly small.
    let number = input.u64() >> (2 + input.u8() % 62);
    match input.below(5) {
        0 => StreamControl::MaxData(number),
        1 => StreamControl::MaxStreams(number),
        2 => StreamControl::MaxStreamData { id, max: number },
        3 => StreamControl::Reset {
            id,
            code: 3,
            final_offset: number,
        },
        _ => StreamControl::Stop { id, code: 4 },
    }
}

//! From what a connection tells to lines of qlog.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use ctcp::{PathStats, Trace, TraceContent, TraceEvent};
use ctcp_units::{Instant, PathId};

use super::writer::Sink;

/// A chunk is handed on when it has so many bytes.
const CHUNK_LEN: usize = 16 << 10;
/// Or when its first event is so old and another comes.
const CHUNK_AGE: Duration = Duration::from_secs(1);
/// What begins each record ([RFC7464] §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The trace of one connection.
#[derive(Debug)]
pub(super) struct QlogTrace {
    sink: Sink,
    buffer: Vec<u8>,
    /// The moment of the first event: time zero of the trace.
    start: Option<Instant>,
    /// When the first event of the buffer happened.
    chunk_since: Instant,
    dropped: u64,
    /// Acknowledgements in the packet that is being received: of which path, and
    /// the fields of its frame.
    acks: Vec<(PathId, String)>,
}

impl QlogTrace {
    /// Begins a trace; `wall` is the time of day at its time zero.
    pub(super) fn begin(sink: Sink, role: &str, name: &str, peer: &str, wall: Duration) -> Self {
        let title = format!("ctcp {role}: {name}");
        let header = serde_json::json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": title,
            "trace": {
                "title": title,
                "description": "packet numbers are a path's own; each path is a group",
                "vantage_point": { "name": "ctcp", "type": role },
                "common_fields": {
                    "ODCID": peer,
                    "protocol_type": ["CTCP"],
                    "reference_time": wall.as_secs_f64() * 1e3,
                    "time_format": "relative",
                },
            },
        });
        let mut buffer = vec![RECORD_SEPARATOR];
        buffer.extend_from_slice(header.to_string().as_bytes());
        buffer.push(b'\n');
        Self {
            sink,
            buffer,
            start: None,
            chunk_since: Instant::EPOCH,
            dropped: 0,
            acks: Vec::new(),
        }
    }

    /// One record; `data` is JSON.
    ///
    /// `group_id` makes qvis show each path as a connection of its own.
    fn record(&mut self, now: Instant, path: PathId, name: &str, data: std::fmt::Arguments<'_>) {
        let start = *self.start.get_or_insert(now);
        if self.buffer.is_empty() {
            self.chunk_since = now;
        }
        let nanos = (now - start).as_nanos();
        let (millis, rest) = (nanos / 1_000_000, nanos % 1_000_000);
        self.buffer.push(RECORD_SEPARATOR);
        // Writing to memory does not fail.
        let _ = writeln!(
            self.buffer,
            r#"{{"time":{millis}.{rest:06},"name":"{name}","group_id":"path {}","data":{{{data}}}}}"#,
            path.0
        );
    }

    fn hand_on(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let chunk = std::mem::take(&mut self.buffer);
        let events = chunk.iter().filter(|byte| **byte == RECORD_SEPARATOR);
        let count = events.count() as u64;
        if !self.sink.send(chunk) {
            self.dropped += count;
        }
    }

    fn metrics(&mut self, now: Instant, path: &PathStats) {
        let millis = |span: Option<Duration>| span.unwrap_or_default().as_secs_f64() * 1e3;
        let mtu = f64::from(path.mtu);
        let threshold = path.controller.ss_threshold.map_or(0.0, |t| t * mtu);
        self.record(
            now,
            path.id,
            "recovery:metrics_updated",
            format_args!(
                r#""path_id":{},"min_rtt":{:.6},"smoothed_rtt":{:.6},"latest_rtt":{:.6},"rtt_variance":{:.6},"congestion_window":{:.0},"bytes_in_flight":{:.0},"ssthresh":{threshold:.0}"#,
                path.id.0,
                millis(path.rtt_min),
                millis(path.srtt),
                millis(path.rtt_latest),
                millis(path.rttvar),
                path.controller.tokens * mtu,
                path.in_flight as f64 * mtu,
            ),
        );
    }

    fn packet(
        &mut self,
        now: Instant,
        name: &str,
        (path, number, len): (PathId, u64, usize),
        content: TraceContent,
    ) {
        let acks = std::mem::take(&mut self.acks);
        let frames = match content {
            TraceContent::Control if acks.is_empty() => {
                r#"{"frame_type":"ctcp_control"}"#.to_owned()
            }
            TraceContent::Control => ack_frames(path, &acks),
            TraceContent::Systematic { symbol, index } => format!(
                r#"{{"frame_type":"ctcp_systematic","symbol":{},"index":{index}}}"#,
                symbol.0
            ),
            TraceContent::Coded { first, count } => format!(
                r#"{{"frame_type":"ctcp_coded","first_symbol":{},"symbols":{count}}}"#,
                first.0
            ),
        };
        self.record(
            now,
            path,
            name,
            format_args!(
                r#""header":{{"packet_type":"1RTT","packet_number":{number},"path_id":{}}},"raw":{{"length":{len}}},"frames":[{frames}]"#,
                path.0
            ),
        );
        self.acks = acks;
        self.acks.clear();
    }
}

impl Trace for QlogTrace {
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>) {
        match event {
            TraceEvent::Sent {
                path,
                number,
                len,
                content,
            } => self.packet(
                now,
                "transport:packet_sent",
                (*path, *number, *len),
                *content,
            ),
            TraceEvent::Ack(ack) => {
                let delay = ack.delay.as_secs_f64() * 1e3;
                let mut fields = format!(
                    r#""path_id":{},"ack_delay":{delay:.3},"acked_ranges":["#,
                    ack.path.0
                );
                // QUIC's events list the oldest first.
                let ranges: Vec<_> = ack.ranges.iter().collect();
                for (index, range) in ranges.iter().rev().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let _ = write!(fields, "{comma}[{},{}]", range.start(), range.end());
                }
                fields.push(']');
                self.acks.push((ack.path, fields));
            }
            TraceEvent::Received {
                path,
                number,
                len,
                content,
                is_innovative,
                recovered,
            } => {
                let place = (*path, *number, *len);
                self.packet(now, "transport:packet_received", place, *content);
                if !is_innovative || *recovered > 0 {
                    self.record(
                        now,
                        *path,
                        "ctcp:symbols_decoded",
                        format_args!(
                            r#""packet_number":{number},"is_innovative":{is_innovative},"symbols_recovered":{recovered}"#
                        ),
                    );
                }
            }
            // qlog 0.3 has the number in the header, qvis's graph of congestion
            // looks for it beside that.
            TraceEvent::Lost {
                path,
                number,
                is_symbol,
            } => self.record(
                now,
                *path,
                "recovery:packet_lost",
                format_args!(
                    r#""header":{{"packet_type":"1RTT","packet_number":{number},"path_id":{}}},"packet_number":{number},"is_symbol":{is_symbol}"#,
                    path.0
                ),
            ),
            TraceEvent::Metrics(path) => self.metrics(now, path),
            TraceEvent::Closed { is_local, reason } => {
                let owner = if *is_local { "local" } else { "remote" };
                let reason = serde_json::to_string(reason).unwrap_or_default();
                self.record(
                    now,
                    PathId(0),
                    "connectivity:connection_closed",
                    format_args!(r#""owner":"{owner}","reason":{reason}"#),
                );
                self.hand_on();
            }
            _ => {}
        }
        if self.buffer.len() >= CHUNK_LEN || now - self.chunk_since >= CHUNK_AGE {
            if self.dropped > 0 {
                let count = std::mem::take(&mut self.dropped);
                self.record(
                    now,
                    PathId(0),
                    "ctcp:events_dropped",
                    format_args!(r#""count":{count}"#),
                );
            }
            self.hand_on();
        }
    }
}

/// The frames of a packet that came by `path`. qvis takes every `ack` for one of
/// the path that it came by, so that one of another path has another name.
fn ack_frames(path: PathId, acks: &[(PathId, String)]) -> String {
    let frames = acks.iter().map(|(of, fields)| {
        let name = if *of == path { "ack" } else { "ctcp_ack" };
        format!(r#"{{"frame_type":"{name}",{fields}}}"#)
    });
    frames.collect::<Vec<_>>().join(",")
}

impl Drop for QlogTrace {
    fn drop(&mut self) {
        self.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_of_another_path_is_no_ack_of_this_one() {
        let fields = |path: u32| format!(r#""path_id":{path},"acked_ranges":[[0,3]]"#);
        let acks = [0, 1].map(|path| (PathId(path), fields(path)));
        let frames = format!("[{}]", ack_frames(PathId(1), &acks));
        let frames: serde_json::Value = serde_json::from_str(&frames).expect("JSON");
        assert_eq!(frames[0]["frame_type"], "ctcp_ack");
        assert_eq!(frames[1]["frame_type"], "ack");
        assert_eq!(frames[1]["acked_ranges"][0][1], 3);
    }
}

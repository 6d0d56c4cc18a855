//! Metrics in the text format of Prometheus and OpenMetrics.
//!
//! One table says what there is, under which name and in which unit; what is
//! served and what `docs/metrics.md` must describe both follow it. Counters
//! begin at zero with their connection; base units are seconds, bytes and ratios.

use std::fmt::{self, Write};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::snapshot::{ClientView, ConnectionView, DelayView, PacketView, PathView, Snapshot};

/// The type of what `render` makes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One metric, as the documentation lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricInfo {
    /// Name as it is served.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

type Labels = Vec<(&'static str, String)>;
type Samples = Vec<(Labels, f64)>;

struct Family {
    /// Without the `_total` of counters.
    name: &'static str,
    full_name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: fn(&Snapshot) -> Samples,
}

struct Distribution {
    name: &'static str,
    help: &'static str,
    delays: fn(&ConnectionView) -> &DelayView,
}

macro_rules! counter {
    ($name:literal, $help:literal, $samples:expr) => {
        Family {
            name: $name,
            full_name: concat!($name, "_total"),
            help: $help,
            kind: Kind::Counter,
            samples: $samples,
        }
    };
}

macro_rules! gauge {
    ($name:literal, $help:literal, $samples:expr) => {
        Family {
            name: $name,
            full_name: $name,
            help: $help,
            kind: Kind::Gauge,
            samples: $samples,
        }
    };
}

const FAMILIES: &[Family] = &[
    gauge!(
        "ctcp_build_info",
        "Always 1; role and version of the process",
        |s| {
            let labels = vec![("role", s.role.clone()), ("version", s.version.clone())];
            vec![(labels, 1.0)]
        }
    ),
    gauge!(
        "ctcp_uptime_seconds",
        "Time since the process started",
        |s| one(s.uptime)
    ),
    gauge!("ctcp_connections", "Connections with peers", |s| one(
        s.connections.len() as f64
    )),
    counter!(
        "ctcp_proxy_connections",
        "Connections of applications or requests of clients taken on",
        |s| one(s.proxy.accepted as f64)
    ),
    gauge!(
        "ctcp_proxy_active_connections",
        "Those of them that have not ended",
        |s| one(s.proxy.active as f64)
    ),
    counter!(
        "ctcp_proxy_bytes",
        "Bytes relayed; up is towards targets",
        |s| both("up", s.proxy.bytes_up, "down", s.proxy.bytes_down)
    ),
    counter!(
        "ctcp_proxy_failures",
        "Connections not relayed to a clean end, by reason",
        |s| {
            let failed = s.proxy.failed.iter();
            let sample =
                |(reason, count): &(String, u64)| (vec![("reason", reason.clone())], *count as f64);
            failed.map(sample).collect()
        }
    ),
    counter!(
        "ctcp_socket_datagrams",
        "Datagrams of the server's UDP socket",
        |s| s.socket.map_or_else(Vec::new, |socket| {
            both(
                "sent",
                socket.datagrams_sent,
                "received",
                socket.datagrams_received,
            )
        })
    ),
    counter!(
        "ctcp_socket_send_errors",
        "Calls to send that the kernel refused",
        |s| s
            .socket
            .map_or_else(Vec::new, |socket| one(socket.send_errors as f64))
    ),
    gauge!(
        "ctcp_socket_buffer_bytes",
        "Buffers that the kernel granted the server's UDP socket",
        |s| s.socket.map_or_else(Vec::new, |socket| {
            let (sent, received) = (socket.send_buffer_bytes, socket.receive_buffer_bytes);
            both("sent", sent as u64, "received", received as u64)
        })
    ),
    counter!("ctcp_clients_accepted", "Clients that came in", |s| s
        .socket
        .map_or_else(Vec::new, |socket| one(socket.accepted as f64))),
    counter!(
        "ctcp_clients_refused",
        "Clients that are not on the list",
        |s| s
            .socket
            .map_or_else(Vec::new, |socket| one(socket.refused as f64))
    ),
    counter!(
        "ctcp_unknown_datagrams",
        "Datagrams of no connection: strangers, scans, late packets",
        |s| s
            .socket
            .map_or_else(Vec::new, |socket| one(socket.unknown as f64))
    ),
    gauge!(
        "ctcp_client_streams",
        "Streams of a client now, all its connections together",
        |s| clients(s, |c| one(c.streams as f64))
    ),
    gauge!(
        "ctcp_client_streams_limit",
        "Streams that a client may have at once; absent without a limit",
        |s| clients(s, |c| c
            .streams_max
            .map_or_else(Vec::new, |limit| one(f64::from(limit))))
    ),
    counter!(
        "ctcp_client_streams_refused",
        "Streams refused because the client had as many as it may",
        |s| clients(s, |c| one(c.streams_refused as f64))
    ),
    gauge!(
        "ctcp_client_rate_limit_bytes",
        "Bytes that a client may relay each way in a second; absent without a limit",
        |s| clients(s, |c| c
            .rate_max
            .map_or_else(Vec::new, |bits| one(bits as f64 / 8.0)))
    ),
    counter!(
        "ctcp_client_bytes",
        "Bytes relayed for a client; up is towards targets",
        |s| clients(s, |c| both("up", c.bytes_up, "down", c.bytes_down))
    ),
    counter!(
        "ctcp_packets",
        "Packets by direction and kind; systematic are source symbols as they are, coded are linear combinations, datagrams are those of UDP applications, repairs are combinations of datagrams",
        |s| connections(s, |c| {
            let mut samples = kinds("sent", &c.sent);
            samples.extend(kinds("received", &c.received));
            samples
        })
    ),
    counter!(
        "ctcp_bytes",
        "UDP payload of all packets, by direction",
        |s| connections(s, |c| both(
            "sent",
            c.sent.bytes,
            "received",
            c.received.bytes
        ))
    ),
    counter!(
        "ctcp_coded_innovative",
        "Coded packets received that brought a degree of freedom",
        |s| connections(s, |c| one(c.coded_innovative as f64))
    ),
    counter!(
        "ctcp_useless_packets",
        "Symbols and coded packets received that brought nothing new",
        |s| connections(s, |c| one(c.useless as f64))
    ),
    counter!(
        "ctcp_symbols_recovered",
        "Lost symbols that decoding brought without sending them again",
        |s| connections(s, |c| one(c.symbols_recovered as f64))
    ),
    counter!(
        "ctcp_datagrams_recovered",
        "Lost datagrams of UDP applications that repairs brought",
        |s| connections(s, |c| one(c.datagrams_recovered as f64))
    ),
    counter!(
        "ctcp_coded_on_feedback",
        "Coded packets sent because those ahead of feedback had not sufficed: loss after coding",
        |s| connections(s, |c| one(c.coded_on_feedback as f64))
    ),
    counter!(
        "ctcp_dropped_datagrams",
        "Datagrams dropped as forged, replayed or out of place",
        |s| connections(s, |c| one(c.dropped as f64))
    ),
    counter!(
        "ctcp_probe_timeouts",
        "Probes sent because nothing came back",
        |s| connections(s, |c| one(c.probe_timeouts as f64))
    ),
    gauge!("ctcp_streams", "Streams open", |s| connections(s, |c| one(
        c.streams as f64
    ))),
    gauge!(
        "ctcp_blocks_in_flight",
        "Blocks sent that the peer has not completed",
        |s| connections(s, |c| one(c.blocks_sending as f64))
    ),
    gauge!(
        "ctcp_generations_receiving",
        "Generations received that are not complete",
        |s| connections(s, |c| one(c.generations_receiving as f64))
    ),
    gauge!(
        "ctcp_send_queue_bytes",
        "Stream bytes that wait to be sent or acknowledged",
        |s| connections(s, |c| one(c.bytes_to_send as f64))
    ),
    gauge!(
        "ctcp_receive_queue_bytes",
        "Stream bytes that wait to be read",
        |s| connections(s, |c| one(c.bytes_to_read as f64))
    ),
    gauge!(
        "ctcp_path_info",
        "Always 1; where a path leads and its congestion controller",
        |s| paths(s, |p| {
            let labels = vec![
                ("local", p.local.clone().unwrap_or_default()),
                ("remote", p.remote.clone()),
                ("congestion", p.congestion.clone()),
            ];
            vec![(labels, 1.0)]
        })
    ),
    gauge!(
        "ctcp_path_state",
        "1 for the state that a path is in, 0 for the others",
        |s| paths(s, |p| {
            let states = ["active", "degraded", "down", "probing"].iter();
            let sample = |state: &&str| {
                let is_it = f64::from(u8::from(p.state == *state));
                (vec![("state", (*state).to_owned())], is_it)
            };
            states.map(sample).collect()
        })
    ),
    gauge!("ctcp_path_rtt_seconds", "Smoothed round-trip time", |s| {
        paths(s, |p| p.srtt.map_or_else(Vec::new, one))
    }),
    gauge!(
        "ctcp_path_rtt_min_seconds",
        "Smallest round-trip time: the path with empty queues",
        |s| paths(s, |p| p.rtt_min.map_or_else(Vec::new, one))
    ),
    gauge!(
        "ctcp_path_rtt_deviation_seconds",
        "Mean deviation of the round-trip time",
        |s| paths(s, |p| p.rttvar.map_or_else(Vec::new, one))
    ),
    gauge!(
        "ctcp_path_loss_ratio",
        "Share of packets lost on the way to the peer, short-term estimate",
        |s| paths(s, |p| one(p.loss_rate))
    ),
    gauge!(
        "ctcp_path_loss_long_ratio",
        "Share of packets lost on the way to the peer, long-term estimate",
        |s| paths(s, |p| one(p.loss_rate_long))
    ),
    gauge!(
        "ctcp_path_tokens",
        "Packets that may be in flight, as congestion control says",
        |s| paths(s, |p| one(p.tokens))
    ),
    gauge!(
        "ctcp_path_in_flight_packets",
        "Packets in flight that hold a token",
        |s| paths(s, |p| one(p.in_flight as f64))
    ),
    gauge!(
        "ctcp_path_queued_packets",
        "Packets in flight that wait in queues: in flight × (1 − base ÷ smoothed round trip)",
        |s| paths(s, |p| one(p.queued))
    ),
    gauge!("ctcp_path_mtu_bytes", "UDP payload of full packets", |s| {
        paths(s, |p| one(f64::from(p.mtu)))
    }),
    counter!(
        "ctcp_path_packets",
        "Packets of a path, all kinds, by direction",
        |s| paths(s, |p| both(
            "sent",
            p.packets_sent,
            "received",
            p.packets_received
        ))
    ),
    gauge!(
        "ctcp_path_packets_lost",
        "Packets sent that stand as lost; falls when one arrives after all",
        |s| paths(s, |p| one(p.packets_lost as f64))
    ),
    gauge!(
        "ctcp_path_packets_missing",
        "Packets that the peer sent and that have not arrived",
        |s| paths(s, |p| one(p.packets_missing as f64))
    ),
    counter!(
        "ctcp_path_bytes",
        "UDP payload of a path by direction: its rate is the sending rate",
        |s| paths(s, |p| both(
            "sent",
            p.bytes_sent,
            "received",
            p.bytes_received
        ))
    ),
    counter!(
        "ctcp_path_delivered_bytes",
        "UDP payload of symbols that the peer acknowledged",
        |s| paths(s, |p| one(p.bytes_delivered as f64))
    ),
    counter!(
        "ctcp_path_useful_bytes",
        "Content received that was news: its rate is the goodput",
        |s| paths(s, |p| one(p.bytes_useful as f64))
    ),
    counter!(
        "ctcp_path_ecn_marked_packets",
        "Packets sent that routers marked for congestion",
        |s| paths(s, |p| one(p.ecn_ce as f64))
    ),
];

const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        name: "ctcp_in_order_delay_seconds",
        help: "How long received data waited for a lost symbol before it, one entry a wait",
        delays: |c| &c.in_order_delay,
    },
    Distribution {
        name: "ctcp_decode_delay_seconds",
        help: "How long decoding took to bring a lost symbol, from the arrival that showed the loss",
        delays: |c| &c.decode_delay,
    },
];

/// All metrics that are served, in their order.
pub fn metric_list() -> Vec<MetricInfo> {
    let families = FAMILIES.iter().map(|family| MetricInfo {
        name: family.full_name,
        help: family.help,
        kind: match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        },
    });
    let distributions = DISTRIBUTIONS.iter().map(|distribution| MetricInfo {
        name: distribution.name,
        help: distribution.help,
        kind: "histogram",
    });
    families.chain(distributions).collect()
}

fn one(value: f64) -> Samples {
    vec![(Vec::new(), value)]
}

fn both(first: &str, first_value: u64, second: &str, second_value: u64) -> Samples {
    let sample = |name: &str, value: u64| (vec![("direction", name.to_owned())], value as f64);
    vec![sample(first, first_value), sample(second, second_value)]
}

fn kinds(direction: &str, counts: &PacketView) -> Samples {
    let kinds = [
        ("handshake", counts.handshake),
        ("control", counts.control),
        ("datagram", counts.datagrams),
        ("datagram_repair", counts.datagram_repairs),
        ("systematic", counts.systematic),
        ("coded", counts.coded),
    ];
    let sample = |(kind, count): (&str, u64)| {
        let labels = vec![
            ("direction", direction.to_owned()),
            ("kind", kind.to_owned()),
        ];
        (labels, count as f64)
    };
    kinds.into_iter().map(sample).collect()
}

fn connection_labels(connection: &ConnectionView) -> Labels {
    vec![
        ("connection", connection.id.to_string()),
        ("name", connection.name.clone()),
    ]
}

/// The samples of each connection, with its labels.
fn connections(snapshot: &Snapshot, samples: fn(&ConnectionView) -> Samples) -> Samples {
    let mut all = Vec::new();
    for connection in &snapshot.connections {
        for (more, value) in samples(connection) {
            let mut labels = connection_labels(connection);
            labels.extend(more);
            all.push((labels, value));
        }
    }
    all
}

/// The samples of each path, with its labels and its connection's.
/// Samples of each client, under its name.
fn clients(snapshot: &Snapshot, samples: fn(&ClientView) -> Samples) -> Samples {
    let clients = snapshot.proxy.clients.iter();
    let labelled = clients.flat_map(|client| {
        samples(client).into_iter().map(|(labels, value)| {
            let mut all = vec![("client", client.name.clone())];
            all.extend(labels);
            (all, value)
        })
    });
    labelled.collect()
}

fn paths(snapshot: &Snapshot, samples: fn(&PathView) -> Samples) -> Samples {
    let mut all = Vec::new();
    for connection in &snapshot.connections {
        for path in &connection.paths {
            for (more, value) in samples(path) {
                let mut labels = connection_labels(connection);
                labels.push(("path", path.id.to_string()));
                labels.extend(more);
                all.push((labels, value));
            }
        }
    }
    all
}

#[derive(Debug)]
struct Readings(Snapshot);

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in FAMILIES {
            let samples = (family.samples)(&self.0);
            if samples.is_empty() {
                continue;
            }
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &samples {
                let mut sample = metric.encode_family(labels)?;
                match family.kind {
                    Kind::Counter => sample.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    Kind::Gauge => sample.encode_gauge(value)?,
                }
            }
        }
        for distribution in DISTRIBUTIONS {
            if self.0.connections.is_empty() {
                continue;
            }
            let (name, help) = (distribution.name, distribution.help);
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for connection in &self.0.connections {
                let delays = (distribution.delays)(connection);
                let bucket =
                    |(bound, count): &(Option<f64>, u64)| (bound.unwrap_or(f64::INFINITY), *count);
                let buckets: Vec<(f64, u64)> = delays.buckets.iter().map(bucket).collect();
                let labels = connection_labels(connection);
                metric
                    .encode_family(&labels)?
                    .encode_histogram::<NoLabelSet>(delays.sum, delays.count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// The metrics of a snapshot.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Readings(snapshot.clone())));
    let mut out = String::new();
    if text::encode(&mut out, &registry).is_err() {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# EOF");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let path = PathView {
            state: "active".to_owned(),
            srtt: Some(0.05),
            loss_rate: 0.02,
            bytes_useful: 1_000_000,
            ..PathView::default()
        };
        let connection = ConnectionView {
            name: "an \"odd\\name\"\n".to_owned(),
            sent: PacketView {
                coded: 7,
                ..PacketView::default()
            },
            decode_delay: DelayView {
                count: 3,
                sum: 0.02,
                buckets: vec![(Some(0.001), 1), (Some(0.01), 1), (None, 1)],
            },
            paths: vec![path],
            ..ConnectionView::default()
        };
        Snapshot {
            connections: vec![connection],
            ..Snapshot::default()
        }
    }

    #[test]
    fn names_labels_and_values_are_what_prometheus_expects() {
        let text = render(&snapshot());
        let labels = r#"connection="0",name="an \"odd\\name\"\n""#;
        for line in [
            format!("ctcp_path_rtt_seconds{{{labels},path=\"0\"}} 0.05"),
            format!("ctcp_path_loss_ratio{{{labels},path=\"0\"}} 0.02"),
            format!("ctcp_packets_total{{{labels},direction=\"sent\",kind=\"coded\"}} 7.0"),
            format!("ctcp_path_useful_bytes_total{{{labels},path=\"0\"}} 1000000.0"),
            "# TYPE ctcp_decode_delay_seconds histogram".to_owned(),
            "ctcp_connections{} 1.0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn buckets_are_cumulative_and_end_at_infinity() {
        let text = render(&snapshot());
        let counts: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("ctcp_decode_delay_seconds_bucket"))
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(counts, ["1", "2", "3"]);
        assert!(text.contains("le=\"+Inf\""));
    }

    #[test]
    fn names_say_their_unit_and_every_metric_is_documented() {
        let docs = include_str!("../../../docs/metrics.md");
        for metric in metric_list() {
            let name = metric.name;
            assert!(
                docs.contains(&format!("| `{name}` | {} |", metric.kind)),
                "{name}"
            );
            assert!(
                !metric.help.is_empty() && !metric.help.ends_with('.'),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), metric.kind == "counter", "{name}");
        }
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let dashboard = include_str!("../../../docs/grafana.json");
        let known = metric_list();
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        let mut asked = 0;
        for (place, _) in dashboard.match_indices("ctcp_") {
            let name = &dashboard[place..];
            let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(known.iter().any(|metric| metric.name == name), "{name}");
            asked += 1;
        }
        assert!(asked > 15, "{asked}");
    }

    #[test]
    fn nothing_is_served_of_what_is_not_there() {
        let text = render(&Snapshot::default());
        assert!(!text.contains("ctcp_path_rtt_seconds"), "{text}");
        assert!(!text.contains("ctcp_decode_delay_seconds"), "{text}");
    }
}

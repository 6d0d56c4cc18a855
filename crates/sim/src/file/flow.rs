//! A `[[flow]]` of a file.

use ctcp_congestion::{AckCounting, Params, resolved_name};
use ctcp_proto::Redundancy;
use ctcp_units::Duration;
use serde::Deserialize;

use super::quantity::{Bytes, PositiveSpan, Span, Speed};
use crate::agent::ctcp::CtcpConfig;
use crate::agent::gbn::GoBackNConfig;
use crate::agent::nc::NcConfig;
use crate::agent::tcp::{Coding, ConstantRate, Recovery, TcpConfig};
use crate::agent::udp::{UdpConfig, UdpPattern};
use crate::app::{Application, Think};
use crate::scenario::{Flow, Transport};
use crate::topology::Network;

/// UDP payloads that the transport takes for its full packets.
const MTU_BYTES: core::ops::RangeInclusive<u16> = 576..=65_527;

/// A transport, what it is for, and when.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFile {
    pub(super) name: String,
    start: Option<Span>,
    /// So many of them, each with a number behind its name.
    count: Option<u32>,
    /// Further delay of this flow alone, there and back.
    access_rtt: Option<Span>,
    /// Which path of the network, from 0; left out: all.
    path: Option<usize>,
    // One of these.
    tcp: Option<TcpFile>,
    ctcp: Option<CtcpFile>,
    #[serde(rename = "tcp-la")]
    tcp_la: Option<TcpFile>,
    #[serde(rename = "tcp-cd")]
    tcp_cd: Option<TcpFile>,
    constant: Option<ConstantFile>,
    #[serde(rename = "go-back-n")]
    go_back_n: Option<GoBackNFile>,
    #[serde(rename = "tcp-nc")]
    tcp_nc: Option<NcFile>,
    udp: Option<UdpFile>,
    // At most one of these; none: as much as goes.
    file: Option<FileFile>,
    web: Option<WebFile>,
    video: Option<VideoFile>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpFile {
    congestion: Option<String>,
    initial_window: Option<f64>,
    ss_threshold: Option<f64>,
    hystart: Option<bool>,
    recovery: Option<RecoveryFile>,
    abc: Option<u64>,
    delayed_ack: Option<bool>,
    limited_transmit: Option<bool>,
    ecn: Option<bool>,
    /// Segments.
    receive_window: Option<u64>,
    rto_min: Option<Span>,
    rto_max: Option<PositiveSpan>,
    paced: Option<bool>,
    handshake: Option<bool>,
    payload: Option<Bytes>,
    /// The kernel of the papers.
    linux_2_6_32: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecoveryFile {
    Sack,
    Newreno,
    Rack,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CtcpFile {
    congestion: Option<String>,
    redundancy: Option<RedundancyFile>,
    block: Option<u8>,
    ecn: Option<bool>,
    mtu: Option<u16>,
    ss_threshold: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RedundancyFile {
    Auto,
    Cc14,
    Mp12,
    TcpCd,
    None,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantFile {
    rate: Speed,
    aimd: Option<bool>,
    /// `[n, k]`.
    code: Option<[u64; 2]>,
    sack: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoBackNFile {
    window_max: Option<f64>,
    timeout: Option<PositiveSpan>,
    idle: Option<Span>,
    packet: Option<Bytes>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NcFile {
    redundancy: Option<f64>,
    window_max: Option<u64>,
    relay_redundancy: Option<f64>,
    congestion: Option<String>,
    packet: Option<Bytes>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct UdpFile {
    rate: Speed,
    on: Option<PositiveSpan>,
    off: Option<Span>,
    exponential: Option<bool>,
    packet: Option<Bytes>,
    stop: Option<Span>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFile {
    bytes: Bytes,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebFile {
    sizes: Vec<Bytes>,
    count: Option<u64>,
    think: Option<Span>,
    think_exponential: Option<PositiveSpan>,
    cold: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct VideoFile {
    rate: Speed,
    length: PositiveSpan,
    startup: Option<Span>,
    block: Option<Span>,
}

impl FlowFile {
    /// The flows; adds links for their access to the network.
    pub(super) fn build(&self, network: &mut Network) -> Result<Vec<Flow>, String> {
        let count = self.count.unwrap_or(1);
        if !(1..=10_000).contains(&count) {
            return Err(format!("`count` is {count}: it must be 1 to 10000"));
        }
        let transport = self.transport()?;
        let application = self.application()?;
        (0..count)
            .map(|index| {
                let name = match count {
                    1 => self.name.clone(),
                    _ => format!("{}{index}", self.name),
                };
                let mut flow = Flow::new(&name, transport.clone())
                    .application(application.clone())
                    .start(self.start.map_or(Duration::ZERO, |span| span.0));
                if let Some(path) = self.path {
                    let path = network.paths.get(path).cloned().ok_or_else(|| {
                        format!(
                            "`path` is {path}: the network has {} paths, counted from 0",
                            network.paths.len()
                        )
                    })?;
                    flow = flow.path(path);
                }
                if let Some(rtt) = self.access_rtt {
                    let place = self.path.unwrap_or(0);
                    flow.paths = vec![network.with_access(place, &name, rtt.0)];
                }
                Ok(flow)
            })
            .collect()
    }

    pub(super) fn transport(&self) -> Result<Transport, String> {
        let count = usize::from(self.tcp.is_some())
            + usize::from(self.ctcp.is_some())
            + usize::from(self.tcp_la.is_some())
            + usize::from(self.tcp_cd.is_some())
            + usize::from(self.constant.is_some())
            + usize::from(self.go_back_n.is_some())
            + usize::from(self.tcp_nc.is_some())
            + usize::from(self.udp.is_some());
        if count != 1 {
            return Err(
                "needs one of `tcp`, `ctcp`, `tcp-la`, `tcp-cd`, `constant`, `go-back-n`, \
                 `tcp-nc`, `udp`; `tcp = {}` will do"
                    .to_owned(),
            );
        }
        if let Some(tcp) = &self.tcp {
            return tcp.build(TcpConfig::default()).map(Transport::Tcp);
        }
        if let Some(tcp) = &self.tcp_la {
            return tcp.build(TcpConfig::tcp_la()).map(Transport::Tcp);
        }
        if let Some(tcp) = &self.tcp_cd {
            return tcp.build(TcpConfig::tcp_cd()).map(Transport::Tcp);
        }
        if let Some(ctcp) = &self.ctcp {
            return ctcp.build().map(Transport::Ctcp);
        }
        if let Some(constant) = &self.constant {
            return Ok(Transport::Tcp(constant.build()));
        }
        if let Some(gbn) = &self.go_back_n {
            return Ok(Transport::GoBackN(gbn.build()));
        }
        if let Some(nc) = &self.tcp_nc {
            return nc.build().map(Transport::Nc);
        }
        match &self.udp {
            Some(udp) => udp.build().map(Transport::Udp),
            None => Err("needs a transport".to_owned()),
        }
    }

    fn application(&self) -> Result<Application, String> {
        match (&self.file, &self.web, &self.video) {
            (None, None, None) => Ok(Application::Bulk),
            (Some(file), None, None) => Ok(Application::File {
                bytes: file.bytes.0,
            }),
            (None, Some(web), None) => Ok(Application::Web {
                sizes: web.sizes.iter().map(|size| size.0).collect(),
                count: web.count,
                think: match (web.think, web.think_exponential) {
                    (Some(_), Some(_)) => {
                        return Err("choose `think` or `think_exponential`".to_owned());
                    }
                    (None, Some(mean)) => Think::Exponential(mean.0),
                    (think, None) => Think::Fixed(think.map_or(Duration::ZERO, |span| span.0)),
                },
                is_cold: web.cold.unwrap_or(false),
            }),
            (None, None, Some(video)) => Ok(Application::Video {
                rate: video.rate.0,
                length: video.length.0,
                startup: video.startup.map_or(Duration::from_secs(1), |span| span.0),
                block: video
                    .block
                    .map_or(Duration::from_millis(600), |span| span.0),
            }),
            _ => Err("has at most one of `file`, `web`, `video`".to_owned()),
        }
    }
}

fn controller(name: &str) -> Result<String, String> {
    resolved_name(name)
        .map(str::to_owned)
        .map_err(|error| error.to_string())
}

/// At least 1, and a number.
fn at_least_one(name: &str, value: f64) -> Result<f64, String> {
    match value >= 1.0 {
        true => Ok(value),
        false => Err(format!("`{name}` is {value}: it must be 1 or more")),
    }
}

impl TcpFile {
    fn build(&self, mut config: TcpConfig) -> Result<TcpConfig, String> {
        if self.linux_2_6_32 == Some(true) {
            config = config.linux_2_6_32();
        }
        if let Some(name) = &self.congestion {
            config.congestion = controller(name)?;
        }
        if let Some(window) = self.initial_window {
            config.initial_window = at_least_one("initial_window", window)?;
        }
        if let Some(threshold) = self.ss_threshold {
            config.params.init_ss_threshold = at_least_one("ss_threshold", threshold)?;
        }
        if let Some(limit) = self.abc {
            config.params.ack_counting = match limit {
                0 => AckCounting::Acks,
                limit => AckCounting::SlowStartUpTo(limit),
            };
        }
        config.params.hystart = self.hystart.unwrap_or(config.params.hystart);
        if let Some(recovery) = self.recovery {
            config.recovery = match recovery {
                RecoveryFile::Sack => Recovery::Sack,
                RecoveryFile::Newreno => Recovery::NewReno,
                RecoveryFile::Rack => Recovery::Rack,
            };
        }
        config.is_ack_delayed = self.delayed_ack.unwrap_or(config.is_ack_delayed);
        config.has_limited_transmit = self.limited_transmit.unwrap_or(config.has_limited_transmit);
        config.is_ecn_enabled = self.ecn.unwrap_or(config.is_ecn_enabled);
        config.has_handshake = self.handshake.unwrap_or(config.has_handshake);
        config.receive_window = self.receive_window.or(config.receive_window);
        config.is_paced = self.paced.or(config.is_paced);
        if let Some(span) = self.rto_min {
            config.rto_min = span.0;
        }
        if let Some(span) = self.rto_max {
            config.rto_max = span.0;
        }
        if config.rto_min > config.rto_max {
            return Err(format!(
                "`rto_min` is {:?}: it must not exceed `rto_max`, {:?}",
                config.rto_min, config.rto_max
            ));
        }
        if let Some(bytes) = self.payload {
            config.payload_bytes = length(bytes)?;
        }
        Ok(config)
    }
}

/// Length of a packet.
fn length(bytes: Bytes) -> Result<u32, String> {
    match bytes.0 {
        1..=65_535 => Ok(bytes.0 as u32),
        other => Err(format!("a packet of {other} bytes: it must be 1 to 65535")),
    }
}

impl CtcpFile {
    fn build(&self) -> Result<CtcpConfig, String> {
        let mut config = CtcpConfig::default();
        if let Some(name) = &self.congestion {
            config.congestion = controller(name)?;
        }
        if let Some(redundancy) = self.redundancy {
            config.redundancy = match redundancy {
                RedundancyFile::Auto => Redundancy::Auto,
                RedundancyFile::Cc14 => Redundancy::Cc14,
                RedundancyFile::Mp12 => Redundancy::Mp12,
                RedundancyFile::TcpCd => Redundancy::TcpCd,
                RedundancyFile::None => Redundancy::None,
            };
        }
        if let Some(threshold) = self.ss_threshold {
            config.params = Params {
                init_ss_threshold: at_least_one("ss_threshold", threshold)?,
                ..config.params
            };
        }
        config.block_symbols = self.block.unwrap_or(config.block_symbols);
        if config.block_symbols == 0 {
            return Err("`block` is 0: it must be 1 to 255 symbols".to_owned());
        }
        config.is_ecn_enabled = self.ecn.unwrap_or(config.is_ecn_enabled);
        config.mtu_bytes = self.mtu.or(config.mtu_bytes);
        match config.mtu_bytes {
            Some(bytes) if !MTU_BYTES.contains(&bytes) => Err(format!(
                "`mtu` is {bytes}: it must be {} to {} bytes of UDP payload",
                MTU_BYTES.start(),
                MTU_BYTES.end()
            )),
            _ => Ok(config),
        }
    }
}

impl ConstantFile {
    fn build(&self) -> TcpConfig {
        let rate = ConstantRate {
            rate: self.rate.0,
            has_aimd: self.aimd.unwrap_or(false),
        };
        let coding = self
            .code
            .map_or(Coding::None, |[n, k]| Coding::Fixed { n, k });
        let mut config = TcpConfig::constant(rate, coding);
        if self.sack == Some(false) {
            config.recovery = Recovery::NewReno;
        }
        config
    }
}

impl GoBackNFile {
    fn build(&self) -> GoBackNConfig {
        let base = GoBackNConfig::default();
        GoBackNConfig {
            window_max: self.window_max.unwrap_or(base.window_max),
            timeout: self.timeout.map_or(base.timeout, |span| span.0),
            idle: self.idle.map_or(base.idle, |span| span.0),
            packet_bytes: self.packet.map_or(base.packet_bytes, |one| {
                u32::try_from(one.0).unwrap_or(u32::MAX)
            }),
            ..base
        }
    }
}

impl NcFile {
    fn build(&self) -> Result<NcConfig, String> {
        let base = NcConfig::default();
        Ok(NcConfig {
            redundancy: self.redundancy.unwrap_or(base.redundancy),
            window_max: self.window_max.unwrap_or(base.window_max),
            relay_redundancy: self.relay_redundancy,
            congestion: match &self.congestion {
                Some(name) => controller(name)?,
                None => base.congestion.clone(),
            },
            packet_bytes: match self.packet {
                Some(bytes) => length(bytes)?,
                None => base.packet_bytes,
            },
            ..base
        })
    }
}

impl UdpFile {
    fn build(&self) -> Result<UdpConfig, String> {
        let pattern = match (self.on, self.off, self.exponential.unwrap_or(false)) {
            (None, None, false) => UdpPattern::Constant,
            (None, None, true) => UdpPattern::Exponential,
            (Some(on), Some(off), false) => UdpPattern::OnOff {
                on: on.0,
                off: off.0,
            },
            _ => return Err("udp: `on` and `off` go together, without `exponential`".to_owned()),
        };
        Ok(UdpConfig {
            rate: self.rate.0,
            pattern,
            packet_bytes: match self.packet {
                Some(bytes) => length(bytes)?,
                None => 1500,
            },
            stop: self.stop.map(|span| span.0),
        })
    }
}

//! The table of what can be set of a link, and how its values are written.

use ctcp_link::{Outage, QueueSize, RateTrace};
use ctcp_units::{Duration, LossRate, Rate};

use crate::values;

/// One value of one option.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    Rate(Rate),
    RateTrace(RateTrace),
    Delay(Duration),
    /// Half of it is each direction's delay.
    Rtt(Duration),
    Loss(LossRate),
    LossAfter(LossRate),
    Burst(f64),
    Queue(Queue),
    Jitter(Duration),
    Reorder(LossRate, Duration),
    Duplicate(LossRate),
    Corrupt(LossRate),
    Outage(Outage),
    Ecn(QueueSize),
    Mtu(u32),
}

/// A queue's length, as the user gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Queue {
    /// Bandwidth-delay products.
    Bdp(f64),
    Size(QueueSize),
}

/// One line of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    pub(super) parse: fn(&str) -> Result<Setting, String>,
    /// May be given several times.
    pub(super) repeats: bool,
    /// Has no --up- and --down- forms.
    pub(super) is_of_both: bool,
}

impl Row {
    const fn new(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        parse: fn(&str) -> Result<Setting, String>,
    ) -> Self {
        Self {
            name,
            value,
            help,
            parse,
            repeats: false,
            is_of_both: false,
        }
    }
}

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "rate",
        "RATE",
        "Rate limit, such as 25mbit; none: unlimited",
        |text| rate(text).map(Setting::Rate),
    ),
    Row::new(
        "rate-trace",
        "FILE",
        "Rate limit that varies as a mahimahi trace says: a line per 1500-byte delivery, in ms",
        rate_trace,
    ),
    Row::new(
        "delay",
        "TIME",
        "Propagation delay of one direction, such as 12.5ms",
        |text| values::duration(text).map(Setting::Delay),
    ),
    Row {
        is_of_both: true,
        ..Row::new(
            "rtt",
            "TIME",
            "Round trip: each direction gets half of it as its delay",
            |text| values::duration(text).map(Setting::Rtt),
        )
    },
    Row::new(
        "loss",
        "SHARE",
        "Share of packets lost before the rate limit, such as 5%",
        |text| text.parse().map(Setting::Loss),
    ),
    Row::new(
        "loss-after",
        "SHARE",
        "Share lost behind the rate limit, where they have used capacity",
        |text| text.parse().map(Setting::LossAfter),
    ),
    Row::new(
        "burst",
        "PACKETS",
        "Losses come in bursts of this mean length (Gilbert–Elliott)",
        burst,
    ),
    Row::new(
        "queue",
        "LENGTH",
        "Queue before the rate limit: 1bdp, 100 (packets) or 64kB [default: 1bdp]",
        |text| queue(text).map(Setting::Queue),
    ),
    Row::new(
        "jitter",
        "TIME",
        "Random extra delay up to this; packets keep their order",
        |text| values::duration(text).map(Setting::Jitter),
    ),
    Row::new(
        "reorder",
        "SHARE:TIME",
        "Hold this share of packets back for this long, such as 5%:10ms",
        reorder,
    ),
    Row::new(
        "duplicate",
        "SHARE",
        "Share of packets that arrive twice",
        |text| text.parse().map(Setting::Duplicate),
    ),
    Row::new(
        "corrupt",
        "SHARE",
        "Share of packets that arrive with bits flipped",
        |text| text.parse().map(Setting::Corrupt),
    ),
    Row {
        repeats: true,
        ..Row::new(
            "outage",
            "LENGTH@START",
            "Lose everything for LENGTH from START on, such as 3s@10s; may be repeated",
            |text| outage(text).map(Setting::Outage),
        )
    },
    Row::new(
        "ecn",
        "LENGTH",
        "Mark ECN-capable packets when the queue is longer than this: 30 (packets) or 45kB",
        |text| size(text).map(Setting::Ecn),
    ),
    Row::new(
        "link-mtu",
        "BYTES",
        "Drop packets longer than this, IP header included",
        |text| {
            let bytes = text
                .parse()
                .map_err(|_| format!("`{text}` is not a number of bytes"))?;
            Ok(Setting::Mtu(bytes))
        },
    ),
];

fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text
        .parse()
        .map_err(|e: ctcp_units::ParseRateError| e.to_string())?;
    if rate.is_zero() {
        return Err(format!(
            "`{text}` passes nothing: say --loss 100% or --outage for that"
        ));
    }
    Ok(rate)
}

fn rate_trace(path: &str) -> Result<Setting, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the rate trace {path}: {error}"))?;
    RateTrace::parse(&text)
        .map(Setting::RateTrace)
        .map_err(|error| format!("{path} is not a rate trace: {error}"))
}

fn burst(text: &str) -> Result<Setting, String> {
    match text.parse::<f64>() {
        Ok(packets) if packets >= 1.0 && packets.is_finite() => Ok(Setting::Burst(packets)),
        _ => Err(format!(
            "`{text}` is not a burst length: write a number of packets from 1 on"
        )),
    }
}

fn queue(text: &str) -> Result<Queue, String> {
    match values::split_unit(text.trim()) {
        Some((count, "bdp")) => Ok(Queue::Bdp(count)),
        _ => size(text)
            .map(Queue::Size)
            .map_err(|_| format!("`{text}` is not a queue: write 1bdp, 100 (packets) or 64kB")),
    }
}

fn size(text: &str) -> Result<QueueSize, String> {
    match text.trim().parse() {
        Ok(packets) => Ok(QueueSize::Packets(packets)),
        Err(_) => values::bytes(text)
            .map(QueueSize::Bytes)
            .map_err(|_| format!("`{text}` is not a length: write 30 (packets) or 45kB")),
    }
}

fn reorder(text: &str) -> Result<Setting, String> {
    let (share, time) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not SHARE:TIME: write for example 5%:10ms"))?;
    Ok(Setting::Reorder(share.parse()?, values::duration(time)?))
}

fn outage(text: &str) -> Result<Outage, String> {
    let (length, start) = text
        .split_once('@')
        .ok_or_else(|| format!("`{text}` is not LENGTH@START: write for example 3s@10s"))?;
    let start = values::duration(start)?;
    let end = start + values::duration(length)?;
    Ok(Outage { start, end })
}

/// Which directions a setting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Both,
    Up,
    Down,
}

impl Way {
    /// Splits `up-` or `down-` off a name.
    pub(super) fn split(name: &str) -> (Self, &str) {
        match name.split_once('-') {
            Some(("up", rest)) => (Self::Up, rest),
            Some(("down", rest)) => (Self::Down, rest),
            _ => (Self::Both, name),
        }
    }
}

/// Reads the value of the setting `name`, as `--name VALUE` would.
pub(super) fn read(way: Way, name: &str, value: &str) -> Result<Setting, String> {
    let rows = || {
        ROWS.iter()
            .filter(|row| way == Way::Both || !row.is_of_both)
    };
    let Some(row) = rows().find(|row| row.name == name) else {
        let names: Vec<_> = rows().map(|row| row.name).collect();
        let names = names.join(", ");
        return Err(format!(
            "`{name}` is no setting of a path: there are {names}"
        ));
    };
    (row.parse)(value).map_err(|error| format!("{name}: {error}"))
}

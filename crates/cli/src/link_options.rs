//! Options that describe a path: one table, used for both directions together
//! (`--loss`) and for each by itself (`--up-loss`, `--down-loss`).

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use ctcp_link::{
    ConfigError, EcnMarking, GilbertElliott, Jitter, LinkConfig, LossModel, Outage, QueueSize,
};
use ctcp_units::{Duration, LossRate, Rate};

use crate::values;

/// One value of one option.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Setting {
    Rate(Rate),
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
enum Queue {
    /// Bandwidth-delay products.
    Bdp(f64),
    Size(QueueSize),
}

struct Row {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    parse: fn(&str) -> Result<Setting, String>,
    /// May be given several times.
    repeats: bool,
    /// Has no --up- and --down- forms.
    is_of_both: bool,
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

const ROWS: &[Row] = &[
    Row::new(
        "rate",
        "RATE",
        "Rate limit, such as 25mbit; none: unlimited",
        |text| rate(text).map(Setting::Rate),
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

/// Settings of both directions, then of each by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkOptions {
    both: Vec<Setting>,
    up: Vec<Setting>,
    down: Vec<Setting>,
}

const PREFIXES: [&str; 3] = ["", "up-", "down-"];

fn id(prefix: &str, row: &Row) -> String {
    format!("{prefix}{}", row.name)
}

impl Args for LinkOptions {
    fn augment_args(command: Command) -> Command {
        let mut command = command;
        for prefix in PREFIXES {
            for row in ROWS
                .iter()
                .filter(|row| prefix.is_empty() || !row.is_of_both)
            {
                let name = id(prefix, row);
                let env = format!("CTCP_{}", name.to_uppercase().replace('-', "_"));
                let (heading, help) = match prefix {
                    "" => ("The path, both directions", row.help.to_owned()),
                    "up-" => ("Towards the server", format!("--{} there", row.name)),
                    _ => ("Towards the client", format!("--{} there", row.name)),
                };
                let action = if row.repeats {
                    ArgAction::Append
                } else {
                    ArgAction::Set
                };
                command = command.arg(
                    Arg::new(name.clone())
                        .long(name)
                        .value_name(row.value)
                        .help(help)
                        .help_heading(heading)
                        .env(env)
                        .hide_env(true)
                        .action(action)
                        .value_parser(ValueParser::new(row.parse)),
                );
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LinkOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let settings = |prefix: &str| {
            let rows = ROWS
                .iter()
                .filter(|row| prefix.is_empty() || !row.is_of_both);
            let given = rows.filter_map(|row| matches.get_many::<Setting>(&id(prefix, row)));
            given.flatten().copied().collect()
        };
        self.both = settings("");
        self.up = settings("up-");
        self.down = settings("down-");
        Ok(())
    }
}

/// What a direction has unless an option says otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub(crate) rate: Option<Rate>,
    pub(crate) rtt: Duration,
    pub(crate) loss: LossRate,
}

/// One direction, before the queue's length is known in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Direction {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Duration,
    pub(crate) loss: LossRate,
    loss_after: LossRate,
    pub(crate) burst: Option<f64>,
    queue: Queue,
    jitter: Duration,
    reorder: Option<(LossRate, Duration)>,
    duplicate: LossRate,
    corrupt: LossRate,
    outages: Vec<Outage>,
    ecn: Option<QueueSize>,
    mtu: Option<u32>,
}

impl Direction {
    fn new(defaults: Defaults) -> Self {
        Self {
            rate: defaults.rate,
            delay: defaults.rtt / 2,
            loss: defaults.loss,
            loss_after: LossRate::ZERO,
            burst: None,
            queue: Queue::Bdp(1.0),
            jitter: Duration::ZERO,
            reorder: None,
            duplicate: LossRate::ZERO,
            corrupt: LossRate::ZERO,
            outages: Vec::new(),
            ecn: None,
            mtu: None,
        }
    }

    fn apply(&mut self, setting: Setting) {
        match setting {
            Setting::Rate(rate) => self.rate = Some(rate),
            Setting::Delay(delay) => self.delay = delay,
            Setting::Rtt(rtt) => self.delay = rtt / 2,
            Setting::Loss(loss) => self.loss = loss,
            Setting::LossAfter(loss) => self.loss_after = loss,
            Setting::Burst(packets) => self.burst = Some(packets),
            Setting::Queue(queue) => self.queue = queue,
            Setting::Jitter(most) => self.jitter = most,
            Setting::Reorder(share, time) => self.reorder = Some((share, time)),
            Setting::Duplicate(share) => self.duplicate = share,
            Setting::Corrupt(share) => self.corrupt = share,
            Setting::Outage(outage) => self.outages.push(outage),
            Setting::Ecn(threshold) => self.ecn = Some(threshold),
            Setting::Mtu(bytes) => self.mtu = Some(bytes),
        }
    }

    fn loss_model(&self, mean: LossRate) -> Result<Option<LossModel>, ConfigError> {
        if mean == LossRate::ZERO {
            return Ok(None);
        }
        Ok(Some(match self.burst {
            Some(packets) => {
                LossModel::GilbertElliott(GilbertElliott::from_mean_and_burst(mean, packets)?)
            }
            None => LossModel::Bernoulli(mean),
        }))
    }

    /// The link, for a path of this round trip.
    fn config(&self, rtt: Duration) -> Result<LinkConfig, ConfigError> {
        let mut link = match self.rate {
            Some(rate) => LinkConfig::new(rate, self.delay),
            None => LinkConfig::unlimited(self.delay),
        };
        link = match self.queue {
            Queue::Bdp(count) => link.queue_bdp(count, rtt),
            Queue::Size(size) => link.queue(size),
        };
        if let Some(model) = self.loss_model(self.loss)? {
            link = link.loss(model);
        }
        if let Some(model) = self.loss_model(self.loss_after)? {
            link = link.loss_after(model);
        }
        if !self.outages.is_empty() {
            let mut outages = self.outages.clone();
            outages.sort_by_key(|outage| outage.start);
            link = link.loss(LossModel::Outages(outages));
        }
        if !self.jitter.is_zero() {
            link = link.jitter(Jitter::Uniform { max: self.jitter });
        }
        if let Some((share, extra)) = self.reorder {
            link = link.reordering(share.share(), extra);
        }
        link.ecn = self.ecn.map(|threshold| EcnMarking {
            threshold,
            drops_not_capable: false,
        });
        link.mtu_bytes = self.mtu;
        let link = link
            .duplication(self.duplicate.share())
            .corruption(self.corrupt.share());
        link.validate()?;
        Ok(link)
    }
}

/// A path: towards the server, and back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathSpec {
    pub(crate) up: Direction,
    pub(crate) down: Direction,
}

impl LinkOptions {
    /// The path that the options describe.
    ///
    /// `--rtt` and `--delay` name the same thing; the later row of the table
    /// wins, so `--rtt` does.
    pub(crate) fn path(&self, defaults: Defaults) -> PathSpec {
        let direction = |own: &[Setting]| {
            let mut direction = Direction::new(defaults);
            for &setting in self.both.iter().chain(own) {
                direction.apply(setting);
            }
            direction
        };
        PathSpec {
            up: direction(&self.up),
            down: direction(&self.down),
        }
    }
}

impl PathSpec {
    /// The round trip of an empty path.
    pub(crate) fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Both links.
    ///
    /// # Errors
    /// A value that makes no sense, with the direction that has it.
    pub(crate) fn links(&self) -> Result<(LinkConfig, LinkConfig), String> {
        let rtt = self.rtt();
        let up = self.up.config(rtt).map_err(|e| format!("link up: {e}"))?;
        let down = self
            .down
            .config(rtt)
            .map_err(|e| format!("link down: {e}"))?;
        Ok((up, down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::millis;

    fn parse(args: &[&str]) -> Result<LinkOptions, clap::Error> {
        let command = LinkOptions::augment_args(Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(args)?;
        LinkOptions::from_arg_matches(&matches)
    }

    #[test]
    fn both_directions_are_set_together_and_each_by_itself() {
        let options = parse(&[
            "--rate",
            "25mbit",
            "--rtt",
            "25ms",
            "--loss",
            "5%",
            "--up-loss",
            "1%",
            "--down-rate",
            "100mbit",
        ])
        .expect("well formed");
        let path = options.path(Defaults::default());
        assert_eq!(path.up.loss, LossRate::clamped(0.01));
        assert_eq!(path.down.loss, LossRate::clamped(0.05));
        assert_eq!(path.up.rate, Some(Rate::mbit(25)));
        assert_eq!(path.down.rate, Some(Rate::mbit(100)));
        assert_eq!(path.rtt(), millis(25));
        let (up, down) = path.links().expect("possible");
        assert_eq!(up.queue, QueueSize::Bytes(78_125));
        assert_eq!(down.queue, QueueSize::Bytes(312_500));
    }

    #[test]
    fn every_kind_of_trouble_reaches_the_link() {
        let options = parse(&[
            "--rate",
            "10mbit",
            "--delay",
            "5ms",
            "--loss",
            "2%",
            "--burst",
            "8",
            "--queue",
            "40",
            "--jitter",
            "1ms",
            "--reorder",
            "5%:10ms",
            "--duplicate",
            "1%",
            "--corrupt",
            "0.01",
            "--outage",
            "3s@10s",
            "--outage",
            "1s@2s",
            "--ecn",
            "30",
            "--link-mtu",
            "1400",
            "--loss-after",
            "1%",
        ])
        .expect("well formed");
        let (up, down) = options.path(Defaults::default()).links().expect("possible");
        assert_eq!(up, down);
        assert_eq!(up.losses.len(), 3);
        assert_eq!(up.queue, QueueSize::Packets(40));
        assert_eq!(up.mtu_bytes, Some(1400));
        assert!(up.reordering.is_some() && up.ecn.is_some());
        let LossModel::Outages(outages) = &up.losses[2].model else {
            panic!("{:?}", up.losses);
        };
        assert!(outages[0].start < outages[1].start);
    }

    #[test]
    fn a_bad_value_is_named_with_one_that_would_do() {
        for (args, part) in [
            (["--rate", "fast"], "25mbit"),
            (["--rate", "0mbit"], "--outage"),
            (["--loss", "5"], "0% to 100%"),
            (["--reorder", "5%"], "5%:10ms"),
            (["--outage", "3s"], "3s@10s"),
            (["--queue", "long"], "1bdp"),
            (["--burst", "0"], "from 1 on"),
        ] {
            let error = parse(&args).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.contains(args[1]), "{error}");
        }
    }
}

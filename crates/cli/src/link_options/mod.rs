//! Options that describe a path: one table, used for both directions together
//! (`--loss`) and for each by itself (`--up-loss`, `--down-loss`), for a path of
//! its own (`--path loss=5%`), and for changes under way (`loss 5%`).

mod path;
mod setting;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

pub(crate) use path::{Defaults, Direction, PathSpec};
pub(crate) use setting::Way;
use setting::{ROWS, Row, Setting};

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
            given.flatten().cloned().collect()
        };
        self.both = settings("");
        self.up = settings("up-");
        self.down = settings("down-");
        Ok(())
    }
}

impl LinkOptions {
    /// The path that the options describe.
    ///
    /// `--rtt` and `--delay` name the same thing; the later row of the table
    /// wins, so `--rtt` does.
    pub(crate) fn path(&self, defaults: Defaults) -> PathSpec {
        let direction = |own: &[Setting]| {
            let mut direction = Direction::new(defaults);
            for setting in self.both.iter().chain(own) {
                direction.apply(setting.clone());
            }
            direction
        };
        PathSpec {
            up: direction(&self.up),
            down: direction(&self.down),
        }
    }

    /// These options, with what `spec` says instead: settings as on the command
    /// line without the dashes, such as `rate=10mbit,rtt=40ms,up-loss=1%`.
    ///
    /// # Errors
    /// What is wrong with the first setting that is.
    pub(crate) fn with(&self, spec: &str) -> Result<Self, String> {
        let mut options = self.clone();
        for part in spec.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` is not NAME=VALUE: write for example rate=10mbit,rtt=40ms")
            })?;
            let (way, name) = Way::split(name.trim());
            let setting = setting::read(way, name, value.trim())?;
            match way {
                Way::Both => &mut options.both,
                Way::Up => &mut options.up,
                Way::Down => &mut options.down,
            }
            .push(setting);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_link::{LinkConfig, LossModel, QueueSize, RateLimit};
    use ctcp_units::{LossRate, Rate, millis, seconds};

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
    fn a_path_of_its_own_says_what_differs() {
        let common = parse(&["--rate", "10mbit", "--rtt", "20ms", "--up-loss", "1%"]);
        let common = common.expect("well formed");
        let options = common
            .with("rate=5mbit, down-loss=2%")
            .expect("well formed");
        let path = options.path(Defaults::default());
        assert_eq!(path.up.rate, Some(Rate::mbit(5)));
        assert_eq!(path.rtt(), millis(20));
        assert_eq!(path.up.loss, LossRate::clamped(0.01));
        assert_eq!(path.down.loss, LossRate::clamped(0.02));
        for (spec, part) in [
            ("rate", "NAME=VALUE"),
            ("speed=1mbit", "there are rate, "),
            ("up-rtt=1ms", "`rtt` is no setting"),
            ("loss=5", "0% to 100%"),
        ] {
            let error = common.with(spec).expect_err(spec);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_setting_changes_one_direction_or_both() {
        let options = parse(&["--rate", "10mbit", "--outage", "1s@1s"]).expect("well formed");
        let mut path = options.path(Defaults::default());
        path.set(Way::Up, "loss", "5%").expect("a share");
        path.set(Way::Both, "rate", "2mbit").expect("a rate");
        path.set(Way::Down, "outage", "2s@0s").expect("an outage");
        assert_eq!(path.up.loss, LossRate::clamped(0.05));
        assert_eq!(path.down.loss, LossRate::ZERO);
        assert_eq!(path.down.rate, Some(Rate::mbit(2)));
        let (up, down) = path.links().expect("possible");
        let outages = |link: &LinkConfig| {
            let stages = link.losses.iter();
            let found = stages.filter_map(|stage| match &stage.model {
                LossModel::Outages(outages) => Some(outages[0].start),
                _ => None,
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!(outages(&up), [seconds(1)]);
        assert_eq!(outages(&down), [seconds(0)]);
        let before = path.clone();
        assert!(path.set(Way::Up, "rate", "fast").is_err());
        assert_eq!(path, before);
    }

    #[test]
    fn a_rate_trace_limits_instead_of_a_rate() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "1\n").expect("written");
        let name = file.path().to_str().expect("UTF-8");
        let options = parse(&["--rate", "5mbit", "--up-rate-trace", name]);
        let path = options.expect("well formed").path(Defaults::default());
        let (up, down) = path.links().expect("possible");
        assert!(matches!(up.rate, RateLimit::Trace(_)), "{up:?}");
        assert_eq!(path.up.rate, Some(Rate::mbit(12)));
        assert_eq!(down.rate, RateLimit::Fixed(Rate::mbit(5)));
        std::fs::write(file.path(), "1\nx\n").expect("written");
        let error = parse(&["--rate-trace", name])
            .expect_err("refused")
            .to_string();
        assert!(error.contains("line 2"), "{error}");
        let error = parse(&["--rate-trace", "/no/such"])
            .expect_err("refused")
            .to_string();
        assert!(error.contains("/no/such"), "{error}");
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

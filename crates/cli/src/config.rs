//! `--config FILE`: any option of a command that talks to a peer from a TOML file:
//! `ctcp server`, `client`, `connect`, `send`, `receive`, `ping`, `speedtest`.
//!
//! A key is an option's name without its dashes: `listen = "0.0.0.0:4500"`. Keys
//! outside tables hold for every command; `[server]`, `[client]` and so on for that one.
//! The command line wins, then the environment, then the file, then the default. What
//! wins also rules out what cannot stand beside it.
//!
//! What the file says is put among the arguments, where neither the command line
//! nor the environment says anything: it goes through the same checks as if it
//! had been typed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::ArgAction;
use clap::{Arg, Args, Command};
use toml::{Table, Value};

use crate::failure::Failure;
use crate::output::print_line;

/// The option that names the file.
const OPTION: &str = "config";
const VARIABLE: &str = "CTCP_CONFIG";

/// Where the options are that the command line does not give.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// Take options from this TOML file where neither command line nor environment
    /// gives them; `ctcp check-config FILE` checks one
    #[arg(long, value_name = "FILE", env = VARIABLE)]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `ctcp check-config`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The arguments with those of the file among them, if one is named.
pub(crate) fn expand(
    command: &Command,
    args: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let typed = args.iter().skip(1).take_while(|arg| *arg != "--");
    let Some(place) = typed
        .clone()
        .position(|arg| command.find_subcommand(arg).is_some())
    else {
        return Ok(args);
    };
    // Behind the program's own name.
    let place = place + 1;
    let Some(sub) = command.find_subcommand(&args[place]).filter(is_configured) else {
        return Ok(args);
    };
    let Some(path) = named_file(typed).or_else(|| variable(VARIABLE)) else {
        return Ok(args);
    };
    let file = File::read(Path::new(&path))?;
    file.check(command)?;
    let is_given = |arg: &Arg| {
        let by_variable = arg.get_env().and_then(|name| variable(name.to_str()?));
        by_variable.is_some() || args[1..].iter().any(|typed| names(typed, arg))
    };
    let is_ruled_out = |arg: &Arg| {
        sub.get_arguments()
            .any(|other| is_given(other) && exclude(sub, arg, other))
    };
    let mut more = Vec::new();
    for (key, value) in file.of(sub.get_name()) {
        // Of the keys that hold for every command, some are of others.
        let arg = option(sub, key).filter(|arg| !is_given(arg) && !is_ruled_out(arg));
        if let Some(arg) = arg {
            more.extend(arguments(arg, value).map_err(|error| file.failure(key, &error))?);
        }
    }
    let mut expanded = args;
    expanded.splice(place + 1..place + 1, more);
    Ok(expanded)
}

/// Says what is wrong with a file, or for which commands it is good.
pub(crate) fn check(args: &CheckArgs, command: &Command) -> Result<(), Failure> {
    let file = File::read(&args.file)?;
    file.check(command)?;
    let commands: Vec<&str> = command
        .get_subcommands()
        .filter(is_configured)
        .map(Command::get_name)
        .filter(|name| file.concerns(command, name))
        .collect();
    for name in &commands {
        let mut line: Vec<OsString> = vec!["ctcp".into(), name.into()];
        line.extend(["--config".into(), args.file.clone().into()]);
        let mut line = expand(command, line, |_| None)?;
        // What a file cannot say must not count as missing.
        let sub = command.find_subcommand(name);
        if sub.is_some_and(|sub| sub.get_positionals().any(Arg::is_required_set)) {
            line.push("checked.invalid:1".into());
        }
        if let Err(error) = command.clone().try_get_matches_from(line) {
            let error = error.to_string();
            let error = error.split("\n\n").next().unwrap_or_default();
            let error = error.trim_start_matches("error: ");
            return Err(Failure::usage(format!(
                "{}, as options of `ctcp {name}`: {error}",
                args.file.display()
            )));
        }
    }
    let commands = if commands.is_empty() {
        "it says nothing".to_owned()
    } else {
        commands.join(", ")
    };
    print_line(&format!("{}: good ({commands})", args.file.display()));
    Ok(())
}

/// It can take its options from a file.
fn is_configured(command: &&Command) -> bool {
    option(command, OPTION).is_some()
}

/// The option of this long name.
fn option<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    let name = key.replace('_', "-");
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(&name))
}

/// Whether two arguments cannot be given together.
fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let names = |arg: &Arg, other: &Arg| {
        let conflicts = command.get_arg_conflicts_with(arg);
        conflicts
            .iter()
            .any(|found| found.get_id() == other.get_id())
    };
    names(one, other) || names(other, one)
}

/// Whether a typed argument gives this option.
fn names(typed: &OsStr, arg: &Arg) -> bool {
    let (Some(typed), Some(long)) = (typed.to_str(), arg.get_long()) else {
        return false;
    };
    let name = typed.split_once('=').map_or(typed, |(name, _)| name);
    name.strip_prefix("--") == Some(long)
}

/// The file that the command line names.
fn named_file<'a>(typed: impl Iterator<Item = &'a OsString>) -> Option<OsString> {
    let mut typed = typed;
    while let Some(arg) = typed.next() {
        if arg == "--config" {
            return typed.next().cloned();
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

/// What would have been typed.
fn arguments(arg: &Arg, value: &Value) -> Result<Vec<OsString>, String> {
    let long = arg.get_long().expect("it was found by its long name");
    let takes_many = matches!(arg.get_action(), ArgAction::Append);
    let takes_value = arg.get_action().takes_values();
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        other => Err(format!("a {} is not what it takes", other.type_str())),
    };
    let typed = |text: String| OsString::from(format!("--{long}={text}"));
    match value {
        Value::Boolean(is_set) if !takes_value => {
            let flag = OsString::from(format!("--{long}"));
            Ok(is_set.then_some(flag).into_iter().collect())
        }
        _ if !takes_value => Err("it is true or false".to_owned()),
        Value::Array(values) if takes_many => {
            values.iter().map(|value| text(value).map(typed)).collect()
        }
        Value::Array(_) => Err("it takes one value, not a list".to_owned()),
        value => Ok(vec![typed(text(value)?)]),
    }
}

struct File {
    path: PathBuf,
    table: Table,
}

impl File {
    fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("cannot read the configuration {shown}: {error}"))
        })?;
        let table = text
            .parse()
            .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
        Ok(Self {
            path: path.to_owned(),
            table,
        })
    }

    fn failure(&self, key: &str, error: &str) -> Failure {
        Failure::usage(format!("{}: {key}: {error}", self.path.display()))
    }

    /// What holds for a command; what its own table says comes first.
    fn of<'a>(&'a self, command: &str) -> Vec<(&'a String, &'a Value)> {
        let own = self.table.get(command).and_then(Value::as_table);
        let own: Vec<_> = own.into_iter().flatten().collect();
        let common = self.table.iter().filter(|(key, value)| {
            !value.is_table() && own.iter().all(|(known, _)| !is_same(known, key))
        });
        own.iter().copied().chain(common).collect()
    }

    /// Whether it says anything to a command, and nothing outside tables that the
    /// command does not know.
    fn concerns(&self, command: &Command, name: &str) -> bool {
        let has_table = self.table.get(name).is_some_and(Value::is_table);
        let mut common = self.table.iter().filter(|(_, value)| !value.is_table());
        let sub = command.find_subcommand(name);
        has_table
            || self.table.values().all(|value| !value.is_table())
                && !self.table.is_empty()
                && common.all(|(key, _)| sub.is_some_and(|sub| option(sub, key).is_some()))
    }

    /// Every key is an option of a command that may have it.
    fn check(&self, command: &Command) -> Result<(), Failure> {
        let configured: Vec<&Command> = command.get_subcommands().filter(is_configured).collect();
        for (key, value) in &self.table {
            match value {
                Value::Table(table) => {
                    let Some(sub) = configured.iter().find(|sub| sub.get_name() == key) else {
                        let names = configured.iter().map(|sub| sub.get_name().to_owned());
                        return Err(self.unknown(&format!("[{key}]"), key, names));
                    };
                    for key in table.keys() {
                        self.check_key(key, &[sub])?;
                    }
                }
                _ => self.check_key(key, &configured)?,
            }
        }
        Ok(())
    }

    fn check_key(&self, key: &str, commands: &[&Command]) -> Result<(), Failure> {
        if is_same(key, OPTION) {
            return Err(self.failure(key, "a file does not name another"));
        }
        if commands
            .iter()
            .any(|command| option(command, key).is_some())
        {
            return Ok(());
        }
        let known = commands.iter().flat_map(|command| {
            let longs = command.get_arguments().filter_map(Arg::get_long);
            longs.map(str::to_owned)
        });
        Err(self.unknown(key, key, known))
    }

    fn unknown(&self, shown: &str, name: &str, known: impl Iterator<Item = String>) -> Failure {
        let name = name.replace('_', "-");
        let likeness = |other: &String| strsim::jaro_winkler(&name, other);
        let nearest = known
            .filter(|other| likeness(other) > 0.75)
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = nearest.map_or_else(
            || "`ctcp COMMAND --help` lists the options".to_owned(),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        self.failure(shown, &format!("there is no such option; {hint}"))
    }
}

/// Keys may be written with underscores, too.
fn is_same(a: &str, b: &str) -> bool {
    a.replace('_', "-") == b.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Write;

    #[derive(Debug, Parser, PartialEq)]
    struct Cli {
        #[arg(short, long, global = true, action = ArgAction::Count)]
        verbose: u8,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand, PartialEq)]
    enum Sub {
        Server {
            #[arg(long)]
            config: Option<PathBuf>,
            #[arg(long, env = "CTCP_TEST_LISTEN", default_value = "default")]
            listen: String,
            #[arg(long)]
            egress_allow: Vec<String>,
            #[arg(long)]
            json: bool,
        },
        Client {
            #[arg(long)]
            config: Option<PathBuf>,
            #[arg(long, default_value = "1080")]
            socks: u16,
            #[arg(long, conflicts_with = "socks")]
            redirect: Option<u16>,
        },
        Other,
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("writable");
        file
    }

    fn expanded(
        text: &str,
        words: &[&str],
        variable: Option<&str>,
    ) -> Result<Vec<String>, Failure> {
        use clap::CommandFactory;
        let file = file(text);
        let mut args: Vec<OsString> = vec!["ctcp".into()];
        args.extend(words.iter().map(OsString::from));
        args.extend(["--config".into(), file.path().into()]);
        let variable = |name: &str| {
            let is_asked = name == "CTCP_TEST_LISTEN";
            variable.filter(|_| is_asked).map(OsString::from)
        };
        let mut command = Cli::command();
        command.build();
        let args = expand(&command, args, variable)?;
        let mut args: Vec<String> = (args.into_iter())
            .map(|arg| arg.into_string().expect("text"))
            .collect();
        args.truncate(args.len() - 2);
        Ok(args)
    }

    #[test]
    fn the_command_line_wins_then_the_environment_then_the_file() {
        let text = "listen = 'file'\n";
        let words = |words, variable| expanded(text, words, variable).expect("good");
        assert_eq!(
            words(&["-v", "server"], None),
            ["ctcp", "-v", "server", "--listen=file"]
        );
        assert_eq!(words(&["server"], Some("env")), ["ctcp", "server"]);
        assert_eq!(
            words(&["server", "--listen", "typed"], None),
            ["ctcp", "server", "--listen", "typed"]
        );
        assert_eq!(
            words(&["server", "--listen=typed"], None),
            ["ctcp", "server", "--listen=typed"]
        );
    }

    #[test]
    fn a_commands_own_table_wins_over_what_holds_for_all() {
        let text = "listen = 'all'\nsocks = 1\n[server]\nlisten = 'own'\njson = true\n\
                    egress_allow = ['a', 'b']\n[client]\nsocks = 1081\n";
        let server = expanded(text, &["server"], None).expect("good");
        let mut options = server[2..].to_vec();
        options.sort();
        assert_eq!(
            options,
            [
                "--egress-allow=a",
                "--egress-allow=b",
                "--json",
                "--listen=own"
            ]
        );
        let client = expanded(text, &["client"], None).expect("good");
        assert_eq!(client[2..], ["--socks=1081"]);
    }

    #[test]
    fn what_is_typed_rules_out_what_cannot_stand_beside_it() {
        let words = |text, words| expanded(text, words, None).expect("good");
        let typed = ["client", "--redirect", "1"];
        assert_eq!(words("socks = 2", &typed)[1..], typed);
        let typed = ["client", "--socks=1"];
        assert_eq!(words("redirect = 2", &typed)[1..], typed);
        assert_eq!(
            words("redirect = 2", &["client"])[1..],
            ["client", "--redirect=2"]
        );
    }

    #[test]
    fn commands_without_a_file_are_left_alone() {
        assert_eq!(
            expanded("nonsense", &["other"], None).expect("not read"),
            ["ctcp", "other"]
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_a_remedy() {
        for (text, words) in [
            ("lisen = 'x'", "did you mean `listen`?"),
            ("[servr]\nlisten = 'x'", "did you mean `server`?"),
            ("[client]\nlisten = 'x'", "no such option"),
            ("listen = ['x']", "one value, not a list"),
            ("json = 'yes'", "true or false"),
            ("listen = true", "a boolean is not"),
            ("config = 'x'", "does not name another"),
            ("listen = ", "line 1"),
        ] {
            let failure = expanded(text, &["server"], None).expect_err(text);
            assert!(
                failure.message.contains(words),
                "{text}: {}",
                failure.message
            );
        }
    }
}

//! The command line of `ctcp model`, built from the registry.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use ctcp_model::registry::{Parameter, Preset};
use ctcp_model::{Model, models};

use super::grid::{self, Axis};
use super::{Format, Request, Task};

/// Arguments of `ctcp model`.
#[derive(Debug, Clone)]
pub(crate) struct ModelArgs {
    pub(super) task: Task,
}

const EXAMPLES: &str = "\
A parameter takes a number (0.01, 1%, 25ms), a list (0.01,0.02) or a range:
0.01..0.2/20 is 20 numbers at even distances, 0.001..0.2/20log at even ratios.

  ctcp model eta --p 0.1
  ctcp model eta --p 0.001..0.2/20log --reading A,C --plot eta.svg
  ctcp model tcp --p 0.01,0.02,0.05 --csv
  ctcp model table1

The environment gives them as CTCP_MODEL_P and the like.";

impl Args for ModelArgs {
    fn augment_args(command: Command) -> Command {
        let list = Command::new("list").about("List the models").arg(flag(
            "json",
            "Print all that is known of each as a JSON line",
        ));
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .allow_external_subcommands(true)
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Models")
            .after_help(EXAMPLES)
            .subcommand(list)
            .subcommands(models().map(subcommand))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ModelArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(Error::new(ErrorKind::MissingSubcommand));
        };
        let task = if name == "list" {
            Task::List {
                is_json: matches.get_flag("json"),
            }
        } else if let Some(model) = models().find(|model| model.name == name) {
            Task::Evaluate(Box::new(request(model, matches)))
        } else {
            Task::Unknown(name.to_owned())
        };
        Ok(Self { task })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What stands for a parameter that is not given.
pub(super) fn default_text(parameter: &Parameter) -> String {
    match parameter.default {
        Preset::Value(value) => value.to_string(),
        Preset::Each(values) => {
            let texts: Vec<String> = values.iter().map(f64::to_string).collect();
            texts.join(",")
        }
        Preset::Derived(formula) => formula.to_owned(),
    }
}

fn subcommand(model: &'static Model) -> Command {
    let mut command = Command::new(model.name)
        .about(model.title)
        .override_usage(usage(model))
        .after_help(after_help(model));
    for parameter in model.parameters {
        command = command.arg(number(parameter));
    }
    if !model.readings.is_empty() {
        let parse = move |text: &str| match text {
            "all" => Ok("all"),
            name => model.reading(name),
        };
        let arg = Arg::new("reading")
            .long("reading")
            .value_name("READING")
            .help("How to read the equation; several with commas, or all")
            .env("CTCP_MODEL_READING")
            .hide_env(true)
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(ValueParser::new(parse));
        command = command.arg(arg);
    }
    let output = Arg::new("output")
        .long("output")
        .value_name("COLUMN")
        .help("Show or plot these results only; several with commas")
        .env("CTCP_MODEL_OUTPUT")
        .hide_env(true)
        .value_delimiter(',')
        .action(ArgAction::Append)
        .value_parser(ValueParser::new(move |text: &str| column(model, text)));
    let plot = Arg::new("plot")
        .long("plot")
        .value_name("FILE.svg")
        .help("Draw it, too; a parameter must have a range")
        .env("CTCP_MODEL_PLOT")
        .hide_env(true)
        .value_parser(value_parser!(PathBuf));
    command
        .arg(output)
        .arg(flag("csv", "Print comma-separated values").conflicts_with("json"))
        .arg(
            flag("json", "Print JSON lines")
                .env("CTCP_JSON")
                .hide_env(true),
        )
        .arg(plot)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

fn number(parameter: &'static Parameter) -> Arg {
    let mut help = parameter.meaning.to_owned();
    if !parameter.unit.is_empty() {
        help += &format!(", in {}", parameter.unit);
    }
    if !parameter.symbol.is_empty() && parameter.symbol != parameter.name {
        help = format!("{}: {help}", parameter.symbol);
    }
    help += &format!(
        " [{}; default: {}]",
        parameter.domain,
        default_text(parameter)
    );
    Arg::new(parameter.name)
        .long(flag_name(parameter))
        .value_name("VALUES")
        .help_heading("Parameters")
        .help(help)
        .env(format!("CTCP_MODEL_{}", parameter.name.to_uppercase()))
        .hide_env(true)
        .allow_negative_numbers(true)
        .value_parser(ValueParser::new(move |text: &str| {
            grid::axis(text, parameter)
        }))
}

fn flag_name(parameter: &Parameter) -> String {
    parameter.name.replace('_', "-")
}

/// All parameters and readings, so that a usage error shows what there is.
fn usage(model: &Model) -> String {
    let mut usage = format!("ctcp model {}", model.name);
    for parameter in model.parameters {
        usage += &format!(" [--{} VALUES]", flag_name(parameter));
    }
    if !model.readings.is_empty() {
        let names: Vec<_> = model.readings.iter().map(|reading| reading.name).collect();
        usage += &format!(" [--reading {}|all]", names.join("|"));
    }
    usage + " [--output COLUMN] [--csv|--json] [--plot FILE.svg]"
}

fn after_help(model: &Model) -> String {
    let mut text = format!("{}\n{}\n", model.equation, model.source);
    let mut section = |title: &str, lines: &mut dyn Iterator<Item = (&str, String)>| {
        text += &format!("\n{title}:\n");
        for (name, meaning) in lines {
            text += &format!("  {name:<20} {meaning}\n");
        }
    };
    if !model.readings.is_empty() {
        let mut lines = model
            .readings
            .iter()
            .map(|reading| (reading.name, reading.meaning.to_owned()));
        section("Readings, the first by default", &mut lines);
    }
    let mut lines = model.outputs.iter().map(|output| {
        let unit = match output.unit {
            "" => String::new(),
            unit => format!(" [{unit}]"),
        };
        (output.name, format!("{}{unit}", output.meaning))
    });
    section("Results", &mut lines);
    text
}

/// The position of a result by its name.
fn column(model: &Model, name: &str) -> Result<usize, String> {
    let found = model.outputs.iter().position(|output| output.name == name);
    found.ok_or_else(|| {
        let known: Vec<_> = model.outputs.iter().map(|output| output.name).collect();
        let (model, known) = (model.name, known.join(", "));
        format!("model {model} has no result `{name}`; it has: {known}")
    })
}

fn request(model: &'static Model, matches: &ArgMatches) -> Request {
    let axes = model
        .parameters
        .iter()
        .map(|parameter| {
            let given = matches.get_one::<Axis>(parameter.name).cloned();
            given.or_else(|| Axis::of_default(parameter))
        })
        .collect();
    let chosen: Vec<usize> = matches
        .get_many("output")
        .map(|columns| columns.copied().collect())
        .unwrap_or_default();
    let format = if matches.get_flag("csv") {
        Format::Csv
    } else if matches.get_flag("json") {
        Format::Json
    } else {
        Format::Table
    };
    Request {
        model,
        axes,
        readings: readings(model, matches),
        is_output_chosen: !chosen.is_empty(),
        outputs: if chosen.is_empty() {
            (0..model.outputs.len()).collect()
        } else {
            chosen
        },
        format,
        plot: matches.get_one::<PathBuf>("plot").cloned(),
    }
}

/// The readings to evaluate, each once; the first of the model if none is given.
fn readings(model: &'static Model, matches: &ArgMatches) -> Vec<&'static str> {
    let known = model.readings.iter().map(|reading| reading.name);
    if model.readings.is_empty() {
        return Vec::new();
    }
    let given: Vec<&'static str> = matches
        .get_many("reading")
        .map(|names| names.copied().collect())
        .unwrap_or_default();
    if given.contains(&"all") {
        return known.collect();
    }
    let mut readings = Vec::new();
    for name in given {
        if !readings.contains(&name) {
            readings.push(name);
        }
    }
    if readings.is_empty() {
        readings.extend(known.take(1));
    }
    readings
}

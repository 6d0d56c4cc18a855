//! `ctcp model`: an equation of the papers, evaluated.
//!
//! Every model of `ctcp-model` is a subcommand of its own, built from the
//! registry, so that help, completions and error messages know its parameters.

mod arguments;
mod grid;
mod plot;
mod table;

use std::path::PathBuf;

use ctcp_model::{Model, model_by_name, models};
use serde_json::json;

pub(crate) use arguments::ModelArgs;

use crate::failure::Failure;
use crate::output::print_line;
use grid::{Axis, Grid};

/// What `ctcp model` is asked to do.
#[derive(Debug, Clone)]
enum Task {
    List {
        is_json: bool,
    },
    Evaluate(Box<Request>),
    /// There is no such model.
    Unknown(String),
}

/// A model and how to show it.
#[derive(Debug, Clone)]
struct Request {
    model: &'static Model,
    /// One for each parameter of the model; none if it is derived.
    axes: Vec<Option<Axis>>,
    /// Empty if the model is read in one way only.
    readings: Vec<&'static str>,
    /// Positions of the columns to show.
    outputs: Vec<usize>,
    /// The user named these outputs, so a plot shows all of them.
    is_output_chosen: bool,
    format: Format,
    plot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Csv,
    Json,
}

/// Lists the models or evaluates one.
pub(crate) fn run(args: &ModelArgs) -> Result<(), Failure> {
    match &args.task {
        Task::List { is_json } => {
            list(*is_json);
            Ok(())
        }
        Task::Unknown(name) => match model_by_name(name) {
            Ok(_) => unreachable!("each model is a subcommand"),
            Err(error) => Err(Failure::usage(format!(
                "{error}; `ctcp model list` says what they answer"
            ))),
        },
        Task::Evaluate(request) => evaluate(request),
    }
}

fn evaluate(request: &Request) -> Result<(), Failure> {
    let grid = Grid::evaluate(request).map_err(Failure::usage)?;
    // A file that cannot be written is said before the numbers, not below them.
    if let Some(path) = &request.plot {
        let svg = plot::svg(request, &grid).map_err(Failure::usage)?;
        std::fs::write(path, svg).map_err(|error| {
            let path = path.display();
            Failure::usage(format!("cannot write the plot {path}: {error}"))
        })?;
    }
    let text = match request.format {
        Format::Table => table::aligned(request, &grid),
        Format::Csv => table::csv(request, &grid),
        Format::Json => table::json_lines(request, &grid),
    };
    print_line(text.trim_end_matches('\n'));
    Ok(())
}

fn list(is_json: bool) {
    if is_json {
        for model in models() {
            print_line(&description(model).to_string());
        }
        return;
    }
    let rows: Vec<_> = models()
        .map(|model| {
            [model.name, model.title, model.source]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    let text = table::columns(&["model", "what it answers", "source"], &rows, false);
    print_line(text.trim_end_matches('\n'));
}

/// All that the registry knows of a model.
fn description(model: &Model) -> serde_json::Value {
    let parameters: Vec<_> = model
        .parameters
        .iter()
        .map(|parameter| {
            json!({
                "name": parameter.name,
                "symbol": parameter.symbol,
                "unit": parameter.unit,
                "meaning": parameter.meaning,
                "allowed": parameter.domain.to_string(),
                "default": arguments::default_text(parameter),
            })
        })
        .collect();
    let readings: Vec<_> = model
        .readings
        .iter()
        .map(|reading| json!({ "name": reading.name, "meaning": reading.meaning }))
        .collect();
    let outputs: Vec<_> = model
        .outputs
        .iter()
        .map(
            |output| json!({ "name": output.name, "unit": output.unit, "meaning": output.meaning }),
        )
        .collect();
    json!({
        "name": model.name,
        "title": model.title,
        "source": model.source,
        "equation": model.equation,
        "parameters": parameters,
        "readings": readings,
        "outputs": outputs,
    })
}

//! `ctcp-control-suite`: scores controllers on the grid.

use std::io::Write as _;
use std::process::ExitCode;

use ctcp_control_suite::{Contestant, Extent, json_line, markdown, measure_all, rows, trace};
use ctcp_units::{Duration, seconds};

const USAGE: &str =
    "usage: ctcp-control-suite [--quick] [--only TEXT]... [--seeds N] [--json FILE] [--trace S] \
                     [NAME|tcp:NAME]...
  scores the controllers NAME on a grid of simulated paths; the table goes to stdout
  --quick     a choice of the rows, 20 s each
  --only      only rows whose name contains TEXT
  --seeds     runs with seeds 1 to N (default 1); cells show the median
  --trace S   the rows over time instead, a line every S seconds, 400 lines
  --json      every score as a line of JSON to FILE";

struct Options {
    extent: Extent,
    only: Vec<String>,
    seed_count: u64,
    json: Option<String>,
    trace: Option<Duration>,
    contestants: Vec<Contestant>,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        extent: Extent::Full,
        only: Vec::new(),
        seed_count: 1,
        json: None,
        trace: None,
        contestants: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--quick" => options.extent = Extent::Quick,
            "--only" => options.only.push(value()?),
            "--json" => options.json = Some(value()?),
            "--trace" => {
                let text = value()?;
                let span: f64 = text
                    .parse()
                    .map_err(|_| format!("--trace {text}: give seconds"))?;
                options.trace = Some(Duration::from_secs_f64(span.clamp(0.001, 10.0)));
            }
            "--seeds" => {
                let text = value()?;
                options.seed_count = text
                    .parse()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(format!("--seeds {text}: give a whole number above 0"))?;
            }
            name => options
                .contestants
                .push(Contestant::parse(name).ok_or(format!("there is no controller `{name}`"))?),
        }
    }
    if options.contestants.is_empty() {
        let all = [
            "auto",
            "cc14",
            "sat",
            "cc14-cubic",
            "bbr",
            "tcp:cubic",
            "tcp:bbr",
        ];
        options.contestants = all.into_iter().filter_map(Contestant::parse).collect();
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows = rows(options.extent);
    rows.retain(|row| {
        options.only.is_empty() || options.only.iter().any(|text| row.name.contains(text))
    });
    if let Some(interval) = options.trace {
        for row in &rows {
            for contestant in &options.contestants {
                let span = (interval * 400).min(seconds(100));
                let text = trace(row, contestant, options.seed_count, interval, span)?;
                println!("{} {}\n{text}", row.name, contestant.name);
            }
        }
        return Ok(());
    }
    let seeds: Vec<u64> = (1..=options.seed_count).collect();
    let scores = measure_all(&rows, &options.contestants, &seeds, options.extent)?;
    if let Some(path) = &options.json {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        for score in &scores {
            writeln!(file, "{}", json_line(score))?;
        }
        file.flush()?;
    }
    print!("{}", markdown(&scores));
    Ok(())
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

//! `ctcp lab list`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use ctcp_lab::point::Venue;
use ctcp_lab::testbed::programs;
use ctcp_lab::{Point, Recipe, Scale, recipes};
use serde_json::json;

use crate::failure::Failure;
use crate::output::print_line;

/// Arguments of `ctcp lab list`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Print results as JSON lines
    #[arg(long, env = "CTCP_JSON")]
    json: bool,
}

/// One experiment, as it would run here.
struct Entry<'a> {
    recipe: &'a Recipe,
    quick: (usize, Duration),
    full: (usize, Duration),
    needs: BTreeSet<String>,
}

/// Prints a line for each experiment.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    let entries = recipes()
        .iter()
        .map(Entry::new)
        .collect::<Result<Vec<_>, _>>()?;
    if args.json {
        for entry in &entries {
            print_line(&entry.json().to_string());
        }
        return Ok(());
    }
    print_line(&format!(
        "{:<18}{:>7}{:>8}  {:<30}{}",
        "id", "quick", "full", "paper", "title"
    ));
    for entry in &entries {
        let Entry {
            recipe,
            quick,
            full,
            ..
        } = entry;
        let (quick, full) = (rough(quick.1), rough(full.1));
        let (id, paper, title) = (&recipe.id, &recipe.paper, &recipe.title);
        print_line(&format!("{id:<18}{quick:>7}{full:>8}  {paper:<30}{title}"));
        if !entry.needs.is_empty() {
            let needs: Vec<&str> = entry.needs.iter().map(String::as_str).collect();
            print_line(&format!("{:33}  needs {}", "", needs.join(", ")));
        }
    }
    Ok(())
}

impl<'a> Entry<'a> {
    fn new(recipe: &'a Recipe) -> Result<Self, Failure> {
        let points = |scale| recipe.points(scale, 0).map_err(Failure::usage);
        let (quick, full) = (points(Scale::Quick)?, points(Scale::Full)?);
        let size = |points: &[Point]| {
            let takes = ctcp_lab::run::total_duration(points, None);
            (points.len(), takes)
        };
        Ok(Self {
            recipe,
            quick: size(&quick),
            full: size(&full),
            needs: needs(&full),
        })
    }

    fn json(&self) -> serde_json::Value {
        let recipe = self.recipe;
        let size = |(points, takes): (usize, Duration)| json!({ "points": points, "seconds": takes.as_secs_f64().round() });
        json!({
            "id": recipe.id,
            "title": recipe.title,
            "paper": recipe.paper,
            "quick": size(self.quick),
            "full": size(self.full),
            "needs": self.needs,
        })
    }
}

/// Programs and kernel parts beside TCP with Reno and CUBIC, which all have.
fn needs(points: &[Point]) -> BTreeSet<String> {
    use ctcp_lab::point::System;
    let mut needs: BTreeSet<String> = programs(points).into_iter().map(str::to_owned).collect();
    for point in points {
        if point.venue == Venue::Simulator {
            needs.insert("simulator".to_owned());
            continue;
        }
        for flow in &point.flows {
            match &flow.system {
                System::Tcp { congestion } if congestion == "bbr" => {
                    needs.insert("tcp_bbr".to_owned());
                }
                System::Mptcp { .. } => {
                    needs.insert("MPTCP".to_owned());
                }
                _ => {}
            }
        }
    }
    needs
}

/// A time as people say it.
pub(super) fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 99.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_roughly() {
        assert_eq!(rough(Duration::from_secs(42)), "42 s");
        assert_eq!(rough(Duration::from_secs(600)), "10 min");
        assert_eq!(rough(Duration::from_secs(9000)), "2.5 h");
    }
}

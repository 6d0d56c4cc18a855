//! What stands in a figure, before anything is drawn.

use std::collections::{BTreeMap, BTreeSet};

use super::{CurveSpec, Figure, ScaleKind, printed_points};
use crate::claim::{Bound, PlaceKey, Results};
use crate::point::System;
use crate::recipe::{FlowSpec, Recipe};

/// The axis of figures that show one run over time.
pub(crate) const TIME: &str = "time_s";

/// A figure's content.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartData {
    /// One, or one for each value of the panel's axis.
    pub panels: Vec<Panel>,
}

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Empty for a figure of one panel.
    pub title: String,
    /// Where it stands on the panel's axis.
    pub at: BTreeMap<String, f64>,
    /// Measured, then printed; theory is added when the axes are known.
    pub curves: Vec<Curve>,
}

/// Marks of one look.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// In the legend.
    pub label: String,
    /// Where the marks come from.
    pub kind: Kind,
    /// Colour, by what was under test.
    pub hue: Hue,
    /// Which of several curves of the same colour it is, from 0.
    pub variant: usize,
    /// How many there are of the same colour.
    pub variants: usize,
    /// The marks, from left to right.
    pub dots: Vec<Dot>,
}

/// Where marks come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From records.
    Measured,
    /// From a paper.
    Printed,
    /// From a formula.
    Theory,
    /// From the samples of one run.
    Trace,
}

impl Kind {
    /// As it stands in the CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Printed => "printed",
            Self::Theory => "theory",
            Self::Trace => "trace",
        }
    }
}

/// A colour that belongs to a system wherever it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hue {
    /// CTCP with a paper's controller.
    Ctcp,
    /// CTCP with ours.
    Auto,
    /// Reno.
    Reno,
    /// CUBIC.
    Cubic,
    /// BBR.
    Bbr,
    /// Westwood, and what else has no colour of its own.
    Other,
    /// H-TCP, Hybla.
    Fast,
    /// Veno, Vegas.
    Delay,
    /// Theory and what belongs to no system.
    Ink,
}

impl Hue {
    /// Name of its class in the style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Ctcp => "h-ctcp",
            Self::Auto => "h-auto",
            Self::Reno => "h-reno",
            Self::Cubic => "h-cubic",
            Self::Bbr => "h-bbr",
            Self::Other => "h-other",
            Self::Fast => "h-fast",
            Self::Delay => "h-delay",
            Self::Ink => "h-ink",
        }
    }

    fn of_congestion(congestion: &str, is_ctcp: bool) -> Self {
        match (is_ctcp, congestion) {
            (true, "auto") => Self::Auto,
            (true, _) => Self::Ctcp,
            (_, "reno") => Self::Reno,
            (_, "cubic") => Self::Cubic,
            (_, "bbr") => Self::Bbr,
            (_, "htcp" | "hybla") => Self::Fast,
            (_, "veno" | "vegas") => Self::Delay,
            _ => Self::Other,
        }
    }

    fn of(flow: &FlowSpec) -> Self {
        if let Some(system) = &flow.system {
            return Self::of_congestion(&system.congestion, system.is_ctcp());
        }
        if let Some(contestant) = &flow.suite {
            return match contestant.strip_prefix("tcp:") {
                Some(congestion) => Self::of_congestion(congestion, false),
                None => Self::of_congestion(contestant, true),
            };
        }
        let Some((name, settings)) = flow.simulated.iter().flatten().next() else {
            return Self::Ink;
        };
        let congestion = settings.get("congestion").and_then(toml::Value::as_str);
        match name.as_str() {
            "ctcp" => Self::of_congestion(congestion.unwrap_or("auto"), true),
            "tcp" => Self::of_congestion(congestion.unwrap_or("reno"), false),
            "tcp-cd" | "tcp-nc" => Self::Ctcp,
            "go-back-n" => Self::Reno,
            "tcp-la" => Self::Fast,
            _ => Self::Other,
        }
    }
}

impl System {
    /// What it is called where no recipe names it.
    pub fn label(&self) -> String {
        match self {
            Self::Tcp { congestion } => congestion.clone(),
            Self::Mptcp { congestion } => format!("MPTCP {congestion}"),
            Self::Suite { contestant, .. } => contestant.clone(),
            Self::Ctcp { congestion, .. } => format!("CTCP {congestion}"),
            Self::Simulated { transport } => {
                let names: Vec<&str> = transport.keys().map(String::as_str).collect();
                names.join(" ")
            }
            Self::Model { name, .. } => format!("model {name}"),
            Self::External { client_command, .. } => client_command.clone(),
        }
    }
}

/// One mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Along the bottom.
    pub x: f64,
    /// Up the side.
    pub y: f64,
    /// Half of the 95 % interval.
    pub half_width: Option<f64>,
    /// Cut runs know only a bound.
    pub bound: Bound,
    /// Runs that it rests on; 0 for what is printed.
    pub runs: usize,
    /// Some of them on a busy machine.
    pub is_busy: bool,
}

/// Gathers what a figure shows.
pub fn collect(recipe: &Recipe, figure: &Figure, results: &Results<'_>) -> ChartData {
    let places: Vec<BTreeMap<String, f64>> = results
        .places()
        .iter()
        .map(PlaceKey::at)
        .filter(|at| figure.only.admit(at))
        .collect();
    let curves = specs(recipe, figure);
    let values = |axis: &str| -> Vec<f64> {
        let found: BTreeSet<u64> = places
            .iter()
            .filter_map(|at| at.get(axis).map(|v| v.to_bits()))
            .collect();
        found.into_iter().map(f64::from_bits).collect()
    };
    let frames: Vec<(String, BTreeMap<String, f64>, Vec<CurveSpec>)> = match figure.panel.as_str() {
        "" => vec![(String::new(), BTreeMap::new(), curves)],
        "series" => curves
            .into_iter()
            .map(|curve| (label(&curve), BTreeMap::new(), vec![curve]))
            .collect(),
        axis => values(axis)
            .into_iter()
            .map(|value| {
                let title = recipe
                    .sweep_by_axis(axis)
                    .map_or(String::new(), |sweep| sweep.describe(value));
                let at = BTreeMap::from([(axis.to_owned(), value)]);
                (title, at, curves.clone())
            })
            .collect(),
    };
    let splits: Vec<Option<f64>> = match figure.split.as_str() {
        "" => vec![None],
        axis => values(axis).into_iter().map(Some).collect(),
    };
    let panels = frames.into_iter().map(|(title, at, specs)| {
        let mut curves = Vec::new();
        for spec in &specs {
            for split in &splits {
                let mut fixed = at.clone();
                if let Some(value) = split {
                    fixed.insert(figure.split.clone(), *value);
                }
                curves.extend(measured(recipe, figure, results, spec, &fixed, &places));
            }
        }
        vary(&mut curves);
        curves.extend(printed(recipe, figure, &at, &specs));
        Panel { title, at, curves }
    });
    ChartData {
        panels: panels.filter(|panel| !panel.curves.is_empty()).collect(),
    }
}

/// The curves asked for, or the first flow of every series.
fn specs(recipe: &Recipe, figure: &Figure) -> Vec<CurveSpec> {
    if !figure.curves.is_empty() {
        return figure.curves.clone();
    }
    let all = recipe.series.iter().map(|series| CurveSpec {
        series: series.name.clone(),
        flow: String::new(),
        label: String::new(),
    });
    all.collect()
}

fn label(spec: &CurveSpec) -> String {
    if spec.label.is_empty() {
        spec.series.clone()
    } else {
        spec.label.clone()
    }
}

/// The colour of a flow of a series.
fn hue(recipe: &Recipe, series: &str, flow: &str) -> Hue {
    let Some(series) = recipe.series_by_name(series) else {
        return Hue::Ink;
    };
    let found = series.flows.iter().find(|f| f.name == flow);
    let found = found.or(series.flows.first());
    found.map_or(Hue::Ink, Hue::of)
}

fn measured(
    recipe: &Recipe,
    figure: &Figure,
    results: &Results<'_>,
    spec: &CurveSpec,
    fixed: &BTreeMap<String, f64>,
    places: &[BTreeMap<String, f64>],
) -> Option<Curve> {
    let is_here =
        |at: &&BTreeMap<String, f64>| fixed.iter().all(|(axis, v)| at.get(axis) == Some(v));
    if figure.x.axis == TIME {
        let mut here = places.iter().filter(is_here);
        let dots = here.find_map(|at| trace(figure, results, spec, at))?;
        return Some(Curve {
            label: named(recipe, figure, spec, fixed),
            kind: Kind::Trace,
            hue: hue(recipe, &spec.series, &spec.flow),
            variant: 0,
            variants: 1,
            dots,
        });
    }
    let mut dots: Vec<Dot> = places
        .iter()
        .filter(is_here)
        .filter_map(|at| {
            let x = *at.get(&figure.x.axis)?;
            let place = PlaceKey::new(at);
            let found = results.estimate(figure.y.metric, &spec.series, &spec.flow, &place)?;
            Some(Dot {
                x,
                y: found.mean,
                half_width: found.half_width,
                bound: found.bound,
                runs: found.runs,
                is_busy: found.busy_runs > 0,
            })
        })
        .collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    (!dots.is_empty()).then(|| Curve {
        label: named(recipe, figure, spec, fixed),
        kind: Kind::Measured,
        hue: hue(recipe, &spec.series, &spec.flow),
        variant: 0,
        variants: 1,
        dots,
    })
}

/// What the legend calls a curve.
fn named(
    recipe: &Recipe,
    figure: &Figure,
    spec: &CurveSpec,
    fixed: &BTreeMap<String, f64>,
) -> String {
    let text = label(spec);
    let Some(value) = fixed.get(&figure.split) else {
        return text;
    };
    let split = recipe.sweep_by_axis(&figure.split);
    let value = split.map_or(String::new(), |sweep| sweep.describe(*value));
    if figure.panel == "series" || figure.curves.len() == 1 {
        value
    } else {
        format!("{text}, {value}")
    }
}

/// A flow over time, in the first run there that was sampled.
fn trace(
    figure: &Figure,
    results: &Results<'_>,
    spec: &CurveSpec,
    at: &BTreeMap<String, f64>,
) -> Option<Vec<Dot>> {
    let runs = results.at(&spec.series, &PlaceKey::new(at)).iter();
    let record = runs.min_by_key(|record| record.point.repetition)?;
    let flow = match spec.flow.as_str() {
        "" => record.flows.first()?,
        name => record.flows.iter().find(|flow| flow.name == name)?,
    };
    let samples = flow.inside.iter().flat_map(|inside| &inside.samples);
    let is_shown = |x: f64| {
        figure
            .x
            .within
            .is_none_or(|[from, to]| (from..=to).contains(&x))
    };
    let dots: Vec<Dot> = samples
        .filter(|sample| is_shown(sample.time_s))
        .filter_map(|sample| {
            Some(Dot {
                x: sample.time_s,
                y: figure.y.metric.of_sample(sample)?,
                half_width: None,
                bound: Bound::Exact,
                runs: 1,
                is_busy: false,
            })
        })
        .collect();
    (!dots.is_empty()).then_some(dots)
}

/// Numbers the curves that share a colour.
fn vary(curves: &mut [Curve]) {
    let mut seen: BTreeMap<Hue, usize> = BTreeMap::new();
    for curve in curves.iter_mut() {
        let count = seen.entry(curve.hue).or_default();
        curve.variant = *count;
        *count += 1;
    }
    for curve in curves {
        curve.variants = seen[&curve.hue];
    }
}

fn printed(
    recipe: &Recipe,
    figure: &Figure,
    at: &BTreeMap<String, f64>,
    specs: &[CurveSpec],
) -> Vec<Curve> {
    let wanted = recipe.printed.iter().filter(|printed| {
        let is_here = at.iter().all(|(axis, value)| {
            printed
                .at
                .get(axis)
                .is_none_or(|printed_at| printed_at == value)
        });
        let is_shown = figure.panel != "series" || specs.iter().any(|s| s.series == printed.series);
        figure.printed.contains(&printed.name) && is_here && is_shown
    });
    wanted
        .map(|printed| {
            let mut points = printed_points(printed);
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            // A line through two values of different sizes would say too much.
            let dots = points.into_iter().map(|(x, y)| Dot {
                x,
                y,
                half_width: None,
                bound: Bound::Exact,
                runs: 0,
                is_busy: false,
            });
            Curve {
                label: printed.label.clone(),
                kind: Kind::Printed,
                hue: hue(recipe, &printed.series, ""),
                variant: 0,
                variants: 1,
                dots: dots.collect(),
            }
        })
        .collect()
}

/// The lines of theory over these values of x.
pub(super) fn theory(
    recipe: &Recipe,
    figure: &Figure,
    panel: &Panel,
    samples: &[f64],
) -> Vec<Curve> {
    let lines = figure.theory.iter().enumerate().map(|(index, theory)| {
        let dots = samples.iter().filter_map(|&x| {
            let mut at = panel.at.clone();
            at.insert(figure.x.axis.clone(), x);
            let (path, bytes) = recipe.path_at(&at)?;
            let context = crate::claim::Context { path: &path, bytes };
            let y = theory.formula.at(&context)? * theory.times;
            Some(Dot {
                x,
                y,
                half_width: None,
                bound: Bound::Exact,
                runs: 0,
                is_busy: false,
            })
        });
        Curve {
            label: theory.label.clone(),
            kind: Kind::Theory,
            hue: Hue::Ink,
            variant: index,
            variants: figure.theory.len(),
            dots: dots.collect(),
        }
    });
    lines.filter(|curve| !curve.dots.is_empty()).collect()
}

/// All x of the marks; slots keep theory from adding some.
pub(super) fn xs(panel: &Panel) -> Vec<f64> {
    panel
        .curves
        .iter()
        .flat_map(|c| c.dots.iter().map(|dot| dot.x))
        .collect()
}

/// All y of the marks with their intervals, where these can be drawn.
pub(super) fn ys(panel: &Panel, kind: ScaleKind) -> Vec<f64> {
    let dots = panel.curves.iter().flat_map(|curve| &curve.dots);
    let mut all = Vec::new();
    for dot in dots {
        all.push(dot.y);
        if let Some(half) = dot.half_width {
            all.push(dot.y + half);
            if kind == ScaleKind::Linear || dot.y - half > dot.y / 3.0 {
                all.push((dot.y - half).max(0.0));
            }
        }
    }
    all
}

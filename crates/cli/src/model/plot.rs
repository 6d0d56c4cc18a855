//! A grid as a picture: one curve for each reading, result and value of the
//! parameters beyond the one with the most values, which runs along.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::grid::{Grid, Row, Spacing};
use super::table::{circumstances, short};
use super::{Axis, Request};

const SIZE: (u32, u32) = (900, 560);

/// Characters of a line below the title.
const LINE_LEN: usize = 130;

/// From this ratio of the largest to the smallest value on, an axis is
/// logarithmic if nobody said: on a linear one the lower decades would vanish.
const LOG_RATIO: f64 = 100.0;

/// Colours that people of all kinds of sight tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// More curves than this cannot be told apart.
const CURVES_MAX: usize = 21;

/// Points up to which each is marked.
const MARKS_MAX: usize = 16;

struct Curve {
    label: String,
    points: Vec<(f64, f64)>,
}

/// What an axis spans, and how.
#[derive(Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
    is_log: bool,
}

/// The picture as SVG.
///
/// # Errors
/// No parameter varies, there are too many curves, results of different units
/// are to share an axis, or there is no finite point.
pub(super) fn svg(request: &Request, grid: &Grid) -> Result<String, String> {
    let x_at = longest(&request.axes).ok_or_else(|| nothing_varies(request))?;
    let outputs = outputs(request)?;
    let curves = curves(request, grid, x_at, &outputs)?;
    let axis = request.axes[x_at].as_ref().expect("it varies");
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = span(points().map(|point| point.0), axis.spacing)?;
    let y = span(points().map(|point| point.1), Spacing::Listed)?;
    let parameter = &request.model.parameters[x_at];
    let names = Names {
        x: with_unit(
            &format!("{} {}", parameter.meaning, parameter.symbol),
            parameter.unit,
        ),
        y: y_name(request, &outputs),
        title: request.model.title,
        subtitles: wrapped(&circumstances(request)),
    };
    let mut text = String::new();
    let drawn = match (x.is_log, y.is_log) {
        (false, false) => draw(&mut text, x.low..x.high, y.low..y.high, &names, &curves),
        (true, false) => draw(
            &mut text,
            (x.low..x.high).log_scale(),
            y.low..y.high,
            &names,
            &curves,
        ),
        (false, true) => draw(
            &mut text,
            x.low..x.high,
            (y.low..y.high).log_scale(),
            &names,
            &curves,
        ),
        (true, true) => draw(
            &mut text,
            (x.low..x.high).log_scale(),
            (y.low..y.high).log_scale(),
            &names,
            &curves,
        ),
    };
    drawn.map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text)
}

/// The parameter with the most values, the first of several; none if none varies.
fn longest(axes: &[Option<Axis>]) -> Option<usize> {
    let len = |at: &usize| axes[*at].as_ref().map_or(0, |axis| axis.values.len());
    let varied = (0..axes.len()).filter(|at| axes[*at].as_ref().is_some_and(Axis::is_varied));
    // Of equals `max_by_key` takes the last, so it goes backwards.
    varied.rev().max_by_key(len)
}

fn nothing_varies(request: &Request) -> String {
    let first = request.model.parameters.first();
    let name = first.map_or("p", |parameter| parameter.name);
    let name = name.replace('_', "-");
    format!("nothing varies, so there is no curve: give a range, such as --{name} FROM..TO/50")
}

/// The results to draw: those that the user named, else the model's main one.
fn outputs(request: &Request) -> Result<Vec<usize>, String> {
    let all = request.model.outputs;
    if !request.is_output_chosen {
        let is_main = |at: &usize| all[*at].name == request.model.plotted;
        return Ok((0..all.len()).filter(is_main).collect());
    }
    let unit = all[request.outputs[0]].unit;
    match request.outputs.iter().find(|at| all[**at].unit != unit) {
        None => Ok(request.outputs.clone()),
        Some(other) => Err(format!(
            "{} and {} have different units and cannot share an axis: plot one of them",
            all[request.outputs[0]].name, all[*other].name
        )),
    }
}

fn curves(
    request: &Request,
    grid: &Grid,
    x_at: usize,
    outputs: &[usize],
) -> Result<Vec<Curve>, String> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in &grid.rows {
        for output in outputs {
            let label = label(request, row, x_at, *output, outputs.len() > 1);
            let at = curves.iter().position(|curve| curve.label == label);
            let at = at.unwrap_or_else(|| {
                let points = Vec::new();
                curves.push(Curve { label, points });
                curves.len() - 1
            });
            if curves.len() > CURVES_MAX {
                return Err(format!(
                    "more than {CURVES_MAX} curves cannot be told apart: let fewer parameters vary"
                ));
            }
            let x = row.parameters[x_at].expect("it varies");
            let y = row.outputs[*output];
            if y.is_finite() {
                curves[at].points.push((x, y));
            }
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(curves)
}

/// What tells this row's curve from the others.
fn label(request: &Request, row: &Row, x_at: usize, output: usize, is_named: bool) -> String {
    let mut parts = Vec::new();
    if is_named {
        parts.push(request.model.outputs[output].name.to_owned());
    }
    if request.readings.len() > 1 {
        parts.extend(row.reading.map(|reading| format!("reading {reading}")));
    }
    for (at, axis) in request.axes.iter().enumerate() {
        if let (true, Some(axis), Some(value)) = (at != x_at, axis, row.parameters[at])
            && axis.is_varied()
        {
            let name = request.model.parameters[at].name;
            parts.push(format!("{name} = {}", short(value)));
        }
    }
    parts.join(", ")
}

fn span(values: impl Iterator<Item = f64>, spacing: Spacing) -> Result<Span, String> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if low > high {
        return Err("no point is finite, so there is nothing to draw".to_owned());
    }
    let wants_log = match spacing {
        Spacing::Log => true,
        Spacing::Even => false,
        Spacing::Listed => high / low >= LOG_RATIO,
    };
    let is_log = wants_log && low > 0.0 && low < high;
    if low == high {
        let margin = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
        (low, high) = (low - margin, high + margin);
    } else if is_log {
        let margin = (high / low).powf(0.03);
        (low, high) = (low / margin, high * margin);
    } else {
        let margin = 0.03 * (high - low);
        (low, high) = (low - margin, high + margin);
    }
    Ok(Span { low, high, is_log })
}

fn with_unit(name: &str, unit: &str) -> String {
    let name = name.trim();
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name} [{unit}]")
    }
}

/// Cuts a long line at its semicolons.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive("; ") {
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() || line.chars().count() + part.chars().count() <= LINE_LEN {
            line.push_str(part);
        } else {
            lines.push(part.to_owned());
        }
    }
    lines
}

fn y_name(request: &Request, outputs: &[usize]) -> String {
    let all = request.model.outputs;
    match outputs {
        [one] => with_unit(all[*one].meaning, all[*one].unit),
        several => all[several[0]].unit.to_owned(),
    }
}

struct Names<'a> {
    x: String,
    y: String,
    title: &'a str,
    subtitles: Vec<String>,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw<X, Y>(text: &mut String, x: X, y: Y, names: &Names<'_>, curves: &[Curve]) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut area = area
        .margin(8, 0, 0, 0)
        .titled(names.title, ("sans-serif", 20))?;
    for line in &names.subtitles {
        area = area.titled(line, ("sans-serif", 12))?;
    }
    let (area, legend_area) = area.split_horizontally(SIZE.0 - legend_width(curves));
    let mut chart = ChartBuilder::on(&area)
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(78)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(&names.x)
        .y_desc(&names.y)
        .x_labels(10)
        .y_labels(10)
        .max_light_lines(5)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(215, 215, 215))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    for (at, curve) in curves.iter().enumerate() {
        let style = style(at);
        chart.draw_series(LineSeries::new(curve.points.iter().copied(), style))?;
        if curve.points.len() <= MARKS_MAX {
            let mark = |point: &(f64, f64)| Circle::new(*point, 3, style.filled());
            chart.draw_series(curve.points.iter().map(mark))?;
        }
        if curves.len() > 1 {
            // Beside the curves, where it hides none of them.
            let y = 24 + 18 * at as i32;
            legend_area.draw(&PathElement::new(vec![(4, y), (26, y)], style))?;
            let text = ("sans-serif", 12).into_font();
            legend_area.draw(&Text::new(curve.label.clone(), (32, y - 6), text))?;
        }
    }
    area.present()?;
    Ok(())
}

fn style(at: usize) -> ShapeStyle {
    COLOURS[at % COLOURS.len()].stroke_width(2)
}

/// Pixels that the legend takes; none for a curve that needs none.
fn legend_width(curves: &[Curve]) -> u32 {
    if curves.len() < 2 {
        return 0;
    }
    let labels = curves.iter().map(|curve| curve.label.chars().count());
    // Glyphs of the font are about 7 pixels wide.
    (48 + 7 * labels.max().unwrap_or(0) as u32).min(SIZE.0 / 2)
}

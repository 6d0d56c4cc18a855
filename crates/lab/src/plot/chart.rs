//! A figure laid out and drawn.
//!
//! One panel has its labels at the right, each beside the end of its curve;
//! several panels share axes and a legend above them.

use super::data::{self, ChartData, Curve, Dot, Hue, Kind, Panel};
use super::scale::Scale;
use super::svg::{Anchor, Canvas, Mark};
use super::{Figure, ScaleKind};
use crate::claim::Bound;
use crate::recipe::{Recipe, trimmed};

/// A label's height, the end of its curve, the curve, and the lines of its text.
type Wanted<'a> = (f64, (f64, f64), &'a Curve, Vec<String>);

/// A finished figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// To be set into a page that has [`STYLE`](super::STYLE).
    pub svg: String,
    /// What it shows, theory included.
    pub data: ChartData,
}

const WIDTH: f64 = 880.0;
const LABELS_WIDTH: f64 = 220.0;
const LEFT: f64 = 66.0;
const BOTTOM: f64 = 50.0;
const LINE_HEIGHT: f64 = 16.0;
/// Of the labels' font, roughly.
const CHARACTER_WIDTH: f64 = 6.7;

/// The frame of a panel.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    const fn right(&self) -> f64 {
        self.left + self.width
    }

    const fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Draws a figure with the data of it.
pub fn draw(recipe: &Recipe, figure: &Figure, mut data: ChartData) -> Chart {
    let is_single = data.panels.len() <= 1;
    let columns = match data.panels.len() {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let xs: Vec<f64> = data.panels.iter().flat_map(data::xs).collect();
    let ys: Vec<f64> = data
        .panels
        .iter()
        .flat_map(|panel| data::ys(panel, figure.y.scale))
        .collect();
    let probe = Scale::new(figure.x.scale, &xs, None, None, (0.0, 1.0));
    for panel in &mut data.panels {
        let lines = data::theory(recipe, figure, panel, &probe.samples());
        panel.curves.extend(lines);
    }

    let mut canvas = Canvas::default();
    let top = if is_single {
        14.0
    } else {
        legend(&mut canvas, &data, figure.panel == "series")
    };
    let (gap, right) = if is_single {
        (0.0, LABELS_WIDTH)
    } else {
        (36.0, 26.0)
    };
    let width = (WIDTH - LEFT - right - gap * (columns - 1) as f64) / columns as f64;
    let height = if is_single { 350.0 } else { 230.0 };
    let row_height = height + if is_single { 0.0 } else { 52.0 };
    for (index, panel) in data.panels.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let frame = Frame {
            left: LEFT + column as f64 * (width + gap),
            top: top + row as f64 * row_height + if is_single { 0.0 } else { 22.0 },
            width,
            height,
        };
        let drawing = Drawing {
            recipe,
            figure,
            frame,
            x: Scale::new(figure.x.scale, &xs, None, None, (frame.left, frame.right())),
            y: Scale::new(
                figure.y.scale,
                &ys,
                figure.y.min,
                figure.y.max,
                (frame.bottom(), frame.top),
            ),
        };
        if !is_single {
            let middle = frame.left + width / 2.0;
            canvas.text(
                middle,
                frame.top - 7.0,
                "head",
                Anchor::Middle,
                &panel.title,
            );
        }
        drawing.axes(&mut canvas, column == 0);
        drawing.panel(&mut canvas, panel);
        if is_single {
            drawing.labels(&mut canvas, panel);
        }
    }
    let rows = data.panels.len().div_ceil(columns).max(1) as f64;
    let total = top + rows * row_height + if is_single { BOTTOM } else { BOTTOM - 30.0 };
    let middle = LEFT + (WIDTH - LEFT - right) / 2.0;
    canvas.text(middle, total - 10.0, "", Anchor::Middle, &figure.x.label);
    let centre = top + (total - BOTTOM - top) / 2.0;
    canvas.upright(16.0, centre, &figure.y.label);
    Chart {
        svg: canvas.finish(WIDTH, total, &figure.title),
        data,
    }
}

/// One panel being drawn.
struct Drawing<'a> {
    recipe: &'a Recipe,
    figure: &'a Figure,
    frame: Frame,
    x: Scale,
    y: Scale,
}

impl Drawing<'_> {
    fn axes(&self, canvas: &mut Canvas, has_labels: bool) {
        let frame = self.frame;
        for tick in self.y.ticks() {
            let Some(y) = self.y.at(tick) else { continue };
            canvas.line((frame.left, y), (frame.right(), y), "grid");
            if has_labels {
                canvas.text(
                    frame.left - 8.0,
                    y + 4.5,
                    "soft",
                    Anchor::End,
                    &trimmed(tick),
                );
            }
        }
        let ticks = self.x.ticks();
        let mut free_from = f64::NEG_INFINITY;
        for tick in &ticks {
            let Some(x) = self.x.at(*tick) else { continue };
            if self.figure.x.scale != ScaleKind::Slots {
                canvas.line((x, frame.top), (x, frame.bottom()), "grid");
            }
            let text = self.x_value(*tick);
            let half = text.chars().count() as f64 * CHARACTER_WIDTH / 2.0;
            // Labels that would touch are left out.
            if x - half > free_from + 4.0 {
                canvas.text(x, frame.bottom() + 18.0, "soft", Anchor::Middle, &text);
                free_from = x + half;
            }
        }
        canvas.frame(frame.left, frame.top, frame.width, frame.height);
        if let Some(x) = self.x.gap() {
            let y = frame.bottom();
            for shift in [-3.0, 2.0] {
                canvas.line(
                    (x + shift - 2.0, y + 5.0),
                    (x + shift + 2.0, y - 5.0),
                    "frame",
                );
            }
        }
    }

    fn x_value(&self, value: f64) -> String {
        let sweep = self.recipe.sweep_by_axis(&self.figure.x.axis);
        sweep.map_or_else(|| trimmed(value), |sweep| sweep.value(value))
    }

    /// Where a mark stands, kept inside the frame.
    fn at(&self, dot: &Dot, shift: f64) -> Option<(f64, f64)> {
        let x = self.x.at(dot.x)? + shift;
        let value = if self.figure.y.scale == ScaleKind::Log {
            dot.y.max(self.y.range().0)
        } else {
            dot.y
        };
        let y = self.y.at(value)?;
        (x.is_finite() && y.is_finite()).then(|| (x, y.clamp(self.frame.top, self.frame.bottom())))
    }

    /// Curves in one slot stand side by side.
    fn shift(&self, index: usize, count: usize) -> f64 {
        if self.figure.x.scale == ScaleKind::Slots && count > 1 {
            {
                let slot = self.frame.width / self.x.ticks().len().max(1) as f64;
                (index as f64 - (count - 1) as f64 / 2.0) * (slot / (count + 1) as f64).min(14.0)
            }
        } else {
            0.0
        }
    }

    fn panel(&self, canvas: &mut Canvas, panel: &Panel) {
        let of_kind = |kind| panel.curves.iter().filter(move |curve| curve.kind == kind);
        for curve in of_kind(Kind::Theory) {
            let inside = |dot: &&Dot| {
                let (low, high) = self.y.range();
                dot.y >= low && dot.y <= high
            };
            let dots = curve.dots.iter().filter(inside);
            let points: Vec<_> = dots.filter_map(|dot| self.at(dot, 0.0)).collect();
            canvas.poly(&points, "theory", dash(curve), 1.0);
        }
        for curve in of_kind(Kind::Trace) {
            let points: Vec<_> = curve
                .dots
                .iter()
                .filter_map(|dot| self.at(dot, 0.0))
                .collect();
            canvas.group(curve.hue);
            canvas.poly(&points, "line", dash(curve), opacity(curve));
            canvas.close();
        }
        let count = of_kind(Kind::Measured).count();
        for (index, curve) in of_kind(Kind::Measured).enumerate() {
            self.measured(canvas, curve, self.shift(index, count));
        }
        for curve in of_kind(Kind::Printed) {
            canvas.group(curve.hue);
            // Beside the marks of the series that they belong to.
            let place = of_kind(Kind::Measured).position(|measured| measured.hue == curve.hue);
            let shift = self.shift(place.unwrap_or(0), count);
            for dot in &curve.dots {
                if let Some(at) = self.at(dot, shift) {
                    canvas.mark(at, Mark::Printed, &self.tip(curve, dot));
                }
            }
            canvas.close();
        }
    }

    fn measured(&self, canvas: &mut Canvas, curve: &Curve, shift: f64) {
        canvas.group(curve.hue);
        let points: Vec<_> = curve
            .dots
            .iter()
            .filter_map(|dot| self.at(dot, shift))
            .collect();
        if self.figure.x.scale != ScaleKind::Slots {
            canvas.poly(&points, "line", dash(curve), opacity(curve));
        }
        for dot in &curve.dots {
            let Some((x, y)) = self.at(dot, shift) else {
                continue;
            };
            if let Some(half) = dot.half_width {
                let end = |value: f64| {
                    let moved = Dot {
                        y: value,
                        ..dot.clone()
                    };
                    self.at(&moved, shift).map_or(y, |(_, y)| y)
                };
                let (low, high) = (end((dot.y - half).max(0.0)), end(dot.y + half));
                canvas.line((x, low), (x, high), "bar");
                canvas.line((x - 3.5, low), (x + 3.5, low), "bar");
                canvas.line((x - 3.5, high), (x + 3.5, high), "bar");
            }
            // A run that was cut: the truth lies beyond, where the arrow points.
            let arrow = match dot.bound {
                Bound::AtLeast => -1.0,
                Bound::AtMost => 1.0,
                Bound::Exact | Bound::Unknown => 0.0,
            };
            if arrow != 0.0 {
                let tip = y + 17.0 * arrow;
                canvas.line((x, y), (x, tip), "bar");
                canvas.poly(
                    &[
                        (x - 4.0, tip - 5.0 * arrow),
                        (x, tip),
                        (x + 4.0, tip - 5.0 * arrow),
                    ],
                    "bar",
                    "",
                    1.0,
                );
            }
        }
        for dot in &curve.dots {
            if let Some(at) = self.at(dot, shift) {
                canvas.mark(at, mark(curve), &self.tip(curve, dot));
            }
        }
        canvas.close();
    }

    fn tip(&self, curve: &Curve, dot: &Dot) -> String {
        let mut tip = format!(
            "{}, {}: {}{}",
            curve.label,
            self.x_value(dot.x),
            dot.bound.sign(),
            trimmed(dot.y)
        );
        if let Some(half) = dot.half_width {
            tip.push_str(&format!(" ± {}", trimmed(half)));
        }
        if dot.runs > 0 {
            tip.push_str(&format!(", {} runs", dot.runs));
        }
        if dot.is_busy {
            tip.push_str(", on a busy machine");
        }
        tip
    }

    /// A label for each curve, as near to its end as the others allow.
    fn labels(&self, canvas: &mut Canvas, panel: &Panel) {
        let frame = self.frame;
        let characters = ((LABELS_WIDTH - 56.0) / CHARACTER_WIDTH) as usize;
        let count = panel
            .curves
            .iter()
            .filter(|c| c.kind == Kind::Measured)
            .count();
        let mut wanted: Vec<Wanted<'_>> = panel
            .curves
            .iter()
            .enumerate()
            .filter_map(|(index, curve)| {
                let is_measured = curve.kind == Kind::Measured;
                let shift = if is_measured {
                    self.shift(index, count)
                } else {
                    0.0
                };
                let end = curve
                    .dots
                    .iter()
                    .rev()
                    .find_map(|dot| self.at(dot, shift))?;
                Some((end.1, end, curve, wrap(&curve.label, characters)))
            })
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let heights: Vec<f64> = wanted
            .iter()
            .map(|(_, _, _, lines)| lines.len() as f64 * LINE_HEIGHT + 5.0)
            .collect();
        let ends: Vec<f64> = wanted.iter().map(|one| one.0).collect();
        let places = spread(&ends, &heights, frame.top - 4.0, frame.bottom() + 30.0);
        for ((_, end, curve, lines), (top, height)) in
            wanted.iter().zip(places.iter().zip(&heights))
        {
            let middle = top + height / 2.0;
            let left = frame.right() + 16.0;
            if curve.kind != Kind::Printed {
                canvas.line(*end, (left - 2.0, middle), "lead");
            }
            swatch(canvas, curve, mark(curve), left, middle);
            for (index, line) in lines.iter().enumerate() {
                let y = top + 13.5 + index as f64 * LINE_HEIGHT;
                canvas.text(left + 34.0, y, "", Anchor::Start, line);
            }
        }
    }
}

/// The legend above several panels; gives where they may begin.
fn legend(canvas: &mut Canvas, data: &ChartData, is_by_series: bool) -> f64 {
    let mut seen: Vec<&Curve> = Vec::new();
    for curve in data.panels.iter().flat_map(|panel| &panel.curves) {
        if !seen
            .iter()
            .any(|one| one.label == curve.label && one.kind == curve.kind)
        {
            seen.push(curve);
        }
    }
    let (mut x, mut y) = (LEFT, 18.0);
    for curve in seen {
        let width = 44.0 + curve.label.chars().count() as f64 * CHARACTER_WIDTH + 12.0;
        if x + width > WIDTH && x > LEFT {
            (x, y) = (LEFT, y + 22.0);
        }
        // Panels by series differ in hue; what they share is the shape.
        let mut neutral = curve.clone();
        if is_by_series {
            neutral.hue = Hue::Ink;
        }
        let shown = if curve.kind == Kind::Measured {
            &neutral
        } else {
            curve
        };
        let shape = mark(curve);
        swatch(canvas, shown, shape, x, y);
        canvas.text(x + 36.0, y + 4.5, "", Anchor::Start, &curve.label);
        x += width;
    }
    y + 16.0
}

/// A short piece of the curve.
fn swatch(canvas: &mut Canvas, curve: &Curve, shape: Mark, left: f64, y: f64) {
    canvas.group(curve.hue);
    match curve.kind {
        Kind::Printed => canvas.mark((left + 13.0, y), Mark::Printed, ""),
        Kind::Theory => canvas.poly(&[(left, y), (left + 26.0, y)], "theory", dash(curve), 1.0),
        Kind::Trace => {
            let ends = [(left, y), (left + 26.0, y)];
            canvas.poly(&ends, "line", dash(curve), opacity(curve));
        }
        Kind::Measured => {
            let ends = [(left, y), (left + 26.0, y)];
            canvas.poly(&ends, "line", dash(curve), opacity(curve));
            canvas.mark((left + 13.0, y), shape, "");
        }
    }
    canvas.close();
}

/// More than two curves of one colour: their shapes tell them apart.
const fn is_many(curve: &Curve) -> bool {
    curve.variants > 2
}

fn mark(curve: &Curve) -> Mark {
    let of_hue = match curve.hue {
        Hue::Ctcp | Hue::Ink => 0,
        Hue::Reno => 1,
        Hue::Cubic => 2,
        Hue::Auto => 3,
        Hue::Bbr => 4,
        Hue::Other | Hue::Fast | Hue::Delay => 5,
    };
    Mark::Shape {
        index: if is_many(curve) {
            curve.variant
        } else {
            of_hue
        },
        is_hollow: if is_many(curve) {
            curve.variant >= 6
        } else {
            curve.variant > 0
        },
    }
}

fn dash(curve: &Curve) -> &'static str {
    match (curve.kind, curve.variant) {
        (_, 0) => "",
        (Kind::Theory, 1) => "7 4",
        (Kind::Theory, _) => "2 3",
        _ if is_many(curve) => "",
        _ => "6 4",
    }
}

/// Of many curves of one colour the later ones are the stronger.
fn opacity(curve: &Curve) -> f64 {
    if is_many(curve) {
        0.35 + 0.65 * (curve.variant + 1) as f64 / curve.variants as f64
    } else {
        1.0
    }
}

/// Tops of boxes that shall be centred at `wanted` (ascending), do not overlap,
/// and stay within `low..high` if there is room.
fn spread(wanted: &[f64], heights: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut tops: Vec<f64> = Vec::with_capacity(wanted.len());
    let mut free = low;
    for (centre, height) in wanted.iter().zip(heights) {
        let top = (centre - height / 2.0).max(free);
        tops.push(top);
        free = top + height;
    }
    let mut limit = high;
    for (top, height) in tops.iter_mut().zip(heights).rev() {
        *top = top.min(limit - height);
        limit = *top;
    }
    // More than fits: better below the frame than on one another.
    let mut free = low;
    for (top, height) in tops.iter_mut().zip(heights) {
        *top = top.max(free);
        free = *top + height;
    }
    tops
}

/// Lines of at most so many characters, broken at spaces.
fn wrap(text: &str, characters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= characters {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_lie_on_one_another() {
        let wanted = [10.0, 12.0, 13.0, 300.0, 301.0];
        let heights = [20.0; 5];
        let tops = spread(&wanted, &heights, 0.0, 310.0);
        assert!(
            tops.windows(2).all(|pair| pair[0] + 20.0 <= pair[1] + 1e-9),
            "{tops:?}"
        );
        assert!(tops[0] >= 0.0 && tops[4] + 20.0 <= 310.0 + 1e-9);
        let crowded = spread(&wanted, &heights, 0.0, 50.0);
        assert!(
            crowded
                .windows(2)
                .all(|pair| pair[0] + 20.0 <= pair[1] + 1e-9)
        );
    }

    #[test]
    fn long_labels_break_at_spaces() {
        assert_eq!(
            wrap("CTCP, queue of a quarter", 12),
            ["CTCP, queue", "of a quarter"]
        );
    }
}

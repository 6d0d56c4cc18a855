//! Small pieces of SVG, and the colours that figures and page share.
//!
//! Written by hand: a figure must take its colours from the page (light, dark,
//! print), carry tooltips and readable text, and be the same on every machine;
//! drawing libraries for Rust paint fixed colours and measure fonts.

use std::fmt::Write as _;

use super::data::Hue;

/// Colours and lines. Hues keep apart for the colour-blind and have at least
/// three to one against the paper; marks differ in shape as well.
pub const STYLE: &str = "\
.lab{--paper:#fff;--ink:#1c2127;--soft:#5a6570;--grid:#e4e8ec;--ctcp:#0072b2;--auto:#00876c;\
--reno:#c44e00;--cubic:#9a7000;--bbr:#a4458c;--other:#6b7280;--fast:#3f5f8a;--delay:#7a5c3a}\
@media (prefers-color-scheme:dark){.lab{--paper:#15191e;--ink:#e6e9ed;--soft:#a0abb6;--grid:#2c343c;\
--ctcp:#5ab0ee;--auto:#3ccfa5;--reno:#ff8a4c;--cubic:#e8b93a;--bbr:#e38ccb;--other:#9ca3af;\
--fast:#a9c3e6;--delay:#d0ad80}}\
@media print{.lab{--paper:#fff;--ink:#000;--soft:#444;--grid:#ddd;--ctcp:#0072b2;--auto:#00876c;\
--reno:#c44e00;--cubic:#9a7000;--bbr:#a4458c;--other:#6b7280;--fast:#3f5f8a;--delay:#7a5c3a}}\
svg.lab{font:13px system-ui,sans-serif;font-variant-numeric:tabular-nums}\
svg.lab text{fill:var(--ink)}svg.lab .soft{fill:var(--soft)}svg.lab .head{font-weight:600}\
svg.lab .grid{stroke:var(--grid);stroke-width:1;fill:none}svg.lab .frame{stroke:var(--soft);stroke-width:1;fill:none}\
svg.lab .paper{fill:var(--paper)}\
.h-ctcp{--h:var(--ctcp)}.h-auto{--h:var(--auto)}.h-reno{--h:var(--reno)}.h-cubic{--h:var(--cubic)}\
.h-bbr{--h:var(--bbr)}.h-other{--h:var(--other)}.h-fast{--h:var(--fast)}.h-delay{--h:var(--delay)}.h-ink{--h:var(--soft)}\
svg.lab .line{stroke:var(--h);stroke-width:2;fill:none;stroke-linejoin:round}\
svg.lab .bar{stroke:var(--h);stroke-width:1.4;fill:none}\
svg.lab .dot{fill:var(--h);stroke:var(--paper);stroke-width:1}\
svg.lab .ring{fill:var(--paper);stroke:var(--h);stroke-width:2}\
svg.lab .print{stroke:var(--h);stroke-width:3;fill:none;stroke-linecap:round}\
svg.lab .halo{stroke:var(--paper);stroke-width:6;fill:none;stroke-linecap:round}\
svg.lab .theory{stroke:var(--soft);stroke-width:1.4;fill:none}\
svg.lab .lead{stroke:var(--soft);stroke-width:.7;fill:none;opacity:.6}";

/// An SVG file of its own: with the style, and a background.
pub fn stand_alone(svg: &str) -> String {
    let Some((head, body)) = svg.split_once('>') else {
        return svg.to_owned();
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{head}>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>{body}\n"
    )
}

/// Text that may stand in XML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A picture that grows.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    out: String,
}

impl Canvas {
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, content: &str) {
        let _ = write!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{}\">{}</text>",
            anchor.name(),
            escape(content)
        );
    }

    /// Read from below, as the title of the vertical axis.
    pub(super) fn upright(&mut self, x: f64, y: f64, content: &str) {
        let _ = write!(
            self.out,
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(content)
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.out,
            "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through the points; `dash` and `opacity` as SVG has them.
    pub(super) fn poly(&mut self, points: &[(f64, f64)], class: &str, dash: &str, opacity: f64) {
        if points.len() < 2 {
            return;
        }
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.out, "<path class=\"{class}\" d=\"{path}\"");
        if !dash.is_empty() {
            let _ = write!(self.out, " stroke-dasharray=\"{dash}\"");
        }
        if opacity < 1.0 {
            let _ = write!(self.out, " opacity=\"{opacity:.2}\"");
        }
        self.out.push_str("/>");
    }

    pub(super) fn frame(&mut self, left: f64, top: f64, width: f64, height: f64) {
        let _ = write!(
            self.out,
            "<rect class=\"frame\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// Opens a group of one colour.
    pub(super) fn group(&mut self, hue: Hue) {
        let _ = write!(self.out, "<g class=\"{}\">", hue.class());
    }

    pub(super) fn close(&mut self) {
        self.out.push_str("</g>");
    }

    /// A mark around a point; a tooltip if `tip` is not empty.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), mark: Mark, tip: &str) {
        let class = match mark {
            Mark::Printed => "print",
            Mark::Shape {
                is_hollow: true, ..
            } => "ring",
            Mark::Shape { .. } => "dot",
        };
        let path = mark.path(x, y);
        if matches!(mark, Mark::Printed) {
            let _ = write!(self.out, "<path class=\"halo\" d=\"{path}\"/>");
        }
        let _ = write!(self.out, "<path class=\"{class}\" d=\"{path}\"");
        if tip.is_empty() {
            self.out.push_str("/>");
        } else {
            let _ = write!(self.out, "><title>{}</title></path>", escape(tip));
        }
    }

    /// The picture, with what it shows for those who cannot see it.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lab\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(title),
            self.out
        )
    }
}

/// How a value is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// What a paper prints: a bold cross.
    Printed,
    /// What we measured.
    Shape {
        /// Which of the shapes.
        index: usize,
        /// Only its outline.
        is_hollow: bool,
    },
}

impl Mark {
    fn path(self, x: f64, y: f64) -> String {
        let polygon = |corners: &[(f64, f64)]| {
            let mut path = String::new();
            for (index, (dx, dy)) in corners.iter().enumerate() {
                let letter = if index == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{letter}{:.1} {:.1}", x + dx, y + dy);
            }
            path.push('Z');
            path
        };
        match self {
            Self::Printed => format!(
                "M{:.1} {:.1}l9 9M{:.1} {:.1}l9 -9",
                x - 4.5,
                y - 4.5,
                x - 4.5,
                y + 4.5
            ),
            Self::Shape { index, .. } => match index % 6 {
                0 => format!(
                    "M{:.1} {y:.1}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
                    x - 4.5
                ),
                1 => polygon(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
                2 => polygon(&[(0.0, -5.2), (4.9, 3.8), (-4.9, 3.8)]),
                3 => polygon(&[(0.0, -5.8), (5.8, 0.0), (0.0, 5.8), (-5.8, 0.0)]),
                4 => polygon(&[(0.0, 5.2), (4.9, -3.8), (-4.9, -3.8)]),
                _ => polygon(&[
                    (-5.0, -1.8),
                    (0.0, -5.5),
                    (5.0, -1.8),
                    (3.1, 4.4),
                    (-3.1, 4.4),
                ]),
            },
        }
    }
}

//! From values to positions along an axis, and where its ticks stand.

use super::ScaleKind;

/// An axis laid out over a length of the picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    kind: ScaleKind,
    min: f64,
    max: f64,
    /// Slots in order; for [`ScaleKind::Slots`] only.
    slots: Vec<f64>,
    /// A zero that has no place on a logarithmic axis stands at the start.
    has_zero: bool,
    from: f64,
    to: f64,
}

/// Part of a logarithmic axis that its zero takes.
const ZERO_SHARE: f64 = 0.08;

impl Scale {
    /// An axis over `values`, which may be forced to reach `min` and `max`, drawn
    /// from `from` to `to`.
    pub(super) fn new(
        kind: ScaleKind,
        values: &[f64],
        min: Option<f64>,
        max: Option<f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let has_zero = kind == ScaleKind::Log && values.contains(&0.0);
        let drawn = |v: &&f64| v.is_finite() && (kind != ScaleKind::Log || **v > 0.0);
        let fold = |start: f64, pick: fn(f64, f64) -> f64| {
            values.iter().filter(drawn).copied().fold(start, pick)
        };
        let (mut low, mut high) = (
            min.unwrap_or_else(|| fold(f64::INFINITY, f64::min)),
            max.unwrap_or(0.0).max(fold(f64::NEG_INFINITY, f64::max)),
        );
        if !(low.is_finite() && high.is_finite()) || low > high {
            (low, high) = (0.1, 1.0);
        }
        match kind {
            ScaleKind::Linear => {
                if min.is_none() && low > 0.0 && low < 0.6 * high {
                    low = 0.0;
                }
                let step = step(high - low);
                low = if min.is_some() {
                    low
                } else {
                    (low / step).floor() * step
                };
                if max.is_none_or(|max| max < high) {
                    high = ((high / step) - 1e-9).ceil() * step;
                }
                if high <= low {
                    high = low + 1.0;
                }
            }
            ScaleKind::Log => {
                // A little air beyond the outermost marks.
                let air = (high / low).powf(0.04).max(1.1);
                low = if min.is_some() { low } else { low / air };
                high = if max == Some(high) { high } else { high * air };
            }
            ScaleKind::Slots => {}
        }
        let mut slots: Vec<f64> = values.to_vec();
        slots.sort_by(f64::total_cmp);
        slots.dedup();
        Self {
            kind,
            min: low,
            max: high,
            slots,
            has_zero,
            from,
            to,
        }
    }

    /// Where a value stands; none if it has no place on this axis.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let length = self.to - self.from;
        match self.kind {
            ScaleKind::Linear => {
                Some(self.from + length * (value - self.min) / (self.max - self.min))
            }
            ScaleKind::Slots => {
                let index = self.slots.iter().position(|slot| *slot == value)?;
                let width = length / self.slots.len() as f64;
                Some(self.from + width * (index as f64 + 0.5))
            }
            ScaleKind::Log if value > 0.0 => {
                let start = if self.has_zero { ZERO_SHARE } else { 0.0 };
                let share = (value / self.min).ln() / (self.max / self.min).ln();
                Some(self.from + length * (start + (1.0 - start) * share))
            }
            ScaleKind::Log => {
                (value == 0.0 && self.has_zero).then_some(self.from + length * ZERO_SHARE / 4.0)
            }
        }
    }

    /// Where a zero was set apart from the rest of the axis.
    pub(super) fn gap(&self) -> Option<f64> {
        let at = self.from + (self.to - self.from) * ZERO_SHARE * 0.7;
        self.has_zero.then_some(at)
    }

    /// Lowest and highest value with a place.
    pub(super) const fn range(&self) -> (f64, f64) {
        (self.min, self.max)
    }

    /// Values with a label.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            ScaleKind::Slots => self.slots.clone(),
            ScaleKind::Linear => {
                let step = step(self.max - self.min);
                let first = (self.min / step - 1e-9).ceil() as i64;
                let last = (self.max / step + 1e-9).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
            ScaleKind::Log => {
                let mut ticks = if self.has_zero { vec![0.0] } else { Vec::new() };
                let decades = (self.max / self.min).log10();
                let multiples: &[f64] = match decades {
                    d if d < 3.3 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                let first = self.min.log10().floor() as i32;
                let last = self.max.log10().ceil() as i32;
                for decade in first..=last {
                    for multiple in multiples {
                        let tick = multiple * 10f64.powi(decade);
                        if tick >= self.min * 0.999 && tick <= self.max * 1.001 {
                            ticks.push(tick);
                        }
                    }
                }
                ticks
            }
        }
    }

    /// Values at which a curve of theory is drawn.
    pub(super) fn samples(&self) -> Vec<f64> {
        const COUNT: usize = 120;
        let share = |n: usize| n as f64 / COUNT as f64;
        match self.kind {
            ScaleKind::Slots => self.slots.clone(),
            ScaleKind::Linear => (0..=COUNT)
                .map(|n| self.min + (self.max - self.min) * share(n))
                .collect(),
            ScaleKind::Log => (0..=COUNT)
                .map(|n| self.min * (self.max / self.min).powf(share(n)))
                .collect(),
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives four to nine ticks.
fn step(range: f64) -> f64 {
    if range <= 0.0 {
        return 1.0;
    }
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    match rough / power {
        r if r < 1.5 => power,
        r if r < 3.5 => 2.0 * power,
        r if r < 7.5 => 5.0 * power,
        _ => 10.0 * power,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_starts_at_nothing_and_ends_at_a_round_number() {
        let scale = Scale::new(ScaleKind::Linear, &[1.0, 23.0], None, None, (0.0, 100.0));
        assert_eq!(scale.range(), (0.0, 25.0));
        assert_eq!(scale.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(scale.at(12.5), Some(50.0));
    }

    #[test]
    fn a_zero_stands_apart_on_a_logarithmic_axis() {
        let scale = Scale::new(ScaleKind::Log, &[0.0, 0.01, 0.1], None, None, (0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 0.01, 0.02, 0.05, 0.1]);
        let at = |value| scale.at(value).unwrap();
        assert!(at(0.0) < scale.gap().unwrap() && scale.gap().unwrap() < at(0.01));
        assert_eq!(scale.at(-1.0), None);
    }

    #[test]
    fn nothing_at_all_still_has_an_axis() {
        for kind in [ScaleKind::Linear, ScaleKind::Log, ScaleKind::Slots] {
            let scale = Scale::new(kind, &[], None, None, (0.0, 1.0));
            assert!(scale.ticks().len() < 20);
        }
    }
}

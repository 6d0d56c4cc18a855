//! Lists and ranges of parameters, and a model evaluated on all of them.

use ctcp_model::registry::{Parameter, Preset};

use super::Request;

/// More rows than this are a slip of the keyboard: a table of 10⁵ lines is already
/// more than anybody plots.
const ROWS_MAX: usize = 100_000;

/// Numbers that one range may stand for.
const POINTS_MAX: usize = 10_000;

/// The values that a parameter takes in turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) values: Vec<f64>,
    pub(super) spacing: Spacing,
}

/// How the values of an axis follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// One by one, as typed.
    Listed,
    /// At even distances.
    Even,
    /// At even ratios.
    Log,
}

impl Axis {
    /// What a parameter is if nobody says; none if the model derives it.
    pub(super) fn of_default(parameter: &Parameter) -> Option<Self> {
        let values = match parameter.default {
            Preset::Value(value) => vec![value],
            Preset::Each(values) => values.to_vec(),
            Preset::Derived(_) => return None,
        };
        Some(Self {
            values,
            spacing: Spacing::Listed,
        })
    }

    pub(super) fn is_varied(&self) -> bool {
        self.values.len() > 1
    }
}

/// Reads `0.01`, `1%`, `25ms`, `0.01,0.02`, `0.1..0.5/9` and `0.001..0.2/20log`.
pub(super) fn axis(text: &str, parameter: &'static Parameter) -> Result<Axis, String> {
    let mut values = Vec::new();
    let mut spacing = Spacing::Listed;
    for item in text.split(',') {
        if let Some((from, rest)) = item.split_once("..") {
            let range = range(item, from, rest, parameter)?;
            spacing = range.spacing;
            values.extend(range.values);
        } else {
            values.push(number(item, parameter)?);
        }
    }
    for value in &values {
        let checked = parameter.domain.check(parameter.name, *value);
        checked.map_err(|error| error.to_string())?;
    }
    Ok(Axis { values, spacing })
}

fn range(item: &str, from: &str, rest: &str, parameter: &Parameter) -> Result<Axis, String> {
    let refuse = || {
        format!(
            "`{item}` is not a range: write FROM..TO/COUNT, such as 0.01..0.2/20, or \
             0.001..0.2/20log for even ratios"
        )
    };
    let (to, count) = rest.split_once('/').ok_or_else(refuse)?;
    let (count, is_log) = match count.strip_suffix("log") {
        Some(count) => (count, true),
        None => (count, false),
    };
    let count: usize = count.trim().parse().map_err(|_| refuse())?;
    if !(2..=POINTS_MAX).contains(&count) {
        return Err(format!("`{item}`: a range has 2 to {POINTS_MAX} numbers"));
    }
    let (from, to) = (number(from, parameter)?, number(to, parameter)?);
    if is_log && (from <= 0.0 || to <= 0.0) {
        return Err(format!("`{item}`: even ratios need both ends above 0"));
    }
    let last = count - 1;
    let mut values: Vec<f64> = (0..count)
        .map(|at| match at {
            // The ends as typed, not as they round.
            0 => from,
            at if at == last => to,
            at => {
                let share = at as f64 / last as f64;
                if is_log {
                    from * (to / from).powf(share)
                } else {
                    from + (to - from) * share
                }
            }
        })
        .collect();
    if parameter.domain.is_whole() {
        for value in &mut values {
            *value = value.round();
        }
        values.dedup();
    }
    let spacing = if is_log { Spacing::Log } else { Spacing::Even };
    Ok(Axis { values, spacing })
}

/// A number in the parameter's own unit, or with one of those that are usual for
/// times and shares.
fn number(text: &str, parameter: &Parameter) -> Result<f64, String> {
    let text = text.trim();
    if let Ok(value) = text.parse() {
        return Ok(value);
    }
    let units: &[(&str, f64)] = match parameter.unit {
        "s" => &[("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0)],
        "" => &[("%", 0.01)],
        _ => &[],
    };
    for (unit, scale) in units {
        if let Some(value) = text.strip_suffix(unit).and_then(|n| n.trim().parse().ok()) {
            let value: f64 = value;
            return Ok(value * scale);
        }
    }
    Err(format!(
        "`{text}` is not a number for {}; allowed: {}",
        parameter.name, parameter.domain
    ))
}

/// A row: the parameters, how the equation was read, and what it gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// One for each parameter of the model; none if the model derived it.
    pub(super) parameters: Vec<Option<f64>>,
    pub(super) reading: Option<&'static str>,
    /// All outputs of the model.
    pub(super) outputs: Vec<f64>,
}

/// A model on every combination of readings and values, the last parameter
/// varying fastest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grid {
    pub(super) rows: Vec<Row>,
}

impl Grid {
    /// Evaluates what is asked for.
    ///
    /// # Errors
    /// Too many rows, or values that do not go together, with the row that
    /// showed it.
    pub(super) fn evaluate(request: &Request) -> Result<Self, String> {
        let mut count = request.readings.len().max(1);
        for axis in request.axes.iter().flatten() {
            count = count.saturating_mul(axis.values.len());
        }
        if count > ROWS_MAX {
            return Err(format!(
                "{count} rows are too many, at most {ROWS_MAX}: give fewer values"
            ));
        }
        let readings: Vec<Option<&'static str>> = if request.readings.is_empty() {
            vec![None]
        } else {
            request.readings.iter().copied().map(Some).collect()
        };
        let mut rows = Vec::with_capacity(count);
        for reading in readings {
            for parameters in combinations(&request.axes) {
                rows.push(row(request, parameters, reading)?);
            }
        }
        Ok(Self { rows })
    }
}

fn row(
    request: &Request,
    parameters: Vec<Option<f64>>,
    reading: Option<&'static str>,
) -> Result<Row, String> {
    let model = request.model;
    let named = model.parameters.iter().zip(&parameters);
    let given: Vec<_> = named
        .filter_map(|(parameter, value)| Some((parameter.name, (*value)?)))
        .collect();
    match model.evaluate(&given, reading) {
        Ok(outputs) => Ok(Row {
            parameters,
            reading,
            outputs,
        }),
        Err(error) => {
            let at: Vec<_> = given
                .iter()
                .map(|(name, value)| format!("{name} = {value}"))
                .collect();
            let (name, at) = (model.name, at.join(", "));
            Err(format!("{error} (model {name} at {at})"))
        }
    }
}

/// The product of the axes.
fn combinations(axes: &[Option<Axis>]) -> Vec<Vec<Option<f64>>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        let values: Vec<_> = match axis {
            Some(axis) => axis.values.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let longer = |begun: &Vec<Option<f64>>| {
            let begun = begun.clone();
            let values = values.clone();
            values.into_iter().map(move |value| {
                let mut longer = begun.clone();
                longer.push(value);
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use ctcp_model::model_by_name;

    use super::*;

    fn parameter(model: &str, name: &str) -> &'static Parameter {
        model_by_name(model).unwrap().parameter(name).unwrap()
    }

    fn values(text: &str, name: &str) -> Result<Vec<f64>, String> {
        axis(text, parameter("eta", name)).map(|axis| axis.values)
    }

    #[test]
    fn numbers_lists_and_ranges_are_read() {
        assert_eq!(values("0.01", "p"), Ok(vec![0.01]));
        assert_eq!(values("1%, 2 %", "p"), Ok(vec![0.01, 0.02]));
        assert_eq!(values("0..0.5/3", "p"), Ok(vec![0.0, 0.25, 0.5]));
        let ratios = values("0.001..0.1/3log", "p").unwrap();
        assert!((ratios[1] - 0.01).abs() < 1e-15, "{ratios:?}");
        assert_eq!((ratios[0], ratios[2]), (0.001, 0.1));
        assert_eq!(values("0,0.1..0.2/2", "p"), Ok(vec![0.0, 0.1, 0.2]));
        assert_eq!(values("1..4/7", "block"), Ok(vec![1.0, 2.0, 3.0, 4.0]));
        let times = axis("25ms,1s,0.5", parameter("padhye", "rtt")).unwrap();
        assert_eq!(times.values, [0.025, 1.0, 0.5]);
    }

    #[test]
    fn what_cannot_be_read_says_how_to_write_it() {
        for (text, hint) in [
            ("0.001..0.2", "FROM..TO/COUNT"),
            ("0.001..0.2/log", "FROM..TO/COUNT"),
            ("0.001..0.2/1", "2 to 10000"),
            ("0.001..0.2/99999999", "2 to 10000"),
            ("0..0.2/5log", "above 0"),
            ("much", "at least 0, at most 0.99"),
            ("", "not a number"),
            ("25ms", "not a number"),
            ("0.1,1.5", "p = 1.5 is out of range"),
            ("NaN", "out of range"),
            ("0.1..1.5/3", "out of range"),
        ] {
            let error = values(text, "p").unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        let error = values("1.5", "block").unwrap_err();
        assert!(error.contains("whole"), "{error}");
    }

    #[test]
    fn the_last_parameter_varies_fastest() {
        let axis = |values: &[f64]| {
            Some(Axis {
                values: values.to_vec(),
                spacing: Spacing::Listed,
            })
        };
        let all = combinations(&[axis(&[1.0, 2.0]), None, axis(&[3.0, 4.0])]);
        let first_and_last: Vec<_> = all.iter().map(|row| (row[0], row[2])).collect();
        let expected = [(1.0, 3.0), (1.0, 4.0), (2.0, 3.0), (2.0, 4.0)];
        assert_eq!(first_and_last, expected.map(|(a, b)| (Some(a), Some(b))));
    }
}

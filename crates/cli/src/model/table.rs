//! A grid as an aligned table, as comma-separated values and as JSON lines.

use serde_json::{Map, Value};

use super::arguments::default_text;
use super::grid::Grid;
use super::{Axis, Request};

/// The table for people: what was computed, from what, then the columns. Only
/// parameters that vary have a column.
pub(super) fn aligned(request: &Request, grid: &Grid) -> String {
    let model = request.model;
    let varied: Vec<usize> = (0..model.parameters.len())
        .filter(|at| is_varied(request.axes[*at].as_ref()))
        .collect();
    let has_readings = request.readings.len() > 1;
    let mut names: Vec<&str> = varied.iter().map(|at| model.parameters[*at].name).collect();
    let mut units: Vec<&str> = varied.iter().map(|at| model.parameters[*at].unit).collect();
    if has_readings {
        names.insert(0, "reading");
        units.insert(0, "");
    }
    for at in &request.outputs {
        names.push(model.outputs[*at].name);
        units.push(model.outputs[*at].unit);
    }
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(grid.rows.len() + 1);
    if units.iter().any(|unit| !unit.is_empty()) {
        rows.push(units.iter().map(|unit| (*unit).to_owned()).collect());
    }
    for row in &grid.rows {
        let mut cells = Vec::with_capacity(names.len());
        cells.extend(row.reading.filter(|_| has_readings).map(str::to_owned));
        let parameters = varied.iter().filter_map(|at| row.parameters[*at]);
        cells.extend(parameters.map(short));
        cells.extend(request.outputs.iter().map(|at| short(row.outputs[*at])));
        rows.push(cells);
    }
    format!(
        "{}: {}\n{}\n{}\n\n{}",
        model.name,
        model.title,
        model.equation,
        circumstances(request),
        columns(&names, &rows, true)
    )
}

/// Source, reading and every parameter that does not vary, with its unit.
pub(super) fn circumstances(request: &Request) -> String {
    let mut parts = vec![request.model.source.to_owned()];
    if let [reading] = request.readings[..] {
        parts.push(format!("reading {reading}"));
    }
    for (parameter, axis) in request.model.parameters.iter().zip(&request.axes) {
        let value = match axis {
            Some(axis) if axis.is_varied() => continue,
            Some(axis) => short(axis.values[0]),
            None => default_text(parameter),
        };
        let unit = match parameter.unit {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        parts.push(format!("{} = {value}{unit}", parameter.name));
    }
    parts.join("; ")
}

fn is_varied(axis: Option<&Axis>) -> bool {
    axis.is_some_and(Axis::is_varied)
}

/// Cells under their names, in columns as wide as their widest cell. Numbers
/// stand to the right, texts to the left.
pub(super) fn columns(names: &[&str], rows: &[Vec<String>], are_numbers: bool) -> String {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([names[at].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            let gap = " ".repeat(width - cell.chars().count());
            if !line.is_empty() {
                line += "  ";
            }
            if are_numbers {
                line += &gap;
                line += cell;
            } else {
                line += cell;
                line += &gap;
            }
        }
        text += line.trim_end();
        text.push('\n');
    };
    line(&mut names.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Six significant digits, without zeros that say nothing.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        // Not −0.
        return "0".to_owned();
    }
    if !value.is_finite() || (value.fract() == 0.0 && size < 1e12) {
        return value.to_string();
    }
    if !(1e-4..1e9).contains(&size) {
        let text = format!("{value:.5e}");
        let (digits, exponent) = text.split_once('e').expect("written with an exponent");
        return format!("{}e{exponent}", without_zeros(digits));
    }
    let decimals = (5 - size.log10().floor() as i32).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// The names of all columns: the reading if there are several ways, every
/// parameter that has a value, the outputs.
fn header(request: &Request) -> Vec<&'static str> {
    let model = request.model;
    let reading = (!request.readings.is_empty()).then_some("reading");
    let parameters = model.parameters.iter().zip(&request.axes);
    let given = parameters.filter_map(|(parameter, axis)| axis.as_ref().map(|_| parameter.name));
    let outputs = request.outputs.iter().map(|at| model.outputs[*at].name);
    reading.into_iter().chain(given).chain(outputs).collect()
}

/// Comma-separated values with a header line, in full precision.
pub(super) fn csv(request: &Request, grid: &Grid) -> String {
    let mut text = header(request).join(",");
    text.push('\n');
    for row in &grid.rows {
        let mut cells: Vec<String> = row.reading.map(str::to_owned).into_iter().collect();
        cells.extend(row.parameters.iter().flatten().map(f64::to_string));
        let outputs = request.outputs.iter().map(|at| row.outputs[*at]);
        cells.extend(outputs.map(|value| value.to_string()));
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// One object a row, in full precision. What has no limit is null: JSON knows no
/// infinity.
pub(super) fn json_lines(request: &Request, grid: &Grid) -> String {
    let mut text = String::new();
    for row in &grid.rows {
        let values = row.parameters.iter().flatten().copied();
        let outputs = request.outputs.iter().map(|at| row.outputs[*at]);
        let numbers = values.chain(outputs).map(Value::from);
        let reading = row.reading.map(Value::from);
        let cells = reading.into_iter().chain(numbers);
        let names = header(request).into_iter().map(str::to_owned);
        let mut object: Map<String, Value> = names.zip(cells).collect();
        object.insert("model".to_owned(), request.model.name.into());
        text += &Value::Object(object).to_string();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits_and_no_idle_zeros() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (8.0, "8"),
            (0.25, "0.25"),
            (1.0 / 3.0, "0.333333"),
            (12.643956, "12.644"),
            (123456.78, "123457"),
            (1e-7 / 3.0, "3.33333e-8"),
            (2e-9, "2e-9"),
            (4e15 + 0.5, "4e15"),
            (99.99999, "100"),
            (-1.5, "-1.5"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["1".to_owned(), "η".to_owned()]];
        assert_eq!(columns(&["abc", "d"], &rows, true), "abc  d\n  1  η\n");
        assert_eq!(columns(&["abc", "d"], &rows, false), "abc  d\n1    η\n");
    }
}

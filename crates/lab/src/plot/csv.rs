//! Comma-separated values: printed ones read, measured ones written.

use super::{ChartData, Figure, Printed};

/// Files of printed values, embedded.
const FILES: [(&str, &str); 7] = [
    ("cc14_fig9.csv", include_str!("../../data/cc14_fig9.csv")),
    ("cc14_fig10.csv", include_str!("../../data/cc14_fig10.csv")),
    ("cc14_video.csv", include_str!("../../data/cc14_video.csv")),
    ("cc14_web.csv", include_str!("../../data/cc14_web.csv")),
    (
        "mp12_table5.csv",
        include_str!("../../data/mp12_table5.csv"),
    ),
    (
        "model_table1.csv",
        include_str!("../../data/model_table1.csv"),
    ),
    (
        "mp12_table4.csv",
        include_str!("../../data/mp12_table4.csv"),
    ),
];

/// A table: `#` begins a comment line, the first other line names the columns.
/// Fields are not quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csv<'a> {
    columns: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Csv<'a> {
    /// Reads a table.
    pub fn parse(text: &'a str) -> Self {
        let mut lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
        Self {
            columns: lines.next().unwrap_or_default(),
            rows: lines.collect(),
        }
    }

    /// The embedded file of this name.
    pub fn embedded(name: &str) -> Option<Csv<'static>> {
        let file = FILES.iter().find(|(file, _)| *file == name);
        file.map(|(_, text)| Csv::parse(text))
    }

    /// Names of the embedded files.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// The column of this name, counted from 0.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| *column == name)
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[&'a str] {
        &self.columns
    }

    fn number(&self, row: usize, column: &str) -> Option<f64> {
        let text = self.rows.get(row)?.get(self.column(column)?)?;
        text.parse().ok()
    }
}

/// The values that a paper prints, x before y.
pub fn printed_points(printed: &Printed) -> Vec<(f64, f64)> {
    let mut points: Vec<_> = printed.points.iter().map(|&[x, y]| (x, y)).collect();
    let Some(columns) = &printed.csv else {
        return points;
    };
    let Some(csv) = Csv::embedded(&columns.file) else {
        return points;
    };
    for row in 0..csv.rows.len() {
        let is_wanted = |(name, value): (&String, &f64)| csv.number(row, name) == Some(*value);
        let x = if columns.x_is_row {
            Some((row + 1) as f64)
        } else {
            csv.number(row, &columns.x)
        };
        if let (true, Some(x), Some(y)) = (
            columns.only.iter().all(is_wanted),
            x,
            csv.number(row, &columns.y),
        ) {
            points.push((x, y * columns.times));
        }
    }
    points
}

/// A figure's numbers: one line for each mark, measured, printed or theory.
pub fn figure_csv(figure: &Figure, data: &ChartData) -> String {
    let mut out = format!(
        "# {}\npanel,kind,curve,{},{},half_width_95,bound,runs\n",
        quiet(&figure.title),
        figure.x.axis,
        quiet(&figure.y.label),
    );
    for panel in &data.panels {
        for curve in &panel.curves {
            for dot in &curve.dots {
                let half = dot
                    .half_width
                    .map_or(String::new(), |half| half.to_string());
                out.push_str(&format!(
                    "{},{},{},{},{},{half},{},{}\n",
                    quiet(&panel.title),
                    curve.kind.name(),
                    quiet(&curve.label),
                    dot.x,
                    dot.y,
                    dot.bound.sign().trim(),
                    dot.runs,
                ));
            }
        }
    }
    out
}

/// Without what would break the columns.
fn quiet(text: &str) -> String {
    text.replace([',', '\n', '"'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::CsvColumns;

    #[test]
    fn rows_without_a_value_are_left_out() {
        let printed = Printed {
            name: "underruns".to_owned(),
            label: String::new(),
            series: String::new(),
            at: Default::default(),
            points: vec![[0.5, 1.0]],
            csv: Some(CsvColumns {
                file: "cc14_video.csv".to_owned(),
                x: "loss_p".to_owned(),
                y: "tcp_underruns".to_owned(),
                only: Default::default(),
                x_is_row: false,
                times: 1.0,
            }),
        };
        assert_eq!(printed_points(&printed), [(0.5, 1.0), (0.2, 100.0)]);
    }
}

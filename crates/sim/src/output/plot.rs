//! A run against time: tokens, round trip, queue and goodput, one above the
//! other.

use plotters::prelude::*;
use thiserror::Error;

use crate::report::Report;

/// Size of the picture, pixels.
const SIZE: (u32, u32) = (1000, 1200);

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlotError {
    /// The run kept no samples. Remedy: a sample interval.
    #[error("the run kept no samples: set `sample_interval`, such as \"100 ms\"")]
    NoSamples,
    /// The picture could not be drawn.
    #[error("cannot draw: {0}")]
    Drawing(String),
}

type Line = (String, Vec<(f64, f64)>);

/// The picture of a run, as SVG.
///
/// # Errors
/// [`PlotError`].
pub fn plot_svg(report: &Report) -> Result<String, PlotError> {
    if report.flows.iter().all(|flow| flow.samples.len() < 2) {
        return Err(PlotError::NoSamples);
    }
    let mut text = String::new();
    draw(report, &mut text).map_err(|error| PlotError::Drawing(error.to_string()))?;
    Ok(text)
}

fn draw(report: &Report, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{} (seed {})", report.name, report.seed);
    let root = root.titled(&title, ("sans-serif", 22))?;
    let panels = root.split_evenly((4, 1));
    let flows = |value: fn(&crate::report::FlowSample) -> Option<f64>| -> Vec<Line> {
        report
            .flows
            .iter()
            .map(|flow| {
                let points = flow
                    .samples
                    .iter()
                    .filter_map(|one| Some((one.at.as_secs_f64(), value(one)?)))
                    .collect();
                (flow.name.clone(), points)
            })
            .collect()
    };
    let queues: Vec<Line> = report
        .links
        .iter()
        .filter(|link| link.samples.iter().any(|one| one.queue_packets > 0))
        .map(|link| {
            let points = link
                .samples
                .iter()
                .map(|one| (one.at.as_secs_f64(), one.queue_packets as f64))
                .collect();
            (link.name.clone(), points)
        })
        .collect();
    panel(
        &panels[0],
        "tokens (packets)",
        &flows(|one| Some(one.tokens)),
    )?;
    panel(
        &panels[1],
        "smoothed round trip (ms)",
        &flows(|one| one.srtt.map(|span| span.as_secs_f64() * 1e3)),
    )?;
    panel(&panels[2], "queue (packets)", &queues)?;
    panel(
        &panels[3],
        "goodput (Mbit/s)",
        &flows(|one| Some(one.goodput_bits / 1e6)),
    )?;
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let end = all().map(|point| point.0).fold(1e-9, f64::max);
    let top = all().map(|point| point.1).fold(1e-9, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..top * 1.05)?;
    chart.configure_mesh().x_desc("time (s)").draw()?;
    for (index, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    if !lines.is_empty() {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}

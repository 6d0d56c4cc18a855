//! Traces in the manner of qlog: JSON text sequences without the record
//! separator, one object a line, times in milliseconds from the start.

use std::io::Write;

use serde_json::json;

use crate::engine::TraceEvent;
use crate::scenario::Scenario;

/// Writes the events of a run.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    flows: Vec<String>,
    links: Vec<String>,
    error: Option<std::io::Error>,
}

impl<W: Write> TraceWriter<W> {
    /// A trace of `scenario`, beginning with its head.
    pub fn new(scenario: &Scenario, out: W) -> Self {
        let mut writer = Self {
            out,
            flows: scenario
                .flows
                .iter()
                .map(|flow| flow.name.clone())
                .collect(),
            links: scenario
                .network
                .links
                .iter()
                .map(|link| link.name.clone())
                .collect(),
            error: None,
        };
        writer.line(&json!({
            "qlog_format": "NDJSON",
            "title": scenario.name,
            "trace": {
                "vantage_point": { "type": "network", "name": "ctcp-sim" },
                "common_fields": { "time_format": "relative_to_epoch", "seed": scenario.seed },
            },
        }));
        writer
    }

    fn line(&mut self, value: &serde_json::Value) {
        if self.error.is_none()
            && let Err(error) = writeln!(self.out, "{value}")
        {
            self.error = Some(error);
        }
    }

    /// One event.
    pub fn write(&mut self, event: &TraceEvent) {
        let line = json!({
            "time": event.at.as_nanos() as f64 / 1e6,
            "name": format!("sim:{}", event.kind.name()),
            "data": {
                "flow": self.flows.get(event.flow),
                "link": self.links.get(event.link),
                "route": event.route,
                "packet": event.index,
                "length": event.len_bytes,
            },
        });
        self.line(&line);
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error of writing, if there was one.
    pub fn finish(mut self) -> std::io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

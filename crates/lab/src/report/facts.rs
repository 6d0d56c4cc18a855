//! What ran the experiments, and how well.

use std::collections::BTreeSet;

use super::text;
use crate::record::Record;

/// What many records say together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    /// Runs with an outcome.
    pub(super) runs: usize,
    /// Of them cut at the time limit.
    pub(super) cut: usize,
    /// Of them from a busy machine.
    pub(super) busy: usize,
    /// Largest number of runs side by side.
    pub(super) parallel: u32,
    /// The 99th percentile of the emulator's timing error: median over the runs,
    /// and the worst.
    timing_us: Option<(f64, f64)>,
    /// Idle share of the machine: median over the runs, and the least.
    idle: Option<(f64, f64)>,
    machines: BTreeSet<String>,
    kernels: BTreeSet<String>,
    commits: BTreeSet<String>,
    versions: BTreeSet<String>,
    programs: BTreeSet<String>,
    days: BTreeSet<String>,
}

/// Gathers them.
pub(super) fn facts<'a>(records: impl Iterator<Item = &'a Record>) -> Facts {
    let mut facts = Facts::default();
    let (mut timing, mut idle) = (Vec::new(), Vec::new());
    for record in records {
        facts.runs += 1;
        facts.cut += usize::from(record.flows.iter().any(|flow| flow.is_censored));
        let from = &record.provenance;
        let sets = [
            (&mut facts.machines, &from.machine),
            (&mut facts.kernels, &from.kernel),
            (&mut facts.commits, &from.commit),
            (&mut facts.versions, &from.version),
        ];
        for (set, value) in sets {
            set.insert(value.clone());
        }
        facts
            .programs
            .extend(from.programs.iter().map(|text| name_and_version(text)));
        facts
            .days
            .extend(record.started_at.get(..10).map(str::to_owned));
        if let Some(fidelity) = &record.fidelity {
            facts.busy += usize::from(fidelity.is_busy);
            facts.parallel = facts.parallel.max(fidelity.parallel_runs);
            timing.push(fidelity.timing_error_p99_us);
            idle.push(fidelity.idle_share);
        }
    }
    timing.sort_by(f64::total_cmp);
    idle.sort_by(f64::total_cmp);
    let median = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied();
    facts.timing_us = median(&timing).zip(timing.last().copied());
    facts.idle = median(&idle).zip(idle.first().copied());
    facts
}

/// Without what a program was built with.
fn name_and_version(text: &str) -> String {
    let end = [" (", " built", "  protocol"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min();
    text[..end.unwrap_or(text.len())].to_owned()
}

impl Facts {
    /// Names and values, for a list.
    pub(super) fn provenance(&self) -> Vec<(&'static str, String)> {
        let rows = [
            ("Machine", &self.machines),
            ("Kernel", &self.kernels),
            ("Commit", &self.commits),
            ("ctcp", &self.versions),
            ("Programs", &self.programs),
            ("Days (UTC)", &self.days),
        ];
        let named = rows.into_iter().filter(|(_, set)| !set.is_empty());
        named
            .map(|(name, set)| (name, set.iter().cloned().collect::<Vec<_>>().join("; ")))
            .collect()
    }

    /// One paragraph on how well the testbed kept time.
    pub(super) fn fidelity_text(&self) -> String {
        let mut out = format!("{} runs", self.runs);
        if self.parallel > 0 {
            out.push_str(&format!(", up to {} side by side", self.parallel));
        }
        if let Some((median, worst)) = self.timing_us {
            out.push_str(&format!(
                "; timing error of the emulator, 99th percentile: {} µs in the median run, {} µs in the worst",
                text::number(median),
                text::number(worst)
            ));
        }
        if let Some((median, least)) = self.idle {
            out.push_str(&format!(
                "; idle processor time {} % in the median run, {} % at least",
                text::number(median * 100.0),
                text::number(least * 100.0)
            ));
        }
        out.push_str(&format!(
            "; {} on a machine too busy to be trusted, {} cut at the time limit.",
            self.busy, self.cut
        ));
        out
    }
}

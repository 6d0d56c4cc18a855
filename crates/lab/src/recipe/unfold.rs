//! From a recipe to its points.

use std::collections::BTreeMap;

use super::Radio;
use super::settings::LossSpec;
use super::{Bdp, Bytes, Mbit, Millis, Retries, Share};
use super::{Case, PathSpec, Recipe, RecipeError, Scale, Series, Setting, Settings, WorkloadSpec};
use crate::point::{
    Flow, Loss, LossPhase, Noise, Outage, Path, Point, Process, RatePhase, RttPhase, Workload,
};
use crate::suite;

impl Recipe {
    /// All runs of the experiment, in a fixed order: every place and series once,
    /// then again for each repetition, so that an interrupted run has seen all
    /// places, and what is compared runs close together.
    ///
    /// Each point has a seed of its own, from the experiment, the series, the
    /// place, the repetition and `seed`; `loss_seed` leaves the series out.
    ///
    /// # Errors
    /// [`RecipeError::Text`] if a place asks for something impossible.
    pub fn points(&self, scale: Scale, seed: u64) -> Result<Vec<Point>, RecipeError> {
        let places = self.places(scale);
        let most = self.series.iter().map(|s| self.repetitions_of(s, scale));
        let mut points = Vec::new();
        for repetition in 0..most.max().unwrap_or(0) {
            for place in &places {
                for series in &self.series {
                    let at = place_key(place);
                    if repetition < self.repetitions_of(series, scale) && series.runs_at(&at) {
                        points.push(self.point(series, place, at, repetition, scale, seed)?);
                    }
                }
            }
        }
        Ok(points)
    }

    /// The first path and the object's size at a place, which may lie between the
    /// sweep's; none if that is impossible there.
    pub(crate) fn path_at(&self, at: &BTreeMap<String, f64>) -> Option<(Path, Option<f64>)> {
        let mut overrides = Settings::default();
        for (axis, &value) in at {
            let sweep = self.sweep_by_axis(axis)?;
            if let Some(case) = sweep.case(value) {
                overrides.take(&case.set);
            }
            for setting in sweep.settings() {
                let is_whole = setting == Setting::Bytes;
                let value = if is_whole { value.round() } else { value };
                overrides.give(setting, value, &self.paths[0]).ok()?;
            }
        }
        let bytes = match (&self.workload, overrides.bytes) {
            (WorkloadSpec::Fetch { .. }, Some(bytes)) => Some(bytes.get()),
            (WorkloadSpec::Fetch { bytes, .. }, None) => Some(bytes.get()),
            _ => None,
        };
        Some((self.paths[0].unfold(&overrides), bytes))
    }

    /// A place that asks for something impossible.
    fn impossible(&self, key: &str, message: String) -> RecipeError {
        RecipeError::Text {
            recipe: self.id.clone(),
            line: 1,
            key: key.to_owned(),
            message,
        }
    }

    fn repetitions_of(&self, series: &Series, scale: Scale) -> u32 {
        let counts = series.repetitions.as_ref().unwrap_or(&self.repetitions);
        counts.at(scale).get() as u32
    }

    /// Every combination of the sweeps, the last axis fastest.
    fn places(&self, scale: Scale) -> Vec<Vec<(&super::Sweep, &Case)>> {
        let mut places = vec![Vec::new()];
        for sweep in &self.sweeps {
            places = places
                .iter()
                .flat_map(|place| {
                    sweep.values.at(scale).iter().map(move |case| {
                        let mut longer = place.clone();
                        longer.push((sweep, case));
                        longer
                    })
                })
                .collect();
        }
        places
    }

    fn point(
        &self,
        series: &Series,
        place: &[(&super::Sweep, &Case)],
        at: BTreeMap<String, f64>,
        repetition: u32,
        scale: Scale,
        seed: u64,
    ) -> Result<Point, RecipeError> {
        let mut overrides = Settings::default();
        for (sweep, case) in place {
            overrides.take(&case.set);
            for setting in sweep.settings() {
                overrides
                    .give(setting, case.at, &self.paths[0])
                    .map_err(|message| self.impossible(&sweep.axis, message))?;
            }
        }
        overrides.take(&series.set);
        let mut paths = self.paths_of(series, &overrides)?;
        if self.suite
            && let Some(row) = at.get(suite::AXIS).and_then(|at| suite::row_at(*at))
        {
            paths = vec![suite::path(&row, &paths[0])];
        }
        let loss_seed = Seed::new(seed)
            .text(&self.id)
            .place(&at)
            .number(u64::from(repetition));
        let mut flows = Vec::new();
        for flow in &series.flows {
            let system = flow.system(&overrides, &at, scale).map_err(|message| {
                let series = &series.name;
                self.impossible(series, format!("series `{series}`: {message}"))
            })?;
            let names = flow.names();
            let every_s = flow.start_every_s.get();
            let last = names.len() - 1;
            flows.extend(names.into_iter().enumerate().map(|(copy, name)| {
                let workload = flow.workload.as_ref().unwrap_or(&self.workload);
                let mut workload = workload.unfold(&overrides, scale);
                if let Workload::Bulk { warmup_s, .. } = &mut workload {
                    *warmup_s += (last - copy) as f64 * every_s;
                }
                Flow {
                    start_s: flow.start_s.get()
                        + copy as f64 * every_s
                        + flow.start_within_s.get() * loss_seed.text(&name).share(),
                    name,
                    system: system.clone(),
                    workload,
                    extra_rtt_ms: flow.extra_rtt_ms.map_or(0.0, Millis::get),
                    paths_each: flow.paths_each.get() as u32,
                }
            }));
        }
        Ok(Point {
            experiment: self.id.clone(),
            series: series.name.clone(),
            repetition,
            seed: loss_seed.text(&series.name).value(),
            loss_seed: loss_seed.value(),
            venue: series.venue,
            paths,
            flows,
            time_limit_s: self.time_limit_s.get(),
            sample_s: self.sample_s.map(super::Span::get),
            at,
        })
    }

    /// The paths that a series has at a place.
    fn paths_of(&self, series: &Series, overrides: &Settings) -> Result<Vec<Path>, RecipeError> {
        let all = overrides.paths.as_ref().unwrap_or(&self.paths);
        let is_chosen = |index: &usize| series.paths.is_empty() || series.paths.contains(index);
        let chosen = (0..all.len()).filter(is_chosen);
        let paths: Vec<_> = chosen.map(|index| all[index].unfold(overrides)).collect();
        if paths.is_empty() || series.paths.iter().any(|index| *index >= all.len()) {
            return Err(RecipeError::Text {
                recipe: self.id.clone(),
                line: 1,
                key: "paths".into(),
                message: format!(
                    "series `{}` has paths {:?}, and there are {}: they count from 0",
                    series.name,
                    series.paths,
                    all.len()
                ),
            });
        }
        Ok(paths)
    }
}

/// A place as points name it.
fn place_key(place: &[(&super::Sweep, &Case)]) -> BTreeMap<String, f64> {
    let named = place
        .iter()
        .map(|(sweep, case)| (sweep.axis.clone(), case.at));
    named.collect()
}

impl super::Sweep {
    /// What it sets.
    pub(super) fn settings(&self) -> Vec<Setting> {
        match &self.sets {
            Some(sets) => sets.clone(),
            None => Setting::named(&self.axis).into_iter().collect(),
        }
    }
}

impl Setting {
    /// The setting that an axis is named after.
    pub(super) fn named(axis: &str) -> Option<Self> {
        Some(match axis {
            "loss" => Self::Loss,
            "loss_up" => Self::LossUp,
            "rate_mbit" => Self::RateMbit,
            "rtt_ms" => Self::RttMs,
            "queue_bdp" => Self::QueueBdp,
            "bytes" => Self::Bytes,
            "hidden_mbit" => Self::HiddenMbit,
            "retries" => Self::Retries,
            _ => return None,
        })
    }
}

impl Series {
    /// Whether it has a point there.
    pub fn runs_at(&self, at: &BTreeMap<String, f64>) -> bool {
        self.only.admit(at) && !self.skip.iter().any(|skip| skip.admit(at))
    }
}

impl Settings {
    /// What `other` sets stands.
    fn take(&mut self, other: &Self) {
        /// Replaces the fields that the other one has.
        macro_rules! take {
            ($($field:ident),*) => {
                $(if other.$field.is_some() { self.$field.clone_from(&other.$field); })*
            };
        }
        take!(
            paths,
            rate_mbit,
            rtt_ms,
            queue_bdp,
            loss,
            loss_up,
            loss_position,
            hidden_mbit,
            retries,
            bytes,
            count,
            film_s,
            warmup_s,
            duration_s,
            program
        );
        self.simulated.extend(other.simulated.clone());
        self.model.extend(other.model.clone());
    }

    /// Gives one setting a value of a sweep.
    pub(super) fn give(
        &mut self,
        setting: Setting,
        value: f64,
        base: &PathSpec,
    ) -> Result<(), String> {
        match setting {
            Setting::Loss => self.loss = Some(with_share(&base.loss, Share::new(value)?)),
            Setting::LossUp => self.loss_up = Some(with_share(&base.loss_up, Share::new(value)?)),
            Setting::RateMbit => self.rate_mbit = Some(Mbit::new(value)?),
            Setting::RttMs => self.rtt_ms = Some(Millis::new(value)?),
            Setting::QueueBdp => self.queue_bdp = Some(Bdp::new(value)?),
            Setting::Bytes => self.bytes = Some(Bytes::new(value)?),
            Setting::HiddenMbit => self.hidden_mbit = Some(Mbit::new(value)?),
            Setting::Retries => self.retries = Some(Retries::new(value)?),
        }
        Ok(())
    }
}

/// The same process with another share.
fn with_share(base: &LossSpec, share: Share) -> LossSpec {
    match base {
        LossSpec::Radio(Radio::GilbertElliott { burst_packets, .. }) => {
            LossSpec::Radio(Radio::GilbertElliott {
                share,
                burst_packets: *burst_packets,
            })
        }
        _ => LossSpec::Bernoulli(share),
    }
}

impl PathSpec {
    fn unfold(&self, overrides: &Settings) -> Path {
        let position = overrides.loss_position.unwrap_or(self.loss_position);
        let radio = |spec: &LossSpec| {
            let mut spec = spec.clone();
            if let LossSpec::Radio(radio) = &mut spec {
                radio.change(overrides.hidden_mbit, overrides.retries);
            }
            spec
        };
        let down = radio(overrides.loss.as_ref().unwrap_or(&self.loss));
        let up = radio(overrides.loss_up.as_ref().unwrap_or(&self.loss_up));
        let rate_mbit = match &down {
            LossSpec::Radio(radio) => radio.rate_mbit(self.mtu_bytes),
            LossSpec::Bernoulli(_) => None,
        };
        let loss = |spec: &LossSpec| Loss {
            position,
            process: spec.process(self.mtu_bytes),
        };
        Path {
            rate_mbit: rate_mbit.unwrap_or(overrides.rate_mbit.unwrap_or(self.rate_mbit).get()),
            rtt_ms: overrides.rtt_ms.unwrap_or(self.rtt_ms).get(),
            queue_bdp: overrides.queue_bdp.unwrap_or(self.queue_bdp).get(),
            mtu_bytes: self.mtu_bytes,
            loss_down: loss(&down),
            loss_up: loss(&up),
            hops: self.hops.get() as u32,
            ecn_queue_share: self.ecn_queue_share.map(Share::get),
            noise: self.noise.map(|noise| Noise {
                max_ms: noise.max_ms.get(),
                interval_ms: noise.interval_ms.get(),
            }),
            rtt_phases: self
                .rtt_phases
                .iter()
                .map(|phase| RttPhase {
                    for_s: phase.for_s.get(),
                    rtt_ms: phase.rtt_ms.get(),
                })
                .collect(),
            rate_phases: self
                .rate_phases
                .iter()
                .map(|phase| RatePhase {
                    for_s: phase.for_s.get(),
                    rate_mbit: phase.rate_mbit.get(),
                })
                .collect(),
            loss_phases: self
                .loss_phases
                .iter()
                .map(|phase| LossPhase {
                    for_s: phase.for_s.get(),
                    loss: phase.loss.get(),
                })
                .collect(),
            outages: self
                .outages
                .iter()
                .map(|outage| Outage {
                    from_s: outage.from_s.get(),
                    for_s: outage.for_s.get(),
                })
                .collect(),
            policer_burst_bytes: self.policer_burst_bytes.map(|bytes| bytes.get() as u64),
        }
    }
}

impl WorkloadSpec {
    fn unfold(&self, overrides: &Settings, scale: Scale) -> Workload {
        match self {
            Self::Bulk {
                warmup_s,
                duration_s,
                offered_mbit,
            } => Workload::Bulk {
                offered_mbit: offered_mbit.map(Mbit::get),
                warmup_s: overrides
                    .warmup_s
                    .as_ref()
                    .unwrap_or(warmup_s)
                    .at(scale)
                    .get(),
                duration_s: overrides
                    .duration_s
                    .as_ref()
                    .unwrap_or(duration_s)
                    .at(scale)
                    .get(),
            },
            Self::Fetch {
                bytes,
                count,
                program,
                cold,
            } => Workload::Fetch {
                bytes: overrides.bytes.unwrap_or(*bytes).get() as u64,
                count: overrides.count.as_ref().unwrap_or(count).at(scale).get() as u32,
                program: overrides.program.unwrap_or(*program),
                cold: *cold,
            },
            Self::Video {
                film_s,
                rate_mbit,
                buffer_s,
                program,
            } => Workload::Video {
                duration_s: overrides.film_s.as_ref().unwrap_or(film_s).at(scale).get(),
                rate_mbit: rate_mbit.get(),
                buffer_s: buffer_s.get(),
                program: overrides.program.unwrap_or(*program),
            },
        }
    }
}

/// Mixes what names a random choice into a seed: FNV-1a over its bytes, then the
/// finish of SplitMix64.
#[derive(Debug, Clone, Copy)]
struct Seed(u64);

impl Seed {
    fn new(seed: u64) -> Self {
        Self(0xCBF2_9CE4_8422_2325).bytes(&seed.to_le_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        Self(bytes.iter().fold(self.0, mix))
    }

    fn text(self, text: &str) -> Self {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    fn place(self, at: &BTreeMap<String, f64>) -> Self {
        at.iter().fold(self, |seed, (axis, value)| {
            seed.text(axis).number(value.to_bits())
        })
    }

    /// A share of one, below one.
    fn share(self) -> f64 {
        self.value() as f64 / (1_u64 << 53) as f64
    }

    fn value(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // JSON readers that hold numbers as doubles must not change it.
        (z ^ (z >> 31)) >> 11
    }
}

impl Process {
    /// The mean share lost where that does not depend on time.
    pub fn mean_share(&self) -> Option<f64> {
        match self {
            Self::None => Some(0.0),
            Self::Bernoulli { share } | Self::GilbertElliott { share, .. } => Some(*share),
            Self::EveryNth { n } => Some(1.0 / *n as f64),
            Self::Interference { .. } => None,
        }
    }
}

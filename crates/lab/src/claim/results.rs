//! Records of one experiment, by series and place.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Estimate, Metric, Value};
use crate::point::Workload;
use crate::record::Record;

/// A place that can be sorted: along each axis in turn, upwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceKey(Vec<(String, u64)>);

impl PlaceKey {
    /// The key of a place; values are not negative.
    pub fn new(at: &BTreeMap<String, f64>) -> Self {
        let bits = |value: f64| (value + 0.0).to_bits();
        Self(at.iter().map(|(a, &v)| (a.clone(), bits(v))).collect())
    }

    /// The place.
    pub fn at(&self) -> BTreeMap<String, f64> {
        let axes = self.0.iter();
        axes.map(|(axis, bits)| (axis.clone(), f64::from_bits(*bits)))
            .collect()
    }
}

/// The records of one experiment. Failed runs are kept apart.
#[derive(Debug, Clone, Default)]
pub struct Results<'a> {
    by_place: BTreeMap<(String, PlaceKey), Vec<&'a Record>>,
    failed: Vec<&'a Record>,
}

impl<'a> Results<'a> {
    /// Sorts the records in.
    pub fn new(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut results = Self::default();
        for record in records {
            if record.error.is_some() || record.flows.is_empty() {
                results.failed.push(record);
                continue;
            }
            let key = (record.point.series.clone(), PlaceKey::new(&record.point.at));
            results.by_place.entry(key).or_default().push(record);
        }
        results
    }

    /// All runs that have an outcome.
    pub fn records(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.by_place.values().flatten().copied()
    }

    /// Runs without an outcome.
    pub fn failed(&self) -> &[&'a Record] {
        &self.failed
    }

    /// Places at which any series has a run, in order.
    pub fn places(&self) -> BTreeSet<PlaceKey> {
        self.by_place
            .keys()
            .map(|(_, place)| place.clone())
            .collect()
    }

    /// The runs of a series at a place.
    pub fn at(&self, series: &str, place: &PlaceKey) -> &[&'a Record] {
        let key = (series.to_owned(), place.clone());
        self.by_place.get(&key).map_or(&[], Vec::as_slice)
    }

    /// A metric of a flow of a series at a place.
    pub fn estimate(
        &self,
        metric: Metric,
        series: &str,
        flow: &str,
        place: &PlaceKey,
    ) -> Option<Estimate> {
        let runs: Vec<_> = self
            .at(series, place)
            .iter()
            .filter_map(|record| {
                let is_busy = record.fidelity.is_some_and(|fidelity| fidelity.is_busy);
                let (value, bound) = metric.of(record, flow)?;
                Some((value, bound, is_busy))
            })
            .collect();
        Estimate::of_runs(&runs)
    }

    /// A value of a claim at a place.
    pub fn value(&self, value: &Value, place: &PlaceKey) -> Option<Estimate> {
        let place_here = if value.at.is_empty() {
            place.clone()
        } else {
            let mut at = place.at();
            at.extend(value.at.iter().map(|(axis, v)| (axis.clone(), *v)));
            PlaceKey::new(&at)
        };
        let mut found = match (value.metric, value.formula) {
            (Some(metric), _) => self.estimate(metric, &value.series, &value.flow, &place_here)?,
            (None, Some(formula)) => {
                Estimate::exact(formula.at(&self.context(&value.series, &place_here)?)?)
            }
            (None, None) => return None,
        };
        if let Some(factor) = value.times {
            found = found.times(factor);
        }
        if let Some(more) = &value.plus {
            found = found.plus(self.value(more, place)?);
        }
        if let Some(less) = &value.minus {
            found = found.minus(self.value(less, place)?);
        }
        match &value.over {
            Some(divisor) => found.over(self.value(divisor, place)?),
            None => Some(found),
        }
    }

    /// The path and the object of the series there; of whichever ran there if
    /// none is named.
    fn context(&self, series: &str, place: &PlaceKey) -> Option<Context<'_>> {
        let is_meant = |name: &str| series.is_empty() || name == series;
        let mut here = self
            .by_place
            .iter()
            .filter(|((name, key), _)| is_meant(name) && key == place);
        let point = &here.next()?.1.first()?.point;
        let bytes = point.flows.iter().find_map(|flow| match flow.workload {
            Workload::Fetch { bytes, .. } => Some(bytes as f64),
            _ => None,
        });
        Some(Context {
            path: point.paths.first()?,
            bytes,
        })
    }
}

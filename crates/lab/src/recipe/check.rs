//! What a recipe must keep to beyond the types of its values: names that refer
//! to something, axes that set something.

use std::collections::BTreeSet;

use super::{FlowSpec, Recipe, RecipeError, Setting, Settings, Sweep, SystemSpec};
use crate::claim::{Claim, Restrictions, Value};
use crate::plot::{Csv, Figure, Printed, TIME};

/// A recipe with the text it was read from, for errors.
struct Checker<'a> {
    name: &'a str,
    text: &'a str,
    recipe: &'a Recipe,
}

/// Refuses what refers to nothing.
pub(super) fn recipe(name: &str, text: &str, recipe: &Recipe) -> Result<(), RecipeError> {
    let checker = Checker { name, text, recipe };
    checker.identity()?;
    checker.sweeps()?;
    checker.series()?;
    for figure in &recipe.figures {
        checker.figure(figure)?;
    }
    for table in &recipe.tables {
        checker.axis(&table.columns)?;
        checker.restrictions(&table.only)?;
    }
    for printed in &recipe.printed {
        checker.printed(printed)?;
    }
    checker.unique("a claim", recipe.claims.iter().map(|claim| &claim.id))?;
    recipe
        .claims
        .iter()
        .try_for_each(|claim| checker.claim(claim))
}

impl Checker<'_> {
    fn refuse<T>(&self, found: &str, message: String) -> Result<T, RecipeError> {
        Err(RecipeError::about(self.name, self.text, found, message))
    }

    /// Refuses a name that is not among the known ones.
    fn known<'n>(
        &self,
        what: &str,
        name: &str,
        mut known: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<(), RecipeError> {
        if known.clone().any(|one| one == name) {
            return Ok(());
        }
        let first = known.next().map_or(String::new(), str::to_owned);
        let list = known.fold(first, |list, one| format!("{list}, {one}"));
        self.refuse(
            name,
            format!("there is no {what} `{name}`; there are: {list}"),
        )
    }

    fn unique<'n>(
        &self,
        what: &str,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<(), RecipeError> {
        let mut seen = BTreeSet::new();
        for name in names {
            if name.is_empty() || !seen.insert(name) {
                let message = format!("{what} is called `{name}`: a name is needed, once");
                return self.refuse(name, message);
            }
        }
        Ok(())
    }

    fn identity(&self) -> Result<(), RecipeError> {
        let recipe = self.recipe;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if recipe.id.is_empty() || !recipe.id.chars().all(is_plain) {
            let message = format!(
                "`{}` is no id: small letters, digits and - make one",
                recipe.id
            );
            return self.refuse(&recipe.id, message);
        }
        if recipe.paths.is_empty() || recipe.series.is_empty() {
            let message = "at least one [[path]] and one [[series]] are needed".to_owned();
            return self.refuse(&recipe.id, message);
        }
        Ok(())
    }

    fn sweeps(&self) -> Result<(), RecipeError> {
        let sweeps = &self.recipe.sweeps;
        self.unique("a sweep", sweeps.iter().map(|sweep| &sweep.axis))?;
        for sweep in sweeps {
            self.sweep(sweep)?;
        }
        Ok(())
    }

    fn sweep(&self, sweep: &Sweep) -> Result<(), RecipeError> {
        let axis = &sweep.axis;
        if sweep.sets.is_none() && Setting::named(axis).is_none() {
            let message = format!(
                "the axis `{axis}` sets nothing: name it loss, loss_up, rate_mbit, rtt_ms, \
                 queue_bdp, bytes, hidden_mbit or retries, or say with `sets` what it sets; \
                 `sets = []` if its cases do"
            );
            return self.refuse(axis, message);
        }
        for cases in [&sweep.values.quick, &sweep.values.full] {
            let mut seen = BTreeSet::new();
            if cases.is_empty() {
                return self.refuse(axis, format!("the axis `{axis}` has no values"));
            }
            for case in cases {
                if case.at < 0.0 || !seen.insert(case.at.to_bits()) {
                    let message = format!(
                        "{} on the axis `{axis}`: each value once, and none below 0",
                        case.at
                    );
                    return self.refuse(axis, message);
                }
                for setting in sweep.settings() {
                    let given = Settings::default().give(setting, case.at, &self.recipe.paths[0]);
                    given.or_else(|message| self.refuse(axis, message))?;
                }
            }
        }
        Ok(())
    }

    fn series(&self) -> Result<(), RecipeError> {
        let all = &self.recipe.series;
        self.unique("a series", all.iter().map(|series| &series.name))?;
        for series in all {
            if series.flows.is_empty() {
                let message = format!("the series `{}` has no flow", series.name);
                return self.refuse(&series.name, message);
            }
            self.unique("a flow", series.flows.iter().map(|flow| &flow.name))?;
            for flow in &series.flows {
                self.transport(flow)?;
            }
            self.restrictions(&series.only)?;
            for skip in &series.skip {
                self.restrictions(skip)?;
            }
        }
        Ok(())
    }

    /// A flow has one transport, and one that exists.
    fn transport(&self, flow: &FlowSpec) -> Result<(), RecipeError> {
        let given = [
            flow.system.is_some(),
            flow.simulated.is_some(),
            flow.model.is_some(),
            flow.suite.is_some(),
        ];
        if given.iter().filter(|&&is_given| is_given).count() != 1 {
            let name = &flow.name;
            let message = format!(
                "the flow `{name}` needs one of `system`, `simulated`, `model` and `suite`"
            );
            return self.refuse(name, message);
        }
        let is_ctcp = flow.system.as_ref().is_some_and(SystemSpec::is_ctcp);
        if flow.paths_each.get() > 1.0 && !is_ctcp {
            let name = &flow.name;
            let message = format!("the flow `{name}`: only ctcp/NAME has `paths_each` above 1");
            return self.refuse("paths_each", message);
        }
        if let Some(table) = &flow.simulated {
            let possible = ctcp_sim::file::transport(table);
            possible.or_else(|message| self.refuse(&flow.name, message))?;
        }
        if let Some(contestant) = &flow.suite {
            let is_known = ctcp_control_suite::Contestant::parse(contestant).is_some();
            if !is_known || !self.recipe.suite {
                let message = format!(
                    "`{contestant}` is scored by the suite: NAME or tcp:NAME of a controller, in a \
                     recipe with `suite = true`"
                );
                return self.refuse(contestant, message);
            }
        }
        if let Some(model) = &flow.model {
            model.from.values().try_for_each(|axis| self.axis(axis))?;
            let found = ctcp_model::model_by_name(&model.name);
            found.or_else(|error| self.refuse(&model.name, error.to_string()))?;
        }
        Ok(())
    }

    fn axis(&self, axis: &str) -> Result<(), RecipeError> {
        let known = self.recipe.sweeps.iter().map(|sweep| sweep.axis.as_str());
        self.known("axis", axis, known)
    }

    fn restrictions(&self, restrictions: &Restrictions) -> Result<(), RecipeError> {
        restrictions.0.keys().try_for_each(|axis| self.axis(axis))
    }

    /// Refuses a series that is not there, and a flow that it has not.
    fn flow(&self, series: &str, flow: &str) -> Result<(), RecipeError> {
        let names = self.recipe.series.iter().map(|series| series.name.as_str());
        self.known("series", series, names)?;
        let found = self.recipe.series_by_name(series);
        let flows = found.iter().flat_map(|series| &series.flows);
        if flow.is_empty() || flow == "all" {
            return Ok(());
        }
        let names: Vec<String> = flows.flat_map(FlowSpec::names).collect();
        self.known("flow", flow, names.iter().map(String::as_str))
    }

    fn figure(&self, figure: &Figure) -> Result<(), RecipeError> {
        match figure.x.axis == TIME {
            true => self.samples(figure)?,
            false => self.axis(&figure.x.axis)?,
        }
        for curve in &figure.curves {
            self.flow(&curve.series, &curve.flow)?;
        }
        for axis in [&figure.panel, &figure.split] {
            if !axis.is_empty() && axis != "series" {
                self.axis(axis)?;
            }
        }
        self.restrictions(&figure.only)?;
        let printed = self.recipe.printed.iter().map(|one| one.name.as_str());
        let mut marks = figure.printed.iter();
        marks.try_for_each(|name| self.known("printed set", name, printed.clone()))
    }

    /// A figure over time needs samples.
    fn samples(&self, figure: &Figure) -> Result<(), RecipeError> {
        match self.recipe.sample_s {
            Some(_) => Ok(()),
            None => {
                let message = format!(
                    "the figure {} is over time: the recipe needs `sample_s`",
                    figure.id
                );
                self.refuse(TIME, message)
            }
        }
    }

    fn printed(&self, printed: &Printed) -> Result<(), RecipeError> {
        if !printed.series.is_empty() {
            self.flow(&printed.series, "")?;
        }
        printed.at.keys().try_for_each(|axis| self.axis(axis))?;
        let Some(columns) = &printed.csv else {
            return Ok(());
        };
        let Some(csv) = Csv::embedded(&columns.file) else {
            return self.known(
                "file of printed values",
                &columns.file,
                Csv::names().into_iter(),
            );
        };
        let mut wanted = vec![&columns.y];
        wanted.extend((!columns.x_is_row).then_some(&columns.x));
        wanted.extend(columns.only.keys());
        let known = csv.columns().iter().copied();
        wanted
            .into_iter()
            .try_for_each(|column| self.known("column", column, known.clone()))
    }

    fn claim(&self, claim: &Claim) -> Result<(), RecipeError> {
        if claim.checks.is_empty() == claim.unchecked.is_empty() {
            let message = format!(
                "the claim {} needs either a [[claim.check]] or `unchecked` with the reason",
                claim.id
            );
            return self.refuse(&claim.id, message);
        }
        for check in &claim.checks {
            self.restrictions(&check.places)?;
            check.per.iter().try_for_each(|axis| self.axis(axis))?;
            if check.min.is_none() && check.max.is_none() && check.monotone.is_none() {
                let message = format!(
                    "a check of {} demands nothing: give it min, max or monotone",
                    claim.id
                );
                return self.refuse(&claim.id, message);
            }
            if let Some(monotone) = &check.monotone {
                self.axis(&monotone.along)?;
            }
            check
                .value
                .parts()
                .into_iter()
                .try_for_each(|part| self.value(part, claim))?;
        }
        Ok(())
    }

    fn value(&self, value: &Value, claim: &Claim) -> Result<(), RecipeError> {
        if value.metric.is_some() == value.formula.is_some() {
            let message = format!(
                "a value of {} needs either a metric of a series or a formula",
                claim.id
            );
            return self.refuse(&claim.id, message);
        }
        value.at.keys().try_for_each(|axis| self.axis(axis))?;
        if value.metric.is_some() || !value.series.is_empty() {
            self.flow(&value.series, &value.flow)?;
        }
        Ok(())
    }
}

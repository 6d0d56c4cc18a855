//! Every model with its parameters and outputs: the one list from which the
//! command line, the documents and the laboratory take them.
//!
//! Names are those that users type; a column, a parameter and a field for one
//! quantity share one name.

mod cc14;
mod coded;
mod estimate;
mod tcp;

use crate::{Domain, ModelError};

/// What a parameter is if nobody says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Preset {
    /// This value.
    Value(f64),
    /// Each of these in turn.
    Each(&'static [f64]),
    /// What the model derives from the other parameters by this formula.
    Derived(&'static str),
}

/// A number that a model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// What users type, in `snake_case`.
    pub name: &'static str,
    /// The source's symbol.
    pub symbol: &'static str,
    /// The unit; empty for a bare number.
    pub unit: &'static str,
    /// What it is, in a few words.
    pub meaning: &'static str,
    /// What it may be.
    pub domain: Domain,
    /// What it is if not given.
    pub default: Preset,
}

/// A number that a model gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// The column's name, in `snake_case`.
    pub name: &'static str,
    /// The unit; empty for a bare number.
    pub unit: &'static str,
    /// What it is, in the source's symbols where it has some.
    pub meaning: &'static str,
}

/// A way to read an equation that its source leaves open or gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingInfo {
    /// What users type.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// An equation, or a few that belong together, ready to be evaluated by name.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// What users type.
    pub name: &'static str,
    /// One line on what it answers.
    pub title: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// The equation in the source's symbols.
    pub equation: &'static str,
    /// What it takes.
    pub parameters: &'static [Parameter],
    /// How it can be read, the default first; empty if in one way only.
    pub readings: &'static [ReadingInfo],
    /// What it gives, in the order of [`Model::evaluate`].
    pub outputs: &'static [Output],
    /// The output to plot if nobody says.
    pub plotted: &'static str,
    compute: fn(&Inputs<'_>) -> Result<Vec<f64>, ModelError>,
}

const MODELS: &[&[Model]] = &[
    cc14::MODELS,
    estimate::MODELS,
    tcp::REFERENCES,
    tcp::MODELS,
    coded::MODELS,
];

/// All models, in a fixed order: by paper, then by equation.
pub fn models() -> impl Iterator<Item = &'static Model> {
    MODELS.iter().copied().flatten()
}

/// The model of that name.
///
/// # Errors
/// [`ModelError::UnknownModel`], whose text lists those there are.
///
/// ```
/// let eta = ctcp_model::model_by_name("eta").unwrap();
/// let row = eta.evaluate(&[("p", 0.1)], Some("A")).unwrap();
/// assert_eq!(row.len(), eta.outputs.len());
/// ```
pub fn model_by_name(name: &str) -> Result<&'static Model, ModelError> {
    let found = models().find(|model| model.name == name);
    found.ok_or_else(|| ModelError::UnknownModel {
        name: name.to_owned(),
        known: joined(models().map(|model| model.name)),
    })
}

impl Model {
    /// The outputs at these parameters, one for each of [`Model::outputs`].
    ///
    /// What is not given has its default, the first one of several; no reading
    /// given means the first one. An infinite result stands for an equation
    /// without a limit.
    ///
    /// # Errors
    /// A parameter or reading that the model does not have, a value out of
    /// range, or values that do not go together; the text says what would.
    pub fn evaluate(
        &self,
        given: &[(&str, f64)],
        reading: Option<&str>,
    ) -> Result<Vec<f64>, ModelError> {
        let mut values: Vec<_> = self.parameters.iter().map(Parameter::first).collect();
        for (name, value) in given {
            let at = self.position(name)?;
            let parameter = &self.parameters[at];
            values[at] = Some(parameter.domain.check(parameter.name, *value)?);
        }
        let reading = match reading {
            Some(name) => self.reading(name)?,
            None => self.readings.first().map_or("", |reading| reading.name),
        };
        (self.compute)(&Inputs {
            model: self,
            values: &values,
            reading,
        })
    }

    /// The parameter of that name.
    ///
    /// # Errors
    /// [`ModelError::UnknownParameter`], whose text lists those it has.
    pub fn parameter(&self, name: &str) -> Result<&'static Parameter, ModelError> {
        self.position(name).map(|at| &self.parameters[at])
    }

    /// The name of a reading, if the model can be read that way.
    ///
    /// # Errors
    /// [`ModelError::UnknownReading`], whose text lists those it has.
    pub fn reading(&self, name: &str) -> Result<&'static str, ModelError> {
        let found = self.readings.iter().find(|reading| reading.name == name);
        found.map(|reading| reading.name).ok_or_else(|| {
            let known = if self.readings.is_empty() {
                format!("none, model {} is read in one way only", self.name)
            } else {
                joined(self.readings.iter().map(|reading| reading.name))
            };
            ModelError::UnknownReading {
                name: name.to_owned(),
                known,
            }
        })
    }

    fn position(&self, name: &str) -> Result<usize, ModelError> {
        let mut parameters = self.parameters.iter();
        let found = parameters.position(|parameter| parameter.name == name);
        found.ok_or_else(|| ModelError::UnknownParameter {
            model: self.name,
            name: name.to_owned(),
            known: joined(self.parameters.iter().map(|parameter| parameter.name)),
        })
    }
}

impl Parameter {
    const fn new(name: &'static str, symbol: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            symbol,
            unit,
            meaning: "",
            domain: Domain::PROBABILITY,
            default: Preset::Value(0.0),
        }
    }

    const fn within(self, domain: Domain) -> Self {
        Self { domain, ..self }
    }

    const fn or(self, default: f64) -> Self {
        Self {
            default: Preset::Value(default),
            ..self
        }
    }

    const fn by_default(self, default: Preset) -> Self {
        Self { default, ..self }
    }

    const fn is(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }

    fn first(&self) -> Option<f64> {
        match self.default {
            Preset::Value(value) => Some(value),
            Preset::Each(values) => values.first().copied(),
            Preset::Derived(_) => None,
        }
    }
}

/// p as most models take it.
const P: Parameter = Parameter::new("p", "p", "")
    .within(Domain::LOSS)
    .or(0.01)
    .is("packet loss probability");

const fn output(name: &'static str, unit: &'static str, meaning: &'static str) -> Output {
    Output {
        name,
        unit,
        meaning,
    }
}

const fn reading(name: &'static str, meaning: &'static str) -> ReadingInfo {
    ReadingInfo { name, meaning }
}

/// Checked parameters on their way into an equation.
struct Inputs<'a> {
    model: &'a Model,
    values: &'a [Option<f64>],
    reading: &'a str,
}

impl Inputs<'_> {
    /// A parameter that has a default value.
    ///
    /// The registry's own models ask for what they declare; a test evaluates
    /// each of them.
    fn get(&self, name: &str) -> f64 {
        self.given(name).expect("it has a default value")
    }

    /// A parameter that whole numbers are declared for.
    fn whole(&self, name: &str) -> u32 {
        self.get(name) as u32
    }

    /// A parameter that the model derives if it is not given.
    fn given(&self, name: &str) -> Option<f64> {
        let at = self.model.position(name).expect("the model declares it");
        self.values[at]
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

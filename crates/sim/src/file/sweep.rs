//! Sweeps: every combination of values for some keys.

use core::fmt;

use toml::{Table, Value};

/// A key of the file and the value it is set to.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key's path.
    pub key: String,
    /// The value.
    pub value: Value,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.shown())
    }
}

/// A key and all its values.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) key: String,
    values: Vec<Value>,
}

/// The axes of a `[sweep]`; an error names its key.
pub(super) fn axes(sweep: &Table) -> Result<Vec<Axis>, (String, String)> {
    let mut axes = Vec::new();
    collect(String::new(), sweep, &mut axes)?;
    Ok(axes)
}

/// `a.b = […]` and `"a.b" = […]` mean the same.
fn collect(prefix: String, table: &Table, axes: &mut Vec<Axis>) -> Result<(), (String, String)> {
    for (name, value) in table {
        let key = match prefix.is_empty() {
            true => name.clone(),
            false => format!("{prefix}.{name}"),
        };
        match value {
            Value::Table(inner) => collect(key, inner, axes)?,
            Value::Array(values) if !values.is_empty() => axes.push(Axis {
                key,
                values: values.clone(),
            }),
            _ => {
                let message = format!("`{key}` needs a list of values, such as [\"1 %\", \"2 %\"]");
                return Err((key, message));
            }
        }
    }
    Ok(())
}

/// Every combination, the last axis changing fastest.
pub(super) fn combinations(axes: &[Axis]) -> Vec<Vec<Setting>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        all = all
            .iter()
            .flat_map(|settings: &Vec<Setting>| {
                axis.values.iter().map(|value| {
                    let mut longer = settings.clone();
                    longer.push(Setting {
                        key: axis.key.clone(),
                        value: value.clone(),
                    });
                    longer
                })
            })
            .collect();
    }
    all
}

pub(super) fn describe(settings: &[Setting]) -> String {
    let all: Vec<String> = settings.iter().map(Setting::to_string).collect();
    all.join(", ")
}

impl Setting {
    /// Reads `KEY=VALUE`; a value that is no TOML is a text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` sets nothing: write KEY=VALUE, such as warmup=5s"))?;
        let value = value.trim();
        let read = toml::from_str::<Table>(&format!("value = {value}"))
            .ok()
            .and_then(|mut table| table.remove("value"));
        Ok(Self {
            key: key.trim().to_owned(),
            value: read.unwrap_or_else(|| Value::String(value.to_owned())),
        })
    }

    /// The value without quotes.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Sets the key in a file. Tables on the way are made; list elements must be
    /// there, by their `name` or their number.
    pub(super) fn apply(&self, table: &mut Table) -> Result<(), String> {
        let mut parts = self.key.split('.').peekable();
        let mut place = table;
        loop {
            let Some(part) = parts.next() else {
                return Err(format!("`{}` is no key", self.key));
            };
            if parts.peek().is_none() {
                place.insert(part.to_owned(), self.value.clone());
                return Ok(());
            }
            let entry = place
                .entry(part.to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            place = match entry {
                Value::Table(inner) => inner,
                Value::Array(list) => {
                    let which = parts.next().unwrap_or_default();
                    element(list, which).ok_or_else(|| {
                        format!("`{}`: there is no `{part}` called `{which}`", self.key)
                    })?
                }
                _ => return Err(format!("`{}`: `{part}` is a value", self.key)),
            };
        }
    }
}

fn element<'a>(list: &'a mut [Value], which: &str) -> Option<&'a mut Table> {
    let by_name = list.iter().position(|one| {
        one.get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| name == which)
    });
    let index = by_name.or_else(|| which.parse().ok())?;
    list.get_mut(index)?.as_table_mut()
}

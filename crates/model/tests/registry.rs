//! The list of models: complete, consistent, and strict about what it is given.

use std::collections::BTreeSet;

use ctcp_model::registry::Preset;
use ctcp_model::{Domain, ModelError, model_by_name, models};

#[test]
fn every_model_answers_with_what_it_declares() {
    assert!(models().count() >= 20);
    for model in models() {
        let mut readings: Vec<_> = model.readings.iter().map(|r| Some(r.name)).collect();
        readings.push(None);
        for reading in readings {
            let row = model.evaluate(&[], reading);
            let row = row.unwrap_or_else(|error| panic!("{}: {error}", model.name));
            assert_eq!(row.len(), model.outputs.len(), "{}", model.name);
            assert!(row.iter().all(|v| v.is_finite()), "{}: {row:?}", model.name);
        }
    }
}

#[test]
fn names_are_unique_and_can_be_typed() {
    let mut names = BTreeSet::new();
    for model in models() {
        assert!(names.insert(model.name), "{} twice", model.name);
        let can_be_typed = |name: &str, dash: char| {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == dash;
            !name.is_empty() && name.chars().all(allowed)
        };
        assert!(can_be_typed(model.name, '-'), "{}", model.name);
        let mut columns: BTreeSet<_> = ["reading", "model"].into();
        let parameters = model.parameters.iter().map(|p| p.name);
        for name in parameters.chain(model.outputs.iter().map(|o| o.name)) {
            assert!(can_be_typed(name, '_'), "{}: {name}", model.name);
            assert!(columns.insert(name), "{}: {name} twice", model.name);
        }
        let plotted = |output: &ctcp_model::registry::Output| output.name == model.plotted;
        assert!(model.outputs.iter().any(plotted), "{}", model.name);
    }
}

#[test]
fn every_model_says_what_it_is() {
    for model in models() {
        assert!(model.title.len() > 10 && model.equation.len() > 5);
        assert!(model.source.contains(['[', '2']), "{}", model.source);
        for parameter in model.parameters {
            assert!(!parameter.meaning.is_empty(), "{}", parameter.name);
        }
    }
}

#[test]
fn defaults_are_allowed() {
    for parameter in models().flat_map(|model| model.parameters) {
        let values = match parameter.default {
            Preset::Value(value) => vec![value],
            Preset::Each(values) => values.to_vec(),
            Preset::Derived(formula) => {
                assert!(!formula.is_empty());
                vec![]
            }
        };
        for value in values {
            assert!(parameter.domain.contains(value), "{}", parameter.name);
        }
    }
}

/// The bounds of every parameter, one after the other with the others at their
/// defaults, give numbers or an error that names something; never a NaN.
#[test]
fn no_model_answers_with_nan_at_the_bounds_of_its_parameters() {
    for model in models() {
        for parameter in model.parameters {
            let Domain::Interval { low, high, .. } = parameter.domain else {
                continue;
            };
            for value in [low, high, (low + high) / 2.0] {
                match model.evaluate(&[(parameter.name, value)], None) {
                    Ok(row) => assert!(
                        !row.iter().any(|v| v.is_nan()),
                        "{} {} = {value}: {row:?}",
                        model.name,
                        parameter.name
                    ),
                    Err(error) => assert!(
                        matches!(
                            error,
                            ModelError::OutOfRange { .. } | ModelError::TooSmall { .. }
                        ),
                        "{error}"
                    ),
                }
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let error = model_by_name("etta").unwrap_err().to_string();
    assert!(error.contains("`etta`") && error.contains("eta, header-budget"));
    let eta = model_by_name("eta").unwrap();
    let error = eta.evaluate(&[("q", 0.1)], None).unwrap_err().to_string();
    assert_eq!(error, "model eta has no parameter `q`; it has: p, block");
    let error = eta.evaluate(&[], Some("E")).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no reading `E`; there are: C, A, B, D, printed, coded-only"
    );
    let error = eta.evaluate(&[("p", 1.5)], None).unwrap_err().to_string();
    assert_eq!(
        error,
        "p = 1.5 is out of range; allowed: at least 0, at most 0.99"
    );
    let error = eta.evaluate(&[("block", 1.5)], None).unwrap_err();
    assert!(error.to_string().contains("whole"), "{error}");
    let backoff = model_by_name("backoff").unwrap();
    let error = backoff.evaluate(&[], Some("A")).unwrap_err().to_string();
    assert!(error.contains("one way only"), "{error}");
    let error = backoff.evaluate(&[("rtt", 0.01)], None).unwrap_err();
    assert!(error.to_string().contains("at least 0.025"), "{error}");
}

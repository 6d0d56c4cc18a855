//! Points that are computed: equations of `ctcp model` in place of flows, so that
//! figures, tables and claims take theory and measurement alike.

use crate::point::{Flow, Gives, Point, System};
use crate::record::{FlowOutcome, Inside};
use crate::venue::Outcome;

/// Whether nothing is simulated at this point.
pub(crate) fn is_one(point: &Point) -> bool {
    let is_model = |flow: &Flow| matches!(flow.system, System::Model { .. });
    point.flows.iter().all(is_model)
}

/// The outputs; the error names what the model does not take.
pub(crate) fn evaluate(point: &Point) -> Result<Outcome, String> {
    let flows: Result<Vec<FlowOutcome>, String> = point.flows.iter().map(flow).collect();
    Ok(Outcome {
        flows: flows.map_err(|what| {
            let (experiment, series) = (&point.experiment, &point.series);
            format!("{experiment}, series `{series}`: {what}")
        })?,
        ..Outcome::default()
    })
}

fn flow(flow: &Flow) -> Result<FlowOutcome, String> {
    let System::Model {
        name,
        reading,
        parameters,
        output,
        gives,
    } = &flow.system
    else {
        return Err("it is no equation".to_owned());
    };
    let model = ctcp_model::model_by_name(name).map_err(|error| error.to_string())?;
    let given: Vec<(&str, f64)> = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let reading = Some(reading.as_str()).filter(|name| !name.is_empty());
    let all = model
        .evaluate(&given, reading)
        .map_err(|error| error.to_string())?;
    let place = model
        .outputs
        .iter()
        .position(|one| one.name == output)
        .ok_or_else(|| {
            let known: Vec<&str> = model.outputs.iter().map(|one| one.name).collect();
            let known = known.join(", ");
            format!("model {name} has no output `{output}`; it has {known}")
        })?;
    let value = all[place];
    let mut outcome = FlowOutcome {
        name: flow.name.clone(),
        value: Some(value),
        ..FlowOutcome::default()
    };
    match gives {
        Gives::Value => {}
        Gives::GoodputMbit => outcome.goodput_mbit = value,
        Gives::SrttS => outcome.srtt_ms = Some(value * 1e3),
        Gives::WindowPackets => {
            outcome.inside = Some(Inside {
                window_packets: value,
                ..Inside::default()
            });
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::test_support::point;
    use std::collections::BTreeMap;

    fn table1(output: &str) -> Point {
        let mut point = point();
        point.flows[0].system = System::Model {
            name: "table1".into(),
            reading: String::new(),
            parameters: BTreeMap::from([("q".into(), 0.025)]),
            output: output.into(),
            gives: Gives::GoodputMbit,
        };
        point
    }

    #[test]
    fn an_equation_takes_the_place_of_a_flow() {
        let point = table1("e2e");
        assert!(is_one(&point));
        let outcome = evaluate(&point).expect("it has that output");
        // Table I prints 0.5917, models.md recomputes 0.59158.
        let goodput = outcome.flows[0].goodput_mbit;
        assert!((goodput - 0.591_58).abs() < 1e-5, "{goodput}");
    }

    #[test]
    fn an_output_that_is_not_there_is_refused_with_those_that_are() {
        let error = evaluate(&table1("speed")).expect_err("it has no speed");
        assert!(
            error.contains("`speed`") && error.contains("e2e_sum"),
            "{error}"
        );
    }
}

//! The models of [MP12] Algorithms 1 and 2.

use super::{Model, P, Parameter, ReadingInfo, output, reading};
use crate::{Domain, estimate};

const GAIN: Parameter = Parameter::new("gain", "μ", "")
    .within(Domain::closed(0.0, 1.0).above())
    .or(0.05)
    .is("gain of the filter");

const ORDERS: &[ReadingInfo] = &[
    reading("printed", "the acknowledged packet first, then the losses"),
    reading("chronological", "the losses first, as they happened"),
];

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "loss-filter",
        title: "Loss estimate after an ACK that shows losses",
        source: "[MP12] Algorithm 1",
        equation: "p ← p·(1−μ)^(L+1) + 1 − (1−μ)^L",
        parameters: &[
            Parameter::new("p_before", "p", "")
                .or(0.02)
                .is("estimate before the ACK"),
            GAIN,
            Parameter::new("losses", "L", "packets")
                .within(Domain::whole(0, 1_000_000_000))
                .or(1.0)
                .is("losses that the ACK shows"),
        ],
        readings: ORDERS,
        outputs: &[output("p_after", "", "estimate after it")],
        plotted: "p_after",
        compute: |i| {
            let (before, gain) = (i.get("p_before"), i.get("gain"));
            let (losses, order) = (i.whole("losses"), i.reading.parse()?);
            Ok(vec![estimate::loss_after_ack(before, gain, losses, order)?])
        },
    },
    Model {
        name: "loss-mean",
        title: "Mean of the loss estimate at ACK instants",
        source: "[MP12] Algorithm 1, independent losses",
        equation: "(1−g)/(1−(1−μ)g) = p, g = (1−p)/(1−p(1−μ)); (1−μ)·p in time's order",
        parameters: &[P, GAIN],
        readings: ORDERS,
        outputs: &[output("p_mean", "", "mean of the estimate")],
        plotted: "p_mean",
        compute: |i| {
            let (p, gain) = (i.get("p"), i.get("gain"));
            Ok(vec![estimate::loss_mean(p, gain, i.reading.parse()?)?])
        },
    },
    Model {
        name: "loss-jump",
        title: "What the loss rule does to a window in one round trip",
        source: "[MP12] Algorithm 2",
        equation: "1 − (p − p_long)/2",
        parameters: &[
            P.or(0.1).is("short-term loss estimate"),
            Parameter::new("p_long", "p_long", "")
                .or(0.02)
                .is("long-term loss estimate"),
        ],
        readings: &[],
        outputs: &[output("factor", "", "window after over before")],
        plotted: "factor",
        compute: |i| {
            Ok(vec![estimate::loss_jump_factor(
                i.get("p"),
                i.get("p_long"),
            )?])
        },
    },
];

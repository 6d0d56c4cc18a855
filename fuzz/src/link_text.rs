//! Traces, rates and shares of packets as text.

use ctcp_link::{LossTrace, RateTrace};
use ctcp_units::{Duration, LossRate, Rate};

use crate::Input;

/// The first byte chooses the parser, the rest is its text.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.below(4);
    let Ok(text) = core::str::from_utf8(input.rest()) else {
        return;
    };
    match choice {
        0 => rate_trace(text),
        1 => loss_trace(text),
        2 => rate(text),
        _ => loss_rate(text),
    }
}

fn rate_trace(text: &str) {
    let Ok(trace) = RateTrace::parse(text) else {
        return;
    };
    assert!(trace.period() > Duration::ZERO);
    assert!(trace.opportunity_count() <= text.lines().count());
    let _ = trace.mean_rate();
    let times = text.lines().map(str::trim);
    let times = times.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let millis: Vec<u32> = times.map(|time| time.parse().expect("it parsed")).collect();
    assert_eq!(RateTrace::from_millis(millis), Ok(trace));
}

fn loss_trace(text: &str) {
    for repeats in [false, true] {
        let Ok(trace) = LossTrace::parse(text, repeats) else {
            continue;
        };
        let decisions = text.lines().flat_map(|line| line.split('#').next());
        let decisions = decisions.flat_map(str::chars);
        let is_lost: Vec<bool> = decisions
            .filter_map(|c| "01".contains(c).then_some(c == '1'))
            .collect();
        let lost = is_lost.iter().filter(|&&lost| lost).count() as f64;
        let mean = if repeats {
            lost / is_lost.len() as f64
        } else {
            0.0
        };
        assert_eq!(trace.mean().share(), mean);
        assert_eq!(LossTrace::new(is_lost, repeats), Ok(trace));
    }
}

fn rate(text: &str) {
    let Ok(rate) = text.parse::<Rate>() else {
        return;
    };
    assert!(rate.as_bits_per_second() <= 1_000_000_000_000_000);
    // What is shown is rounded, and still a rate not far off.
    let shown: Rate = rate.to_string().parse().expect("what is shown can be read");
    let apart = shown
        .as_bits_per_second()
        .abs_diff(rate.as_bits_per_second());
    assert!(
        apart * 20 <= rate.as_bits_per_second(),
        "{text}: {rate} is {apart} bit/s off"
    );
    let exact = format!("{}bit", rate.as_bits_per_second()).parse();
    assert_eq!(exact, Ok(rate));
    let _ = rate.bytes_in(rate.time_for_bytes(1500).min(Duration::from_secs(1 << 40)));
}

fn loss_rate(text: &str) {
    let Ok(rate) = text.parse::<LossRate>() else {
        return;
    };
    assert!((0.0..=1.0).contains(&rate.share()));
    assert!((rate.share() + rate.arriving() - 1.0).abs() < 1e-12);
    let shown: LossRate = rate.to_string().parse().expect("what is shown can be read");
    assert!((shown.share() - rate.share()).abs() < 1e-4);
}

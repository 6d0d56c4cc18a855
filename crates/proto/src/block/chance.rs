//! The chance that enough packets of a block arrive.

use crate::path::LossProcess;

/// Packets to send so that `needed` of them arrive, but for a chance of
/// `failure`: at least `needed`, at most `most`.
///
/// Losses follow the simple Gilbert model: a packet is lost with chance
/// p + (1 − p)·ρ if the one before it was, else with chance p·(1 − ρ); with ρ = 0
/// their number is binomial. The chance of every count of arrivals is carried from
/// packet to packet, split by the fate of the last, until what is left below
/// `needed` is no more than `failure`. Work: O(`needed` · answer); nothing is
/// allocated.
///
/// `failure` lies in (0, 1); p counts as 0.9 at most.
pub(super) fn packets_for(needed: u8, failure: f64, most: u32, process: &LossProcess) -> u32 {
    let p = process.rate.share().min(0.9);
    let (after_loss, after_arrival) = {
        let rho = process.correlation;
        (p + (1.0 - p) * rho, p * (1.0 - rho))
    };
    let needed = usize::from(needed);
    // By arrivals so far: the last packet was lost, or it arrived. To begin with,
    // a packet of somebody else.
    let (mut lost, mut arrived) = ([0.0; 256], [0.0; 256]);
    lost[0] = p;
    arrived[0] = 1.0 - p;
    let mut sent = 0;
    while sent < most {
        // What the count below hands up by one more arrival.
        let mut comes = 0.0;
        let mut missing = 0.0;
        for (lost, arrived) in lost.iter_mut().zip(&mut arrived).take(needed) {
            let is_lost = *lost * after_loss + *arrived * after_arrival;
            let arrives = *lost + *arrived - is_lost;
            (*lost, *arrived) = (is_lost, comes);
            comes = arrives;
            missing += is_lost + *arrived;
        }
        sent += 1;
        if sent as usize >= needed && missing <= failure {
            break;
        }
    }
    sent.max(needed as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_symbol_needs_as_many_copies_as_the_powers_of_p_say() {
        let lossy = LossProcess::independent(0.2);
        for (failure, packets) in [(0.21, 1), (0.05, 2), (0.01, 3), (0.002, 4)] {
            assert_eq!(packets_for(1, failure, 20, &lossy), packets, "{failure}");
        }
        assert_eq!(packets_for(1, 1e-9, 5, &lossy), 5);
        let dead = LossProcess::independent(1.0);
        assert_eq!(packets_for(255, 0.01, 600, &dead), 600);
    }

    #[test]
    fn nothing_is_added_on_a_clean_path() {
        for needed in [1, 7, 32, 255] {
            let clean = LossProcess::default();
            assert_eq!(packets_for(needed, 0.01, 1000, &clean), u32::from(needed));
        }
    }

    #[test]
    fn independent_losses_follow_the_binomial() {
        let lossy = LossProcess::independent(0.2);
        let binomial = |n: u32, k: u32| {
            let (mut term, mut sum) = (0.2f64.powi(n as i32), 0.0);
            for arrivals in 0..k {
                sum += term;
                term *= f64::from(n - arrivals) / f64::from(arrivals + 1) * 4.0;
            }
            sum
        };
        for failure in [0.3, 0.1, 0.03, 0.01, 0.001] {
            let packets = packets_for(32, failure, 100, &lossy);
            assert!(binomial(packets, 32) <= failure);
            assert!(binomial(packets - 1, 32) > failure);
        }
    }

    #[test]
    fn losses_in_runs_call_for_more() {
        let runs = LossProcess {
            correlation: 0.6,
            ..LossProcess::independent(0.05)
        };
        let apart = packets_for(32, 0.01, 100, &LossProcess::independent(0.05));
        assert!(packets_for(32, 0.01, 100, &runs) > apart + 3);
    }
}

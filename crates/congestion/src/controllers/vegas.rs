//! `vegas`: TCP Vegas, which keeps between α and β packets in the queue.
//!
//! Brakmo & Peterson 1994; `tcp-flavours.md` §8: [`VegasIncrease`], and ×¾ for a
//! loss, at most once a round trip. Helps where queueing hurts and nobody else
//! fills the queue; beside a loss-based flow it starves. [MODEL] runs it under
//! TCP/NC.

use crate::aimd::Aimd;
use crate::backoff::Fixed;
use crate::increase::VegasIncrease;
use crate::params::Params;

/// Factor for a loss.
const BETA: f64 = 0.75;

/// The controller `vegas`.
pub fn vegas(params: &Params) -> Aimd<VegasIncrease, Fixed> {
    let params = params.clamped();
    Aimd::new(
        "vegas",
        &params,
        VegasIncrease::new(params.vegas),
        Fixed::new(BETA),
    )
}

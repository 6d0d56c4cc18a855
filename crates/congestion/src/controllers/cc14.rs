//! `cc14`: the papers' controller, linear increase with β = RTTmin/RTT.
//!
//! [CC14] §III eq. (1); v1 of [SAT]. Helps wherever packets are lost by chance:
//! with an idle queue β is 1 and the loss costs nothing, with a full queue it
//! answers as TCP does. It grows by one packet a round trip, which is slow on
//! long fat paths ([SAT] §II-B), and delay that varies without a queue holds it
//! at 1/(1−β) packets ([SAT] §IV; see [`JitterGuard`](crate::JitterGuard)).

use crate::aimd::Aimd;
use crate::backoff::RttRatio;
use crate::increase::Linear;
use crate::params::Params;

/// The controller `cc14`.
pub fn cc14(params: &Params) -> Aimd<Linear, RttRatio> {
    let params = params.clamped();
    Aimd::new(
        "cc14",
        &params,
        Linear::new(params.alpha),
        RttRatio::new(params.jitter_guard),
    )
}

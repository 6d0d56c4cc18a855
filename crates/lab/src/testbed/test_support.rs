//! A point for tests.

use std::collections::BTreeMap;

use crate::point::{Flow, Loss, Path, Point, Position, Process, System, Venue as Place, Workload};

fn lossless() -> Loss {
    Loss {
        position: Position::Before,
        process: Process::None,
    }
}

/// 25 Mbit/s and 25 ms, and nothing that troubles.
pub(crate) fn path() -> Path {
    Path {
        rate_mbit: 25.0,
        rtt_ms: 25.0,
        queue_bdp: 1.0,
        mtu_bytes: 1500,
        loss_down: lossless(),
        loss_up: lossless(),
        hops: 1,
        ecn_queue_share: None,
        noise: None,
        rtt_phases: vec![],
        rate_phases: vec![],
        loss_phases: vec![],
        outages: vec![],
        policer_burst_bytes: None,
    }
}

/// A second of CUBIC over 25 Mbit/s and 25 ms.
pub(crate) fn point() -> Point {
    Point {
        experiment: "test".into(),
        series: "cubic".into(),
        at: BTreeMap::from([("loss".into(), 0.0)]),
        repetition: 0,
        seed: 1,
        loss_seed: 2,
        venue: Place::Testbed,
        paths: vec![path()],
        flows: vec![Flow {
            name: "measured".into(),
            system: System::Tcp {
                congestion: "cubic".into(),
            },
            workload: Workload::Bulk {
                warmup_s: 0.2,
                duration_s: 1.0,
                offered_mbit: None,
            },
            start_s: 0.0,
            extra_rtt_ms: 0.0,
            paths_each: 1,
        }],
        time_limit_s: 300.0,
        sample_s: None,
    }
}

//! Worlds of several paths in use, with the papers' controller.

use ctcp_link::LinkConfig;
use ctcp_proto::{PathEvent, PathOptions, PathState, TransportConfig};
use ctcp_units::{PathId, Rate, millis, seconds};

use crate::multi::Multi;
use crate::support::{Which, transport};

pub(crate) fn link(mbit: u64, rtt: u64) -> LinkConfig {
    LinkConfig::new(Rate::mbit(mbit), millis(rtt) / 2).queue_bdp(1.0, millis(rtt))
}

pub(crate) fn config() -> TransportConfig {
    let mut config = transport();
    config.congestion = "cc14".to_owned();
    config
}

/// A world in which only the first path is open.
pub(crate) fn world(seed: u64, links: &[LinkConfig]) -> Multi {
    let both: Vec<_> = links.iter().map(|l| (l.clone(), l.clone())).collect();
    let mut world = Multi::new(seed, &both, config(), config());
    world.connect();
    world
}

/// A world with all its paths open and in use.
pub(crate) fn bonded(seed: u64, links: &[LinkConfig]) -> Multi {
    let mut world = world(seed, links);
    world.run_for(millis(100));
    for network in 1..links.len() {
        let path = world.open_path(network, &PathOptions::default());
        assert!(world.run_until(seconds(5), |world| {
            world.saw_path(Which::Client, PathEvent::Validated(path))
                && world.saw_path(Which::Server, PathEvent::Validated(path))
        }));
    }
    world
}

pub(crate) fn state(world: &mut Multi, which: Which, path: PathId) -> Option<PathState> {
    let stats = world.connection(which).unwrap().stats();
    let known = stats.paths.iter().find(|known| known.id == path);
    known.map(|path| path.state)
}

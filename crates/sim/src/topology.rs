//! Networks: links by place, and the usual ways to join them.
//!
//! Every link is one direction. A flow's path is two lists of links: *down*, the
//! way of the data from server to client, and *up*, the way back. Routers stand
//! between the links of a list; each link has the queue in front of it.

use ctcp_link::LinkConfig;
use ctcp_units::Duration;

/// One direction of a link, with a name that its seed and its results go by.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLink {
    /// Unique within the network.
    pub name: String,
    /// How it is.
    pub config: LinkConfig,
}

/// Both directions of the way between the ends of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowPath {
    /// Places of the links from server to client; at least one.
    pub down: Vec<usize>,
    /// Places of the links from client to server; at least one.
    pub up: Vec<usize>,
}

/// Links, and the paths that flows take unless they name their own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// All links.
    pub links: Vec<NamedLink>,
    /// One path, or several for transports that use several.
    pub paths: Vec<FlowPath>,
}

impl Network {
    /// A network without links.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a link; returns its place.
    pub fn add(&mut self, name: &str, config: LinkConfig) -> usize {
        self.links.push(NamedLink {
            name: name.to_owned(),
            config,
        });
        self.links.len() - 1
    }

    /// One bottleneck in each direction, shared by all flows.
    pub fn dumbbell(down: LinkConfig, up: LinkConfig) -> Self {
        Self::chain([("bottleneck", down, up)])
    }

    /// Several links in a row, shared by all flows: name, direction of the data
    /// and way back of each, in the order of the data.
    pub fn chain<'a>(hops: impl IntoIterator<Item = (&'a str, LinkConfig, LinkConfig)>) -> Self {
        let mut network = Self::new();
        let mut path = FlowPath::default();
        for (name, down, up) in hops {
            path.down.push(network.add(&format!("{name}.down"), down));
            path.up.insert(0, network.add(&format!("{name}.up"), up));
        }
        network.paths = vec![path];
        network
    }

    /// The paths of a parking lot made of a chain of `hop_count` hops: the whole
    /// way, then each hop by itself for cross traffic.
    pub fn parking_lot(hop_count: usize, down: &LinkConfig, up: &LinkConfig) -> Self {
        let names: Vec<String> = (0..hop_count).map(|hop| format!("hop{hop}")).collect();
        let mut network = Self::chain(
            names
                .iter()
                .map(|name| (name.as_str(), down.clone(), up.clone())),
        );
        for hop in 0..hop_count {
            network.paths.push(FlowPath {
                down: vec![2 * hop],
                up: vec![2 * hop + 1],
            });
        }
        network
    }

    /// Several paths side by side.
    pub fn parallel<'a>(
        paths: impl IntoIterator<Item = (&'a str, LinkConfig, LinkConfig)>,
    ) -> Self {
        let mut network = Self::new();
        for (name, down, up) in paths {
            let down = vec![network.add(&format!("{name}.down"), down)];
            let up = vec![network.add(&format!("{name}.up"), up)];
            network.paths.push(FlowPath { down, up });
        }
        network
    }

    /// A path of its own over the network's path `place`: two links that only
    /// delay, by half of `rtt` each, before it and after it. For flows of
    /// different round trips over one bottleneck.
    pub fn with_access(&mut self, place: usize, name: &str, rtt: Duration) -> FlowPath {
        let mut path = self.paths.get(place).cloned().unwrap_or_default();
        let down = self.add(&format!("{name}.down"), LinkConfig::unlimited(rtt / 2));
        let up = self.add(&format!("{name}.up"), LinkConfig::unlimited(rtt / 2));
        path.down.insert(0, down);
        path.up.push(up);
        path
    }

    /// The place of the link of that name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctcp_units::{Rate, millis};

    #[test]
    fn a_chain_comes_back_the_way_it_went() {
        let link = || LinkConfig::new(Rate::mbit(1), millis(100));
        let network = Network::chain([("a", link(), link()), ("b", link(), link())]);
        let path = &network.paths[0];
        let names = |places: &[usize]| -> Vec<_> {
            places
                .iter()
                .map(|&place| network.links[place].name.as_str())
                .collect()
        };
        assert_eq!(names(&path.down), ["a.down", "b.down"]);
        assert_eq!(names(&path.up), ["b.up", "a.up"]);
    }

    #[test]
    fn a_parking_lot_has_the_whole_way_and_each_hop() {
        let link = LinkConfig::new(Rate::mbit(1), millis(1));
        let network = Network::parking_lot(3, &link, &link);
        assert_eq!(network.paths.len(), 4);
        assert_eq!(network.paths[0].down.len(), 3);
        assert_eq!(network.paths[2].down, [2]);
    }
}

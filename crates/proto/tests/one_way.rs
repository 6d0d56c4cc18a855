//! Paths of which one direction dies while the other lives: data gets no way, or
//! acknowledgements do not, with downloads and with uploads.
//!
//! Whoever sends data hears nothing on such a path, and whoever receives it asks in
//! vain: the streams go on over the other path, and both carry again when it is
//! mended.

#[path = "support/bonded.rs"]
mod bonded;
#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;
#[path = "support/upload.rs"]
mod upload;

use bonded::{bonded, link, state};
use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::{PathEvent, PathState};
use ctcp_units::{Duration, Instant, LossRate, PathId, millis, seconds};
use multi::{Download, Multi};
use support::Which;
use upload::Upload;

/// A link that loses everything.
fn dead(link: &LinkConfig) -> LinkConfig {
    link.clone().loss(LossModel::Bernoulli(LossRate::ONE))
}

/// A download or an upload that never ends.
trait Transfer {
    fn begin(world: &mut Multi) -> Self;
    fn pump(&mut self, world: &mut Multi) -> bool;
    fn read(&self) -> u64;
    /// Longest time between two moments at which bytes came, and when it ended.
    fn gap(&mut self) -> &mut (Duration, Instant);
}

impl Transfer for Download {
    fn begin(world: &mut Multi) -> Self {
        Self::begin(world, u64::MAX)
    }

    fn pump(&mut self, world: &mut Multi) -> bool {
        self.pump(world)
    }

    fn read(&self) -> u64 {
        self.read
    }

    fn gap(&mut self) -> &mut (Duration, Instant) {
        &mut self.gap
    }
}

impl Transfer for Upload {
    fn begin(world: &mut Multi) -> Self {
        Self::begin(world, u64::MAX)
    }

    fn pump(&mut self, world: &mut Multi) -> bool {
        self.pump(world)
    }

    fn read(&self) -> u64 {
        self.read
    }

    fn gap(&mut self) -> &mut (Duration, Instant) {
        &mut self.gap
    }
}

/// What comes, in Mbit/s, within `span`.
fn rate(transfer: &mut impl Transfer, world: &mut Multi, span: Duration) -> f64 {
    let before = transfer.read();
    world.run_until(span, |world| transfer.pump(world));
    (transfer.read() - before) as f64 * 8.0 / span.as_secs_f64() / 1e6
}

/// Kills one direction, up or down, of the path at `place`, while `T` is under way,
/// for as long as `during` needs, and mends it: it is in use again.
fn with_one_direction_dead<T: Transfer>(
    (seed, place): (u64, usize),
    dead_end: Which,
    during: impl FnOnce(&mut T, &mut Multi),
) {
    let links = [link(20, 20), link(10, 60)];
    let mut world = bonded(seed, &links);
    let mut transfer = T::begin(&mut world);
    world.run_until(seconds(4), |world| transfer.pump(world));
    let whole = links[place].clone();
    let (up, down) = match dead_end {
        Which::Server => (dead(&whole), whole.clone()),
        Which::Client => (whole.clone(), dead(&whole)),
    };
    world.set_links(place, up, down);
    *transfer.gap() = (Duration::ZERO, world.now);
    during(&mut transfer, &mut world);
    let gap = *transfer.gap();
    println!(
        "path {place} dead towards the {dead_end:?}: gap {:?}",
        gap.0
    );
    assert!(gap.0 <= millis(400), "{gap:?}");
    world.set_links(place, whole.clone(), whole);
    // The end whose packets were lost there.
    let unheard = match dead_end {
        Which::Server => Which::Client,
        Which::Client => Which::Server,
    };
    assert!(world.run_until(seconds(6), |world| {
        transfer.pump(world);
        state(world, unheard, PathId(place as u32)) == Some(PathState::Active)
    }));
}

/// Data lives, what acknowledges it does not: `receiver`, who is to notice, lets
/// acknowledgements take the other path, and both carry on.
fn goes_on_without_acknowledgements<T: Transfer>(at: (u64, usize), receiver: Which, dead: Which) {
    with_one_direction_dead(at, dead, |transfer: &mut T, world| {
        world.run_until(seconds(2), |world| transfer.pump(world));
        let path = PathId(at.1 as u32);
        assert!(world.saw_path(receiver, PathEvent::Down(path)));
        let mbit = rate(transfer, world, seconds(4));
        assert!(mbit > 24.0, "{mbit} Mbit/s of 30");
    });
}

/// Data gets no way on the path, and the rest is not held up.
fn is_left_without_data<T: Transfer>(at: (u64, usize), dead: Which) {
    with_one_direction_dead(at, dead, |transfer: &mut T, world| {
        world.run_until(seconds(3), |world| transfer.pump(world));
        let mbit = rate(transfer, world, seconds(3));
        let alone = [10.0, 20.0][at.1];
        assert!(mbit > 0.85 * alone, "{mbit} Mbit/s of {alone}");
    });
}

#[test]
fn a_path_that_is_dead_towards_the_server_goes_on_carrying_data() {
    for at in [(21, 0), (22, 1), (23, 0), (24, 1)] {
        goes_on_without_acknowledgements::<Download>(at, Which::Client, Which::Server);
    }
}

#[test]
fn a_path_that_is_dead_towards_the_client_is_left() {
    for at in [(25, 0), (26, 1)] {
        is_left_without_data::<Download>(at, Which::Client);
    }
}

#[test]
fn an_upload_goes_on_over_a_path_whose_acknowledgements_are_lost() {
    for at in [(31, 0), (32, 1), (33, 0), (34, 1)] {
        goes_on_without_acknowledgements::<Upload>(at, Which::Server, Which::Client);
    }
}

#[test]
fn an_upload_leaves_a_path_on_which_its_data_is_lost() {
    for at in [(35, 0), (36, 1)] {
        is_left_without_data::<Upload>(at, Which::Server);
    }
}

/// One path loses all data of an upload and the other one all acknowledgements, for
/// ten seconds: between them both directions have a way, and every byte arrives.
#[test]
fn an_upload_ends_well_where_each_path_has_one_direction_left() {
    for seed in 37..41 {
        let links = [link(20, 20), link(10, 60)];
        let mut world = bonded(seed, &links);
        let mut upload = Upload::begin(&mut world, 20_000_000);
        world.run_until(seconds(2), |world| upload.pump(world));
        world.set_links(0, dead(&links[0]), links[0].clone());
        world.set_links(1, links[1].clone(), dead(&links[1]));
        world.run_until(seconds(2), |world| upload.pump(world));
        let before = upload.read;
        world.run_until(seconds(8), |world| upload.pump(world));
        let mbit = (upload.read - before) as f64 * 8.0 / 8e6;
        println!("seed {seed}, one direction each: {mbit:.1} Mbit/s");
        assert!(mbit > 7.5, "{mbit} Mbit/s of 10");
        for (place, link) in links.iter().enumerate() {
            world.set_links(place, link.clone(), link.clone());
        }
        assert!(world.run_until(seconds(30), |world| upload.pump(world)));
    }
}

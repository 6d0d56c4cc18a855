//! Paths of which one direction dies while the other lives: data gets no way, or
//! acknowledgements do not, with downloads and with uploads.
//!
//! Whoever sends data hears nothing on such a path, and whoever receives it asks in
//! vain: the streams go on over the other path, and both carry again when it is
//! mended.

#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;
#[path = "support/upload.rs"]
mod upload;

use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::{PathEvent, PathOptions, PathState, TransportConfig};
use ctcp_units::{Duration, LossRate, PathId, Rate, millis, seconds};
use multi::{Download, Multi};
use support::{Which, transport};
use upload::Upload;

fn link(mbit: u64, rtt: u64) -> LinkConfig {
    LinkConfig::new(Rate::mbit(mbit), millis(rtt) / 2).queue_bdp(1.0, millis(rtt))
}

fn config() -> TransportConfig {
    let mut config = transport();
    config.congestion = "cc14".to_owned();
    config
}

/// A world with all its paths open and in use.
fn bonded(seed: u64, links: &[LinkConfig]) -> Multi {
    let both: Vec<_> = links.iter().map(|l| (l.clone(), l.clone())).collect();
    let mut world = Multi::new(seed, &both, config(), config());
    world.connect();
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

fn state(world: &mut Multi, which: Which, path: PathId) -> Option<PathState> {
    let stats = world.connection(which).unwrap().stats();
    let known = stats.paths.iter().find(|known| known.id == path);
    known.map(|path| path.state)
}

/// A link that loses everything.
fn dead(link: &LinkConfig) -> LinkConfig {
    link.clone().loss(LossModel::Bernoulli(LossRate::ONE))
}

/// The data direction lives, what acknowledges it does not: acknowledgements take
/// the other path, and both carry on.
#[test]
fn a_path_that_is_dead_towards_the_server_goes_on_carrying_data() {
    for (seed, place) in [(21, 0), (22, 1), (23, 0), (24, 1)] {
        let links = [link(20, 20), link(10, 60)];
        let mut world = bonded(seed, &links);
        let mut download = Download::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| download.pump(world));
        world.set_links(place, dead(&links[place]), links[place].clone());
        download.gap = (Duration::ZERO, world.now);
        world.run_until(seconds(2), |world| download.pump(world));
        let path = PathId(place as u32);
        assert!(world.saw_path(Which::Client, PathEvent::Down(path)));
        let before = download.read;
        world.run_until(seconds(4), |world| download.pump(world));
        let mbit = (download.read - before) as f64 * 8.0 / 4e6;
        println!(
            "path {place} dead up: {mbit:.1} Mbit/s, gap {:?}",
            download.gap.0
        );
        assert!(download.gap.0 <= millis(400), "{:?}", download.gap);
        assert!(mbit > 24.0, "{mbit} Mbit/s of 30");
        world.set_links(place, links[place].clone(), links[place].clone());
        assert!(world.run_until(seconds(6), |world| {
            download.pump(world);
            state(world, Which::Client, path) == Some(PathState::Active)
        }));
    }
}

/// The other way round: it carries nothing, and the rest is not held up.
#[test]
fn a_path_that_is_dead_towards_the_client_is_left() {
    for (seed, place) in [(25, 0), (26, 1)] {
        let links = [link(20, 20), link(10, 60)];
        let mut world = bonded(seed, &links);
        let mut download = Download::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| download.pump(world));
        world.set_links(place, links[place].clone(), dead(&links[place]));
        download.gap = (Duration::ZERO, world.now);
        world.run_until(seconds(3), |world| download.pump(world));
        let before = download.read;
        world.run_until(seconds(3), |world| download.pump(world));
        let mbit = (download.read - before) as f64 * 8.0 / 3e6;
        println!(
            "path {place} dead down: {mbit:.1} Mbit/s, gap {:?}",
            download.gap.0
        );
        assert!(download.gap.0 <= millis(400), "{:?}", download.gap);
        let alone = [10.0, 20.0][place];
        assert!(mbit > 0.85 * alone, "{mbit} Mbit/s of {alone}");
        world.set_links(place, links[place].clone(), links[place].clone());
        let path = PathId(place as u32);
        assert!(world.run_until(seconds(6), |world| {
            download.pump(world);
            state(world, Which::Server, path) == Some(PathState::Active)
        }));
    }
}

/// What acknowledges an upload gets no way on one path: acknowledgements take the
/// other one, and both carry on.
#[test]
fn an_upload_goes_on_over_a_path_whose_acknowledgements_are_lost() {
    for (seed, place) in [(31, 0), (32, 1), (33, 0), (34, 1)] {
        let links = [link(20, 20), link(10, 60)];
        let mut world = bonded(seed, &links);
        let mut upload = Upload::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| upload.pump(world));
        world.set_links(place, links[place].clone(), dead(&links[place]));
        upload.gap = (Duration::ZERO, world.now);
        world.run_until(seconds(2), |world| upload.pump(world));
        let path = PathId(place as u32);
        assert!(world.saw_path(Which::Server, PathEvent::Down(path)));
        let before = upload.read;
        world.run_until(seconds(4), |world| upload.pump(world));
        let mbit = (upload.read - before) as f64 * 8.0 / 4e6;
        println!(
            "upload, path {place} dead down: {mbit:.1} Mbit/s, gap {:?}",
            upload.gap.0
        );
        assert!(upload.gap.0 <= millis(400), "{:?}", upload.gap);
        assert!(mbit > 24.0, "{mbit} Mbit/s of 30");
        world.set_links(place, links[place].clone(), links[place].clone());
        assert!(world.run_until(seconds(6), |world| {
            upload.pump(world);
            state(world, Which::Server, path) == Some(PathState::Active)
        }));
    }
}

/// Data gets no way on one path, acknowledgements do.
#[test]
fn an_upload_leaves_a_path_on_which_its_data_is_lost() {
    for (seed, place) in [(35, 0), (36, 1)] {
        let links = [link(20, 20), link(10, 60)];
        let mut world = bonded(seed, &links);
        let mut upload = Upload::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| upload.pump(world));
        world.set_links(place, dead(&links[place]), links[place].clone());
        upload.gap = (Duration::ZERO, world.now);
        world.run_until(seconds(3), |world| upload.pump(world));
        let before = upload.read;
        world.run_until(seconds(3), |world| upload.pump(world));
        let mbit = (upload.read - before) as f64 * 8.0 / 3e6;
        println!(
            "upload, path {place} dead up: {mbit:.1} Mbit/s, gap {:?}",
            upload.gap.0
        );
        assert!(upload.gap.0 <= millis(400), "{:?}", upload.gap);
        let alone = [10.0, 20.0][place];
        assert!(mbit > 0.85 * alone, "{mbit} Mbit/s of {alone}");
        world.set_links(place, links[place].clone(), links[place].clone());
        let path = PathId(place as u32);
        assert!(world.run_until(seconds(6), |world| {
            upload.pump(world);
            state(world, Which::Client, path) == Some(PathState::Active)
        }));
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

//! Paths opened, used, closed, lost and found again.

#[path = "support/bonded.rs"]
mod bonded;
#[path = "support/multi.rs"]
mod multi;
#[path = "support/mod.rs"]
mod support;

use bonded::{bonded, config, link, state, world};
use ctcp_link::{LinkConfig, LossModel};
use ctcp_proto::{ClosePathError, OpenPathError, PATHS_MAX, PathEvent, PathOptions, PathState};
use ctcp_units::{Duration, LossRate, PathId, Rate, millis, seconds};
use multi::{Download, Multi, client_address, server_address};
use support::Which;

fn packets(world: &mut Multi, which: Which, path: PathId) -> u64 {
    let stats = world.connection(which).unwrap().stats();
    let known = stats.paths.iter().find(|known| known.id == path);
    known.map_or(0, |path| path.packets_sent)
}

#[test]
fn a_second_path_carries_its_share() {
    let mut world = bonded(1, &[link(10, 20), link(10, 20)]);
    let mut download = Download::begin(&mut world, 10_000_000);
    assert!(world.run_until(seconds(6), |world| download.pump(world)));
    let stats = world.connection(Which::Server).unwrap().stats();
    let sent: Vec<_> = stats.paths.iter().map(|path| path.packets_sent).collect();
    assert!(sent.iter().all(|sent| *sent > 2500), "{sent:?}");
    assert!(
        stats.paths.iter().all(|path| path.mtu == 1472),
        "{stats:#?}"
    );
    let client = world.connection(Which::Client).unwrap().stats();
    assert_eq!(client.paths[1].local, Some(client_address(1, 1000)));
    assert!(client.paths[1].srtt.is_some());
}

#[test]
fn what_cannot_be_opened_is_refused_with_its_reason() {
    let links = vec![link(10, 20); PATHS_MAX + 1];
    let mut world = bonded(2, &links[..PATHS_MAX]);
    let (now, options) = (world.now, PathOptions::default());
    let server = world.connection(Which::Server).unwrap();
    assert_eq!(
        server.open_path(now, client_address(1, 1), server_address(), &options),
        Err(OpenPathError::NotClient)
    );
    let client = world.connection(Which::Client).unwrap();
    assert_eq!(
        client.open_path(now, client_address(1, 1000), server_address(), &options),
        Err(OpenPathError::Duplicate {
            path: PathId(1),
            local: client_address(1, 1000),
            remote: server_address(),
        })
    );
    assert_eq!(
        client.open_path(now, client_address(1, 7), server_address(), &options),
        Err(OpenPathError::TooMany)
    );
    client.close_path(now, PathId(3)).unwrap();
    let unknown = PathOptions {
        congestion: Some("fastest".to_owned()),
        ..options.clone()
    };
    assert!(matches!(
        client.open_path(now, client_address(1, 7), server_address(), &unknown),
        Err(OpenPathError::Congestion(_))
    ));
    let next = client.open_path(now, client_address(1, 7), server_address(), &options);
    assert_eq!(next, Ok(PathId(PATHS_MAX as u32)), "ids only grow");
    client.close(now, 0, "");
    assert_eq!(
        client.open_path(now, client_address(1, 9), server_address(), &options),
        Err(OpenPathError::NotOpen)
    );
}

#[test]
fn a_path_that_leads_nowhere_is_named_and_the_rest_carries_on() {
    let mut world = world(3, &[link(10, 20), link(10, 20)]);
    world.networks[1].is_dead = true;
    let path = world.open_path(1, &PathOptions::default());
    let mut download = Download::begin(&mut world, 5_000_000);
    assert!(world.run_until(seconds(6), |world| download.pump(world)));
    world.run_for(seconds(10));
    let remote = server_address();
    assert!(world.saw_path(Which::Client, PathEvent::Unanswered { path, remote }));
    assert_eq!(
        state(&mut world, Which::Client, path),
        Some(PathState::Probing)
    );
    assert_eq!(state(&mut world, Which::Server, path), None);
    world.networks[1].is_dead = false;
    assert!(world.run_until(seconds(6), |world| {
        world.saw_path(Which::Client, PathEvent::Validated(path))
    }));
}

/// A server sends no more than three times what came from an address that has
/// not proven itself.
#[test]
fn an_unproven_address_gets_little() {
    let silent = LinkConfig::unlimited(millis(5)).loss(LossModel::Bernoulli(LossRate::ONE));
    let open = link(10, 20);
    let links = [(open.clone(), open.clone()), (open, silent)];
    let mut world = Multi::new(4, &links, config(), config());
    world.connect();
    world.open_path(1, &PathOptions::default());
    let mut download = Download::begin(&mut world, 5_000_000);
    world.run_until(seconds(20), |world| download.pump(world));
    let network = &world.networks[1];
    assert!(network.wire_bytes_down > 0);
    assert!(
        network.wire_bytes_down <= 3 * network.wire_bytes_up,
        "{} bytes for {}",
        network.wire_bytes_down,
        network.wire_bytes_up
    );
}

#[test]
fn a_closed_path_is_gone_at_both_ends_and_takes_no_byte_along() {
    let mut world = bonded(5, &[link(10, 20), link(10, 60)]);
    let mut download = Download::begin(&mut world, 10_000_000);
    world.run_until(seconds(2), |world| download.pump(world));
    assert!(world.close_path(PathId(0)));
    assert!(world.run_until(seconds(15), |world| download.pump(world)));
    for which in [Which::Client, Which::Server] {
        assert_eq!(state(&mut world, which, PathId(0)), None, "{which:?}");
        assert!(world.saw_path(which, PathEvent::Closed(PathId(0))));
    }
    let now = world.now;
    let client = world.connection(Which::Client).unwrap();
    assert_eq!(
        client.close_path(now, PathId(1)),
        Err(ClosePathError::Last(PathId(1)))
    );
    assert_eq!(
        client.close_path(now, PathId(0)),
        Err(ClosePathError::Unknown(PathId(0)))
    );
}

/// The longest time without bytes after `network` fell silent at full load.
fn gap_after_death(seed: u64, links: &[LinkConfig], network: usize) -> Duration {
    let mut world = bonded(seed, links);
    let mut download = Download::begin(&mut world, u64::MAX);
    world.run_until(seconds(4), |world| download.pump(world));
    world.networks[network].is_dead = true;
    let death = world.now;
    download.gap = (Duration::ZERO, death);
    world.run_until(seconds(6), |world| download.pump(world));
    let path = PathId(network as u32);
    let server = world.connection(Which::Server).unwrap().stats();
    assert_eq!(server.paths[network].state, PathState::Down);
    assert!(world.saw_path(Which::Server, PathEvent::Down(path)));
    world.networks[network].is_dead = false;
    let is_back = |world: &mut Multi| {
        download.pump(world);
        state(world, Which::Server, path) == Some(PathState::Active)
    };
    assert!(world.run_until(seconds(4), is_back), "it did not come back");
    let before = packets(&mut world, Which::Server, path);
    world.run_until(seconds(4), |world| download.pump(world));
    let after = packets(&mut world, Which::Server, path);
    assert!(after - before > 300, "{} packets in 4 s", after - before);
    println!(
        "gap {:?} ended {:?} after death",
        download.gap.0,
        download.gap.1 - death
    );
    download.gap.0
}

#[test]
fn a_path_that_dies_is_hardly_noticed_and_comes_back_by_itself() {
    for (links, network) in [
        ([link(10, 20), link(10, 20)], 0),
        ([link(10, 20), link(10, 20)], 1),
        ([link(20, 20), link(10, 100)], 0),
        ([link(20, 20), link(10, 100)], 1),
        ([link(10, 100), link(10, 100)], 1),
    ] {
        let gap = gap_after_death(6, &links, network);
        println!(
            "{network} of {:?} died: {gap:?}",
            links.map(|l| l.delay * 2)
        );
        assert!(gap <= millis(400), "{gap:?}");
    }
}

/// The same where the host says at once that nobody can be reached there.
#[test]
fn a_path_that_dies_with_an_error_is_left_at_once() {
    for (links, network) in [
        ([link(20, 20), link(10, 100)], 0),
        ([link(20, 20), link(10, 100)], 1),
    ] {
        let mut world = bonded(6, &links);
        let mut download = Download::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| download.pump(world));
        world.networks[network].is_dead = true;
        let death = world.now;
        download.gap = (Duration::ZERO, death);
        let path = PathId(network as u32);
        let server = world.connection(Which::Server).unwrap();
        server.on_path_error(death, path);
        let state_then = state(&mut world, Which::Server, path);
        assert_eq!(state_then, Some(PathState::Degraded));
        world.drain();
        world.run_until(seconds(6), |world| download.pump(world));
        let gap = download.gap.0;
        println!("{network} died with an error: {gap:?}");
        assert!(gap <= millis(400), "{gap:?}");
    }
}

/// Rates and losses that change every five seconds are followed: the share of what
/// both paths' payload rates add up to, period by period of 20 s.
#[test]
fn a_path_that_changes_every_five_seconds_is_followed() {
    let mut settings = config();
    settings.congestion = "auto".to_owned();
    let steady = link(20, 20);
    let changing = |mbit, loss| {
        let link = LinkConfig::new(Rate::mbit(mbit), millis(30)).queue_bdp(1.0, millis(60));
        if loss > 0.0 {
            link.loss(LossModel::Bernoulli(LossRate::clamped(loss)))
        } else {
            link
        }
    };
    let both = [&steady, &changing(10, 0.0)].map(|link| (link.clone(), link.clone()));
    let mut world = Multi::new(14, &both, settings.clone(), settings);
    world.connect();
    world.open_path(1, &PathOptions::default());
    let mut download = Download::begin(&mut world, u64::MAX);
    world.run_until(seconds(10), |world| download.pump(world));
    for period in 0..3 {
        let before = download.read;
        // Halved, doubled, with a fifth lost, and as it was.
        let mut offered = 0.0;
        for (mbit, loss) in [(5, 0.0), (10, 0.0), (10, 0.2), (10, 0.0)] {
            let link = changing(mbit, loss);
            world.set_links(1, link.clone(), link);
            world.run_until(seconds(5), |world| download.pump(world));
            offered += (20 + mbit) as f64 * 1e6 * 5.0 * 1436.0 / 1500.0;
        }
        let share = (download.read - before) as f64 * 8.0 / offered;
        println!("period {period}: {share:.3} of the moving sum");
        assert!(share >= 0.9, "period {period}: {share}");
    }
}

/// The client sends nothing but acknowledgements, and learns of it all the same.
#[test]
fn an_end_that_only_receives_notices_that_a_path_died() {
    for (links, place) in [
        ([link(20, 20), link(10, 100)], 0),
        ([link(20, 20), link(10, 100)], 1),
        ([link(10, 100), link(10, 100)], 0),
    ] {
        let mut world = bonded(27, &links);
        let mut download = Download::begin(&mut world, u64::MAX);
        world.run_until(seconds(4), |world| download.pump(world));
        world.networks[place].is_dead = true;
        let death = world.now;
        let path = PathId(place as u32);
        assert!(world.run_until(seconds(4), |world| {
            download.pump(world);
            world.saw_path(Which::Client, PathEvent::Down(path))
        }));
        let took = world.now - death;
        println!(
            "path {place} of {:?}: down after {took:?}",
            links[place].delay * 2
        );
        // A question every 125 ms or round trip, and its silence.
        let rtt = links[place].delay * 2;
        assert!(took <= millis(450) + rtt * 3, "{took:?}");
    }
}

/// It asks while data comes, not for ever.
#[test]
fn an_idle_connection_over_two_paths_stays_idle() {
    let mut world = bonded(28, &[link(10, 20), link(10, 60)]);
    let mut download = Download::begin(&mut world, 500_000);
    assert!(world.run_until(seconds(5), |world| download.pump(world)));
    world.run_for(seconds(10));
    let sent = |world: &mut Multi| -> u64 {
        [Which::Client, Which::Server]
            .into_iter()
            .flat_map(|which| [PathId(0), PathId(1)].map(|path| (which, path)))
            .map(|(which, path)| packets(world, which, path))
            .sum()
    };
    let before = sent(&mut world);
    world.run_for(seconds(20));
    let count = sent(&mut world) - before;
    assert!(count <= 20, "{count} packets in 20 s of nothing");
}

/// The buffer of one path's socket is full: the other goes on, and takes over what
/// the silent one has; room again, both carry.
#[test]
fn a_path_whose_buffer_stays_full_holds_up_nothing() {
    let mut world = bonded(29, &[link(20, 20), link(10, 60)]);
    let mut download = Download::begin(&mut world, u64::MAX);
    world.run_until(seconds(4), |world| download.pump(world));
    let path = PathId(0);
    let block = |world: &mut Multi, path, is_blocked| {
        let server = world.connection(Which::Server).unwrap();
        server.set_path_blocked(path, is_blocked);
        world.drain();
    };
    block(&mut world, path, true);
    let sent = packets(&mut world, Which::Server, path);
    download.gap = (Duration::ZERO, world.now);
    world.run_until(seconds(2), |world| download.pump(world));
    let before = download.read;
    world.run_until(seconds(2), |world| download.pump(world));
    let mbit = (download.read - before) as f64 * 8.0 / 2e6;
    assert!(mbit > 8.0, "{mbit} Mbit/s of 10");
    assert!(download.gap.0 <= millis(400), "{:?}", download.gap);
    assert_eq!(packets(&mut world, Which::Server, path), sent);

    // Both: nothing leaves, and nothing spins.
    block(&mut world, PathId(1), true);
    world.run_until(seconds(2), |world| download.pump(world));
    block(&mut world, path, false);
    block(&mut world, PathId(1), false);
    world.run_until(seconds(3), |world| download.pump(world));
    let before = download.read;
    world.run_until(seconds(3), |world| download.pump(world));
    let mbit = (download.read - before) as f64 * 8.0 / 3e6;
    assert!(mbit > 24.0, "{mbit} Mbit/s of 30");
}

#[test]
fn all_paths_down_for_20_s_end_nothing() {
    let mut world = bonded(7, &[link(10, 20), link(10, 60)]);
    let mut download = Download::begin(&mut world, 20_000_000);
    world.run_until(seconds(3), |world| download.pump(world));
    for network in &mut world.networks {
        network.is_dead = true;
    }
    world.run_for(seconds(20));
    for network in &mut world.networks {
        network.is_dead = false;
    }
    let start = world.now;
    let read = download.read;
    assert!(world.run_until(seconds(3), |world| {
        download.pump(world);
        download.read > read + 100_000
    }));
    println!("going again after {:?}", world.now - start);
    assert!(world.run_until(seconds(20), |world| download.pump(world)));
}

#[test]
fn each_path_follows_its_own_nat() {
    let mut world = bonded(8, &[link(10, 20), link(10, 60)]);
    let mut download = Download::begin(&mut world, 20_000_000);
    world.run_until(seconds(2), |world| download.pump(world));
    world.networks[1].nat_port = 2000;
    world.run_until(seconds(3), |world| download.pump(world));
    let remote = client_address(1, 2000);
    let path = PathId(1);
    assert!(world.saw_path(Which::Server, PathEvent::AddressChanged { path, remote }));
    let server = world.connection(Which::Server).unwrap().stats();
    assert_eq!(server.paths[0].remote, client_address(0, 1000));
    assert_eq!(server.paths[1].remote, remote);
    assert!(world.run_until(seconds(15), |world| download.pump(world)));
}

#[test]
fn a_handover_keeps_every_stream() {
    let mut world = world(9, &[link(10, 20), link(10, 60), link(10, 30)]);
    let mut download = Download::begin(&mut world, 15_000_000);
    world.run_until(seconds(2), |world| download.pump(world));
    // The new one before the old one goes.
    let second = world.open_path(1, &PathOptions::default());
    world.run_until(seconds(1), |world| download.pump(world));
    assert!(world.close_path(PathId(0)));
    world.run_until(seconds(2), |world| download.pump(world));
    // The old one goes first, and for three seconds there is none.
    world.networks[1].is_dead = true;
    world.run_until(seconds(3), |world| download.pump(world));
    let third = world.open_path(2, &PathOptions::default());
    assert!(world.run_until(seconds(20), |world| download.pump(world)));
    assert_eq!((second, third), (PathId(1), PathId(2)));
    assert_eq!(
        state(&mut world, Which::Server, third),
        Some(PathState::Active)
    );
}

#[test]
fn a_backup_carries_data_only_while_nothing_else_can() {
    let mut world = world(10, &[link(10, 20), link(10, 20)]);
    let path = world.open_path(
        1,
        &PathOptions {
            is_backup: true,
            ..PathOptions::default()
        },
    );
    let mut download = Download::begin(&mut world, u64::MAX);
    world.run_until(seconds(4), |world| download.pump(world));
    let server = world.connection(Which::Server).unwrap().stats();
    assert!(server.paths[1].is_backup);
    let idle = packets(&mut world, Which::Server, path);
    assert!(idle < 40, "{idle} packets");
    world.networks[0].is_dead = true;
    let read = download.read;
    world.run_until(seconds(4), |world| download.pump(world));
    assert!(download.read - read > 3_000_000, "{}", download.read - read);
    world.networks[0].is_dead = false;
    world.run_until(seconds(3), |world| download.pump(world));
    let before = packets(&mut world, Which::Server, path);
    world.run_until(seconds(4), |world| download.pump(world));
    let after = packets(&mut world, Which::Server, path);
    assert!(after - before < 40, "{} packets", after - before);
}

#[test]
fn a_path_that_costs_takes_what_the_others_cannot() {
    let mut world = bonded(11, &[link(10, 20), link(10, 20)]);
    let path = PathId(1);
    world
        .connection(Which::Client)
        .unwrap()
        .set_path_use(path, false, 9)
        .unwrap();
    world.run_for(seconds(1));
    let before = packets(&mut world, Which::Server, path);
    // Half of what the free path carries.
    let mut download = Download::begin(&mut world, u64::MAX);
    for _ in 0..400 {
        let most = download.written + 6_250;
        let most = most - download.written;
        download.write(&mut world, most);
        world.run_for(millis(10));
        download.read(&mut world);
        world.drain();
    }
    let after = packets(&mut world, Which::Server, path);
    assert!(
        after - before < 200,
        "{} packets at half load",
        after - before
    );
    world.run_until(seconds(4), |world| download.pump(world));
    let full = packets(&mut world, Which::Server, path);
    assert!(full - after > 2000, "{} packets at full load", full - after);
}

#[test]
fn short_exchanges_take_the_quick_path() {
    let mut world = bonded(12, &[link(10, 200), link(10, 20)]);
    // Both round trips known.
    world.run_for(seconds(3));
    for _ in 0..10 {
        let start = world.now;
        let mut download = Download::begin(&mut world, 5_000);
        assert!(world.run_until(seconds(2), |world| download.pump(world)));
        let took = world.now - start;
        assert!(took < millis(60), "{took:?}");
        world.run_for(millis(300));
    }
}

/// 20 ms and 100 ms at half of both rates: what the application reads is never
/// far behind what was written.
#[test]
fn at_half_load_bytes_come_in_order_within_130_ms() {
    for loss in [0.0, 0.01] {
        let lossy = |config: LinkConfig| {
            if loss > 0.0 {
                config.loss(LossModel::Bernoulli(LossRate::clamped(loss)))
            } else {
                config
            }
        };
        let mut world = bonded(13, &[lossy(link(20, 20)), lossy(link(10, 100))]);
        let mut download = Download::begin(&mut world, u64::MAX);
        let mut sent = std::collections::VecDeque::new();
        let mut delays = Vec::new();
        // 15 Mbit/s in portions of 5 ms.
        for portion in 0..2400 {
            download.write(&mut world, 9_375);
            sent.push_back((download.written, world.now));
            let limit = world.now + millis(5);
            loop {
                let goes_on = world.step(limit);
                download.read(&mut world);
                world.drain();
                while sent.front().is_some_and(|(end, _)| *end <= download.read) {
                    let at = sent.pop_front().unwrap().1;
                    if portion > 400 {
                        delays.push(world.now - at);
                    }
                }
                if !goes_on {
                    break;
                }
            }
        }
        delays.sort();
        let at = |share: f64| delays[(delays.len() as f64 * share) as usize];
        println!("loss {loss}: median {:?}, p99 {:?}", at(0.5), at(0.99));
        assert!(at(0.99) <= millis(130), "{:?}", at(0.99));
    }
}

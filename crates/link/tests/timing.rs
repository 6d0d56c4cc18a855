//! When packets arrive, to the nanosecond, and which of them the queue drops.

use ctcp_link::{
    Delivered, Ecn, EcnMarking, Fate, Jitter, Link, LinkConfig, LossModel, Outage, Packet,
    QueueSize, RateLimit, RateTrace,
};
use ctcp_units::{Duration, Instant, LossRate, Rate, micros, millis, seconds};

fn at(span: Duration) -> Instant {
    Instant::EPOCH + span
}

fn link(config: LinkConfig) -> Link<u32> {
    Link::new(config, 1, Instant::EPOCH).expect("a valid configuration")
}

fn drain(link: &mut Link<u32>) -> Vec<Delivered<u32>> {
    let mut all = Vec::new();
    while let Some(event) = link.next_event() {
        all.extend(std::iter::from_fn(|| link.poll_delivery(event)));
    }
    all
}

fn nanos_due(deliveries: &[Delivered<u32>]) -> Vec<u64> {
    deliveries.iter().map(|d| d.due.as_nanos()).collect()
}

#[test]
fn packets_follow_one_another_at_the_rate() {
    let mut link = link(LinkConfig::new(Rate::mbit(25), micros(12_500)));
    for index in 0..4 {
        link.send(at(micros(100)), Packet::new(1500, index));
    }
    link.send(at(micros(5000)), Packet::new(40, 4));
    assert_eq!(
        nanos_due(&drain(&mut link)),
        [13_080_000, 13_560_000, 14_040_000, 14_520_000, 17_512_800]
    );
    let counters = link.counters();
    assert_eq!(counters.queueing_delay_sum, micros(480 * (1 + 2 + 3)));
    assert_eq!(counters.queueing_delay_max, micros(480 * 3));
    assert_eq!(counters.queue_packets_max, 4);
    assert_eq!(counters.queue_bytes_max, 6000);
}

#[test]
fn the_full_rate_is_reached_and_not_passed() {
    for rate in [Rate::kbit(64), Rate::mbit(25), Rate::mbit(10_000)] {
        let mut link = link(LinkConfig::new(rate, millis(1)).queue_bdp(2.0, millis(50)));
        let mut now = Instant::EPOCH;
        let pause = rate.time_for_bytes(1000);
        let mut last = Instant::EPOCH;
        let mut bytes = 0;
        while bytes < 3_000_000 {
            link.send(now, Packet::new(1500, 0));
            now += pause;
            while let Some(delivered) = link.poll_delivery(now) {
                bytes += 1500;
                last = delivered.due;
            }
        }
        let measured = Rate::from_bytes_in(bytes, last - at(millis(1)));
        let ratio = measured.as_mbit() / rate.as_mbit();
        assert!((0.999..=1.0).contains(&ratio), "{rate}: {ratio}");
    }
}

#[test]
fn the_queue_drops_what_does_not_fit_and_counts_the_packet_in_transmission() {
    for (queue, fitting) in [
        (QueueSize::Packets(3), 3),
        (QueueSize::Bytes(4500), 3),
        (QueueSize::Bytes(4499), 2),
        (QueueSize::bdp(1.0, Rate::mbit(25), millis(25)), 52),
    ] {
        let mut link = link(LinkConfig::new(Rate::mbit(25), millis(1)).queue(queue));
        let fates: Vec<Fate> = (0..60)
            .map(|index| link.send(at(micros(0)), Packet::new(1500, index)))
            .collect();
        assert!(fates[..fitting].iter().all(|&fate| fate == Fate::Accepted));
        assert!(fates[fitting..].iter().all(|&fate| fate == Fate::QueueFull));
        // One leaves, one may come; just before that none.
        let leaves = at(Duration::from_nanos(479_999));
        assert_eq!(link.send(leaves, Packet::new(1500, 60)), Fate::QueueFull);
        assert_eq!(
            link.send(at(micros(480)), Packet::new(1500, 61)),
            Fate::Accepted
        );
        let counters = link.counters();
        assert_eq!(counters.dropped_queue, 61 - fitting as u64);
        assert_eq!(drain(&mut link).len(), fitting + 1);
    }
}

#[test]
fn capable_packets_are_marked_above_the_threshold_and_others_are_not() {
    let config = LinkConfig::new(Rate::mbit(25), millis(1))
        .queue(QueueSize::Packets(6))
        .ecn_threshold(QueueSize::Packets(2));
    let mut marking = link(config.clone());
    for index in 0..7 {
        let ecn = [Ecn::Ect0, Ecn::NotEct, Ecn::Ect1][index as usize % 3];
        marking.send(at(micros(0)), Packet::new(1500, index).ecn(ecn));
    }
    let ecns: Vec<Ecn> = drain(&mut marking).iter().map(|d| d.ecn).collect();
    use Ecn::{Ce, Ect0, NotEct};
    assert_eq!(ecns, [Ect0, NotEct, Ce, Ce, NotEct, Ce]);
    assert_eq!(marking.counters().marked, 3);
    assert_eq!(marking.counters().dropped_queue, 1);

    let mut dropping = link(LinkConfig {
        ecn: Some(EcnMarking {
            threshold: QueueSize::Packets(2),
            drops_not_capable: true,
        }),
        ..config
    });
    let fates: Vec<Fate> = (0..4)
        .map(|index| dropping.send(at(micros(0)), Packet::new(1500, index)))
        .collect();
    assert_eq!(fates[1], Fate::Accepted);
    assert_eq!(fates[2], Fate::QueueFull);
    // A mark that a packet brought along is kept and not counted as ours.
    dropping.send(at(micros(0)), Packet::new(1500, 9).ecn(Ce));
    assert_eq!(dropping.counters().marked, 0);
    assert_eq!(drain(&mut dropping)[2].ecn, Ce);
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped() {
    let mut link = link(LinkConfig::unlimited(millis(1)).mtu(1400));
    assert_eq!(
        link.send(at(millis(0)), Packet::new(1400, 0)),
        Fate::Accepted
    );
    assert_eq!(
        link.send(at(millis(0)), Packet::new(1401, 1)),
        Fate::TooLong
    );
    assert_eq!(drain(&mut link).len(), 1);
}

#[test]
fn a_link_holds_no_more_than_it_may() {
    let mut config = LinkConfig::unlimited(seconds(1)).duplication(1.0);
    config.inside_packets_max = 4;
    let mut link = link(config);
    let accepted = (0..10)
        .filter(|&index| link.send(at(millis(0)), Packet::new(1500, index)) == Fate::Accepted)
        .count();
    assert_eq!((accepted, link.inside()), (2, 4));
    assert_eq!(link.counters().dropped_link_full, 8);
}

#[test]
fn a_trace_delivers_at_its_opportunities() {
    let trace = RateTrace::parse("1\n1\n5\n9\n").unwrap();
    let config = LinkConfig::unlimited(millis(10)).rate(RateLimit::Trace(trace));
    let mut link = link(config);
    for index in 0..5 {
        link.send(at(micros(500)), Packet::new(1500, index));
    }
    let due: Vec<u64> = nanos_due(&drain(&mut link))
        .iter()
        .map(|nanos| nanos / 1_000_000)
        .collect();
    assert_eq!(due, [11, 11, 15, 19, 20]);
}

#[test]
fn a_rate_that_drops_slows_what_waits_and_one_of_zero_holds_it() {
    let mut link = link(LinkConfig::new(Rate::mbit(12), millis(0)));
    for index in 0..3 {
        link.send(at(millis(0)), Packet::new(1500, index));
    }
    let slower = |rate| LinkConfig::new(rate, millis(0));
    link.reconfigure(at(micros(1500)), slower(Rate::mbit(6)))
        .unwrap();
    assert_eq!(
        link.poll_delivery(at(micros(1500))).unwrap().due,
        at(millis(1))
    );
    assert_eq!(link.next_event(), Some(at(micros(2500))));
    link.reconfigure(at(micros(2500)), slower(Rate::ZERO))
        .unwrap();
    assert_eq!(link.poll_delivery(at(seconds(5))).unwrap().payload, 1);
    assert_eq!(link.poll_delivery(at(seconds(5))), None);
    assert_eq!(link.next_event(), None);
    assert_eq!(link.inside(), 1);
    let unlimited = LinkConfig::unlimited(millis(0));
    link.reconfigure(at(seconds(6)), unlimited).unwrap();
    assert_eq!(
        link.poll_delivery(at(seconds(6))).unwrap().due,
        at(seconds(6))
    );
}

#[test]
fn what_a_reconfiguration_leaves_alone_goes_on() {
    let config = LinkConfig::unlimited(millis(1)).loss(LossModel::EveryNth(3));
    let mut link = link(config.clone());
    let lost = |link: &mut Link<u32>| link.send(at(millis(9)), Packet::new(9, 0)) != Fate::Accepted;
    assert!(!lost(&mut link) && !lost(&mut link));
    link.reconfigure(
        at(millis(9)),
        LinkConfig {
            delay: millis(2),
            ..config.clone()
        },
    )
    .unwrap();
    assert!(lost(&mut link), "the third of three");
    assert!(!lost(&mut link) && !lost(&mut link));
    let other = LinkConfig::unlimited(millis(1)).loss(LossModel::EveryNth(4));
    link.reconfigure(at(millis(9)), other).unwrap();
    assert!(!lost(&mut link) && !lost(&mut link) && !lost(&mut link) && lost(&mut link));
    let refused = LinkConfig::unlimited(millis(1)).loss(LossModel::EveryNth(0));
    assert!(link.reconfigure(at(millis(9)), refused).is_err());
    assert_eq!(link.config().losses[0].model, LossModel::EveryNth(4));
}

#[test]
fn times_of_a_new_configuration_count_from_when_it_takes_effect() {
    let outage = |start, end| {
        LinkConfig::unlimited(millis(1)).loss(LossModel::Outages(vec![Outage { start, end }]))
    };
    let mut link = link(LinkConfig::unlimited(millis(1)));
    link.reconfigure(at(seconds(7)), outage(millis(10), millis(20)))
        .unwrap();
    for (ms, fate) in [
        (7009, Fate::Accepted),
        (7010, Fate::Lost(0)),
        (7020, Fate::Accepted),
    ] {
        assert_eq!(
            link.send(at(millis(ms)), Packet::new(9, 0)),
            fate,
            "{ms} ms"
        );
    }
}

#[test]
fn a_base_delay_goes_up_and_down_on_schedule() {
    let config = LinkConfig::unlimited(millis(20))
        .delay_change(seconds(15), millis(35))
        .delay_change(seconds(30), millis(20));
    let mut link = link(config);
    for (index, sent) in [14_999, 15_000, 29_999, 30_000, 30_016]
        .into_iter()
        .enumerate()
    {
        link.send(at(millis(sent)), Packet::new(1500, index as u32));
    }
    let due: Vec<u64> = nanos_due(&drain(&mut link))
        .iter()
        .map(|nanos| nanos / 1_000_000)
        .collect();
    assert_eq!(due, [15_019, 15_035, 30_034, 30_034, 30_036]);
}

#[test]
fn noise_stays_within_its_bounds_and_keeps_the_order() {
    let noise = Jitter::Noise {
        max: millis(30),
        interval: millis(50),
    };
    let mut link = link(LinkConfig::unlimited(millis(10)).jitter(noise));
    for index in 0..20_000 {
        link.send(at(micros(u64::from(index) * 480)), Packet::new(1500, index));
    }
    let deliveries = drain(&mut link);
    let order: Vec<u32> = deliveries.iter().map(|d| d.payload).collect();
    assert!(order.is_sorted());
    let extras: Vec<Duration> = deliveries
        .iter()
        .map(|d| (d.due - d.sent_at) - millis(10))
        .collect();
    assert!(extras.iter().all(|&extra| extra < millis(30)));
    assert!(extras.iter().max() > Some(&millis(25)));
    assert!(extras.iter().min() < Some(&millis(5)));
}

#[test]
fn a_loss_of_one_delivers_nothing_and_ends() {
    let config =
        LinkConfig::new(Rate::mbit(25), millis(1)).loss_after(LossModel::Bernoulli(LossRate::ONE));
    let mut link = link(config);
    for index in 0..10 {
        link.send(at(millis(0)), Packet::new(1500, index));
    }
    assert!(drain(&mut link).is_empty());
    assert_eq!(link.counters().lost_after, 10);
    assert_eq!(link.next_event(), None);
}

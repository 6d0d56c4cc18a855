use ctcp_iface::{Address, Prefix, Route};

use super::*;

fn interface(index: u32, name: &str, address: &str, len: u8) -> Interface {
    Interface {
        index,
        name: name.to_owned(),
        is_up: true,
        is_running: true,
        is_loopback: false,
        mtu_bytes: 1500,
        addresses: vec![Address {
            ip: address.parse().unwrap(),
            prefix_len: len,
            is_usable: true,
        }],
        rp_filter: 0,
    }
}

fn route(to: &str, len: u8, interface: u32) -> Route {
    Route {
        to: Prefix::new(to.parse().unwrap(), len),
        interface,
        gateway: None,
        table: 254,
        metric: 0,
    }
}

/// Ethernet and Wi-Fi with default routes, and a modem that speaks IPv6.
fn host() -> Snapshot {
    Snapshot {
        interfaces: vec![
            interface(2, "eth0", "192.168.1.5", 24),
            interface(3, "wlan0", "10.9.8.7", 16),
            interface(4, "wwan0", "fd77::2", 64),
        ],
        routes: vec![
            route("0.0.0.0", 0, 2),
            route("0.0.0.0", 0, 3),
            route("::", 0, 4),
        ],
        rules: vec![],
    }
}

const SERVER: &str = "203.0.113.9:4500";

fn wishes(specs: &[&str], servers: &[&str]) -> Vec<Wish> {
    let wish = |text: &&str| {
        let spec: PathSpec = text.parse().unwrap();
        let given = spec.server.as_ref().map(ToString::to_string);
        let remotes = match &given {
            Some(server) => vec![server.parse().unwrap()],
            None => servers.iter().map(|text| text.parse().unwrap()).collect(),
        };
        Wish { spec, remotes }
    };
    specs.iter().map(wish).collect()
}

fn lines(plan: &Plan) -> Vec<String> {
    let line = |want: &Want| format!("{}: {} {}", want.label, want.local, want.remote);
    plan.wants.iter().map(line).collect()
}

#[test]
fn interfaces_and_addresses_become_paths() {
    let plan = plan(
        &wishes(&["wlan0", "192.168.1.5,backup"], &[SERVER]),
        &host(),
    );
    assert_eq!(
        lines(&plan),
        [
            "wlan0: 10.9.8.7 203.0.113.9:4500",
            "192.168.1.5: 192.168.1.5 203.0.113.9:4500"
        ]
    );
    assert_eq!(plan.wants[1].interface, Some((2, "eth0".into())));
    assert!(plan.wants[1].options.is_backup);
    assert!(plan.problems.is_empty());
}

#[test]
fn each_path_takes_the_address_of_the_server_that_it_can_reach() {
    let both = [SERVER, "[2001:db8::9]:4500"];
    let plan = plan(&wishes(&["eth0", "wwan0"], &both), &host());
    assert_eq!(
        lines(&plan),
        [
            "eth0: 192.168.1.5 203.0.113.9:4500",
            "wwan0: fd77::2 [2001:db8::9]:4500"
        ]
    );
}

#[test]
fn auto_is_every_interface_that_is_not_named() {
    let both = [SERVER, "[2001:db8::9]:4500"];
    let plan = plan(&wishes(&["auto", "wlan0,cost=5"], &both), &host());
    assert_eq!(
        lines(&plan),
        [
            "wlan0: 10.9.8.7 203.0.113.9:4500",
            "eth0: 192.168.1.5 203.0.113.9:4500",
            "wwan0: fd77::2 [2001:db8::9]:4500"
        ]
    );
    assert_eq!(plan.wants[0].options.cost, 5);
    let keys: Vec<_> = plan.wants.iter().map(|want| want.key.spec).collect();
    assert_eq!(keys, [1, 0, 0]);
}

#[test]
fn what_cannot_be_is_one_line_and_the_rest_carries_on() {
    let mut host = host();
    host.routes.retain(|route| route.interface != 3);
    host.interfaces.push(interface(5, "usb0", "10.5.5.5", 24));
    host.interfaces[3].is_up = false;
    host.interfaces.push(interface(6, "usb1", "10.6.6.6", 24));
    host.interfaces[4].is_running = false;
    let specs = [
        "eth0",
        "wlan7",
        "wlan0",
        "10.9.8.7",
        "10.1.1.1",
        "eth0,backup",
        "192.168.1.5",
        "usb0",
        "usb1",
        "wwan0",
        "eth0@203.0.113.10:4500",
    ];
    let plan = plan(&wishes(&specs, &[SERVER]), &host);
    assert_eq!(
        lines(&plan),
        [
            "eth0: 192.168.1.5 203.0.113.9:4500",
            "eth0@203.0.113.10:4500: 192.168.1.5 203.0.113.10:4500"
        ]
    );
    let expected = [
        (
            1,
            "path wlan7: there is no interface wlan7 (there are: eth0 wlan0 ",
        ),
        (2, "path wlan0: no route leads to 203.0.113.9 by wlan0"),
        (3, "path 10.9.8.7: no route leads to 203.0.113.9 by wlan0"),
        (4, "path 10.1.1.1: no interface has the address 10.1.1.1"),
        (5, "path eth0: the same as path eth0: once is enough"),
        (6, "path 192.168.1.5: the same as path eth0: once is enough"),
        (7, "path usb0: usb0 is switched off"),
        (8, "path usb1: usb1 has no carrier"),
        (
            9,
            "path wwan0: wwan0 has no address to reach 203.0.113.9:4500 from",
        ),
    ];
    assert_eq!(plan.problems.len(), expected.len(), "{:?}", plan.problems);
    for (spec, part) in expected {
        let line = &plan.problems[&spec];
        assert!(line.contains(part) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn without_netlink_addresses_are_taken_at_their_word() {
    let plan = plan_unseen(
        &wishes(&["10.1.1.1", "wlan0", "fd00::1"], &[SERVER]),
        "forbidden",
    );
    assert_eq!(lines(&plan), ["10.1.1.1: 10.1.1.1 203.0.113.9:4500"]);
    assert_eq!(plan.wants[0].interface, None);
    assert!(plan.problems[&1].contains("forbidden; give its address"));
    assert!(plan.problems[&2].contains("cannot be reached from fd00::1"));
}

#[test]
fn an_interface_that_comes_back_is_another_way() {
    let before = plan(&wishes(&["wlan0"], &[SERVER]), &host());
    let mut host = host();
    assert!(before.wants[0].is_same_way(&plan(&wishes(&["wlan0"], &[SERVER]), &host).wants[0]));
    host.interfaces[1].index = 9;
    host.routes[1].interface = 9;
    let after = plan(&wishes(&["wlan0"], &[SERVER]), &host);
    assert_eq!(before.wants[0].key, after.wants[0].key);
    assert!(!before.wants[0].is_same_way(&after.wants[0]));
}

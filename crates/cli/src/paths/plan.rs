//! Which paths there should be now: what the user wants, held against what the
//! host has. A function of both, without effects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use ctcp::PathOptions;
use ctcp_iface::{Interface, Snapshot};

use super::spec::{PathSpec, Place};

/// Names a path that is wanted: which of the user's, and its interface if that
/// one may stand for several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) spec: usize,
    pub(crate) interface: Option<String>,
}

/// A path that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) key: Key,
    /// How messages name it.
    pub(crate) label: String,
    /// To bind to, with its number: the same name may come back as another.
    pub(crate) interface: Option<(u32, String)>,
    pub(crate) local: IpAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) options: PathOptions,
}

impl Want {
    /// Whether it leads the way that `other` does.
    pub(crate) fn is_same_way(&self, other: &Self) -> bool {
        let ends = |want: &Self| (want.interface.clone(), want.local, want.remote);
        ends(self) == ends(other)
    }
}

/// What can be done and what cannot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// By the user's order.
    pub(crate) wants: Vec<Want>,
    /// One line for each path that cannot be, under its number.
    pub(crate) problems: BTreeMap<usize, String>,
}

/// A path as the user wants it, and where it may lead: the first address that can
/// be reached is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) spec: PathSpec,
    pub(crate) remotes: Vec<SocketAddr>,
}

/// Works out what to do.
pub(crate) fn plan(wishes: &[Wish], snapshot: &Snapshot) -> Plan {
    let mut plan = Plan::default();
    let is_named = |wish: &&Wish| wish.spec.place != Place::Auto;
    let is_auto = |wish: &&Wish| wish.spec.place == Place::Auto;
    // What is named goes first: `auto` is the rest.
    let ordered = (wishes.iter().filter(is_named)).chain(wishes.iter().filter(is_auto));
    for wish in ordered {
        let spec = position(wishes, wish);
        match &wish.spec.place {
            Place::Auto => add_all(&mut plan, spec, wish, snapshot),
            Place::Interface(name) => {
                let found = snapshot
                    .interface(name)
                    .ok_or_else(|| no_such(name, snapshot));
                add_one(&mut plan, spec, wish, snapshot, found, None);
            }
            Place::Address(ip) => {
                let found = snapshot.interface_with(*ip);
                let found = found.ok_or_else(|| format!("no interface has the address {ip}"));
                add_one(&mut plan, spec, wish, snapshot, found, Some(*ip));
            }
        }
    }
    plan
}

/// What to do where the kernel does not tell what there is: addresses are taken
/// at the user's word.
pub(crate) fn plan_unseen(wishes: &[Wish], reason: &str) -> Plan {
    let mut plan = Plan::default();
    for (spec, wish) in wishes.iter().enumerate() {
        let Place::Address(local) = wish.spec.place else {
            let line = format!("path {}: {reason}; give its address instead", wish.spec);
            plan.problems.insert(spec, line);
            continue;
        };
        let fits = |remote: &&SocketAddr| remote.is_ipv4() == local.is_ipv4();
        match wish.remotes.iter().find(fits) {
            Some(remote) => plan.wants.push(want(spec, wish, None, local, *remote)),
            None => {
                plan.problems.insert(spec, other_kind(wish, local));
            }
        }
    }
    plan
}

/// The place of `wish`, which is one of `wishes`.
fn position(wishes: &[Wish], wish: &Wish) -> usize {
    let found = wishes.iter().position(|known| std::ptr::eq(known, wish));
    found.expect("it is one of them")
}

fn want(
    spec: usize,
    wish: &Wish,
    interface: Option<&Interface>,
    local: IpAddr,
    remote: SocketAddr,
) -> Want {
    let is_auto = wish.spec.place == Place::Auto;
    let name = interface.map(|interface| interface.name.clone());
    Want {
        label: match (&name, is_auto) {
            (Some(name), true) => name.clone(),
            _ => wish.spec.to_string(),
        },
        key: Key {
            spec,
            interface: name.filter(|_| is_auto),
        },
        interface: interface.map(|interface| (interface.index, interface.name.clone())),
        local,
        remote,
        options: wish.spec.options.clone(),
    }
}

/// Adds every interface that leads to the server and has no path yet.
fn add_all(plan: &mut Plan, spec: usize, wish: &Wish, snapshot: &Snapshot) {
    let mut count = 0;
    for remote in &wish.remotes {
        for (interface, local) in snapshot.usable(remote.ip()) {
            count += 1;
            let index = Some(interface.index);
            let is_taken = |known: &Want| {
                known.interface.as_ref().map(|(index, _)| *index) == index
                    && (known.remote == *remote || known.key.spec == spec)
            };
            if !plan.wants.iter().any(is_taken) {
                let want = want(spec, wish, Some(interface), local, *remote);
                plan.wants.push(want);
            }
        }
    }
    if count == 0 {
        let line = format!(
            "path {}: no interface leads to {}",
            wish.spec,
            list(&wish.remotes)
        );
        plan.problems.insert(spec, line);
    }
}

/// Adds the path by one interface, from `local` if that is given.
fn add_one(
    plan: &mut Plan,
    spec: usize,
    wish: &Wish,
    snapshot: &Snapshot,
    interface: Result<&Interface, String>,
    local: Option<IpAddr>,
) {
    let ends = interface.and_then(|interface| {
        let (local, remote) = ends(wish, snapshot, interface, local)?;
        Ok((interface, local, remote))
    });
    let problem = match ends {
        Ok((interface, local, remote)) => {
            let is_twin = |known: &&Want| (known.local, known.remote) == (local, remote);
            match plan.wants.iter().find(is_twin) {
                Some(twin) => {
                    format!("the same as path {}: once is enough", twin.label)
                }
                None => {
                    let want = want(spec, wish, Some(interface), local, remote);
                    plan.wants.push(want);
                    return;
                }
            }
        }
        Err(problem) => problem,
    };
    let line = format!("path {}: {problem}", wish.spec);
    plan.problems.insert(spec, line);
}

/// Where a path by this interface begins and leads.
fn ends(
    wish: &Wish,
    snapshot: &Snapshot,
    interface: &Interface,
    local: Option<IpAddr>,
) -> Result<(IpAddr, SocketAddr), String> {
    let name = &interface.name;
    if !interface.is_up {
        return Err(format!("{name} is switched off (`ip link set {name} up`)"));
    }
    if !interface.is_running {
        return Err(format!("{name} has no carrier: no cable, or no network"));
    }
    let mut problem = format!("{name} has no address yet");
    for remote in &wish.remotes {
        let source = match local {
            Some(local) if local.is_ipv4() == remote.is_ipv4() => local,
            Some(local) => {
                problem =
                    format!("{remote} cannot be reached from {local}: another kind of address");
                continue;
            }
            None if interface.is_loopback => match remote.ip().is_loopback() {
                true => remote.ip(),
                false => {
                    problem = format!("{name} leads nowhere but here");
                    continue;
                }
            },
            None => match interface.source_for(remote.ip()) {
                Some(source) => source,
                None => {
                    problem = format!("{name} has no address to reach {remote} from");
                    continue;
                }
            },
        };
        let is_local = source.is_loopback() && remote.ip().is_loopback();
        if !is_local && snapshot.way(interface.index, remote.ip()).is_none() {
            let remote = remote.ip();
            problem = format!("no route leads to {remote} by {name} (`ip route show dev {name}`)");
            continue;
        }
        return Ok((source, *remote));
    }
    Err(problem)
}

fn other_kind(wish: &Wish, local: IpAddr) -> String {
    let remotes = list(&wish.remotes);
    format!(
        "path {}: {remotes} cannot be reached from {local}",
        wish.spec
    )
}

fn no_such(name: &str, snapshot: &Snapshot) -> String {
    let others = snapshot
        .interfaces
        .iter()
        .filter(|known| !known.is_loopback);
    let names: Vec<_> = others.map(|known| known.name.as_str()).collect();
    match names.is_empty() {
        true => format!("there is no interface {name}, nor any other"),
        false => format!(
            "there is no interface {name} (there are: {})",
            names.join(" ")
        ),
    }
}

fn list(remotes: &[SocketAddr]) -> String {
    let mut text = String::new();
    for (place, remote) in remotes.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{remote}");
    }
    text
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

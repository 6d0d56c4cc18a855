//! What a machine must have for a set of points, asked before anything is set up.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use ctcp_emu::{LinkConfig, Network, NetworkConfig};
use ctcp_units::{Duration, Rate};

use crate::links;
use crate::point::{Flow, Point, Program, System, Workload};
use crate::testbed::bed::{FLOWS_MAX, PATHS_MAX, WAYS_MAX};
use crate::venue::Unable;
use crate::workload::{find_program, package_of, programs_of};

/// Checks all that these points need.
pub(crate) fn check(points: &[&Point], ctcp: &Path) -> Result<(), Unable> {
    for point in points {
        check_point(point)?;
    }
    check_programs(points)?;
    check_congestion(points)?;
    check_multipath(points)?;
    check_ctcp(points, ctcp)?;
    check_ctcp_paths(points, ctcp)?;
    check_network()
}

fn flows<'a>(points: &'a [&'a Point]) -> impl Iterator<Item = &'a Flow> {
    points.iter().flat_map(|point| &point.flows)
}

/// Refuses what the testbed cannot do, by name.
fn check_point(point: &Point) -> Result<(), Unable> {
    let refuse = |what: String| {
        let (experiment, series) = (&point.experiment, &point.series);
        Err(Unable(format!("{experiment}, series `{series}`: {what}")))
    };
    if point.paths.is_empty() || point.paths.len() > PATHS_MAX {
        return refuse(format!(
            "{} paths: the testbed has 1 to {PATHS_MAX}",
            point.paths.len()
        ));
    }
    if point.flows.is_empty() || point.flows.len() > FLOWS_MAX {
        return refuse(format!(
            "{} flows: the testbed has 1 to {FLOWS_MAX}",
            point.flows.len()
        ));
    }
    for path in &point.paths {
        if let Err(what) = links::of_path(path) {
            return refuse(what);
        }
        if !(576..=65_535).contains(&path.mtu_bytes) {
            return refuse(format!("MTU {}: 576 to 65535 are possible", path.mtu_bytes));
        }
    }
    for flow in &point.flows {
        if matches!(
            flow.system,
            System::Simulated { .. } | System::Model { .. } | System::Suite { .. }
        ) {
            return refuse(format!(
                "flow `{}` is simulated or computed: give its series `venue = \"simulator\"`",
                flow.name
            ));
        }
        if flow.paths_each > WAYS_MAX {
            return refuse(format!(
                "flow `{}` has {} paths over each path: the testbed does at most {WAYS_MAX}",
                flow.name, flow.paths_each
            ));
        }
        if flow.extra_rtt_ms != 0.0 {
            return refuse(format!(
                "flow `{}` has a delay of its own: only the simulator has that",
                flow.name
            ));
        }
        let is_own = match flow.workload {
            Workload::Bulk { .. } | Workload::Video { .. } => true,
            Workload::Fetch { program, .. } => program == Program::Own,
        };
        if matches!(flow.system, System::Mptcp { .. }) && !is_own {
            return refuse(format!(
                "flow `{}`: over MPTCP only the laboratory's own program runs",
                flow.name
            ));
        }
    }
    Ok(())
}

fn check_programs(points: &[&Point]) -> Result<(), Unable> {
    let needed: BTreeSet<&str> = flows(points).flat_map(programs_of).collect();
    let missing: Vec<&str> = needed
        .into_iter()
        .filter(|program| find_program(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|name| package_of(name)).collect();
    Err(Unable(format!(
        "missing: {}; `apt-get install {}`",
        missing.join(", "),
        packages.join(" ")
    )))
}

fn check_congestion(points: &[&Point]) -> Result<(), Unable> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = fs::read_to_string(path).unwrap_or_default();
    for flow in flows(points) {
        if let System::Tcp { congestion } | System::Mptcp { congestion } = &flow.system
            && !known.split_whitespace().any(|name| name == congestion)
        {
            return Err(Unable(format!(
                "this kernel has no TCP congestion control `{congestion}` loaded (it has {}); \
                 `modprobe tcp_{congestion}` as root, or leave the series out with --only",
                known.trim()
            )));
        }
    }
    Ok(())
}

fn check_multipath(points: &[&Point]) -> Result<(), Unable> {
    let is_needed = flows(points).any(|flow| matches!(flow.system, System::Mptcp { .. }));
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled").unwrap_or_default();
    if is_needed && enabled.trim() != "1" {
        return Err(Unable(
            "this kernel does no MPTCP: it takes CONFIG_MPTCP and `sysctl net.mptcp.enabled=1`"
                .into(),
        ));
    }
    Ok(())
}

/// The transport's options as `ctcp` itself judges them.
fn check_ctcp(points: &[&Point], ctcp: &Path) -> Result<(), Unable> {
    let mut seen = BTreeSet::new();
    for flow in flows(points) {
        let System::Ctcp {
            congestion,
            redundancy,
            arguments,
        } = &flow.system
        else {
            continue;
        };
        let mut options = vec!["--congestion", congestion];
        if !redundancy.is_empty() {
            options.extend(["--redundancy", redundancy]);
        }
        options.extend(arguments.iter().map(String::as_str));
        if !seen.insert(options.clone()) {
            continue;
        }
        let shown = ctcp.display();
        // Nobody may connect, so it refuses to start, after it has read them.
        let output = Command::new(ctcp)
            .args(["server", "--key", "/dev/null/none"])
            .args(&options)
            .output()
            .map_err(|error| Unable(format!("cannot run {shown}: {error}")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !said.contains("/dev/null/none") {
            let first = said.lines().next().unwrap_or("it says nothing");
            return Err(Unable(format!(
                "`ctcp {}` is not possible: {first}",
                options.join(" ")
            )));
        }
    }
    Ok(())
}

/// Whether `ctcp` can use the paths of points that have several.
fn check_ctcp_paths(points: &[&Point], ctcp: &Path) -> Result<(), Unable> {
    let is_ctcp = |flow: &Flow| matches!(flow.system, System::Ctcp { .. });
    let is_needed = |point: &&&Point| point.paths.len() > 1 && point.flows.iter().any(is_ctcp);
    let Some(point) = points.iter().find(is_needed) else {
        return Ok(());
    };
    let shown = ctcp.display();
    let output = Command::new(ctcp)
        .args(["client", "--help"])
        .output()
        .map_err(|error| Unable(format!("cannot run {shown}: {error}")))?;
    if String::from_utf8_lossy(&output.stdout).contains("--path") {
        return Ok(());
    }
    Err(Unable(format!(
        "{}, series `{}`: {shown} has no --path, which several paths take; leave the series out \
         with --only, or give a newer one with --ctcp-binary",
        point.experiment, point.series
    )))
}

/// Puts up the smallest network and takes it down again.
fn check_network() -> Result<(), Unable> {
    let link = || LinkConfig::new(Rate::mbit(1), Duration::ZERO);
    Network::start(NetworkConfig::single(link(), link()))
        .map(drop)
        .map_err(|error| Unable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::test_support::point;

    fn refusal(point: &Point) -> String {
        check_point(point).expect_err("impossible").0
    }

    #[test]
    fn what_the_testbed_cannot_do_is_refused_by_name() {
        assert_eq!(check_point(&point()), Ok(()));
        let mut delayed = point();
        delayed.flows[0].extra_rtt_ms = 10.0;
        assert!(refusal(&delayed).contains("delay of its own"));
        let mut pathless = point();
        pathless.paths.clear();
        assert!(refusal(&pathless).contains("0 paths"));
        let mut tiny = point();
        tiny.paths[0].mtu_bytes = 100;
        assert!(refusal(&tiny).contains("MTU 100"));
        let mut multipath = point();
        multipath.flows[0].system = System::Mptcp {
            congestion: "cubic".into(),
        };
        multipath.flows[0].workload = Workload::Fetch {
            bytes: 1,
            count: 1,
            program: Program::Wget,
            cold: false,
        };
        assert!(refusal(&multipath).contains("MPTCP"));
    }

    #[test]
    fn a_congestion_control_that_is_not_there_names_its_module() {
        let mut point = point();
        point.flows[0].system = System::Tcp {
            congestion: "nonesuch".into(),
        };
        let refusal = check_congestion(&[&point]).expect_err("none such");
        assert!(refusal.0.contains("modprobe tcp_nonesuch"), "{refusal}");
    }

    #[test]
    fn a_missing_multipath_tool_is_asked_for_by_its_package() {
        assert_eq!(package_of("ip"), "iproute2");
        assert_eq!(package_of("proxychains4"), "proxychains4");
    }
}

//! Multipath TCP between the namespaces: one subflow per path.
//!
//! The server announces its address on each further path; the client answers
//! with a subflow from its own address there, which the route selects.

use std::process::{Command, Stdio};

use ctcp_emu::Namespace;

use crate::testbed::bed::{Bed, text};
use crate::venue::RunError;
use crate::workload::{Deadline, find_program};

/// Most subflows beside the first.
const SUBFLOWS_MAX: &str = "8";

/// Lets flow `index` use all paths.
pub(crate) fn set_up(bed: &Bed, index: usize, deadline: &Deadline) -> Result<(), RunError> {
    let limits = [
        "mptcp",
        "limits",
        "set",
        "subflows",
        SUBFLOWS_MAX,
        "add_addr_accepted",
        SUBFLOWS_MAX,
    ];
    for namespace in [bed.client(), bed.server()] {
        ip(namespace, &limits, deadline)?;
    }
    for path in 1..bed.path_count() {
        let address = text(bed.server_address(path, index));
        let device = format!("path{path}");
        let arguments = [
            "mptcp", "endpoint", "add", &address, "dev", &device, "signal",
        ];
        ip(bed.server(), &arguments, deadline)?;
    }
    Ok(())
}

fn ip(namespace: &Namespace, arguments: &[&str], deadline: &Deadline) -> Result<(), RunError> {
    let mut command = Command::new(find_program("ip").unwrap_or_else(|| "ip".into()));
    command.args(arguments).stdin(Stdio::null());
    let what = format!("`ip {}`", arguments.join(" "));
    let mut process = namespace
        .spawn(command)
        .map_err(|error| RunError::Failed(error.to_string()))?;
    loop {
        match process.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(RunError::failed(what, status)),
            Ok(None) if deadline.is_over()? => return Err(RunError::failed(what, "too slow")),
            Ok(None) => std::thread::sleep(std::time::Duration::from_millis(2)),
            Err(error) => return Err(RunError::failed(what, error)),
        }
    }
}

//! Privileges over own namespaces for those who have none over the machine's.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::CapabilitySet;
use thiserror::Error;

/// Where the privileges come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The process had them: it is root, or as good.
    Privileged,
    /// The process is now in a user namespace of its own, as root there.
    UserNamespace,
}

/// Why there is no user namespace.
#[derive(Debug, Error)]
pub enum UserNamespaceError {
    /// The kernel refuses one.
    #[error("no user namespace: {source}; {}", remedy())]
    Refused {
        /// What the kernel says.
        source: io::Error,
    },
    /// The process has threads already.
    #[error("a user namespace must be entered before any thread is started")]
    Threads,
    /// The user cannot be mapped.
    #[error("cannot write {path}: {source}; {}", remedy())]
    Map {
        /// Which file.
        path: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
}

/// Whether this process may create network namespaces as it is.
fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Makes sure that this process may create network namespaces: does nothing if
/// it may already, else moves it into a user namespace of its own, where it is
/// root. Outside, it stays who it was.
///
/// To be called first in `main`: the kernel refuses processes with threads.
///
/// # Errors
/// [`UserNamespaceError`], with the remedy.
pub fn enter_user_namespace() -> Result<Standing, UserNamespaceError> {
    if is_privileged() {
        return Ok(Standing::Privileged);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => {}
        Err(nix::Error::EINVAL) => return Err(UserNamespaceError::Threads),
        Err(error) => {
            let source = error.into();
            return Err(UserNamespaceError::Refused { source });
        }
    }
    let write = |path, text: String| {
        fs::write(path, text).map_err(|source| UserNamespaceError::Map { path, source })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    Ok(Standing::UserNamespace)
}

/// What somebody can do who gets no namespaces, by what this machine's settings
/// say.
pub(super) fn remedy() -> &'static str {
    remedy_by(|path| fs::read_to_string(path).ok())
}

fn remedy_by(read: impl Fn(&str) -> Option<String>) -> &'static str {
    let is = |path, value| read(path).is_some_and(|text| text.trim() == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off: `sysctl user.max_user_namespaces=10000`, or run as root"
    } else if is("/proc/sys/user/max_net_namespaces", "0") {
        "network namespaces are switched off: `sysctl user.max_net_namespaces=10000`"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are for root only: `sysctl kernel.unprivileged_userns_clone=1`, or run as \
         root"
    } else if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "AppArmor restricts user namespaces: \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
    } else {
        "run as root, or where user namespaces are allowed (a container may need --privileged)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_setting_that_forbids() {
        for (path, value) in [
            ("user/max_user_namespaces", "0"),
            ("user/max_net_namespaces", "0"),
            ("kernel/unprivileged_userns_clone", "0"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ] {
            let path = format!("/proc/sys/{path}");
            let remedy = remedy_by(|asked| (asked == path).then(|| format!("{value}\n")));
            let setting = path.rsplit('/').next().expect("it has a name");
            assert!(remedy.contains(setting), "{remedy}");
        }
        assert!(remedy_by(|_| None).contains("run as root"));
    }
}

//! Identifies the process that holds a lease, so that a collector on the same machine notices its
//! end.

use serde::{Deserialize, Serialize};

/// A process. Process ids are reused, and containers number their processes separately, so it is
/// identified by its start time and its id namespace as well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Process {
    /// Boot id of the machine, process namespace and user.
    space: String,
    id: u32,
    /// Start time in the unit of the system.
    started: u64,
}

impl Process {
    /// Returns the current process; `None` if the system does not provide the information.
    pub(super) fn of_this() -> Option<Self> {
        let id = std::process::id();
        Some(Self { space: system::space()?, id, started: system::started(id)? })
    }

    /// Returns whether the process is known to have ended. Nothing is known about processes of
    /// another machine, container or user, so they count as running.
    pub(super) fn is_gone(&self) -> bool {
        // A process of another boot, namespace or user cannot be looked up. It counts as running,
        // and its lease expires by time.
        system::space().is_some_and(|space| space == self.space)
            && system::started(self.id) != Some(self.started)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    pub(super) fn space() -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        // Processes of other users may be hidden, and would look as if they had ended.
        let user = fs::metadata("/proc/self").ok()?.uid();
        Some(format!("{} {} {user}", boot.trim(), namespace.display()))
    }

    /// Returns when a process was started; `None` when it has ended.
    pub(super) fn started(id: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The process name, in parentheses, may contain any character.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        // Field 22 of `proc_pid_stat(5)`: the process state was field 3, and 18 fields are skipped
        // after it.
        let started = fields.nth(18)?.parse().ok()?;
        (!has_ended).then_some(started)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn space() -> Option<String> {
        None
    }

    pub(super) fn started(_id: u32) -> Option<u64> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_when_another_has_its_id_or_none() {
        let this = Process::of_this().expect("Linux tells");
        assert!(!this.is_gone());
        assert!(Process { started: this.started + 1, ..this.clone() }.is_gone());
        assert!(Process { id: u32::MAX, ..this.clone() }.is_gone());
        let elsewhere = Process { space: "another machine".to_owned(), id: u32::MAX, ..this };
        assert!(!elsewhere.is_gone());
    }
}

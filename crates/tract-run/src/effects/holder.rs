//! The run that works on the calls of a message, and whether it is alive.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use tract_core::OperationId;

use crate::error::{Result, RunError};

/// Names a run in a document: enough to tell later, on this machine or another, whether it lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HolderName {
    /// Random; no two runs share it.
    pub(super) id: String,
    /// Random; shared by the runs of one process.
    process: String,
    /// The running system and its space of process numbers, where both are known.
    machine: Option<String>,
    pid: u32,
    /// When the process started, as the system counts it: a number is given to another process
    /// one day.
    started: Option<u64>,
    /// What a person reads.
    host: Option<String>,
}

impl HolderName {
    /// Returns what a person reads.
    pub(super) fn describe(&self) -> String {
        match &self.host {
            Some(host) => format!("process {} on {host}", self.pid),
            None => format!("process {}", self.pid),
        }
    }

    /// Returns whether the run is alive, if it can be determined: always for runs of this process,
    /// and for other processes of this machine once they have ended. Whether a run of a live
    /// process is alive shows only in its lease.
    pub(super) fn is_alive(&self) -> Option<bool> {
        let here = here();
        // A forked process has the memory of its parent, and another number.
        let is_own = !here.process.is_empty() && here.process == self.process;
        if is_own && self.pid == std::process::id() {
            return Some(live().contains(&self.id));
        }
        match (&self.machine, &here.machine) {
            (Some(theirs), Some(ours)) if theirs == ours && self.started.is_some() => {
                (started(self.pid) != self.started).then_some(false)
            }
            _ => None,
        }
    }
}

/// A run that works on calls. It is known to live until this is dropped, or its process ends.
#[derive(Debug)]
pub(super) struct Holder(HolderName);

impl Holder {
    pub(super) fn new() -> Result<Self> {
        let pid = std::process::id();
        let name = HolderName { id: random()?, pid, started: started(pid), ..here().clone() };
        live().insert(name.id.clone());
        Ok(Self(name))
    }

    pub(super) fn name(&self) -> &HolderName {
        &self.0
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        live().remove(&self.0.id);
    }
}

/// The runs of this process that live.
fn live() -> std::sync::MutexGuard<'static, BTreeSet<String>> {
    static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the part of the name that all runs of this process share.
fn here() -> &'static HolderName {
    static HERE: OnceLock<HolderName> = OnceLock::new();
    HERE.get_or_init(|| HolderName {
        id: String::new(),
        process: random().unwrap_or_default(),
        machine: machine(),
        pid: 0,
        started: None,
        host: read("/proc/sys/kernel/hostname"),
    })
}

fn random() -> Result<String> {
    let id = OperationId::random().map_err(tract_engine::Error::Random);
    Ok(id.map_err(RunError::from)?.to_string())
}

fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Names this boot of this system, and the space that its process numbers are of: containers have
/// their own. `None` where `/proc` does not tell which processes there are: it hides those of other
/// users, or is that of another space.
fn machine() -> Option<String> {
    let own = std::fs::read_link("/proc/self").ok()?;
    if own.to_str()? != std::process::id().to_string() || read("/proc/1/stat").is_none() {
        return None;
    }
    let boot = read("/proc/sys/kernel/random/boot_id")?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", space.display()))
}

/// Returns when a process started; `None` when there is none, or it has ended and waits to be
/// reaped.
fn started(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The name before it, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The third field is the state, the 22nd the time.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_lives_until_it_is_dropped() {
        let holder = Holder::new().unwrap();
        let name = holder.name().clone();
        assert_eq!(name.is_alive(), Some(true));
        drop(holder);
        assert_eq!(name.is_alive(), Some(false));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_this_machine_that_has_ended_is_known_to_have() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let of = |pid| HolderName {
            process: "another".to_owned(),
            pid,
            started: started(pid),
            ..Holder::new().unwrap().name().clone()
        };
        let name = of(child.id());
        assert_eq!(name.is_alive(), None, "its lease tells");
        let reused = HolderName { started: name.started.map(|at| at + 1), ..name.clone() };
        assert_eq!(reused.is_alive(), Some(false), "the number is another process's now");
        let unknown = HolderName { started: None, ..name.clone() };
        assert_eq!(unknown.is_alive(), None, "its start could not be read");
        child.kill().unwrap();
        // Killed and not reaped yet, it has a number still.
        while name.is_alive().is_none() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(name.is_alive(), Some(false));
    }

    /// A machine or a container has a process of every number, and with images of one build they
    /// start at the same ticks.
    #[test]
    fn a_process_elsewhere_is_not_taken_for_the_one_of_its_number_here() {
        let own = Holder::new().unwrap();
        let (boot, space) = match &own.name().machine {
            Some(machine) => machine.split_once(' ').unwrap(),
            None => ("boot", "pid:[1]"),
        };
        for machine in [format!("another {space}"), format!("{boot} pid:[1]")] {
            let process = "another".to_owned();
            let same = HolderName { machine: Some(machine), process, ..own.name().clone() };
            assert_eq!(same.is_alive(), None, "{same:?}: its lease tells");
            let gone = HolderName { pid: u32::MAX, ..same };
            assert_eq!(gone.is_alive(), None, "{gone:?}: no process of that number here");
        }
        let unknown = HolderName { machine: None, process: String::new(), ..own.name().clone() };
        assert_eq!(unknown.is_alive(), None);
    }

    /// A fork takes the random name of its parent along.
    #[test]
    fn a_run_of_the_process_that_this_one_was_forked_from_is_not_taken_for_ended() {
        let own = Holder::new().unwrap();
        let parent = HolderName {
            id: "begun after the fork".to_owned(),
            pid: std::process::id() + 1,
            machine: None,
            ..own.name().clone()
        };
        assert_eq!(parent.is_alive(), None, "its lease tells");
    }
}

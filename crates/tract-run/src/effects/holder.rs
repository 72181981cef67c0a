//! The run that works on the calls of a message, and whether it is alive.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use tract_core::OperationId;

use crate::error::{Result, RunError};

/// Identifies a run in a document, so that runs on this and other machines can check whether it is
/// alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HolderName {
    /// Random and unique per run.
    pub(super) id: String,
    /// Random, shared by the runs of one process.
    process: String,
    /// The boot of the machine and the PID namespace, if both are known.
    machine: Option<String>,
    pid: u32,
    /// Start time of the process in the system's ticks. Needed because process ids are reused.
    started: Option<u64>,
    /// The host's name, for people.
    host: Option<String>,
}

impl HolderName {
    /// Returns a description for people.
    pub(super) fn describe(&self) -> String {
        match &self.host {
            Some(host) => format!("process {} on {host}", self.pid),
            None => format!("process {}", self.pid),
        }
    }

    /// Returns whether the run is alive, if that can be determined: always for runs of this
    /// process, and for other processes of this machine once they have ended. For a run of another
    /// live process only the lease shows it.
    pub(super) fn is_alive(&self) -> Option<bool> {
        let here = here();
        // A forked process shares the memory of its parent, including the random id, but not its
        // pid.
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

/// A run that works on calls. It counts as alive until this is dropped or its process ends.
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

/// Returns the ids of the live runs of this process.
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

/// Identifies the boot of this machine and its PID namespace, because containers have their own.
/// `None` if `/proc` hides the processes of other users, or belongs to another namespace.
fn machine() -> Option<String> {
    let own = std::fs::read_link("/proc/self").ok()?;
    if own.to_str()? != std::process::id().to_string() || read("/proc/1/stat").is_none() {
        return None;
    }
    let boot = read("/proc/sys/kernel/random/boot_id")?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{boot} {}", space.display()))
}

/// Returns the start time of a process; `None` if it does not exist, or is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The process name, in parentheses, may itself contain parentheses and spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The third field is the state, the 22nd the start time.
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

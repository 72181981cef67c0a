//! The calls that started subagents, by session and agent.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::facts::Caller;

/// A session and one of its subagents.
pub(crate) type AgentKey = (String, String);

/// The calls that a file provides and looks up, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileCallers {
    pub(crate) offered: Vec<(AgentKey, Caller)>,
    pub(crate) calls: Vec<(AgentKey, Option<Caller>)>,
}

/// The known calls, and those that the current file provides and looks up.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    known: HashMap<AgentKey, Caller>,
    file: FileCallers,
}

impl Callers {
    /// Returns the call that started a subagent, if a file before this one contains it.
    pub(crate) fn ask(&mut self, agent: AgentKey) -> Option<Caller> {
        let caller = self.get(&agent).cloned();
        self.file.calls.push((agent, caller.clone()));
        caller
    }

    pub(crate) fn get(&self, agent: &AgentKey) -> Option<&Caller> {
        self.known.get(agent)
    }

    /// Records the call of a subagent. The first file that provides it wins.
    pub(crate) fn offer(&mut self, agent: AgentKey, caller: Caller) {
        self.file.offered.push((agent.clone(), caller.clone()));
        self.add(agent, caller);
    }

    /// Adds a call of a file that is not read this time.
    pub(crate) fn add(&mut self, agent: AgentKey, caller: Caller) {
        self.known.entry(agent).or_insert(caller);
    }

    /// Returns the calls provided and looked up since the last time.
    pub(crate) fn end_file(&mut self) -> FileCallers {
        std::mem::take(&mut self.file)
    }
}

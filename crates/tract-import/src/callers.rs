//! The calls that started subagents, by session and agent.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::facts::Caller;

/// A session, and a subagent of it.
pub(crate) type AgentKey = (String, String);

/// What a file says and asks of calls, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileCallers {
    pub(crate) offered: Vec<(AgentKey, Caller)>,
    pub(crate) calls: Vec<(AgentKey, Option<Caller>)>,
}

/// What is known of calls, and what one file says and asks of them.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    known: HashMap<AgentKey, Caller>,
    file: FileCallers,
}

impl Callers {
    /// Returns the call that started a subagent, as far as the files before this one name it.
    pub(crate) fn ask(&mut self, agent: AgentKey) -> Option<Caller> {
        let caller = self.get(&agent).cloned();
        self.file.calls.push((agent, caller.clone()));
        caller
    }

    pub(crate) fn get(&self, agent: &AgentKey) -> Option<&Caller> {
        self.known.get(agent)
    }

    /// Names the call of a subagent; the first file that does counts.
    pub(crate) fn offer(&mut self, agent: AgentKey, caller: Caller) {
        self.file.offered.push((agent.clone(), caller.clone()));
        self.add(agent, caller);
    }

    /// Adds what a file named that is not read this time.
    pub(crate) fn add(&mut self, agent: AgentKey, caller: Caller) {
        self.known.entry(agent).or_insert(caller);
    }

    /// Takes what was offered and asked since the last time.
    pub(crate) fn end_file(&mut self) -> FileCallers {
        std::mem::take(&mut self.file)
    }
}

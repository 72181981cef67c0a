//! Facts about a conversation that are not stored in its commits.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tract_core::JsonText;

use crate::report::TokenTotals;
use crate::tree::{BranchNumber, BranchStart};

/// Facts about a conversation as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Its id.
    pub(crate) session: Option<String>,
    /// The subagent whose conversation it is.
    pub(crate) agent: Option<String>,
    /// The call that started it.
    pub(crate) caller: Option<Caller>,
    /// The calls that started the subagents within it, by the branch of the subagent.
    pub(crate) callers: HashMap<BranchNumber, Caller>,
    /// The conversation that it was copied from.
    pub(crate) parent: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) version: Option<String>,
    /// The tool's name of the environment in which an agent ran.
    pub(crate) environment: Option<String>,
    /// The tokens of all its answers, if the tool does not record those of each answer.
    pub(crate) run: Option<RunTotals>,
}

/// Totals that a tool records for a whole run, not per answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunTotals {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Number of requests with these tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<u64>,
    /// In USD, as counted by the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Whether the answers have these tokens as well, so that those of the run are not additional.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) by_answer: bool,
}

/// The call that started a subagent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub(crate) id: String,
    pub(crate) branch: String,
}

#[derive(Serialize)]
struct BranchDocument<'a> {
    format: &'a str,
    start: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a Caller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<TokenTotals>,
    /// Set if no commit has the tokens of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a RunTotals>,
}

impl Facts {
    /// Writes the document of each branch. That of the conversation contains the tokens of all.
    pub(crate) fn documents(
        &self,
        format: &str,
        session: &str,
        starts: &[BranchStart],
        resumed: BranchNumber,
        tokens: TokenTotals,
    ) -> Result<Vec<JsonText>, serde_json::Error> {
        let document = |(number, start): (usize, &BranchStart)| {
            JsonText::of(&BranchDocument {
                format,
                start: start.as_str(),
                session,
                agent: self.agent.as_deref(),
                caller: self.callers.get(&number).or(self.caller.as_ref()),
                parent: self.parent.as_deref(),
                title: self.title.as_deref(),
                cwd: self.cwd.as_deref(),
                git_branch: self.git_branch.as_deref(),
                version: self.version.as_deref(),
                environment: self.environment.as_deref(),
                tokens: (number == resumed).then_some(tokens),
                run: self.run.as_ref().filter(|_| number == resumed),
            })
        };
        starts.iter().enumerate().map(document).collect()
    }
}

//! Rules for summarizing tool results without a handler. They are stored in the repository.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::action::Summarize;

/// Configuration of automatic summaries of tool results.
///
/// The results of a listed tool are summarized regardless of their size. Those of other tools are
/// summarized if they have strictly more tokens than the threshold; without a threshold they are
/// not.
///
/// ```
/// use std::collections::BTreeMap;
/// use tract_hooks::ToolSummarization;
/// let config = ToolSummarization {
///     instructions: BTreeMap::from([("grep".to_owned(), "keep file names".to_owned())]),
///     auto_threshold: Some(500),
///     ..ToolSummarization::default()
/// };
/// assert_eq!(config.rule(Some("grep"), 3).unwrap().instructions.as_deref(), Some("keep file names"));
/// assert!(config.rule(Some("ls"), 500).is_none());
/// assert!(config.rule(Some("ls"), 501).is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSummarization {
    /// Instructions to the summarizer by tool name, such as the facts to keep.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instructions: BTreeMap<String, String>,
    /// Number of tokens above which the results of other tools are summarized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_threshold: Option<u64>,
    /// Instructions for the results of other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_instructions: Option<String>,
    /// Target length of a summary, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_tokens: Option<u64>,
    /// Regular expressions. Every match in a result must occur in its summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_keep: Vec<String>,
    /// Whether the summarizer gets the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_context: bool,
}

impl ToolSummarization {
    /// Returns how to summarize the result of a tool; `None` if it is not summarized.
    pub fn rule(&self, tool: Option<&str>, tokens: u64) -> Option<Summarize> {
        let listed = tool.and_then(|tool| self.instructions.get(tool));
        let above = self.auto_threshold.is_some_and(|threshold| tokens > threshold);
        let instructions = match (listed, above) {
            (Some(instructions), _) => Some(instructions.clone()),
            (None, true) => self.default_instructions.clone(),
            (None, false) => return None,
        };
        Some(Summarize {
            target_tokens: self.target_tokens,
            instructions: instructions.filter(|text| !text.is_empty()),
            must_keep: self.must_keep.clone(),
            with_context: self.with_context,
        })
    }
}

//! Skips failed turns in the compiled context.

use std::collections::BTreeSet;

use tract_core::{Commit, CommitId, Kind, Priority, RefName};

use crate::history::turns::ToolQuery;
use crate::plan::{Details, Request};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::write::races::Attempts;
use crate::write::txn::WriteOptions;

/// The failed turns that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedTurns {
    /// The commit that skips them; `None` if there were no failed turns.
    pub commit: Option<Commit>,
    /// Number of turns.
    pub turns_dropped: usize,
    /// Number of messages that it skips.
    pub commits_skipped: usize,
    /// Number of tokens that they took.
    pub tokens_freed: u64,
    /// The tools of these turns, sorted, each once.
    pub tool_names: BTreeSet<String>,
}

impl Repo {
    /// Skips the turns in which a tool failed: the calls and all their results. Makes one commit,
    /// which can be reverted.
    ///
    /// # Behavior
    /// - Turns that are already skipped are not counted again, so a second call finds nothing.
    /// - A turn with a pinned message is left alone, and so is one with an unanswered call.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn drop_failed_tool_turns(
        &self,
        branch: &RefName,
        query: &ToolQuery,
    ) -> Result<DroppedTurns> {
        let (mut races, mut attempts) = (self.races(), Attempts::new(self));
        loop {
            let head = self.head_of(branch).await?;
            let (mut dropped, targets) = match self.failed_turns(head, query).await {
                Ok(found) => found,
                // The branch may have moved since, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if targets.is_empty() {
                return Ok(dropped);
            }
            let request = Request::Annotate {
                targets,
                priority: Priority::Skip,
                reason: Some("a tool failed".to_owned()),
                retention: None,
                details: Details::default(),
            };
            let options = WriteOptions {
                expect: Some(head),
                what: Some("drop failed turns".to_owned()),
                ..WriteOptions::default()
            };
            match self.write(branch, &[request], &options).await {
                Ok(made) => {
                    dropped.commit = made.into_iter().next();
                    return Ok(dropped);
                }
                Err(Error::Conflict { .. }) => races.lose().await?,
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    async fn failed_turns(
        &self,
        head: Option<CommitId>,
        query: &ToolQuery,
    ) -> Result<(DroppedTurns, Vec<CommitId>)> {
        let history = self.fold(head).await?;
        let priority = |slot: CommitId| {
            let shown = history.fact(slot).map(|fact| fact.priority);
            // No facts are known about messages that were skipped before the last snapshot.
            shown.unwrap_or_else(|| match history.view().get(slot) {
                Some(_) => Priority::Skip,
                None => Kind::ToolResult.default_priority(),
            })
        };
        let (mut dropped, mut targets) = (DroppedTurns::default(), Vec::new());
        let query = ToolQuery { hidden: false, ..query.clone() };
        for turn in self.find_tool_turns(head, &query).await? {
            let ids = turn.ids();
            let is_pinned = ids.iter().any(|id| priority(*id) == Priority::Pinned);
            if !turn.is_failed() || turn.open_calls() > 0 || is_pinned {
                continue;
            }
            let tokens = std::iter::once((turn.call, turn.call_tokens))
                .chain(turn.results.iter().map(|result| (result.id, result.tokens)));
            let shown: Vec<(CommitId, u64)> =
                tokens.filter(|(id, _)| priority(*id) > Priority::Skip).collect();
            if shown.is_empty() {
                continue;
            }
            dropped.turns_dropped += 1;
            dropped.commits_skipped += shown.len();
            dropped.tokens_freed += shown.iter().map(|(_, tokens)| tokens).sum::<u64>();
            dropped.tool_names.extend(turn.tool_names);
            targets.extend(shown.into_iter().map(|(id, _)| id));
        }
        Ok((dropped, targets))
    }
}

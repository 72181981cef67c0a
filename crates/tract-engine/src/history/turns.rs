//! Tool turns: the calls of a history and the results that answer them.

mod check;
mod entry;
mod index;
mod row;

use std::collections::HashMap;

use tract_core::{CallRef, CommitId};

pub(crate) use self::check::{TurnsSinceRow, covers_erased, entries_of, is_sound};
pub(crate) use self::entry::{LoadedObjects, TurnEntry, has_no_entries, is_one_text};
pub(crate) use self::index::{
    NewRow, catch_up, copy_rows, counted_row, due, rebuild_all, silent_row,
};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// A message with calls, and the results that answer them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTurn {
    /// The message: the commit that added it, regardless of later edits.
    pub call: CommitId,
    /// The results, in the order of the calls. Calls without an answer are omitted.
    pub results: Vec<FoundResult>,
    /// The names of the tools called: one per call, with repeats.
    pub tool_names: Vec<String>,
    /// Number of tokens of the message in its current version.
    pub call_tokens: u64,
}

impl ToolTurn {
    /// Returns the ids of the message and of its results.
    pub fn ids(&self) -> Vec<CommitId> {
        let results = self.results.iter().map(|result| result.id);
        std::iter::once(self.call).chain(results).collect()
    }

    /// Returns the ids of the results.
    pub fn result_ids(&self) -> Vec<CommitId> {
        self.results.iter().map(|result| result.id).collect()
    }

    /// Returns the number of tokens of the message and its results in their current versions.
    pub fn total_tokens(&self) -> u64 {
        self.call_tokens + self.results.iter().map(|result| result.tokens).sum::<u64>()
    }

    /// Returns the number of its calls without an answer.
    pub fn open_calls(&self) -> usize {
        self.tool_names.len().saturating_sub(self.results.len())
    }

    /// Returns whether the tool failed for any result.
    pub fn is_failed(&self) -> bool {
        self.results.iter().any(|result| result.is_error)
    }
}

/// The result of a tool call in a query. Its edits are not separate results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundResult {
    /// The result: the commit that added it.
    pub id: CommitId,
    /// The commit of the shown version: itself, or its last edit.
    pub version: CommitId,
    /// The tool's name: from the result, else from the call.
    pub name: Option<String>,
    /// The call that it answers; `None` for an orphan of an import.
    pub call: Option<CallRef>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Number of tokens of its current version.
    pub tokens: u64,
}

/// A message with tool calls in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCall {
    /// The message: the commit that added it.
    pub id: CommitId,
    /// The commit of the shown version: itself, or its last edit.
    pub version: CommitId,
    /// The names of the tools called: one per call, with repeats.
    pub tool_names: Vec<String>,
    /// Number of tokens of its current version.
    pub tokens: u64,
}

/// A query for turns, calls or results; default: all that are rows of the view.
///
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolQuery {
    /// The tools; all if empty. A turn with one call of such a tool is returned whole.
    pub names: Vec<String>,
    /// Only messages after this commit of the history, which may be any commit.
    pub after: Option<CommitId>,
    /// Whether to include messages that are no longer rows: summarized or reverted ones.
    pub hidden: bool,
}

impl ToolQuery {
    /// Selects the turns, calls or results of these tools.
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// Results of a query, readable in pages. All of them can be reached; there is no cut-off.
#[derive(Clone, Debug)]
pub struct Pages<T> {
    rest: std::vec::IntoIter<T>,
}

impl<T> Pages<T> {
    fn of(found: Vec<T>) -> Self {
        Self { rest: found.into_iter() }
    }

    /// Returns up to `limit` further results; an empty page is the end.
    pub fn next_page(&mut self, limit: usize) -> Vec<T> {
        self.rest.by_ref().take(limit).collect()
    }
}

impl<T> Iterator for Pages<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.rest.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}

impl<T> ExactSizeIterator for Pages<T> {}

/// Finds tool turns as [`Repo::find_tool_turns`] does.
pub(crate) async fn tool_turns(
    repo: &Repo,
    head: Option<CommitId>,
    query: &ToolQuery,
) -> Result<Pages<ToolTurn>> {
    let found = TurnMessages::read(repo, head, query).await?;
    let turns = found.turns(query).into_iter();
    let wanted =
        turns.filter(|turn| turn.tool_names.iter().any(|name| query.wants(name))).collect();
    Ok(Pages::of(wanted))
}

/// Finds tool results as [`Repo::find_tool_results`] does.
pub(crate) async fn tool_results(
    repo: &Repo,
    head: Option<CommitId>,
    query: &ToolQuery,
) -> Result<Pages<FoundResult>> {
    let mut found = TurnMessages::read(repo, head, query).await?;
    found.name_results(repo).await?;
    let results = found.results.iter().filter(|result| result.shows(query));
    let results = results.map(|result| found.named(&result.message));
    let all = query.names.is_empty();
    let wanted =
        |result: &FoundResult| all || result.name.as_deref().is_some_and(|name| query.wants(name));
    Ok(Pages::of(results.filter(wanted).collect()))
}

/// Finds tool calls as [`Repo::find_tool_calls`] does.
pub(crate) async fn tool_calls(
    repo: &Repo,
    head: Option<CommitId>,
    query: &ToolQuery,
) -> Result<Pages<FoundCall>> {
    let found = TurnMessages::read(repo, head, query).await?;
    let calls = found.calls.into_iter().filter(|call| {
        call.shows(query) && call.message.tool_names.iter().any(|name| query.wants(name))
    });
    Ok(Pages::of(calls.map(|call| call.message).collect()))
}

/// The calls and results of a history after all its entries, in order of first appearance.
struct TurnMessages {
    calls: Vec<TurnMessage<FoundCall>>,
    /// With the names in the results themselves.
    results: Vec<TurnMessage<FoundResult>>,
    /// The names in the calls, by the slots of their messages.
    names: HashMap<CommitId, Vec<String>>,
}

/// Messages of one kind as they are read, and their positions by slot.
struct MessageList<T>(Vec<TurnMessage<T>>, HashMap<CommitId, usize>);

impl<T> MessageList<T> {
    fn add(&mut self, slot: CommitId, message: T) {
        let place = *self.1.entry(slot).or_insert(self.0.len());
        let message = TurnMessage { message, is_row: true };
        match self.0.get_mut(place) {
            Some(was) => *was = message,
            None => self.0.push(message),
        }
    }

    fn change(&mut self, slot: CommitId, change: impl FnOnce(&mut TurnMessage<T>)) {
        let place = self.1.get(&slot);
        place.and_then(|place| self.0.get_mut(*place)).map(change);
    }
}

struct TurnMessage<T> {
    message: T,
    is_row: bool,
}

impl<T> TurnMessage<T> {
    fn shows(&self, query: &ToolQuery) -> bool {
        self.is_row || query.hidden
    }
}

impl TurnMessages {
    async fn read(repo: &Repo, head: Option<CommitId>, query: &ToolQuery) -> Result<Self> {
        let entries = match (head, query.after) {
            (Some(head), None) => index::of_line(repo, head).await?,
            (Some(head), after @ Some(_)) => index::after(repo, head, after).await?,
            (None, None) => Vec::new(),
            (None, Some(commit)) => return Err(Error::NotOnLine { commit, head: commit }),
        };
        Ok(Self::of(entries))
    }

    fn of(entries: Vec<TurnEntry>) -> Self {
        let mut calls = MessageList(Vec::new(), HashMap::new());
        let mut results = MessageList(Vec::new(), HashMap::new());
        for entry in entries {
            match entry {
                TurnEntry::Calls(call) => calls.add(call.id, call),
                TurnEntry::Answer(result) => results.add(result.id, result),
                TurnEntry::NewCalls(new) => calls.change(new.id, |call| call.message = new),
                // A change of the version does not name the call; the row keeps the one that it
                // answers.
                TurnEntry::NewAnswer(new) => results.change(new.id, |result| {
                    result.message = FoundResult { call: result.message.call, ..new };
                }),
                TurnEntry::Gone(slot) => {
                    calls.change(slot, |call| call.is_row = false);
                    results.change(slot, |result| result.is_row = false);
                }
            }
        }
        let (mut calls, results) = (calls.0, results.0);
        // Drop erased messages whose calls no later version restores.
        calls.retain(|call| !call.message.tool_names.is_empty());
        let names = calls.iter().map(|call| (call.message.id, call.message.tool_names.clone()));
        Self { names: names.collect(), calls, results }
    }

    /// Reads the names of calls before [`ToolQuery::after`], if a result needs them.
    async fn name_results(&mut self, repo: &Repo) -> Result<()> {
        for TurnMessage { message: result, .. } in &self.results {
            let Some(call) = result.call.filter(|_| result.name.is_none()) else { continue };
            if self.names.contains_key(&call.slot) {
                continue;
            }
            // A slot is a name: its commit may not be stored.
            if repo.commit(call.slot).await?.is_some() {
                let names = match repo.content_of(call.slot).await {
                    Ok(content) => content.calls().map(|call| call.name.clone()).collect(),
                    Err(Error::Erased(_)) => Vec::new(),
                    Err(error) => return Err(error),
                };
                self.names.insert(call.slot, names);
            }
        }
        Ok(())
    }

    /// Returns a result with the name of its tool: from the result, else from the call.
    fn named(&self, result: &FoundResult) -> FoundResult {
        let called = || {
            let call = result.call?;
            self.names.get(&call.slot)?.get(usize::try_from(call.index).ok()?).cloned()
        };
        let mut named = result.clone();
        named.name = named.name.or_else(called);
        named
    }

    fn turns(&self, query: &ToolQuery) -> Vec<ToolTurn> {
        let mut answers: HashMap<CommitId, Vec<FoundResult>> = HashMap::new();
        for result in self.results.iter().filter(|result| result.shows(query)) {
            if let Some(call) = result.message.call {
                answers.entry(call.slot).or_default().push(self.named(&result.message));
            }
        }
        let turn = |TurnMessage { message: call, .. }: &TurnMessage<FoundCall>| {
            let mut results = answers.remove(&call.id).unwrap_or_default();
            results.sort_by_key(|result| result.call.map(|call| call.index));
            ToolTurn {
                call: call.id,
                results,
                tool_names: call.tool_names.clone(),
                call_tokens: call.tokens,
            }
        };
        self.calls.iter().filter(|call| call.shows(query)).map(turn).collect()
    }
}

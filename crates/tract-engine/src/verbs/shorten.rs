//! Shortens contexts: summaries of one result, of the results of many turns and of a range, and
//! failed turns that are skipped.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tract_core::{
    AuthorKind, Blob, Change, Commit, CommitId, CommitRef, Content, Kind, Message, Origin,
    Priority, RefName, RefTarget, SummaryRequest,
};
use tract_hooks::{
    CONVERSATION, DecisionRecord, Summarize, SummaryError, ToolSummarization, check_summary,
    kept_texts, summarize_all_guarded, summarize_checked,
};

use crate::history::turns::{FoundResult, ToolQuery};
use crate::plan::{Details, NewContent, Refusal, Request, Selection, plan};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::verbs::approvals::own_record;
use crate::write::hooks::{
    SUMMARIZATION_CONFIG, conversation, request, stored_summarization, with_summary,
};
use crate::write::pending::{damaged, record_change};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Options of a summary of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummarizeRange {
    /// The messages. Pinned ones and open calls among them are left out.
    pub select: Selection,
    /// Options of the summary.
    pub how: Summarize,
}

impl Default for SummarizeRange {
    fn default() -> Self {
        let select = Selection::Range { from: None, to: None };
        Self { select, how: Summarize::new() }
    }
}

/// The messages that a summary replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummarizedRange {
    /// The commit.
    pub commit: Commit,
    /// The messages, by slot.
    pub sources: Vec<CommitId>,
    /// Number of tokens of their text.
    pub tokens_before: u64,
    /// Number of tokens of the summary.
    pub tokens_after: u64,
}

/// Options for summarizing tool results; default: all results of the branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressToolCalls {
    /// Selects results by tool; all if empty.
    pub query: ToolQuery,
    /// Only these results, each named by any of its versions, or all results of a message with
    /// calls.
    pub commits: Option<Vec<CommitId>>,
    /// Options of each summary.
    pub how: Summarize,
}

/// The results that were shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressedToolCalls {
    /// The edits, one for each result, in order.
    pub edits: Vec<Commit>,
    /// The results, parallel to the edits.
    pub sources: Vec<CommitId>,
    /// Results that were left unchanged, and the reasons.
    pub left: Vec<(CommitId, String)>,
    /// Number of tokens of the results.
    pub tokens_before: u64,
    /// Number of tokens of their summaries.
    pub tokens_after: u64,
    /// The tools, sorted, each once.
    pub tool_names: BTreeSet<String>,
    /// Number of turns with these results.
    pub turn_count: usize,
}

/// The edit of one result, before it is written.
struct ShorterResult {
    result: FoundResult,
    edit: Request,
    tokens_before: u64,
    tokens_after: u64,
}

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
    /// Reads the configuration of automatic summaries; `None` if there is no configuration.
    ///
    /// # Errors
    /// When the store fails, or the document is damaged.
    pub async fn tool_summarization(&self) -> Result<Option<Arc<ToolSummarization>>> {
        stored_summarization(self).await
    }

    /// Configures which tool results are summarized automatically, from now on and for all users of
    /// the repository; `None` disables it. Results are summarized by the port of
    /// [`Hooks::summarizer`](tract_hooks::Hooks::summarizer), unless a handler decides first.
    ///
    /// # Errors
    /// [`Error::Summary`] when a pattern is not a regular expression; when the
    /// store fails.
    pub async fn configure_tool_summarization(
        &self,
        config: Option<&ToolSummarization>,
    ) -> Result<()> {
        let name = RefName::new(SUMMARIZATION_CONFIG)?;
        if let Some(config) = config {
            kept_texts("", &config.must_keep)?;
        }
        let text = config.map(serde_json::to_string).transpose();
        let blob = text.map_err(|error| damaged(error.to_string()))?.map(Blob::seal);
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            blob.iter().try_for_each(|blob| txn.blob(blob.clone()))?;
            let to = blob.as_ref().map(|blob| RefTarget::Blob(blob.id()));
            txn.move_ref(&name, to).await?;
            if races.won(txn.apply("configure", &WriteOptions::default()).await?).await? {
                return Ok(());
            }
        }
    }

    /// Replaces messages with a summary of their current versions. The summary must keep the parts
    /// that the retention of important messages names (`{"must_keep":[pattern,
    /// …],"instructions":"…"}`).
    ///
    /// # Errors
    /// [`Error::Summary`] when no usable summary could be made;
    /// [`Error::Conflict`] when the branch moved since. Nothing is then written.
    pub async fn summarize_range(
        &self,
        branch: &RefName,
        options: &SummarizeRange,
    ) -> Result<SummarizedRange> {
        let head = self.head_of(branch).await?;
        let hooks = self.hooks();
        let port = hooks.summarizer_port().ok_or(SummaryError::NoSummarizer)?;
        // Summarize exactly the messages that the planner would replace.
        let trial = Request::compress(options.select.clone(), "-");
        let history = self.fold(head).await?;
        let mut txn = Txn::new(self)?;
        let planned = txn.plan_with(head, |records| plan(&trial, &history, records)).await?;
        let sources: Vec<CommitId> = planned
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Remove { slot: CommitRef::Id(slot), .. } => Some(*slot),
                _ => None,
            })
            .collect();
        let compiled = self.compiler().compile(head).await?;
        let messages: Vec<&Message> =
            sources.iter().filter_map(|slot| compiled.message(*slot)).collect();
        let text = conversation(messages.iter().copied());
        let mut kept = kept_texts(&text, &options.how.must_keep)?;
        let mut instructions: Vec<String> = options.how.instructions.iter().cloned().collect();
        for message in &messages {
            if message.priority != Priority::Important {
                continue;
            }
            let mark = history.view().get(message.slot).and_then(|row| row.mark);
            if let Some(retention) = retention(self, mark).await? {
                kept.extend(kept_texts(&message.content.text(), &retention.must_keep)?);
                instructions.extend(retention.instructions);
            }
        }
        kept.sort();
        kept.dedup();
        let mut request = SummaryRequest {
            what: Some(CONVERSATION.into()),
            must_keep: kept,
            ..SummaryRequest::new(text)
        };
        request.instructions = Some(instructions.join("\n")).filter(|text| !text.is_empty());
        request.target_tokens = options.how.target_tokens;
        let limit = hooks.summary_time();
        let summary = summarize_checked(port, &request, self.counter(), limit).await?;
        let (before, after) = (self.count(&request.text), self.count(&summary.text));
        let mut record = own_record(self, "summarize_range", "summarize");
        record.instructions = request.instructions.clone();
        record.model = summary.by;
        (record.tokens_before, record.tokens_after) = (Some(before), Some(after));
        let content = Content::assistant(summary.text);
        record.after = Some(Blob::seal(content.to_blob()?).id().to_hex());
        let write = Request::Compress {
            select: Selection::Targets(sources.clone()),
            content,
            role: None,
            details: details_of(&record, AuthorKind::Model),
        };
        let expect = WriteOptions { expect: Some(head), ..WriteOptions::default() };
        let made = self.write(branch, &[write], &expect).await?;
        let commit = made.into_iter().next().expect("one request gives one commit");
        Ok(SummarizedRange { commit, sources, tokens_before: before, tokens_after: after })
    }

    /// Shortens the results of tool turns: each summary is an edit of its result, all in one
    /// durable write. The answered call and the failure flag stay. All summaries are requested at
    /// once; one that is empty, or lacks a part that it must keep, is requested again separately. A
    /// result without a usable summary is left unchanged, and so is one that is edited or removed
    /// from the context during the call.
    ///
    /// # Errors
    /// [`Error::Summary`] when the summarizer fails, or does not return exactly one summary per
    /// result; [`Error::NoToolResult`] when a given commit is not a tool result. Nothing is then
    /// written.
    pub async fn compress_tool_calls(
        &self,
        branch: &RefName,
        options: &CompressToolCalls,
    ) -> Result<CompressedToolCalls> {
        let head = self.head_of(branch).await?;
        let port = self.hooks().summarizer_port().ok_or(SummaryError::NoSummarizer)?;
        let mut done = CompressedToolCalls::default();
        let (mut wanted, mut requests) = (Vec::new(), Vec::new());
        for result in results_of(self, head, options).await? {
            let content = self.content_of(result.version).await?;
            match request(&content.text(), result.name.as_deref(), &options.how) {
                Ok(request) if !request.text.trim().is_empty() => {
                    wanted.push((result, content));
                    requests.push(request);
                }
                Ok(_) => done.left.push((result.id, SummaryError::NoText.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        if requests.is_empty() {
            return Ok(done);
        }
        let limit = self.hooks().summary_time();
        let summaries = summarize_all_guarded(port, &requests, limit).await?;
        let mut shorter = Vec::new();
        for (((result, content), request), summary) in
            wanted.into_iter().zip(&requests).zip(summaries)
        {
            let checked = match check_summary(request, &summary.text, self.counter()) {
                // A summary that misses something may succeed when requested separately.
                Err(SummaryError::Empty | SummaryError::Misses { .. }) => {
                    summarize_checked(port, request, self.counter(), limit).await
                }
                checked => checked.map(|()| summary),
            };
            let summary = match checked {
                Ok(summary) => summary,
                Err(error) => {
                    done.left.push((result.id, error.to_string()));
                    continue;
                }
            };
            let (tokens_before, tokens_after) =
                (self.count(&request.text), self.count(&summary.text));
            let mut record = own_record(self, "compress_tool_calls", "summarize");
            let Content::ToolResult(answer) = &content else { continue };
            let summarized = with_summary(answer, &summary.text);
            record.instructions = options.how.instructions.clone();
            record.model = summary.by;
            record_change(self, &mut record, &content, &summarized)?;
            let edit = Request::Edit {
                target: result.version,
                content: NewContent::Content(summarized),
                details: details_of(&record, AuthorKind::Hook),
            };
            shorter.push(ShorterResult { result, edit, tokens_before, tokens_after });
        }
        write_shorter(self, branch, shorter, &mut done).await?;
        Ok(done)
    }

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
        let mut attempts = Attempts::new(self);
        loop {
            let head = self.head_of(branch).await?;
            let (mut dropped, targets) = match failed_turns(self, head, query).await {
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
                Err(Error::Conflict { .. }) => attempts.lose().await?,
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// Returns the details of a commit made from a summary.
fn details_of(record: &DecisionRecord, by: AuthorKind) -> Details {
    let origin = Origin {
        id: record.model.clone(),
        triggered_by: Some(record.event.clone()),
        detail: record.to_json(),
        ..by.into()
    };
    Details { origin, ..Details::default() }
}

async fn retention(repo: &Repo, mark: Option<CommitId>) -> Result<Option<Retention>> {
    let Some(mark) = mark else { return Ok(None) };
    let mark = repo.require_commit(mark).await?;
    // Retention in another format belongs to the caller and is not enforced here.
    Ok(mark.op.retention().and_then(|json| serde_json::from_str(json.as_str()).ok()))
}

/// The parts of an important message that a summary must keep.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Retention {
    must_keep: Vec<String>,
    instructions: Option<String>,
}

/// Writes the edits of results that did not change since they were summarized.
async fn write_shorter(
    repo: &Repo,
    branch: &RefName,
    mut shorter: Vec<ShorterResult>,
    done: &mut CompressedToolCalls,
) -> Result<()> {
    let options = WriteOptions {
        what: Some("compress tool calls".to_owned()),
        current_versions: true,
        ..WriteOptions::default()
    };
    let mut races = repo.races();
    loop {
        let history = repo.fold(repo.head_of(branch).await?).await?;
        shorter.retain(|ShorterResult { result, .. }| {
            let why = match history.view().get(result.id).map(|row| row.version) {
                Some(version) if version == result.version => return true,
                Some(version) => format!("edited while it was summarized: {}", version.short()),
                None => "removed from the context while it was summarized".to_owned(),
            };
            done.left.push((result.id, why));
            false
        });
        if shorter.is_empty() {
            return Ok(());
        }
        let edits: Vec<Request> = shorter.iter().map(|one| one.edit.clone()).collect();
        match repo.write(branch, edits, &options).await {
            Ok(edits) => {
                done.edits = edits;
                break;
            }
            // A result changed since the view was read.
            Err(Error::Refused(Refusal::Superseded { .. } | Refusal::NotVisible { .. })) => {
                races.lose().await?;
            }
            Err(error) => return Err(error),
        }
    }
    let mut turns = BTreeSet::new();
    for ShorterResult { result, tokens_before, tokens_after, .. } in shorter {
        done.tokens_before += tokens_before;
        done.tokens_after += tokens_after;
        done.sources.push(result.id);
        done.tool_names.extend(result.name);
        turns.extend(result.call.map(|call| call.slot));
    }
    done.turn_count = turns.len();
    Ok(())
}

async fn results_of(
    repo: &Repo,
    head: Option<CommitId>,
    options: &CompressToolCalls,
) -> Result<Vec<FoundResult>> {
    let query = ToolQuery { hidden: false, ..options.query.clone() };
    let Some(commits) = &options.commits else {
        // A turn may call several tools; keep only the results of the selected ones.
        let turns = repo.find_tool_turns(head, &query).await?;
        let results = turns.flat_map(|turn| turn.results);
        let wanted = |result: &FoundResult| {
            query.names.is_empty()
                || result.name.as_ref().is_some_and(|name| query.names.contains(name))
        };
        return Ok(results.filter(wanted).collect());
    };
    let all = ToolQuery { names: Vec::new(), ..query };
    let mut by_id: HashMap<CommitId, FoundResult> = HashMap::new();
    for result in repo.find_tool_results(head, &all).await? {
        by_id.insert(result.version, result.clone());
        by_id.insert(result.id, result);
    }
    let turns = repo.find_tool_turns(head, &all).await?;
    let by_call: HashMap<CommitId, Vec<FoundResult>> =
        turns.map(|turn| (turn.call, turn.results)).collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for commit in commits {
        let results = match (by_id.get(commit), by_call.get(commit)) {
            (Some(result), _) => vec![result.clone()],
            (None, Some(results)) => results.clone(),
            (None, None) => return Err(Error::NoToolResult { commit: *commit }),
        };
        found.extend(results.into_iter().filter(|result| seen.insert(result.id)));
    }
    Ok(found)
}

async fn failed_turns(
    repo: &Repo,
    head: Option<CommitId>,
    query: &ToolQuery,
) -> Result<(DroppedTurns, Vec<CommitId>)> {
    let history = repo.fold(head).await?;
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
    for turn in repo.find_tool_turns(head, &query).await? {
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

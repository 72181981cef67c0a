//! Shortens the results of many turns at once: each result is edited separately.

use std::collections::{BTreeSet, HashMap};

use tract_core::{AuthorKind, Commit, CommitId, Content, RefName};
use tract_hooks::{
    Summarize, SummaryError, check_summary, summarize_all_guarded, summarize_checked,
};

use super::details_of;
use crate::history::turns::{FoundResult, ToolQuery};
use crate::plan::{NewContent, Refusal, Request};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::write::hooks::{request, with_summary};
use crate::write::txn::WriteOptions;

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

impl Repo {
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
        for result in self.results_of(head, options).await? {
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
            let mut record = self.own_record("compress_tool_calls", "summarize");
            let Content::ToolResult(answer) = &content else { continue };
            let summarized = with_summary(answer, &summary.text);
            record.instructions = options.how.instructions.clone();
            record.model = summary.by;
            self.record_change(&mut record, &content, &summarized)?;
            let edit = Request::Edit {
                target: result.version,
                content: NewContent::Content(summarized),
                details: details_of(&record, AuthorKind::Hook),
            };
            shorter.push(ShorterResult { result, edit, tokens_before, tokens_after });
        }
        self.write_shorter(branch, shorter, &mut done).await?;
        Ok(done)
    }

    /// Writes the edits of results that did not change since they were summarized.
    async fn write_shorter(
        &self,
        branch: &RefName,
        mut shorter: Vec<ShorterResult>,
        done: &mut CompressedToolCalls,
    ) -> Result<()> {
        let options = WriteOptions {
            what: Some("compress tool calls".to_owned()),
            current_versions: true,
            ..WriteOptions::default()
        };
        let mut races = self.races();
        loop {
            let history = self.fold(self.head_of(branch).await?).await?;
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
            match self.write(branch, edits, &options).await {
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
        &self,
        head: Option<CommitId>,
        options: &CompressToolCalls,
    ) -> Result<Vec<FoundResult>> {
        let query = ToolQuery { hidden: false, ..options.query.clone() };
        let Some(commits) = &options.commits else {
            // A turn may call several tools; keep only the results of the selected ones.
            let turns = self.find_tool_turns(head, &query).await?;
            let results = turns.flat_map(|turn| turn.results);
            let wanted = |result: &FoundResult| {
                query.names.is_empty()
                    || result.name.as_ref().is_some_and(|name| query.names.contains(name))
            };
            return Ok(results.filter(wanted).collect());
        };
        let all = ToolQuery { names: Vec::new(), ..query };
        let mut by_id: HashMap<CommitId, FoundResult> = HashMap::new();
        for result in self.find_tool_results(head, &all).await? {
            by_id.insert(result.version, result.clone());
            by_id.insert(result.id, result);
        }
        let turns = self.find_tool_turns(head, &all).await?;
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
}

//! Replaces a range of messages with one summary by the port.

use tract_core::{
    AuthorKind, Blob, Change, Commit, CommitId, CommitRef, Content, Message, Priority, RefName,
    SummaryRequest,
};
use tract_hooks::{CONVERSATION, Summarize, SummaryError, kept_texts, summarize_checked};

use super::details_of;
use crate::plan::{Request, Selection, plan};
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::hooks::conversation;
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

impl Repo {
    /// Replaces messages with a summary of their current versions. The summary must keep the parts
    /// that the retention of important messages names (`{"must_keep":[pattern,
    /// …],"instructions":"…"}`).
    ///
    /// # Errors
    /// [`Error::Summary`](crate::Error::Summary) when no usable summary could be made;
    /// [`Error::Conflict`](crate::Error::Conflict) when the branch moved since. Nothing is then
    /// written.
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
            if let Some(retention) = self.retention(mark).await? {
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
        let mut record = self.own_record("summarize_range", "summarize");
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

    async fn retention(&self, mark: Option<CommitId>) -> Result<Option<Retention>> {
        let Some(mark) = mark else { return Ok(None) };
        let mark = self.require_commit(mark).await?;
        // Retention in another format belongs to the caller and is not enforced here.
        Ok(mark.op.retention().and_then(|json| serde_json::from_str(json.as_str()).ok()))
    }
}

/// The parts of an important message that a summary must keep.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Retention {
    must_keep: Vec<String>,
    instructions: Option<String>,
}

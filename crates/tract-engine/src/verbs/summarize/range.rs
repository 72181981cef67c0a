//! One summary, by the port, in the place of messages.

use tract_core::{
    AuthorKind, Blob, Change, Commit, CommitId, CommitRef, Content, Message, Priority, RefName,
    SummaryRequest,
};
use tract_hooks::{CONVERSATION, Summarize, SummaryError, kept_texts, summarize_checked};

use super::{conversation, details_of};
use crate::plan::{Request, Selection, plan};
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::txn::{Txn, WriteOptions};

/// Options of a summary of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummarizeRange {
    /// The messages; pinned ones and open calls among them stay.
    pub select: Selection,
    /// How.
    pub how: Summarize,
}

impl Default for SummarizeRange {
    fn default() -> Self {
        let select = Selection::Range { from: None, to: None };
        Self { select, how: Summarize::new() }
    }
}

impl SummarizeRange {
    /// Starts from the defaults: everything that is not pinned.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the messages.
    #[must_use]
    pub fn select(mut self, select: Selection) -> Self {
        self.select = select;
        self
    }

    /// Sets how they are summarized.
    #[must_use]
    pub fn how(mut self, how: Summarize) -> Self {
        self.how = how;
        self
    }
}

/// The messages that a summary replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SummarizedRange {
    /// The commit.
    pub commit: Commit,
    /// The messages, by their slots.
    pub sources: Vec<CommitId>,
    /// How many tokens their text takes.
    pub tokens_before: u64,
    /// How many the summary takes.
    pub tokens_after: u64,
}

impl Repo {
    /// Puts a summary by the port in the place of messages, as they read now. What the retention
    /// of important messages asks for (`{"must_keep":[pattern, …],"instructions":"…"}`) the
    /// summary must keep.
    ///
    /// # Errors
    /// [`Error::Summary`](crate::Error::Summary) when there is no summary that does;
    /// [`Error::Conflict`](crate::Error::Conflict) when the branch moved meanwhile. Nothing is
    /// written then.
    pub async fn summarize_range(
        &self,
        branch: &RefName,
        options: &SummarizeRange,
    ) -> Result<SummarizedRange> {
        let head = self.head_of(branch).await?;
        let hooks = self.hooks();
        let port = hooks.summarizer_port().ok_or(SummaryError::NoSummarizer)?;
        // What a planner would take out is exactly what is summarized.
        let trial = Request::compress(options.select.clone(), "-");
        let line = self.line(head).await?;
        let mut txn = Txn::new(self)?;
        let planned = txn.plan_with(head, |records| plan(&trial, &line, records)).await?;
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
            let mark = line.view().get(message.slot).and_then(|row| row.mark);
            if let Some(retention) = self.retention(mark).await? {
                kept.extend(kept_texts(&message.content.text(), &retention.must_keep)?);
                instructions.extend(retention.instructions);
            }
        }
        kept.sort();
        kept.dedup();
        let mut request = SummaryRequest::new(text).what(CONVERSATION).must_keep(kept);
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
        let expect = WriteOptions::new().expect(head);
        let made = self.write(branch, &[write], &expect).await?;
        let commit = made.into_iter().next().expect("one request gives one commit");
        Ok(SummarizedRange { commit, sources, tokens_before: before, tokens_after: after })
    }

    async fn retention(&self, mark: Option<CommitId>) -> Result<Option<Retention>> {
        let Some(mark) = mark else { return Ok(None) };
        let mark = self.require_commit(mark).await?;
        // Retention of another shape is the caller's own: nothing is promised of it here.
        Ok(mark.op.retention().and_then(|json| serde_json::from_str(json.as_str()).ok()))
    }
}

/// What compression has to keep of an important message.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Retention {
    must_keep: Vec<String>,
    instructions: Option<String>,
}

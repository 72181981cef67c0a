//! From drafts to commits, pure: the same input gives the same ids in every store.

use std::collections::HashMap;
use std::fmt;

use tract_core::{
    AuthorKind, Blob, CallRef, Commit, CommitId, CommitRecord, Content, Draft, Limits, Op,
    ToolEntry, ToolRow, ToolSchema, Toolset, ToolsetId,
};

use super::ImportCommit;
use crate::error::Result;

/// The kind of an anomaly in an imported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImportAnomalyKind {
    /// A result names a call that no message before it has.
    NoCall,
    /// A result names a call that has its answer.
    SecondAnswer,
    /// A call that nothing in the conversation answers.
    Unanswered,
}

impl ImportAnomalyKind {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCall => "no_call",
            Self::SecondAnswer => "second_answer",
            Self::Unanswered => "unanswered",
        }
    }
}

/// An anomaly in an imported conversation; it is kept as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportAnomaly {
    /// The draft concerned: its place, from 0.
    pub draft: usize,
    /// The commit that it became.
    pub commit: CommitId,
    /// The kind of anomaly.
    pub kind: ImportAnomalyKind,
    /// The id of the call.
    pub call_id: String,
}

impl fmt::Display for ImportAnomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, call) = (self.draft + 1, &self.call_id);
        match self.kind {
            ImportAnomalyKind::NoCall => write!(f, "message {message} answers no call ({call:?})"),
            ImportAnomalyKind::SecondAnswer => {
                write!(f, "message {message} answers call {call:?} again")
            }
            ImportAnomalyKind::Unanswered => {
                write!(f, "call {call:?} of message {message} has no answer")
            }
        }
    }
}

/// A conversation as commits, oldest first.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) ids: Vec<CommitId>,
    /// How many of them were stored before the links were.
    pub(super) reused: usize,
    /// The commits that are to be stored: all, or the last ones.
    pub(super) links: Vec<ImportCommit>,
    pub(super) anomalies: Vec<ImportAnomaly>,
    /// About how much memory the links take.
    pub(super) size_bytes: usize,
}

/// What a link takes in memory in addition to its blobs, until it is stored.
const LINK_BYTES: usize = 1 << 10;

/// The calls of one id, oldest first.
#[derive(Default)]
struct Calls {
    open: Vec<(CallRef, usize)>,
    answered: bool,
}

/// Makes commits of drafts, one after the other.
pub(super) struct Builder<'a> {
    limits: &'a Limits,
    pub(super) made: Chain,
    /// The last commit.
    last: Option<Commit>,
    /// How many drafts came.
    drafts: usize,
    calls: HashMap<String, Calls>,
    /// The tools last set to stay.
    active: Option<ToolsetId>,
    /// The time of the last commit that has one: what those without count as.
    created_at: i64,
    /// The last commit that added a row.
    row: Option<CommitId>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(limits: &'a Limits, tools: &[ToolSchema]) -> Result<Self> {
        let mut builder = Self {
            limits,
            made: Chain::default(),
            last: None,
            drafts: 0,
            calls: HashMap::new(),
            active: None,
            created_at: 0,
            row: None,
        };
        if !tools.is_empty() {
            builder.tools(tools)?;
        }
        Ok(builder)
    }

    /// Hands over the links that were made so far, for them to be stored.
    pub(super) fn take_links(&mut self) -> Vec<ImportCommit> {
        self.made.size_bytes = 0;
        std::mem::take(&mut self.made.links)
    }

    fn record(&self, op: Op) -> CommitRecord {
        let mut record = CommitRecord::new(op, AuthorKind::Import);
        record.parents.extend(self.made.ids.last());
        record
    }

    fn tools(&mut self, tools: &[ToolSchema]) -> Result<()> {
        let (toolset, blobs) = self.toolset(tools)?;
        let mut record = self.record(Op::Tools);
        record.toolset = Some(toolset.id());
        self.active = Some(toolset.id());
        self.push(record, blobs, Some(toolset), tools)?;
        Ok(())
    }

    /// Seals a list of tools, with the schemas it links to.
    fn toolset(&self, tools: &[ToolSchema]) -> Result<(Toolset, Vec<Blob>)> {
        self.limits.check_toolset(tools.len())?;
        for tool in tools {
            self.limits.check_schema(tool.text().len())?;
            self.limits.check_tool_name(tool.name())?;
        }
        let blobs: Vec<Blob> = tools.iter().map(ToolSchema::blob).collect();
        let entries = tools.iter().zip(&blobs);
        let entries =
            entries.map(|(tool, blob)| ToolEntry { tool: tool.id(), schema: blob.id() }).collect();
        Ok((Toolset::seal(entries), blobs))
    }

    /// Makes a commit of the next draft.
    pub(super) fn add(&mut self, mut draft: Draft) -> Result<()> {
        let place = self.drafts;
        self.drafts += 1;
        let content = draft.content.take_blob()?;
        self.limits.check_blob(content.len())?;
        let content = Blob::seal(content.into_bytes());
        let mut record = self.record(Op::Append {
            slot: None,
            answers: self.answers(&draft.content),
            priority: draft.priority,
            retention: draft.retention.clone(),
        });
        record.content = Some(content.id());
        record.verbatim = draft.verbatim.as_ref().map(Blob::id);
        record.form.clone_from(&draft.form);
        record.joins = self.row.filter(|_| draft.joins_previous);
        record.kind = Some(draft.content.kind());
        // A role that the kind has anyway would make two records of one message.
        record.role =
            draft.role.clone().filter(|role| *role != draft.content.kind().default_role());
        record.message.clone_from(&draft.message);
        record.metadata.clone_from(&draft.metadata);
        record.generation_config.clone_from(&draft.generation_config);
        record.keeps = draft.keep_ids();
        record.created_at = draft.created_at;

        let mut blobs = vec![content];
        for blob in draft.verbatim.iter().chain(&draft.keeps) {
            self.limits.check_blob(blob.bytes().len())?;
            blobs.push(blob.clone());
        }
        let in_force = self.last.as_ref().and_then(|last| last.active_toolset());
        let own = draft.tools.as_deref().unwrap_or_default();
        let toolset = match &draft.tools {
            None => None,
            Some(tools) => {
                let (toolset, schemas) = self.toolset(tools)?;
                blobs.extend(schemas);
                Some(toolset)
            }
        };
        record.toolset = toolset.as_ref().map(Toolset::id).or(in_force);
        record.active = self.active.filter(|active| Some(*active) != record.toolset);

        let id = self.push(record, blobs, toolset, own)?;
        self.row = Some(id);
        self.settle(place, id, &draft.content);
        Ok(())
    }

    /// Returns the nearest earlier open call that a result answers.
    fn answers(&self, content: &Content) -> Option<CallRef> {
        let Content::ToolResult(answer) = content else { return None };
        Some(self.calls.get(&answer.call_id)?.open.last()?.0)
    }

    /// Notes which calls a message opens, or which one it answers.
    fn settle(&mut self, place: usize, id: CommitId, content: &Content) {
        for (index, call) in (0..).zip(content.calls()) {
            let calls = self.calls.entry(call.id.clone()).or_default();
            calls.open.push((CallRef { slot: id, index }, place));
        }
        let Content::ToolResult(answer) = content else { return };
        let calls = self.calls.entry(answer.call_id.clone()).or_default();
        let kind = match (calls.open.pop(), calls.answered) {
            (Some(_), _) => {
                calls.answered = true;
                return;
            }
            (None, true) => ImportAnomalyKind::SecondAnswer,
            (None, false) => ImportAnomalyKind::NoCall,
        };
        let call_id = answer.call_id.clone();
        self.made.anomalies.push(ImportAnomaly { draft: place, commit: id, kind, call_id });
    }

    fn push(
        &mut self,
        record: CommitRecord,
        blobs: Vec<Blob>,
        toolset: Option<Toolset>,
        tools: &[ToolSchema],
    ) -> Result<CommitId> {
        let commit = Commit::seal(record)?;
        let id = commit.id();
        self.created_at = commit.created_at.unwrap_or(self.created_at);
        let entries = toolset.iter().flat_map(Toolset::entries);
        let mut rows: Vec<ToolRow> = Vec::new();
        for (entry, tool) in entries.zip(tools) {
            if rows.iter().all(|row| row.schema != entry.schema) {
                rows.push(ToolRow::of(tool, entry.schema, id, self.created_at));
            }
        }
        let blob_bytes = blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>();
        self.made.size_bytes += LINK_BYTES + blob_bytes;
        self.made.ids.push(id);
        self.last = Some(commit.clone());
        self.made.links.push(ImportCommit { commit, blobs, toolset, tools: rows });
        Ok(id)
    }

    pub(super) fn finish(self) -> Chain {
        let mut made = self.made;
        for (call_id, calls) in self.calls {
            for (call, draft) in calls.open {
                made.anomalies.push(ImportAnomaly {
                    draft,
                    commit: call.slot,
                    kind: ImportAnomalyKind::Unanswered,
                    call_id: call_id.clone(),
                });
            }
        }
        made.anomalies.sort_by(|a, b| (a.draft, &a.call_id).cmp(&(b.draft, &b.call_id)));
        made
    }
}

//! Converts drafts to commits. A pure function: the same input gives the same ids in every store.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use tract_core::{
    AuthorKind, Blob, CallRef, Commit, CommitId, Content, Draft, Limits, Op, ToolRow, ToolSchema,
    Toolset,
};

use super::ImportCommit;
use crate::plan::{BranchTip, Details, PlannedCommit, sealed_message};
use crate::repo::error::Result;
use crate::write::txn::check_limits;

/// The kind of an anomaly in an imported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImportAnomalyKind {
    /// A result names a call that no earlier message contains.
    NoCall,
    /// A result names a call that already has an answer.
    SecondAnswer,
    /// A call without an answer in the conversation.
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

/// An anomaly in an imported conversation. The messages are kept as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportAnomaly {
    /// The index of the draft, from 0.
    pub draft: usize,
    /// The commit made from it.
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
    /// Number of those that were already stored before `links` were.
    pub(super) reused: usize,
    /// The commits to store: all of them, or the last ones.
    pub(super) links: Vec<ImportCommit>,
    pub(super) anomalies: Vec<ImportAnomaly>,
    /// Approximate memory use of the links, in bytes.
    pub(super) size_bytes: usize,
}

/// Approximate memory use of a link in addition to its blobs, until it is stored.
const LINK_BYTES: usize = 1 << 10;

/// The calls with the same id.
#[derive(Default)]
struct Calls {
    /// The calls without a result, by message, oldest first. Joined messages count as one.
    open: Vec<OpenCalls>,
    answered: bool,
}

/// The open calls of one message with the same id, in order.
struct OpenCalls {
    message: usize,
    calls: VecDeque<(CallRef, usize)>,
}

impl Calls {
    fn push(&mut self, message: usize, call: CallRef, place: usize) {
        match self.open.last_mut().filter(|open| open.message == message) {
            Some(open) => open.calls.push_back((call, place)),
            None => self.open.push(OpenCalls { message, calls: [(call, place)].into() }),
        }
    }

    /// Returns the first open call of the nearest message.
    fn next(&self) -> Option<CallRef> {
        self.open.last()?.calls.front().map(|(call, _)| *call)
    }

    fn take_next(&mut self) -> Option<CallRef> {
        let last = self.open.last_mut()?;
        let (call, _) = last.calls.pop_front()?;
        if last.calls.is_empty() {
            self.open.pop();
        }
        Some(call)
    }
}

/// Converts drafts to commits one at a time.
pub(super) struct Builder<'a> {
    limits: &'a Limits,
    pub(super) made: Chain,
    /// The last commit.
    last: Option<Commit>,
    /// Number of drafts so far.
    drafts: usize,
    calls: HashMap<String, Calls>,
    /// The number of the last message. A draft that joins the previous one has the same number.
    message: usize,
    /// Whether tools were set permanently.
    tools_set: bool,
    /// The time of the last commit with a time, used for commits without one.
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
            message: 0,
            tools_set: false,
            created_at: 0,
            row: None,
        };
        if !tools.is_empty() {
            builder.tools(tools)?;
        }
        Ok(builder)
    }

    /// Returns the links made so far, to be stored by the caller.
    pub(super) fn take_links(&mut self) -> Vec<ImportCommit> {
        self.made.size_bytes = 0;
        std::mem::take(&mut self.made.links)
    }

    fn tip(&self) -> BranchTip {
        BranchTip {
            head: self.made.ids.last().copied(),
            active: self.last.as_ref().and_then(|last| last.active_toolset()),
            tools_set: self.tools_set,
            ..BranchTip::default()
        }
    }

    fn tools(&mut self, tools: &[ToolSchema]) -> Result<()> {
        let details = Details { tools: Some(tools.to_vec()), ..Details::default() };
        self.push(PlannedCommit::on(self.tip(), Op::Tools, &details))?;
        self.tools_set = true;
        Ok(())
    }

    /// Converts the next draft to a commit.
    pub(super) fn add(&mut self, mut draft: Draft) -> Result<()> {
        let place = self.drafts;
        self.drafts += 1;
        self.message += usize::from(!draft.joins_previous);
        let answers = self.answers(&draft.content);
        let content = Blob::seal(draft.content.take_blob()?.into_bytes());
        let mut planned = sealed_message(self.tip(), &draft, content, answers);
        planned.record.joins = self.row.filter(|_| draft.joins_previous);
        let id = self.push(planned)?;
        self.row = Some(id);
        // After the commit: a call is named by the id of its message. `take_blob` left the calls in
        // place, since it only takes content that is a single text.
        self.settle(place, id, &draft.content);
        Ok(())
    }

    /// Returns the call that a result answers: the first open call of the nearest message.
    fn answers(&self, content: &Content) -> Option<CallRef> {
        let Content::ToolResult(answer) = content else { return None };
        self.calls.get(&answer.call_id)?.next()
    }

    /// Records the calls that a message opens, or the one that it answers.
    fn settle(&mut self, place: usize, id: CommitId, content: &Content) {
        for (index, call) in (0..).zip(content.calls()) {
            let calls = self.calls.entry(call.id.clone()).or_default();
            calls.push(self.message, CallRef { slot: id, index }, place);
        }
        let Content::ToolResult(answer) = content else { return };
        let calls = self.calls.entry(answer.call_id.clone()).or_default();
        let kind = match (calls.take_next(), calls.answered) {
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

    fn push(&mut self, planned: PlannedCommit) -> Result<CommitId> {
        let PlannedCommit { mut record, mut blobs, given, .. } = planned;
        check_limits(self.limits, &blobs, given.as_ref())?;
        record.origin = AuthorKind::Import.into();
        let (toolset, tools) = given.unzip();
        let tools = tools.unwrap_or_default();
        blobs.extend(tools.iter().map(ToolSchema::blob));
        let commit = Commit::seal(record)?;
        let id = commit.id();
        self.created_at = commit.created_at.unwrap_or(self.created_at);
        let entries = toolset.iter().flat_map(Toolset::entries);
        let mut rows: Vec<ToolRow> = Vec::new();
        for (entry, tool) in entries.zip(&tools) {
            // A list may name a tool twice. The search is fine: it is as long as the list of tools
            // of one request.
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
            for (call, draft) in calls.open.into_iter().flat_map(|open| open.calls) {
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

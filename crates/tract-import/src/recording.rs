//! A conversation while it is read: the core shared by all readers except Claude Code's.
//!
//! A reader holds a [`Cursor`], the context at some time, and adds messages after it. If the cursor
//! is not at the end of its branch, a new branch starts there. This covers a rewind, a fork of a
//! checkpoint and a branch of a database alike.

mod unnamed;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use imbl::Vector;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, JsonText, Part, RefName, json};

use self::unnamed::UnnamedCalls;
use crate::damage::replacements;
use crate::facts::Caller;
use crate::report::{AnomalyKind, SessionReport, TokenTotals};
use crate::tree::{BranchNumber, BranchStart, ItemNumber, TreeEvent};
use crate::values::{self, Raw};

/// A message of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMessage {
    /// Its id, by which the recording replaces or removes it.
    pub(crate) id: Option<String>,
    /// The line, or the position in the list, from 1.
    pub(crate) line: usize,
    pub(crate) draft: Draft,
}

/// A message of a context.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: Option<Box<str>>,
    pub(crate) item: ItemNumber,
    /// Whether a user typed it. It then starts a turn.
    pub(crate) is_user: bool,
    content: u64,
    /// A hash of kind and calls, which an edit cannot change.
    shape: u64,
}

/// The context at some time: its messages and their positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    branch: Option<BranchNumber>,
    last: Option<ItemNumber>,
    /// Shared between cursors, so that a tree of contexts does not store each of them whole.
    entries: Vector<Entry>,
    /// The first message that was edited, or before which one was removed. A branch that starts
    /// after it would lose that change.
    changed: Option<usize>,
}

impl Cursor {
    pub(crate) fn entries(&self) -> &Vector<Entry> {
        &self.entries
    }

    /// Returns whether one of the first `count` messages was edited or removed, so that no branch
    /// can start right after them.
    pub(crate) fn is_changed_before(&self, count: usize) -> bool {
        self.changed.is_some_and(|changed| changed < count)
    }

    /// Returns the number of messages at the start that a list has too.
    #[cfg(feature = "inspect")]
    pub(crate) fn shared_with(&self, messages: &[RecordedMessage]) -> usize {
        let pairs = self.entries.iter().zip(messages);
        let is_same = |(entry, message): &(&Entry, &RecordedMessage)| {
            entry.id.as_deref() == message.id.as_deref()
                && entry.content == fingerprint(&message.draft.content).0
        };
        pairs.take_while(is_same).count()
    }

    /// Goes back to the first messages. The next message starts a branch.
    pub(crate) fn truncate(&mut self, count: usize) {
        if count >= self.entries.len() {
            return;
        }
        let count = self.changed.map_or(count, |changed| changed.min(count));
        self.entries.truncate(count);
        self.last = self.entries.last().map(|entry| entry.item);
        self.changed = None;
    }
}

#[derive(Debug, Default)]
struct BranchState {
    tip: Option<ItemNumber>,
    /// The kind of the last item.
    last: LastItem,
}

/// The kind of a branch's last item, if the next one may belong to the same answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastItem {
    #[default]
    Other,
    /// A message of the model, without a call in the answer so far.
    Said,
    /// A message of the model with a call: only further calls belong to it.
    Called,
}

/// Maximum number of calls with one id that are searched for an open one. Bounds the time for a
/// hostile file.
const MAX_CALLS_OF_ID: usize = 1000;

#[derive(Debug)]
struct Call {
    line: usize,
    /// The branches with a result.
    answered: Vec<BranchNumber>,
}

/// The call that started a subagent.
#[derive(Debug)]
struct AgentCall {
    id: String,
    /// The branch with the call.
    branch: BranchNumber,
}

impl AgentCall {
    /// Returns the suffix of the name of the subagent's branch.
    fn suffix(&self) -> String {
        format!(".agent-{}", RefName::distinct(&self.id))
    }
}

/// The recording of a conversation so far.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) report: SessionReport,
    pub(crate) starts: Vec<BranchStart>,
    /// The branch on which the recording continues.
    pub(crate) resumed: BranchNumber,
    /// Whether the whole conversation is a subagent's.
    pub(crate) is_agent: bool,
    /// Whether branches are forks of the recording, not rewinds of a user.
    pub(crate) has_forks: bool,
    events: Vec<TreeEvent>,
    branches: Vec<BranchState>,
    /// The calls that started the subagents of this recording, by the branch of the subagent.
    agent_calls: Vec<(BranchNumber, AgentCall)>,
    items: ItemNumber,
    /// The calls of each id, oldest first: some tools reuse ids.
    calls: HashMap<String, Vec<Call>>,
    unnamed: UnnamedCalls,
}

impl Recording {
    /// Returns the events since the last call.
    pub(crate) fn events(&mut self) -> Vec<TreeEvent> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn odd(&mut self, line: usize, kind: AnomalyKind, what: impl Into<String>) {
        self.report.anomalies.add(line, kind, what);
    }

    /// Records a message, or an entry in place of one, that could not be read.
    pub(crate) fn unreadable(&mut self, line: usize, what: impl Into<String>) {
        self.odd(line, AnomalyKind::UnreadableMessage, what);
    }

    /// Records anomalies of a line.
    pub(crate) fn odds(
        &mut self,
        line: usize,
        odds: impl IntoIterator<Item = (AnomalyKind, String)>,
    ) {
        for (kind, what) in odds {
            self.odd(line, kind, what);
        }
    }

    /// Reads a content with [`values::content_parts`], and reports what has an unknown format.
    pub(crate) fn content(&mut self, line: usize, raw: Raw<'_>) -> Vec<Part> {
        let mut unread = Vec::new();
        let parts = values::content_parts(raw, &mut unread);
        unread.into_iter().for_each(|what| self.unreadable(line, what));
        parts
    }

    /// Like [`content`](Self::content), with at least one part: an empty content is an empty text.
    pub(crate) fn message_content(&mut self, line: usize, raw: Raw<'_>) -> Vec<Part> {
        let parts = self.content(line, raw);
        if parts.is_empty() { vec![Part::text("")] } else { parts }
    }

    /// Reads a content that is a text or a list of texts and blocks. `read` returns the part of a block,
    /// if it has one, and `None` for an unknown format, which is kept as its JSON and reported.
    pub(crate) fn blocks(
        &mut self,
        line: usize,
        raw: Raw<'_>,
        read: impl Fn(&RawValue) -> Option<Option<Part>>,
    ) -> Vec<Part> {
        let Some(raw) = raw else { return Vec::new() };
        if let Some(text) = values::text(Some(raw)) {
            return if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
        }
        let Some(blocks) = values::lenient::<Vec<&RawValue>>(Some(raw)) else {
            self.unreadable(line, "content: neither a text nor a list, kept as its JSON");
            return vec![Part::text(values::canonical(raw))];
        };
        let mut parts = Vec::with_capacity(blocks.len());
        for (n, raw) in blocks.into_iter().enumerate() {
            if let Some(text) = values::text(Some(raw)) {
                parts.push(Part::text(text));
                continue;
            }
            match read(raw) {
                Some(part) => parts.extend(part),
                None => {
                    let what = "an element of an unknown kind, kept as its JSON";
                    self.unreadable(line, format!("content[{n}]: {what}"));
                    parts.push(Part::text(values::canonical(raw)));
                }
            }
        }
        parts
    }

    /// Reports a message without content, whose text may be in a member that is not read, and
    /// characters of arguments that cannot be stored: they are a JSON text within the record.
    fn inspect(&mut self, line: usize, content: &Content) {
        let is_empty = |part: &Part| matches!(part, Part::Text { text } if text.is_empty());
        // An answer or a result may be empty.
        let has_text = matches!(content, Content::User(_) | Content::System(_));
        if has_text && content.parts().iter().all(is_empty) {
            self.unreadable(line, "a message without content");
        }
        for call in content.calls().filter(|call| call.arguments.contains(r"\u")) {
            for (kind, what) in replacements(&json::decode(call.arguments.as_bytes())) {
                self.odd(line, kind, format!("arguments: {what}"));
            }
        }
    }

    /// Counts a line or an entry that no model saw.
    pub(crate) fn skip(&mut self, name: impl Into<String>) {
        // Bounds the memory for a hostile file.
        const MAX_NAMES: usize = 200;
        const MAX_BYTES: usize = 100;
        let mut name = name.into();
        let is_new = !self.report.skipped.contains_key(&name);
        if is_new && (self.report.skipped.len() >= MAX_NAMES || name.len() > MAX_BYTES) {
            "other".clone_into(&mut name);
        }
        *self.report.skipped.entry(name).or_default() += 1;
    }

    /// Counts an answer of a model.
    pub(crate) fn answer(&mut self, model: Option<&str>, usage: Option<&TokenTotals>) {
        let model = model.unwrap_or("unknown").to_owned();
        *self.report.models.entry(model).or_default() += 1;
        self.report.tokens.add(usage.unwrap_or(&TokenTotals::default()));
    }

    /// Starts the branch of a subagent at an empty cursor. `caller` is the cursor of the context with
    /// the call that started it.
    pub(crate) fn start_agent(&mut self, cursor: &mut Cursor, call_id: &str, caller: &mut Cursor) {
        // The first branch is the conversation, even if none of its messages was recorded.
        let caller = self.target(caller);
        let start = BranchStart::Subagent;
        let call = AgentCall { id: call_id.to_owned(), branch: caller };
        let number = self.add_branch(cursor, call.suffix(), start);
        self.agent_calls.push((number, call));
    }

    /// Returns the calls that started the subagents, by the branch of the subagent. `branch` is the
    /// name of the conversation's branch.
    pub(crate) fn callers(&self, branch: &str) -> HashMap<BranchNumber, Caller> {
        let calls: HashMap<BranchNumber, &AgentCall> =
            self.agent_calls.iter().map(|(agent, call)| (*agent, call)).collect();
        let suffix = |branch: BranchNumber| {
            calls.get(&branch).map_or_else(String::new, |call| call.suffix())
        };
        let caller = |(agent, call): &(BranchNumber, AgentCall)| {
            let branch = format!("{branch}{}", suffix(call.branch));
            (*agent, Caller { id: call.id.clone(), branch })
        };
        self.agent_calls.iter().map(caller).collect()
    }

    /// Starts a branch at the cursor, with this suffix of its name.
    pub(crate) fn fork(&mut self, cursor: &mut Cursor, suffix: Option<String>) -> BranchNumber {
        let number = self.branches.len();
        let start = match (number, cursor.last) {
            (0, _) if self.is_agent => BranchStart::Subagent,
            (0, _) => BranchStart::Conversation,
            (_, None) => BranchStart::Root,
            (_, Some(_)) if self.has_forks => BranchStart::Fork,
            (_, Some(_)) => BranchStart::Rewind,
        };
        let suffix = suffix.unwrap_or_else(|| match number {
            0 => String::new(),
            n => format!(".fork-{n}"),
        });
        self.add_branch(cursor, suffix, start)
    }

    fn add_branch(
        &mut self,
        cursor: &mut Cursor,
        suffix: String,
        start: BranchStart,
    ) -> BranchNumber {
        let number = self.branches.len();
        self.starts.push(start.clone());
        self.events.push(TreeEvent::Branch { after: cursor.last, suffix, start });
        self.branches.push(BranchState { tip: cursor.last, last: LastItem::Other });
        cursor.branch = Some(number);
        number
    }

    /// Returns whether a message at the cursor continues a branch; otherwise it starts one.
    pub(crate) fn continues(&self, cursor: &Cursor) -> bool {
        let branch = cursor.branch.and_then(|number| self.branches.get(number));
        branch.is_some_and(|branch| branch.tip == cursor.last)
    }

    /// Returns the branch that continues at the cursor.
    fn target(&mut self, cursor: &mut Cursor) -> BranchNumber {
        let branch = cursor.branch.and_then(|number| Some((number, self.branches.get(number)?)));
        match branch {
            Some((number, branch)) if branch.tip == cursor.last => number,
            _ => self.fork(cursor, None),
        }
    }

    fn push(&mut self, cursor: &mut Cursor, number: BranchNumber, event: TreeEvent) -> ItemNumber {
        let item = self.items;
        self.items += 1;
        cursor.last = Some(item);
        if let Some(branch) = self.branches.get_mut(number) {
            branch.tip = Some(item);
        }
        self.events.push(event);
        item
    }

    fn set_last(&mut self, number: BranchNumber, last: LastItem) -> LastItem {
        let branch = self.branches.get_mut(number);
        branch.map_or(LastItem::Other, |branch| std::mem::replace(&mut branch.last, last))
    }

    /// Ends a recording at the cursor: its branch becomes the conversation, as the tool would
    /// continue it. If that is not the first branch, the first one gets this suffix of its name.
    pub(crate) fn resume_at(&mut self, cursor: &Cursor, suffix: Option<String>) {
        let Some(branch) = cursor.branch else { return };
        // A branch without items cannot be placed, so the name is not moved to it.
        if self.branches.get(branch).is_none_or(|branch| branch.tip.is_none()) {
            return;
        }
        self.starts.swap(0, branch);
        self.resumed = branch;
        let suffix = suffix.unwrap_or_else(|| ".fork-0".to_owned());
        self.events.push(TreeEvent::Resumed { branch, suffix });
    }

    /// Adds a message at the cursor.
    pub(crate) fn append(&mut self, cursor: &mut Cursor, message: RecordedMessage) {
        let RecordedMessage { id, line, mut draft } = message;
        // As recorded, since it is compared with a later list of the same messages.
        let (content, shape) = fingerprint(&draft.content);
        for what in self.unnamed.settle(&mut draft) {
            self.unreadable(line, what);
        }
        self.inspect(line, &draft.content);
        let branch = self.target(cursor);
        let last = match &draft.content {
            Content::Assistant(_) if draft.content.calls().next().is_some() => LastItem::Called,
            Content::Assistant(_) => LastItem::Said,
            _ => LastItem::Other,
        };
        let before = self.set_last(branch, last);
        draft.joins_previous |= match before {
            LastItem::Other => false,
            LastItem::Said => last != LastItem::Other,
            LastItem::Called => last == LastItem::Called,
        };
        self.settle(branch, line, &draft.content);
        let is_user = is_turn(&draft);
        let event = TreeEvent::Message { branch, line, draft: Box::new(draft) };
        let item = self.push(cursor, branch, event);
        let id = id.map(String::into_boxed_str);
        cursor.entries.push_back(Entry { id, item, is_user, content, shape });
    }

    /// Ends the model's answer: its next message starts another one.
    pub(crate) fn end_answer(&mut self, cursor: &Cursor) {
        if let Some(number) = cursor.branch {
            self.set_last(number, LastItem::Other);
        }
    }

    /// Adds a note to the log.
    pub(crate) fn note(&mut self, cursor: &mut Cursor, line: usize, note: RecordedNote) {
        let branch = self.target(cursor);
        self.set_last(branch, LastItem::Other);
        let RecordedNote { message, content, metadata, at } = note;
        let event = TreeEvent::Note { branch, line, message, content, metadata, at };
        self.push(cursor, branch, event);
    }

    /// Replaces the visible messages with a list of messages.
    pub(crate) fn compact(&mut self, cursor: &mut Cursor, messages: Vec<RecordedMessage>) {
        let mut messages = messages.into_iter();
        let Some(first) = messages.next() else { return };
        self.summarize(cursor, Vec::new(), first);
        for message in messages {
            self.append(cursor, message);
        }
    }

    /// Replaces all messages except these with a summary.
    pub(crate) fn summarize(
        &mut self,
        cursor: &mut Cursor,
        keep: Vec<ItemNumber>,
        summary: RecordedMessage,
    ) {
        let branch = self.target(cursor);
        self.set_last(branch, LastItem::Other);
        let RecordedMessage { id, line, draft } = summary;
        self.inspect(line, &draft.content);
        let (content, shape) = fingerprint(&draft.content);
        let is_user = is_turn(&draft);
        let kept: HashSet<ItemNumber> = keep.iter().copied().collect();
        let event = TreeEvent::Summary { branch, line, keep, draft: Box::new(draft) };
        let item = self.push(cursor, branch, event);
        cursor.entries.retain(|entry| kept.contains(&entry.item));
        let id = id.map(String::into_boxed_str);
        cursor.entries.push_back(Entry { id, item, is_user, content, shape });
        cursor.changed = None;
    }

    /// Makes the context from a position on equal to a list: new messages are added, changed ones
    /// edited and missing ones skipped. If that is not possible, a branch starts.
    pub(crate) fn change_to(
        &mut self,
        cursor: &mut Cursor,
        from: usize,
        messages: Vec<RecordedMessage>,
    ) {
        // The snapshot of a conversation is compared with what was read so far. The common
        // beginning stays as it is; what differs after it is either a change of known messages,
        // which becomes edits and removals, or a rewind, which continues on a branch.
        let old: Vec<Entry> = cursor.entries.iter().skip(from).cloned().collect();
        let prints: Vec<(u64, u64)> =
            messages.iter().map(|message| fingerprint(&message.draft.content)).collect();
        let is_same = |entry: &Entry, n: usize| {
            let message = messages.get(n);
            message.is_some_and(|message| entry.id.as_deref() == message.id.as_deref())
                && prints.get(n).is_some_and(|print| print.0 == entry.content)
        };
        let same =
            (0..old.len()).take_while(|n| old.get(*n).is_some_and(|e| is_same(e, *n))).count();
        if same < old.len() {
            let ids: HashSet<&str> =
                messages.iter().filter_map(|message| message.id.as_deref()).collect();
            let rest = old.get(same..).unwrap_or_default();
            let stays = |entry: &Entry| entry.id.as_deref().is_some_and(|id| ids.contains(id));
            let can_edit = |(n, entry): (usize, &Entry)| {
                let id = messages.get(n).and_then(|message| message.id.as_deref());
                id.is_some()
                    && id == entry.id.as_deref()
                    && prints.get(n).is_some_and(|print| print.1 == entry.shape)
            };
            let places = (same..).zip(rest.iter().filter(|entry| stays(entry)));
            let is_change =
                rest.iter().all(|entry| entry.id.is_some()) && places.clone().all(can_edit);
            if is_change {
                let edits: Vec<usize> = places
                    .filter(|(n, entry)| {
                        prints.get(*n).is_none_or(|print| print.0 != entry.content)
                    })
                    .map(|(n, _)| n)
                    .collect();
                let gone: Vec<ItemNumber> =
                    rest.iter().filter(|entry| !stays(entry)).map(|entry| entry.item).collect();
                self.change(cursor, from, same, &edits, gone, &messages, &prints);
            } else {
                cursor.truncate(from + same);
            }
        }
        let shown = cursor.entries.len().saturating_sub(from);
        for message in messages.into_iter().skip(shown) {
            self.append(cursor, message);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `change_to`, with what it found")]
    fn change(
        &mut self,
        cursor: &mut Cursor,
        from: usize,
        same: usize,
        edits: &[usize],
        gone: Vec<ItemNumber>,
        messages: &[RecordedMessage],
        prints: &[(u64, u64)],
    ) {
        let branch = self.target(cursor);
        self.set_last(branch, LastItem::Other);
        let line = messages.last().map_or(0, |message| message.line);
        let at = messages.iter().filter_map(|message| message.draft.created_at).max();
        if !gone.is_empty() {
            self.skip_items(cursor, branch, line, gone, at);
        }
        for n in edits {
            let Some(message) = messages.get(*n) else { continue };
            let Some(entry) = cursor.entries.get_mut(from + n) else { continue };
            entry.content = prints.get(*n).map_or(entry.content, |print| print.0);
            let (item, draft) = (entry.item, Box::new(message.draft.clone()));
            let event = TreeEvent::Edit { branch, line: message.line, item, draft };
            self.report.edited += 1;
            self.push(cursor, branch, event);
        }
        let first = from + edits.first().copied().unwrap_or(same).min(same);
        cursor.changed = Some(cursor.changed.map_or(first, |changed| changed.min(first)));
    }

    /// Leaves messages out of the context from here on. They stay in the log.
    pub(crate) fn leave_out(
        &mut self,
        cursor: &mut Cursor,
        line: usize,
        items: Vec<ItemNumber>,
        at: Option<i64>,
    ) {
        let branch = self.target(cursor);
        self.set_last(branch, LastItem::Other);
        let first = self.skip_items(cursor, branch, line, items, at);
        cursor.changed = [cursor.changed, first].into_iter().flatten().min();
    }

    /// Removes messages of the context, and returns the position of the first one.
    fn skip_items(
        &mut self,
        cursor: &mut Cursor,
        branch: BranchNumber,
        line: usize,
        items: Vec<ItemNumber>,
        at: Option<i64>,
    ) -> Option<usize> {
        self.report.removed += items.len();
        let mut gone: HashSet<ItemNumber> = items.iter().copied().collect();
        // From the end, because they are usually the newest: many such steps are not to read the
        // whole context each time.
        let mut first = None;
        let mut kept = Vec::new();
        while !gone.is_empty() {
            let Some(entry) = cursor.entries.pop_back() else { break };
            if gone.remove(&entry.item) {
                first = Some(cursor.entries.len());
            } else {
                kept.push(entry);
            }
        }
        cursor.entries.extend(kept.into_iter().rev());
        let event = TreeEvent::Skip { branch, line, items, at };
        self.push(cursor, branch, event);
        first
    }

    fn settle(&mut self, branch: BranchNumber, line: usize, content: &Content) {
        for call in content.calls() {
            let calls = self.calls.entry(call.id.clone()).or_default();
            // Recordings repeat ids, so an id names a list of calls. A result answers the newest
            // one that has no answer on its branch.
            calls.push(Call { line, answered: Vec::new() });
        }
        let Content::ToolResult(answer) = content else { return };
        let id = &answer.call_id;
        let calls = self.calls.get_mut(id);
        let (kind, what) = match calls {
            None => (AnomalyKind::NoCall, "names no call before it"),
            Some(calls) => {
                let mut open = calls.iter_mut().rev().take(MAX_CALLS_OF_ID);
                if let Some(call) = open.find(|call| !call.answered.contains(&branch)) {
                    call.answered.push(branch);
                    self.report.pairs += 1;
                    return;
                }
                (AnomalyKind::SecondResult, "names a call that has its result")
            }
        };
        self.odd(line, kind, format!("the result of {id:?} {what}"));
    }

    /// Ends the recording, for results that depend on all of it.
    pub(crate) fn finish(&mut self) {
        let calls = self.calls.iter();
        let calls = calls.flat_map(|(id, calls)| calls.iter().map(move |call| (id.as_str(), call)));
        let open = calls.filter(|(_, call)| call.answered.is_empty());
        let mut open: Vec<(usize, &str)> = open.map(|(id, call)| (call.line, id)).collect();
        open.sort_unstable();
        for (line, id) in open {
            let what = format!("call {id:?} has no result");
            self.report.anomalies.add(line, AnomalyKind::Unanswered, what);
        }
    }
}

/// A note in the log that no model saw.
#[derive(Debug)]
pub(crate) struct RecordedNote {
    pub(crate) message: String,
    pub(crate) content: JsonText,
    pub(crate) metadata: Option<JsonText>,
    pub(crate) at: Option<i64>,
}

/// Returns whether a user typed a message. Messages inserted by a tool are marked in their
/// metadata.
fn is_turn(draft: &Draft) -> bool {
    let is_injected =
        draft.metadata.as_ref().is_some_and(|facts| facts.as_str().contains("\"injected\":"));
    matches!(draft.content, Content::User(_)) && !is_injected
}

/// Returns hashes of a content: of all of it, and of the parts that an edit cannot change. They are
/// only valid within this process.
fn fingerprint(content: &Content) -> (u64, u64) {
    // Compared within one run and never stored, so it does not matter that the hasher may change
    // between versions of Rust.
    let mut whole = DefaultHasher::new();
    content.hash(&mut whole);
    let mut shape = DefaultHasher::new();
    content.kind().hash(&mut shape);
    for call in content.calls() {
        call.hash(&mut shape);
    }
    if let Content::ToolResult(answer) = content {
        answer.call_id.hash(&mut shape);
    }
    (whole.finish(), shape.finish())
}

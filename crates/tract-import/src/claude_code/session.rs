//! Reads a session file line by line into events of a tree.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::value::RawValue;
use tract_core::time::parse_rfc3339;
use tract_core::{Content, JsonText};

use super::boundary::Boundaries;
use super::calls::{Calls, SessionCall};
use super::draft;
use super::line::{
    Attachment, BlockFields, Line, MessageFields, Usage, blocks, hash_of, is_session_line,
    started_agent,
};
use super::place::{Places, Position, Speaker};
use crate::damage::{LineRules, read_line};
use crate::facts::Facts;
use crate::object::Object;
use crate::report::{AnomalyKind, SessionReport, TokenTotals};
use crate::tree::{BranchNumber, BranchStart, ItemNumber, TreeEvent};
use crate::values::{self, lenient, model_config, recorded};

/// An answer of a model: one API message, which spans several lines.
struct Answer {
    place: Position,
    model: Option<String>,
    usage: Usage,
}

/// The last item of a branch, if the next one may belong to the same API message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LastItem {
    /// A block of this API message.
    Block(String),
    /// A result of a call of this API message.
    Result(String),
}

/// The titles of a session, by author. The last title of each author wins.
#[derive(Debug, Default)]
struct Titles {
    custom: Option<String>,
    ai: Option<String>,
    summary: Option<String>,
}

/// Reads a session line by line, without looking ahead.
#[derive(Default)]
pub(super) struct SessionReader {
    pub(super) facts: Facts,
    titles: Titles,
    pub(super) report: SessionReport,
    /// The subagents that were started, and the calls that started them.
    pub(super) agents: BTreeMap<String, String>,
    places: Places,
    calls: Calls,
    answers: HashMap<String, Answer>,
    unnamed_answers: Vec<(Option<String>, Usage)>,
    boundaries: Boundaries,
    seen: HashMap<(Position, i64, bool), (Position, u64)>,
    /// The hash of the content of each line with a message, by the hash of its id.
    contents: HashMap<u64, u64>,
    last: HashMap<BranchNumber, LastItem>,
    /// The suffix of the first branch's name, should it be abandoned.
    pub(super) first_suffix: String,
    /// Lines without a position, from before the first message. Lines after them start the session.
    before_first: HashSet<String>,
    items: ItemNumber,
    number: usize,
    events: Vec<TreeEvent>,
}

/// The branch that the next item goes to.
struct Target {
    branch: BranchNumber,
    advances: bool,
}

/// Returns whether a line has a message with a role and a content.
fn has_message(line: &Line<'_>) -> bool {
    let message = line.message.filter(|raw| raw.get().starts_with('{'));
    Object::of(message).is_some_and(|message| message.has("role") && message.has("content"))
}

impl SessionReader {
    /// Reads the next line. Returns its events.
    pub(super) fn read(&mut self, number: usize, bytes: &[u8], ended: bool) -> Vec<TreeEvent> {
        if bytes.is_empty() {
            return Vec::new();
        }
        self.number = number;
        self.report.lines += 1;
        let rules = LineRules {
            line: |session: &mut Self, _, bytes| {
                let line: Line<'_> = values::read_record(bytes)?;
                session.line(&line);
                Ok(())
            },
            odd: |session, _, kind, what| session.odd(kind, what),
            is_record: is_session_line,
        };
        read_line(self, number, bytes, ended, rules);
        std::mem::take(&mut self.events)
    }

    /// Records a line that was not read.
    pub(super) fn too_long(&mut self, number: usize) {
        self.number = number;
        self.report.lines += 1;
        self.odd(AnomalyKind::LineTooLong, "longer than any message may be");
    }

    /// Ends the session, for results that depend on all of it.
    pub(super) fn finish(&mut self) {
        for (line, id) in self.calls.unanswered() {
            let what = format!("call {id:?} has no result");
            self.report.anomalies.add(line, AnomalyKind::Unanswered, what);
        }
        let named = self.answers.values().map(|answer| (&answer.model, &answer.usage));
        let unnamed = self.unnamed_answers.iter().map(|(model, usage)| (model, usage));
        for (model, usage) in named.chain(unnamed) {
            let model = model.clone().unwrap_or_else(|| "unknown".to_owned());
            *self.report.models.entry(model).or_default() += 1;
            self.report.tokens.add(&TokenTotals {
                input: usage.input_tokens.unwrap_or_default(),
                output: usage.output_tokens.unwrap_or_default(),
                cache_read: usage.cache_read_input_tokens.unwrap_or_default(),
                cache_write: usage.written().unwrap_or_default(),
                cache_write_1h: usage.written_1h(),
            });
        }
        let Titles { custom, ai, summary } = std::mem::take(&mut self.titles);
        self.facts.title = custom.or(ai).or(summary);
        self.report.title.clone_from(&self.facts.title);
    }

    /// Returns the branch that the tool would resume.
    pub(super) fn resumed(&self) -> Option<BranchNumber> {
        self.places.resumed()
    }

    fn odd(&mut self, kind: AnomalyKind, what: impl Into<String>) {
        self.report.anomalies.add(self.number, kind, what);
    }

    fn skip(&mut self, line: &Line<'_>) {
        let mut name = line.line_type.clone().unwrap_or_else(|| "untyped".to_owned());
        if let Some(subtype) = &line.subtype {
            name = format!("{name}:{subtype}");
        }
        self.skip_as(name);
    }

    fn skip_as(&mut self, mut name: String) {
        // Bounds the memory for a hostile file.
        const MAX_NAMES: usize = 200;
        if self.report.skipped.len() >= MAX_NAMES && !self.report.skipped.contains_key(&name) {
            name = "other".to_owned();
        }
        *self.report.skipped.entry(name).or_default() += 1;
    }

    fn line(&mut self, line: &Line<'_>) {
        self.facts(line);
        if let Some(uuid) = line.uuid.as_deref().filter(|uuid| self.places.knows(uuid)) {
            self.report.repeated += 1;
            if self.is_other_content(uuid, line) {
                let what = "a line with the id of another line, and another content, is left out";
                self.odd(AnomalyKind::UnreadableMessage, what);
            }
            self.boundaries.repeat(uuid);
            // A compaction writes the kept messages again, after the summary.
            let parent = line.parent_uuid.as_deref().and_then(|id| self.places.place_of(id));
            if let (Some(place), Some(parent)) = (self.places.place_of(uuid), parent)
                && place.branch == parent.branch
            {
                self.places.relocate(uuid, parent);
            }
            return;
        }
        match line.line_type.as_deref() {
            Some("user" | "assistant") => self.message(line),
            Some("attachment") => self.attachment(line),
            Some("system") if line.subtype.as_deref() == Some("compact_boundary") => {
                self.boundary(line);
            }
            kind if has_message(line) => {
                let kind = kind.unwrap_or_default();
                let what = format!("a line of the unknown type {kind:?} with a message");
                self.odd(AnomalyKind::UnreadableMessage, what);
                self.pass(line);
            }
            _ => {
                self.pass(line);
                self.skip(line);
            }
        }
    }

    /// Returns whether a line has a message that is not the one of the earlier line with its id.
    fn is_other_content(&self, uuid: &str, line: &Line<'_>) -> bool {
        if !matches!(line.line_type.as_deref(), Some("user" | "assistant")) {
            return false;
        }
        let content = lenient::<MessageFields<'_>>(line.message).and_then(|read| read.content);
        content.is_some_and(|content| {
            self.contents.get(&hash_of(uuid)) != Some(&hash_of(content.get()))
        })
    }

    /// Records the content of a line, to compare it with that of a later line with the same id.
    fn keep_hash(&mut self, line: &Line<'_>, hash: u64) {
        if let Some(uuid) = &line.uuid {
            self.contents.insert(hash_of(uuid), hash);
        }
    }

    fn facts(&mut self, line: &Line<'_>) {
        let (facts, titles) = (&mut self.facts, &mut self.titles);
        let first = |to: &mut Option<String>, from: &Option<String>| {
            if to.is_none() {
                to.clone_from(from);
            }
        };
        let last = |to: &mut Option<String>, from: &Option<String>| {
            if from.is_some() {
                to.clone_from(from);
            }
        };
        first(&mut facts.session, &line.session_id);
        if line.uuid.is_some() && line.is_sidechain.unwrap_or_default() {
            first(&mut facts.agent, &line.agent_id);
        }
        first(&mut facts.cwd, &line.cwd);
        last(&mut facts.git_branch, &line.git_branch);
        last(&mut facts.version, &line.version);
        last(&mut titles.custom, &line.custom_title);
        last(&mut titles.ai, &line.ai_title);
        // A summary refers to a line by uuid, usually in another file.
        let is_own = line.leaf_uuid.as_deref().is_some_and(|leaf| self.places.knows(leaf));
        if line.line_type.as_deref() == Some("summary") && is_own {
            last(&mut titles.summary, &line.summary);
        }
    }

    fn speaker(line: &Line<'_>) -> Speaker {
        if line.is_sidechain.unwrap_or_default() {
            Speaker::Sidechain(line.agent_id.clone())
        } else {
            Speaker::Main
        }
    }

    /// Returns the position of a line's parent.
    fn parent(&mut self, line: &Line<'_>) -> Option<Position> {
        let speaker = Self::speaker(line);
        let named = line.parent_uuid.as_deref();
        let place = match named.map(|id| (id, self.places.place_of(id))) {
            Some((_, Some(place))) => Some(place),
            Some((id, None)) if self.before_first.contains(id) => self.places.end_of(&speaker),
            Some((_, None)) => {
                let end = self.places.end_of(&speaker);
                let what = match end {
                    Some(_) => {
                        "no line before it has the id of its parent: it continues the session"
                    }
                    None => "no line before it has the id of its parent: it begins the session",
                };
                self.odd(AnomalyKind::MissingParent, what);
                end
            }
            // The only position of a line without an id is its place in the file.
            None if line.uuid.is_none() => self.places.end_of(&speaker),
            None => None,
        };
        // A subagent has a separate context, regardless of the parent in its line.
        let place = place.filter(|place| self.places.speaker(place.branch) == Some(&speaker));
        place.map(|place| self.places.after_summary(place, &speaker))
    }

    /// Skips a line that no model saw: the lines after it follow its parent.
    fn pass(&mut self, line: &Line<'_>) {
        let Some(uuid) = &line.uuid else { return };
        let speaker = Self::speaker(line);
        let parent = line.parent_uuid.as_deref().and_then(|id| self.places.place_of(id));
        let place = parent.map(|place| self.places.after_summary(place, &speaker));
        self.boundaries.pass(uuid, line.parent_uuid.as_deref());
        match place.or_else(|| self.places.end_of(&speaker)) {
            Some(place) => self.places.insert(uuid, place, 0, 0),
            None => drop(self.before_first.insert(uuid.clone())),
        }
    }

    fn boundary(&mut self, line: &Line<'_>) {
        self.skip(line);
        let Some(uuid) = &line.uuid else { return };
        let speaker = Self::speaker(line);
        if let Some(place) = self.boundaries.begin(uuid, line, &speaker, &self.places, self.items) {
            self.places.insert(uuid, place, 0, 0);
        }
    }

    /// Reads an attachment. Prompts typed while the model was working become messages; all others
    /// are skipped.
    fn attachment(&mut self, line: &Line<'_>) {
        let read = lenient::<Attachment<'_>>(line.attachment);
        let kind = read.as_ref().and_then(|attachment| attachment.attachment_type.clone());
        let prompt = read.as_ref().and_then(|attachment| attachment.prompt);
        if let (Some("queued_command"), Some(prompt)) = (kind.as_deref(), prompt) {
            let message = MessageFields { content: Some(prompt), ..MessageFields::default() };
            self.content(line, "user", &message, prompt);
            return;
        }
        self.pass(line);
        self.skip_as(format!("attachment:{}", kind.as_deref().unwrap_or("untyped")));
    }

    fn message(&mut self, line: &Line<'_>) {
        let read = lenient::<MessageFields<'_>>(line.message);
        let Some((message, content)) = read.and_then(|message| {
            let content = message.content?;
            Some((message, content))
        }) else {
            self.odd(AnomalyKind::UnreadableMessage, "no message with content");
            return self.pass(line);
        };
        let role = match line.line_type.as_deref() {
            Some("assistant") => "assistant",
            _ => "user",
        };
        let is_synthetic = message.model.as_deref() == Some("<synthetic>")
            || line.is_api_error_message.unwrap_or_default();
        if is_synthetic && role == "assistant" {
            return self.note(line, content.get());
        }
        self.content(line, role, &message, content);
    }

    /// Adds a message of the tool itself, written in the model's name, as a note in the log.
    fn note(&mut self, line: &Line<'_>, content: &str) {
        self.keep_hash(line, hash_of(content));
        let Ok(content) = JsonText::new(content) else {
            self.odd(AnomalyKind::UnreadableMessage, "the content has no canonical form");
            return self.pass(line);
        };
        let parent = self.parent(line);
        let target = self.target(line, parent, false);
        let message = match line.is_api_error_message {
            Some(true) => "Claude Code: an API error",
            _ => "Claude Code, in the model's place",
        };
        let (branch, at) = (target.branch, self.time(line));
        let message = message.to_owned();
        let (line_number, metadata) = (self.number, None);
        let event = TreeEvent::Note { branch, line: line_number, message, content, metadata, at };
        self.last.remove(&branch);
        self.place(line, &target, vec![event]);
    }

    fn time(&mut self, line: &Line<'_>) -> Option<i64> {
        let at = line.timestamp.as_deref().and_then(|text| parse_rfc3339(text).ok());
        if at.is_none() {
            self.odd(AnomalyKind::NoTime, "no readable time");
        }
        at
    }

    fn content(
        &mut self,
        line: &Line<'_>,
        role: &'static str,
        message: &MessageFields<'_>,
        content: &RawValue,
    ) {
        let mut unread = Vec::new();
        let mut drafts = draft::drafts(role, content, &mut unread);
        unread.into_iter().for_each(|what| self.odd(AnomalyKind::UnreadableMessage, what));
        let blocks = blocks(content.get());
        let parent = self.parent(line);
        let result = blocks.iter().find_map(|block| block.result());
        let (parent, belongs) = match (result, &message.id) {
            (Some(call), _) => self.place_of_result(call, parent),
            (None, Some(id)) if role == "assistant" => self.place_of_block(id, parent),
            _ => (parent, false),
        };
        let is_summary = line.is_compact_summary.unwrap_or_default();
        let parent = match parent {
            // Old versions write no boundary before the summary.
            None if is_summary => self.places.end_of(&Self::speaker(line)),
            parent => parent,
        };
        let at = self.time(line);
        // A resumed session may copy lines of the earlier one under new ids. The same content of
        // the same role at the same place and time is such a copy.
        let key = match (parent, at) {
            (Some(parent), Some(at)) if !belongs => Some((parent, at, role == "user")),
            _ => None,
        };
        let hash = hash_of(content.get());
        self.keep_hash(line, hash);
        let seen = key.and_then(|key| self.seen.get(&key)).filter(|(_, known)| *known == hash);
        if let (Some((place, _)), Some(uuid)) = (seen, &line.uuid) {
            let place = *place;
            self.odd(AnomalyKind::Replayed, "the line repeats another one");
            self.places.insert(uuid, place, 0, 0);
            return;
        }
        if is_summary && drafts.len() == 1 && parent.is_some() {
            let boundary = self.boundaries.get(line.parent_uuid.as_deref());
            let is_late = boundary
                .zip(parent)
                .is_some_and(|(boundary, place)| boundary.is_before_all(place, &self.places));
            let mut target = self.target(line, parent, is_late);
            target.advances = true;
            if let Some(draft) = drafts.pop() {
                let mut draft = recorded(draft, line.uuid.as_deref(), at);
                draft.metadata = draft::metadata(line, message, &draft.content);
                self.summary(line, &target, draft);
            }
            return;
        }
        let target = self.target(line, parent, belongs);
        let mut events = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut draft = recorded(draft, line.uuid.as_deref(), at);
            if events.is_empty() {
                draft.metadata = draft::metadata(line, message, &draft.content);
                draft.generation_config = model_config(message.model.as_deref());
                draft.joins_previous = self.joins(target.branch, message, &draft.content);
            }
            self.settle(target.branch, message, &draft.content, line);
            let (branch, line) = (target.branch, self.number);
            events.push(TreeEvent::Message { branch, line, draft: Box::new(draft) });
        }
        let place = self.place(line, &target, events);
        if let Some(key) = key {
            self.seen.entry(key).or_insert((place, hash));
        }
        for id in blocks.iter().filter_map(BlockFields::call) {
            let message = message.id.clone();
            let call = SessionCall { place, message, line: self.number, answered: false };
            self.calls.push(id, call);
        }
        if role == "assistant" {
            self.count(message, place);
        }
    }

    /// Returns whether a draft continues the provider message of the last item: a further block of
    /// an answer, or a further result of parallel calls.
    fn joins(
        &mut self,
        branch: BranchNumber,
        message: &MessageFields<'_>,
        content: &Content,
    ) -> bool {
        let last = self.last.get(&branch);
        match content {
            Content::ToolResult(answer) => {
                let place = Some(self.places.tip(branch));
                let call = self.calls.answered_by(&answer.call_id, place, &self.places);
                let message = call.and_then(|call| call.message.clone());
                message.is_some_and(|id| last == Some(&LastItem::Result(id)))
            }
            Content::Assistant(_) => {
                message.id.as_ref().is_some_and(|id| last == Some(&LastItem::Block(id.clone())))
            }
            _ => false,
        }
    }

    /// Records the kind of an item, and the call that it answers.
    fn settle(
        &mut self,
        branch: BranchNumber,
        message: &MessageFields<'_>,
        content: &Content,
        line: &Line<'_>,
    ) {
        let last = match content {
            Content::ToolResult(answer) => {
                let place = Some(self.places.tip(branch));
                let call = self.calls.answered_by(&answer.call_id, place, &self.places);
                let problem = match &call {
                    None => Some((AnomalyKind::NoCall, "names no call before it")),
                    Some(call) if call.answered => {
                        Some((AnomalyKind::SecondResult, "names a call that has its result"))
                    }
                    Some(_) => None,
                };
                let message = call.and_then(|call| {
                    call.answered = true;
                    call.message.clone()
                });
                match problem {
                    Some((kind, what)) => {
                        self.odd(kind, format!("the result of {:?} {what}", answer.call_id));
                    }
                    None => self.report.pairs += 1,
                }
                if let Some(agent) = started_agent(line, content) {
                    self.agents.entry(agent).or_insert_with(|| answer.call_id.clone());
                }
                message.map(LastItem::Result)
            }
            Content::Assistant(_) => message.id.clone().map(LastItem::Block),
            _ => None,
        };
        match last {
            Some(last) => self.last.insert(branch, last),
            None => self.last.remove(&branch),
        };
    }

    /// Returns the position of a result: on the branch of its call, regardless of the parent in its line.
    fn place_of_result(
        &mut self,
        call: &str,
        parent: Option<Position>,
    ) -> (Option<Position>, bool) {
        let Some(call) = self.calls.answered_by(call, parent, &self.places) else {
            return (parent, parent.is_some());
        };
        let branch = match parent {
            Some(parent) if self.places.is_on_path(call.place, parent.branch) => parent.branch,
            _ => call.place.branch,
        };
        (Some(self.places.tip(branch)), true)
    }

    /// Returns the position of a further block of an answer: on the branch of the answer.
    fn place_of_block(&self, id: &str, parent: Option<Position>) -> (Option<Position>, bool) {
        let Some(answer) = self.answers.get(id) else { return (parent, false) };
        match parent {
            Some(parent) if self.places.is_on_path(answer.place, parent.branch) => {
                (Some(self.places.tip(parent.branch)), true)
            }
            Some(_) => (parent, false),
            None => (Some(self.places.tip(answer.place.branch)), true),
        }
    }

    /// Returns the branch that a line continues. Starts a branch if there is none.
    fn target(&mut self, line: &Line<'_>, parent: Option<Position>, belongs: bool) -> Target {
        let advances = !belongs;
        if let Some(parent) = parent
            && (belongs || !self.places.continues_after(parent))
        {
            return Target { branch: parent.branch, advances };
        }
        let speaker = Self::speaker(line);
        let is_first = self.places.branch_count() == 0;
        let id = line.uuid.iter().flat_map(|id| id.chars());
        let mut digits: String = id.filter(char::is_ascii_alphanumeric).take(8).collect();
        if digits.is_empty() {
            digits = format!("branch-{}", self.places.branch_count());
        }
        if is_first {
            self.first_suffix = format!(".{digits}");
        }
        let (after, start, suffix) = match (parent, &speaker) {
            (Some(parent), _) => {
                let after = self.places.fork(parent, speaker);
                (after, BranchStart::Rewind, format!(".{digits}"))
            }
            (None, _) if is_first => {
                let is_agent = speaker != Speaker::Main;
                self.places.root(speaker);
                let start =
                    if is_agent { BranchStart::Subagent } else { BranchStart::Conversation };
                (None, start, String::new())
            }
            (None, Speaker::Sidechain(_)) => {
                self.places.root(speaker);
                (None, BranchStart::Subagent, format!(".agent-{digits}"))
            }
            (None, Speaker::Main) => {
                self.places.root(speaker);
                self.odd(AnomalyKind::SecondRoot, "a message without a parent begins a branch");
                (None, BranchStart::Root, format!(".{digits}"))
            }
        };
        self.events.push(TreeEvent::Branch { after, suffix, start });
        Target { branch: self.places.branch_count() - 1, advances: true }
    }

    /// Adds items and their line at the end of a branch.
    fn place(&mut self, line: &Line<'_>, target: &Target, events: Vec<TreeEvent>) -> Position {
        let (first, count) = (self.items, events.len());
        self.boundaries.advance();
        for event in events {
            self.places.push(target.branch, self.items, target.advances);
            self.items += 1;
            self.events.push(event);
        }
        let place = self.places.tip(target.branch);
        let at = line.timestamp.as_deref().and_then(|text| parse_rfc3339(text).ok());
        self.places.set_last_line(target.branch, at, self.number);
        if let Some(uuid) = &line.uuid {
            self.places.insert(uuid, place, first, count);
        }
        place
    }

    fn summary(&mut self, line: &Line<'_>, target: &Target, draft: tract_core::Draft) {
        let boundary = self.boundaries.end(line.parent_uuid.as_deref());
        let keep = boundary.as_ref().map(|boundary| boundary.kept(target.branch, &self.places));
        let keep = keep.unwrap_or_default();
        let (branch, number) = (target.branch, self.number);
        let event = TreeEvent::Summary { branch, line: number, keep, draft: Box::new(draft) };
        self.last.remove(&branch);
        let place = self.place(line, target, vec![event]);
        self.places.set_summary(branch);
        for uuid in boundary.iter().flat_map(|boundary| boundary.preserved()) {
            self.places.relocate(uuid, place);
        }
    }

    /// Counts an answer. Its lines repeat its usage, and the last one has the final numbers.
    fn count(&mut self, message: &MessageFields<'_>, place: Position) {
        let usage = message.usage.unwrap_or_default();
        let Some(id) = &message.id else {
            self.unnamed_answers.push((message.model.clone(), usage));
            return;
        };
        let model = message.model.clone();
        let answer = self.answers.entry(id.clone()).or_insert(Answer { place, model, usage });
        answer.place = place;
        // Each block of an answer repeats its usage, and the last one has the final numbers. Adding
        // them up would count the answer several times.
        if message.usage.is_some() {
            answer.usage = usage;
        }
    }
}

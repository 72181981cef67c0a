//! The messages of a line of Gemini CLI, which later lines with the same id change.

use std::collections::HashMap;

use tract_core::{Body, Content, Draft, Part};

use super::Line;
use super::answer::Answer;
use crate::recording::RecordedMessage;
use crate::values::{recorded, time};

/// A message of the file, as read so far.
pub(super) struct Record {
    pub(super) id: Option<String>,
    pub(super) messages: Vec<RecordedMessage>,
}

/// The messages of the file so far. Finding one by id, and counting what comes before it, takes
/// constant time: a growing session finds one for each of its lines.
#[derive(Default)]
pub(super) struct Records {
    list: Vec<Record>,
    /// For each record the number of messages up to its end.
    ends: Vec<usize>,
    places: HashMap<String, usize>,
}

impl Records {
    pub(super) fn of(records: Vec<Record>) -> Self {
        let mut all = Self::default();
        records.into_iter().for_each(|record| all.push(record));
        all
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.list.iter()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Record> {
        self.list.get(at)
    }

    /// Returns the records from one on.
    pub(super) fn from(&self, first: usize) -> &[Record] {
        self.list.get(first..).unwrap_or_default()
    }

    /// Returns the position of the last record with an id.
    pub(super) fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// Returns the number of messages before a record.
    pub(super) fn messages_before(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default()
    }

    pub(super) fn push(&mut self, record: Record) {
        let before = self.ends.last().copied().unwrap_or_default();
        self.ends.push(before + record.messages.len());
        self.places.extend(record.id.clone().map(|id| (id, self.list.len())));
        self.list.push(record);
    }

    pub(super) fn replace(&mut self, at: usize, record: Record) {
        let after = self.list.split_off(at.min(self.list.len())).into_iter().skip(1);
        self.ends.truncate(at);
        self.push(record);
        after.for_each(|record| self.push(record));
    }

    pub(super) fn truncate(&mut self, count: usize) {
        for record in self.list.drain(count.min(self.list.len())..) {
            if let Some(id) = record.id {
                self.places.remove(&id);
            }
        }
        self.ends.truncate(count);
    }
}

/// The positions of an answer's messages from an earlier line. A later line with the same id keeps
/// them: calls that it adds become a separate message after the existing ones.
#[derive(Default)]
pub(super) struct Layout {
    /// Number of calls in each message of the model.
    calls: Vec<usize>,
    /// The position of each message, by id.
    places: HashMap<String, usize>,
}

impl Layout {
    /// Returns the layout of an answer in a document, which the tool rewrites as it grows. An
    /// answer gets its calls later, so they always become a separate message, even if they are
    /// present from the start.
    pub(super) fn of_document() -> Self {
        Self { calls: vec![0], places: HashMap::new() }
    }

    pub(super) fn of(record: &Record) -> Self {
        let contents = record.messages.iter().map(|message| &message.draft.content);
        let contents = contents.filter(|content| matches!(content, Content::Assistant(_)));
        let calls = contents.map(|content| content.calls().count()).collect();
        let ids = record.messages.iter().enumerate();
        let places = ids.filter_map(|(n, message)| Some((message.id.clone()?, n))).collect();
        Self { calls, places }
    }

    /// Splits an answer into messages with the known number of calls each.
    fn cut(&self, parts: Vec<Part>) -> Vec<Vec<Part>> {
        let mut messages: Vec<Vec<Part>> = Vec::new();
        let mut message = Vec::new();
        let mut calls = 0;
        for part in parts {
            if matches!(part, Part::ToolCall(_)) {
                if self.calls.get(messages.len()) == Some(&calls) && !message.is_empty() {
                    messages.push(std::mem::take(&mut message));
                    calls = 0;
                }
                calls += 1;
            }
            message.push(part);
        }
        messages.push(message);
        messages
    }
}

impl Record {
    pub(super) fn of_user(number: usize, line: &Line<'_>, draft: Draft) -> Self {
        let message = message(number, line, line.id.clone(), draft);
        Self { id: line.id.clone(), messages: vec![message] }
    }

    pub(super) fn of_results(number: usize, line: &Line<'_>, drafts: Vec<Draft>) -> Self {
        let id = |n: usize| line.id.as_ref().map(|id| format!("{id}#{n}"));
        let drafts = drafts.into_iter().enumerate();
        let messages = drafts.map(|(n, draft)| message(number, line, id(n), draft)).collect();
        Self { id: line.id.clone(), messages }
    }

    pub(super) fn of_answer(
        number: usize,
        line: &Line<'_>,
        answer: Answer,
        known: &Layout,
    ) -> Self {
        let Answer { mut draft, results, .. } = answer;
        let parts = match &mut draft.content {
            Content::Assistant(body) => std::mem::take(&mut body.parts),
            _ => Vec::new(),
        };
        let id = |end: &str| line.id.as_ref().map(|id| format!("{id}{end}"));
        let mut results = results.into_iter().peekable();
        let mut calls = 0;
        let mut messages = Vec::new();
        let pieces = known.cut(parts);
        let last = pieces.len() - 1;
        for (n, parts) in pieces.into_iter().enumerate() {
            let mut draft = draft.clone();
            draft.content = Content::Assistant(Body { parts, name: None });
            calls += draft.content.calls().count();
            let end = if n == 0 { String::new() } else { format!("#calls-{n}") };
            messages.push(message(number, line, id(&end), draft));
            while let Some((call, draft)) = results.next_if(|(call, _)| *call < calls || n == last)
            {
                messages.push(message(number, line, id(&format!("#{}", call + 1)), draft));
            }
        }
        let place = |message: &RecordedMessage| {
            let known = message.id.as_ref().and_then(|id| known.places.get(id)).copied();
            known.unwrap_or(usize::MAX)
        };
        messages.sort_by_key(place);
        let mut after_said = false;
        for message in &mut messages {
            let is_said = matches!(message.draft.content, Content::Assistant(_));
            message.draft.joins_previous = is_said && after_said;
            after_said = is_said;
        }
        Self { id: line.id.clone(), messages }
    }
}

fn message(number: usize, line: &Line<'_>, id: Option<String>, draft: Draft) -> RecordedMessage {
    let at = time(line.timestamp.as_deref());
    RecordedMessage { id, line: number, draft: recorded(draft, line.id.as_deref(), at) }
}

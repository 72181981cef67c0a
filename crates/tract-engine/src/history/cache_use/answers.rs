//! From commits to the answers of a model.

use tract_core::json::split_object;
use tract_core::{BlobId, Commit, CommitId, JsonText, Kind, Op};

use crate::history::answer_facts::{AnswerFacts, AnswerIds, AnswerTokens};

/// One answer of a model, with what was recorded of its request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) first: CommitId,
    /// The commit whose context was sent.
    pub(super) request: CommitId,
    pub(super) model: Option<String>,
    /// The settings that providers keep caches apart by, as texts.
    pub(super) mode: Vec<(String, String)>,
    pub(super) at: Option<i64>,
    pub(super) usage: Option<RecordedUsage>,
    facts: AnswerFacts,
    content: Option<BlobId>,
}

/// Tokens of a request, as the provider reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedUsage {
    /// All of the request, what was cached included.
    pub(super) prompt: u64,
    pub(super) read: u64,
    /// Providers that cache by themselves do not report it.
    pub(super) written: Option<u64>,
    /// Tokens of `written` that were written for an hour.
    pub(super) written_1h: u64,
}

/// Members of a generation config that are part of what is cached, at one provider or another.
const MODE: [&str; 6] = [
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "thinking",
    "tool_choice",
];

impl Answer {
    /// Reads the answer that a commit is, or is a part of.
    pub(super) fn of(commit: &Commit) -> Option<Self> {
        let record = commit.record();
        let is_answer = matches!(record.op, Op::Append { .. })
            && matches!(record.kind, Some(Kind::Assistant | Kind::Reasoning));
        let request = commit.parent().filter(|_| is_answer)?;
        let facts = AnswerFacts::of(commit);
        // A tool that writes an answer by itself, such as an error, asked no model.
        if facts.usage.is_some_and(|usage| usage.input == Some(0)) {
            return None;
        }
        let usage = facts.usage.as_ref().and_then(RecordedUsage::of);
        let config = record.generation_config.as_ref().map(JsonText::as_str);
        let config = config.and_then(|text| split_object(text).ok()).unwrap_or_default();
        let mode = config.iter().filter(|(name, _)| MODE.contains(&name.as_str()));
        let mut mode: Vec<_> = mode.map(|(name, raw)| (name.clone(), (*raw).to_owned())).collect();
        mode.sort_unstable();
        Some(Self {
            first: commit.id(),
            request,
            model: facts.model.clone(),
            mode,
            at: record.created_at,
            usage,
            facts,
            content: record.content,
        })
    }
}

/// Reads the tokens that a commit reports of the answer before it, where the answer itself has none.
pub(super) fn reported(commit: &Commit) -> Option<RecordedUsage> {
    RecordedUsage::of(&AnswerFacts::of(commit).usage?).filter(|usage| usage.prompt > 0)
}

impl RecordedUsage {
    /// Takes the tokens of a request, where what a cache had of it is known.
    fn of(tokens: &AnswerTokens) -> Option<Self> {
        let (prompt, read) = (tokens.input?, tokens.cache_read?);
        let written_1h = tokens.cache_write_1h.unwrap_or_default();
        Some(Self { prompt, read, written: tokens.cache_write, written_1h })
    }
}

/// The answers that were met, each once.
#[derive(Debug, Default)]
pub(super) struct Answers {
    list: Vec<Answer>,
    ids: AnswerIds,
}

impl Answers {
    pub(super) fn get(&self, place: usize) -> Option<&Answer> {
        self.list.get(place)
    }

    /// Finds the answer that a commit is a further part of; `adjacent` is the one right before it.
    pub(super) fn same(
        &self,
        root: CommitId,
        part: &Answer,
        adjacent: Option<usize>,
    ) -> Option<usize> {
        if part.facts.message_id.is_some() {
            let known = self.ids.find(root, part.content, &part.facts);
            // Reasoning may be recorded without the id of its message.
            return known.or_else(|| adjacent.filter(|place| self.is_open(*place)));
        }
        let before = adjacent.and_then(|place| Some((place, self.list.get(place)?)));
        // Two requests in a row are told apart by their usage.
        let (place, _) =
            before.filter(|(_, before)| before.usage.is_none() || part.usage.is_none())?;
        Some(place)
    }

    fn is_open(&self, place: usize) -> bool {
        self.list
            .get(place)
            .is_some_and(|answer| answer.facts.message_id.is_none() && answer.usage.is_none())
    }

    /// Takes what a later commit reports of it.
    pub(super) fn report(&mut self, place: usize, usage: RecordedUsage) {
        if let Some(answer) = self.list.get_mut(place) {
            answer.usage.get_or_insert(usage);
        }
    }

    /// Takes what a further part says.
    pub(super) fn join(&mut self, root: CommitId, place: usize, part: &Answer) {
        let Some(answer) = self.list.get_mut(place) else { return };
        // Parts repeat the numbers of their request.
        answer.usage = answer.usage.or(part.usage);
        answer.model = answer.model.take().or_else(|| part.model.clone());
        answer.at = answer.at.max(part.at);
        if answer.facts.message_id.is_none() {
            answer.facts.message_id.clone_from(&part.facts.message_id);
        }
        self.ids.add(root, part.content, &part.facts, place);
    }

    pub(super) fn push(&mut self, root: CommitId, answer: Answer) -> usize {
        let place = self.list.len();
        self.ids.add(root, answer.content, &answer.facts, place);
        self.list.push(answer);
        place
    }
}

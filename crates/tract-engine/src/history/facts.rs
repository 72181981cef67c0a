//! Facts about a whole history, for lists of conversations: times, counts, models, tokens, and the
//! prompts that a person wrote.
//!
//! The facts of a head are kept as a derived row of its commit. They are a function of the commit's
//! history, so they serve every branch that points to it, and a longer history is read back to the
//! nearest row only. Any row may be missing.

mod prompt;
mod row;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tract_core::{BlobId, Change, Commit, CommitId, DerivedKind, DerivedRow, Kind, Op};

use self::prompt::PromptText;
use crate::history::answer_facts::{AnswerFacts, AnswerTokens};
use crate::history::counts::is_shown_alone;
use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// Histories with fewer commits are read again each time: a row would be as large as they are.
const SMALL: u64 = 16;
/// Number of commits after a row from which another row is stored.
const NEXT_ROW: u64 = 64;
/// Number of messages that are read to find a prompt.
const CANDIDATES: usize = 8;
/// Maximum number of sizes of the context that are kept.
const SIZES: usize = 48;
/// Sizes of requests, in tokens, above which providers charge other prices.
const REQUEST_CLASSES: [u64; 9] =
    [32_000, 32_768, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000];

/// Tokens of the answers of one model on one day, for requests of similar size. A price applies to
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The model, if the commits name it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// The start of the day in UTC: microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub day_us: Option<i64>,
    /// The number of requests.
    pub requests: u64,
    /// Tokens of requests that were neither read from a prompt cache nor written to it.
    pub input: u64,
    /// Tokens of answers.
    pub output: u64,
    /// Tokens read from a prompt cache.
    pub cache_read: u64,
    /// Tokens written to a prompt cache.
    pub cache_write: u64,
    /// The part of `cache_write` with a lifetime of one hour.
    pub cache_write_1h: u64,
}

impl ModelUsage {
    /// Returns the sum of all tokens.
    pub fn all_tokens(&self) -> u64 {
        let counts = [self.output, self.cache_read, self.cache_write];
        counts.into_iter().fold(self.input, u64::saturating_add)
    }

    /// Returns the group of one answer.
    fn of(model: Option<&str>, at: Option<i64>, tokens: &AnswerTokens) -> Self {
        let cache_write = tokens.cache_write.unwrap_or_default();
        Self {
            model: model.map(str::to_owned),
            day_us: at.map(day_of),
            requests: 1,
            input: tokens.uncached().unwrap_or_default(),
            output: tokens.output.unwrap_or_default(),
            cache_read: tokens.cache_read.unwrap_or_default(),
            cache_write,
            cache_write_1h: tokens.cache_write_1h.unwrap_or_default().min(cache_write),
        }
    }

    /// Returns the class of the average request. All requests of a group are of one class, so it is
    /// also the class of each of them.
    fn class(&self) -> usize {
        let all = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        let request = all / self.requests.max(1);
        REQUEST_CLASSES.iter().take_while(|limit| request > **limit).count()
    }

    fn is_like(&self, other: &Self) -> bool {
        self.model == other.model && self.day_us == other.day_us && self.class() == other.class()
    }

    fn change(&mut self, other: &Self, change: impl Fn(u64, u64) -> u64) {
        for (sum, one) in [
            (&mut self.requests, other.requests),
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.cache_write_1h, other.cache_write_1h),
        ] {
            *sum = change(*sum, one);
        }
    }
}

/// Returns the start of the day in UTC of a time, both in microseconds since 1970.
pub(crate) fn day_of(at_us: i64) -> i64 {
    const DAY_US: i64 = 86_400_000_000;
    at_us.div_euclid(DAY_US).saturating_mul(DAY_US)
}

/// A prompt that a person wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prompt {
    /// The message: the commit that added it.
    slot: CommitId,
    /// The beginning of its text, on one line.
    pub(crate) text: String,
    /// Whether it is a command of the tool, such as `/review`. A prompt in words is preferred.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_command: bool,
}

/// Facts about a history, from its root to a commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryFacts {
    pub(crate) commits: u64,
    /// Messages that were added, whether or not they are still shown.
    pub(crate) messages: u64,
    /// Messages of the user that no tool inserted.
    pub(crate) prompts: u64,
    pub(crate) started_at: Option<i64>,
    pub(crate) active_at: Option<i64>,
    pub(crate) first_prompt: Option<Prompt>,
    pub(crate) last_prompt: Option<Prompt>,
    /// In order of their first answer.
    pub(crate) models: Vec<String>,
    /// The model of the last answer.
    pub(crate) model: Option<String>,
    /// Tokens of the last request and its answer.
    pub(crate) context_tokens: Option<u64>,
    pub(crate) usage: Vec<ModelUsage>,
    pub(crate) window: WindowSizes,
    last_answer: Option<LastAnswer>,
}

/// The size of the context at evenly spaced requests.
///
/// A longer history keeps every second size, then every fourth, and so on. Which ones depends only on
/// the number of requests, so it does not matter where the row was from which the facts were
/// continued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WindowSizes {
    /// The number of requests so far.
    requests: u64,
    /// Requests from one kept size to the next, as a power of two.
    step: u32,
    /// Tokens of the request and its answer.
    pub(crate) sizes: Vec<u64>,
}

impl WindowSizes {
    fn add(&mut self, size: u64) {
        if self.requests.is_multiple_of(1u64 << self.step) {
            self.sizes.push(size);
        }
        self.requests += 1;
        if self.sizes.len() > SIZES {
            let mut place = 0;
            self.sizes.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.step += 1;
        }
    }
}

/// The last answer with an id. The commits that follow may be further parts of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LastAnswer {
    id: String,
    counted: ModelUsage,
}

/// The facts of a history, and the row to store.
pub(crate) struct ReadFacts {
    pub(crate) facts: HistoryFacts,
    /// The row, if it is worth storing.
    pub(crate) row: Option<DerivedRow>,
}

/// The part of a commit that the facts depend on.
struct CommitPart {
    id: CommitId,
    is_message: bool,
    is_prompt: bool,
    /// Whether no further part of an earlier answer follows.
    ends_answers: bool,
    at: Option<i64>,
    content: Option<BlobId>,
    answer: Option<AnswerFacts>,
    /// The new versions of messages: slot and version.
    versions: Vec<(CommitId, CommitId)>,
}

impl CommitPart {
    async fn of(repo: &Repo, commit: &Commit) -> Result<Self> {
        let id = commit.id();
        let is_message = matches!(commit.op, Op::Append { .. }) && is_shown_alone(commit);
        let is_user = is_message && commit.kind == Some(Kind::User);
        let has_facts = commit.metadata.is_some() || commit.generation_config.is_some();
        let facts = has_facts.then(|| AnswerFacts::of(commit));
        // A reminder can be in front of a prompt, and a command is what a person typed: the text of
        // such a message decides.
        let is_typed = facts.as_ref().is_none_or(|facts| {
            let by = facts.injected.as_deref();
            matches!(by, None | Some("system_reminder" | "command")) && !facts.is_copied_context
        });
        let ends_answers = is_user && facts.as_ref().is_none_or(AnswerFacts::is_typed);
        let answer = facts.filter(|facts| facts.usage.is_some() || facts.model.is_some());
        let mut versions = Vec::new();
        if !matches!(commit.op, Op::Append { .. } | Op::Note | Op::Tools) {
            for change in repo.changes(commit).await? {
                if let Change::Version { slot, to, .. } = change {
                    versions.push((slot.resolve(id), to.resolve(id)));
                }
            }
        }
        let is_prompt = is_user && is_typed;
        let (at, content) = (commit.created_at, commit.content);
        Ok(Self { id, is_message, is_prompt, ends_answers, at, content, answer, versions })
    }
}

/// Decodes the row of a commit; `None` if it is damaged or of another version.
pub(crate) fn stored_facts(commit: CommitId, bytes: &[u8]) -> Option<HistoryFacts> {
    row::decode(commit, bytes)
}

/// Reads the facts of a history: from the nearest row, and the commits after it.
///
/// # Errors
/// When a commit is not stored, or the store fails.
pub(crate) async fn history_facts(repo: &Repo, head: CommitId) -> Result<ReadFacts> {
    match read(repo, head, true).await? {
        Some(facts) => Ok(facts),
        // A message of the row was edited, perhaps because it was erased. Its place may go to
        // another message, which only the whole history shows.
        None => Ok(read(repo, head, false).await?.expect("a whole history needs no row")),
    }
}

async fn read(repo: &Repo, head: CommitId, uses_rows: bool) -> Result<Option<ReadFacts>> {
    let mut parts: Vec<CommitPart> = Vec::new();
    let mut history = repo.history(head).pages(256, 4096);
    if uses_rows {
        history = history.stop_at(DerivedKind::History);
    }
    let mut facts = None;
    while facts.is_none() && history.peek().is_some() {
        for commit in history.next_page().await?.unwrap_or_default() {
            parts.push(CommitPart::of(repo, &commit).await?);
        }
        if let Some((id, bytes)) = history.row() {
            facts = row::decode(*id, bytes);
            if facts.is_none()
                && let Some(commit) = history.pass_row().await?
            {
                parts.push(CommitPart::of(repo, &commit).await?);
            }
        }
    }
    parts.reverse();
    let has_row = facts.is_some();
    let mut facts: HistoryFacts = facts.unwrap_or_default();
    let versions: HashMap<CommitId, CommitId> =
        parts.iter().flat_map(|part| part.versions.iter().copied()).collect();
    let prompts = [&facts.first_prompt, &facts.last_prompt];
    if prompts.into_iter().flatten().any(|prompt| versions.contains_key(&prompt.slot)) {
        return Ok(None);
    }
    let mut answers = AnswersById::new(&facts);
    for part in &parts {
        facts.add(part, &mut answers);
    }
    let is_whole = facts.find_prompts(repo, &parts, &versions).await?;
    let added = parts.len() as u64;
    let is_due = if has_row { added >= NEXT_ROW } else { added >= SMALL };
    let row = (is_due && is_whole).then(|| row::encode(head, &facts));
    Ok(Some(ReadFacts { facts, row }))
}

/// The counted tokens of the answers with an id.
struct AnswersById {
    known: HashMap<String, KnownAnswer>,
    /// The number of prompts so far that end earlier answers.
    prompts: u64,
}

/// An answer with an id, as its last commit reports it.
struct KnownAnswer {
    counted: ModelUsage,
    /// [`AnswersById::prompts`] before it.
    prompts: u64,
    content: Option<BlobId>,
}

impl KnownAnswer {
    /// Returns whether a commit with the id of this answer is part of it, or a copy. Some servers
    /// give all answers the same id, so one after another prompt is another answer.
    fn is_same(&self, counted: &ModelUsage, prompts: u64, content: Option<BlobId>) -> bool {
        let request = |usage: &ModelUsage| (usage.input, usage.cache_read, usage.cache_write);
        let is_copy = self.content == content && request(&self.counted) == request(counted);
        self.prompts == prompts || is_copy
    }
}

impl AnswersById {
    fn new(facts: &HistoryFacts) -> Self {
        let known = |answer: &LastAnswer| {
            let counted = answer.counted.clone();
            (answer.id.clone(), KnownAnswer { counted, prompts: 0, content: None })
        };
        Self { known: facts.last_answer.iter().map(known).collect(), prompts: 0 }
    }
}

impl HistoryFacts {
    /// Adds the next commit.
    fn add(&mut self, part: &CommitPart, answers: &mut AnswersById) {
        self.commits += 1;
        self.messages += u64::from(part.is_message);
        self.prompts += u64::from(part.is_prompt);
        if part.ends_answers {
            self.last_answer = None;
            answers.prompts += 1;
        }
        if let Some(at) = part.at {
            self.started_at = Some(self.started_at.map_or(at, |first| first.min(at)));
            self.active_at = Some(self.active_at.map_or(at, |last| last.max(at)));
        }
        if let Some(answer) = part.answer.as_ref().filter(|answer| !answer.is_copied_context) {
            self.add_answer(answer, part, answers);
        }
    }

    fn add_answer(&mut self, answer: &AnswerFacts, part: &CommitPart, answers: &mut AnswersById) {
        // Tools write such names for answers that no model made.
        let model = answer.model.as_deref().filter(|model| !model.starts_with('<'));
        if let Some(model) = model {
            if !self.models.iter().any(|known| known == model) {
                self.models.push(model.to_owned());
            }
            self.model = Some(model.to_owned());
        }
        let Some(tokens) = &answer.usage else { return };
        let counted = ModelUsage::of(answer.model.as_deref(), part.at, tokens);
        let mut is_new = true;
        if let Some(id) = &answer.message_id {
            let (prompts, content) = (answers.prompts, part.content);
            let known = answers.known.get(id);
            let known = known.filter(|it| it.is_same(&counted, prompts, content));
            if let Some(known) = known {
                is_new = false;
                // The parts of an answer repeat its numbers; the last one has those of all of it.
                if known.counted.output > counted.output {
                    return;
                }
                self.subtract(&known.counted.clone());
            }
            let known = KnownAnswer { counted: counted.clone(), prompts, content };
            answers.known.insert(id.clone(), known);
            self.last_answer = Some(LastAnswer { id: id.clone(), counted: counted.clone() });
        }
        let output = tokens.output.unwrap_or_default();
        let size = tokens.input.map(|input| input.saturating_add(output));
        // A tool writes 0 for an answer that no model made.
        if let Some(size) = size.filter(|_| is_new && tokens.input != Some(0)) {
            self.window.add(size);
        }
        self.context_tokens = size.or(self.context_tokens);
        match self.usage.iter_mut().find(|group| group.is_like(&counted)) {
            Some(group) => group.change(&counted, u64::saturating_add),
            None => self.usage.push(counted),
        }
    }

    fn subtract(&mut self, counted: &ModelUsage) {
        if let Some(group) = self.usage.iter_mut().find(|group| group.is_like(counted)) {
            group.change(counted, u64::saturating_sub);
        }
        self.usage.retain(|group| group.requests > 0);
    }

    /// Finds the first and the last prompt. Returns whether all messages that were read for it are
    /// readable.
    async fn find_prompts(
        &mut self,
        repo: &Repo,
        parts: &[CommitPart],
        versions: &HashMap<CommitId, CommitId>,
    ) -> Result<bool> {
        let slots = parts.iter().filter(|part| part.is_prompt).map(|part| part.id);
        let (oldest, newest) = (slots.clone().take(CANDIDATES), slots.rev().take(CANDIDATES));
        let mut search = PromptSearch { repo, versions, is_whole: true };
        if self.first_prompt.as_ref().is_none_or(|prompt| prompt.is_command)
            && let Some(prompt) = search.first(oldest.collect()).await?
            && (self.first_prompt.is_none() || !prompt.is_command)
        {
            self.first_prompt = Some(prompt);
        }
        if let Some(prompt) = search.first(newest.collect()).await? {
            self.last_prompt = Some(prompt);
        }
        Ok(search.is_whole)
    }
}

struct PromptSearch<'a> {
    repo: &'a Repo,
    versions: &'a HashMap<CommitId, CommitId>,
    is_whole: bool,
}

impl PromptSearch<'_> {
    /// Returns the first of some messages with a prompt in words, else the first command.
    async fn first(&mut self, slots: Vec<CommitId>) -> Result<Option<Prompt>> {
        let mut command = None;
        for slot in slots {
            let version = self.versions.get(&slot).copied().unwrap_or(slot);
            let content = match self.repo.content_of(version).await {
                Ok(content) => content,
                Err(Error::Erased(_)) => continue,
                // Damaged content is the subject of other verbs. Here it only has no title.
                Err(Error::Missing(_) | Error::Damaged { .. } | Error::Content(_)) => {
                    self.is_whole = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match prompt::text_of(&content) {
                Some(PromptText::Words(text)) => {
                    return Ok(Some(Prompt { slot, text, is_command: false }));
                }
                Some(PromptText::Command(text)) if command.is_none() => {
                    command = Some(Prompt { slot, text, is_command: true });
                }
                Some(PromptText::Command(_)) | None => {}
            }
        }
        Ok(command)
    }
}

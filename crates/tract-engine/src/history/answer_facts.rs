//! Facts about a model's answer that a commit carries: tokens, ids, model.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::Deserialize;
use tract_core::{BlobId, Commit, CommitId, JsonText, Kind, Op};

/// Facts in the metadata of a commit, which imports, recordings and runs write, and the model of
/// its generation config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerFacts {
    /// The model named by the generation config, else by the metadata.
    pub model: Option<String>,
    /// The provider's id of the API message. Several commits can be parts of the same message.
    pub message_id: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The provider's stop reason.
    pub stop_reason: Option<String>,
    /// Tokens of the request and the answer, as far as they are known.
    pub usage: Option<AnswerTokens>,
    /// The source of a user message that the user did not type.
    pub injected: Option<String>,
    /// Whether it repeats a message from before a compaction.
    pub is_copied_context: bool,
}

/// Tokens of one request and its answer; `None` if the provider did not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct AnswerTokens {
    /// Tokens of the whole request, cached ones included.
    #[serde(rename = "input_tokens")]
    pub input: Option<u64>,
    /// Tokens of the answer.
    #[serde(rename = "output_tokens")]
    pub output: Option<u64>,
    /// Tokens of the request that were read from a cache.
    #[serde(rename = "cached_tokens")]
    pub cache_read: Option<u64>,
    /// Tokens of the request that were written to a cache.
    #[serde(rename = "cache_write_tokens")]
    pub cache_write: Option<u64>,
    /// Tokens of `cache_write` with a lifetime of one hour; the others have five minutes.
    #[serde(rename = "cache_write_1h_tokens")]
    pub cache_write_1h: Option<u64>,
}

impl AnswerTokens {
    /// Returns the tokens of the request that were neither read from nor written to a cache.
    pub fn uncached(&self) -> Option<u64> {
        let cached = self.cache_read.unwrap_or_default();
        let written = self.cache_write.unwrap_or_default();
        Some(self.input?.saturating_sub(cached).saturating_sub(written))
    }

    /// Returns the counts of the request, without those of the answer.
    const fn of_request(&self) -> RequestTokens {
        [self.input, self.cache_read, self.cache_write]
    }
}

/// A place in the conversations, for [`AnswerIds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerPlace {
    /// The first commit of the conversation.
    pub root: CommitId,
    /// The prompt before the answer: a message that a user typed.
    pub prompt: Option<CommitId>,
}

impl AnswerPlace {
    /// Returns the start of a conversation. `root` is its first commit.
    pub const fn start(root: CommitId) -> Self {
        Self { root, prompt: None }
    }

    /// Moves on to the place after a commit.
    pub fn pass(&mut self, commit: &Commit) {
        if Self::is_prompt(commit) {
            self.prompt = Some(commit.id());
        }
    }

    /// Returns whether a commit is a message that a user typed, without what a tool inserts: a reminder
    /// may be in front of a prompt, but also between the parts of one answer.
    pub fn is_prompt(commit: &Commit) -> bool {
        let record = commit.record();
        let is_user = matches!(record.op, Op::Append { .. }) && record.kind == Some(Kind::User);
        is_user && AnswerFacts::of(commit).is_typed()
    }
}

/// Recognizes answers that occur in several conversations. A fork, or a session that was continued
/// in another file, repeats the commits of its beginning with other times and ids.
///
/// Two commits belong to one answer if they have the same message id of the provider, and
/// - follow the same prompt of a conversation, or
/// - have the same content, and their requests have the same tokens, or
/// - their requests have the same tokens, and one conversation is known as a copy of the other, or
///   the id is long enough to occur only once.
///
/// The id alone is not enough: some servers number their answers from 1, or give all of them one id.
#[derive(Clone, Debug, Default)]
pub struct AnswerIds {
    by_prompt: HashMap<(AnswerPlace, String), usize>,
    by_content: HashMap<(String, BlobId, RequestTokens), usize>,
    by_request: HashMap<(String, RequestTokens), (usize, CommitId)>,
    /// The conversation of which another one is a copy.
    copies: HashMap<CommitId, CommitId>,
}

/// The tokens of a request, which are final before its answer is.
type RequestTokens = [Option<u64>; 3];

/// Number of characters of an id that no server gives twice.
const LONG_ID: usize = 20;

impl AnswerIds {
    /// Returns the number of the answer that a commit is part or a copy of. `content` is the content
    /// of the commit.
    pub fn find(
        &self,
        place: AnswerPlace,
        content: Option<BlobId>,
        facts: &AnswerFacts,
    ) -> Option<usize> {
        let id = facts.message_id.as_ref()?;
        if let Some(number) = self.by_prompt.get(&(place, id.clone())) {
            return Some(*number);
        }
        let tokens = facts.usage?.of_request();
        let same = content.and_then(|content| self.by_content.get(&(id.clone(), content, tokens)));
        if let Some(number) = same {
            return Some(*number);
        }
        let (number, root) = self.by_request.get(&(id.clone(), tokens))?;
        let is_copy = self.original(place.root) == self.original(*root) || id.len() >= LONG_ID;
        (is_copy && place.root != *root).then_some(*number)
    }

    /// Records a commit as part of the answer with this number.
    pub fn add(
        &mut self,
        place: AnswerPlace,
        content: Option<BlobId>,
        facts: &AnswerFacts,
        number: usize,
    ) {
        let Some(id) = &facts.message_id else { return };
        self.by_prompt.entry((place, id.clone())).or_insert(number);
        let Some(tokens) = facts.usage.map(|usage| usage.of_request()) else { return };
        let request = (id.clone(), tokens);
        let (_, first) = *self.by_request.entry(request).or_insert((number, place.root));
        let Some(content) = content else { return };
        match self.by_content.entry((id.clone(), content, tokens)) {
            Entry::Vacant(entry) => drop(entry.insert(number)),
            Entry::Occupied(entry) => {
                let is_copy = *entry.get() == number && first != place.root;
                if is_copy && self.original(first) != place.root {
                    self.copies.entry(place.root).or_insert(first);
                }
            }
        }
    }

    /// Returns the conversation that a conversation is a copy of, or the conversation itself.
    fn original(&self, root: CommitId) -> CommitId {
        // A copy of a copy of a copy is rare, so the chain is short; the limit is for damaged data.
        let mut original = root;
        for _ in 0..16 {
            let Some(before) = self.copies.get(&original) else { break };
            original = *before;
        }
        original
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    model: Option<String>,
    message_id: Option<String>,
    request_id: Option<String>,
    stop_reason: Option<String>,
    usage: Option<AnswerTokens>,
    injected: Option<String>,
    copied_context: bool,
}

impl AnswerFacts {
    /// Returns whether a user typed the message with these facts, and no tool inserted it.
    pub(crate) fn is_typed(&self) -> bool {
        self.injected.is_none() && !self.is_copied_context
    }

    /// Returns the facts of a commit. Metadata of another shape is ignored.
    pub fn of(commit: &Commit) -> Self {
        #[derive(Deserialize)]
        struct Config {
            model: Option<String>,
        }
        let record = commit.record();
        let metadata: Metadata = read(record.metadata.as_ref()).unwrap_or_default();
        let config: Option<Config> = read(record.generation_config.as_ref());
        Self {
            model: config.and_then(|config| config.model).or(metadata.model),
            message_id: metadata.message_id,
            request_id: metadata.request_id,
            stop_reason: metadata.stop_reason,
            usage: metadata.usage,
            injected: metadata.injected,
            is_copied_context: metadata.copied_context,
        }
    }
}

fn read<'a, T: Deserialize<'a>>(text: Option<&'a JsonText>) -> Option<T> {
    serde_json::from_str(text?.as_str()).ok()
}

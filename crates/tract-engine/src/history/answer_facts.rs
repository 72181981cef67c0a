//! Facts about a model's answer that a commit carries: tokens, ids, model.

use std::collections::HashMap;

use serde::Deserialize;
use tract_core::{BlobId, Commit, CommitId, JsonText};

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
}

/// Recognizes answers that occur in several conversations. A fork, or a session that was continued
/// in another file, repeats the commits of its beginning with other times and ids.
///
/// Two commits belong to one answer if they have the same message id of the provider, and are in
/// one conversation or have the same content and tokens. The id alone is not enough between
/// conversations: some servers number their answers from 1.
#[derive(Clone, Debug, Default)]
pub struct AnswerIds {
    by_conversation: HashMap<(CommitId, String), usize>,
    by_content: HashMap<(String, BlobId, AnswerTokens), usize>,
}

impl AnswerIds {
    /// Returns the number of the answer that a commit is part or a copy of. `root` is the first
    /// commit of the conversation, `content` the content of the commit.
    pub fn find(
        &self,
        root: CommitId,
        content: Option<BlobId>,
        facts: &AnswerFacts,
    ) -> Option<usize> {
        let id = facts.message_id.as_ref()?;
        let in_conversation = self.by_conversation.get(&(root, id.clone()));
        let number =
            in_conversation.or_else(|| self.by_content.get(&(id.clone(), content?, facts.usage?)));
        number.copied()
    }

    /// Records a commit as part of the answer with this number.
    pub fn add(
        &mut self,
        root: CommitId,
        content: Option<BlobId>,
        facts: &AnswerFacts,
        number: usize,
    ) {
        let Some(id) = &facts.message_id else { return };
        self.by_conversation.entry((root, id.clone())).or_insert(number);
        if let (Some(content), Some(usage)) = (content, facts.usage) {
            self.by_content.entry((id.clone(), content, usage)).or_insert(number);
        }
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

//! What a commit says of the answer of a model that it is, or is a part of: tokens, ids, model.

use serde::Deserialize;
use tract_core::{Commit, JsonText};

/// What a commit says next to its message: members of its metadata that imports, recordings and runs
/// write, and the model of its generation config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnswerFacts {
    /// The model that the generation config names, else the metadata.
    pub model: Option<String>,
    /// The provider's id of the API message. Several commits may be parts of one.
    pub message_id: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// Why the answer ended, in the provider's word.
    pub stop_reason: Option<String>,
    /// Its tokens, as far as they are known.
    pub usage: Option<AnswerTokens>,
    /// What put a user's message into the conversation, where the user did not type it.
    pub injected: Option<String>,
    /// Whether it repeats a message of before a compaction.
    pub is_copied_context: bool,
}

/// Tokens of one request and its answer; absent where the provider did not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AnswerTokens {
    /// All of the request, what a cache had included.
    #[serde(rename = "input_tokens")]
    pub input: Option<u64>,
    /// The answer.
    #[serde(rename = "output_tokens")]
    pub output: Option<u64>,
    /// Tokens of the request that were read from a cache.
    #[serde(rename = "cached_tokens")]
    pub cache_read: Option<u64>,
    /// Tokens of the request that were written to a cache.
    #[serde(rename = "cache_write_tokens")]
    pub cache_write: Option<u64>,
}

impl AnswerTokens {
    /// Returns the tokens of the request that no cache had and none got.
    pub fn uncached(&self) -> Option<u64> {
        let cached = self.cache_read.unwrap_or_default();
        let written = self.cache_write.unwrap_or_default();
        Some(self.input?.saturating_sub(cached).saturating_sub(written))
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
    /// Reads what a commit says. Metadata in another shape says nothing.
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

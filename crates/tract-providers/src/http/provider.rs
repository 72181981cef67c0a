//! The providers: where they are, and how they want to be asked.

use std::fmt;

use tract_core::{ModelError, nearest};

use crate::dialect::Dialect;

/// What Anthropic is asked for when nobody says how long an answer may be; it demands a limit.
pub(super) const ANTHROPIC_MAX_TOKENS: u64 = 4096;

/// A provider, as `provider/model` names it.
///
/// | word | base url, and where the environment says it | key |
/// | --- | --- | --- |
/// | `openai` | `https://api.openai.com/v1`, `OPENAI_BASE_URL` | `OPENAI_API_KEY` |
/// | `responses` | as `openai` | `OPENAI_API_KEY` |
/// | `anthropic` | `https://api.anthropic.com`, `ANTHROPIC_BASE_URL` | `ANTHROPIC_API_KEY` |
/// | `ollama` | `http://127.0.0.1:11434`, `OLLAMA_HOST` | `OLLAMA_API_KEY`, needed by none |
///
/// Whoever speaks like OpenAI is `openai` with another base url; there no key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's Chat Completions.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Ollama's own chat API.
    Ollama,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Ollama];

    /// Returns the word.
    pub const fn as_str(self) -> &'static str {
        self.dialect().as_str()
    }

    /// Returns the dialect that it speaks.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::OpenAi => Dialect::OpenAi,
            Self::Responses => Dialect::Responses,
            Self::Anthropic => Dialect::Anthropic,
            Self::Ollama => Dialect::Ollama,
        }
    }

    /// Splits `provider/model`; the model's own name may hold slashes.
    ///
    /// # Errors
    /// When there is no slash, no model, or no such provider.
    pub fn split(name: &str) -> Result<(Self, &str), ModelError> {
        let refused = |why: String| ModelError::Other { message: why, source: None };
        let Some((word, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty())
        else {
            return Err(refused(format!(
                "expected provider/model such as openai/gpt-5.5, found {name:?}"
            )));
        };
        let known = Self::ALL.into_iter().find(|provider| provider.as_str() == word);
        let provider = known.ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str);
            let like = nearest(word, words);
            let hint = like.map(|like| format!("; did you mean {like:?}?")).unwrap_or_default();
            refused(format!("expected one of {}, found provider {word:?}{hint}", words.join(", ")))
        })?;
        Ok((provider, model))
    }

    pub(super) const fn default_base(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    pub(super) const fn base_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Ollama => "OLLAMA_HOST",
        }
    }

    pub(super) const fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Ollama => "OLLAMA_API_KEY",
        }
    }

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "chat/completions",
            Self::Responses => "responses",
            Self::Anthropic => "v1/messages",
            Self::Ollama => "api/chat",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_provider_and_model() {
        let (provider, model) = Provider::split("openai/meta-llama/Llama-3").expect("a name");
        assert_eq!((provider, model), (Provider::OpenAi, "meta-llama/Llama-3"));
        for (name, part) in [
            ("gpt-5.5", "expected provider/model"),
            ("openai/", "expected provider/model"),
            ("antropic/claude", "did you mean \"anthropic\"?"),
        ] {
            let error = Provider::split(name).expect_err("no name").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}

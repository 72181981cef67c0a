//! The providers' dialects and their rules for tools. To add a provider, add a row to
//! [`Dialect::ALL`] and [`Dialect::tools`].

use std::fmt;
use std::str::FromStr;

use crate::name::MAX_NAME;
use crate::shape::Shape;

/// The request format of a provider, including conversations, tools and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI Chat Completions, and every server with the same API.
    OpenAi,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Ollama's own chat API.
    Ollama,
    /// Google Gemini's `generateContent`.
    Gemini,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Ollama, Self::Gemini];

    /// Returns the name used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the names of all dialects, for messages: `openai, responses, …`.
    pub fn words() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Returns whether the provider can enforce a tool's schema.
    pub const fn has_strict_mode(self) -> bool {
        self.tools().strict.is_some()
    }

    /// Returns the rules for writing the tools of a request.
    pub(crate) const fn tools(self) -> ToolRules {
        let chat = ToolRules {
            shape: Shape::Nested,
            wrapper: Some("function"),
            is_typed: true,
            parameters: "parameters",
            needs_parameters: false,
            says_strict: true,
            carried: &[],
            takes_more: true,
            longest_name: Some(MAX_NAME),
            strict: Some(StrictMode::OpenAi),
        };
        match self {
            Self::OpenAi => chat,
            Self::Ollama => ToolRules {
                says_strict: false,
                takes_more: false,
                longest_name: None,
                strict: None,
                ..chat
            },
            Self::Gemini => ToolRules {
                shape: Shape::Gemini,
                wrapper: None,
                is_typed: false,
                parameters: "parametersJsonSchema",
                says_strict: false,
                strict: None,
                ..chat
            },
            Self::Responses => ToolRules {
                shape: Shape::Flat,
                wrapper: None,
                needs_parameters: true,
                carried: &[
                    ("defer_loading", "defer_loading"),
                    ("output_schema", "output_schema"),
                    ("outputSchema", "output_schema"),
                ],
                ..chat
            },
            Self::Anthropic => ToolRules {
                shape: Shape::Anthropic,
                wrapper: None,
                is_typed: false,
                parameters: "input_schema",
                needs_parameters: true,
                says_strict: false,
                carried: &[
                    ("strict", "strict"),
                    ("defer_loading", "defer_loading"),
                    ("cache_control", "cache_control"),
                    ("input_examples", "input_examples"),
                    ("eager_input_streaming", "eager_input_streaming"),
                ],
                strict: Some(StrictMode::Anthropic),
                ..chat
            },
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.as_str() == word);
        found.ok_or_else(|| format!("expected one of {}, found {word:?}", Self::words()))
    }
}

/// The rules for writing the tools of a request.
pub(crate) struct ToolRules {
    /// The shape that is sent unchanged.
    pub(crate) shape: Shape,
    /// The member that contains the function; `None` if the tool itself does.
    pub(crate) wrapper: Option<&'static str>,
    /// Whether the tool has `"type":"function"`.
    pub(crate) is_typed: bool,
    /// The name of the member with the arguments' schema.
    pub(crate) parameters: &'static str,
    /// Whether a tool without arguments needs a schema too.
    pub(crate) needs_parameters: bool,
    /// Whether `strict` is always written.
    pub(crate) says_strict: bool,
    /// Other members to copy: the name as given, and the name to write.
    pub(crate) carried: &'static [(&'static str, &'static str)],
    /// Whether unknown members are sent along in a tool of the provider's own shape.
    pub(crate) takes_more: bool,
    /// Maximum length of a name, in characters; `None` if any name is accepted.
    pub(crate) longest_name: Option<usize>,
    /// The subset of JSON Schema that its strict mode accepts.
    pub(crate) strict: Option<StrictMode>,
}

/// The subsets of JSON Schema that strict modes accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrictMode {
    OpenAi,
    Anthropic,
}

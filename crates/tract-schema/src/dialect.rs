//! The dialects of providers, and how each takes tools. A new provider is one more row of
//! [`Dialect::ALL`] and [`Dialect::tools`].

use std::fmt;
use std::str::FromStr;

use crate::name::MAX_NAME;
use crate::shape::Shape;

/// A provider's way to write requests: whose conversations, tools and replies are meant.
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
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Ollama, Self::Gemini];

    /// Returns the word used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the words of all dialects, for messages: `openai, responses, …`.
    pub fn words() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Returns whether the provider can be asked to enforce a tool's schema.
    pub const fn has_strict_mode(self) -> bool {
        self.tools().strict.is_some()
    }

    /// How a request's tools are written.
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

/// How the tools of a request are written.
pub(crate) struct ToolRules {
    /// The shape that goes out as given.
    pub(crate) shape: Shape,
    /// The member that holds the function, where it is not the tool itself.
    pub(crate) wrapper: Option<&'static str>,
    /// Whether the tool has `"type":"function"`.
    pub(crate) is_typed: bool,
    /// The name of the arguments' schema.
    pub(crate) parameters: &'static str,
    /// Whether a tool without arguments has a schema, too.
    pub(crate) needs_parameters: bool,
    /// Whether `strict` is always written.
    pub(crate) says_strict: bool,
    /// What else is carried over: the name as given, and as written.
    pub(crate) carried: &'static [(&'static str, &'static str)],
    /// Whether members that are not known here go along in a tool of its own shape.
    pub(crate) takes_more: bool,
    /// How long a name may be, in characters; without a limit, any name will do.
    pub(crate) longest_name: Option<usize>,
    /// The subset of JSON Schema that its strict mode takes.
    pub(crate) strict: Option<StrictMode>,
}

/// The subsets of JSON Schema that strict modes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrictMode {
    OpenAi,
    Anthropic,
}

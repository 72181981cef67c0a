//! The providers' dialects and their rules for tools. To add a provider, add a row to `dialects!`.

use std::fmt;
use std::str::FromStr;

use crate::google;
use crate::name::MAX_NAME;
use crate::shape::Shape;

/// The rules of Chat Completions, which the other dialects vary.
const CHAT: ToolRules = ToolRules {
    shape: Shape::Nested,
    wrapper: Some("function"),
    is_typed: true,
    parameters: "parameters",
    needs_parameters: false,
    needs_properties: true,
    says_strict: true,
    carried: &[],
    takes_more: true,
    longest_name: Some(MAX_NAME),
    begins_with_letter: false,
    strict: Some(StrictMode::OpenAi),
    owns_type: |_| false,
    own_members: &[],
};

/// Declares the dialects. Each row has a variant, its name on the command line, and the rules for
/// its tools.
macro_rules! dialects {
    ($($(#[$meaning:meta])* $variant:ident $name:literal = $rules:expr;)*) => {
        /// The request format of a provider, including conversations, tools and replies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Dialect {
            $($(#[$meaning])* $variant,)*
        }

        impl Dialect {
            /// All dialects.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name used on the command line.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the rules for writing the tools of a request.
            pub(crate) const fn tools(self) -> ToolRules {
                match self {
                    $(Self::$variant => $rules,)*
                }
            }
        }
    };
}

dialects! {
    /// OpenAI Chat Completions, and every server with the same API.
    OpenAi "openai" = ToolRules {
        // Routers with this API have types with a colon.
        owns_type: |kind| kind.contains(':'),
        ..CHAT
    };
    /// OpenAI Responses.
    Responses "responses" = ToolRules {
        shape: Shape::Flat,
        wrapper: None,
        needs_parameters: true,
        carried: &[
            ("defer_loading", "defer_loading"),
            ("output_schema", "output_schema"),
            ("outputSchema", "output_schema"),
        ],
        ..CHAT
    };
    /// Anthropic Messages.
    Anthropic "anthropic" = ToolRules {
        shape: Shape::Anthropic,
        wrapper: None,
        is_typed: false,
        parameters: "input_schema",
        needs_parameters: true,
        needs_properties: false,
        says_strict: false,
        carried: &[
            ("strict", "strict"),
            ("defer_loading", "defer_loading"),
            ("cache_control", "cache_control"),
            ("input_examples", "input_examples"),
            ("eager_input_streaming", "eager_input_streaming"),
        ],
        strict: Some(StrictMode::Anthropic),
        owns_type: |kind| kind == "mcp_toolset" || has_date(kind),
        ..CHAT
    };
    /// Ollama's own chat API.
    Ollama "ollama" = ToolRules {
        says_strict: false,
        takes_more: false,
        longest_name: None,
        strict: None,
        ..CHAT
    };
    /// Google Gemini's `generateContent`.
    Gemini "gemini" = ToolRules {
        shape: Shape::Gemini,
        wrapper: None,
        is_typed: false,
        parameters: "parametersJsonSchema",
        says_strict: false,
        begins_with_letter: true,
        strict: None,
        own_members: google::TOOLS,
        ..CHAT
    };
}

/// Returns whether a tool's type ends with a date of eight digits.
fn has_date(kind: &str) -> bool {
    kind.rsplit_once('_')
        .is_some_and(|(_, date)| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Dialect {
    /// Returns the names of all dialects, for messages: `openai, responses, …`.
    pub fn words() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Returns whether the provider can enforce a tool's schema.
    pub const fn has_strict_mode(self) -> bool {
        self.tools().strict.is_some()
    }

    /// Returns the dialect of a tool that its provider runs or defines itself, by its type.
    pub(crate) fn of_type(kind: &str) -> Self {
        // A dated type is Anthropic's even if it has a colon. Most types are OpenAI Responses'.
        let owner = Self::ALL.into_iter().rev().find(|dialect| (dialect.tools().owns_type)(kind));
        owner.unwrap_or(Self::Responses)
    }

    /// Returns the dialect of a tool without a name and a type, by its members.
    pub(crate) fn of_members(has: impl Fn(&str) -> bool) -> Option<Self> {
        let owns = |dialect: &Self| dialect.tools().own_members.iter().any(|member| has(member));
        Self::ALL.into_iter().find(owns)
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
    /// Whether an object schema without properties needs an empty `properties`.
    pub(crate) needs_properties: bool,
    /// Whether `strict` is always written.
    pub(crate) says_strict: bool,
    /// Other members to copy: the name as given, and the name to write.
    pub(crate) carried: &'static [(&'static str, &'static str)],
    /// Whether unknown members are sent along in a tool of the provider's own shape.
    pub(crate) takes_more: bool,
    /// Maximum length of a name, in characters; `None` if any name is accepted.
    pub(crate) longest_name: Option<usize>,
    /// Whether a name must begin with a letter or an underscore.
    pub(crate) begins_with_letter: bool,
    /// The subset of JSON Schema that its strict mode accepts.
    pub(crate) strict: Option<StrictMode>,
    /// Returns whether a type is that of a tool which the provider runs or defines itself.
    pub(crate) owns_type: fn(&str) -> bool,
    /// The members of tools without a name that the provider runs or defines itself.
    pub(crate) own_members: &'static [&'static str],
}

/// The subsets of JSON Schema that strict modes accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrictMode {
    OpenAi,
    Anthropic,
}

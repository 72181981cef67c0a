//! Faults of a prompt.

/// One thing that is wrong with a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptFault {
    /// A prompt has a namespace and a key.
    #[error("expected a {what} for the prompt, found none")]
    Empty {
        /// The name of the part.
        what: &'static str,
    },
    /// No section may have this key.
    #[error(
        "expected a key such as `guidance` (a-z, 0-9, then also `.`, `_`, `-`; up to 64), found {key:?}"
    )]
    BadKey {
        /// The key.
        key: String,
    },
    /// A section lacks a title.
    #[error("section {path}: expected a title, found none")]
    NoTitle {
        /// The section.
        path: String,
    },
    /// A section is shown as a summary and lacks one.
    #[error("section {path}: expected a summary to show, found none")]
    NoSummary {
        /// The section.
        path: String,
    },
    /// Two sections have one path.
    #[error("section {path}: expected one section of this path, found two")]
    DuplicateSection {
        /// The path.
        path: String,
    },
    /// Two tools have one name, in sections that are enabled or not.
    #[error("expected one tool named {name:?}, found it in {}", .sections.join(", "))]
    DuplicateTool {
        /// The name.
        name: String,
        /// The sections.
        sections: Vec<String>,
    },
    /// Providers refuse a tool's name.
    #[error("section {path}: providers refuse the tool name {name:?}; {suggestion:?} would do")]
    ToolName {
        /// The section.
        path: String,
        /// The name.
        name: String,
        /// One that they accept.
        suggestion: String,
    },
    /// A text has a place for a value that no parameter gives.
    #[error("section {path}: expected a field of its parameters, found ${{{name}}}{}", near(.nearest))]
    UnknownField {
        /// The section.
        path: String,
        /// The name in the text.
        name: String,
        /// The field that was probably meant.
        nearest: Option<String>,
    },
    /// The strict profile was asked for, and a tool or one of its examples lies outside of it.
    #[error("section {path}: tool {tool:?}: {why}")]
    Strict {
        /// The section.
        path: String,
        /// The tool.
        tool: String,
        /// The expected and the found content.
        why: String,
    },
    /// An example was given before any tool of its section.
    #[error("section {path}: expected a tool before an example, found none")]
    StrayExample {
        /// The section.
        path: String,
    },
    /// An example does not fit its tool.
    #[error("section {path}: an example of {tool:?} does not fit: {why}")]
    BadExample {
        /// The section.
        path: String,
        /// The tool.
        tool: String,
        /// Why.
        why: String,
    },
}

fn near(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean ${{{near}}}?"))
}

/// All that is wrong with a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PromptError(pub Vec<PromptFault>);

/// Why a prompt cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The parameters of a section were not bound.
    #[error("section {path}: expected a value of {params} to be bound, found none")]
    Unbound {
        /// The section.
        path: String,
        /// The type.
        params: &'static str,
    },
    /// A section is to be opened that there is not.
    #[error("expected the path of a section, found {path:?}")]
    UnknownSection {
        /// The path.
        path: String,
    },
}

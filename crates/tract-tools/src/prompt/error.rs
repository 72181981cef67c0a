//! Errors of prompts.

/// An error in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptFault {
    /// The namespace or the key is empty.
    #[error("expected a {what} for the prompt, found none")]
    Empty {
        /// The name of the part.
        what: &'static str,
    },
    /// The key of a section is invalid.
    #[error(
        "expected a key such as `guidance` (a-z, 0-9, then also `.`, `_`, `-`; up to 64), found {key:?}"
    )]
    BadKey {
        /// The key.
        key: String,
    },
    /// The title of a section is missing.
    #[error("section {path}: expected a title, found none")]
    NoTitle {
        /// The section.
        path: String,
    },
    /// A section is shown as a summary, but the summary is missing.
    #[error("section {path}: expected a summary to show, found none")]
    NoSummary {
        /// The section.
        path: String,
    },
    /// Two sections have the same path.
    #[error("section {path}: expected one section of this path, found two")]
    DuplicateSection {
        /// The path.
        path: String,
    },
    /// Two tools, in enabled or disabled sections, have the same name.
    #[error("expected one tool named {name:?}, found it in {}", .sections.join(", "))]
    DuplicateTool {
        /// The name.
        name: String,
        /// The sections.
        sections: Vec<String>,
    },
    /// Some provider rejects a tool's name.
    #[error("section {path}: providers refuse the tool name {name:?}; {suggestion:?} would do")]
    ToolName {
        /// The section.
        path: String,
        /// The name.
        name: String,
        /// A name that all providers accept.
        suggestion: String,
    },
    /// A text contains a placeholder that is not a field of the parameters.
    #[error("section {path}: expected a field of its parameters, found ${{{name}}}{}", near(.nearest))]
    UnknownField {
        /// The section.
        path: String,
        /// The name in the text.
        name: String,
        /// The field that was probably meant.
        nearest: Option<String>,
    },
    /// A tool or one of its examples violates the strict profile, which is enabled.
    #[error("section {path}: tool {tool:?}: {why}")]
    Strict {
        /// The section.
        path: String,
        /// The tool.
        tool: String,
        /// The expected and the actual content.
        why: String,
    },
    /// An example was added before any tool of its section.
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
        /// The reason.
        why: String,
    },
}

fn near(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |near| format!("; did you mean ${{{near}}}?"))
}

/// All errors in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PromptError(pub Vec<PromptFault>);

/// The error of a prompt that cannot be rendered.
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
    /// A section that is to be opened does not exist.
    #[error("expected the path of a section, found {path:?}")]
    UnknownSection {
        /// The path.
        path: String,
    },
}

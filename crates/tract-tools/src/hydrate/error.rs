//! Errors of calls, with their stage.

use std::fmt;

use serde::Serialize;
use tract_core::ToolError;
use tract_schema::Invalid;

/// The stage at which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Its arguments could not be read.
    Parse,
    /// Its name refers to no tool, or to several.
    Lookup,
    /// Its arguments do not fit the schema, or could not be validated.
    Validate,
    /// The tool's own type rejects the arguments.
    Instantiate,
    /// A policy denied it.
    Policy,
}

impl Stage {
    /// Returns the name used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Lookup => "lookup",
            Self::Validate => "validate",
            Self::Instantiate => "instantiate",
            Self::Policy => "policy",
        }
    }
}

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageError {
    /// The stage.
    pub stage: Stage,
    /// The stable code: the violated keyword of the schema, or another cause.
    pub code: String,
    /// The path in the arguments, such as `/edits/0/line`; `/` for the arguments as a whole.
    pub path: String,
    /// The expected and the actual content.
    pub message: String,
    /// Hints for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl StageError {
    /// Creates an error.
    pub fn new(
        stage: Stage,
        code: impl Into<String>,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (code, path, message) = (code.into(), path.into(), message.into());
        Self { stage, code, path, message, notes: Vec::new() }
    }

    /// Adds a hint.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(super) fn of_invalid(invalid: &Invalid) -> Self {
        Self::new(Stage::Validate, &invalid.keyword, &invalid.path, invalid.to_string())
    }

    pub(super) fn of_tool(error: &ToolError) -> Self {
        let failure = error.failure();
        let path = failure.path.as_deref().map_or("/".to_owned(), pointer);
        let mut stage_error = Self::new(Stage::Instantiate, error.code(), path, &failure.message);
        stage_error.notes = failure.notes.clone();
        stage_error
    }

    /// Returns whether other arguments could help.
    pub(super) fn is_of_arguments(&self) -> bool {
        let others = [
            "no_schema",
            "no_validator",
            "bad_schema",
            "too_large",
            "too_deep",
            "depth",
            "work",
            "deadline",
        ];
        !others.contains(&self.code.as_str())
    }

    /// Returns the text for the model.
    pub fn model_text(&self) -> String {
        self.notes.iter().fold(self.to_string(), |text, note| text + "\nnote: " + note)
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "/" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Returns a path such as `edits[0].line` as `/edits/0/line`.
fn pointer(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    out.push('/');
    for c in path.chars() {
        match c {
            '.' | '[' if !out.ends_with('/') => out.push('/'),
            '.' | '[' | ']' => {}
            c => out.push(c),
        }
    }
    out
}

//! Errors of calls, with texts for the model and for the operator.

use std::error::Error;
use std::fmt;

/// The fields shared by all errors.
#[derive(Debug, Default)]
pub struct ToolFailure {
    /// The text for the model.
    pub message: String,
    /// The path in the arguments, such as `edits[0].line`.
    pub path: Option<String>,
    /// Advice for the model.
    pub notes: Vec<String>,
    /// The text for the operator.
    pub operator: Option<String>,
    /// The cause, for the operator.
    pub source: Option<Box<dyn Error + Send + Sync>>,
    /// Whether a retry of the same call may succeed.
    pub retryable: bool,
    /// Whether the tool was started and its outcome is unknown.
    pub outcome_unknown: bool,
}

impl ToolFailure {
    fn new(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { message: message.into(), ..Self::default() })
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Error of a call.
///
/// ```
/// use tract_core::ToolError;
/// let error = ToolError::validation("expected a number, found \"many\"")
///     .at("limit")
///     .note("limit is between 1 and 500");
/// assert_eq!(error.code(), "validation");
/// assert_eq!(error.to_string(), "limit: expected a number, found \"many\"");
/// assert_eq!(error.model_text(), "limit: expected a number, found \"many\"\nnote: limit is between 1 and 500");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are invalid; the model can send better ones.
    Validation(Box<ToolFailure>),
    /// The tool requires that hidden sections of the prompt are shown before it continues.
    VisibilityExpansion {
        /// The keys of the sections to show.
        sections: Vec<String>,
        /// The reason.
        failure: Box<ToolFailure>,
    },
    /// The whole evaluation cannot continue: it was canceled, or a dependency is gone.
    Evaluation(Box<ToolFailure>),
    /// The deadline has passed.
    DeadlineExceeded(Box<ToolFailure>),
    /// A value does not have the type in the tool's definition. This is a bug of the tool.
    Type(Box<ToolFailure>),
    /// Any other error.
    Other(Box<ToolFailure>),
}

impl ToolError {
    /// Creates an error for invalid arguments.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::Validation(ToolFailure::new(message))
    }

    /// Requests that sections of the prompt are shown.
    pub fn visibility_expansion<S: Into<String>>(
        sections: impl IntoIterator<Item = S>,
        reason: impl Into<String>,
    ) -> Self {
        Self::VisibilityExpansion {
            sections: sections.into_iter().map(Into::into).collect(),
            failure: ToolFailure::new(reason),
        }
    }

    /// Creates an error that ends the whole evaluation.
    pub fn evaluation(message: impl Into<String>) -> Self {
        Self::Evaluation(ToolFailure::new(message))
    }

    /// Creates an error for a deadline that has passed.
    pub fn deadline_exceeded(message: impl Into<String>) -> Self {
        Self::DeadlineExceeded(ToolFailure::new(message))
    }

    /// Creates an error for a value that does not have the declared type.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::Type(ToolFailure::new(message))
    }

    /// Creates an error of the variant `Other`.
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(ToolFailure::new(message))
    }

    /// Sets the path in the arguments, such as `edits[0].line`.
    #[must_use]
    pub fn at(self, path: impl Into<String>) -> Self {
        self.with(|failure| failure.path = Some(path.into()))
    }

    /// Adds advice for the model.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        self.with(|failure| failure.notes.push(note.into()))
    }

    /// Sets the text that only the operator sees.
    #[must_use]
    pub fn operator(self, text: impl Into<String>) -> Self {
        self.with(|failure| failure.operator = Some(text.into()))
    }

    /// Sets the cause, for the operator.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.with(|failure| failure.source = Some(source.into()))
    }

    /// Marks the failure as temporary: the same call may succeed later.
    #[must_use]
    pub fn retryable(self) -> Self {
        self.with(|failure| failure.retryable = true)
    }

    /// Returns whether a retry of the same call may succeed.
    pub fn is_retryable(&self) -> bool {
        self.failure().retryable
    }

    /// Marks the outcome as unknown: the tool was started, did not answer, and may have run.
    #[must_use]
    pub fn outcome_unknown(self) -> Self {
        self.with(|failure| failure.outcome_unknown = true)
    }

    /// Returns whether the tool may have run although it did not answer.
    pub fn is_outcome_unknown(&self) -> bool {
        self.failure().outcome_unknown
    }

    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Validation(_) => "validation",
            Self::VisibilityExpansion { .. } => "visibility_expansion",
            Self::Evaluation(_) => "evaluation",
            Self::DeadlineExceeded(_) => "deadline_exceeded",
            Self::Type(_) => "type",
            Self::Other(_) => "other",
        }
    }

    /// Returns the fields shared by all errors.
    pub fn failure(&self) -> &ToolFailure {
        match self {
            Self::Validation(failure)
            | Self::VisibilityExpansion { failure, .. }
            | Self::Evaluation(failure)
            | Self::DeadlineExceeded(failure)
            | Self::Type(failure)
            | Self::Other(failure) => failure,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut ToolFailure)) -> Self {
        match &mut self {
            Self::Validation(failure)
            | Self::VisibilityExpansion { failure, .. }
            | Self::Evaluation(failure)
            | Self::DeadlineExceeded(failure)
            | Self::Type(failure)
            | Self::Other(failure) => change(failure),
        }
        self
    }

    /// Returns the advice for the model.
    pub fn notes(&self) -> &[String] {
        &self.failure().notes
    }

    /// Returns the text for the model: the message, and a line for each note.
    pub fn model_text(&self) -> String {
        let mut out = self.to_string();
        for note in self.notes() {
            out.push_str("\nnote: ");
            out.push_str(note);
        }
        out
    }

    /// Returns the text for the operator: the message, the operator's text, and all causes.
    pub fn operator_text(&self) -> String {
        let mut out = format!("{}: {self}", self.code());
        if let Some(text) = &self.failure().operator {
            out.push_str("; ");
            out.push_str(text);
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            out.push_str("; caused by: ");
            out.push_str(&error.to_string());
            cause = error.source();
        }
        out
    }

    /// Returns whether this error ends the evaluation. The call is answered in any case.
    pub fn ends_evaluation(&self) -> bool {
        match self {
            Self::VisibilityExpansion { .. } | Self::Evaluation(_) | Self::DeadlineExceeded(_) => {
                true
            }
            Self::Validation(_) | Self::Type(_) | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure().fmt(f)
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.failure().source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::other(error.to_string()).caused_by(error)
    }
}

impl From<std::fmt::Error> for ToolError {
    fn from(error: std::fmt::Error) -> Self {
        Self::other("the result could not be written").caused_by(error)
    }
}

impl From<serde_json::Error> for ToolError {
    fn from(error: serde_json::Error) -> Self {
        Self::type_error(error.to_string()).caused_by(error)
    }
}

impl From<Box<dyn Error + Send + Sync>> for ToolError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::other(error.to_string()).caused_by(error)
    }
}

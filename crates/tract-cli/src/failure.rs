//! Failures of commands, with their exit codes.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::Serialize;
use tract::store::hide_passwords;

use crate::escape;
use crate::style::{BAD, BOLD, GOOD, Styled};

/// The result of a step of a command.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// The answer is negative: a conflict, a refused line, damage.
pub(crate) const NO: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The store is unavailable or damaged.
pub(crate) const STORE: u8 = 3;
/// It was interrupted.
#[allow(dead_code, reason = "only commands of some features wait so long")]
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command ends early. It serializes as the word, the sentence and the way out.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    pub(crate) exit: u8,
    /// The stable word for it.
    pub(crate) code: &'static str,
    /// Empty when the command has said it already.
    message: String,
    notes: Vec<String>,
    #[serde(skip)]
    causes: Vec<String>,
}

/// The JSON document of a refused line of the input.
#[derive(Serialize)]
pub(crate) struct RefusedLine<'a> {
    /// From 1.
    pub(crate) line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<&'a str>,
    pub(crate) error: &'a Failure,
}

impl<'a> RefusedLine<'a> {
    pub(crate) fn new(line: usize, error: &'a Failure) -> Self {
        Self { line, id: None, mark: None, error }
    }
}

impl Failure {
    fn new(exit: u8, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code,
            message: hide_passwords(&message.into()),
            notes: Vec::new(),
            causes: Vec::new(),
        }
    }

    /// The command line asks for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message)
    }

    /// The command did its work, and the answer is negative.
    pub(crate) fn no(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(NO, code, message)
    }

    /// The command did its work, and has already reported the negative answer.
    pub(crate) fn reported_no() -> Self {
        Self::new(NO, "no", "")
    }

    /// Ends a command that has said already whether the answer is yes.
    pub(crate) fn unless(yes: bool) -> Outcome<()> {
        if yes { Ok(()) } else { Err(Self::reported_no()) }
    }

    /// A program that was run has ended with this code, which is the command's own.
    #[cfg(feature = "record")]
    pub(crate) fn exited(code: u8) -> Self {
        Self::new(code, "exited", "")
    }

    /// The command needs a store, and none was found.
    pub(crate) fn no_store(folder: &Path) -> Self {
        let folder = folder.display();
        Self::new(STORE, "no_store", format!("no store in {folder} or above it")).note(
            "`tract init` creates one here; `--store sqlite:PATH` or TRACT_STORE names another",
        )
    }

    /// A file named on the command line cannot be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        let failure = Self::new(USAGE, "file", format!("{}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::NotFound => failure.note("check the path; `-` reads standard input"),
            _ => failure,
        }
    }

    /// Stdout did not take all that was written.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        Self::new(NO, "output", format!("standard output: {error}"))
            .note("the output is incomplete; what the command stores is stored")
    }

    /// Something does not become JSON.
    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::new(NO, "bad_value", error.to_string())
    }

    /// A line of a stream is refused.
    pub(crate) fn of_line(error: &tract::engine::LineError) -> Self {
        Self { notes: error.notes(), ..Self::new(NO, error.code(), error.to_string()) }
    }

    /// Says which line of a file it is about.
    #[must_use]
    pub(crate) fn at_line(mut self, file: &Path, line: usize) -> Self {
        self.message = format!("{} line {line}: {}", file.display(), self.message);
        self
    }

    /// States the tool of a list that the failure is about, counted from 1.
    #[must_use]
    pub(crate) fn at_tool(mut self, number: usize) -> Self {
        self.message = format!("tool {number}: {}", self.message);
        self
    }

    /// Adds a way out.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(hide_passwords(&note.into()));
        self
    }

    /// Adds the ways out that an error knows.
    #[must_use]
    pub(crate) fn notes(self, notes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        notes.into_iter().fold(self, Self::note)
    }

    /// Replaces advice to run this very verb, which has just failed.
    #[must_use]
    pub(crate) fn advise_other_than(mut self, verb: &str, instead: &str) -> Self {
        let advised = self.notes.len();
        let named = format!("`{verb}`");
        self.notes.retain(|note| !note.contains(&named));
        if self.notes.len() < advised {
            self.notes.push(instead.to_owned());
        }
        self
    }

    /// Marks it as interrupted.
    #[must_use]
    #[allow(dead_code, reason = "only commands of some features wait so long")]
    pub(crate) fn interrupted(self) -> Self {
        Self { exit: INTERRUPTED, ..self }
    }

    /// Whether it is the store that failed, so that continuing makes no sense.
    pub(crate) fn is_of_store(&self) -> bool {
        self.exit == STORE
    }

    /// Whether there is no store at all, in contrast to one that cannot be opened.
    pub(crate) fn is_no_store(&self) -> bool {
        self.code == "no_store"
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Returns its JSON document.
    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::json!({ "error": self })
    }

    /// Returns what happened and a way out, for where there is one line.
    #[cfg(feature = "ui")]
    pub(crate) fn one_line(&self) -> String {
        match self.notes.first() {
            Some(note) => format!("{}; {note}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns the lines that people read.
    pub(crate) fn for_people(&self) -> String {
        let label = format!("error[{}]", self.code);
        let mut out = format!("{}: {}\n", Styled(BAD, label), escape::line(&self.message));
        for cause in &self.causes {
            let _ = writeln!(out, "  {}: {}", Styled(BOLD, "cause"), escape::line(cause));
        }
        for note in &self.notes {
            let _ = writeln!(out, "  {}", note_line(note));
        }
        out
    }
}

/// A way out, as people see it: green where there are colors.
pub(crate) fn note_line(note: &str) -> String {
    Styled(GOOD, format!("note: {}", escape::line(note))).to_string()
}

/// What `?` meets in the verbs, each by way of the library's own error.
macro_rules! from {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                tract::Error::from(error).into()
            }
        }
    )*};
}

from!(
    tract::engine::Error,
    tract::core::StoreError,
    tract::core::json::JsonError,
    tract::core::BadName,
    tract::forms::FormError,
    tract::import::RecordingError,
);

impl From<tract::Error> for Failure {
    fn from(error: tract::Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors repeat their cause in their own sentence.
            if !error.to_string().contains(&text) {
                causes.push(hide_passwords(&text));
            }
            source = cause.source();
        }
        let exit = if error.is_store_failure() { STORE } else { NO };
        Self { causes, notes: error.notes(), ..Self::new(exit, error.code(), error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_the_way_out() {
        let failure = Failure::usage("no such thing: \"\u{1b}[31m\"").note("try another");
        assert!(failure.for_people().contains("\u{1b}[32mnote: try another"), "green");
        let people = anstream::adapter::strip_str(&failure.for_people()).to_string();
        assert_eq!(people, "error[usage]: no such thing: \"\\x1b[31m\"\n  note: try another\n");
        let json = failure.document().to_string();
        assert!(json.starts_with(r#"{"error":{"code":"usage","message":"#), "{json}");
        assert!(json.contains(r#""notes":["try another"]"#), "{json}");
        assert_eq!(failure.exit, USAGE);
    }
}

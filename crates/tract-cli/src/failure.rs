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
/// The command was interrupted.
#[allow(dead_code, reason = "only commands of some features wait so long")]
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command ends early. It serializes with its code, message and advice.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(skip)]
    pub(crate) exit: u8,
    /// The stable code.
    pub(crate) code: &'static str,
    /// Empty if the command has already printed it.
    message: String,
    notes: Vec<String>,
    #[serde(skip)]
    causes: Vec<String>,
}

/// The JSON document of a refused line of the input.
#[derive(Serialize)]
pub(crate) struct RefusedLine<'a> {
    /// The line number, from 1.
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

    /// The arguments are invalid.
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

    /// Ends a command that has already printed its answer, with exit code 0 or 1.
    pub(crate) fn unless(yes: bool) -> Outcome<()> {
        if yes { Ok(()) } else { Err(Self::reported_no()) }
    }

    /// A program that the command ran has ended with this exit code, which becomes that of the
    /// command.
    #[cfg(feature = "record")]
    pub(crate) fn exited(code: u8) -> Self {
        Self::new(code, "exited", "")
    }

    /// The command needs a store, and none was found.
    pub(crate) fn no_store(folder: &Path) -> Self {
        let folder = folder.display();
        Self::new(STORE, "no_store", format!("no store in {folder} or above it")).note(
            "`tract init` and `tract import` create one here; `--store sqlite:PATH` or TRACT_STORE \
             names another",
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

    /// Stdout could not be written.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        Self::new(NO, "output", format!("standard output: {error}"))
            .note("the output is incomplete; what the command stores is stored")
    }

    /// A value cannot be serialized to JSON.
    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::new(NO, "bad_value", error.to_string())
    }

    /// A line of a stream is rejected.
    pub(crate) fn of_line(error: &tract::engine::LineError) -> Self {
        Self { notes: error.notes(), ..Self::new(NO, error.code(), error.to_string()) }
    }

    /// Adds the line number in a file.
    #[must_use]
    pub(crate) fn at_line(mut self, file: &Path, line: usize) -> Self {
        self.message = format!("{} line {line}: {}", file.display(), self.message);
        self
    }

    /// Adds the number of the tool in a list, from 1.
    #[must_use]
    pub(crate) fn at_tool(mut self, number: usize) -> Self {
        self.message = format!("tool {number}: {}", self.message);
        self
    }

    /// Adds a piece of advice.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(hide_passwords(&note.into()));
        self
    }

    /// Adds the advice of an error.
    #[must_use]
    pub(crate) fn notes(self, notes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        notes.into_iter().fold(self, Self::note)
    }

    /// Replaces advice to run the verb that has just failed.
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

    /// Returns whether the store failed, so that continuing is pointless.
    pub(crate) fn is_of_store(&self) -> bool {
        self.exit == STORE
    }

    /// Returns whether no store was found, in contrast to one that cannot be opened.
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

    /// Returns the message with a piece of advice on one line.
    #[cfg(feature = "ui")]
    pub(crate) fn one_line(&self) -> String {
        match self.notes.first() {
            Some(note) => format!("{}; {note}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns the lines for people.
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

/// A piece of advice for people, in green.
pub(crate) fn note_line(note: &str) -> String {
    Styled(GOOD, format!("note: {}", escape::line(note))).to_string()
}

/// Converts the errors that verbs return with `?`, each through the library's error.
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
            // Many errors repeat their cause in their own message.
            if !error.to_string().contains(&text) {
                causes.push(hide_passwords(&text));
            }
            source = cause.source();
        }
        let exit = if error.is_store_failure() { STORE } else { NO };
        let mut notes = error.notes();
        let is_unknown = matches!(error.code(), "unknown_branch" | "unknown_revision");
        if is_unknown && !notes.iter().any(|note| note.starts_with("did you mean")) {
            notes.push("`tract sessions WORDS` finds a conversation by its title".to_owned());
        }
        Self { causes, notes, ..Self::new(exit, error.code(), error.to_string()) }
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

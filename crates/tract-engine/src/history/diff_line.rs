//! The printed form of a diff: the lines that the library displays and the command line colors.

use std::fmt;

/// The kind of a line in a printed diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLineKind {
    /// The heading of a message: its number, role and commit.
    Heading,
    /// Only in the second side.
    Added,
    /// Only in the first side.
    Removed,
    /// In both sides, with a difference.
    Changed,
    /// In both sides, or an explanation of the line before.
    Context,
    /// The counts of the comparison.
    Summary,
}

/// One line of a printed diff; `Display` writes its sign and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// Its kind.
    pub kind: DiffLineKind,
    /// Its text without the sign and without line breaks. Not escaped for terminals.
    pub text: String,
}

impl DiffLine {
    pub(crate) fn new(kind: DiffLineKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Returns its first characters: `+ `, `- `, `~ ` or two spaces; empty for a heading.
    pub fn sign(&self) -> &'static str {
        match self.kind {
            DiffLineKind::Added => "+ ",
            DiffLineKind::Removed => "- ",
            DiffLineKind::Changed => "~ ",
            DiffLineKind::Context => "  ",
            DiffLineKind::Heading | DiffLineKind::Summary => "",
        }
    }
}

impl fmt::Display for DiffLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sign(), self.text)
    }
}

/// Writes lines without a line break after the last one.
pub(crate) fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[DiffLine]) -> fmt::Result {
    for (place, line) in lines.iter().enumerate() {
        if place > 0 {
            f.write_str("\n")?;
        }
        write!(f, "{line}")?;
    }
    Ok(())
}

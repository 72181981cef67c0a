//! The colors of all output.

use std::fmt;

use anstyle::{AnsiColor, Style};

/// Ids of commits.
pub(crate) const ID: Style = AnsiColor::Yellow.on_default();
/// Branches, tags and HEAD.
pub(crate) const REF: Style = AnsiColor::Cyan.on_default().bold();
/// Success, and additions.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Errors, and removals.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Changes, and warnings.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Secondary text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Headings of the help, in clap's style.
pub(crate) const HEADING: Style = Style::new().bold().underline();
/// Emphasis.
pub(crate) const BOLD: Style = Style::new().bold();

/// The colors for the lines of a graph, used in turn.
const LINES: [Style; 6] = [
    AnsiColor::Red.on_default(),
    AnsiColor::Green.on_default(),
    AnsiColor::Yellow.on_default(),
    AnsiColor::Blue.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Cyan.on_default(),
];

/// Returns the color of a line of a graph.
pub(crate) fn graph_line(line: usize) -> Style {
    LINES[line % LINES.len()]
}

/// Returns the color of a word for a kind or an operation.
pub(crate) fn kind(word: &str) -> Style {
    match word {
        "system" => AnsiColor::Magenta.on_default(),
        "user" => AnsiColor::Blue.on_default(),
        "assistant" => AnsiColor::Green.on_default(),
        "result" | "tool_result" => AnsiColor::Cyan.on_default(),
        "edit" | "annotate" | "compress" | "revert" | "merge" | "tools" => {
            AnsiColor::Yellow.on_default()
        }
        _ => DIM,
    }
}

/// Text in a style. The style is written only if the output has colors.
pub(crate) struct Styled<T>(pub(crate) Style, pub(crate) T);

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.0.render(), self.1, self.0.render_reset())
    }
}

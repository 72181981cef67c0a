//! The help of `tract` as a whole: its verbs, grouped by what one wants to do.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::style::{self, HEADING, Styled};

/// The verbs, each in one group. A verb that was left out of the build is left out of the help.
const GROUPS: [(&str, &[&str]); 12] = [
    ("Start", &["demo", "init", "import", "record", "status", "completions"]),
    ("Record", &["commit", "apply", "branch", "checkout", "tag"]),
    ("Change", &["edit", "annotate", "compress", "revert", "merge", "undo"]),
    ("History", &["cherry-pick", "rebase", "drop", "insert", "reset"]),
    ("Clean up", &["prune", "gc", "repack", "erase", "redact"]),
    ("Look", &["log", "cat", "show", "diff", "view", "ui"]),
    ("Search", &["search", "grep", "blame", "lost", "expand"]),
    ("Compile", &["compile", "why-miss", "usage", "compress-tool-calls", "summarization"]),
    ("Tools", &["tools", "mcp", "select", "hydrate", "turns"]),
    ("Agents", &["chat", "generate", "run", "replay", "pending"]),
    ("Move", &["remote", "fetch", "pull", "push", "bundle"]),
    ("Stores", &["repos", "stats", "copy", "export", "verify", "conformance"]),
];

/// The order of the help: clap lists subcommands in one block, so the groups take its place.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}\
                        {options}\n\n{after-help}";

/// Returns the command line, with the verbs grouped in its help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let verbs = groups(&command);
    command.before_help(verbs).help_template(TEMPLATE)
}

fn groups(command: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()).map(|verb| verb.len()).max();
    let width = width.unwrap_or(0);
    let mut out = String::new();
    for (title, verbs) in GROUPS {
        let _ = writeln!(out, "{}", Styled(HEADING, format!("{title}:")));
        for verb in verbs {
            if let Some(about) = command.find_subcommand(verb).and_then(Command::get_about) {
                let name = Styled(style::BOLD, format!("{verb:width$}"));
                let _ = writeln!(out, "  {name}  {about}");
            }
        }
        out.push('\n');
    }
    let _ = write!(out, "{}", Styled(HEADING, "Options:"));
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        let once: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(once.len(), grouped.len(), "a verb is in two groups");
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(once.contains(verb.get_name()), "{} is in no group", verb.get_name());
        }
        assert!(GROUPS.iter().all(|(_, verbs)| verbs.len() <= 6), "a group is too long");
    }

    #[test]
    fn a_line_of_the_help_fits_a_terminal_of_80_columns() {
        let text = anstream::adapter::strip_str(&groups(&Cli::command())).to_string();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
    }
}

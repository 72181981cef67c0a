//! The command line of `tract` with its help, in which verbs are grouped by purpose.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, FromArgMatches as _};

use crate::args::Cli;
use crate::global::global_options;
use crate::style::{self, HEADING, Styled};
use crate::verb::GROUPS;

/// The template of the help. Clap lists subcommands in one block, so the groups replace the list.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}\
                        {options}\n\n{after-help}";

/// The help of a verb: options of every command are in one place instead of below each verb.
const VERB_TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}\n\n\
                             Every command takes --store, --json and more: tract help options\
                             {after-help}";

/// Returns the command line, with the verbs grouped in its help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let mut before = groups(&command);
    let _ = write!(before, "{}\n{}", Styled(HEADING, "Options:"), global_options().ansi());
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command =
        names.iter().fold(command, |command, name| command.mut_subcommand(name, verb_help));
    let command = command.mut_subcommand("options", |options| {
        options.help_template("{about-with-newline}{after-help}").after_help(global_options())
    });
    command.before_help(before).help_template(TEMPLATE)
}

/// Parses a command line, and returns it with the verb's name. The first word is the program's
/// name.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(Cli, String), clap::Error> {
    let mut command = command();
    let matches = command
        .try_get_matches_from_mut(arguments)
        .map_err(|error| with_similar_verb(error, &command))?;
    let verb = matches.subcommand_name().unwrap_or_default().to_owned();
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, verb))
}

/// Verbs of other programs, and the verb that does the same here.
const FOREIGN_VERBS: [(&str, &str); 6] = [
    ("find", "search"),
    ("history", "log"),
    ("list", "sessions"),
    ("ls", "sessions"),
    ("rm", "drop"),
    ("web", "view"),
];

/// Suggests the most similar verb only: of several, the user would try the first.
fn with_similar_verb(mut error: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let is_verb = |name: &String| command.find_subcommand(name).is_some();
    match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) if !names.iter().all(is_verb) => return error,
        _ => {}
    }
    let foreign = FOREIGN_VERBS.iter().find(|(name, _)| name == word).map(|(_, verb)| *verb);
    let verbs = || command.get_subcommands().map(Command::get_name);
    let similar = foreign.or_else(|| tract::core::nearest(word, verbs()));
    if let Some(similar) = similar.map(str::to_owned) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![similar]));
    }
    error
}

/// Sets the help of a verb and of its subcommands.
fn verb_help(verb: Command) -> Command {
    let names: Vec<String> =
        verb.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let verb = names.iter().fold(verb, |verb, name| verb.mut_subcommand(name, verb_help));
    verb.help_template(VERB_TEMPLATE)
}

fn groups(command: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter()).map(|verb| verb.len()).max();
    let width = width.unwrap_or(0);
    let mut out = String::new();
    for (title, verbs) in GROUPS.iter().filter(|(title, _)| !title.is_empty()) {
        let _ = writeln!(out, "{}", Styled(HEADING, format!("{title}:")));
        for verb in *verbs {
            if let Some(about) = command.find_subcommand(verb).and_then(Command::get_about) {
                let name = Styled(style::BOLD, format!("{verb:width$}"));
                let _ = writeln!(out, "  {name}  {about}");
            }
        }
        out.push('\n');
    }
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

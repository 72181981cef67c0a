//! Shell completions computed by the binary, which knows branches, revisions, tools and forms.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io::Write;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use tract::core::text::is_format_control;
use tract::forms::Form;
use tract::{OpenOptions, Tract};

use crate::verb::completions::VARIABLE;
use crate::{context, help, shell};

/// Maximum number of offered names: a store may have a branch for each of ten thousand recordings.
const MAX_CANDIDATES: usize = 500;

/// Answers a shell that asks for completions; returns whether one did.
///
/// # Errors
/// If the shell is unknown, or stdout cannot be written.
pub(crate) fn answer(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let folder = std::env::current_dir().ok();
    let bash = Quoted { shell: &Bash, write: write_bash };
    let powershell = Quoted { shell: &Powershell, write: write_powershell };
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(Shells(&[&bash, &Elvish, &Fish, &powershell, &Zsh]))
        .try_complete(arguments.iter().cloned(), folder.as_deref())
}

/// A shell that inserts offers into the command line unquoted, so that a name such as `x;touch y`
/// would be two commands. Each offer is quoted.
struct Quoted {
    shell: &'static dyn EnvCompleter,
    write: WriteOffers,
}

/// Writes the possible continuations of a command line.
type WriteOffers =
    fn(&mut Command, Vec<OsString>, Option<&Path>, &mut dyn Write) -> std::io::Result<()>;

impl EnvCompleter for Quoted {
    fn name(&self) -> &'static str {
        self.shell.name()
    }

    fn is(&self, name: &str) -> bool {
        self.shell.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        self.shell.write_registration(var, name, bin, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        (self.write)(command, words, folder, out)
    }
}

fn write_bash(
    command: &mut Command,
    words: Vec<OsString>,
    folder: Option<&Path>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
    let separator = variable("_CLAP_IFS").unwrap_or_else(|| "\n".to_owned());
    let found = complete(command, words, index.unwrap_or_default(), folder)?;
    let values = found
        .iter()
        .filter_map(|candidate| shell::bash_word(&candidate.get_value().to_string_lossy()));
    write!(out, "{}", values.collect::<Vec<_>>().join(&separator))
}

fn write_powershell(
    command: &mut Command,
    words: Vec<OsString>,
    folder: Option<&Path>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let index = words.len().saturating_sub(1);
    for candidate in complete(command, words, index, folder)? {
        let value = candidate.get_value().to_string_lossy();
        let Some(word) = shell::powershell_word(&value) else { continue };
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        match help.lines().next() {
            Some(help) => writeln!(out, "{word}\t{help}")?,
            None => writeln!(out, "{word}")?,
        }
    }
    Ok(())
}

/// The command line with completers. The value name of an argument selects its completer.
fn command() -> Command {
    with_completers(help::command())
}

fn with_completers(command: Command) -> Command {
    let completed = |argument: Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        let completer = match names.first().map(|name| name.as_str()) {
            Some("REV" | "A" | "B") => ArgValueCompleter::new(revisions),
            Some("BRANCH" | "OLD") => ArgValueCompleter::new(branches),
            Some("TAG") => ArgValueCompleter::new(tags),
            Some("TOOL") => ArgValueCompleter::new(tools),
            Some("FORM") => ArgValueCompleter::new(forms),
            _ => return argument,
        };
        argument.add(completer)
    };
    command.mut_args(completed).mut_subcommands(with_completers)
}

fn branches(typed: &OsStr) -> Vec<CompletionCandidate> {
    from_store(typed, async |tract| {
        Ok(tract.branches().list().await?.into_iter().map(|branch| branch.name).collect())
    })
}

fn tags(typed: &OsStr) -> Vec<CompletionCandidate> {
    from_store(typed, async |tract| {
        Ok(tract.tags().list().await?.into_iter().map(|(tag, _)| tag).collect())
    })
}

fn revisions(typed: &OsStr) -> Vec<CompletionCandidate> {
    from_store(typed, async |tract| {
        let branches = tract.branches().list().await?.into_iter().map(|branch| branch.name);
        let tags = tract.tags().list().await?.into_iter().map(|(tag, _)| tag);
        Ok(std::iter::once("HEAD".to_owned()).chain(branches).chain(tags).collect())
    })
}

fn tools(typed: &OsStr) -> Vec<CompletionCandidate> {
    from_store(typed, async |tract| Ok(tract.store().tool_names(tract.repo().name()).await?))
}

fn forms(typed: &OsStr) -> Vec<CompletionCandidate> {
    candidates(typed, Form::all().map(|form| form.as_str().to_owned()))
}

/// Offers names of the command line's store. Errors are ignored and offer nothing, because a shell
/// cannot show them.
fn from_store<F>(typed: &OsStr, names: impl FnOnce(Tract) -> F) -> Vec<CompletionCandidate>
where
    F: Future<Output = tract::Result<Vec<String>>>,
{
    let found = tract::block_on(async { names(open().await?).await.ok() });
    candidates(typed, found.unwrap_or_default().into_iter())
}

/// Opens the store for reading. Stores on servers are not opened, because a person waits for the
/// answer.
async fn open() -> Option<Tract> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let url = flag(&words, "--store").or_else(|| std::env::var("TRACT_STORE").ok());
    let url = match url {
        Some(url) => url,
        None => context::found_upwards(&std::env::current_dir().ok()?).ok()?,
    };
    tract::store::file_of(&url).ok()??;
    let repo = flag(&words, "--repo").unwrap_or_else(|| "default".to_owned());
    OpenOptions::new().create(false).repo(repo).open(&url).await.ok()
}

/// Returns the value of a flag in the words typed so far.
fn flag(words: &[OsString], name: &str) -> Option<String> {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let place = words.iter().position(|word| {
        *word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
    })?;
    match words.get(place)?.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(place + 1).map(|value| (*value).to_owned()),
    }
}

/// Returns the names that continue the typed text and cannot steer a terminal.
fn candidates(typed: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    names
        .filter(|name| name.starts_with(&*typed) && !name.contains(is_format_control))
        .take(MAX_CANDIDATES)
        .map(CompletionCandidate::new)
        .collect()
}

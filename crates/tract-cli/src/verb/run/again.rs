//! The command line that continues a run.

use clap::ValueEnum;
use tract::Tract;
#[cfg(feature = "mcp")]
use tract::store::hide_passwords;

#[cfg(feature = "mcp")]
use super::super::ask::without_query;
use super::{Approve, Plan, Resume, Run};
use crate::global::Global;

/// Returns the command that continues a run on its branch, with the same model and tools, and
/// without a task. It names the branch unless it is checked out.
pub(super) fn command(run: &Run, global: &Global, on: &Tract, head: &str) -> String {
    let mut words = vec!["tract".to_owned(), "run".to_owned()];
    let mut add = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
    if on.branch_name() != head {
        add("--on", on.branch_name());
    }
    let environment = std::env::var("TRACT_STORE").ok();
    if let Some(url) = global.store.as_ref().filter(|url| Some(*url) != environment.as_ref()) {
        // A URL may contain a password, which must not be printed.
        add("--store", if url.contains('@') { "URL" } else { url });
    }
    if global.repo != "default" {
        add("--repo", &global.repo);
    }
    run.model.flags(&mut add);
    if let Some(folder) = &run.fs {
        add("--fs", &folder.display().to_string());
    }
    #[cfg(feature = "mcp")]
    {
        for server in &run.mcp {
            let is_url = server.starts_with("http://") || server.starts_with("https://");
            let shown = is_url.then(|| hide_passwords(&without_query(server)));
            add("--mcp", shown.as_deref().unwrap_or(server));
        }
        for variable in &run.mcp_env {
            // A value may be a secret, so only the name is printed, which reads the variable from
            // the environment.
            add("--mcp-env", variable.split_once('=').map_or(variable, |(name, _)| name));
        }
        words.extend(run.search.then(|| "--search".to_owned()));
        words.extend(run.ignore_pins.then(|| "--ignore-pins".to_owned()));
    }
    let instructions = run.instructions.as_ref().map(|path| path.display().to_string());
    for (flag, value) in [
        ("--plan", unless_default(run.plan, Plan::React)),
        ("--approve", unless_default(run.approve, Approve::Destructive)),
        ("--resume", unless_default(run.resume, Resume::Answer)),
        ("--instructions", instructions),
    ] {
        words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the value as the command line spells it; `None` for the default.
fn unless_default<T: ValueEnum + PartialEq>(value: T, default: T) -> Option<String> {
    let spelled = value.to_possible_value().filter(|_| value != default)?;
    Some(spelled.get_name().to_owned())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        assert_eq!(quoted("openai/gpt-5.5"), "openai/gpt-5.5");
        assert_eq!(quoted("npx -y server"), "'npx -y server'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}

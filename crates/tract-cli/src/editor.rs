//! The user's text editor.

use std::io::Write as _;
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// Opens a text in the editor: the program in `VISUAL` or `EDITOR`, else `vi`.
///
/// # Errors
/// `editor` if the program cannot be started, or fails.
pub(crate) fn edit(text: &str) -> Outcome<String> {
    let named = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|program| !program.trim().is_empty()));
    let named = named.unwrap_or_else(|| "vi".to_owned());
    let words = shlex::split(&named).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err(failed(&named, "is no command line"));
    };
    let file = |error: std::io::Error| failed(&named, format_args!("has no file to edit: {error}"));
    let mut draft =
        tempfile::Builder::new().prefix("tract-").suffix(".md").tempfile().map_err(file)?;
    // Editors end a file with a line break, which is not part of the message.
    writeln!(draft, "{text}").map_err(file)?;
    let path = draft.into_temp_path();
    let ended = Command::new(program).args(arguments).arg(&path).status();
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed(&named, format_args!("ended with {status}"))),
        Err(error) => return Err(failed(&named, format_args!("cannot be started: {error}"))),
    }
    let mut edited = crate::input::read_text(&path)?;
    if edited.ends_with('\n') {
        edited.pop();
    }
    Ok(edited)
}

fn failed(editor: &str, what: impl std::fmt::Display) -> Failure {
    Failure::no("editor", format!("the editor {editor:?} {what}"))
        .note("nothing was changed; VISUAL or EDITOR names the editor, or give the text: tract edit REV TEXT")
}

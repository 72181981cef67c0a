//! Output that several verbs print in the same way.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
pub(crate) use tract::core::text::{count, number};
use tract::engine::{CarriedErasures, LogLine, OnVerify, VerifyOptions, VerifyReport};
use tract::{Commit, CommitId, Compiled, RefTarget, Tract};

use crate::escape;
use crate::failure::Outcome;
use crate::out::Output;
use crate::style::{self, DIM, ID, REF, Styled};

/// Formats the short form of an id, in its color.
pub(crate) fn short(id: CommitId) -> Styled<String> {
    Styled(ID, id.short())
}

/// The tokens of a context, and the counter: `7 tokens (approx)`.
pub(crate) fn tokens(context: &Compiled) -> String {
    let tokens = context.token_count();
    format!("{} ({})", counted(tokens.count, "token"), tokens.source)
}

/// As [`count`], for a number that may exceed `usize`.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    count(usize::try_from(n).unwrap_or(usize::MAX), thing)
}

/// The target of a ref in JSON: an id, or the name of another ref.
pub(crate) fn target(target: &RefTarget) -> String {
    match target {
        RefTarget::Commit(id) => id.to_hex(),
        RefTarget::Blob(id) => id.to_hex(),
        RefTarget::Ref(name) => name.as_str().to_owned(),
    }
}

/// Formats a number of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 || unit == "GB" {
            return match unit {
                "B" => format!("{n} B"),
                unit => format!("{value:.1} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{n} B")
}

/// Returns the record of a commit as a JSON line, with its id as `commit`.
pub(crate) fn record_json(commit: &Commit) -> String {
    let record = commit.canonical();
    format!("{{\"commit\":\"{}\",{}", commit.id(), record.trim_start_matches('{'))
}

/// Prints the id of a new commit.
pub(crate) async fn committed(out: &mut Output, tract: &Tract, made: &Commit) -> Outcome<()> {
    if out.is_json() {
        return out.json_text(&record_json(made));
    }
    let line = described(tract, made).await?;
    let room = out.columns.saturating_sub(24 + escape::width(tract.branch_name()));
    out.line(format_args!(
        "{} {}  {}  {}",
        short(made.id()),
        Styled(REF, escape::line(tract.branch_name())),
        Styled(style::kind(&line.label), escape::line(&line.label)),
        escape::cut(&line.text, room),
    ))
}

/// Formats the line of a commit in a log.
pub(crate) async fn described(tract: &Tract, commit: &Commit) -> Outcome<LogLine> {
    let lines = tract::engine::describe(tract.repo(), std::slice::from_ref(commit)).await?;
    Ok(lines.into_iter().next().expect("one commit gives one line"))
}

/// Makes a progress bar on stderr; none if stderr is not a terminal.
pub(crate) fn progress(what: &'static str, things: &'static str) -> ProgressBar {
    let template = format!("{what} {{wide_bar}} {{human_pos}}/{{human_len}} {things}{{msg}}");
    ticking(ProgressBar::new(0), &template)
}

fn ticking(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Verifies a repository with a progress bar on stderr. If stderr is not a terminal, there is no
/// bar, and the objects are not counted first.
pub(crate) async fn verify(
    tract: &Tract,
    options: VerifyOptions,
) -> Result<VerifyReport, tract::engine::Error> {
    verify_with(tract, options, async |tract, options| {
        tract::engine::verify(tract.repo(), &options).await
    })
    .await
}

/// As [`verify`], with a custom function.
pub(crate) async fn verify_with(
    tract: &Tract,
    options: VerifyOptions,
    run: impl AsyncFnOnce(&Tract, VerifyOptions) -> Result<VerifyReport, tract::engine::Error>,
) -> Result<VerifyReport, tract::engine::Error> {
    let bar = progress("verifying", "commits");
    let watched = bar.clone();
    let on_progress = OnVerify::new(move |progress| {
        watched.set_length(progress.commits as u64);
        watched.set_position(progress.commits_done as u64);
        if let Some(left) = progress.time_left {
            watched.set_message(format!(", {} left", HumanDuration(left)));
        }
    });
    let options = if bar.is_hidden() {
        options
    } else {
        VerifyOptions { progress: Some(on_progress), ..options }
    };
    let report = run(tract, options).await;
    bar.finish_and_clear();
    report
}

/// A counter on stderr, for work of unknown size; nothing if stderr is not a terminal.
pub(crate) fn counter(what: &'static str, things: &'static str) -> ProgressBar {
    ticking(ProgressBar::no_length(), &format!("{what} {{human_pos}} {things}"))
}

/// Maximum number of branches that are named in a hint.
const MOST_BRANCHES: usize = 3;

/// Reports that `head` lacks such things so far, and how to list those of other branches with
/// this verb, if there are any.
pub(crate) async fn none_yet(
    out: &mut Output,
    tract: &Tract,
    head: Option<CommitId>,
    verb: &str,
    things: &str,
) -> Outcome<()> {
    let mut others = tract.branches().list().await?;
    others.retain(|other| Some(other.head) != head);
    let named: Vec<String> = others
        .iter()
        .take(MOST_BRANCHES)
        .map(|other| format!("tract {verb} {}", escape::line(&other.name)))
        .collect();
    if named.is_empty() {
        let start = "tract commit user \"Hello\", or tract import FILE";
        out.say(format_args!("no {things} yet; {start}"));
        return Ok(());
    }
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more (tract branch lists them)"),
    };
    let named = named.join(", ");
    out.say(format_args!("no {things} here yet; other branches have some: {named}{more}"));
    Ok(())
}

/// Prints the number of damaged or missing objects that were restored.
pub(crate) fn restored(out: &mut Output, restored: usize) -> Outcome<()> {
    if restored > 0 && !out.is_json() {
        let objects = count(restored, "damaged or missing object");
        out.line(format_args!("restored {objects}"))?;
    }
    Ok(())
}

/// Prints the erasures that were received, and whether files may still contain the bytes.
pub(crate) fn erasures(out: &mut Output, erased: &CarriedErasures) -> Outcome<()> {
    if erased.blobs > 0 && !out.is_json() {
        out.line(format_args!("erased {}, as there", count(erased.blobs, "blob")))?;
    }
    if erased.pending > 0 {
        let erasures = count(erased.pending, "erasure");
        out.say(format_args!(
            "  note: {erasures} not applied: other messages have the same bytes; `tract erase --list` \
             there lists them for confirmation"
        ));
    }
    if let Some(why) = &erased.not_wiped {
        out.say(format_args!(
            "  note: files may still have the bytes ({}); `tract erase --finish` wipes them",
            escape::line(why)
        ));
    }
    Ok(())
}

/// Formats the start of a hit's line: its commit, the branches that contain it, its kind and its
/// tools.
pub(crate) fn hit(
    commit: CommitId,
    repo: Option<&str>,
    branches: &[&str],
    kind: &str,
    tools: &[String],
) -> String {
    let mut shown_in = match branches {
        [] => "hidden".to_owned(),
        branches => branches.iter().take(MOST_BRANCHES).copied().collect::<Vec<_>>().join(" "),
    };
    if let Some(repo) = repo {
        shown_in = format!("{repo}: {shown_in}");
    }
    if branches.len() > MOST_BRANCHES {
        shown_in.push_str(&format!(" and {} more", branches.len() - MOST_BRANCHES));
    }
    let style = if branches.is_empty() { DIM } else { REF };
    let tools = tools.join(", ");
    format!(
        "{} {}  {}  {}{}",
        short(commit),
        Styled(style, escape::line(&shown_in)),
        Styled(style::kind(kind), escape::line(kind)),
        escape::line(&tools),
        if tools.is_empty() { "" } else { "  " },
    )
}

/// Converts a byte range of a text to characters.
pub(crate) fn in_chars(text: &str, range: &std::ops::Range<usize>) -> [usize; 2] {
    let chars = |end: usize| text.get(..end).map_or(0, |before| before.chars().count());
    [chars(range.start), chars(range.end)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(2_535_434), "2.5 MB");
    }
}

//! Two revisions side by side, with the cost of their difference at the provider's prompt cache.

use std::borrow::Cow;
use std::collections::HashMap;

use maud::{Markup, html};
use tract_core::text::{beginning, count, number};
use tract_core::{CommitId, Message};
use tract_engine::{Diff, DiffLineKind, MessageChange};
use tract_providers::Miss;

use crate::load::LoadedContext;
use crate::text::{query, visible};

/// Maximum characters of a message or a line.
const LINE: usize = 2_000;
/// Maximum characters of the title of a session.
const TITLE: usize = 80;
/// Maximum number of messages that differ on the page.
const ROWS: usize = 500;
/// Maximum number of lines about tools and settings.
const LINES: usize = 2_000;
/// Number of equal messages that are shown before and after a difference.
const AROUND: usize = 1;

/// Two contexts and their difference.
pub(crate) struct Compared<'a> {
    pub(crate) before: &'a LoadedContext,
    pub(crate) after: &'a LoadedContext,
    pub(crate) diff: &'a Diff,
    pub(crate) miss: Option<&'a Miss>,
    /// The number of cacheable blocks of each request.
    pub(crate) blocks: (usize, usize),
}

/// Compares two revisions.
pub(crate) fn compare(compared: &Compared<'_>) -> Markup {
    let Compared { before, after, diff, .. } = compared;
    let rows = rows(compared);
    let differing = diff.messages.len();
    // A fork has the title of the original until it gets a prompt of its own.
    let names = match before.name() == after.name() {
        true => (Cow::Borrowed(&*before.revision), Cow::Borrowed(&*after.revision)),
        false => (before.name(), after.name()),
    };
    html! {
        h1 { (visible(&names.0)) " → " (visible(&names.1)) }
        (summary(compared))
        (settings(diff))
        h2 { "Messages" }
        p .soft {
            (count(diff.unchanged_count, "equal message")) ", " (count(differing, "difference"))
            @if differing > 0 { ". " a href="#first" { "First difference" } }
        }
        div .scroll tabindex="0" {
            table .sides {
                thead { tr {
                    th scope="col" { span .hidden { "Number" } } th scope="col" { (side(before)) }
                    th scope="col" { span .hidden { "Number" } } th scope="col" { (side(after)) }
                } }
                tbody { @for row in rows.iter().take(ROWS) { (self::row(row)) } }
            }
        }
        @if rows.len() > ROWS { p .soft { (number((rows.len() - ROWS) as u64)) " more rows: tract diff" } }
    }
}

fn side(context: &LoadedContext) -> Markup {
    html! {
        a href=(format!("/transcript?rev={}", query(&context.revision))) title=(visible(&context.revision)) {
            (visible(beginning(&context.name(), TITLE).0))
        }
        " " span .soft { (number(context.compiled.token_count().count)) " tokens" }
    }
}

fn summary(compared: &Compared<'_>) -> Markup {
    let (tokens, blocks) = (compared.diff.token_counts, compared.blocks);
    html! {
        p {
            "Tokens: " (number(tokens.0)) " → " (number(tokens.1)) ". "
            @match compared.miss {
                Some(miss) => {
                    span .removed { "Cache miss" } ": " (visible(&miss.to_string())) "; "
                    (blocks.1.saturating_sub(miss.same_blocks)) " of " (blocks.1) " blocks are sent again."
                }
                None => { span .added { "No cache miss" } ": " (blocks.0.min(blocks.1)) " of " (blocks.1) " blocks are cached." }
            }
        }
    }
}

/// The differences of the tools and of the generation config, as lines.
fn settings(diff: &Diff) -> Markup {
    let others = Diff {
        messages: Vec::new(),
        unchanged_count: diff.unchanged_count,
        tools: diff.tools.clone(),
        token_counts: diff.token_counts,
        config: diff.config.clone(),
    };
    if others.is_empty() {
        return html! {};
    }
    let lines = others.lines();
    html! {
        h2 { "Tools and settings" }
        pre {
            @for line in lines.iter().filter(|line| !matches!(line.kind, DiffLineKind::Summary)).take(LINES) {
                @let (kept, rest) = beginning(&line.text, LINE);
                span class=(class(line.kind)) { (line.sign()) (visible(kept)) @if rest > 0 { "… " (rest) " characters more" } }
                "\n"
            }
        }
        @if lines.len() > LINES { p .soft { (lines.len() - LINES) " lines more: tract diff" } }
    }
}

fn class(kind: DiffLineKind) -> &'static str {
    match kind {
        DiffLineKind::Added => "added",
        DiffLineKind::Removed => "removed",
        DiffLineKind::Changed => "changed",
        DiffLineKind::Heading => "role",
        DiffLineKind::Summary => "soft",
        _ => "",
    }
}

/// A row of the page.
enum Row<'a> {
    /// Messages that are equal in both contexts and not shown.
    Equal(usize),
    Sides {
        before: Option<(usize, &'a Message)>,
        after: Option<(usize, &'a Message)>,
        is_different: bool,
        is_first: bool,
    },
}

/// Aligns the messages of both contexts. The equal ones between two differences are left out, except
/// for those next to them.
fn rows<'a>(compared: &Compared<'a>) -> Vec<Row<'a>> {
    let old: Vec<&Message> = compared.before.compiled.messages().collect();
    let new: Vec<&Message> = compared.after.compiled.messages().collect();
    let places: HashMap<CommitId, usize> =
        old.iter().zip(1..).map(|(message, place)| (message.commit, place)).collect();
    let at = |list: &[&'a Message], place: usize| {
        let message = list.get(place.checked_sub(1)?)?;
        Some((place, *message))
    };
    let mut rows = Vec::new();
    let (mut left, mut right) = (0, 0);
    let mut is_first = true;
    for change in &compared.diff.messages {
        let (before, after, equal) = match change {
            MessageChange::Added { place, .. } => {
                (None, at(&new, *place), place.saturating_sub(1).saturating_sub(right))
            }
            MessageChange::Removed { place, after, .. } => {
                (at(&old, *place), None, after.saturating_sub(right))
            }
            MessageChange::Changed { place, before, .. } => {
                let was = places.get(&before.commit).and_then(|place| at(&old, *place));
                (was, at(&new, *place), place.saturating_sub(1).saturating_sub(right))
            }
        };
        equal_rows(&mut rows, (left, right), equal, (&old, &new), true);
        left = before.map_or(left + equal, |(place, _)| place);
        right = after.map_or(right + equal, |(place, _)| place);
        rows.push(Row::Sides { before, after, is_different: true, is_first });
        is_first = false;
    }
    let equal = new.len().saturating_sub(right);
    equal_rows(&mut rows, (left, right), equal, (&old, &new), false);
    rows
}

/// Adds the equal messages after two places.
fn equal_rows<'a>(
    rows: &mut Vec<Row<'a>>,
    (left, right): (usize, usize),
    equal: usize,
    (old, new): (&[&'a Message], &[&'a Message]),
    has_next: bool,
) {
    let head = if rows.is_empty() { 0 } else { AROUND };
    let tail = if has_next { AROUND } else { 0 };
    let is_hidden = |place: usize| place >= head && place + tail < equal;
    let mut hidden = 0;
    for place in 0..equal {
        if is_hidden(place) {
            hidden += 1;
            continue;
        }
        if hidden > 0 {
            rows.push(Row::Equal(std::mem::take(&mut hidden)));
        }
        let side = |list: &[&'a Message], from: usize| {
            list.get(from + place).map(|message| (from + place + 1, *message))
        };
        let (before, after) = (side(old, left), side(new, right));
        rows.push(Row::Sides { before, after, is_different: false, is_first: false });
    }
    if hidden > 0 {
        rows.push(Row::Equal(hidden));
    }
}

fn row(row: &Row<'_>) -> Markup {
    html! {
        @match row {
            Row::Equal(hidden) => tr { td .soft .same colspan="4" { (count(*hidden, "equal message")) } },
            Row::Sides { before, after, is_different, is_first } => {
                tr .differs[*is_different] id=[is_first.then_some("first")] {
                    (cell(*before, "removed-side", *is_different))
                    (cell(*after, "added-side", *is_different))
                }
            }
        }
    }
}

fn cell(shown: Option<(usize, &Message)>, class: &str, is_different: bool) -> Markup {
    html! {
        @match shown {
            Some((number, message)) => {
                td .number .soft { (number) }
                td class=[is_different.then_some(class)] {
                    @let text = tract_engine::plain(message);
                    @let (kept, rest) = beginning(&text, LINE);
                    span .role { (visible(message.role.as_str())) }
                    pre .text dir="auto" { (visible(kept)) @if rest > 0 { "… " (rest) " characters more" } }
                }
            }
            None => { td {} td {} }
        }
    }
}

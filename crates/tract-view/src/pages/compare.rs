//! The differences between two revisions, and their cost at the provider's prompt cache.

use maud::{Markup, html};
use tract_core::text::beginning;
use tract_engine::{Diff, DiffLineKind};
use tract_providers::Miss;

use crate::text::visible;

/// Maximum characters of a line.
const LINE: usize = 2_000;

/// Maximum number of lines on the page.
const LINES: usize = 5_000;

/// Compares two revisions.
pub(crate) fn compare(
    names: (&str, &str),
    diff: &Diff,
    miss: Option<&Miss>,
    blocks: (usize, usize),
) -> Markup {
    let lines = diff.lines();
    html! {
        h1 { (visible(names.0)) " → " (visible(names.1)) }
        p {
            "tokens: " (diff.token_counts.0) " → " (diff.token_counts.1) ". "
            @match miss {
                Some(miss) => {
                    span .removed { "cache miss" } ": " (visible(&miss.to_string())) "; "
                    (blocks.1.saturating_sub(miss.same_blocks)) " of " (blocks.1) " blocks are read again"
                }
                None => { span .added { "no cache miss" } ": " (blocks.0.min(blocks.1)) " of " (blocks.1) " blocks are cached" }
            }
        }
        pre {
            @for line in lines.iter().take(LINES) {
                @let (kept, rest) = beginning(&line.text, LINE);
                span class=(class(line.kind)) { (line.sign()) (visible(kept)) @if rest > 0 { "… " (rest) " characters more" } }
                "\n"
            }
        }
        @if lines.len() > LINES { p .soft { (lines.len() - LINES) " lines more" } }
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

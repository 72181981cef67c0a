//! Changes of text, line by line.

use std::time::Duration;

use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};

use crate::text::visible;

/// Time after which the comparison of two texts is finished coarsely.
const PATIENCE: Duration = Duration::from_millis(50);

/// Shows the lines that differ between two texts, with the lines that are equal.
pub(crate) fn diff(old: &str, new: &str) -> Markup {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    html! {
        pre .diff {
            @for change in diff.iter_all_changes() {
                @let text = change.value();
                @let line = text.strip_suffix('\n').unwrap_or(text);
                @match change.tag() {
                    ChangeTag::Delete => del { "-" (visible(line)) "\n" },
                    ChangeTag::Insert => ins { "+" (visible(line)) "\n" },
                    ChangeTag::Equal => span { " " (visible(line)) "\n" },
                }
            }
        }
    }
}

/// Shows a text that is already a diff: the lines that start with `+` and `-` are colored.
pub(crate) fn patch(text: &str) -> Markup {
    html! {
        pre .diff {
            @for line in text.lines() {
                @match line.as_bytes().first() {
                    Some(b'+') if !line.starts_with("+++") => ins { (visible(line)) "\n" },
                    Some(b'-') if !line.starts_with("---") => del { (visible(line)) "\n" },
                    Some(b'@' | b'*' | b'+' | b'-') => b { (visible(line)) "\n" },
                    _ => span { (visible(line)) "\n" },
                }
            }
        }
    }
}

//! The search page.

use maud::{Markup, html};
use tract_core::text::beginning;

use crate::load::FoundMessage;
use crate::text::{query, visible};
use crate::times;

/// Maximum number of hits on the page.
pub(crate) const HITS: usize = 50;
/// Maximum characters of the title of a session.
const TITLE: usize = 120;
/// Number of messages shown before a hit.
const BEFORE: usize = 2;

/// Writes the search form.
pub(crate) fn search_form(words: &str) -> Markup {
    html! {
        form method="get" action="/search" {
            label { span .hidden { "Words in messages" } input type="search" name="words" value=(words) placeholder="Words in messages"; }
            button { "Search" }
        }
    }
}

/// Lists hits, best first, each with a link to its message.
pub(crate) fn search(words: &str, found: &[FoundMessage]) -> Markup {
    html! {
        h1 { "Search" }
        (search_form(words))
        @if found.is_empty() { p .empty { "No message contains one of the words." } }
        @for one in found { (hit(one)) }
        @if found.len() == HITS { p .soft { "These are the best " (HITS) "; add a word to narrow them down." } }
    }
}

fn hit(found: &FoundMessage) -> Markup {
    let (branch, number, hit) = (&found.branch, found.number, &found.hit);
    let from = number.saturating_sub(BEFORE).max(1);
    let link = format!("/transcript?rev={}&from={from}#m{number}", query(branch));
    html! {
        article tabindex="-1" {
            p {
                a .title href=(link) { (visible(beginning(&found.title, TITLE).0)) } " "
                span .soft .small {
                    "message " (number) " · "
                    (visible(hit.kind.as_str()))
                    @for name in &hit.tool_names { " " (visible(name)) }
                    @if hit.created_at.is_some() { " · " (times::minute(hit.created_at, "")) }
                }
            }
            (snippet(&hit.snippet.text, &hit.snippet.matched))
        }
    }
}

/// Writes a line with the searched words highlighted.
fn snippet(text: &str, matched: &[std::ops::Range<usize>]) -> Markup {
    let mut parts: Vec<(&str, bool)> = Vec::new();
    let mut end = 0;
    for range in matched {
        let (Some(before), Some(word)) = (text.get(end..range.start), text.get(range.clone()))
        else {
            continue;
        };
        parts.push((before, false));
        parts.push((word, true));
        end = range.end;
    }
    parts.push((text.get(end..).unwrap_or_default(), false));
    html! {
        pre .text dir="auto" {
            @for (part, is_word) in parts {
                @if is_word { mark { (visible(part)) } } @else { (visible(part)) }
            }
        }
    }
}

//! A conversation as the model sees it.

mod calls;
mod outline;

use std::collections::HashMap;

use maud::{Markup, html};
use tract_core::text::{beginning, count, number};
use tract_core::{Content, ImageSource, Message, Part};
use tract_engine::{AnswerFacts, SessionSummary};

use self::calls::call;
use self::outline::outline;
use super::{Tab, session_header};
use crate::load::{LoadedContext, ShownMessage};
use crate::render;
use crate::text::{query, visible};
use crate::times;

/// Number of messages per page.
pub(crate) const PAGE: usize = 200;

/// Maximum number of listed unreadable objects.
const LISTED: usize = 20;
/// Maximum number of tags whose end is searched for in a text, because each search may read all of it.
const SEARCHES: usize = 200;
/// Maximum lines of a result of its own that is shown unfolded.
const OPEN_LINES: usize = 12;

/// Options of a transcript.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TranscriptOptions<'a> {
    /// Maximum characters of each text.
    pub(crate) most: usize,
    /// Whether there is a server for links.
    pub(crate) linked: bool,
    /// Its number among the transcripts of the page, from 0, which makes the anchors distinct.
    pub(crate) part: usize,
    /// The subagents of the conversation, by the ids of the calls that started them.
    pub(crate) subagents: &'a HashMap<String, SessionSummary>,
}

impl TranscriptOptions<'_> {
    fn anchor(self, kind: char, number: usize) -> String {
        match self.part {
            0 => format!("{kind}{number}"),
            part => format!("{part}-{kind}{number}"),
        }
    }
}

/// Media types of images that cannot contain scripts.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Shows a page of messages, starting at number `from`.
pub(crate) fn transcript(
    context: &LoadedContext,
    from: usize,
    messages: &[ShownMessage<'_>],
    options: TranscriptOptions<'_>,
) -> Markup {
    let total = context.compiled.message_count();
    html! {
        (session_header(context, Tab::Transcript, options.linked))
        div .columns {
            (outline(messages, options))
            div .content {
                (unreadable(context))
                @if options.linked { (page_links(context, from, total, "Pages")) }
                @for message in messages { (one(message, options)) }
                @if messages.is_empty() && context.unreadable.is_empty() { p .empty { "This conversation has no messages yet." } }
                @if options.linked {
                    (page_links(context, from, total, "Pages, again"))
                    form .compare method="get" action="/compare" {
                        input type="hidden" name="b" value=(context.revision);
                        label { span .soft { "Compare with " } input type="search" name="a" placeholder="branch, tag or commit"; }
                        button { "Compare" }
                    }
                }
            }
        }
    }
}

/// The links to the other pages of a long conversation.
fn page_links(context: &LoadedContext, from: usize, total: usize, label: &str) -> Markup {
    let revision = query(&context.revision);
    let link = |from: usize| format!("/transcript?rev={revision}&from={from}");
    let last = (from + PAGE - 1).min(total);
    html! {
        @if total > PAGE {
            nav .pages aria-label=(label) {
                @if from > 1 {
                    a href=(link(1)) { "first" }
                    a rel="prev" href=(link(from.saturating_sub(PAGE).max(1))) { "← before" }
                }
                span .soft { "messages " (number(from as u64)) "–" (number(last as u64)) " of " (number(total as u64)) }
                @if from + PAGE <= total {
                    a rel="next" href=(link(from + PAGE)) { "after →" }
                    a href=(link(total.saturating_sub(PAGE) + 1)) { "last" }
                }
            }
        }
    }
}

/// Lists the unreadable objects of a context.
pub(crate) fn unreadable(context: &LoadedContext) -> Markup {
    let count = context.unreadable.len();
    html! {
        @if count > 0 {
            p .failed role="alert" {
                (count) @if count == 1 { " object" } @else { " objects" }
                " cannot be read; `tract verify` names all damage of the store. Here:"
            }
            ul .failed {
                @for one in context.unreadable.iter().take(LISTED) {
                    li {
                        @match one.slot {
                            Some(slot) => { "message " (slot.short()) },
                            None => "the tools",
                        }
                        ": " (visible(&one.error.to_string()))
                    }
                }
            }
        }
    }
}

fn one(shown: &ShownMessage<'_>, options: TranscriptOptions<'_>) -> Markup {
    let message = shown.message;
    let role = message.role.as_str();
    let facts = shown.commit.as_ref().map(AnswerFacts::of).unwrap_or_default();
    let at = shown.commit.as_ref().and_then(|commit| commit.created_at);
    let is_injected = facts.injected.is_some();
    html! {
        article .(class(role)) .injected[is_injected] id=(options.anchor('m', shown.number)) tabindex="-1" {
            p .message-head {
                span .role { (visible(role)) }
                @if let Content::ToolResult(answer) = &message.content {
                    @if let Some(name) = &answer.name { " " b { (visible(name)) } }
                    @if answer.is_error { " " span .tag .bad { "failed" } }
                }
                @if let Some(injected) = &facts.injected { " " span .tag { (visible(injected)) } }
                @if let Some(model) = facts.model.as_ref().filter(|_| role == "assistant") {
                    " " span .soft .model { (visible(model)) }
                }
                (changes(shown, options))
                span .message-facts {
                    @if at.is_some() { (times::minute(at, "")) " " }
                    span { (number(message.token_count)) " tokens" } " "
                    @if options.linked { a .copy href=(format!("/text?rev={}", message.commit)) { "copy" } " " }
                    a .permalink href=(format!("#{}", options.anchor('m', shown.number))) { "#" (shown.number) }
                }
            }
            div .body { (content(shown, options)) }
        }
    }
}

/// The author of a change to a message, with a link to the original.
fn changes(shown: &ShownMessage<'_>, options: TranscriptOptions<'_>) -> Markup {
    let origin = shown.commit.as_ref().and_then(|commit| commit.origin.id.as_deref());
    let by = |verb: &str| match origin
        .filter(|_| shown.is_edited() || shown.before_summary().is_some())
    {
        Some(author) => format!("{verb} by {}", visible(author)),
        None => verb.to_owned(),
    };
    html! {
        @if shown.is_edited() {
            " " span .tag .changed {
                @if options.linked { a href=(format!("/text?rev={}&original=1", shown.message.commit)) { (by("edited")) ": original" } }
                @else { (by("edited")) }
            }
        }
        @if let Some(before) = shown.before_summary() {
            " " span .tag .changed {
                @if options.linked { a href=(format!("/transcript?rev={before}")) { (by("summary")) ": what it replaced" } }
                @else { (by("summary")) }
            }
        }
    }
}

/// Only roles with a style become a CSS class.
fn class(role: &str) -> &'static str {
    match role {
        "user" => "user",
        "assistant" => "assistant",
        "system" | "developer" => "system",
        "tool" => "tool",
        _ => "other",
    }
}

fn content(shown: &ShownMessage<'_>, options: TranscriptOptions<'_>) -> Markup {
    let message = shown.message;
    if message.content.parts().is_empty() {
        return text(&message.content.text(), message, options);
    }
    let is_result = matches!(message.content, Content::ToolResult(_));
    let mut calls = 0;
    html! {
        @for (place, part) in message.content.parts().iter().enumerate() {
            @match part {
                Part::Text { text: value } if is_result => (result(value, message, options)),
                Part::Text { text: value } => (prose(value, message, options)),
                Part::Reasoning { text: thought, .. } => {
                    details .reasoning id=(format!("{}-{place}", options.anchor('r', shown.number))) {
                        summary { "reasoning" @if !thought.is_empty() { " · " (size(thought)) } }
                        @if thought.is_empty() { p .soft { "kept by the provider" } } @else { (prose(thought, message, options)) }
                    }
                }
                Part::ToolCall(called) => ({
                    calls += 1;
                    let result = shown.results.get(calls - 1).copied().flatten();
                    call(shown, calls, called, result, options)
                }),
                Part::Image { media_type, source } => (image(media_type.as_deref(), source)),
                Part::Opaque { dialect, json } => {
                    details { summary { "only " (visible(dialect)) " knows this · " (size(json)) } (text(json, message, options)) }
                }
            }
        }
    }
}

/// A result without its call on this page.
fn result(value: &str, message: &Message, options: TranscriptOptions<'_>) -> Markup {
    let tree = (value.len() <= options.most).then(|| render::json(value)).flatten();
    let shown = tree.unwrap_or_else(|| text(value, message, options));
    let lines = value.lines().count();
    html! {
        @if lines <= OPEN_LINES { (shown) } @else {
            details .output { summary { (count(lines, "line")) " · " (size(value)) } (shown) }
        }
    }
}

/// The text of a person or of a model: Markdown. Blocks in tags, which programs add to what a person
/// wrote, are folded.
fn prose(value: &str, message: &Message, options: TranscriptOptions<'_>) -> Markup {
    let (kept, more) = beginning(value, options.most);
    let blocks = if matches!(message.content, Content::User(_)) {
        tagged(kept)
    } else {
        vec![Block::Prose(kept)]
    };
    html! {
        @for block in &blocks {
            @match block {
                Block::Prose(prose) => div .md dir="auto" { (render::markdown(prose)) },
                Block::Tagged(name, inner) => {
                    @if inner.lines().count() <= 1 && inner.len() < 120 {
                        p .tagged { span .tag { (visible(name)) } " " (visible(inner)) }
                    } @else {
                        details .tagged { summary { (visible(name)) " · " (size(inner)) } pre .text dir="auto" { (visible(inner)) } }
                    }
                }
            }
        }
        (omitted(more, message, options))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Block<'a> {
    Prose(&'a str),
    /// The name of the tag, and the text in it.
    Tagged(&'a str, &'a str),
}

/// Splits a text at its top-level blocks of the form `<name>…</name>` that start a line and have a
/// name in lower case with a hyphen or an underscore, which no name of HTML has. A block without its
/// end is prose.
fn tagged(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut start, mut line, mut searches) = (0, 0, 0);
    while let Some(left) = text.get(line..).filter(|left| !left.is_empty() && searches < SEARCHES) {
        let block = tag_name(left).and_then(|name| {
            searches += 1;
            let inner = left.get(name.len() + 2..)?;
            let end = inner.find(&format!("</{name}>"))?;
            Some((name, inner.get(..end)?, name.len() * 2 + 5 + end))
        });
        if let Some((name, inner, length)) = block {
            blocks.push(Block::Prose(text.get(start..line).unwrap_or_default()));
            blocks.push(Block::Tagged(name, inner.trim()));
            line += length;
            start = line;
        } else {
            line += left.find('\n').map_or(left.len(), |end| end + 1);
        }
    }
    blocks.push(Block::Prose(text.get(start..).unwrap_or_default()));
    blocks.retain(|block| !matches!(block, Block::Prose(prose) if prose.trim().is_empty()));
    blocks
}

fn tag_name(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('<')?;
    let name =
        inner.get(..inner.find(|c: char| !(c.is_ascii_lowercase() || matches!(c, '-' | '_')))?)?;
    let is_closed = inner.get(name.len()..)?.starts_with('>');
    (is_closed && name.contains(['-', '_'])).then_some(name)
}

/// Shows a text as it is.
fn text(value: &str, message: &Message, options: TranscriptOptions<'_>) -> Markup {
    let (kept, more) = beginning(value, options.most);
    html! {
        pre .text dir="auto" { (visible(kept)) }
        (omitted(more, message, options))
    }
}

fn omitted(more: usize, message: &Message, options: TranscriptOptions<'_>) -> Markup {
    html! {
        @if more > 0 {
            p .soft {
                (more) " characters more"
                @if options.linked { ": " a href=(format!("/text?rev={}", message.commit)) { "the whole text" } }
            }
        }
    }
}

/// Formats the size of a text.
fn size(text: &str) -> String {
    match text.len() {
        0..10_000 => count(text.chars().count(), "character"),
        bytes @ 10_000..1_000_000 => format!("{} kB", bytes / 1_000),
        bytes => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Shows a recorded image if it cannot contain scripts. Nothing is loaded from elsewhere.
fn image(media_type: Option<&str>, source: &ImageSource) -> Markup {
    match (media_type, source) {
        (Some(media_type), ImageSource::Base64(data))
            if PICTURES.contains(&media_type) && data.bytes().all(is_base64) =>
        {
            html! { img alt="recorded picture" src=(format!("data:{media_type};base64,{data}")); }
        }
        (_, ImageSource::Url(url)) => html! { p .soft { "picture at " (visible(url)) } },
        (_, ImageSource::File(id)) => {
            html! { p .soft { "picture with the provider: " (visible(id)) } }
        }
        (media_type, ImageSource::Base64(_)) => html! {
            p .soft { "picture (" (visible(media_type.unwrap_or("of unknown type"))) ") not shown" }
        },
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_tags_are_split_from_prose() {
        let text = "Hello\n<system-reminder>\nnot typed\n</system-reminder>\nbye";
        let blocks = [
            Block::Prose("Hello\n"),
            Block::Tagged("system-reminder", "not typed"),
            Block::Prose("\nbye"),
        ];
        assert_eq!(tagged(text), blocks);
        for prose in ["<b>bold</b>", "<open-only> and more", "a <x-y>z</x-y>", "<", "ä<"] {
            assert_eq!(tagged(prose), [Block::Prose(prose)], "{prose}");
        }
    }
}

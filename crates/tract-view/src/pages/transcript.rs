//! A conversation as the model sees it.

use maud::{Markup, html};
use tract_core::text::beginning;
use tract_core::{Content, ImageSource, Message, Part, ToolCall};
use tract_providers::Form;

use super::minute;
use crate::load::{LoadedContext, ShownMessage};
use crate::text::{query, visible};

/// Number of messages per page.
pub(crate) const PAGE: usize = 200;

/// Maximum number of listed unreadable objects.
const LISTED: usize = 20;

/// Options of a transcript.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TranscriptOptions {
    /// Maximum characters of each text.
    pub(crate) most: usize,
    /// Whether there is a server for links.
    pub(crate) linked: bool,
    /// Its number among the transcripts of the page, from 0, which makes the anchors distinct.
    pub(crate) part: usize,
}

impl TranscriptOptions {
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
    options: TranscriptOptions,
) -> Markup {
    let total = context.compiled.message_count();
    let revision = query(&context.revision);
    let link = |from: usize| format!("/transcript?rev={revision}&from={from}");
    let tokens = context.compiled.token_count();
    html! {
        h1 { (visible(&context.revision)) }
        p .soft {
            (total) " messages, " (context.compiled.tools().len()) " tools, " (tokens.count) " tokens ("
            (tokens.source) "), at " (context.head.short())
        }
        (unreadable(context))
        @if options.linked {
            nav .pages {
                a href=(format!("/tools?rev={revision}")) { "tools" }
                a href=(format!("/history?rev={revision}")) { "history" }
                a href=(format!("/window?rev={revision}")) { "window" }
                a href=(format!("/compare?a={revision}~1&b={revision}")) { "last change" }
                @for form in Form::all().filter(|form| form.as_str().ends_with("-params")) {
                    a href=(format!("/request?rev={revision}&to={form}")) { (form.as_str()) }
                }
            }
            form method="get" action="/compare" {
                input type="hidden" name="b" value=(context.revision);
                label { span .soft { "compare with " } input type="search" name="a" placeholder="branch, tag or commit"; }
                button { "Compare" }
            }
        }
        @for message in messages { (one(message, options)) }
        @if options.linked {
            nav .pages {
                @if from > 1 { a rel="prev" href=(link(from.saturating_sub(PAGE).max(1))) { "← before" } }
                @if from + PAGE <= total { a rel="next" href=(link(from + PAGE)) { "after →" } }
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

fn one(shown: &ShownMessage<'_>, options: TranscriptOptions) -> Markup {
    let message = shown.message;
    let role = message.role.as_str();
    let commit = message.commit.to_string();
    let short = message.commit.short();
    html! {
        article class=(class(role)) id=(options.anchor('m', shown.number)) tabindex="-1" {
            p {
                a href=(format!("#{}", options.anchor('m', shown.number))) { "#" (shown.number) } " "
                span .role { (visible(role)) } " "
                @if let Content::ToolResult(answer) = &message.content {
                    @if let Some(name) = &answer.name { (visible(name)) " " }
                    @if answer.is_error { span .failed { "failed" } " " }
                }
                span .soft {
                    (short)
                    @if let Some(at) = shown.commit.as_ref().and_then(|commit| minute(commit.created_at?)) { " · " (at) }
                    " · " (message.token_count) " tokens"
                }
                @if shown.is_edited() {
                    " " span .tag {
                        @if options.linked { a href=(format!("/text?rev={commit}&original=1")) { "edited: original" } } @else { "edited" }
                    }
                }
                @if let Some(before) = shown.before_summary() {
                    " " span .tag {
                        @if options.linked { a href=(format!("/transcript?rev={before}")) { "summary: what it replaced" } } @else { "summary" }
                    }
                }
            }
            (content(shown, options))
        }
    }
}

/// Only roles with a style become a CSS class.
fn class(role: &str) -> &'static str {
    match role {
        "user" => "user",
        "assistant" => "assistant",
        "system" => "system",
        "tool" => "tool",
        _ => "other",
    }
}

fn content(shown: &ShownMessage<'_>, options: TranscriptOptions) -> Markup {
    let message = shown.message;
    if message.content.parts().is_empty() {
        return text(&message.content.text(), message, options);
    }
    let mut calls = 0;
    html! {
        @for (place, part) in message.content.parts().iter().enumerate() {
            @match part {
                Part::Text { text: value } => (text(value, message, options)),
                Part::Reasoning { text: thought, .. } => {
                    details id=(format!("{}-{place}", options.anchor('r', shown.number))) {
                        summary { "reasoning" }
                        @if thought.is_empty() { p .soft { "kept by the provider" } } @else { (text(thought, message, options)) }
                    }
                }
                Part::ToolCall(called) => ({
                    calls += 1;
                    let result = shown.results.get(calls - 1).copied().flatten();
                    call(shown, calls, called, result, options)
                }),
                Part::Image { media_type, source } => (image(media_type.as_deref(), source)),
                Part::Opaque { dialect, json } => {
                    details { summary { "only " (visible(dialect)) " knows this" } (text(json, message, options)) }
                }
            }
        }
    }
}

fn call(
    shown: &ShownMessage<'_>,
    place: usize,
    called: &ToolCall,
    result: Option<(usize, &Message)>,
    options: TranscriptOptions,
) -> Markup {
    let failed = result.is_some_and(
        |(_, message)| matches!(&message.content, Content::ToolResult(answer) if answer.is_error),
    );
    let (number, message) = (shown.number, shown.message);
    let (first, _) = beginning(&called.arguments, 80);
    html! {
        details id=(format!("{}-{place}", options.anchor('c', number))) {
            summary {
                b { (visible(&called.name)) } " " span .soft { (visible(first)) }
                @if failed { " " span .failed { "failed" } }
                @if result.is_none() { " " span .tag { "no result" } }
            }
            (text(&called.arguments, message, options))
            @if let Some((place, message)) = result {
                p .soft { "result " a href=(format!("#{}", options.anchor('m', place))) { "#" (place) } " · " (message.token_count) " tokens" }
                span id=(options.anchor('m', place)) {}
                @for part in message.content.parts() {
                    @match part {
                        Part::Text { text: value } => (text(value, message, options)),
                        Part::Image { media_type, source } => (image(media_type.as_deref(), source)),
                        other => ({
                            let mut out = String::new();
                            super::part_text(other, &mut out);
                            text(&out, message, options)
                        }),
                    }
                }
            }
        }
    }
}

fn text(value: &str, message: &Message, options: TranscriptOptions) -> Markup {
    let (kept, rest) = beginning(value, options.most);
    html! {
        pre .text dir="auto" { (visible(kept)) }
        @if rest > 0 {
            p .soft {
                (rest) " characters more"
                @if options.linked { ": " a href=(format!("/text?rev={}", message.commit)) { "the whole text" } }
            }
        }
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

//! The outline of a page of messages: prompts, summaries, failures, edits and subagents.

use maud::{Markup, html};
use tract_core::text::beginning;
use tract_core::{Content, Kind, Part};
use tract_engine::AnswerFacts;

use super::{TranscriptOptions, calls};
use crate::load::ShownMessage;
use crate::text::visible;

/// Maximum characters of an entry.
const MOST: usize = 72;

struct Entry {
    kind: &'static str,
    anchor: String,
    text: String,
}

/// Lists what a reader looks for, each with a link to its place.
pub(super) fn outline(messages: &[ShownMessage<'_>], options: TranscriptOptions<'_>) -> Markup {
    let entries: Vec<Entry> = messages.iter().flat_map(|shown| entries(shown, options)).collect();
    html! {
        nav .outline aria-label="Outline" {
            @if entries.is_empty() { p .soft { "nothing to list" } }
            ol {
                @for entry in &entries {
                    li .(entry.kind) {
                        a href=(format!("#{}", entry.anchor)) {
                            @if entry.kind != "prompt" { span .kind { (entry.kind) } " " }
                            (visible(&entry.text))
                        }
                    }
                }
            }
        }
    }
}

fn entries(shown: &ShownMessage<'_>, options: TranscriptOptions<'_>) -> Vec<Entry> {
    let anchor = options.anchor('m', shown.number);
    let entry = |kind, text: &str| Entry { kind, anchor: anchor.clone(), text: first_line(text) };
    let message = shown.message;
    let mut entries = Vec::new();
    if shown.before_summary().is_some() {
        entries.push(entry("summary", &message.content.text()));
        return entries;
    }
    if message.content.kind() == Kind::User {
        let is_typed = |facts: AnswerFacts| facts.injected.is_none() && !facts.is_copied_context;
        let is_typed = shown.commit.as_ref().is_none_or(|commit| is_typed(AnswerFacts::of(commit)));
        let text = message.content.text();
        // Commands and their output are recorded as messages that start with a tag.
        if is_typed && !text.starts_with('<') && !text.starts_with("Caveat: ") {
            entries.push(entry("prompt", &text));
        }
    }
    if shown.is_edited() {
        entries.push(entry("edited", &message.content.text()));
    }
    let mut count = 0;
    for part in message.content.parts() {
        let Part::ToolCall(call) = part else { continue };
        count += 1;
        let anchor = format!("{}-{count}", options.anchor('c', shown.number));
        let failed = shown.results.get(count - 1).copied().flatten().is_some_and(
            |(_, result)| matches!(&result.content, Content::ToolResult(answer) if answer.is_error),
        );
        if failed {
            entries.push(Entry { kind: "failed", anchor, text: call.name.clone() });
        } else if let Some((kind, text)) = calls::outlined(call) {
            entries.push(Entry { kind, anchor, text: first_line(&text) });
        }
    }
    entries
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let (first, more) = beginning(line.trim(), MOST);
    if more > 0 { format!("{first}…") } else { first.to_owned() }
}

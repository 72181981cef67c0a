//! The definitions and the history of the active tools.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};
use tract_core::text::{beginning, count, number};
use tract_schema::ToolView;

use super::{Tab, session_header};
use crate::load::{Approval, LoadedContext, ToolFacts, ToolsChange};
use crate::text::visible;
use crate::times;

/// Maximum characters of a definition.
const MOST: usize = 50_000;
/// Maximum number of losses listed per provider.
const LOSSES: usize = 20;
/// Maximum number of called tools listed without a definition.
const CALLED: usize = 100;

/// Shows the active tools at a revision, as given, and the commits that changed them.
pub(crate) fn tools(
    context: &LoadedContext,
    facts: &[ToolFacts],
    changes: &[ToolsChange],
    has_more: bool,
) -> Markup {
    let tools = context.compiled.tools();
    html! {
        (session_header(context, Tab::Tools, true))
        (super::unreadable(context))
        @if tools.is_empty() { (without_definitions(context)) } @else {
            p .soft { (count(tools.len(), "definition")) " in force" }
        }
        @for (tool, facts) in tools.iter().zip(facts) {
            @let (kept, rest) = beginning(&tool.schema, MOST);
            article tabindex="-1" {
                p {
                    b { (visible(&tool.name)) } " " span .soft { (tool.id.short()) }
                    @match facts.approval {
                        Approval::None => {}
                        Approval::Approved => { " " span .soft { "approved" } }
                        Approval::Other => { " " span .changed { "another definition was approved" } }
                    }
                }
                @if let Some(says) = description(&tool.schema) { pre .text dir="auto" { (visible(&says)) } }
                details { summary { "definition" } pre { (visible(kept)) } @if rest > 0 { p .soft { (rest) " characters more" } } }
                @for (dialect, losses) in &facts.losses {
                    details {
                        summary { "sent to " (dialect.as_str()) ": " (count(losses.len(), "difference")) }
                        ul {
                            @for loss in losses.iter().take(LOSSES) { li { (visible(&loss.to_string())) } }
                            @if losses.len() > LOSSES { li .soft { (losses.len() - LOSSES) " more" } }
                        }
                    }
                }
            }
        }
        h2 { "Changes" }
        @if changes.is_empty() { p .soft { "no tool was ever set" } } @else {
            table {
                thead { tr { th { "commit" } th { "time" } th .wide { "tools" } th { "context" } } }
                tbody {
                    @for change in changes {
                        tr {
                            td .id { (change.commit.id().short()) }
                            td .time { (times::minute(change.commit.created_at, "no time")) }
                            td .wide { (names("added", &change.added)) (names("changed", &change.changed)) (names("removed", &change.removed)) }
                            td {
                                a href=(format!("/tools?rev={}", change.commit.id())) { "after" } " "
                                @if change.commit.parent().is_some() {
                                    a href=(format!("/compare?a={0}~1&b={0}", change.commit.id())) { "what it changed" }
                                }
                            }
                        }
                    }
                }
            }
            @if has_more { p .soft { "there are earlier ones: tract tools history" } }
        }
    }
}

/// Lists the tools that were called although no definition is recorded: many tools record only calls.
fn without_definitions(context: &LoadedContext) -> Markup {
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for call in context.compiled.messages().flat_map(|message| message.content.calls()) {
        *calls.entry(&call.name).or_default() += 1;
    }
    let mut calls: Vec<(&str, usize)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, calls)| Reverse(*calls));
    html! {
        p .soft { "No definitions of tools are recorded here. " code { "tract record" } " keeps those that are sent." }
        @if !calls.is_empty() {
            table {
                thead { tr { th scope="col" { "tool" } th scope="col" .number { "calls" } } }
                tbody { @for (name, calls) in calls.iter().take(CALLED) {
                    tr { td { (visible(name)) } td .number { (number(*calls as u64)) } }
                } }
            }
            @if calls.len() > CALLED { p .soft { (calls.len() - CALLED) " more: tract tools cost" } }
        }
    }
}

fn names(what: &str, names: &[String]) -> Markup {
    const SHOWN: usize = 12;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| visible(name)).collect();
    html! {
        @if !names.is_empty() {
            p {
                span .soft { (what) " " } (shown.join(", "))
                @if names.len() > SHOWN { span .soft { " and " (names.len() - SHOWN) " more" } }
            }
        }
    }
}

fn description(schema: &str) -> Option<String> {
    let view = ToolView::parse(schema).ok()?;
    serde_json::from_str(view.description?).ok()
}

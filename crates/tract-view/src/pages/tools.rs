//! The definitions of the tools in force.

use maud::{Markup, html};
use tract_core::text::beginning;
use tract_schema::ToolView;

use crate::load::LoadedContext;
use crate::text::{query, visible};

/// Characters of one definition.
const MOST: usize = 50_000;

/// Shows the tools in force at a revision, as they were given.
pub(crate) fn tools(context: &LoadedContext) -> Markup {
    let tools = context.compiled.tools();
    html! {
        h1 { "Tools at " a href=(format!("/transcript?rev={}", query(&context.revision))) { (visible(&context.revision)) } }
        p .soft { (tools.len()) " definitions in force" }
        @for tool in tools {
            @let (kept, rest) = beginning(&tool.schema, MOST);
            article tabindex="-1" {
                p { b { (visible(&tool.name)) } " " span .soft { (tool.id.short()) } }
                @if let Some(says) = description(&tool.schema) { pre .text dir="auto" { (visible(&says)) } }
                details { summary { "definition" } pre { (visible(kept)) } @if rest > 0 { p .soft { (rest) " characters more" } } }
            }
        }
    }
}

fn description(schema: &str) -> Option<String> {
    let view = ToolView::parse(schema).ok()?;
    serde_json::from_str(view.description?).ok()
}

//! The page of pending approvals.

use maud::{Markup, html};
use tract_core::text::beginning;
use tract_engine::{Pending, PendingRequest};

use crate::text::{query, visible};
use crate::times;

/// Maximum characters of each text.
const MOST: usize = 20_000;

/// Lists pending approvals, oldest first. If decisions are allowed, each has a form.
pub(crate) fn pending(pending: &[Pending], decides: bool) -> Markup {
    html! {
        h1 { "Pending approvals" }
        p .soft {
            (pending.len()) " waiting"
            @if !decides { "; decide with tract pending approve or tract pending reject" }
        }
        @for one in pending { (article(one, decides)) }
    }
}

fn article(pending: &Pending, decides: bool) -> Markup {
    let branch = pending.branch.branch_name().unwrap_or(pending.branch.as_str());
    html! {
        article tabindex="-1" {
            p {
                b { (visible(&pending.id)) } " " (visible(&pending.request.describe())) " "
                span .soft {
                    a href=(format!("/transcript?rev={}", query(branch))) { (visible(branch)) }
                    " · " (times::minute(Some(pending.created_at_us), "no time"))
                    " · " (visible(&pending.event)) " · " (visible(&pending.handler)) ": " (visible(&pending.reason))
                }
            }
            @if let PendingRequest::Call { bound: Some(call), .. } = &pending.request {
                details open {
                    summary { "what would run" }
                    (text(&format!(
                        "tool {}\nserver {}\narguments {}",
                        call.tool_name,
                        call.server.as_deref().unwrap_or("none: a tool of the program"),
                        call.arguments
                    )))
                }
            }
            @if let Some(content) = pending.request.content() { (text(&content.text())) }
            @if decides {
                form method="post" action="/decide" {
                    input type="hidden" name="id" value=(pending.id);
                    button name="decision" value="approve" { "Approve" }
                    label { span .soft { "reason " } input type="text" name="reason"; }
                    button name="decision" value="reject" { "Reject" }
                }
            }
        }
    }
}

fn text(value: &str) -> Markup {
    let (kept, rest) = beginning(value, MOST);
    html! {
        pre .text dir="auto" { (visible(kept)) }
        @if rest > 0 { p .soft { (rest) " characters more: tract pending show" } }
    }
}

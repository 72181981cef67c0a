//! `tract tools cost`

use serde_json::json;
use tract::CommitId;
use tract::engine::{ToolCost, tool_costs};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render::number;
use crate::style::{DIM, Styled};

/// Lists what the definitions of each tool added to the requests of a revision, or of all branches.
pub(super) async fn cost(context: &mut Context<'_>, revision: Option<&str>) -> Outcome<()> {
    let tract = context.open().await?;
    let heads: Vec<CommitId> = match revision {
        Some(revision) => vec![tract.resolve_position(revision).await?],
        None => tract.branches().list().await?.into_iter().map(|branch| branch.head).collect(),
    };
    let costs = tool_costs(tract.repo(), &heads).await?;
    let out = &mut *context.out;
    if out.is_json() {
        return costs.iter().try_for_each(|cost| {
            out.json(&json!({
                "name": cost.name,
                "tokens": cost.tokens,
                "requests": cost.requests,
                "sent_tokens": cost.sent_tokens,
                "calls": cost.calls,
                "share": cost.share().map(|share| (share * 1e4).round() / 1e4),
            }))
        });
    }
    if costs.is_empty() {
        out.say("no tool is defined or called; `tract tools set FILE` defines tools");
        return Ok(());
    }
    out.page();
    let width = super::width(costs.iter().map(|cost| cost.name.as_str())).max("tool".len());
    let head = format!(
        "{:<width$}  {:>8} {:>9} {:>13} {:>8} {:>8}",
        "tool", "tokens", "requests", "tokens sent", "calls", "share"
    );
    out.line(Styled(DIM, head))?;
    for cost in &costs {
        let name = escape::line(&cost.name);
        let pad = " ".repeat(width - escape::width(&name));
        let sent = match cost.requests {
            0 => [0; 3].map(|_| "–".to_owned()),
            requests => [cost.tokens, requests, cost.sent_tokens].map(number),
        };
        let [tokens, requests, sent] = sent;
        let (calls, share) = (number(cost.calls), share(cost));
        out.line(format_args!(
            "{name}{pad}  {tokens:>8} {requests:>9} {sent:>13} {calls:>8} {share:>8}"
        ))?;
    }
    let idle = costs.iter().filter(|cost| cost.calls == 0 && cost.requests > 0);
    let idle: Vec<u64> = idle.map(|cost| cost.sent_tokens).collect();
    if !idle.is_empty() {
        let sent = number(idle.iter().copied().fold(0, u64::saturating_add));
        let tools = crate::render::count(idle.len(), "tool");
        out.line(format_args!("never called: {tools}, {sent} tokens sent"))?;
    }
    if costs.iter().any(|cost| cost.requests == 0) {
        let kept = "no definition is recorded; `tract record` keeps those that are sent";
        out.line(Styled(DIM, format_args!("–: {kept}")))?;
    }
    if costs.iter().all(|cost| cost.requests == 0) {
        return Ok(());
    }
    out.line(Styled(DIM, "tokens of definitions are counted; share: of the requests that had them"))
}

/// Formats the share of the definitions in the tokens of the requests.
fn share(cost: &ToolCost) -> String {
    match cost.share() {
        None => String::new(),
        Some(share) => format!("{:.1} %", share * 100.0),
    }
}

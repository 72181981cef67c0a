//! `tract why-miss`

mod requests;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tract::forms::{Form, FormOptions};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::count;
use crate::style::{DIM, GOOD, Styled, WARN};

/// Name what breaks the provider's prompt cache, between two revisions or in a whole conversation.
///
/// A provider reads a request from its cache up to the first block that differs from an earlier
/// request. The blocks are the tools, the system prompt, then each block of each message.
///
/// With --turns, each answer of a conversation is compared with the one before it: what its request
/// read from the cache, what was sent again, why, and what that cost more than reading it from the
/// cache. Tokens are those that the provider reported, where the answers have them; else they are
/// counted, and what was sent before is taken to be in the cache.
#[derive(Debug, Args)]
#[command(after_help = "\
Causes: clock in the prompt, system prompt changed, tools reordered, tool definition changed, tool
added, tool removed, mode switched, model switched, compaction, message edited, message removed,
message inserted, cache expired (nothing differs, and the lifetime of 5 minutes or an hour passed),
not recorded.
Examples:
  tract why-miss main~1 main
  tract why-miss workshop-cargo-bike terse --to openai-params
  tract why-miss --turns                     each answer of this branch
  tract why-miss --all                       the causes in all branches, the largest first")]
pub(crate) struct WhyMiss {
    /// The revision that was sent before; with --turns, the conversation [default there: HEAD]
    #[arg(value_name = "A", required_unless_present_any = ["turns", "all"])]
    before: Option<String>,
    /// The revision that is sent now.
    #[arg(value_name = "B", default_value = "HEAD", conflicts_with = "turns")]
    after: String,
    /// Compare requests in this format.
    #[arg(long, value_name = "FORM", default_value = "anthropic-params")]
    #[arg(value_parser = super::compile::form, conflicts_with_all = ["turns", "all"])]
    to: Form,
    /// Compare each answer of a conversation with the one before it.
    #[arg(long)]
    turns: bool,
    /// Rank the causes over all branches; an answer that several have counts once.
    #[arg(long, short, conflicts_with_all = ["turns", "before"])]
    all: bool,
    /// Read prices from this file, as `tract usage` does.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

pub(crate) async fn run(context: &mut Context<'_>, why_miss: WhyMiss) -> Outcome<()> {
    let before = why_miss.before.as_deref().unwrap_or("HEAD");
    if why_miss.turns || why_miss.all {
        let prices = crate::prices::read(why_miss.prices.as_deref())?;
        let tract = context.open().await?;
        return match why_miss.all {
            true => requests::ranked(context, &tract, &prices).await,
            false => requests::turns(context, &tract, before, &prices).await,
        };
    }
    if why_miss.prices.is_some() {
        return Err(Failure::usage("--prices needs --turns or --all"));
    }
    let tract = context.open().await?;
    let options = FormOptions::default();
    let before = tract.compile_at(before).await?;
    let before = tract::forms::compile_form(&before, why_miss.to, &options)?;
    let after = tract.compile_at(why_miss.after.as_str()).await?;
    let after = tract::forms::compile_form(&after, why_miss.to, &options)?;
    let miss = tract::forms::why_miss(&before, &after);
    let blocks = (before.prefix.len(), after.prefix.len());
    if context.out.is_json() {
        let miss = miss.as_ref();
        return context.out.json(&json!({
            "miss": miss.is_some(),
            "same_blocks": miss.map_or(blocks.0.min(blocks.1), |miss| miss.same_blocks),
            "same_bytes": miss.map(|miss| miss.same_bytes),
            "blocks": blocks,
            "before": miss.and_then(|miss| miss.first.as_ref()).map(ToString::to_string),
            "after": miss.and_then(|miss| miss.second.as_ref()).map(ToString::to_string),
        }));
    }
    match miss {
        None => {
            let [first, second] = [blocks.0, blocks.1].map(|blocks| count(blocks, "block"));
            let hit = if blocks.1 <= blocks.0 {
                format!("the second request ({second}) is cached whole")
            } else {
                format!("the first request ({first}) is the start of the second")
            };
            context.out.line(format_args!("{}: {hit}", Styled(GOOD, "no miss")))
        }
        Some(miss) => {
            let text = miss.to_string();
            context.out.line(format_args!("{}: {}", Styled(WARN, "miss"), escape::line(&text)))?;
            // The provider reads the part of the second request after the common prefix again.
            let lost = blocks.1 - miss.same_blocks;
            let lost = format!("not cached: {lost} of {}", count(blocks.1, "block"));
            context.out.line(Styled(DIM, lost))
        }
    }
}

//! `tract why-miss`

use clap::Args;
use serde::Serialize;
use tract::forms::{Form, FormOptions};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render::count;
use crate::style::{DIM, GOOD, Styled, WARN};

/// Name what breaks the provider's prompt cache between two revisions.
///
/// A provider reads a request from its cache up to the first block that differs from an earlier
/// request. The blocks are the tools, the system prompt, then each block of each message.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract why-miss main~1 main
  tract why-miss workshop-cargo-bike terse --to openai-params")]
pub(crate) struct WhyMiss {
    /// The revision that was sent before.
    #[arg(value_name = "A")]
    before: String,
    /// The revision that is sent now.
    #[arg(value_name = "B", default_value = "HEAD")]
    after: String,
    /// Compare requests in this format.
    #[arg(long, value_name = "FORM", default_value = "anthropic-params")]
    #[arg(value_parser = super::compile::form)]
    to: Form,
}

#[derive(Serialize)]
struct Document {
    miss: bool,
    same_blocks: usize,
    same_bytes: Option<usize>,
    blocks: (usize, usize),
    before: Option<String>,
    after: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, why_miss: WhyMiss) -> Outcome<()> {
    let tract = context.open().await?;
    let options = FormOptions::new();
    let before = tract.compile_at(why_miss.before.as_str()).await?;
    let before = tract::forms::compile_form(&before, why_miss.to, &options)?;
    let after = tract.compile_at(why_miss.after.as_str()).await?;
    let after = tract::forms::compile_form(&after, why_miss.to, &options)?;
    let miss = tract::forms::why_miss(&before, &after);
    let blocks = (before.prefix.len(), after.prefix.len());
    if context.out.is_json() {
        let origin = |origin: Option<&tract::forms::PrefixSource>| origin.map(ToString::to_string);
        return context.out.json(&match &miss {
            None => Document {
                miss: false,
                same_blocks: blocks.0.min(blocks.1),
                same_bytes: None,
                blocks,
                before: None,
                after: None,
            },
            Some(miss) => Document {
                miss: true,
                same_blocks: miss.same_blocks,
                same_bytes: Some(miss.same_bytes),
                blocks,
                before: origin(miss.first.as_ref()),
                after: origin(miss.second.as_ref()),
            },
        });
    }
    match miss {
        None if blocks.1 <= blocks.0 => context.out.line(format_args!(
            "{}: the second request ({}) is cached whole",
            Styled(GOOD, "no miss"),
            count(blocks.1, "block")
        )),
        None => context.out.line(format_args!(
            "{}: the first request ({}) is the start of the second",
            Styled(GOOD, "no miss"),
            count(blocks.0, "block")
        )),
        Some(miss) => {
            let text = miss.to_string();
            context.out.line(format_args!("{}: {}", Styled(WARN, "miss"), escape::line(&text)))?;
            // What the second request has beyond the common prefix is read again by the provider.
            let lost = blocks.1 - miss.same_blocks;
            let lost = format!("not cached: {lost} of {}", count(blocks.1, "block"));
            context.out.line(Styled(DIM, lost))
        }
    }
}

//! `tract compress-tool-calls`

use clap::Args;
use serde_json::json;
use tract::{Commit, Tract, engine};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
#[cfg(feature = "http")]
use crate::input;
use crate::render::{count, number, short};
use crate::revisions::{resolve_all, resolve_optional_position};
use crate::style::{DIM, Styled};

/// Summarize the results of tool calls, one by one.
///
/// Each summary is an edit of its result, and all edits are one durable write. The call that a
/// result answers and its error flag stay, and `tract revert` restores a result. A result stays
/// unchanged if no usable summary is written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract compress-tool-calls --summarizer 'head -c 400'             every result of the branch
  tract compress-tool-calls --name grep --model openai/gpt-5.5 --instructions 'keep file names'
  tract compress-tool-calls 3f9a21c4 --summarizer ./shorten.sh     of this turn, or this result")]
pub(crate) struct CompressToolCalls {
    /// The results, or messages with calls for all of their results [default: all of the branch]
    #[arg(value_name = "REV", conflicts_with_all = ["name", "after"])]
    targets: Vec<String>,
    /// Summarize only turns with a call of this tool; may be given several times.
    #[arg(long, value_name = "TOOL")]
    name: Vec<String>,
    /// Summarize only turns after this commit.
    #[arg(long, value_name = "REV")]
    after: Option<String>,
    /// What the summaries must keep.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// Target length of each summary, in tokens.
    #[arg(long, value_name = "TOKENS")]
    target: Option<u64>,
    /// Every summary must contain all matches of this pattern; may be given several times.
    #[arg(long, value_name = "REGEX")]
    keep: Vec<String>,
    #[cfg(feature = "http")]
    #[arg(long, value_name = "PROVIDER/NAME", env = "TRACT_MODEL", hide_env_values = true)]
    #[arg(help = format!(
        "The model that writes the summaries, unless --summarizer names a program: {}",
        input::model_names()
    ))]
    model: Option<String>,
    /// Base URL of an API-compatible server.
    #[cfg(feature = "http")]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, args: CompressToolCalls) -> Outcome<()> {
    let tract = context.open().await?;
    let done = summarized(context, tract, &args).await?;
    if context.out.is_json() {
        let left = done.left.iter();
        let left = left.map(|(commit, reason)| json!({ "commit": commit, "reason": reason }));
        return context.out.json(&json!({
            "edits": done.edits.iter().map(Commit::id).collect::<Vec<_>>(),
            "sources": done.sources,
            "left": left.collect::<Vec<_>>(),
            "tokens_before": done.tokens_before,
            "tokens_after": done.tokens_after,
            "tool_names": done.tool_names,
            "turns": done.turn_count,
        }));
    }
    for (edit, source) in done.edits.iter().zip(&done.sources) {
        context.out.line(format_args!("{}  for {}", short(edit.id()), short(*source)))?;
    }
    for (commit, reason) in &done.left {
        context.out.say(format_args!("{} stays: {}", short(*commit), escape::line(reason)));
    }
    let tokens = format!("{} → {} tok", number(done.tokens_before), number(done.tokens_after));
    let results = count(done.edits.len(), "result");
    context.out.say(Styled(DIM, format!("{results}, {tokens}")));
    Ok(())
}

/// Makes the program, or else the named model, write the summaries.
async fn summarized(
    context: &Context<'_>,
    tract: Tract,
    args: &CompressToolCalls,
) -> Outcome<engine::CompressedToolCalls> {
    let mut options = engine::CompressToolCalls::default();
    options.query.names.clone_from(&args.name);
    options.query.after = resolve_optional_position(&tract, args.after.as_deref()).await?;
    if !args.targets.is_empty() {
        options.commits = Some(resolve_all(&tract, &args.targets).await?);
    }
    options.how.instructions.clone_from(&args.instructions);
    options.how.target_tokens = args.target;
    options.how.must_keep.clone_from(&args.keep);
    #[cfg(feature = "http")]
    if let (None, Some(model)) = (&context.global.summarizer, &args.model) {
        let model = super::ask::client(model, args.base_url.as_deref())?;
        let tract = context.summarized_by(tract, std::sync::Arc::new(model));
        let runtime = crate::runtime::threads(1)?;
        let work = runtime.spawn(async move { tract.compress_tool_calls(&options).await });
        let done = work
            .await
            .map_err(|error| Failure::no("runtime", format!("the request failed: {error}")))?;
        return Ok(done?);
    }
    if context.global.summarizer.is_none() {
        return Err(Failure::usage("expected a program or a model that writes the summaries")
            .note("name a program with --summarizer or TRACT_SUMMARIZER")
            .note("or a model with --model or TRACT_MODEL"));
    }
    Ok(tract.compress_tool_calls(&options).await?)
}

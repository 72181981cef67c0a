//! `tract summarization`

use clap::Args;
use tract::hooks::ToolSummarization;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render;

/// Set which tool results are summarized automatically.
///
/// Results of a listed tool are summarized at any size, other results above the threshold. The
/// program that --summarizer or TRACT_SUMMARIZER names writes the summaries; without one, `tract
/// chat` and `tract run` use their model. Without either, results are recorded unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract summarization                                      show the current settings
  tract summarization --tool 'grep=keep file names' --threshold 800
  tract summarization --off
  tract commit tool-result --call-id c1 --summarizer 'head -c 400' < output.txt")]
pub(crate) struct Summarization {
    /// A tool, and what its summaries must keep; may be given several times.
    #[arg(long, value_name = "NAME=TEXT")]
    tool: Vec<String>,
    /// Summarize results of other tools above this many tokens.
    #[arg(long, value_name = "TOKENS")]
    threshold: Option<u64>,
    /// What summaries of other tools must keep.
    #[arg(long, value_name = "TEXT")]
    default: Option<String>,
    /// Target length of a summary, in tokens.
    #[arg(long, value_name = "TOKENS")]
    target: Option<u64>,
    /// Every summary must contain all matches of this pattern; may be given several times.
    #[arg(long, value_name = "REGEX")]
    keep: Vec<String>,
    /// Let the summarizer see the conversation.
    #[arg(long)]
    with_context: bool,
    /// Summarize nothing automatically.
    #[arg(long, conflicts_with_all = ["tool", "threshold", "default", "target", "keep", "with_context"])]
    off: bool,
}

impl Summarization {
    pub(crate) fn writes(&self) -> bool {
        self.off || self.sets()
    }

    fn sets(&self) -> bool {
        !self.tool.is_empty()
            || self.threshold.is_some()
            || self.default.is_some()
            || self.target.is_some()
            || !self.keep.is_empty()
            || self.with_context
    }
}

pub(crate) async fn run(context: &mut Context<'_>, args: Summarization) -> Outcome<()> {
    let tract = context.open().await?;
    if args.off {
        tract.repo().configure_tool_summarization(None).await?;
    } else if args.sets() {
        let mut config = ToolSummarization::default();
        for tool in &args.tool {
            let Some((name, text)) = tool.split_once('=') else {
                return Err(Failure::usage(format!("expected NAME=TEXT, found {tool:?}"))
                    .note("for example --tool 'grep=keep file names'"));
            };
            config.instructions.insert(name.to_owned(), text.to_owned());
        }
        config.auto_threshold = args.threshold;
        config.default_instructions = args.default;
        config.target_tokens = args.target;
        config.must_keep = args.keep;
        config.with_context = args.with_context;
        tract.repo().configure_tool_summarization(Some(&config)).await?;
        if context.global.summarizer.is_none() {
            context.out.say(
                "summaries are written by the model of `tract chat` and `tract run`; for other \
                 commands, name a program with --summarizer or TRACT_SUMMARIZER",
            );
        }
    }
    let config = tract.repo().tool_summarization().await?;
    if context.out.is_json() {
        return context.out.json(&config);
    }
    let Some(config) = config else {
        return context.out.line("no tool result is summarized automatically");
    };
    for (name, text) in &config.instructions {
        let (name, text) = (escape::line(name), escape::line(text));
        context.out.line(format_args!("{name}: at any size; {text}"))?;
    }
    match config.auto_threshold {
        Some(tokens) => {
            let text = config.default_instructions.as_deref().unwrap_or("no instructions");
            let text = escape::line(text);
            context
                .out
                .line(format_args!("others: above {}; {text}", render::counted(tokens, "token")))?;
        }
        None => context.out.line("others: never")?,
    }
    if let Some(tokens) = config.target_tokens {
        context.out.line(format_args!("about {} each", render::counted(tokens, "token")))?;
    }
    for pattern in &config.must_keep {
        context.out.line(format_args!("must keep: {}", escape::line(pattern)))?;
    }
    Ok(())
}

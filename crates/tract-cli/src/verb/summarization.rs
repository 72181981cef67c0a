//! `tract summarization`

use clap::Args;
use tract::hooks::ToolSummarization;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render;

/// Set which tool results are summarized automatically.
///
/// A tool that is listed is summarized at any size, others above the threshold. The summaries
/// are written by the model of `tract chat` and `tract run`, and by the program that --summarizer or
/// TRACT_SUMMARIZER names, for every command; if there is neither, a result is recorded as it
/// came.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract summarization                                      what holds now
  tract summarization --tool 'grep=keep file names' --threshold 800
  tract summarization --off
  tract commit tool-result --call-id c1 --summarizer 'head -c 400' < output.txt")]
pub(crate) struct Summarization {
    /// A tool, and what has to be kept of its results; may be given several times.
    #[arg(long, value_name = "NAME=TEXT")]
    tool: Vec<String>,
    /// Above how many tokens the results of other tools are summarized.
    #[arg(long, value_name = "TOKENS")]
    threshold: Option<u64>,
    /// What has to be kept of the results of other tools.
    #[arg(long, value_name = "TEXT")]
    default: Option<String>,
    /// How long a summary should be.
    #[arg(long, value_name = "TOKENS")]
    target: Option<u64>,
    /// A pattern whose matches every summary must contain; may be given several times.
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

pub(crate) async fn run(context: &mut Context<'_>, asked: Summarization) -> Outcome<()> {
    let tract = context.open().await?;
    if asked.off {
        tract.repo().configure_tool_summarization(None).await?;
    } else if asked.sets() {
        let mut config = ToolSummarization::new();
        for tool in &asked.tool {
            let Some((name, text)) = tool.split_once('=') else {
                return Err(Failure::usage(format!("expected NAME=TEXT, found {tool:?}"))
                    .note("for example --tool 'grep=keep file names'"));
            };
            config = config.tool(name, text);
        }
        config.auto_threshold = asked.threshold;
        config.default_instructions = asked.default;
        config.target_tokens = asked.target;
        config.must_keep = asked.keep;
        config.with_context = asked.with_context;
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
                .line(format_args!("others: above {}; {text}", render::token_count(tokens)))?;
        }
        None => context.out.line("others: never")?,
    }
    if let Some(tokens) = config.target_tokens {
        context.out.line(format_args!("about {} each", render::token_count(tokens)))?;
    }
    for pattern in &config.must_keep {
        context.out.line(format_args!("must keep: {}", escape::line(pattern)))?;
    }
    Ok(())
}

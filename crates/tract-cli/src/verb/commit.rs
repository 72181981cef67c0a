//! `tract commit`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tract::{Draft, JsonText, Priority};

use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::definitions;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render;

/// Record a message.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract commit system \"You are a travel agent. Be brief.\"
  tract commit user < question.txt
  tract commit assistant \"\" --call c1 get_weather '{\"city\":\"Paris\"}'
  tract commit tool-result '{\"celsius\":11}' --call-id c1
  tract commit user \"Hello\" --tools tools.json --metadata channel=web")]
pub(crate) struct Commit {
    /// The kind of message.
    kind: MessageKind,
    /// The text; standard input when absent or `-`
    text: Option<String>,
    /// Add a tool call to an assistant's message; may be given several times.
    #[arg(long, num_args = 3, value_names = ["ID", "TOOL", "ARGUMENTS"])]
    call: Vec<String>,
    /// Answer this call: the nearest open one with this id.
    #[arg(long, value_name = "ID", required_if_eq("kind", "tool-result"))]
    call_id: Option<String>,
    /// Name the tool that answered.
    #[arg(long, value_name = "TOOL", requires = "call_id")]
    name: Option<String>,
    /// Mark the result as a tool error.
    #[arg(long, requires = "call_id")]
    error: bool,
    /// Set the priority.
    #[arg(long, value_enum)]
    priority: Option<PriorityWord>,
    /// Record model and parameters: a JSON object.
    #[arg(long, value_name = "JSON", value_parser = input::json_value)]
    config: Option<JsonText>,
    /// Use these tools for this commit: a file with a JSON list of schemas. The next commit uses
    /// the tools of `tools set` again; if none were ever set, these stay in force.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    #[command(flatten)]
    commit_args: CommitArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MessageKind {
    System,
    User,
    Assistant,
    ToolResult,
    Reasoning,
    Note,
}

/// How much a message matters.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PriorityWord {
    /// Left out of the context
    Skip,
    /// In the context
    Normal,
    /// In the context; summaries must keep what `annotate --retention` names
    Important,
    /// In the context, and never summarized
    Pinned,
}

impl From<PriorityWord> for Priority {
    fn from(word: PriorityWord) -> Self {
        match word {
            PriorityWord::Skip => Self::Skip,
            PriorityWord::Normal => Self::Normal,
            PriorityWord::Important => Self::Important,
            PriorityWord::Pinned => Self::Pinned,
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, commit: Commit) -> Outcome<()> {
    let tract = context.open().await?;
    let made = tract.commit(draft(commit)?).await?;
    render::committed(context.out, &tract, &made).await
}

fn draft(commit: Commit) -> Outcome<Draft> {
    if !commit.call.is_empty() && !matches!(commit.kind, MessageKind::Assistant) {
        return Err(Failure::usage("only an assistant's message has tool calls")
            .note("tract commit assistant TEXT --call ID TOOL ARGUMENTS"));
    }
    // For a message of calls alone, standard input is not read.
    let text = match (&commit.text, commit.call.is_empty()) {
        (None, false) => String::new(),
        // A command without output has an empty result.
        _ if matches!(commit.kind, MessageKind::ToolResult) => input::text_or_stdin(commit.text)?,
        _ => input::message_text(commit.text)?,
    };
    let mut draft = match commit.kind {
        MessageKind::System => Draft::system(text),
        MessageKind::User => Draft::user(text),
        MessageKind::Assistant => Draft::assistant(text),
        MessageKind::Reasoning => Draft::reasoning(text),
        MessageKind::Note => Draft::note(&text)?,
        MessageKind::ToolResult => {
            Draft::tool_result(commit.call_id.unwrap_or_default(), text).is_error(commit.error)
        }
    };
    for call in commit.call.chunks_exact(3) {
        if let [id, tool, arguments] = call {
            draft = draft.call(id, tool, arguments);
        }
    }
    if let Some(name) = commit.name {
        draft = draft.tool_name(name);
    }
    draft.priority = commit.priority.map(Into::into);
    let details = commit.commit_args.details()?;
    draft.message = details.message;
    draft.metadata = details.metadata;
    draft.created_at = details.created_at;
    draft.generation_config = commit.config;
    if let Some(path) = commit.tools {
        draft.tools = Some(definitions::read_to_send(&path)?);
    }
    Ok(draft)
}

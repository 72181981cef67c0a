//! `diff` and `why_miss`: the differences between two revisions, and their cost at the prompt cache.

use schemars::JsonSchema;
use serde::Serialize;
use tract_core::text::beginning;
use tract_core::{ToolContext, ToolError, ToolResult};
use tract_engine::MessageChange;
use tract_providers::{Form, FormOptions, compile_form};
use tract_tools::tool;

use crate::recorded;
use crate::shared::{Shared, compiled};
use crate::shown::MOST_CHARS;

/// The differences between two revisions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ComparedRevisions {
    /// Messages that only the second has.
    added: usize,
    /// Messages that only the first has.
    removed: usize,
    /// Messages with other content in the second.
    changed: usize,
    /// Messages that both have.
    unchanged: usize,
    /// Names of tools that differ.
    tools: Vec<String>,
    /// Tokens of the first and of the second.
    tokens: (u64, u64),
    /// The differences as lines.
    text: String,
    /// How many characters were cut from the end of `text`.
    cut_chars: usize,
}

/// Compares the messages and tools of two revisions.
#[tool(read_only)]
pub(crate) async fn diff(
    /// The first: a branch, a tag or a commit id.
    a: String,
    /// The second.
    b: String,
    /// Characters of the differences, up to 40,000.
    #[tool(default = 10_000)]
    #[schemars(range(min = 1, max = 40_000))]
    max_chars: usize,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<ComparedRevisions>, ToolError> {
    let repo = Shared::of(context)?.repo(repo.as_deref()).await?;
    let (_, before) = compiled(&repo, &a).await?;
    let (_, after) = compiled(&repo, &b).await?;
    let diff = tract_engine::diff(&before, &after, &tract_schema::diff_lines);
    let (mut added, mut removed, mut changed) = (0, 0, 0);
    for change in &diff.messages {
        match change {
            MessageChange::Added { .. } => added += 1,
            MessageChange::Removed { .. } => removed += 1,
            _ => changed += 1,
        }
    }
    let lines = diff.lines();
    // A line of a diff is one line, regardless of the recorded text.
    let lines = lines.iter().map(|line| {
        let text = line.text.replace('\n', "\\n");
        format!("{} {text}", line.sign()).trim_end().to_owned()
    });
    let whole = lines.collect::<Vec<_>>().join("\n");
    let (text, cut_chars) = beginning(&whole, max_chars.min(MOST_CHARS));
    let message = match cut_chars {
        0 => text.to_owned(),
        chars => format!("{text}\n… {chars} characters more: raise max_chars"),
    };
    let compared = ComparedRevisions {
        added,
        removed,
        changed,
        unchanged: diff.unchanged_count,
        tools: diff.tools.changes.iter().map(|change| change.name().to_owned()).collect(),
        tokens: diff.token_counts,
        text: text.to_owned(),
        cut_chars,
    };
    Ok(ToolResult { message, exclude_value_from_context: true, ..ToolResult::ok(compared) })
}

/// The part of a request that a provider can read from its prompt cache.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CacheMiss {
    /// Whether the second request departs from the first before the first ends.
    miss: bool,
    /// Blocks at the beginning that are the same.
    same_blocks: usize,
    /// Blocks of the first and of the second request.
    blocks: (usize, usize),
    /// The first differing block of the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The first differing block of the second request.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// Names the block that breaks a provider's prompt cache between two revisions.
#[tool(read_only)]
pub(crate) async fn why_miss(
    /// The earlier request: a branch, a tag or a commit id.
    a: String,
    /// The later request.
    b: String,
    /// The form of the requests, such as openai-params or gemini-params.
    #[tool(default = "anthropic-params".into())]
    to: String,
    /// Another repository of the same store.
    repo: Option<String>,
    context: &ToolContext,
) -> Result<ToolResult<CacheMiss>, ToolError> {
    let repo = Shared::of(context)?.repo(repo.as_deref()).await?;
    let form: Form = to.parse().map_err(|error: tract_providers::FormError| {
        let tool_error = ToolError::validation(error.to_string()).at("to");
        error.notes().into_iter().fold(tool_error, ToolError::note)
    })?;
    let request = async |revision: &str| {
        let (_, context) = compiled(&repo, revision).await?;
        compile_form(&context, form, &FormOptions::default())
            .map_err(|error| ToolError::other(error.to_string()))
    };
    let (before, after) = (request(&a).await?, request(&b).await?);
    let blocks = (before.prefix.len(), after.prefix.len());
    let miss = tract_providers::why_miss(&before, &after);
    let (message, miss) = match miss {
        None => {
            let same_blocks = blocks.0.min(blocks.1);
            let message = format!("no miss: {same_blocks} of {} blocks are cached", blocks.1);
            (message, CacheMiss { miss: false, same_blocks, blocks, before: None, after: None })
        }
        Some(found) => {
            let message = recorded::line(&format!("miss: {found}"));
            let miss = CacheMiss {
                miss: true,
                same_blocks: found.same_blocks,
                blocks,
                before: found.first.as_ref().map(ToString::to_string),
                after: found.second.as_ref().map(ToString::to_string),
            };
            (message, miss)
        }
    };
    Ok(ToolResult { message, exclude_value_from_context: true, ..ToolResult::ok(miss) })
}

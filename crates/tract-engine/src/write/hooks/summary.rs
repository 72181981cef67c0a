//! Summaries of single contents by the summarizer of the hooks.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use tract_core::{Content, Message, RefName, Summary, SummaryRequest};
use tract_hooks::{Summarize, SummaryError, ToolSummarization, kept_texts, summarize_checked};

use super::WriteTarget;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::pending::read_document;

/// The ref of the configuration of automatic summaries.
pub(crate) const SUMMARIZATION_CONFIG: &str = "config/tool-summarization";

/// Maximum length of the conversation passed to a summarizer, in characters. The end is kept.
const CONTEXT_CHARS: usize = 12_000;

/// Reads the configuration of automatic summaries; `None` if there is no configuration.
///
/// # Errors
/// When the store fails, or the document is damaged.
pub(crate) async fn stored_summarization(repo: &Repo) -> Result<Option<Arc<ToolSummarization>>> {
    let name = RefName::new(SUMMARIZATION_CONFIG)?;
    let Some(target) = repo.ref_target(&name).await? else { return Ok(None) };
    Ok(Some(Arc::new(read_document(repo, &target).await?)))
}

/// Summarizes one content with the hooks' summarizer port.
pub(crate) async fn summary_of(
    place: WriteTarget<'_>,
    content: &Content,
    tool: Option<&str>,
    how: &Summarize,
) -> Result<Summary, SummaryError> {
    let hooks = place.repo.hooks();
    let port = hooks.summarizer_port().ok_or(SummaryError::NoSummarizer)?;
    let mut request = request(&content.text(), tool, how)?;
    if how.with_context {
        // A head made by this write is not stored yet, so it has no context to pass.
        if let Ok(compiled) = place.repo.compiler().compile(place.head).await {
            let text = conversation(compiled.messages());
            let skipped = text.chars().count().saturating_sub(CONTEXT_CHARS);
            request.context = Some(text.chars().skip(skipped).collect());
        }
    }
    summarize_checked(port, &request, place.repo.counter(), hooks.summary_time()).await
}

pub(crate) fn request(
    text: &str,
    tool: Option<&str>,
    how: &Summarize,
) -> Result<SummaryRequest, SummaryError> {
    let kept = kept_texts(text, &how.must_keep)?;
    let mut request = SummaryRequest { must_keep: kept, ..SummaryRequest::new(text) };
    request.what = Some(format!("tool:{}", tool.unwrap_or("unknown")));
    request.instructions = how.instructions.clone();
    request.target_tokens = how.target_tokens;
    Ok(request)
}

/// Writes messages as text, each under a label with its author.
pub(crate) fn conversation<'a>(messages: impl Iterator<Item = &'a Message>) -> String {
    let mut out = String::new();
    // A result may lack its tool's name; the earlier call has it.
    let mut names: HashMap<&str, &str> = HashMap::new();
    for message in messages {
        names.extend(message.content.calls().map(|call| (call.id.as_str(), call.name.as_str())));
        let calls: Vec<String> = message
            .content
            .calls()
            .map(|call| {
                let arguments: String = call.arguments.chars().take(60).collect();
                format!("{}({arguments})", call.name)
            })
            .collect();
        let label = match &message.content {
            Content::ToolResult(answer) => {
                let called = || names.get(answer.call_id.as_str()).copied();
                let name = answer.name.as_deref().or_else(called).unwrap_or("tool");
                format!("tool:{name} (call_id={})", answer.call_id)
            }
            _ if !calls.is_empty() => format!("{} (calls: {})", message.role, calls.join(", ")),
            _ => message.role.to_string(),
        };
        let _ = writeln!(out, "[{label}]: {}\n", message.content.text());
    }
    out
}

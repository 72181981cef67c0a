//! Conversations and messages as documents: `tract://REPO/BRANCH` and `tract://REPO/BRANCH/COMMIT`.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tract_core::text::percent_encoded;
use tract_core::{CommitId, ToolError};
use tract_engine::Branch;
use tract_mcp::{HostDocument, HostDocuments, HostPage};

use crate::recorded::escaped_json;
use crate::shared::{Shared, compiled, failed};
use crate::shown::{self, ShownMessage};
use crate::tools::dated;

const SCHEME: &str = "tract://";

/// Documents on one page of the list.
const PAGE: usize = 100;

/// Messages of a conversation that its document has: the last ones.
const LAST_MESSAGES: usize = 50;

/// Characters of each message of a conversation.
const MESSAGE_CHARS: usize = 2_000;

pub(crate) struct Documents {
    shared: Arc<Shared>,
}

impl Documents {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

/// The end of a conversation.
#[derive(Serialize)]
struct ConversationDocument {
    branch: String,
    head: String,
    total: usize,
    messages: Vec<ShownMessage>,
}

#[async_trait]
impl HostDocuments for Documents {
    async fn list(&self, cursor: Option<&str>) -> Result<HostPage, ToolError> {
        let offset = cursor.map(str::parse::<usize>).transpose();
        let offset = offset.map_err(|_| ToolError::validation("unknown cursor").at("cursor"))?;
        let offset = offset.unwrap_or(0);
        let repo = self.shared.repo(None).await?;
        let excluded = self.shared.excluded(&[]);
        let branches =
            dated(&repo, |branch: &Branch| !excluded.contains(branch.name.as_str())).await?;
        let end = offset.saturating_add(PAGE);
        let next = (end < branches.len()).then(|| end.to_string());
        let documents = branches.into_iter().skip(offset).take(PAGE).map(|(branch, _)| {
            let uri = format!("{SCHEME}{}/{}", encode(repo.name().as_str()), encode(&branch.name));
            let what = "the last messages of the conversation, as JSON";
            HostDocument::new(uri, branch.name, what)
        });
        Ok(HostPage { next, ..HostPage::last(documents.collect()) })
    }

    fn templates(&self) -> Vec<HostDocument> {
        let template = |uri: &str, name: &str, what: &str| HostDocument::new(uri, name, what);
        vec![
            template("tract://{repo}/{branch}", "conversation", "The last messages of a branch."),
            template(
                "tract://{repo}/{branch}/{commit}",
                "message",
                "The messages of a branch up to a commit.",
            ),
        ]
    }

    async fn read(&self, uri: &str) -> Result<Option<(String, &'static str)>, ToolError> {
        let Some(path) = uri.strip_prefix(SCHEME) else { return Ok(None) };
        let Some((repo, rest)) = path.split_once('/') else { return Ok(None) };
        let (Some(repo), Some(rest)) = (decode(repo), Some(rest)) else { return Ok(None) };
        let (branch, commit) = match rest.split_once('/') {
            Some((branch, commit)) => (decode(branch), Some(commit)),
            None => (decode(rest), None),
        };
        let Some(branch) = branch else { return Ok(None) };
        let Ok(repo) = self.shared.repo(Some(&repo)).await else { return Ok(None) };
        let Ok(name) = tract_core::RefName::branch(&branch) else { return Ok(None) };
        let Some(head) = repo.head_of(&name).await.map_err(failed)? else { return Ok(None) };
        let revision = match commit {
            Some(commit) => match commit.parse::<CommitId>() {
                Ok(id) => id.to_string(),
                Err(_) => return Ok(None),
            },
            None => head.to_string(),
        };
        let (head, context) = compiled(&repo, &revision).await?;
        let total = context.message_count();
        let from = total.saturating_sub(LAST_MESSAGES) + 1;
        let messages = shown::messages(&repo, &context, from..=total, total, MESSAGE_CHARS).await?;
        let document = ConversationDocument { branch, head: head.to_string(), total, messages };
        let text = serde_json::to_string(&document)
            .map_err(|error| ToolError::other(error.to_string()))?;
        Ok(Some((escaped_json(&text).unwrap_or_default(), "application/json")))
    }
}

/// Writes a name as one segment of a URI.
fn encode(name: &str) -> String {
    percent_encoded(name, "-._~")
}

/// Decodes a segment; `None` if an escape is invalid, or it is not UTF-8.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_uri() {
        for name in ["main", "claude-code/a b", "ü/#?%41", "100%"] {
            let encoded = encode(name);
            assert!(!encoded.contains('/'), "{encoded}");
            assert_eq!(decode(&encoded).as_deref(), Some(name));
        }
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}

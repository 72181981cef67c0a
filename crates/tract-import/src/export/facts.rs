//! Facts about a session as a whole, from the document of its import.

use serde::Deserialize;
use tract_core::time::format_rfc3339;
use tract_core::{CommitId, RefName, RefTarget, hash};
use tract_engine::{Repo, Result};

/// The document of a branch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionFacts {
    pub(super) format: Option<String>,
    start: Option<String>,
    pub(super) session: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) title: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) git_branch: Option<String>,
    pub(super) version: Option<String>,
}

impl SessionFacts {
    /// Returns the recorded id if the branch is the session itself. A rewind or a fork is a
    /// separate session and gets an id made from its head.
    pub(super) fn session_or_made(&self, head: CommitId) -> String {
        let is_whole = matches!(self.start.as_deref(), Some("conversation" | "subagent"));
        let recorded = self.session.clone().filter(|id| is_whole && !id.is_empty());
        recorded.unwrap_or_else(|| made_id(head, "session"))
    }

    /// Returns the id of the session in the format of its tool. A conversation that was changed
    /// here, or recorded by another tool, becomes a new session next to the recorded one.
    pub(super) fn session_in(&self, format: &str, as_recorded: bool, head: CommitId) -> String {
        match as_recorded && self.format.as_deref() == Some(format) {
            true => self.session_or_made(head),
            false => made_id(head, "session"),
        }
    }
}

/// Reads the document of a branch; empty without one.
pub(super) async fn of_branch(repo: &Repo, branch: Option<&str>) -> Result<SessionFacts> {
    #[derive(Deserialize)]
    struct Document {
        meta: SessionFacts,
    }
    let Some(branch) = branch else { return Ok(SessionFacts::default()) };
    let name = RefName::new(format!("imports/{branch}"))?;
    let Some(RefTarget::Blob(blob)) = repo.ref_target(&name).await? else {
        return Ok(SessionFacts::default());
    };
    let blob = repo.require_blob(blob).await?;
    let read = serde_json::from_slice::<Document>(blob.bytes());
    Ok(read.map(|document| document.meta).unwrap_or_default())
}

/// Creates an id in the format of a UUID: the same for the same commit and purpose.
pub(super) fn made_id(commit: CommitId, purpose: &str) -> String {
    let digest = hash::blob(format!("{commit} {purpose}").as_bytes()).to_string();
    let digits: String = digest.chars().filter(char::is_ascii_hexdigit).take(32).collect();
    let group = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // Version 8 is for custom ids, and `a` is the standard variant.
    format!(
        "{}-{}-8{}-a{}-{}",
        group(0, 8),
        group(8, 12),
        group(13, 16),
        group(17, 20),
        group(20, 32)
    )
}

/// Formats a time with milliseconds, as the tools do, or with microseconds if it has any.
pub(super) fn timestamp(at: Option<i64>) -> Option<String> {
    let text = format_rfc3339(at?)?;
    Some(match text.strip_suffix("000Z").filter(|rest| rest.contains('.')) {
        Some(rest) => format!("{rest}Z"),
        None => text,
    })
}

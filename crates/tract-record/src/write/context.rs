//! Changes of a context other than new messages: tools, instructions, edited answers, summaries.

use tract_core::{AuthorKind, CommitId, Content, Draft, Priority, ToolId};
use tract_engine::plan::{Details, Request, Selection};
use tract_engine::{Result, Txn};

use super::{LearnedMessage, OpenBranch, Writer};
use crate::chain::{self, ROOT};
use crate::conversations::Match;
use crate::read::RecordedTurn;

impl Writer {
    /// Sets tools and instructions to those of the request.
    pub(super) async fn set_context(
        &self,
        txn: &mut Txn<'_>,
        desk: &mut OpenBranch,
        turn: &RecordedTurn,
    ) -> Result<()> {
        let details = || Details {
            origin: AuthorKind::Import.into(),
            created_at: Some(turn.requested_at_us),
            ..Details::default()
        };
        let tools = turn.tools.clone().unwrap_or_default();
        let ids: Vec<ToolId> = tools.iter().map(|tool| tool.id()).collect();
        if ids != desk.context.tools {
            desk.add(txn, &Request::Tools { tools, details: details() }).await?;
            desk.context.tools = ids;
        }
        let mut system = Vec::with_capacity(turn.system.len());
        for (place, draft) in turn.system.iter().enumerate() {
            let hash = chain::after(ROOT, &draft.content);
            let mut draft = draft.clone();
            draft.created_at = Some(turn.requested_at_us);
            match desk.context.system.get(place).copied() {
                Some((commit, known)) if known == hash => system.push((commit, hash)),
                Some((commit, _)) => {
                    desk.try_add(txn, &Request::edit(commit, &draft)).await?;
                    system.push((commit, hash));
                }
                None => {
                    let commit = desk.add(txn, &Request::Import(draft)).await?;
                    system.push((commit, hash));
                }
            }
        }
        let gone: Vec<CommitId> =
            desk.context.system.iter().skip(system.len()).map(|(commit, _)| *commit).collect();
        if !gone.is_empty() {
            let request = Request::Annotate {
                targets: gone,
                priority: Priority::Skip,
                reason: Some("no longer in the request".to_owned()),
                retention: None,
                details: details(),
            };
            desk.try_add(txn, &request).await?;
        }
        desk.context.system = system;
        Ok(())
    }

    /// Records an edit for each answer that the client sent back with other visible content.
    pub(super) async fn take_edits(
        &self,
        txn: &mut Txn<'_>,
        desk: &mut OpenBranch,
        turn: &RecordedTurn,
        found: &Match,
    ) -> Result<()> {
        let recorded = turn.messages.iter().zip(found.hashes.iter().skip(1)).take(found.count);
        for (draft, hash) in recorded {
            if !matches!(draft.content, Content::Assistant(_)) {
                continue;
            }
            let later = found.entry.map(|entry| entry.calls).unwrap_or_default();
            let Some(entry) = self.conversations.entry(&turn.thread, hash, later) else { continue };
            let visible = chain::visible(&draft.content);
            if entry.visible == visible {
                continue;
            }
            let mut draft = draft.clone();
            draft.created_at = Some(turn.requested_at_us);
            draft.message = Some("sent back by the client with other content".to_owned());
            desk.try_add(txn, &Request::edit(entry.message, &draft)).await?;
            // Indexed even if the edit was refused, so that it is not tried again.
            let head = if found.hashes.get(found.count) == Some(hash) {
                desk.head.unwrap_or(entry.head)
            } else {
                entry.head
            };
            let (hash, message, calls) = (*hash, entry.message, entry.calls);
            desk.learned.push(LearnedMessage { hash, head, message, visible, calls });
        }
        Ok(())
    }

    /// Replaces all messages by a summary.
    pub(super) async fn compact(
        &self,
        txn: &mut Txn<'_>,
        desk: &mut OpenBranch,
        summary: &Draft,
        at_us: i64,
    ) -> Result<()> {
        let history = txn.fold(desk.head).await?;
        let system: Vec<CommitId> = desk.context.system.iter().map(|(commit, _)| *commit).collect();
        let rows = history.view().rows().filter(|row| !system.contains(&row.slot));
        let versions: Vec<CommitId> = rows.map(|row| row.version).collect();
        drop(history);
        let mut details = Details::from(summary);
        details.created_at = Some(at_us);
        let request = Request::Compress {
            select: Selection::Exactly(versions),
            content: summary.content.clone(),
            role: summary.role.clone(),
            details,
        };
        if !desk.try_add(txn, &request).await? {
            let mut draft = summary.clone();
            draft.created_at = Some(at_us);
            desk.add(txn, &Request::Import(draft)).await?;
        }
        Ok(())
    }
}

//! Converts merges of the original.

use std::collections::HashSet;
use std::rc::Rc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::python::database::Commit;
use tract_core::{CommitId, JsonText};
use tract_engine::plan::{ConflictKind, Details, MergeConflict, NewContent, Request};
use tract_engine::{Error, MergeOptions, Merged, Refusal, Result, merge_in};

use super::{Walk, WalkState, short};
use crate::writer::import_details;

impl<'a> Walk<'a> {
    pub(super) async fn merge(
        &mut self,
        commit: &'a Commit,
        payload: &str,
        state: &mut WalkState<'a>,
    ) -> Result<()> {
        let mut details = self.facts(commit)?;
        details.message.clone_from(&commit.message);
        details.origin.detail = Some(JsonText::new(payload)?);
        let options = MergeOptions {
            no_fast_forward: true,
            allow_unrelated: true,
            details,
            ..MergeOptions::default()
        };
        let tools = Rc::clone(&state.tools);
        for parent in commit.parents.iter().skip(1) {
            let Some(Ok(theirs)) = self.states.get(parent.as_str()) else { continue };
            let theirs = theirs.clone();
            let Some(source) = theirs.head else { continue };
            state.head = self.txn.head(&self.desk).await?;
            self.bring(commit, source, &theirs, &options, state).await?;
        }
        if state.tools != tools {
            state.note(format!(
                "merge {} takes over the tools of the branch, which the original leaves behind",
                short(&commit.hash)
            ));
        }
        state.note(format!(
            "merge {} adds no message; the original shows its note to the model",
            short(&commit.hash)
        ));
        // Priorities of the two sides are compared by value, since either may have newer ones.
        state.seen = 0;
        Ok(())
    }

    /// Merges one head. If both sides changed the same thing, ours is first changed to their value;
    /// the value in effect in the original is restored afterwards.
    async fn bring(
        &mut self,
        commit: &'a Commit,
        source: CommitId,
        theirs: &WalkState<'a>,
        options: &MergeOptions,
        state: &mut WalkState<'a>,
    ) -> Result<()> {
        // Store the commits so far: a merge reads its source from the store.
        self.flush().await?;
        self.move_to(state.head).await?;
        let mut restore = Vec::new();
        let merged = match merge_in(&mut self.txn, &self.desk, source, options).await {
            Err(Error::Refused(Refusal::Conflicts(conflicts))) => {
                for conflict in &conflicts {
                    self.give_way(commit, conflict, theirs, state, &mut restore).await?;
                }
                merge_in(&mut self.txn, &self.desk, source, options).await?
            }
            other => other?,
        };
        for request in &restore {
            self.txn.add(&self.desk, request).await?;
        }
        if let Merged::Commit(ours) = &merged
            && !restore.iter().any(|request| matches!(request, Request::Note { .. }))
            && let Some(tools) = ours.toolset.and_then(|id| self.toolsets.get(&id))
        {
            state.tools = Rc::clone(tools);
        }
        for (target, edit) in additions(&state.edits.clone(), &theirs.edits) {
            let time = |edit: &str| self.data.commits.get(edit).map(|edit| edit.created_at);
            let ours = state.edits.get(target);
            if ours.is_none_or(|ours| time(edit) > time(ours)) {
                state.edits.insert(target, edit);
            }
        }
        for added in state.replaced.clone().diff(&theirs.replaced) {
            if let imbl::ordset::DiffItem::Add(hash) = added {
                state.replaced.insert(hash);
            }
        }
        let known: HashSet<String> = state.anomalies().into_iter().collect();
        for anomaly in theirs.anomalies().into_iter().filter(|text| !known.contains(text)) {
            state.note(anomaly);
        }
        for (name, hash) in additions(&state.named.clone(), &theirs.named) {
            if let Some(older) = state.named.insert(name.clone(), hash) {
                self.replace(older, name, commit.created_at, state).await?;
            }
        }
        Ok(())
    }

    /// Changes our side to the values of theirs where they conflict.
    async fn give_way(
        &mut self,
        commit: &'a Commit,
        conflict: &MergeConflict,
        theirs: &WalkState<'a>,
        state: &mut WalkState<'a>,
        restore: &mut Vec<Request>,
    ) -> Result<()> {
        let refused = || Error::Refused(Refusal::Conflicts(vec![conflict.clone()]));
        let details = import_details(Some(commit.created_at));
        let target = conflict.slot.and_then(|slot| self.originals.get(&slot).copied());
        match (conflict.kind, target, conflict.slot) {
            (ConflictKind::Version, Some(target), Some(slot)) => {
                let (Some(theirs), Some(ours)) =
                    (self.edit_of(target, theirs), self.edit_of(target, state))
                else {
                    return Err(refused());
                };
                let edit = |edit: &Commit| -> Option<Request> {
                    let content = NewContent::Content(self.content(edit)?);
                    Some(Request::Edit { target: slot, content, details: details.clone() })
                };
                let (Some(give_way), Some(again)) = (edit(theirs), edit(ours)) else {
                    return Err(refused());
                };
                if ours.created_at >= theirs.created_at {
                    restore.push(again);
                }
                state.note(format!(
                    "merge {}: both sides edited {}; the later edit holds, as in the original",
                    short(&commit.hash),
                    short(target)
                ));
                self.txn.add(&self.desk, &give_way).await?;
            }
            (ConflictKind::Mark, Some(_), Some(slot)) => {
                let history = self.txn.fold(theirs.head).await?;
                let row = history.view().get(slot).copied().ok_or_else(refused)?;
                let place = row.mark.and_then(|mark| self.marks.get(&mark)).copied();
                let place = place.ok_or_else(refused)?;
                let change = self.priorities.get(place).ok_or_else(refused)?;
                let ours = self.txn.add(&self.desk, &change.request(slot)).await?;
                self.marks.insert(ours.id(), place);
            }
            (ConflictKind::Tools, ..) => {
                let note = |tools| Request::Note {
                    content: None,
                    details: Details {
                        tools: Some(tools),
                        message: Some("tools of both sides of a merge".to_owned()),
                        ..details.clone()
                    },
                };
                restore.push(note(self.schemas(&state.tools)?));
                let request = note(self.schemas(&theirs.tools)?);
                self.txn.add(&self.desk, &request).await?;
            }
            _ => return Err(refused()),
        }
        Ok(())
    }
}

/// Returns the entries of a map that another map lacks or has with another value, without visiting
/// the parts that both maps share.
fn additions<'m, K: Ord, V: Copy + PartialEq>(
    ours: &'m OrdMap<K, V>,
    theirs: &'m OrdMap<K, V>,
) -> impl Iterator<Item = (&'m K, V)> {
    ours.diff(theirs).filter_map(|item| match item {
        DiffItem::Add(key, value) | DiffItem::Update { new: (key, value), .. } => {
            Some((key, *value))
        }
        DiffItem::Remove(..) => None,
    })
}

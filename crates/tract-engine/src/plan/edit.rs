//! Plans to replace the content of a message.

use tract_compile::Row;
use tract_core::{AuthorKind, CommitId, CommitRef, Content, JsonText, Op, Part, ToolAnswer};

use super::work::{set_version, shown};
use super::{Details, History, NewContent, Plan, PlannedCommit, Records, Refusal};

/// Plans to replace the content of a message. Kind, role, call ids, the answered call and its
/// failure flag stay; the provider's original bytes are dropped.
pub(super) fn edit(
    history: &History,
    records: &Records,
    target: CommitId,
    new: &NewContent,
    details: &Details,
) -> Plan<PlannedCommit> {
    let row = visible(history, records, target)?;
    let kind = records.kind(row.version)?;
    let old = records.content(row.version)?;
    let content = match new {
        NewContent::Text(text) => with_text(old, text),
        NewContent::Content(new) | NewContent::Redacted(new) => with_answer_of(old, new.clone()),
    };
    if content.kind() != kind {
        return Err(Refusal::OtherKind {
            target,
            expected: kind.as_str().to_owned(),
            found: content.kind().as_str().to_owned(),
        }
        .into());
    }
    let names = |content: &Content| {
        let calls = content.calls().map(|call| (call.id.clone(), call.name.clone()));
        calls.collect::<Vec<_>>()
    };
    if !matches!(new, NewContent::Redacted(_)) || names(old) != names(&content) {
        same_calls(history, target, &row, old, &content)?;
    }
    replace(history, records, target, &row, content, details)
}

/// Returns the row of the message that a commit is a version of.
pub(super) fn visible(history: &History, records: &Records, target: CommitId) -> Plan<Row> {
    // When a merge keeps both versions of a message, the second one is named by its edit commit.
    let slot = match history.view().get(target) {
        Some(row) => row.slot,
        None => records.slot_of(target)?,
    };
    shown(history, records, slot, target)
}

/// Returns the current version of the message that a commit belongs to.
pub(crate) fn version_of(history: &History, records: &Records, target: CommitId) -> Plan<CommitId> {
    visible(history, records, target).map(|row| row.version)
}

/// Checks that a message still has the version that its edit was decided on.
pub(crate) fn unchanged_since(
    history: &History,
    records: &Records,
    target: CommitId,
    version: CommitId,
) -> Plan<()> {
    let now = version_of(history, records, target)?;
    if now == version { Ok(()) } else { Err(Refusal::ChangedSince { target, version: now }.into()) }
}

/// Checks that a version is the current one of its message.
pub(crate) fn current_version(history: &History, records: &Records, version: CommitId) -> Plan<()> {
    let row = visible(history, records, version)?;
    if row.version == version {
        Ok(())
    } else {
        Err(Refusal::Superseded { target: version, by: vec![row.version] }.into())
    }
}

/// Plans to restore the original of a message that a hook replaced; `None` if the commit is not
/// such a message.
pub(super) fn restore(
    history: &History,
    records: &Records,
    target: CommitId,
    details: &Details,
) -> Plan<Option<PlannedCommit>> {
    let commit = records.commit(target)?;
    let (Op::Append { slot, .. }, Some(kind)) = (&commit.op, &commit.kind) else {
        return Ok(None);
    };
    let Some(original) = commit.keeps.first().filter(|_| commit.origin.by == AuthorKind::Hook)
    else {
        return Ok(None);
    };
    let slot = slot.unwrap_or(target);
    let Some(row) = history.view().get(slot).filter(|row| row.version == target) else {
        return Ok(None);
    };
    let Some(content) =
        records.blob(*original)?.text().and_then(|text| Content::from_blob(kind, text).ok())
    else {
        return Ok(None);
    };
    replace(history, records, target, row, content, details).map(Some)
}

fn replace(
    history: &History,
    records: &Records,
    target: CommitId,
    row: &Row,
    content: Content,
    details: &Details,
) -> Plan<PlannedCommit> {
    let old = records.commit(row.version)?;
    let mut planned = PlannedCommit::on(history, Op::Edit { target }, details);
    planned.say(&content, old.role.clone())?;
    planned.record.joins = old.joins;
    if planned.record.generation_config.is_none() {
        planned.record.generation_config = old.generation_config.clone();
    }
    planned.change(vec![set_version(row, CommitRef::This)]);
    Ok(planned)
}

/// Replaces the texts of a message with one text. Signed reasoning is dropped: the provider's
/// signature covers the old text.
pub(crate) fn with_text(old: &Content, text: &str) -> Content {
    let mut new = old.clone();
    if let Some(parts) = new.parts_mut() {
        *parts = parts_with_text(parts, text);
    }
    if let Content::Artifact(artifact) = &mut new {
        text.clone_into(&mut artifact.text);
    }
    if let Content::Note(json) = &mut new {
        // A note is JSON: a text that is not valid JSON is written as a JSON string.
        *json = JsonText::new(text).unwrap_or_else(|_| json_string(text));
    }
    new
}

fn parts_with_text(old: &[Part], text: &str) -> Vec<Part> {
    let mut parts = Vec::with_capacity(old.len() + 1);
    let mut text = Some(text);
    for part in old {
        match part {
            Part::Text { .. } => parts.extend(text.take().map(Part::text)),
            Part::Reasoning { signature: Some(_), .. }
            | Part::Reasoning { encrypted: Some(_), .. } => {}
            Part::ToolCall(_) => {
                // Text comes before calls in every provider's form.
                parts.extend(text.take().filter(|text| !text.is_empty()).map(Part::text));
                parts.push(part.clone());
            }
            Part::Image { .. } | Part::Reasoning { .. } | Part::Opaque { .. } => {
                parts.push(part.clone());
            }
        }
    }
    parts.extend(text.map(Part::text));
    parts
}

/// Keeps the parts of an answer that an edit must not change: the call, the tool, and whether it
/// failed.
pub(crate) fn with_answer_of(old: &Content, new: Content) -> Content {
    match (old, new) {
        (Content::ToolResult(old), Content::ToolResult(new)) => {
            Content::ToolResult(ToolAnswer { parts: new.parts, ..old.clone() })
        }
        (_, new) => new,
    }
}

/// Checks that an edit keeps the calls: always their ids, and once one is answered everything.
fn same_calls(
    history: &History,
    target: CommitId,
    row: &Row,
    old: &Content,
    new: &Content,
) -> Plan<()> {
    if old.calls().eq(new.calls()) {
        return Ok(());
    }
    let ids = |content: &Content| content.calls().map(|call| call.id.clone()).collect::<Vec<_>>();
    let answered = history
        .view()
        .rows_after(row.row_key())
        .any(|other| other.answers.is_some_and(|call| call.slot == row.slot));
    if ids(old) == ids(new) && !answered {
        Ok(())
    } else {
        Err(Refusal::OtherCalls { target, calls: ids(old) }.into())
    }
}

/// Returns a text as a JSON string.
pub(crate) fn json_string(text: &str) -> JsonText {
    let quoted = serde_json::Value::from(text).to_string();
    JsonText::new(&quoted).expect("a JSON string has a canonical form")
}

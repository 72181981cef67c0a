//! Loads the messages of rows: reads and parses their content blobs, each row once.

use std::sync::Arc;

use imbl::Vector;
use tract_core::store::BlobKey;
use tract_core::{Blob, Content, ContentError, Message, ObjectId, TokenCounter};

use crate::cache::Meter;
use crate::error::{CompileError, Result};
use crate::fact::{ContextEntry, LoadedMessage};
use crate::state::State;
use crate::tokens::count_content;
use crate::view::RowKey;

/// Returns the rows whose messages are not loaded yet, in order, each once. The first `passed`
/// entries of the unloaded list are ignored.
pub(crate) fn waiting(state: &State, passed: usize) -> Vec<(RowKey, ContextEntry)> {
    let is_waiting = |entry: &ContextEntry| entry.fact.is_shown() && entry.message.is_none();
    if passed == 0 && state.unloaded.len() >= state.context.len() {
        // All pending rows are in the context, so one walk is cheaper than point reads.
        let all = state.context.iter().filter(|(_, entry)| is_waiting(entry));
        return all.map(|(place, entry)| (*place, entry.clone())).collect();
    }
    let waiting = state.unloaded.skip(passed.min(state.unloaded.len()));
    let mut places: Vec<RowKey> = waiting.iter().copied().collect();
    places.sort_unstable();
    places.dedup();
    let entry = |place| state.context.get(&place).filter(|entry| is_waiting(entry)).cloned();
    places.into_iter().filter_map(|place| Some((place, entry(place)?))).collect()
}

/// Returns the keys of the blobs that rows need: for each row its content, with its location hint,
/// then the provider's original bytes if there are any.
pub(crate) fn keys(rows: &[(RowKey, ContextEntry)]) -> Vec<BlobKey> {
    let mut keys = Vec::with_capacity(rows.len());
    for (_, entry) in rows {
        keys.extend(entry.fact.content.map(|id| BlobKey { id, hint: entry.fact.hint }));
        keys.extend(entry.fact.verbatim.map(BlobKey::from));
    }
    keys
}

/// Builds the message of a row from its content and the provider's original bytes.
pub(crate) fn message(
    entry: &ContextEntry,
    content: Option<&Blob>,
    verbatim: Option<&Blob>,
    counter: &dyn TokenCounter,
    meter: &Meter,
) -> Result<LoadedMessage> {
    let ContextEntry { row, fact, .. } = entry;
    let missing = |id| CompileError::Missing { object: ObjectId::Blob(id), commit: row.version };
    let (Some(content_id), Some(kind)) = (fact.content, &fact.kind) else {
        return Err(CompileError::NoContent { slot: row.slot, version: row.version });
    };
    let unreadable =
        |source| CompileError::Content { commit: row.version, blob: content_id, source };
    let content_blob = content.ok_or_else(|| missing(content_id))?;
    let text = content_blob.text().ok_or_else(|| unreadable(ContentError::NotText))?;
    let content = Content::from_blob(kind, text).map_err(unreadable)?;
    let verbatim = match (fact.verbatim, verbatim) {
        (Some(id), None) => return Err(missing(id)),
        (Some(_), Some(blob)) => Some(blob.clone()),
        (None, _) => None,
    };
    let bytes = text.len() + verbatim.as_ref().map_or(0, |blob| blob.bytes().len()) + OVERHEAD;
    let token_count = count_content(&content, counter);
    let message = Message {
        commit: row.version,
        slot: row.slot,
        content,
        role: fact.role.clone(),
        priority: fact.priority,
        answers: row.answers,
        joins: fact.joins.filter(|_| fact.joined),
        form: fact.form.as_deref().map(str::to_owned),
        verbatim,
        generation_config: fact.generation_config.clone(),
        token_count,
    };
    Ok(LoadedMessage { message, charge: Some(meter.charge(bytes)) })
}

/// Memory of a message in addition to its texts, in bytes.
const OVERHEAD: usize = 400;

/// Returns the state with these messages loaded. `left` becomes the list of unloaded rows.
pub(crate) fn with_messages(
    mut state: State,
    messages: Vec<(RowKey, Arc<LoadedMessage>)>,
    left: Vector<RowKey>,
) -> State {
    state.unloaded = left;
    for (place, loaded) in messages {
        if let Some(entry) = state.context.get_mut(&place) {
            state.tokens += loaded.message.token_count;
            entry.message = Some(loaded);
        }
    }
    state
}

//! The tools in force, read once per set.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use tract_core::json::JsonError;
use tract_core::store::BlobKey;
use tract_core::{
    ActiveTool, Blob, BlobId, ObjectId, TokenCounter, ToolEntry, ToolSchema, Toolset,
};

use crate::error::{CompileError, Result};
use crate::ids::IdMap;

/// The tools of a set, in the order in which they were set, and their size in tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tools {
    pub(crate) list: Arc<[ActiveTool]>,
    pub(crate) tokens: u64,
    pub(crate) bytes: usize,
}

/// Returns the keys of the schemas that a set needs, each once.
pub(crate) fn schema_keys(toolset: &Toolset) -> Vec<BlobKey> {
    let mut ids: Vec<BlobId> = toolset.entries().iter().map(|entry| entry.schema).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(BlobKey::from).collect()
}

/// Builds the tools of a set from its schemas.
pub(crate) fn tools(
    toolset: &Toolset,
    schemas: &IdMap<BlobId, Blob>,
    counter: &dyn TokenCounter,
) -> Result<Tools> {
    let mut known: IdMap<BlobId, ToolSchema> = IdMap::default();
    let mut list = Vec::with_capacity(toolset.entries().len());
    let mut bytes = 0;
    for entry in toolset.entries() {
        let schema = match known.entry(entry.schema) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(parsed(entry, schemas)?),
        };
        bytes += schema.text().len() + schema.name().len() + 128;
        list.push(ActiveTool {
            name: schema.name().to_owned(),
            id: entry.tool,
            schema: schema.text().into(),
        });
    }
    let tokens = list.iter().map(|tool| counter.count(&tool.schema)).sum();
    Ok(Tools { list: list.into(), tokens, bytes })
}

fn parsed(entry: &ToolEntry, schemas: &IdMap<BlobId, Blob>) -> Result<ToolSchema> {
    let object = ObjectId::Blob(entry.schema);
    let blob = schemas.get(&entry.schema).ok_or(CompileError::MissingTool { object })?;
    let refused = |source| CompileError::Schema { tool: entry.tool, source };
    let text = std::str::from_utf8(blob.bytes())
        .map_err(|error| refused(JsonError::InvalidUtf8 { offset: error.valid_up_to() }))?;
    ToolSchema::parse(text).map_err(refused)
}

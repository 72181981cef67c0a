//! The tool index: one row per tool and schema text, in the order in which they were first seen.

use std::collections::BTreeSet;

use tract_core::{
    BlobId, CommitId, ObjectId, StoreResult, ToolDefinition, ToolEntry, ToolId, ToolRow,
};

use crate::error::{corrupt, damaged};
use crate::read::RepoReader;
use crate::schema::{TOOL, TOOL_NAME, prefix, text_key};

/// A row and its number.
pub(crate) struct Stored {
    pub(crate) place: i64,
    pub(crate) row: ToolRow,
}

/// Encodes a row.
pub(crate) fn encode(row: &ToolRow) -> Vec<u8> {
    let at = row.created_at.to_le_bytes();
    let ids = [row.id.as_bytes().as_slice(), row.schema.as_bytes(), row.commit.as_bytes()];
    [ids.concat().as_slice(), &at, row.name.as_bytes()].concat()
}

/// Decodes the output of [`encode`].
pub(crate) fn decode(bytes: &[u8]) -> Option<ToolRow> {
    let (id, rest) = bytes.split_first_chunk::<32>()?;
    let (schema, rest) = rest.split_first_chunk::<32>()?;
    let (commit, rest) = rest.split_first_chunk::<32>()?;
    let (at, name) = rest.split_first_chunk::<8>()?;
    Some(ToolRow {
        id: ToolId::from_bytes(*id),
        name: std::str::from_utf8(name).ok()?.to_owned(),
        schema: BlobId::from_bytes(*schema),
        commit: CommitId::from_bytes(*commit),
        created_at: i64::from_le_bytes(*at),
    })
}

/// Decodes the entries of a toolset whose id is unknown.
pub(crate) fn decode_entries(bytes: &[u8]) -> Option<Vec<ToolEntry>> {
    let (ids, rest) = bytes.as_chunks::<32>();
    let (pairs, odd) = ids.as_chunks::<2>();
    let entry = |[tool, schema]: &[[u8; 32]; 2]| ToolEntry {
        tool: ToolId::from_bytes(*tool),
        schema: BlobId::from_bytes(*schema),
    };
    (rest.is_empty() && odd.is_empty()).then(|| pairs.iter().map(entry).collect())
}

impl RepoReader<'_> {
    /// Reads the rows of one tool, in the order in which they were first seen.
    pub(crate) fn tool_rows(self, id: ToolId) -> StoreResult<Vec<Stored>> {
        let (rows, bad) = self.small(TOOL, prefix(id.as_bytes()))?;
        if bad {
            return Err(corrupt(self.op, ObjectId::Tool(id)));
        }
        let stored = |place, data: &[u8]| {
            decode(data).filter(|row| row.id == id).map(|row| Stored { place, row })
        };
        Ok(rows.iter().filter_map(|small| stored(small.id, &small.data)).collect())
    }

    /// Reads one definition.
    pub(crate) fn tool(self, id: ToolId) -> StoreResult<Option<ToolDefinition>> {
        let rows = self.tool_rows(id)?;
        let schemas = rows.iter().map(|stored| stored.row.schema).collect();
        Ok(rows.into_iter().next().map(|Stored { row, .. }| ToolDefinition {
            id,
            name: row.name,
            schemas,
            first: row.commit,
            created_at: row.created_at,
        }))
    }

    /// Reads all tools with a name, oldest first.
    pub(crate) fn tools_by_name(self, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        let (rows, bad) = self.small(TOOL_NAME, text_key(name.as_bytes()))?;
        if bad {
            let what = format!("the tool index is damaged at the name {name:?}");
            return Err(damaged(self.op, what));
        }
        let mut found = Vec::new();
        for row in rows {
            if let Some((id, stored)) = row.data.split_first_chunk::<32>()
                && stored == name.as_bytes()
            {
                found.extend(self.tool(ToolId::from_bytes(*id))?);
            }
        }
        found.sort_by_key(|definition| (definition.created_at, definition.first));
        Ok(found)
    }

    /// Returns the names in the index.
    pub(crate) fn tool_names(self) -> StoreResult<Vec<String>> {
        let mut names = BTreeSet::new();
        self.each_small(TOOL_NAME, |_, _, data| {
            let name = data.and_then(|data| std::str::from_utf8(data.get(32..)?).ok());
            let name =
                name.ok_or_else(|| damaged(self.op, "a name in the tool index is damaged"))?;
            names.insert(name.to_owned());
            Ok(())
        })?;
        Ok(names.into_iter().collect())
    }
}

//! The tool index: one row per tool and schema text, in the order in which they were first seen.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::{BlobId, CommitId, ObjectId, StoreResult, ToolDefinition, ToolId, ToolRow};

use crate::args::{Args, Raw};
use crate::error::{corrupt, damaged};
use crate::link::{column, id_column};
use crate::read::RepoReader;
use crate::schema::{name_key, tool_sum};

/// Encodes a row without its keys: a checksum over the whole row, the commit, its time, the name.
pub(crate) fn encode(row: &ToolRow) -> Vec<u8> {
    let at = row.created_at.to_le_bytes();
    let entry = [row.commit.as_bytes().as_slice(), &at, row.name.as_bytes()].concat();
    let sum = tool_sum(row.id, row.schema, &entry);
    [sum.to_le_bytes().as_slice(), &entry].concat()
}

/// Adds the rows of the index as arguments, one list for each column.
pub(crate) fn arguments<'r>(
    args: Args,
    rows: impl IntoIterator<Item = &'r ToolRow, IntoIter: Clone>,
) -> Args {
    let rows = rows.into_iter();
    let keys: Vec<i64> = rows.clone().map(|row| name_key(&row.name)).collect();
    args.ids(rows.clone().map(|row| *row.id.as_bytes()))
        .ids(rows.clone().map(|row| *row.schema.as_bytes()))
        .with(keys, Type::INT8_ARRAY)
        .raws(rows.map(|row| Raw::from(encode(row))).collect())
}

/// Reads a row of `hash, schema, data, name_key`; `None` if it is damaged.
pub(crate) fn decode(op: &'static str, row: &Row) -> StoreResult<(ToolId, Option<ToolRow>)> {
    let id = ToolId::from_bytes(id_column(op, row, 0)?);
    let schema = BlobId::from_bytes(id_column(op, row, 1)?);
    let data: &[u8] = column(op, row, 2)?;
    let key: i64 = column(op, row, 3)?;
    let read = || {
        let (sum, entry) = data.split_first_chunk::<8>()?;
        if tool_sum(id, schema, entry).to_le_bytes() != *sum {
            return None;
        }
        let (commit, rest) = entry.split_first_chunk::<32>()?;
        let (at, name) = rest.split_first_chunk::<8>()?;
        let name = std::str::from_utf8(name).ok().filter(|name| name_key(name) == key)?.to_owned();
        let (commit, created_at) = (CommitId::from_bytes(*commit), i64::from_le_bytes(*at));
        Some(ToolRow { id, name, schema, commit, created_at })
    };
    Ok((id, read()))
}

const COLUMNS: &str = "hash, schema, data, name_key";

impl RepoReader {
    /// Reads rows in the order in which they were first seen, and combines those of one tool into a
    /// definition.
    async fn definitions(&self, condition: &str, args: Args) -> StoreResult<Vec<ToolDefinition>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {{s}}.tools WHERE repo = $1 AND {condition} ORDER BY ord"
        );
        let mut found: Vec<ToolDefinition> = Vec::new();
        let mut places = HashMap::new();
        for row in &self.read(&sql, args).await? {
            let (id, row) = decode(self.op, row)?;
            let row = row.ok_or_else(|| corrupt(self.op, ObjectId::Tool(id)))?;
            match places.get(&id).and_then(|place: &usize| found.get_mut(*place)) {
                Some(definition) => definition.schemas.push(row.schema),
                None => {
                    places.insert(id, found.len());
                    found.push(ToolDefinition {
                        id,
                        name: row.name,
                        schemas: vec![row.schema],
                        first: row.commit,
                        created_at: row.created_at,
                    });
                }
            }
        }
        Ok(found)
    }

    pub(crate) async fn tools(self, ids: Vec<ToolId>) -> StoreResult<Vec<Option<ToolDefinition>>> {
        let args = self.args().ids(ids.iter().map(ToolId::as_bytes));
        let found = self.definitions("hash = ANY ($2)", args).await?;
        let found: HashMap<ToolId, ToolDefinition> =
            found.into_iter().map(|definition| (definition.id, definition)).collect();
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    pub(crate) async fn tools_by_name(self, name: String) -> StoreResult<Vec<ToolDefinition>> {
        // All schema texts of a tool; its name is that of the first one.
        let condition = "hash IN (SELECT hash FROM {s}.tools WHERE repo = $1 AND name_key = $2)";
        let mut found = self.definitions(condition, self.args().int(name_key(&name))).await?;
        found.retain(|definition| definition.name == name);
        found.sort_by_key(|definition| (definition.created_at, definition.first));
        Ok(found)
    }

    pub(crate) async fn tool_names(self) -> StoreResult<Vec<String>> {
        let sql = format!("SELECT {COLUMNS} FROM {{s}}.tools WHERE repo = $1 ORDER BY ord");
        let (mut names, mut seen) = (BTreeSet::new(), HashSet::new());
        for row in &self.read(&sql, self.args()).await? {
            let (id, row) = decode(self.op, row)?;
            let row = row.ok_or_else(|| damaged(self.op, "a name in the tool index is damaged"))?;
            if seen.insert(id) {
                names.insert(row.name);
            }
        }
        Ok(names.into_iter().collect())
    }
}

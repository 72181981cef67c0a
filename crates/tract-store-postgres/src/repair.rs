//! Rebuilds derived data: places, segments, the tool index.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use tract_core::{CommitId, StoreErrorKind, StoreResult, ToolRow, ToolSchema};

use crate::args::Args;
use crate::check::{Check, OP, schema_text};
use crate::error::{failed, new};
use crate::link::{Scope, column, first_column};
use crate::read::RepoReader;
use crate::tools;

/// The new places of all commits: segment (counted from 0) and position.
struct CommitPosition {
    places: Vec<(CommitId, i64, i64)>,
    /// For each segment, the place of the parent of its first commit.
    segments: Vec<Option<(i64, i64)>>,
}

/// Assigns new places to all commits: directly after the first parent if that place is free, else
/// at the start of a segment.
fn assign_places(check: &Check<'_>) -> CommitPosition {
    let mut children: HashMap<Option<CommitId>, Vec<CommitId>> = HashMap::new();
    for (id, node) in &check.commits {
        // A commit with a missing parent is treated as a root.
        let parent = node.parent.filter(|parent| check.commits.contains_key(parent));
        children.entry(parent).or_default().push(*id);
    }
    let mut laid = CommitPosition { places: Vec::new(), segments: Vec::new() };
    let mut heads: Vec<(CommitId, Option<(i64, i64)>)> = Vec::new();
    let mut roots = children.remove(&None).unwrap_or_default();
    roots.sort();
    heads.extend(roots.into_iter().map(|root| (root, None)));
    while let Some((head, from)) = heads.pop() {
        let seg = laid.segments.len() as i64;
        laid.segments.push(from);
        let (mut next, mut pos) = (Some(head), 0);
        while let Some(id) = next {
            laid.places.push((id, seg, pos));
            let mut after = children.remove(&Some(id)).unwrap_or_default();
            after.sort();
            next = after.pop();
            heads.extend(after.into_iter().map(|child| (child, Some((seg, pos)))));
            pos += 1;
        }
    }
    laid
}

async fn tool_rows(check: &Check<'_>) -> StoreResult<Vec<ToolRow>> {
    let mut rows = Vec::new();
    for ((id, schema), (created_at, commit)) in check.tools_in_force() {
        let name = match (schema_text(check, schema).await?, check.erased_tools.get(&(id, schema)))
        {
            (Some(blob), _) => {
                let parsed = blob.text().and_then(|text| ToolSchema::parse(text).ok());
                parsed.map(|schema| schema.name().to_owned()).unwrap_or_default()
            }
            (None, Some(name)) => name.clone(),
            (None, None) => continue,
        };
        rows.push(ToolRow { id, name, schema, commit, created_at });
    }
    // In the order in which they were first seen.
    rows.sort_by_key(|row| (row.created_at, row.commit));
    Ok(rows)
}

/// The correct derived data.
pub(crate) struct DerivedTables {
    tools: Vec<ToolRow>,
    laid: CommitPosition,
    /// Number of records it was computed from.
    records: usize,
}

impl DerivedTables {
    /// Computes the derived data from the results of a check.
    pub(crate) async fn from(check: &Check<'_>) -> StoreResult<Self> {
        Ok(Self {
            tools: tool_rows(check).await?,
            laid: assign_places(check),
            records: check.records,
        })
    }

    /// Replaces the stored derived data.
    pub(crate) async fn store(&self, reader: &RepoReader) -> StoreResult<()> {
        let DerivedTables { tools: rows, laid, records } = self;
        let (link, number) = (&reader.link, reader.number.unwrap_or_default());
        let one = || reader.args();
        let index = tools::arguments(one(), rows);
        let count = Args::new().int(i64::try_from(laid.segments.len()).unwrap_or(i64::MAX));
        link.transaction(OP, &Scope::Repo(reader.repo.clone()), async |object| {
            let run = async |sql: &str, args: &Args| {
                let answer = object.query_typed(&link.sql(sql), &args.as_params()).await;
                answer.map_err(|error| failed(OP, error))
            };
            // Exclude sweeps, and writes that a sweep would wait for.
            run("SELECT pg_advisory_xact_lock($1)", &one()).await?;
            for table in ["commits", "segments", "tools", "derived"] {
                let lock = format!("LOCK TABLE {{s}}.{table} IN SHARE ROW EXCLUSIVE MODE");
                run(&lock, &Args::new()).await?;
            }
            let rows = run("SELECT count(*) FROM {s}.commits WHERE repo = $1", &one()).await?;
            let stored: Option<i64> = first_column(OP, &rows)?;
            if stored != i64::try_from(*records).ok() {
                let message = "others wrote while the check read: run it again";
                return Err(new(StoreErrorKind::Busy, OP, message).into());
            }
            // First move all rows to negative places, so that no update collides with a row not yet
            // moved.
            run("UPDATE {s}.commits SET seg = -1 - seg WHERE repo = $1", &one()).await?;
            for table in ["segments", "derived", "tools"] {
                // Negative segments count writes and contain no commits.
                let all = if table == "segments" { " AND seg >= 0" } else { "" };
                run(&format!("DELETE FROM {{s}}.{table} WHERE repo = $1{all}"), &one()).await?;
            }
            let sql = "SELECT nextval('{s}.number') FROM generate_series(1, $1)";
            let rows = run(sql, &count).await?;
            let numbers = rows.iter().map(|row| column(OP, row, 0));
            let numbers = numbers.collect::<StoreResult<Vec<i64>>>()?;
            let (segments, places) = arguments(number, laid, &numbers);
            let sql = "INSERT INTO {s}.segments SELECT $1, u.n, u.f, u.p \
                       FROM unnest($2, $3, $4) AS u (n, f, p)";
            run(sql, &segments).await?;
            let sql = "UPDATE {s}.commits c SET seg = u.s, pos = u.p \
                       FROM unnest($2, $3, $4) AS u (h, s, p) WHERE c.repo = $1 AND c.hash = u.h";
            run(sql, &places).await?;
            let sql = "INSERT INTO {s}.tools SELECT $1, u.h, u.s, nextval('{s}.number'), u.k, u.d \
                       FROM unnest($2, $3, $4, $5) AS u (h, s, k, d)";
            run(sql, &index).await?;
            Ok(())
        })
        .await
    }
}

/// Assigns the real segment numbers. Returns the arguments for segments and places.
fn arguments(number: i64, laid: &CommitPosition, numbers: &[i64]) -> (Args, Args) {
    let numbered = |seg: &i64| usize::try_from(*seg).ok().and_then(|seg| numbers.get(seg).copied());
    let from: (Vec<Option<i64>>, Vec<Option<i64>>) = laid
        .segments
        .iter()
        .map(|from| (from.and_then(|from| numbered(&from.0)), from.map(|from| from.1)))
        .unzip();
    let segments = Args::new()
        .int(number)
        .with(numbers.to_vec(), Type::INT8_ARRAY)
        .with(from.0, Type::INT8_ARRAY)
        .with(from.1, Type::INT8_ARRAY);
    let segs: Vec<Option<i64>> = laid.places.iter().map(|(_, seg, _)| numbered(seg)).collect();
    let positions: Vec<i64> = laid.places.iter().map(|(.., pos)| *pos).collect();
    let places = Args::new()
        .int(number)
        .ids(laid.places.iter().map(|(id, ..)| *id.as_bytes()))
        .with(segs, Type::INT8_ARRAY)
        .with(positions, Type::INT8_ARRAY);
    (segments, places)
}

//! Building anew what is derived: places, segments, the tool index.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::{ToSql, Type};
use tract_core::{CommitId, RepoName, StoreResult, ToolRow, ToolSchema};

use crate::args::{Args, Raw};
use crate::check::{Check, OP, schema_text};
use crate::error::failed;
use crate::link::Scope;
use crate::schema::name_key;
use crate::tools;

/// A commit and where it is to lie: segment (counted from 0) and position.
struct Laid {
    places: Vec<(CommitId, i64, i64)>,
    /// For each segment the place of the parent of its first commit.
    segments: Vec<Option<(i64, i64)>>,
}

/// Lays every line anew: a commit right after its first parent where that place is still free, else
/// at the begin of a segment.
fn lay(check: &Check<'_>) -> Laid {
    let mut children: HashMap<Option<CommitId>, Vec<CommitId>> = HashMap::new();
    for (id, node) in &check.commits {
        // What hangs on a missing parent is a root of its own.
        let parent = node.parent.filter(|parent| check.commits.contains_key(parent));
        children.entry(parent).or_default().push(*id);
    }
    let mut laid = Laid { places: Vec::new(), segments: Vec::new() };
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
        let Some(blob) = schema_text(check, schema).await? else { continue };
        let name = blob.text().and_then(|text| ToolSchema::parse(text).ok());
        let name = name.map(|schema| schema.name().to_owned()).unwrap_or_default();
        rows.push(ToolRow { id, name, schema, commit, created_at });
    }
    // The order of first sight.
    rows.sort_by_key(|row| (row.created_at, row.commit));
    Ok(rows)
}

pub(crate) async fn repair(check: &Check<'_>) -> StoreResult<()> {
    let rows = tool_rows(check).await?;
    let laid = lay(check);
    let link = check.link;
    let (repo, number): (&RepoName, i64) = (check.repo, check.number);
    let seen: HashSet<_> = laid.places.iter().map(|(id, ..)| *id).collect();
    debug_assert_eq!(seen.len(), check.commits.len(), "every commit has one place");

    let ids = laid.places.iter().map(|(id, ..)| *id.as_bytes());
    let segs: Vec<i64> = laid.places.iter().map(|(_, seg, _)| *seg).collect();
    let poss: Vec<i64> = laid.places.iter().map(|(.., pos)| *pos).collect();
    let places = Args::new()
        .int(number)
        .ids(ids)
        .with(segs, Type::INT8_ARRAY)
        .with(poss, Type::INT8_ARRAY);
    let numbers: Vec<i64> = (0..).take(laid.segments.len()).collect();
    let from_segs: Vec<Option<i64>> = laid.segments.iter().map(|from| from.map(|from| from.0)).collect();
    let from_poss: Vec<Option<i64>> = laid.segments.iter().map(|from| from.map(|from| from.1)).collect();
    let segments = Args::new()
        .int(number)
        .with(numbers, Type::INT8_ARRAY)
        .with(from_segs, Type::INT8_ARRAY)
        .with(from_poss, Type::INT8_ARRAY);
    let index = Args::new()
        .int(number)
        .ids(rows.iter().map(|row| *row.id.as_bytes()))
        .ids(rows.iter().map(|row| *row.schema.as_bytes()))
        .with(rows.iter().map(|row| name_key(&row.name)).collect::<Vec<_>>(), Type::INT8_ARRAY)
        .raws(rows.iter().map(|row| Raw::from(tools::encode(row))).collect());
    let only = || Args::new().int(number);
    // Segments get numbers beyond all that were given, as many as there are, in one piece: nobody
    // else writes meanwhile. Negative places first, so that no two rows meet on one on the way.
    let steps: Vec<(String, Args)> = vec![
        ("LOCK TABLE {s}.commits, {s}.segments, {s}.tools, {s}.derived IN SHARE ROW EXCLUSIVE MODE".into(), Args::new()),
        ("UPDATE {s}.commits SET seg = -1 - seg WHERE repo = $1".into(), only()),
        ("DELETE FROM {s}.segments WHERE repo = $1".into(), only()),
        ("DELETE FROM {s}.derived WHERE repo = $1".into(), only()),
        ("DELETE FROM {s}.tools WHERE repo = $1".into(), only()),
        (
            format!("SELECT setval('{{s}}.number', nextval('{{s}}.number') + {})", laid.segments.len() + 1),
            Args::new(),
        ),
        (
            "INSERT INTO {s}.segments SELECT $1, base + u.n, base + u.f, u.p \
             FROM unnest($2, $3, $4) AS u (n, f, p), \
             (SELECT last_value - cardinality($2) AS base FROM {s}.number) AS b"
                .into(),
            segments,
        ),
        (
            "UPDATE {s}.commits c SET seg = base + u.s, pos = u.p \
             FROM unnest($2, $3, $4) AS u (h, s, p), \
             (SELECT last_value - (SELECT count(*) FROM {s}.segments WHERE repo = $1) AS base \
              FROM {s}.number) AS b \
             WHERE c.repo = $1 AND c.hash = u.h"
                .into(),
            places,
        ),
        (
            "INSERT INTO {s}.tools SELECT $1, u.h, u.s, nextval('{s}.number'), u.k, u.d \
             FROM unnest($2, $3, $4, $5) AS u (h, s, k, d)"
                .into(),
            index,
        ),
    ];
    link.transaction(OP, &Scope::Repo(repo.clone()), async |object| {
        for (sql, args) in &steps {
            let lent: Vec<(&(dyn ToSql + Sync), Type)> = args.lend();
            object.query_typed(&link.sql(sql), &lent).await.map_err(|error| failed(OP, error))?;
        }
        Ok(())
    })
    .await
}

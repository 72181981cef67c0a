//! Restores damaged or missing objects from copies.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio_postgres::Row;
use tract_core::store::ObjectCopies;
use tract_core::{BlobId, Commit, CommitId, ObjectId, RepoName, StoreResult, ToolsetId};

use crate::args::{Args, Raw};
use crate::error::{Failed, failed};
use crate::link::{Connector, Scope, first_column, id_column};

const OP: &str = "restore";

/// Stores copies of unreadable objects. Returns the ids of the objects written.
pub(crate) async fn restore(
    link: &Arc<Connector>,
    repo: &RepoName,
    copies: &ObjectCopies,
) -> StoreResult<Vec<ObjectId>> {
    // Without duplicates, because a statement must not write a row twice.
    let blobs: BTreeMap<[u8; 32], Raw> = copies
        .blobs
        .iter()
        .map(|blob| (*blob.id().as_bytes(), Raw(blob.bytes().clone())))
        .collect();
    let toolsets: BTreeMap<[u8; 32], Raw> =
        copies.toolsets.iter().map(|set| (*set.id().as_bytes(), set.encode().into())).collect();
    link.transaction(OP, &Scope::Repo(repo.clone()), async |object| {
        let run = async |sql: &str, args: &Args| -> Result<Vec<Row>, Failed> {
            let answer = object.query_typed(&link.sql(sql), &args.as_params()).await;
            answer.map_err(|error| failed(OP, error))
        };
        let name = || Args::new().text(repo.as_str());
        let sql = "INSERT INTO {s}.repos (name) VALUES ($1) ON CONFLICT DO NOTHING";
        run(sql, &name()).await?;
        let rows = run("SELECT id FROM {s}.repos WHERE name = $1", &name()).await?;
        let Some(number) = first_column::<i64>(OP, &rows)? else { return Ok(Vec::new()) };
        let here = || Args::new().int(number);
        // Exclude sweeps, and writes that a sweep would wait for.
        run("SELECT pg_advisory_xact_lock($1)", &here()).await?;
        let mut restored = Vec::new();
        let listed = |of: &BTreeMap<[u8; 32], Raw>| {
            here().ids(of.keys()).raws(of.values().cloned().collect())
        };
        if !blobs.is_empty() {
            let sql = "INSERT INTO {s}.blobs AS b SELECT $1, u.h, u.d FROM unnest($2, $3) AS u (h, d) \
                       WHERE NOT EXISTS (SELECT 1 FROM {s}.refs r WHERE r.repo = $1 \
                       AND r.name = 'erasures/' || encode(u.h, 'hex')) \
                       ON CONFLICT (repo, hash) DO UPDATE SET data = excluded.data \
                       WHERE b.data IS DISTINCT FROM excluded.data RETURNING b.hash";
            for row in run(sql, &listed(&blobs)).await? {
                restored.push(ObjectId::Blob(BlobId::from_bytes(id_column(OP, &row, 0)?)));
            }
        }
        if !toolsets.is_empty() {
            let sql = "INSERT INTO {s}.toolsets AS t SELECT $1, u.h, u.d \
                       FROM unnest($2, $3) AS u (h, d) \
                       ON CONFLICT (repo, hash) DO UPDATE SET data = excluded.data \
                       WHERE t.data IS DISTINCT FROM excluded.data RETURNING t.hash";
            for row in run(sql, &listed(&toolsets)).await? {
                restored.push(ObjectId::Toolset(ToolsetId::from_bytes(id_column(OP, &row, 0)?)));
            }
        }
        if !copies.commits.is_empty() {
            let ids = || copies.commits.iter().map(|commit| *commit.id().as_bytes());
            let records = copies.commits.iter().map(|commit| Raw::from(commit.encode())).collect();
            let sql = "UPDATE {s}.commits c SET rec = u.r FROM unnest($2, $3) AS u (h, r) \
                       WHERE c.repo = $1 AND c.hash = u.h AND c.rec IS DISTINCT FROM u.r \
                       RETURNING c.hash";
            for row in run(sql, &here().ids(ids()).raws(records)).await? {
                restored.push(ObjectId::Commit(CommitId::from_bytes(id_column(OP, &row, 0)?)));
            }
            let sql = "SELECT hash FROM {s}.commits WHERE repo = $1 AND hash = ANY ($2)";
            let mut stored = HashSet::new();
            for row in run(sql, &here().ids(ids())).await? {
                stored.insert(CommitId::from_bytes(id_column(OP, &row, 0)?));
            }
            for commit in copies.commits.iter().filter(|commit| stored.insert(commit.id())) {
                for (sql, args) in insertions(number, commit) {
                    if !run(sql, &args).await?.is_empty() {
                        break;
                    }
                }
                restored.push(ObjectId::Commit(commit.id()));
            }
        }
        if !restored.is_empty() {
            // A write that stores objects but moves no ref has to be counted; see `sweep.sql`.
            let sql = "INSERT INTO {s}.segments \
                       SELECT $1, -nextval('{s}.number'), NULL::bigint, NULL::bigint";
            run(sql, &here()).await?;
        }
        Ok(restored)
    })
    .await
}

/// Returns the statements that store a commit; the first one that finds a free place does it:
/// directly after its parent, or at the start of a segment.
fn insertions(number: i64, commit: &Commit) -> Vec<(&'static str, Args)> {
    let own = || {
        let record = Raw::from(commit.encode());
        Args::new().int(number).id(commit.id().as_bytes()).raw(&record)
    };
    let parent = commit.parent();
    let with_parent = || own().id(parent.as_ref().map_or(&[], |id| id.as_bytes().as_slice()));
    let after = "INSERT INTO {s}.commits SELECT $1, $2, p.seg, p.pos + 1, $3 FROM {s}.commits p \
                 WHERE p.repo = $1 AND p.hash = $4 ON CONFLICT DO NOTHING RETURNING hash";
    let begin = "WITH place AS (INSERT INTO {s}.segments \
                 SELECT $1, nextval('{s}.number'), \
                 (SELECT seg FROM {s}.commits WHERE repo = $1 AND hash = $4), \
                 (SELECT pos FROM {s}.commits WHERE repo = $1 AND hash = $4) RETURNING seg) \
                 INSERT INTO {s}.commits SELECT $1, $2, seg, 0, $3 FROM place RETURNING hash";
    [(after, with_parent()), (begin, with_parent())].into()
}

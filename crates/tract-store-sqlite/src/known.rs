//! Checks with one statement whether the objects of a batch are stored.

use std::fmt::Write as _;
use std::sync::LazyLock;

use rusqlite::ToSql;
use tract_core::{Batch, Blob, ObjectId, StoreResult};

use crate::error::engine;
use crate::schema::prefix;
use crate::write::{NewObjects, OP, Tx};

/// Number of prefixes looked up by one statement. Fewer than a third of that are queried one by
/// one.
pub(crate) const WIDE: usize = 25;

/// Finds any of several blobs.
static ANY_BLOB: LazyLock<String> = LazyLock::new(|| {
    let mut sql = "SELECT 1 FROM (VALUES (?2)".to_owned();
    for n in 3..WIDE + 2 {
        let _ = write!(sql, ", (?{n})"); // writing to a String cannot fail
    }
    sql.push_str(") AS asked CROSS JOIN blobs ON repo = ?1 AND h = asked.column1 LIMIT 1");
    sql
});

impl Tx<'_> {
    /// Looks up the objects of a typical batch, one commit and one blob, with one statement.
    /// `record` is the record of the first commit.
    pub(crate) fn new_in(
        &mut self,
        repo: i64,
        batch: &Batch,
        record: &[u8],
    ) -> StoreResult<NewObjects> {
        let Some(first) = batch.commits.first() else { return Ok(NewObjects::default()) };
        let [blob] = batch.blobs.as_slice() else {
            let commit = self.stored_commit(repo, first.id(), record)?.is_none();
            return Ok(NewObjects { commit, blob: false });
        };
        let sql = "SELECT (SELECT id FROM commits WHERE repo = ?1 AND h = ?2 AND rec = ?3), \
                   (SELECT id FROM blobs WHERE repo = ?1 AND h = ?4 LIMIT 1)";
        let (commit_key, blob_key) = (prefix(first.id().as_bytes()), prefix(blob.id().as_bytes()));
        let parameters: [&dyn ToSql; 4] = [&repo, &commit_key, &record, &blob_key];
        let (commit, alike): (Option<i64>, Option<i64>) = self
            .statement(sql)?
            .query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(engine(OP))?;
        if let Some(at) = commit {
            self.fresh.places.insert((repo, ObjectId::Commit(first.id())), at);
        }
        Ok(NewObjects { commit: commit.is_none(), blob: alike.is_none() })
    }

    /// Returns true if none of these blobs, up to [`WIDE`], is stored. If it returns false, each
    /// has to be looked up.
    pub(crate) fn surely_new(&mut self, repo: i64, blobs: &[Blob]) -> StoreResult<bool> {
        if blobs.len() * 3 < WIDE {
            return Ok(false);
        }
        let prefixes: Vec<i64> = blobs.iter().map(|blob| prefix(blob.id().as_bytes())).collect();
        let mut values: Vec<&dyn ToSql> = vec![&repo];
        values.extend(prefixes.iter().map(|prefix| prefix as &dyn ToSql));
        values.resize(WIDE + 1, prefixes.first().map_or(&0, |first| first));
        Ok(self.number(&ANY_BLOB, &values)?.is_none())
    }
}

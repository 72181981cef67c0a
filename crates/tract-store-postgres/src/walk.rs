//! Walks first parents. One statement reads a run of commits by their places, and every link is
//! verified.

use bytes::Bytes;
use tokio_postgres::types::Type;
use tract_core::store::{Walk, WalkEntry, WalkPage};
use tract_core::{Commit, CommitId, ObjectId, RepoName, StoreError, StoreResult};

use crate::args::{Args, Raw};
use crate::error::{BACKEND, corrupt};
use crate::link::{Connector, Scope, column, id_column};

const OP: &str = "walk";

pub(crate) async fn walk(link: &Connector, repo: &RepoName, walk: &Walk) -> StoreResult<WalkPage> {
    let limit = walk.limit.max(1);
    let sql = link.sql("SELECT hash, rec, stop FROM {s}.walk($1, $2, $3, $4, $5)");
    let mut page = WalkPage::default();
    let mut at = walk.head;
    // Usually one round. If places are wrong, the run ends early, and the next round continues from
    // the parent named by the last commit. Every round returns at least the commit it starts from,
    // so the loop makes progress.
    loop {
        if walk.until == Some(at) {
            return Ok(page);
        }
        let left = limit - page.entries.len();
        let args = Args::new()
            .text(repo.as_str())
            .id(at.as_bytes())
            .with(walk.until.map(|id| Raw::id(id.as_bytes())), Type::BYTEA)
            .int(i64::try_from(left).unwrap_or(i64::MAX))
            .with(walk.stop_at.map(|kind| i16::from(kind.number())), Type::INT2);
        let rows = link.query(OP, &Scope::Own, &sql, &args, false).await?;
        if rows.is_empty() {
            return Err(StoreError::missing(BACKEND, OP, ObjectId::Commit(at)));
        }
        let mut taken = false;
        for row in &rows {
            if CommitId::from_bytes(id_column(OP, row, 0)?) != at || walk.until == Some(at) {
                break;
            }
            let Some(rec) = column::<Option<&[u8]>>(OP, row, 1)? else {
                let stop: &[u8] = column(OP, row, 2)?;
                page.stopped = Some((at, Bytes::copy_from_slice(stop)));
                return Ok(page);
            };
            if page.entries.len() == limit {
                break;
            }
            let commit = Commit::decode(at, rec)
                .map_err(|error| corrupt(OP, ObjectId::Commit(at)).with_source(error))?;
            let parent = commit.parent();
            page.entries.push(WalkEntry { commit, content: None });
            taken = true;
            match parent {
                Some(parent) => at = parent,
                None => return Ok(page),
            }
        }
        if page.entries.len() == limit {
            page.next = Some(at).filter(|at| walk.until != Some(*at));
            return Ok(page);
        }
        if !taken && walk.until != Some(at) {
            return Err(corrupt(OP, ObjectId::Commit(at)));
        }
    }
}

//! Writes groups of batches in one transaction. A batch is checked completely before any of it is
//! written, so a rejected batch leaves no trace in the transaction that it shares with others.
//!
//! The order is what makes group commit safe. The write lock comes first, then the sweep count, so
//! that cached places cannot be stale. All batches, including those that join late, are then staged
//! in the transaction. Only after COMMIT, which flushes the log, are answers returned and new facts
//! added to the cache.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, params};
use tract_compression::MIN_BYTES;
use tract_core::store::{JoinBatches, WritePosition};
use tract_core::{
    Applied, Batch, BatchId, Expect, ObjectId, RefEdit, RefName, RefTarget, RepoName,
    StoreErrorKind, StoreResult,
};

use crate::error::{BACKEND, engine, new};
use crate::insert::CommittedState;
use crate::log;
use crate::memory::{Memory, lock};
use crate::read::{RepoReader, statement};
use crate::schema::{MAX_BYTES, log_base};
use crate::sweep;

pub(crate) const OP: &str = "apply";
/// Busy timeout per attempt. SQLite polls the lock every millisecond.
const POLL: Duration = Duration::from_millis(2);

/// A write transaction, rolled back if it is dropped before the commit.
pub(crate) struct WriteTransaction<'c> {
    connection: &'c Connection,
    open: bool,
}

impl<'c> WriteTransaction<'c> {
    /// Takes the write lock at once. A transaction that upgrades from reading to writing would fail
    /// with `Busy` immediately, without the busy timeout.
    pub(crate) fn begin(connection: &'c Connection, op: &'static str) -> StoreResult<Self> {
        statement(connection, op, "BEGIN IMMEDIATE")?.execute([]).map_err(engine(op))?;
        Ok(Self { connection, open: true })
    }

    /// Takes the write lock within a time limit. SQLite itself polls at growing intervals, up to
    /// 100 ms, and so misses the lock again and again while another process takes it often and
    /// briefly, as a garbage collection does.
    fn begin_within(
        connection: &'c Connection,
        patience: Duration,
        op: &'static str,
    ) -> StoreResult<Self> {
        let waiting = Instant::now();
        connection.busy_timeout(POLL.min(patience)).map_err(engine(op))?;
        let begun = loop {
            match Self::begin(connection, op) {
                Err(error)
                    if error.kind == StoreErrorKind::Busy && waiting.elapsed() < patience => {}
                begun => break begun,
            }
        };
        connection.busy_timeout(patience).map_err(engine(op))?;
        begun
    }

    pub(crate) fn commit(mut self, op: &'static str) -> StoreResult<()> {
        statement(self.connection, op, "COMMIT")?.execute([]).map_err(engine(op))?;
        self.open = false;
        Ok(())
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        // SQLite may have rolled back on its own.
        if self.open && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// A batch that passed its checks.
pub(crate) struct Checked<'b> {
    pub(crate) batch: &'b Batch,
    /// The encoded commits of the batch.
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) new: NewObjects,
    pub(crate) moves: Vec<RefMove<'b>>,
}

/// Objects of a batch that are known to be new.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewObjects {
    /// Whether its first commit is not stored yet.
    pub(crate) commit: bool,
    /// Whether it has exactly one blob, which is not stored yet.
    pub(crate) blob: bool,
}

/// A ref edit that changes the ref.
pub(crate) struct RefMove<'b> {
    pub(crate) edit: &'b RefEdit,
    pub(crate) before: Option<RefTarget>,
    /// Whether the row of the ref is already updated.
    pub(crate) done: bool,
}

/// The transaction of one group.
pub(crate) struct Tx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) memory: &'a Mutex<Memory>,
    /// Facts to cache once this transaction is durable.
    pub(crate) fresh: CommittedState,
    /// Number of sweeps in the store.
    pub(crate) sweeps: i64,
    /// Whether more batches may follow this one.
    pub(crate) more_follow: bool,
    /// The dozen statements in use, keyed by the address of their text. Looking them up in the
    /// connection's cache would cost more than running some of them.
    statements: Vec<((usize, usize), CachedStatement<'a>)>,
    /// Minimum length, in bytes, of a blob that is compressed.
    pub(crate) min_bytes: usize,
    /// Buffer for the cache key of a text.
    pub(crate) text_name: Vec<u8>,
}

type Answers = Vec<StoreResult<Applied>>;

/// Writes a group and the batches that join it. `callers` becomes the number of both. After an
/// operating system error it is unknown which of them are durable.
pub(crate) fn group(
    connection: &Connection,
    memory: &Mutex<Memory>,
    patience: Duration,
    group: &[(RepoName, Batch)],
    mut joining: Option<&mut JoinBatches<'_>>,
    callers: &mut usize,
) -> StoreResult<Answers> {
    let writing = WriteTransaction::begin_within(connection, patience, OP)?;
    let mut tx = Tx::new(connection, memory);
    // Read the sweep count under the write lock. Before it, another process could sweep after the
    // read, and a cached place would then point to nothing, or to another object.
    tx.sweeps = sweep::forget(tx.reader(0), memory)?;
    let mut answers = Vec::with_capacity(group.len());
    tx.write_all(group, joining.is_some(), &mut answers)?;
    while let Some(joining) = &mut joining {
        let joined = joining();
        if joined.is_empty() {
            break;
        }
        // Counted before they are written, so that each caller gets the error if the transaction
        // fails.
        *callers += joined.len();
        tx.write_all(&joined, true, &mut answers)?;
    }
    let fresh = tx.fresh;
    writing.commit(OP).map_err(|mut error| {
        if crate::error::is_io(&error) {
            // The log may have been written but not flushed. A later flush can succeed although
            // these pages are lost, so the store stops instead of retrying.
            error.kind = StoreErrorKind::Unknown;
        }
        error
    })?;
    // Only after the commit: the places of a rolled-back transaction are given out again.
    fresh.remember(memory);
    Ok(answers)
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, memory: &'a Mutex<Memory>) -> Self {
        let statements = Vec::with_capacity(8);
        let fresh = CommittedState::default();
        Self {
            connection,
            memory,
            fresh,
            sweeps: 0,
            more_follow: true,
            statements,
            min_bytes: MIN_BYTES,
            text_name: Vec::new(),
        }
    }

    pub(crate) fn reader(&self, repo: i64) -> RepoReader<'a> {
        RepoReader::new(self.connection, OP, repo)
    }

    pub(crate) fn statement(&mut self, sql: &'static str) -> StoreResult<&mut CachedStatement<'a>> {
        // The texts are static, so the address identifies one. Hashing the text for each of many
        // small statements would cost more than running it.
        let key = (sql.as_ptr().addr(), sql.len());
        let at = match self.statements.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                self.statements.push((key, statement(self.connection, OP, sql)?));
                self.statements.len() - 1
            }
        };
        let (_, found) = self.statements.get_mut(at).expect("it was found, or put there");
        Ok(found)
    }

    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        parameters: &[&dyn ToSql],
    ) -> StoreResult<usize> {
        self.statement(sql)?.execute(parameters).map_err(engine(OP))
    }

    pub(crate) fn number(
        &mut self,
        sql: &'static str,
        parameters: &[&dyn ToSql],
    ) -> StoreResult<Option<i64>> {
        self.statement(sql)?.query_row(parameters, |row| row.get(0)).optional().map_err(engine(OP))
    }

    /// Checks and writes batches. `may_grow` means that others may follow.
    fn write_all(
        &mut self,
        batches: &[(RepoName, Batch)],
        may_grow: bool,
        answers: &mut Answers,
    ) -> StoreResult<()> {
        for (n, (name, batch)) in batches.iter().enumerate() {
            self.more_follow = may_grow || n + 1 < batches.len();
            let prepared = self.repo(name).and_then(|repo| Ok((repo, self.check(repo, batch)?)));
            match prepared {
                Ok((repo, Ok(checked))) => {
                    self.write(name, repo, checked)?;
                    answers.push(Ok(Applied::Done));
                }
                Ok((_, Err(answer))) => answers.push(Ok(answer)),
                // Nothing of this batch was written, unless the whole transaction was rolled back.
                Err(error) if self.connection.is_autocommit() || crate::error::is_io(&error) => {
                    return Err(error);
                }
                Err(error) => answers.push(Err(error)),
            }
        }
        Ok(())
    }

    fn has_batch(&mut self, repo: i64, id: BatchId) -> StoreResult<bool> {
        let (b1, b2) = log::batch_numbers(id);
        let sql = "SELECT 1 FROM ref_log WHERE b1 = ?1 AND b2 = ?2 AND id > ?3 AND id <= ?4";
        let found = self.number(sql, params![b1, b2, log_base(repo), log_base(repo + 1)])?;
        Ok(found.is_some())
    }

    /// Returns the target of a ref as changed by this transaction.
    pub(crate) fn target(&mut self, repo: i64, name: &RefName) -> StoreResult<Option<RefTarget>> {
        // An earlier batch of this transaction may have moved the ref.
        if let Some(target) = self.fresh.refs.get(&repo).and_then(|refs| refs.get(name)) {
            return Ok(target.clone());
        }
        self.reader(repo).target(name)
    }

    /// Returns the number of a repository if it exists.
    pub(crate) fn repo(&mut self, name: &RepoName) -> StoreResult<Option<i64>> {
        let known = self.fresh.repos.get(name.as_str()).copied();
        let remembered = || lock(self.memory).repos.get(name.as_str()).copied();
        if let Some(number) = known.or_else(remembered) {
            return Ok(Some(number));
        }
        let found = self.reader(0).named(name)?.map(|reader| reader.repo);
        if let Some(number) = found {
            self.fresh.repos.insert(name.as_str().to_owned(), number);
        }
        Ok(found)
    }

    /// Returns the place of an object.
    pub(crate) fn place(&mut self, repo: i64, object: ObjectId) -> StoreResult<Option<i64>> {
        if let Some(place) = self.known_place(repo, object) {
            return Ok(Some(place));
        }
        let found = self.reader(repo).find_place(object)?;
        if let Some(place) = found {
            self.fresh.places.insert((repo, object), place);
        }
        Ok(found)
    }

    /// Returns the cached place of an object. Runs no query.
    pub(crate) fn known_place(&self, repo: i64, object: ObjectId) -> Option<i64> {
        let fresh = self.fresh.places.get(&(repo, object)).copied();
        fresh.or_else(|| lock(self.memory).places.get(&(repo, object)).copied())
    }

    /// Checks a batch. Returns its answer if it is not to be written.
    fn check<'b>(
        &mut self,
        repo: Option<i64>,
        batch: &'b Batch,
    ) -> StoreResult<Result<Checked<'b>, Applied>> {
        batch.check_refs(BACKEND)?;
        let records: Vec<_> = batch.commits.iter().map(tract_core::Commit::encode).collect();
        let new = match (repo, records.first()) {
            (Some(repo), Some(record)) => self.new_in(repo, batch, record)?,
            _ => NewObjects::default(),
        };
        if let Some(repo) = repo {
            // If the batch had been applied, all of its commits would be stored. A required position
            // is compared before any ref moves.
            if new.commit
                && batch.position.is_none()
                && let Some(moved) = self.swap(repo, batch, &records)?
            {
                let moves = vec![moved];
                return Ok(Ok(Checked { batch, records, new, moves }));
            }
            if self.has_batch(repo, batch.id)? {
                return Ok(Err(Applied::Already));
            }
        }
        if let Some(expected) = batch.position {
            // Under the write lock, and after the earlier batches of this transaction.
            let position = match repo {
                Some(repo) => sweep::position(self.reader(repo))?,
                None => WritePosition::default(),
            };
            if position != expected {
                return Ok(Err(Applied::Moved(position)));
            }
        }
        let mut moves = Vec::with_capacity(batch.refs.len());
        for edit in &batch.refs {
            let found = match repo {
                Some(repo) => self.target(repo, &edit.name)?,
                None => None,
            };
            if let Some(conflict) = edit.conflict(found.as_ref()) {
                return Ok(Err(Applied::Conflict(conflict)));
            }
            if found != edit.to {
                moves.push(RefMove { edit, before: found, done: false });
            }
        }
        self.check_links(repo, batch)?;
        check_sizes(batch, &records)?;
        Ok(Ok(Checked { batch, records, new, moves }))
    }

    /// Handles the common case of one ref with an expected target. If all other checks pass, one
    /// statement compares and moves the ref. Returns `None` without any change if a check fails or
    /// the batch has another form.
    fn swap<'b>(
        &mut self,
        repo: i64,
        batch: &'b Batch,
        records: &[Vec<u8>],
    ) -> StoreResult<Option<RefMove<'b>>> {
        let [edit @ RefEdit { name, expect: Expect::Is(before), to: Some(to) }] = &*batch.refs
        else {
            return Ok(None);
        };
        let moved_here = self.fresh.refs.get(&repo).is_some_and(|refs| refs.contains_key(name));
        if moved_here
            || before == to
            || check_sizes(batch, records).is_err()
            || self.check_links(Some(repo), batch).is_err()
        {
            return Ok(None);
        }
        let done = self.swap_ref(repo, name.as_str(), before, to)?;
        Ok(done.then(|| RefMove { edit, before: Some(before.clone()), done }))
    }

    /// Checks that all objects that the batch requires or links to are stored or in it.
    fn check_links(&mut self, repo: Option<i64>, batch: &Batch) -> StoreResult<()> {
        if let Some(repo) = repo {
            self.check_brought(repo, batch)?;
        }
        // Sorted instead of hashed: most batches have a handful of objects.
        let mut inside: Vec<ObjectId> = batch.objects().collect();
        inside.sort_unstable();
        let mut look_up = |object: ObjectId, is_link: bool| -> StoreResult<()> {
            if inside.binary_search(&object).is_ok() {
                return Ok(());
            }
            let place = match repo {
                Some(repo) => self.place(repo, object)?,
                None => None,
            };
            match place {
                Some(_) => Ok(()),
                None => self.check_absent(repo, batch, object, is_link),
            }
        };
        batch.requires.iter().try_for_each(|object| look_up(*object, false))?;
        batch.links().try_for_each(|object| look_up(object, true))
    }
}

fn check_sizes(batch: &Batch, records: &[Vec<u8>]) -> StoreResult<()> {
    let blobs = batch.blobs.iter().map(|blob| blob.bytes().len());
    let derived = batch.derived.iter().map(|row| row.bytes.len());
    let toolsets = batch.toolsets.iter().map(|set| set.entries().len() * 64);
    let sizes = blobs.chain(derived).chain(toolsets).chain(records.iter().map(Vec::len));
    match sizes.max() {
        Some(size) if size > MAX_BYTES => {
            let message = format!("object too large: {size} bytes (limit {MAX_BYTES})");
            Err(new(StoreErrorKind::TooLarge, OP, message))
        }
        _ => Ok(()),
    }
}

//! The store: one writing connection and several reading ones.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, params};
use tract_core::store::{
    BlobKey, BlockingStore, Capabilities, Damage, JoinBatches, ListKind, LogQuery, ObjectCopies,
    ObjectListing, ObjectPage, OpenedFile, RepackPage, RepackStep, SpaceRelease, StoreStats, Sweep,
    SweepAnswer, ThreadedStore, Walk, WalkPage, WipeReport, WritePosition, remove_unfinished,
    resolve_path,
};
use tract_core::{
    Applied, Batch, Blob, Commit, CommitId, DerivedKind, IdPrefix, LogEntry, ObjectId, RefName,
    RefTarget, RepoName, StoreError, StoreErrorKind, StoreResult, ToolDefinition, ToolId, Toolset,
    ToolsetId,
};

use crate::error::{BACKEND, engine, is_out_of_room, new};
use crate::memory::{Memory, lock};
use crate::migrate::{Access, CHECKER_KIB, READER_KIB};
use crate::open_files::Registration;
use crate::read::{RepoReader, Snapshot, statement};
use crate::restore::restore;
use crate::schema::{DERIVED, DERIVED_LAST};
use crate::write::WriteTransaction;
use crate::{SqliteOptions, check, erase, migrate, repack, side_files, stats, sweep, walk, write};

/// Maximum number of reading connections. A large read uses one for each processor.
const READERS: usize = 8;

/// Opens a store, or creates one if the options allow it.
///
/// # Errors
/// `NoStore` if there is none, `NotAStore` for other files, `TooNew` for a format of a newer
/// version, `Busy` if it is locked for longer than the timeout, `ReadOnly` if it has to be created
/// but is not writable, `Unavailable` if the operating system refuses access.
pub fn open(
    path: impl AsRef<Path>,
    options: &SqliteOptions,
) -> StoreResult<ThreadedStore<SqliteStore>> {
    Ok(ThreadedStore::new(SqliteStore::open(path.as_ref(), options)?, options.write_mode))
}

/// A store in one SQLite file. [`open`] returns it ready for use.
pub struct SqliteStore {
    file: OpenedFile,
    options: SqliteOptions,
    read_only: bool,
    /// The access mode of reading connections.
    reading: Access,
    writer: Mutex<Option<Connection>>,
    readers: [Mutex<Option<Connection>>; READERS],
    /// The next reader to wait for when all are busy.
    turn: AtomicUsize,
    memory: Mutex<Memory>,
    /// The log entries that reference rows, cached while objects are being swept.
    log_rows: Mutex<sweep::LogRows>,
    closed: AtomicBool,
    /// The error after which the state of the disk is unknown.
    poisoned: OnceLock<String>,
    /// The reason that writes fail, if this user cannot write the side files.
    unwritable: Option<String>,
    // Last: fields are dropped in this order, and closing any handle to the file while a connection
    // is open would release that connection's locks.
    _registration: Registration,
}

/// Pauses so that other processes, which poll every millisecond, can take the write lock.
fn let_others_write() {
    std::thread::sleep(Duration::from_millis(2));
}

impl SqliteStore {
    /// Opens a store as [`open`] does, for blocking calls.
    ///
    /// # Errors
    /// Those of [`open`].
    pub fn open(path: &Path, options: &SqliteOptions) -> StoreResult<Self> {
        // SQLite keeps the log next to the target of a link. An absolute path never means an
        // in-memory database.
        let path = resolve_path(BACKEND, path)?;
        let mut unwritable = None;
        let registration = Registration::new(&path, || {
            migrate::inspect_file(&path, options)?;
            if !options.read_only {
                unwritable = side_files::remove_unwritable(&path);
            }
            Ok(())
        })?;
        let existing = path.exists().then(|| OpenedFile::new(path.clone()));
        if let Some(file) = &existing {
            // SQLite derives the log's name from the file's. Under a second hard link it would use
            // another log, so even reads could miss acknowledged writes.
            file.require_one_name(BACKEND, "open")?;
        }
        crate::wal::check(&path)?;
        let first = if options.read_only { Access::Read } else { Access::Write };
        let (connection, access) = match migrate::opened(&path, first, options) {
            // Where nothing can be written, SQLite cannot create the index of the log. Without a
            // log there is no pending write either, so the file is complete and can be opened as
            // immutable.
            Err(error) if migrate::is_unwritable(&error) && crate::uri::is_whole(&path) => {
                migrate::opened(&path, Access::Immutable, options).map_err(|_| error)?
            }
            opened => opened
                .map_err(|error| crate::uri::with_unread_log(error, &path))
                .map_err(|error| side_files::with_reason(error, unwritable.as_deref()))?,
        };
        let read_only = access != Access::Write;
        if existing.is_some_and(|file| !file.is_in_place()) {
            let message = format!("{} was replaced while it was being opened", path.display());
            return Err(new(StoreErrorKind::Busy, "open", message));
        }
        if !read_only {
            remove_unfinished(&path);
        }
        let readers: [Mutex<Option<Connection>>; READERS] = Default::default();
        let (writer, reader) =
            if read_only { (None, Some(connection)) } else { (Some(connection), None) };
        if let (Some(reader), [first, ..]) = (reader, &readers) {
            *lock(first) = Some(reader);
        }
        Ok(Self {
            file: OpenedFile::new(path),
            options: options.clone(),
            read_only,
            reading: if access == Access::Immutable { access } else { Access::Read },
            writer: Mutex::new(writer),
            readers,
            turn: AtomicUsize::new(0),
            memory: Mutex::new(Memory::new()),
            log_rows: Mutex::default(),
            closed: AtomicBool::new(false),
            poisoned: OnceLock::new(),
            unwritable,
            _registration: registration,
        })
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    #[cfg(test)]
    pub(crate) fn ask(&self, sql: &str) -> u32 {
        let writer = lock(&self.writer);
        let writer = writer.as_ref().expect("it is open for writing");
        writer.query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    fn closed(&self, op: &'static str) -> StoreError {
        new(StoreErrorKind::Unavailable, op, "the store is closed")
    }

    /// Reads within one snapshot, on a connection that no other thread is using.
    fn read<T>(
        &self,
        op: &'static str,
        read: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        let mut reader = match free {
            Some(reader) => reader,
            None => {
                // All are busy. Each waiting thread takes the next one in turn, so that they do not
                // all wait for the same reader.
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % READERS;
                lock(self.readers.get(turn).expect("a remainder is below its divisor"))
            }
        };
        self.read_on(&mut reader, op, read)
    }

    /// Reads on another connection than the caller's if one is free. Errors are dropped: the caller
    /// repeats the read itself and reports them.
    fn read_on_free_reader(&self, op: &'static str, read: &mut dyn FnMut(&Connection)) {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        if let Some(mut reader) = free {
            let _ = self.read_on(&mut reader, op, |connection| {
                read(connection);
                Ok(())
            });
        }
    }

    fn read_on<T>(
        &self,
        reader: &mut Option<Connection>,
        op: &'static str,
        read: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if self.closed.load(Ordering::Acquire) {
            return Err(self.closed(op));
        }
        let connection = match reader {
            Some(connection) => connection,
            empty => {
                self.file.require_in_place(BACKEND, op)?;
                let connection = migrate::connect(self.path(), self.reading, &self.options)?;
                // SQLite opened the path, which may have been replaced since the first check.
                self.file.require_in_place(BACKEND, op)?;
                empty.insert(connection)
            }
        };
        let _snapshot = Snapshot::begin(connection, op)?;
        read(connection)
    }

    /// Reads one ref on the writing connection if no write is in progress. A commit empties the
    /// page caches of all other connections, and the head is usually read right after one.
    fn ref_near(&self, repo: &RepoName, name: &RefName) -> Option<StoreResult<Option<RefTarget>>> {
        let repo = lock(&self.memory).repos.get(repo.as_str()).copied()?;
        let writer = self.writer.try_lock().ok()?;
        let connection = writer.as_ref().filter(|writer| writer.is_autocommit())?;
        let fit = !self.closed.load(Ordering::Acquire) && self.poisoned.get().is_none();
        fit.then(|| RepoReader::new(connection, "refs", repo).target(name))
    }

    /// Reads from a repository; returns the default value if the repository does not exist.
    fn read_repo<T: Default>(
        &self,
        op: &'static str,
        name: &RepoName,
        read: impl FnOnce(RepoReader<'_>) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let known = lock(&self.memory).repos.get(name.as_str()).copied();
        self.read(op, |connection| {
            let store = RepoReader::new(connection, op, known.unwrap_or_default());
            let found = if known.is_some() { Some(store) } else { store.named(name)? };
            let Some(reader) = found else { return Ok(T::default()) };
            if known.is_none() {
                lock(&self.memory).repos.insert(name.as_str().to_owned(), reader.repo);
            }
            read(reader)
        })
    }

    /// Reads a value for each key.
    fn read_each<K, T: Clone>(
        &self,
        op: &'static str,
        name: &RepoName,
        keys: &[K],
        read: impl Fn(RepoReader<'_>, &K) -> StoreResult<Option<T>>,
    ) -> StoreResult<Vec<Option<T>>> {
        let mut found: Vec<Option<T>> =
            self.read_repo(op, name, |reader| keys.iter().map(|key| read(reader, key)).collect())?;
        // The result is empty if the repository does not exist.
        found.resize(keys.len(), None);
        Ok(found)
    }

    fn write<T>(
        &self,
        op: &'static str,
        write: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if let Some(cause) = self.poisoned.get() {
            let message = format!("an earlier write failed, so nothing more is written: {cause}");
            return Err(new(StoreErrorKind::Poisoned, op, message));
        }
        match &*lock(&self.writer) {
            Some(connection) => self
                .file
                .require_writable(BACKEND, op)
                .and_then(|()| write(connection))
                .map_err(|error| crate::error::with_space_needed(error, self.path()))
                .map_err(|error| side_files::with_reason(error, self.unwritable.as_deref())),
            None if self.read_only && !self.closed.load(Ordering::Acquire) => {
                Err(new(StoreErrorKind::ReadOnly, op, "the store is open for reading only"))
            }
            None => Err(self.closed(op)),
        }
    }

    /// Writes, and poisons the handle if the operating system fails: the contents of the disk are
    /// then unknown, so further writes are rejected.
    fn maintain<T>(
        &self,
        op: &'static str,
        write: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let written = self.write(op, write);
        if let Err(error) = &written
            && crate::error::is_io(error)
        {
            let _ = self.poisoned.set(error.message.clone());
        }
        written
    }

    fn group(
        &self,
        group: &[(RepoName, Batch)],
        joining: Option<&mut JoinBatches<'_>>,
    ) -> Vec<StoreResult<Applied>> {
        let mut callers = group.len();
        let written = self.maintain(write::OP, |connection| {
            let patience = self.options.busy_timeout;
            write::group(connection, &self.memory, patience, group, joining, &mut callers)
        });
        // If the transaction fails, each caller gets the error.
        written.unwrap_or_else(|error| {
            (0..callers).map(|_| Err(crate::error::again(&error))).collect()
        })
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The last connection to close writes the log back. A read-only one cannot, so the readers
        // are closed first.
        let _ = BlockingStore::close(self);
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl BlockingStore for SqliteStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::MANY_PROCESSES
            .collecting()
            .erasing()
            .restoring()
            .repacking(tract_compression::IS_AVAILABLE);
        capabilities.durable = !self.options.unsafe_lose_on_power_loss;
        capabilities
    }

    fn blobs(&self, repo: &RepoName, keys: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        let mut blobs: Vec<Option<Blob>> = vec![None; keys.len()];
        self.read_repo("blobs", repo, |reader| {
            let others =
                |help: &mut dyn FnMut(&Connection)| self.read_on_free_reader("blobs", help);
            reader.neighbors(&others, keys, &mut blobs)?;
            let missing = blobs.iter_mut().zip(keys).filter(|(blob, _)| blob.is_none());
            for (blob, key) in missing {
                *blob = reader.blob(key)?;
            }
            Ok(())
        })?;
        Ok(blobs)
    }

    fn toolsets(&self, repo: &RepoName, ids: &[ToolsetId]) -> StoreResult<Vec<Option<Toolset>>> {
        self.read_each("toolsets", repo, ids, |reader, id| {
            Ok(reader.find_toolset(*id)?.map(|(_, toolset)| toolset))
        })
    }

    fn resolve_prefix(
        &self,
        repo: &RepoName,
        prefix: &IdPrefix,
        limit: usize,
    ) -> StoreResult<Vec<ObjectId>> {
        self.read_repo("resolve_prefix", repo, |reader| reader.resolve_prefix(prefix, limit))
    }

    fn commits(&self, repo: &RepoName, ids: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        self.read_each("commits", repo, ids, |reader, id| {
            Ok(reader.find_commit(*id)?.map(|(_, commit)| commit))
        })
    }

    fn walk(&self, repo: &RepoName, walk: Walk) -> StoreResult<WalkPage> {
        let page = self.read_repo("walk", repo, |reader| {
            let place = sweep::known(reader, &self.memory, ObjectId::Commit(walk.head))?;
            let others = |help: &mut dyn FnMut(&Connection)| self.read_on_free_reader("walk", help);
            walk::walk(reader, &others, &walk, place).map(Some)
        })?;
        match page {
            Some(page) => Ok(page),
            None if walk.until == Some(walk.head) => Ok(WalkPage::default()),
            None => Err(StoreError::missing(BACKEND, "walk", ObjectId::Commit(walk.head))),
        }
    }

    fn tools(&self, repo: &RepoName, ids: &[ToolId]) -> StoreResult<Vec<Option<ToolDefinition>>> {
        self.read_each("tools", repo, ids, |reader, id| reader.tool(*id))
    }

    fn tools_by_name(&self, repo: &RepoName, name: &str) -> StoreResult<Vec<ToolDefinition>> {
        self.read_repo("tools_by_name", repo, |reader| reader.tools_by_name(name))
    }

    fn tool_names(&self, repo: &RepoName) -> StoreResult<Vec<String>> {
        self.read_repo("tool_names", repo, |reader| reader.tool_names())
    }

    fn refs(&self, repo: &RepoName, names: &[RefName]) -> StoreResult<Vec<Option<RefTarget>>> {
        if let [name] = names
            && let Some(found) = self.ref_near(repo, name)
        {
            return Ok(vec![found?]);
        }
        self.read_each("refs", repo, names, |reader, name| reader.target(name))
    }

    fn list_refs(&self, repo: &RepoName, prefix: &str) -> StoreResult<Vec<(RefName, RefTarget)>> {
        let (refs, bad) = self.read_repo("list_refs", repo, |reader| reader.list_refs(prefix))?;
        if bad.is_empty() {
            return Ok(refs);
        }
        let message = format!("the ref {} is damaged", bad.join(", "));
        Err(crate::error::damaged("list_refs", message))
    }

    fn ref_log(&self, repo: &RepoName, query: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        self.read_repo("ref_log", repo, |reader| reader.ref_log(query))
    }

    fn derived(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
        commits: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let kind = DERIVED + i64::from(kind.number());
        self.read_each("derived", repo, commits, |reader, id| {
            let object = ObjectId::Commit(*id);
            let place = match sweep::known(reader, &self.memory, object)? {
                Some(place) => Some(place),
                None => reader.find_place(object)?,
            };
            let Some(place) = place else { return Ok(None) };
            // A damaged row is ignored, because derived data can be recomputed.
            let (rows, _) = reader.small(kind, place)?;
            Ok(rows.into_iter().next().map(|row| Bytes::from(row.data)))
        })
    }

    fn derived_commits(
        &self,
        repo: &RepoName,
        kind: DerivedKind,
    ) -> StoreResult<Option<Vec<CommitId>>> {
        let kind = DERIVED + i64::from(kind.number());
        self.read_repo("derived_commits", repo, |reader| {
            let sql = "SELECT DISTINCT key FROM small WHERE repo = ?1 AND kind = ?2";
            let mut found = Vec::new();
            reader.each_row(sql, params![reader.repo, kind], |row| {
                let id = reader.id_at(ListKind::Commits, row.number(0)?)?;
                found.extend(id.map(CommitId::from_bytes));
                Ok(())
            })?;
            Ok(found)
        })
        .map(Some)
    }

    fn drop_derived(&self, repo: &RepoName) -> StoreResult<()> {
        const OP: &str = "drop_derived";
        self.maintain(OP, |connection| {
            let writing = WriteTransaction::begin(connection, OP)?;
            if let Some(reader) = RepoReader::new(connection, OP, 0).named(repo)? {
                let sql = "DELETE FROM small WHERE repo = ?1 AND kind BETWEEN ?2 AND ?3";
                statement(connection, OP, sql)?
                    .execute(params![reader.repo, DERIVED, DERIVED_LAST])
                    .map_err(engine(OP))?;
            }
            writing.commit(OP)
        })
    }

    fn repos(&self) -> StoreResult<Vec<RepoName>> {
        self.read("repos", stats::repos)
    }

    fn stats(&self, repo: &RepoName) -> StoreResult<StoreStats> {
        let mut counted = self.read_repo("stats", repo, stats::stats)?;
        counted.disk_bytes = stats::disk_bytes(self.path());
        Ok(counted)
    }

    fn check(&self, repo: &RepoName, repair: bool) -> StoreResult<Vec<Damage>> {
        const OP: &str = "check";
        let checked =
            |connection: &Connection| match RepoReader::new(connection, OP, 0).named(repo)? {
                Some(reader) => check::check(reader, &self.memory, repair),
                None => Ok(Vec::new()),
            };
        if repair {
            self.maintain(OP, checked)
        } else {
            self.read(OP, |connection| {
                migrate::cache(connection, CHECKER_KIB).map_err(engine(OP))?;
                let checked = checked(connection);
                migrate::cache(connection, READER_KIB).map_err(engine(OP))?;
                checked
            })
        }
    }

    fn restore(&self, repo: &RepoName, copies: &ObjectCopies) -> StoreResult<Vec<ObjectId>> {
        self.maintain("restore", |writer| restore(writer, &self.memory, repo, copies))
    }

    fn list_objects(&self, repo: &RepoName, listing: ObjectListing) -> StoreResult<ObjectPage> {
        self.read_repo("list_objects", repo, |reader| sweep::list(reader, &listing))
    }

    fn write_position(&self, repo: &RepoName) -> StoreResult<WritePosition> {
        self.read_repo("write_position", repo, sweep::position)
    }

    fn sweep(&self, repo: &RepoName, sweep: &Sweep) -> StoreResult<SweepAnswer> {
        let answer = self.maintain("sweep", |connection| {
            let mut log_rows = lock(&self.log_rows);
            sweep::sweep(connection, &self.memory, &mut log_rows, repo, sweep)
        })?;
        // Not after `Moved`: the caller's marking would become stale again.
        if answer == SweepAnswer::Done {
            let_others_write();
        }
        Ok(answer)
    }

    fn release_space(&self) -> StoreResult<SpaceRelease> {
        *lock(&self.log_rows) = sweep::LogRows::default();
        let before = stats::disk_bytes(self.path());
        loop {
            match self.maintain("release_space", sweep::release_step)? {
                sweep::Released::Some => let_others_write(),
                sweep::Released::All(note) => {
                    return Ok(SpaceRelease::new(before, stats::disk_bytes(self.path()), note));
                }
            }
        }
    }

    fn wipe(&self) -> StoreResult<WipeReport> {
        self.maintain("wipe", |connection| erase::wipe(connection, &self.memory))
    }

    fn repack(&self, repo: &RepoName, step: RepackStep) -> StoreResult<RepackPage> {
        const OP: &str = "repack";
        let Some(number) = self.read_repo(OP, repo, |reader| Ok(Some(reader.repo)))? else {
            return Ok(RepackPage::default());
        };
        match step {
            RepackStep::Train => {
                // Training takes long, so it uses a reading connection and does not block writers.
                let train = |connection: &Connection| {
                    repack::train(RepoReader::new(connection, OP, number))
                };
                let trained = self.read(OP, train)?;
                let next = self.maintain(OP, |connection| {
                    repack::trained(connection, &self.memory, number, trained.as_ref())
                })?;
                Ok(RepackPage::to(next))
            }
            RepackStep::Blobs { after, trained, unreadable } => {
                let page = self.maintain(OP, |connection| {
                    repack::blobs(connection, number, after, trained, unreadable)
                })?;
                let_others_write();
                Ok(page)
            }
            RepackStep::Finish { trained, unreadable } => {
                if trained > 0 && !unreadable {
                    self.maintain(OP, |connection| {
                        repack::finish(connection, &self.memory, number, trained)
                    })?;
                }
                Ok(RepackPage::to(RepackStep::Shrink))
            }
            RepackStep::Shrink => {
                let note = self.maintain(OP, repack::shrink)?;
                Ok(RepackPage { note, ..RepackPage::default() })
            }
        }
    }

    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>> {
        self.group(group, None)
    }

    fn apply_joined(
        &self,
        group: &[(RepoName, Batch)],
        joining: &mut JoinBatches<'_>,
    ) -> Vec<StoreResult<Applied>> {
        self.group(group, Some(joining))
    }

    fn close(&self) -> StoreResult<()> {
        self.closed.store(true, Ordering::Release);
        // Close the readers first, so that the checkpoint can write back the whole log.
        self.readers.iter().for_each(|reader| drop(lock(reader).take()));
        let Some(writer) = lock(&self.writer).take() else { return Ok(()) };
        // If others use the store, the last of them writes the log back. Do not wait for them: a
        // checkpoint that waits for readers blocks writers.
        let written = writer
            .busy_timeout(Duration::ZERO)
            .and_then(|()| writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        match written {
            Ok(()) => {}
            // The log stays next to the file, with every change, and the next handle writes it back.
            Err(error) if is_out_of_room(&error) => {}
            Err(error) => {
                let error = engine("close")(error);
                if error.kind != StoreErrorKind::Busy {
                    return Err(error);
                }
            }
        }
        writer.close().map_err(|(_, error)| engine("close")(error))
    }
}

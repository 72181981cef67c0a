//! Restores damaged or missing objects from copies.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use rusqlite::{Connection, params};
use tract_core::store::ObjectCopies;
use tract_core::{
    Blob, BlobId, Commit, CommitId, ObjectId, RefTarget, RepoName, StoreErrorKind, StoreResult,
    Toolset,
};

use crate::erase;
use crate::log;
use crate::memory::Memory;
use crate::read::{Columns, RepoReader};
use crate::schema::{
    DERIVED, DERIVED_LAST, TEXT, TOOLSET, UNLOGGED, log_base, place, prefix, segment_start,
    small_sum, text_key,
};
use crate::sweep::{self, LogRows};
use crate::write::{OP, Tx, WriteTransaction};

/// Stores copies of unreadable objects. Returns the ids of the objects written.
pub(crate) fn restore(
    connection: &Connection,
    memory: &Mutex<Memory>,
    name: &RepoName,
    copies: &ObjectCopies,
) -> StoreResult<Vec<ObjectId>> {
    let writing = WriteTransaction::begin(connection, OP)?;
    let mut tx = Tx::new(connection, memory);
    tx.sweeps = sweep::forget(tx.reader(0), memory)?;
    let repo = match tx.repo(name)? {
        Some(repo) => repo,
        None => tx.new_repo(name)?,
    };
    let erased = erase::erased(tx.reader(repo));
    let mut places = LostPlaces::new(tx.reader(repo));
    let mut restored = Vec::new();
    // Blobs first, because commits record the rows of their contents.
    for blob in &copies.blobs {
        if tx.restore_blob(repo, blob, &erased, &mut places)? {
            restored.push(ObjectId::Blob(blob.id()));
        }
    }
    for commit in &copies.commits {
        if tx.restore_commit(repo, commit, &mut places)? {
            restored.push(ObjectId::Commit(commit.id()));
        }
    }
    for toolset in &copies.toolsets {
        if tx.restore_toolset(repo, toolset)? {
            restored.push(ObjectId::Toolset(toolset.id()));
        }
    }
    if restored.is_empty() {
        return Ok(restored);
    }
    tx.count(repo, UNLOGGED)?;
    let fresh = std::mem::take(&mut tx.fresh);
    drop(tx);
    writing.commit(OP)?;
    fresh.remember(memory);
    Ok(restored)
}

const BLOB_AT: &str = "SELECT id FROM blobs WHERE id = ?1";

/// The former places of objects whose rows are lost, as far as other rows reveal them. Computed on
/// first use.
struct LostPlaces<'c> {
    reader: RepoReader<'c>,
    /// The names of the refs that point to an object.
    refs: Option<HashMap<ObjectId, Vec<String>>>,
    /// The empty place directly before a commit, by the commit's first parent.
    gaps: Option<HashMap<CommitId, i64>>,
}

impl<'c> LostPlaces<'c> {
    fn new(reader: RepoReader<'c>) -> Self {
        Self { reader, refs: None, gaps: None }
    }

    /// Returns the place of an object that a ref points to, according to the newest log entry of
    /// that ref.
    fn logged(&mut self, object: ObjectId) -> StoreResult<Option<i64>> {
        let reader = self.reader;
        let refs = match self.refs.take() {
            Some(refs) => refs,
            None => {
                let mut refs: HashMap<ObjectId, Vec<String>> = HashMap::new();
                for (name, target) in reader.list_refs("")?.0 {
                    if let Some(object) = target.object() {
                        refs.entry(object).or_default().push(name.as_str().to_owned());
                    }
                }
                refs
            }
        };
        let names = self.refs.insert(refs).get(&object);
        let kind = match object {
            ObjectId::Commit(_) => log::COMMIT,
            _ => log::BLOB,
        };
        for name in names.into_iter().flatten() {
            let (texts, _) = reader.small(TEXT, text_key(name.as_bytes()))?;
            for text in texts.iter().filter(|text| text.data == name.as_bytes()) {
                let sql = format!(
                    "SELECT {} FROM ref_log WHERE ref = ?1 AND id > ?2 AND id <= ?3 \
                     ORDER BY id DESC LIMIT 1",
                    log::COLUMNS
                );
                let range = params![text.id, log_base(reader.repo), log_base(reader.repo + 1)];
                let read = |row: Columns<'_>| log::Raw::read(&row);
                if let Some(raw) = reader.find_row(&sql, range, read)?
                    && raw.kinds & 3 == kind
                {
                    return Ok(Some(raw.after));
                }
            }
        }
        Ok(None)
    }

    /// Returns the place directly before the commit with this first parent.
    fn before_child(&mut self, parent: CommitId) -> StoreResult<Option<i64>> {
        if self.gaps.is_none() {
            let mut gaps = HashMap::new();
            let sql = "SELECT id, rec FROM commits c WHERE +repo = ?1 AND id & 4294967295 <> 0 \
                       AND NOT EXISTS (SELECT 1 FROM commits b WHERE b.id = c.id - 1)";
            self.reader.each_row(sql, params![self.reader.repo], |row| {
                let commit = Commit::decode_any(row.bytes(1)?).ok();
                if let Some(parent) = commit.and_then(|commit| commit.parent()) {
                    gaps.insert(parent, row.number(0)? - 1);
                }
                Ok(())
            })?;
            self.gaps = Some(gaps);
        }
        Ok(self.gaps.as_ref().and_then(|gaps| gaps.get(&parent).copied()))
    }
}

/// Treats a damaged object as missing.
pub(crate) fn sound<T>(read: StoreResult<Option<T>>) -> StoreResult<Option<T>> {
    match read {
        Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { object: Some(_) }) => Ok(None),
        read => read,
    }
}

impl RepoReader<'_> {
    /// Returns the row of a damaged commit or blob: it is indexed under the first eight bytes of
    /// the id, but its data does not hash to them.
    fn damaged_row(self, object: ObjectId) -> StoreResult<Option<i64>> {
        let h = prefix(object.as_bytes());
        let sql = match object {
            ObjectId::Commit(_) => "SELECT id, rec FROM commits WHERE repo = ?1 AND h = ?2",
            _ => "SELECT id, data FROM blobs WHERE repo = ?1 AND h = ?2",
        };
        self.find_row(sql, params![self.repo, h], |row| {
            let stored = row.bytes(1)?;
            let id = match object {
                ObjectId::Commit(_) => {
                    Commit::decode_any(stored).ok().map(|commit| *commit.id().as_bytes())
                }
                _ => self.plain(stored)?.map(|bytes| *tract_core::hash::blob(&bytes).as_bytes()),
            };
            let is_sound = id.is_some_and(|id| prefix(&id) == h);
            if is_sound { Ok(None) } else { row.number(0).map(Some) }
        })
    }

    /// Returns the row of a damaged blob.
    pub(crate) fn damaged_blob(self, id: BlobId) -> StoreResult<Option<i64>> {
        self.damaged_row(ObjectId::Blob(id))
    }
}

impl Tx<'_> {
    fn restore_blob(
        &mut self,
        repo: i64,
        blob: &Blob,
        erased: &HashSet<BlobId>,
        places: &mut LostPlaces<'_>,
    ) -> StoreResult<bool> {
        if sound(self.reader(repo).find_blob(blob.id()))?.is_some() || erased.contains(&blob.id()) {
            return Ok(false);
        }
        match self.reader(repo).damaged_blob(blob.id())? {
            Some(row) => self.replace_blob(repo, row, blob)?,
            None => {
                let logged = places.logged(ObjectId::Blob(blob.id()))?;
                let row = match logged {
                    Some(row) if self.number(BLOB_AT, &[&row])?.is_none() => row,
                    Some(_) | None => self.next_blob(repo)?,
                };
                self.blob(repo, row, blob)?;
            }
        }
        Ok(true)
    }

    /// Indexes a row by the id of the object in it.
    pub(crate) fn set_key(&mut self, repo: i64, row: i64, object: ObjectId) -> StoreResult<()> {
        let key = prefix(object.as_bytes());
        let sql = match object {
            ObjectId::Commit(_) => "UPDATE commits SET h = ?2 WHERE id = ?1",
            ObjectId::Blob(_) => "UPDATE blobs SET h = ?2 WHERE id = ?1",
            ObjectId::Toolset(_) | ObjectId::Tool(_) => {
                let data: Option<Vec<u8>> = self.reader(repo).find_row(
                    "SELECT data FROM small WHERE id = ?1",
                    [row],
                    |row| Ok(Some(row.bytes(0)?.to_vec())),
                )?;
                let sum = small_sum(repo, TOOLSET, key, &data.unwrap_or_default());
                self.execute("UPDATE small SET sum = ?2 WHERE id = ?1", &[&row, &sum])?;
                "UPDATE small SET key = ?2 WHERE id = ?1"
            }
        };
        self.execute(sql, &[&row, &key])?;
        Ok(())
    }

    /// Replaces the damaged bytes of a row.
    pub(crate) fn replace_blob(&mut self, repo: i64, row: i64, blob: &Blob) -> StoreResult<()> {
        let stored = tract_compression::encode(blob.bytes());
        let bytes = stored.as_ref();
        self.execute("UPDATE blobs SET data = ?2 WHERE id = ?1", &[&row, &bytes])?;
        self.fresh.places.insert((repo, ObjectId::Blob(blob.id())), row);
        Ok(())
    }

    fn restore_commit(
        &mut self,
        repo: i64,
        commit: &Commit,
        places: &mut LostPlaces<'_>,
    ) -> StoreResult<bool> {
        let object = ObjectId::Commit(commit.id());
        let reader = self.reader(repo);
        if sound(reader.find_commit(commit.id()))?.is_some() {
            return Ok(false);
        }
        let (h, record) = (prefix(commit.id().as_bytes()), commit.encode());
        let content = match commit.content {
            Some(id) => sound(reader.find_blob(id))?.map(|(at, _)| at),
            None => None,
        };
        let at = match reader.damaged_row(object)? {
            Some(at) => {
                let sql = "UPDATE commits SET content = ?2, rec = ?3 WHERE id = ?1";
                self.execute(sql, &[&at, &content, &record])?;
                at
            }
            None => {
                let at = self.lost_place(repo, commit, content, places)?;
                let sql = "INSERT INTO commits (id, repo, h, content, rec) \
                           VALUES (?1, ?2, ?3, ?4, ?5)";
                self.execute(sql, &[&at, &repo, &h, &content, &record])?;
                at
            }
        };
        self.fresh.places.insert((repo, object), at);
        Ok(true)
    }

    /// Returns the former place of a commit whose row is lost, because ref log entries reference it
    /// by its place. Returns the start of a new segment if the place is unknown.
    fn lost_place(
        &mut self,
        repo: i64,
        commit: &Commit,
        content: Option<i64>,
        places: &mut LostPlaces<'_>,
    ) -> StoreResult<i64> {
        let own = content.filter(|at| (at >> 32) % 2 == 0 && *at >= place(2, 0));
        if let Some(at) = own
            && self.is_free(at, content)?
        {
            return Ok(at);
        }
        for wanted in
            [places.logged(ObjectId::Commit(commit.id()))?, places.before_child(commit.id())?]
        {
            if let Some(at) = wanted
                && self.is_free(at, content)?
            {
                return Ok(at);
            }
        }
        let parent = match commit.parent() {
            Some(parent) => sound(self.reader(repo).find_commit(parent))?,
            None => None,
        };
        match parent {
            Some((parent, _)) if self.is_free(parent + 1, content)? => Ok(parent + 1),
            Some(_) | None => self.unused_segment(),
        }
    }

    /// Returns the start of an empty segment. Restored objects may be beyond the last known one.
    fn unused_segment(&mut self) -> StoreResult<i64> {
        loop {
            let segment = self.next_segment()?;
            let range = [place(segment, 0), place(segment + 1, 0)];
            let commit = "SELECT 1 FROM commits WHERE id >= ?1 AND id < ?2 LIMIT 1";
            let blob = "SELECT 1 FROM blobs WHERE id >= ?1 AND id < ?2 LIMIT 1";
            if self.number(commit, &[&range[0], &range[1]])?.is_none()
                && self.number(blob, &[&range[0], &range[1]])?.is_none()
            {
                return Ok(range[0]);
            }
        }
    }

    /// Moves a run of commits that ends with the first parent of a commit back into the gap before
    /// that commit. The run must be alone in a segment that was created when its commits were
    /// stored again. Returns whether it was moved.
    pub(crate) fn fill_gap(
        &mut self,
        repo: i64,
        child: i64,
        parent: CommitId,
        log_rows: &LogRows,
    ) -> StoreResult<bool> {
        let reader = self.reader(repo);
        let Some((last, _)) = sound(reader.find_commit(parent))? else { return Ok(false) };
        let first = segment_start(last);
        let (low, high) = (child - 1 - (last - first), child - 1);
        let commits = "SELECT 1 FROM commits WHERE id BETWEEN ?1 AND ?2 LIMIT 1";
        let both = "SELECT 1 FROM blobs a JOIN blobs b ON b.id = a.id + ?3 \
                    WHERE a.id BETWEEN ?1 AND ?2 LIMIT 1";
        let by = low - first;
        if low < segment_start(child)
            || first == segment_start(child)
            || self.number(commits, &[&low, &high])?.is_some()
            || self.number(commits, &[&(last + 1), &(last + 1)])?.is_some()
            || self.number(both, &[&first, &last, &by])?.is_some()
        {
            return Ok(false);
        }
        let mut moved = Vec::new();
        let sql = "SELECT id, rec FROM commits WHERE id BETWEEN ?1 AND ?2 AND +repo = ?3";
        reader.each_row(sql, params![first, last, repo], |row| {
            let commit = Commit::decode_any(row.bytes(1)?).ok();
            moved.extend(commit.map(|commit| (row.number(0).ok(), commit.id())));
            Ok(())
        })?;
        if moved.len() as i64 != last - first + 1 {
            return Ok(false);
        }
        for (at, id) in moved {
            let Some(at) = at else { continue };
            self.write_out(repo, log::COMMIT, at, &RefTarget::Commit(id), log_rows)?;
            self.fresh.places.remove(&(repo, ObjectId::Commit(id)));
        }
        let range: [&dyn rusqlite::ToSql; 3] = [&first, &last, &by];
        let sql = "UPDATE commits SET content = content + ?3 WHERE content BETWEEN ?1 AND ?2";
        self.execute(sql, &range)?;
        self.execute("UPDATE blobs SET id = id + ?3 WHERE id BETWEEN ?1 AND ?2", &range)?;
        self.execute("UPDATE commits SET id = id + ?3 WHERE id BETWEEN ?1 AND ?2", &range)?;
        // Derived rows are keyed by place. They are dropped here and computed again.
        let sql = "DELETE FROM small WHERE repo = ?1 AND kind BETWEEN ?2 AND ?3 \
                   AND key BETWEEN ?4 AND ?5";
        self.execute(sql, &[&repo, &DERIVED, &DERIVED_LAST, &first, &last])?;
        Ok(true)
    }

    /// Returns the place of a commit's content if the lost row of the commit was there too, which
    /// is the case if the next row is the commit's child.
    pub(crate) fn lost_with_content(
        &mut self,
        repo: i64,
        commit: &Commit,
        content: i64,
    ) -> StoreResult<Option<i64>> {
        let may_lie = (content >> 32) % 2 == 0 && content >= place(2, 0);
        if !may_lie || !self.is_free(content, Some(content))? {
            return Ok(None);
        }
        let sql = "SELECT rec FROM commits WHERE id = ?1 AND repo = ?2";
        let is_child = self.reader(repo).find_row(sql, params![content + 1, repo], |row| {
            let after = Commit::decode_any(row.bytes(0)?).ok();
            Ok(after.map(|after| after.parent() == Some(commit.id())))
        })?;
        Ok((is_child == Some(true)).then_some(content))
    }

    /// Returns whether a commit may be stored at a place: there is no other commit, and no blob
    /// other than its content.
    fn is_free(&mut self, at: i64, content: Option<i64>) -> StoreResult<bool> {
        if at as u32 == u32::MAX {
            return Ok(false);
        }
        if self.number("SELECT 1 FROM commits WHERE id = ?1", &[&at])?.is_some() {
            return Ok(false);
        }
        let blob = self.number(BLOB_AT, &[&at])?;
        Ok(blob.is_none() || blob == content)
    }

    fn restore_toolset(&mut self, repo: i64, toolset: &Toolset) -> StoreResult<bool> {
        let id = toolset.id();
        if sound(self.reader(repo).find_toolset(id))?.is_some() {
            return Ok(false);
        }
        let (key, data) = (prefix(id.as_bytes()), toolset.encode());
        let sql = "SELECT id, data, sum FROM small WHERE repo = ?1 AND kind = ?2 AND key = ?3";
        let damaged = self.reader(repo).find_row(sql, params![repo, TOOLSET, key], |row| {
            let is_sound = small_sum(repo, TOOLSET, key, row.bytes(1)?) == row.number(2)?;
            if is_sound { Ok(None) } else { row.number(0).map(Some) }
        })?;
        let row = match damaged {
            Some(row) => {
                let sum = small_sum(repo, TOOLSET, key, &data);
                let sql = "UPDATE small SET data = ?2, sum = ?3 WHERE id = ?1";
                self.execute(sql, &[&row, &data, &sum])?;
                row
            }
            None => self.small(repo, TOOLSET, key, &data)?,
        };
        self.fresh.places.insert((repo, ObjectId::Toolset(id)), row);
        Ok(true)
    }
}

//! Moves refs and logs the moves.

use tract_core::{BatchId, LogNote, ObjectId, RefEdit, RefTarget, StoreErrorKind, StoreResult};

use crate::error::{damaged, new};
use crate::log::{self, Raw};
use crate::memory::{self, lock};
use crate::schema::{TEXT, log_base, ref_sum, text_key};
use crate::write::{OP, RefMove, Tx};

impl Tx<'_> {
    /// Returns the row of a text; inserts it if it is new.
    pub(crate) fn text(&mut self, repo: i64, text: &[u8]) -> StoreResult<i64> {
        memory::name_text(&mut self.text_name, repo, text);
        let remembered = || lock(self.memory).texts.get(self.text_name.as_slice()).copied();
        let fresh = self.fresh.texts.get(self.text_name.as_slice()).copied();
        if let Some(row) = fresh.or_else(remembered) {
            return Ok(row);
        }
        let row = match self.reader(repo).text_row(text)? {
            Some(row) => row,
            None => self.small(repo, TEXT, text_key(text), text)?,
        };
        self.fresh.texts.insert(Box::from(self.text_name.as_slice()), row);
        Ok(row)
    }

    fn log_target(&mut self, repo: i64, target: Option<&RefTarget>) -> StoreResult<(i64, i64)> {
        let Some(target) = target else { return Ok((log::NONE, 0)) };
        if let Some(object) = target.object() {
            let kind = match object {
                ObjectId::Commit(_) => log::COMMIT,
                _ => log::BLOB,
            };
            // Missing or damaged objects are logged by id instead of by row.
            match self.place(repo, object) {
                Ok(Some(row)) => return Ok((kind, row)),
                Ok(None) => {}
                Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((log::TARGET, self.text(repo, &target.encode())?))
    }

    /// Moves a ref if it has its expected target. Returns whether it did.
    pub(crate) fn swap_ref(
        &mut self,
        repo: i64,
        name: &str,
        before: &RefTarget,
        to: &RefTarget,
    ) -> StoreResult<bool> {
        let (before, to) = (before.encode(), to.encode());
        let (was, is) = (ref_sum(repo, name, &before), ref_sum(repo, name, &to));
        let sql = "UPDATE refs SET target = ?3, sum = ?4 \
                   WHERE repo = ?1 AND name = ?2 AND target = ?5 AND sum = ?6";
        Ok(self.execute(sql, &[&repo, &name, &to, &is, &before, &was])? == 1)
    }

    fn put_ref(&mut self, repo: i64, edit: &RefEdit, is_there: bool) -> StoreResult<()> {
        let name = edit.name.as_str();
        let Some(target) = edit.to.as_ref().map(RefTarget::encode) else {
            let sql = "DELETE FROM refs WHERE repo = ?1 AND name = ?2";
            return self.execute(sql, &[&repo, &name]).map(drop);
        };
        let sum = ref_sum(repo, name, &target);
        let sql = if is_there {
            "UPDATE refs SET target = ?3, sum = ?4 WHERE repo = ?1 AND name = ?2"
        } else {
            "INSERT INTO refs (repo, name, target, sum) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (repo, name) DO UPDATE SET target = ?3, sum = ?4"
        };
        self.execute(sql, &[&repo, &name, &target, &sum]).map(drop)
    }

    /// Moves a ref and logs the move.
    pub(crate) fn move_ref(
        &mut self,
        repo: i64,
        moved: RefMove<'_>,
        batch: BatchId,
        note: &LogNote,
    ) -> StoreResult<()> {
        let RefMove { edit, before, done } = moved;
        let name = edit.name.as_str();
        if !done {
            self.put_ref(repo, edit, before.is_some())?;
        }
        let (from_kind, from) = self.log_target(repo, before.as_ref())?;
        let (to_kind, to) = self.log_target(repo, edit.to.as_ref())?;
        let is_step = (from_kind, to_kind) == (log::COMMIT, log::COMMIT);
        let (mut id, mut sure) = self.next_entry(repo)?;
        let mut raw = Raw {
            id,
            name: self.text(repo, name.as_bytes())?,
            kinds: from_kind << 2 | to_kind,
            before: if is_step { to - from } else { from },
            after: to,
            batch: log::batch_numbers(batch),
            operation: Some(*note.operation.as_bytes()).filter(|bytes| bytes != batch.as_bytes()),
            what: self.text(repo, note.what.as_bytes())?,
            who: self.text(repo, note.who.as_bytes())?,
            why: note.why.as_ref().map(|why| self.text(repo, why.as_bytes())).transpose()?,
            undoes: note.undoes.map(|seq| seq as i64),
            at: note.at,
        };
        let operation = raw.operation;
        let operation = operation.as_ref().map(<[u8; 16]>::as_slice);
        let sql = "INSERT OR IGNORE INTO ref_log (id, ref, kinds, before, after, b1, b2, \
                   operation, what, who, why, undoes, at, sum) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        loop {
            raw.id = id;
            let written = self.execute(
                sql,
                &[
                    &raw.id,
                    &raw.name,
                    &raw.kinds,
                    &raw.before,
                    &raw.after,
                    &raw.batch.0,
                    &raw.batch.1,
                    &operation,
                    &raw.what,
                    &raw.who,
                    &raw.why,
                    &raw.undoes,
                    &raw.at,
                    &raw.sum(),
                ],
            )?;
            match (written, sure) {
                (1, _) => break,
                // The cached row was stale, because another process has written since.
                (_, false) => (id, sure) = (self.last_entry(repo)? + 1, true),
                (_, true) => {
                    return Err(damaged(OP, format!("entry {id} of the ref log is taken")));
                }
            }
        }
        if id >= log_base(repo + 1) {
            let message = "the ref log of the repository holds 1,099,511,627,775 entries";
            return Err(new(StoreErrorKind::TooLarge, OP, message));
        }
        self.fresh.next_entry.insert(repo, id + 1);
        if self.more_follow {
            self.fresh.refs.entry(repo).or_default().insert(edit.name.clone(), edit.to.clone());
        }
        Ok(())
    }

    /// Returns the row for the next entry, and whether it is certain.
    fn next_entry(&mut self, repo: i64) -> StoreResult<(i64, bool)> {
        if let Some(next) = self.fresh.next_entry.get(&repo) {
            return Ok((*next, true));
        }
        let guess = lock(self.memory).next_entry.get(&repo).copied();
        match guess {
            Some(next) => Ok((next, false)),
            None => Ok((self.last_entry(repo)? + 1, true)),
        }
    }

    fn last_entry(&mut self, repo: i64) -> StoreResult<i64> {
        let base = log_base(repo);
        let sql = "SELECT id FROM ref_log WHERE id > ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1";
        Ok(self.number(sql, &[&base, &log_base(repo + 1)])?.unwrap_or(base))
    }
}

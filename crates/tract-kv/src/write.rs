//! Applies batches. All checks come before the first staged write.

use std::collections::HashMap;

use super::compressed::value_of;
use super::erase;
use super::keys::{self, Indexed, Repo};
use super::known::KnownObjects;
use super::overlay::{Mark, Overlay};
use super::read::{self, View};
use super::recent::{Recent, Stored};
use super::value::{self, Segment, State, WriteCounts};
use super::{KvRead, Space};
use tract_core::batch::{Applied, Batch, ToolRow};
use tract_core::id::{BlobId, RepoName};
use tract_core::object::Blob;
use tract_core::refs::{Conflict, LogEntry, RefTarget};
use tract_core::store::{LogQuery, StoreError, StoreErrorKind, StoreResult};

/// Stages one batch on top of the staged ones. A rejected batch leaves no changes. Appends the
/// commits to be stored to `stored`.
pub(super) fn apply(
    overlay: &mut Overlay<'_>,
    backend: &'static str,
    recent: &Recent,
    repo: &RepoName,
    batch: &Batch,
    stored: &mut Vec<Stored>,
) -> StoreResult<Applied> {
    let mark = overlay.mark();
    let before = stored.len();
    let applied = stage(overlay, backend, recent, repo, batch, stored);
    if !matches!(applied, Ok((Applied::Done, true))) {
        overlay.roll_back(mark);
        stored.truncate(before);
    }
    applied.map(|(applied, _)| applied)
}

/// Stages a batch. The flag is true if it changes anything.
fn stage(
    overlay: &mut Overlay<'_>,
    backend: &'static str,
    recent: &Recent,
    name: &RepoName,
    batch: &Batch,
    stored: &mut Vec<Stored>,
) -> StoreResult<(Applied, bool)> {
    batch.check_refs(backend)?;
    let repo = open_repo(overlay, backend, name)?;
    let view = View { read: overlay, repo, backend };
    let writes = view.writes()?;
    let mut known = KnownObjects::new(recent, writes.sweeps);
    // If a batch was applied, all of its commits are stored, so a new commit rules that out.
    let is_new = match batch.commits.first() {
        Some(first) => known.commit(&view, first.id())?.is_none(),
        None => false,
    };
    // Before the refs are compared: a batch that is retried after an unknown outcome finds its refs
    // moved, by itself or by others since. That must not look like a conflict.
    let of_batch = LogQuery { batch: Some(batch.id), limit: 1, ..LogQuery::default() };
    if !is_new && !view.ref_log(&of_batch)?.is_empty() {
        return Ok((Applied::Already, false));
    }
    // Against the staged writes, so that an earlier batch of the group counts too. Opening the
    // repository has required its counters, so no other handle can write in between.
    if let Some(expected) = batch.position {
        let position = view.position()?;
        if position != expected {
            return Ok((Applied::Moved(position), false));
        }
    }
    let moves = match check_refs(&view, batch)? {
        Ok(moves) => moves,
        Err(conflict) => return Ok((Applied::Conflict(conflict), false)),
    };
    // After the refs: a conflict is the more useful answer, and the caller plans again anyway.
    known.check(&view, batch)?;
    let mut writer = Writer::new(overlay, repo, backend, stored)?;
    writer.objects(batch, known)?;
    let has_objects =
        !(batch.blobs.is_empty() && batch.commits.is_empty() && batch.toolsets.is_empty());
    // Garbage collection finds concurrent writes through the log. It has to notice those whose
    // objects no entry leads to.
    let is_unlogged = has_objects && (moves.is_empty() || batch.stores_ahead());
    if writer.wrote() && is_unlogged {
        let counted = WriteCounts { unlogged: writes.unlogged + 1, ..writes };
        writer.overlay.seal(Space::Small, repo.writes(), counted.encode());
    }
    let made = moves.iter().filter_map(|(n, _)| batch.refs.get(*n)).filter(|e| e.to.is_some());
    let erased: Vec<BlobId> = made.filter_map(|edit| edit.name.erased_blob()).collect();
    writer.moves(batch, moves);
    let wrote = writer.finish();
    if !erased.is_empty() {
        erase::erase(overlay, repo, backend, &erased)?;
    }
    Ok((Applied::Done, wrote))
}

/// Returns the number of a repository. Stages a new one if it does not exist.
pub(super) fn open_repo(
    overlay: &mut Overlay<'_>,
    backend: &'static str,
    name: &RepoName,
) -> StoreResult<Repo> {
    if let Some(repo) = read::repo_number(overlay, backend, name)? {
        // Places and log numbers are allocated from the counters. Requiring the counters makes a
        // second writer of the repository conflict instead of allocating the same ones.
        overlay.require(Space::Small, repo.state())?;
        return Ok(repo);
    }
    let number = match overlay.get(Space::Small, keys::NEXT_REPO)? {
        None => 1,
        Some(sealed) => {
            let number = value::open_number(keys::NEXT_REPO, &sealed);
            number.ok_or_else(|| read::damaged(backend, "apply", "the count of repositories"))?
        }
    };
    let next = number.checked_add(1).ok_or_else(|| full(backend, "repositories"))?;
    let repo = Repo(number);
    overlay.require(Space::Small, keys::NEXT_REPO.to_vec())?;
    overlay.seal(Space::Small, keys::NEXT_REPO.to_vec(), next.to_be_bytes().to_vec());
    overlay.seal(Space::Small, keys::repo_number(name), number.to_be_bytes().to_vec());
    overlay.seal(Space::Small, repo.state(), State::NEW.encode());
    Ok(repo)
}

fn full(backend: &'static str, what: &str) -> StoreError {
    let message = format!("expected at most {} {what}", u32::MAX);
    StoreError::new(StoreErrorKind::TooLarge, backend, "apply", message)
}

/// The previous targets of changed refs, by the index of the edit.
type PreviousTargets = Vec<(usize, Option<RefTarget>)>;

fn check_refs(view: &View<'_>, batch: &Batch) -> StoreResult<Result<PreviousTargets, Conflict>> {
    let mut moves = Vec::new();
    for (index, edit) in batch.refs.iter().enumerate() {
        let found = view.ref_target(&edit.name)?;
        if let Some(conflict) = edit.conflict(found.as_ref()) {
            return Ok(Err(conflict));
        }
        if found != edit.to {
            moves.push((index, found));
        }
    }
    Ok(Ok(moves))
}

/// Stages a row of the tool index, and its entry in the name index.
pub(super) fn put_tool(overlay: &mut Overlay<'_>, repo: Repo, row: &ToolRow) {
    overlay.seal(Space::Small, repo.tool(row.id, row.schema), value::encode_tool(row));
    overlay.add(Space::Small, repo.tool_name(&row.name, row.id));
}

/// Stages the changes of a checked batch.
pub(super) struct Writer<'w, 'a> {
    pub(super) overlay: &'w mut Overlay<'a>,
    repo: Repo,
    backend: &'static str,
    state: State,
    sweeps: u64,
    stored: &'w mut Vec<Stored>,
    /// The state of the overlay before the first change.
    start: Mark,
}

impl<'w, 'a> Writer<'w, 'a> {
    /// Creates a writer on top of the staged changes.
    pub(super) fn new(
        overlay: &'w mut Overlay<'a>,
        repo: Repo,
        backend: &'static str,
        stored: &'w mut Vec<Stored>,
    ) -> StoreResult<Self> {
        let view = View { read: &*overlay, repo, backend };
        let (state, sweeps) = (view.state()?, view.writes()?.sweeps);
        let start = overlay.mark();
        Ok(Self { overlay, repo, backend, state, sweeps, stored, start })
    }

    /// Returns whether anything was staged.
    pub(super) fn wrote(&self) -> bool {
        self.overlay.mark() != self.start
    }

    pub(super) fn view(&self) -> View<'_> {
        View { read: self.overlay, repo: self.repo, backend: self.backend }
    }

    fn objects(&mut self, batch: &Batch, mut known: KnownObjects<'_, '_>) -> StoreResult<()> {
        let bytes: HashMap<BlobId, &Blob> =
            known.new_blobs.iter().map(|blob| (blob.id(), *blob)).collect();
        // Parents first, because a commit takes the place after its parent. A history that arrives
        // in any order is then stored in one segment.
        for commit in batch.parents_first() {
            if known.commits.get(&commit.id()).is_some_and(Option::is_some) {
                continue;
            }
            let parent = commit.parent().and_then(|id| known.commits.get(&id).copied().flatten());
            let place = self.next_place(parent)?;
            known.commits.insert(commit.id(), Some(place));
            self.stored.push(((self.repo, self.sweeps), commit.id(), place));
            let content = match commit.content {
                None => None,
                Some(id) => match (known.blobs.get(&id).copied().flatten(), bytes.get(&id)) {
                    (None, Some(blob)) => {
                        // The content goes to the commit's own place, so that the contents of a
                        // history are next to each other too.
                        self.blob(blob, place);
                        known.blobs.insert(id, Some(place));
                        Some(place)
                    }
                    (stored, _) => stored,
                },
            };
            let value = value::commit_value(place, content, &commit.encode());
            self.overlay.put(Space::Commits, self.repo.numbered(place), value);
            let head = keys::head(commit.id().as_bytes());
            self.overlay.add(Space::Index, self.repo.index(Indexed::Commit, head, place));
        }
        for blob in &known.new_blobs {
            if known.blobs.get(&blob.id()).is_some_and(Option::is_none) {
                let place = self.next_loose_place()?;
                self.blob(blob, place);
                known.blobs.insert(blob.id(), Some(place));
            }
        }
        for toolset in &batch.toolsets {
            let key = self.repo.toolset(toolset.id());
            if self.overlay.get(Space::Small, &key)?.is_none() {
                self.overlay.put(Space::Small, key, toolset.encode().into());
            }
        }
        for row in &batch.tools {
            if self.overlay.get(Space::Small, &self.repo.tool(row.id, row.schema))?.is_none() {
                put_tool(self.overlay, self.repo, row);
            }
        }
        for row in &batch.derived {
            let Some(place) = known.commits.get(&row.commit).copied().flatten() else { continue };
            let key = self.repo.derived(row.kind, place);
            // An equal row is not staged: a batch that changes nothing must not move the counters.
            if self.overlay.get(Space::Small, &key)?.as_ref() != Some(&row.bytes) {
                self.overlay.put(Space::Small, key, row.bytes.clone());
            }
        }
        Ok(())
    }

    pub(super) fn blob(&mut self, blob: &Blob, place: u64) {
        self.overlay.put(Space::Blobs, self.repo.numbered(place), value_of(blob.bytes()));
        let head = keys::head(blob.id().as_bytes());
        self.overlay.add(Space::Index, self.repo.index(Indexed::Blob, head, place));
    }

    /// Allocates the place after the parent's if the parent is the tip of its segment; otherwise
    /// opens a segment. The write requires the repository's counters, so no other writer can
    /// allocate the same place.
    pub(super) fn next_place(&mut self, parent: Option<u64>) -> StoreResult<u64> {
        if let Some(parent) = parent {
            let (number, position) = (keys::segment_of(parent), keys::position_of(parent));
            let segment = self.view().segment(number)?;
            if let (Some(segment), Some(next)) = (segment, position.checked_add(1))
                && segment.tip == position
            {
                let value = Segment { tip: next, ..segment }.encode();
                self.overlay.seal(Space::Small, self.repo.segment(number), value);
                return Ok(keys::place(number, next));
            }
        }
        let number = self.open_segment()?;
        let value = Segment { tip: 0, parent }.encode();
        self.overlay.seal(Space::Small, self.repo.segment(number), value);
        Ok(keys::place(number, 0))
    }

    fn open_segment(&mut self) -> StoreResult<u32> {
        let number = self.state.next_segment;
        self.state.next_segment =
            number.checked_add(1).ok_or_else(|| full(self.backend, "segments"))?;
        Ok(number)
    }

    /// Allocates a place for a blob that is not the content of a commit.
    pub(super) fn next_loose_place(&mut self) -> StoreResult<u64> {
        if self.state.loose_segment == 0 || self.state.loose_position == u32::MAX {
            self.state.loose_segment = self.open_segment()?;
            self.state.loose_position = 0;
        }
        let place = keys::place(self.state.loose_segment, self.state.loose_position);
        self.state.loose_position += 1;
        Ok(place)
    }

    fn moves(&mut self, batch: &Batch, moves: PreviousTargets) {
        for (edit, before) in
            moves.into_iter().filter_map(|(n, was)| Some((batch.refs.get(n)?, was)))
        {
            let key = self.repo.ref_key(edit.name.as_str());
            match &edit.to {
                Some(target) => {
                    let mut value = Vec::with_capacity(48);
                    value::put_target(&mut value, Some(target));
                    self.overlay.seal(Space::Small, key, value);
                }
                None => self.overlay.delete(Space::Small, key),
            }
            let seq = self.state.next_seq;
            self.state.next_seq += 1;
            let entry = LogEntry {
                seq,
                name: edit.name.clone(),
                before,
                after: edit.to.clone(),
                batch: batch.id,
                note: batch.note.clone(),
            };
            self.overlay.seal(Space::Log, self.repo.numbered(seq), value::encode_move(&entry));
            let head = keys::head(batch.id.as_bytes());
            self.overlay.add(Space::Index, self.repo.index(Indexed::Batch, head, seq));
        }
    }

    /// Stages the counters if anything was staged. Returns whether it was.
    pub(super) fn finish(mut self) -> bool {
        if self.wrote() {
            // Planned writes require the counters, so this makes every concurrent write of the
            // repository conflict.
            self.state.generation += 1;
            self.overlay.seal(Space::Small, self.repo.state(), self.state.encode());
        }
        self.wrote()
    }
}

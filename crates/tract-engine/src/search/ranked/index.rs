//! The loaded part of the search index: locates the commits that some heads need, and indexes those
//! that are missing.

use std::collections::HashMap;

use tract_compile::{IdMap, IdSet};
use tract_core::store::{BlobKey, StoreError, StoreErrorKind, Walk};
use tract_core::{
    Change, Commit, CommitId, CommitRef, DerivedKind, ObjectId, Op, StoreExt as _, parallel,
};

use super::build::{Builder, FULL_COMMITS, is_shown, leads_of, marked, named_by};
use super::segment::{Effect, Ref, SPACING, Segment, SegmentPlace};
use super::state::{IndexState, is_conflict};
use super::wire::{Frame, unframe};
use super::words::WordCounts;
use super::{SearchOptions, join, store};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::repo::wire::Input;
use crate::search::grep::message_texts;

/// Segment number of the segment under construction.
const BUILDING: u32 = u32::MAX;
/// Number of commits that are read together.
const PAGE: usize = 1024;
/// Maximum size of the cache of places near a looked-up commit.
const MOST_NEAR: usize = 1 << 17;

/// The result of a walk back from a commit.
struct Walked {
    /// Commits that are not in the index, newest first.
    commits: Vec<Commit>,
    /// The place of the parent of the last of them; of the start itself if there are none.
    reached: Option<SegmentPlace>,
    /// The commit to continue from, if the walk hit its limit.
    next: Option<CommitId>,
}

pub(super) struct Index<'a> {
    pub(super) repo: &'a Repo,
    pub(super) segments: Vec<Segment>,
    /// The segments by the commit that describes them; `None` for an unusable segment.
    described: HashMap<CommitId, Option<u32>>,
    marks: IdMap<CommitId, SegmentPlace>,
    /// Cached places between marks. Without an entry, a lookup walks back to a mark.
    near: IdMap<CommitId, SegmentPlace>,
    builder: Builder,
    building: IdMap<CommitId, u32>,
    /// Commits that are missing or unreadable, so that they are not looked up again.
    absent: IdSet<CommitId>,
    options: &'a SearchOptions,
    /// Number of commits that were read because they were not in the index.
    pub(super) added: u64,
    /// Whether all writes since the state was read succeeded.
    writable: bool,
    /// Read before any row and any message, so that no write is based on rows newer than it.
    pub(super) state: IndexState,
    /// Whether index rows are used at all.
    uses_rows: bool,
}

impl<'a> Index<'a> {
    pub(super) fn new(repo: &'a Repo, options: &'a SearchOptions, state: IndexState) -> Self {
        Self {
            repo,
            segments: Vec::new(),
            described: HashMap::new(),
            marks: IdMap::default(),
            near: IdMap::default(),
            builder: Builder::new(),
            building: IdMap::default(),
            absent: IdSet::default(),
            options,
            added: 0,
            writable: true,
            state,
            uses_rows: true,
        }
    }

    /// Stops reading and writing rows; from now on everything is read from the commits.
    pub(super) fn without_rows(&mut self) {
        self.clear();
        (self.uses_rows, self.writable) = (false, false);
    }

    pub(super) fn uses_rows(&self) -> bool {
        self.uses_rows
    }

    pub(super) fn segment(&self, number: u32) -> Option<&Segment> {
        self.segments.get(number as usize)
    }

    /// Indexes all commits between these heads and the root that the index lacks, and stores them
    /// if there are enough of them. Afterwards [`place`](Self::place) locates all of them.
    pub(super) async fn add(&mut self, heads: &[CommitId]) -> Result<()> {
        let mut heads: Vec<CommitId> = heads.to_vec();
        heads.reverse();
        self.load_described(&heads).await?;
        // Depth first: commits that a commit refers to are indexed before it, so that it can refer
        // to them by place.
        while let Some(head) = heads.last().copied() {
            if self.known_place(head).is_some() || self.absent.contains(&head) {
                heads.pop();
                continue;
            }
            let walked = self.walk(head, FULL_COMMITS).await?;
            if let Some(next) = walked.next {
                if self.absent.contains(&next) {
                    return Err(Error::Missing(ObjectId::Commit(next)));
                }
                // The history is longer than a segment. Its older part is pushed onto the stack and
                // is indexed first, so that the commits of one segment are in memory at a time.
                heads.push(next);
                continue;
            }
            if walked.commits.is_empty() {
                heads.pop();
                continue;
            }
            let changes = self.changes(&walked.commits).await?;
            // The walked commits are read again after those. Keeping them would need memory for
            // each level of nested merges.
            let unknown = self.unknown(&walked.commits, &changes).await?;
            if !unknown.is_empty() {
                // The oldest comes first.
                heads.extend(unknown.into_iter().rev());
                continue;
            }
            self.add_run(walked, changes).await?;
            heads.pop();
        }
        let is_much = self.builder.len() as usize >= self.options.store_after.max(1)
            || self.builder.is_full();
        self.finish_segment(is_much).await?;
        if is_much && self.writable {
            self.writable = join::merge(self).await?;
        }
        Ok(())
    }

    /// Loads the segments of those commits that have marks, in one read.
    async fn load_described(&mut self, heads: &[CommitId]) -> Result<()> {
        if !self.uses_rows {
            return Ok(());
        }
        for ids in heads.chunks(PAGE) {
            let (repo, kind) = (self.repo, DerivedKind::SearchMark);
            let rows = repo.store().derived(repo.name(), kind, ids).await?;
            for (id, row) in ids.iter().zip(rows) {
                if let Some(row) = row
                    && self.known_place(*id).is_none()
                {
                    self.load_by_mark(*id, &row).await?;
                }
            }
        }
        Ok(())
    }

    /// Loads the segment that a commit's mark row refers to.
    async fn load_by_mark(&mut self, commit: CommitId, row: &[u8]) -> Result<()> {
        let Some((sort, number, body)) = unframe(commit, row) else { return Ok(()) };
        if sort == Frame::Segment as u8 {
            self.add_described(commit, number, body);
        } else if sort == Frame::Mark as u8
            && let Some(at) = Input(body).id()
            && !self.described.contains_key(&at)
        {
            let (repo, kind) = (self.repo, DerivedKind::SearchMark);
            let found = repo.store().derived(repo.name(), kind, &[at]).await?;
            match found.first().and_then(|row| unframe(at, row.as_ref()?)) {
                Some((sort, number, body)) if sort == Frame::Segment as u8 => {
                    self.add_described(at, number, body);
                }
                _ => {
                    self.described.insert(at, None);
                }
            }
        }
        Ok(())
    }

    fn add_described(&mut self, at: CommitId, number: u64, body: &[u8]) {
        if self.described.contains_key(&at) {
            return;
        }
        // Another client may have stored commits that this search has read itself, or joined
        // segments that are loaded here. Loading such a segment would count the commits twice.
        let fits =
            |segment: &Segment| segment.marks.iter().all(|(_, id)| self.known_place(*id).is_none());
        let description = self.state.unstamped(body);
        let segment = description.and_then(|body| Segment::decode(at, number, body)).filter(fits);
        let place = segment.is_some().then_some(self.segments.len() as u32);
        self.described.insert(at, place);
        if let Some(segment) = segment {
            self.take(segment);
        }
    }

    /// Adds a segment and returns its number.
    pub(super) fn take(&mut self, segment: Segment) -> u32 {
        let number = self.segments.len() as u32;
        for (position, id) in &segment.marks {
            self.marks.insert(*id, SegmentPlace { segment: number, position: *position });
        }
        self.segments.push(segment);
        number
    }

    pub(super) fn take_described(&mut self, segment: Segment) {
        let at = segment.at;
        let number = self.take(segment);
        if let Some(at) = at {
            self.described.insert(at, Some(number));
        }
    }

    /// Drops all loaded and built segments.
    pub(super) fn clear(&mut self) {
        let fresh = Self::new(self.repo, self.options, self.state.clone());
        let (added, writable, uses_rows) = (self.added, self.writable, self.uses_rows);
        *self = Self { added, writable, uses_rows, ..fresh };
    }

    /// Drops all loaded and built segments, and reads the position of the index again.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.clear();
        self.state = IndexState::read(self.repo).await?;
        self.writable = self.uses_rows;
        Ok(())
    }

    /// Returns whether the index is unchanged since it was read, so that damage is not a race.
    pub(super) async fn is_current(&self) -> Result<bool> {
        self.state.is_current(self.repo).await
    }

    /// Drops a segment with damaged or missing rows or commits, which is indexed again.
    pub(super) async fn refuse(&mut self, (at, number): (CommitId, u64)) -> Result<()> {
        let place = self.segments.iter().position(|s| s.at == Some(at) && s.number == number);
        let segment = place.map(|place| self.segments.swap_remove(place));
        let mut dropped = Ok(());
        if let Some(segment) = segment {
            dropped = store::drop_segment(self.repo, &mut self.state, &segment).await;
        }
        self.restart().await?;
        // If it cannot be dropped, for example in a read-only store, ignore it in this search.
        if dropped.is_err_and(|error| !is_conflict(&error)) {
            self.described.insert(at, None);
        }
        Ok(())
    }

    /// Drops all loaded segments, which are inconsistent; their commits are indexed again.
    pub(super) async fn drop_segments(&mut self) -> Result<()> {
        for segment in std::mem::take(&mut self.segments) {
            // If dropping fails, the segment turns up again, and the search finally ignores the
            // index.
            let _left_away = store::drop_segment(self.repo, &mut self.state, &segment).await;
        }
        self.restart().await
    }

    /// Returns whether a commit was looked up and is not stored.
    pub(super) fn is_absent(&self, commit: CommitId) -> bool {
        self.absent.contains(&commit)
    }

    fn known_place(&self, commit: CommitId) -> Option<SegmentPlace> {
        let building = self.building.get(&commit);
        let building = building.map(|at| SegmentPlace { segment: BUILDING, position: *at });
        let indexed = || self.marks.get(&commit).or_else(|| self.near.get(&commit)).copied();
        building.or_else(indexed)
    }

    /// Returns the place of a commit; `None` when it is not indexed.
    pub(super) async fn place(&mut self, commit: CommitId) -> Result<Option<SegmentPlace>> {
        if let Some(place) = self.known_place(commit) {
            return Ok(Some(place));
        }
        if self.absent.contains(&commit) {
            return Ok(None);
        }
        let walked = self.walk(commit, 2 * SPACING as usize).await?;
        Ok(walked.reached.filter(|_| walked.commits.is_empty()))
    }

    /// Returns the place that a reference of a segment resolves to, or the commit if that is not
    /// indexed.
    pub(super) async fn resolve(
        &mut self,
        segment: u32,
        named: Ref,
    ) -> Result<Result<SegmentPlace, CommitId>> {
        let (mark, before) = match named {
            Ref::Here(position) => return Ok(Ok(SegmentPlace { segment, position })),
            Ref::Elsewhere(mark, before) => (mark, before),
        };
        if let Some(place) = self.place(mark).await? {
            let segment = match place.segment {
                BUILDING => Some(self.builder.segment()),
                number => self.segment(number),
            };
            let run = segment.and_then(|segment| segment.runs.get(segment.run_of(place.position)?));
            let position = place.position.checked_sub(before);
            // In the segment that has the mark now, the run may start after the commit that is
            // meant.
            if let Some(position) = position
                && (before == 0 || run.is_some_and(|run| run.start <= position))
            {
                return Ok(Ok(SegmentPlace { position, ..place }));
            }
        }
        let commit = self.ancestor(mark, before).await?;
        Ok(self.place(commit).await?.ok_or(commit))
    }

    /// Returns the ancestor that is `before` commits before a commit.
    async fn ancestor(&self, commit: CommitId, before: u32) -> Result<CommitId> {
        let before = before as usize;
        let mut history = self.repo.history(commit).pages(before + 1, before + 1);
        for _ in 0..before {
            history.next().await?;
        }
        history.peek().ok_or_else(|| Error::Damaged {
            object: None,
            what: "a segment of the search index names a commit before the first".to_owned(),
        })
    }

    /// Returns a reference to a commit, for the segment under construction.
    fn name(&self, commit: CommitId) -> Ref {
        let place = self.known_place(commit).and_then(|place| self.name_of(place));
        place.unwrap_or(Ref::Elsewhere(commit, 0))
    }

    /// Returns a reference to a place, for the segment under construction.
    fn name_of(&self, SegmentPlace { segment, position }: SegmentPlace) -> Option<Ref> {
        if segment == BUILDING {
            return Some(Ref::Here(position));
        }
        // The last commit of a run is a mark, so a mark always follows.
        let (at, id) = self.segment(segment)?.mark_from(position)?;
        Some(Ref::Elsewhere(id, at - position))
    }

    /// Walks back from a commit to the first one that is in the index.
    async fn walk(&mut self, head: CommitId, most: usize) -> Result<Walked> {
        let mut commits: Vec<Commit> = Vec::new();
        // Not a `HistoryReader`: a loaded segment can change which commits are known, so the walk
        // has to look up each commit again where it left off.
        let mut next = Some(head);
        while let Some(from) = next {
            if let Some(place) = self.known_place(from) {
                return self.reached(commits, place).await;
            }
            if commits.len() >= most {
                return Ok(Walked { commits, reached: None, next: Some(from) });
            }
            // Just over `SPACING`: from an indexed commit, a page of this size reaches a mark.
            let limit =
                PAGE.min(most - commits.len()).min(if commits.is_empty() { 300 } else { PAGE });
            let stop_at = self.uses_rows.then_some(DerivedKind::SearchMark);
            let walk = Walk { limit, stop_at, ..Walk::from(from) };
            let page = self.repo.store().walk(self.repo.name(), walk).await;
            let page = match page {
                Ok(page) => page,
                Err(error) if is_missing(&error) && commits.is_empty() => {
                    self.absent.insert(head);
                    return Ok(Walked { commits: Vec::new(), reached: None, next: None });
                }
                Err(error) => return Err(error.into()),
            };
            next = page.next;
            for entry in page.entries {
                if let Some(place) = self.known_place(entry.commit.id()) {
                    return self.reached(commits, place).await;
                }
                commits.push(entry.commit);
            }
            if let Some((id, row)) = page.stopped {
                if self.known_place(id).is_none() {
                    self.load_by_mark(id, &row).await?;
                }
                next = Some(id);
                if self.known_place(id).is_none() {
                    // The mark's segment cannot be used: treat the commit as not indexed.
                    let commit = self.repo.store().require_commit(self.repo.name(), id).await?;
                    next = commit.parent();
                    commits.push(commit);
                }
            }
        }
        Ok(Walked { commits, reached: None, next: None })
    }

    /// Removes the commits of a walk that are in the indexed run that it reached. A walk stops at
    /// marks; the commits between two marks are indexed, but their ids are not kept.
    async fn reached(&mut self, mut commits: Vec<Commit>, at: SegmentPlace) -> Result<Walked> {
        let mut reached = at;
        // Usually one block. More of them if rows of marks were lost.
        while reached.segment != BUILDING && !commits.is_empty() {
            let block = self.commits_after(reached).await?;
            let whole = block.last().map(|(_, place)| *place);
            for (id, place) in block {
                if commits.last().is_none_or(|commit| commit.id() != id) {
                    break;
                }
                commits.pop();
                reached = place;
            }
            if whole != Some(reached) {
                break;
            }
        }
        Ok(Walked { commits, reached: Some(reached), next: None })
    }

    /// Returns the commits of a run after a place, up to the next mark, oldest first.
    async fn commits_after(&mut self, at: SegmentPlace) -> Result<Vec<(CommitId, SegmentPlace)>> {
        let Some(segment) = self.segment(at.segment) else { return Ok(Vec::new()) };
        let run = segment.run_of(at.position).and_then(|run| segment.runs.get(run));
        let end = run.map_or(0, |run| run.end());
        let Some((to, mark)) = segment.mark_from(at.position + 1).filter(|(to, _)| *to < end)
        else {
            return Ok(Vec::new());
        };
        let limit = (to - at.position) as usize;
        // The commits of another branch may have been deleted.
        let page = match self.repo.history(mark).pages(limit, limit).next_entries().await {
            Ok(page) => page.unwrap_or_default(),
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        self.make_room();
        let mut found = Vec::with_capacity(page.len());
        for (entry, position) in page.iter().rev().zip(at.position + 1..) {
            let place = SegmentPlace { position, ..at };
            self.near.insert(entry.commit.id(), place);
            found.push((entry.commit.id(), place));
        }
        Ok(found)
    }

    async fn changes(&self, commits: &[Commit]) -> Result<Vec<Vec<Change>>> {
        let mut all = Vec::with_capacity(commits.len());
        for commit in commits {
            all.push(match &commit.changes {
                tract_core::Changes::List(list) => list.clone(),
                tract_core::Changes::Blob(_) => self.repo.changes(commit).await?,
            });
        }
        Ok(all)
    }

    /// Returns the unindexed commits that these commits refer to and that have to be indexed first.
    /// All at once, so that a history is not walked again for each of its merges.
    async fn unknown(
        &mut self,
        commits: &[Commit],
        changes: &[Vec<Change>],
    ) -> Result<Vec<CommitId>> {
        let own: IdSet<CommitId> = commits.iter().map(Commit::id).collect();
        let (mut unknown, mut seen) = (Vec::new(), IdSet::default());
        for (commit, changes) in commits.iter().zip(changes).rev() {
            for named in named_by(commit, changes) {
                if own.contains(&named) || self.absent.contains(&named) || !seen.insert(named) {
                    continue;
                }
                if self.place(named).await?.is_none() && !self.absent.contains(&named) {
                    unknown.push(named);
                }
            }
        }
        Ok(unknown)
    }

    async fn add_run(&mut self, walked: Walked, mut changes: Vec<Vec<Change>>) -> Result<()> {
        let mut base = walked.reached.and_then(|place| self.name_of(place));
        self.builder.begin_run(base);
        let mut commits = walked.commits;
        commits.reverse();
        changes.reverse();
        for (commits, changes) in commits.chunks(PAGE).zip(changes.chunks(PAGE)) {
            let words = self.words(commits).await?;
            for (commit, changes) in commits.iter().zip(changes) {
                if self.builder.is_full() || !self.builder.takes(commit.kind.as_ref()) {
                    self.finish_segment(true).await?;
                    base = commit.parent().map(|parent| Ref::Elsewhere(parent, 0));
                    self.builder.begin_run(base);
                }
                let words = commit.content.and_then(|blob| words.get(&blob));
                let position = self.builder.push(commit, words);
                // Before its effects are added: a commit may refer to itself.
                self.building.insert(commit.id(), position);
                self.add_effects(commit, changes, position).await?;
            }
            self.added += commits.len() as u64;
            if let Some(progress) = &self.options.progress {
                progress.call(self.added);
            }
        }
        self.builder.end_run();
        Ok(())
    }

    /// Counts the words of the contents of some commits. Erased contents are left out.
    async fn words(&self, commits: &[Commit]) -> Result<IdMap<tract_core::BlobId, WordCounts>> {
        let mut wanted = IdMap::default();
        for commit in commits {
            if let (Some(kind), Some(blob)) = (&commit.kind, commit.content) {
                // Equal contents are read and counted once.
                wanted.entry(blob).or_insert(kind);
            }
        }
        let wanted: Vec<(tract_core::BlobId, &tract_core::Kind)> = wanted.into_iter().collect();
        let keys: Vec<BlobKey> = wanted.iter().map(|(blob, _)| (*blob).into()).collect();
        let blobs = self.repo.blobs_or_erased(&keys).await?;
        let stored = wanted.into_iter().zip(blobs);
        let stored: Vec<_> =
            stored.filter_map(|((id, kind), blob)| Some((id, kind, blob?))).collect();
        let counted = parallel::map(&stored, 32, |(id, kind, blob)| {
            let texts = message_texts(kind, &String::from_utf8_lossy(blob.bytes()));
            (*id, WordCounts::of(texts.iter().map(|text| text.text.as_str())))
        });
        Ok(counted.into_iter().collect())
    }

    async fn add_effects(
        &mut self,
        commit: &Commit,
        changes: &[Change],
        position: u32,
    ) -> Result<()> {
        let id = |this: CommitRef| this.resolve(commit.id());
        for named in leads_of(commit) {
            self.builder.add_effect(position, Effect::Leads { to: self.name(named) });
        }
        if let Op::Append { slot: Some(slot), priority, .. } = &commit.op {
            let (slot, version) = (self.name(*slot), Ref::Here(position));
            let shown = priority.map(is_shown);
            self.builder.add_effect(position, Effect::Add { slot, version, shown });
        }
        for change in changes {
            let slot = self.name(id(change.slot()));
            let effect = match *change {
                Change::Add { row, .. } => {
                    let shown = self.shown_by(commit, row.mark.map(id)).await?;
                    Effect::Add { slot, version: self.name(id(row.version)), shown }
                }
                Change::Remove { .. } => Effect::Remove { slot },
                Change::Version { to, .. } => Effect::Version { slot, to: self.name(id(to)) },
                Change::Mark { to, .. } => {
                    Effect::Mark { slot, shown: self.shown_by(commit, to.map(id)).await? }
                }
            };
            self.builder.add_effect(position, effect);
        }
        Ok(())
    }

    async fn shown_by(&self, commit: &Commit, mark: Option<CommitId>) -> Result<Option<bool>> {
        match mark {
            None => Ok(None),
            Some(mark) if mark == commit.id() => Ok(marked(commit)),
            Some(mark) => {
                let found = self.repo.store().commit(self.repo.name(), mark).await?;
                Ok(found.as_ref().and_then(marked))
            }
        }
    }

    /// Turns the commits read so far into a segment, and stores it if `kept`.
    async fn finish_segment(&mut self, kept: bool) -> Result<()> {
        let built = std::mem::replace(&mut self.builder, Builder::new()).finish();
        let positions = std::mem::take(&mut self.building);
        if built.len() == 0 {
            return Ok(());
        }
        let mut segment = built;
        if kept && self.writable {
            (segment, self.writable) = store::store(self.repo, &mut self.state, segment).await?;
        }
        let number = self.segments.len() as u32;
        self.take_described(segment);
        let segment = number;
        self.make_room();
        let places = positions.into_iter();
        self.near.extend(places.map(|(id, position)| (id, SegmentPlace { segment, position })));
        Ok(())
    }

    fn make_room(&mut self) {
        if self.near.len() > MOST_NEAR {
            self.near.clear();
        }
    }
}

pub(super) fn is_missing(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Missing { .. })
}

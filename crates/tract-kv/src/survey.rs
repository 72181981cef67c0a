//! Reads a whole repository: objects by place, compared with the indexes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use bytes::Bytes;

use super::compressed::StoredValue;
use super::keys::{self, Indexed, Repo};
use super::read::{StoredCommit, View, any_commit, collect, each};
use super::value::{self, Segment};
use super::{Scan, Space};
use tract_core::commit::Commit;
use tract_core::id::{BlobId, CommitId, ToolId, ToolsetId};
use tract_core::object::{Blob, ObjectId, Toolset};
use tract_core::parallel;
use tract_core::refs::RefTarget;
use tract_core::schema::ToolSchema;
use tract_core::store::{Damage, SeenCommit, StoreError, StoreResult, ToolsInForce};

/// Number of objects decoded and hashed before their results are recorded.
const BATCH: usize = 8192;
/// Bytes read for one thread at a time, unless a single object is larger.
const PORTION_BYTES: usize = 1 << 20;

/// An object at its place. Half of its id identifies it, which saves memory for millions of
/// objects: this finds wrong places, not forgeries.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurveyedObject {
    pub(super) place: u64,
    pub(super) head: IdHead,
}

/// The first half of an id.
pub(super) type IdHead = [u8; 16];

pub(super) fn id_head(id: &[u8; 32]) -> IdHead {
    id.first_chunk().copied().unwrap_or_default()
}

/// A commit whose row has the wrong place for its content, or a place although it has no content.
pub(super) struct WrongContent {
    pub(super) place: u64,
    pub(super) commit: CommitId,
    pub(super) content: Option<BlobId>,
    /// Whether the place contains another blob.
    pub(super) is_other: bool,
}

/// A segment, as derived from its commits.
pub(super) struct SurveyedSegment {
    pub(super) number: u32,
    pub(super) tip: u32,
    /// The first parent of its first commit.
    pub(super) parent: Option<CommitId>,
}

/// The contents of a repository, read completely and hashed.
#[derive(Default)]
pub(super) struct Survey {
    /// Sorted by place, as are all lists below.
    pub(super) commits: Vec<SurveyedObject>,
    /// Places of unreadable records.
    pub(super) broken: Vec<u64>,
    pub(super) blobs: Vec<SurveyedObject>,
    pub(super) segments: Vec<SurveyedSegment>,
    /// Commits whose first parent is not directly before them.
    pub(super) misplaced: Vec<(u64, CommitId)>,
    /// Commits with a parent that is not directly before them.
    pub(super) parents: Vec<(CommitId, CommitId)>,
    pub(super) contents: Vec<WrongContent>,
    pub(super) toolsets: HashMap<ToolsetId, Toolset>,
    /// Each tool and schema, with the time and id of the first commit that has it in force.
    pub(super) tools: BTreeMap<(ToolId, BlobId), (i64, CommitId)>,
    /// The existing commits that the tool index names, with their toolsets.
    pub(super) sighted: HashMap<CommitId, Option<ToolsetId>>,
}

/// A wrong or missing index entry.
pub(super) struct IndexMismatch {
    pub(super) kind: Indexed,
    pub(super) place: u64,
    /// The wrong entry.
    pub(super) found: Option<[u8; 8]>,
    /// The correct entry.
    pub(super) expected: Option<[u8; 8]>,
    object: Option<ObjectId>,
    /// Whether the object is damaged instead of the index. Repair must not change it.
    pub(super) bytes: bool,
}

pub(super) fn derived(object: Option<ObjectId>, what: impl Into<String>) -> Damage {
    Damage { object, what: what.into(), derived: true }
}

pub(super) fn lost(object: Option<ObjectId>, what: impl Into<String>) -> Damage {
    Damage { object, what: what.into(), derived: false }
}

pub(super) fn place_text(place: u64) -> String {
    format!("place {}.{}", keys::segment_of(place), keys::position_of(place))
}

/// A difference between an index and the object at a place.
struct RawIndexMismatch {
    place: u64,
    /// The wrong entry, if there is one.
    found: Option<[u8; 8]>,
    expected: Option<[u8; 8]>,
    /// Whether the index has no entry for the place, or the record is unreadable.
    is_lacking: bool,
}

impl View<'_> {
    /// Reads the whole repository.
    pub(super) fn survey(&self, damage: &mut Vec<Damage>) -> StoreResult<Survey> {
        let mut survey = Survey::default();
        self.each_place(
            Space::Blobs,
            |_, stored| {
                let plain = stored.plain();
                // Data that cannot be decompressed is hashed as stored, so it matches no blob, like
                // other damage.
                let bytes = plain.as_deref().unwrap_or(stored.stored());
                id_head(tract_core::hash::blob(bytes).as_bytes())
            },
            |place, head| survey.blobs.push(SurveyedObject { place, head }),
        )?;
        let sighted: HashSet<CommitId> =
            collect(self.read, &self.repo.tools(&[]), |key, sealed| {
                Some(value::open_tool(key, sealed)?.commit)
            })?;
        let read = |id| self.commit(id).ok().flatten().map(|stored| stored.commit);
        let mut tools = ToolsInForce::new(&read);
        let mut before = None;
        self.each_place(
            Space::Commits,
            |place, value| any_commit(place, value.stored()),
            |place, opened| {
                let number = keys::segment_of(place);
                if survey.segments.last().is_none_or(|segment| segment.number != number) {
                    survey.segments.push(SurveyedSegment { number, tip: 0, parent: None });
                }
                if let Some(segment) = survey.segments.last_mut() {
                    segment.tip = segment.tip.max(keys::position_of(place));
                }
                let Some(StoredCommit { content, commit, .. }) = opened else {
                    survey.broken.push(place);
                    return;
                };
                if sighted.contains(&commit.id()) {
                    survey.sighted.insert(commit.id(), commit.toolset);
                }
                before = Some(survey.take(place, content, commit, before.take(), &mut tools));
            },
        )?;
        let skip = self.repo.toolsets(&[]).from.len();
        each(self.read, &self.repo.toolsets(&[]), |key, bytes| {
            let id = key.get(skip..).and_then(|id| id.try_into().ok()).map(ToolsetId::from_bytes);
            let Some(id) = id else { return Ok(()) };
            match Toolset::decode(id, bytes) {
                Some(toolset) => drop(survey.toolsets.insert(id, toolset)),
                None => damage.push(lost(
                    Some(ObjectId::Toolset(id)),
                    "the toolset's stored bytes do not hash to its id",
                )),
            }
            Ok(())
        })?;
        survey.tools = tools.into_changes().first(&survey.toolsets);
        Ok(survey)
    }

    /// Reads all entries of a space in order. `decode` runs on several threads.
    fn each_place<R: Send>(
        &self,
        space: Space,
        decode: impl Fn(u64, &StoredValue) -> R + Sync,
        mut take: impl FnMut(u64, R),
    ) -> StoreResult<()> {
        let mut scan = Some(self.repo.all(space));
        loop {
            let mut read = 0;
            let next = || {
                let portion = if read < BATCH { self.portion(&mut scan)? } else { Vec::new() };
                read += portion.len();
                Ok::<_, StoreError>((!portion.is_empty()).then_some(portion))
            };
            let decode = |portion: Vec<(u64, StoredValue)>| {
                portion.iter().map(|(place, value)| (*place, decode(*place, value))).collect()
            };
            let decoded = parallel::map_read(BATCH, parallel::OBJECTS, next, decode)?;
            if decoded.is_empty() {
                return Ok(());
            }
            decoded.into_iter().for_each(|(place, decoded)| take(place, decoded));
        }
    }

    /// Reads the next values of a scan. `rest` becomes the remaining scan.
    fn portion(&self, rest: &mut Option<Scan>) -> StoreResult<Vec<(u64, StoredValue)>> {
        let Some(mut scan) = rest.take() else { return Ok(Vec::new()) };
        let (mut values, mut bytes) = (Vec::with_capacity(parallel::PORTION), 0);
        let mut last = None;
        self.read.scan(&scan, &mut |key, value| {
            let number = Repo::number(key).unwrap_or_default();
            let value_bytes = Bytes::copy_from_slice(value);
            values.push((
                number,
                match scan.space {
                    Space::Blobs => self.stored(value_bytes)?,
                    _ => StoredValue::as_it_is(value_bytes),
                },
            ));
            bytes += value.len();
            if values.len() < parallel::PORTION && bytes < PORTION_BYTES {
                return Ok(ControlFlow::Continue(()));
            }
            last = Some(key.to_vec());
            Ok(ControlFlow::Break(()))
        })?;
        if let Some(mut last) = last {
            // Appending a zero byte gives the smallest key after the last one.
            last.push(0);
            scan.from = last;
            *rest = Some(scan);
        }
        Ok(values)
    }

    /// Compares the indexes with the objects at their places.
    pub(super) fn misfits(&self, survey: &Survey) -> StoreResult<Vec<IndexMismatch>> {
        let mut misfits =
            self.misfits_of(Indexed::Commit, &survey.commits, &survey.broken, survey)?;
        misfits.extend(self.misfits_of(Indexed::Blob, &survey.blobs, &[], survey)?);
        Ok(misfits)
    }

    fn misfits_of(
        &self,
        kind: Indexed,
        objects: &[SurveyedObject],
        broken: &[u64],
        survey: &Survey,
    ) -> StoreResult<Vec<IndexMismatch>> {
        let mut entries: Vec<(u64, [u8; 8])> = Vec::with_capacity(objects.len());
        each(self.read, &self.repo.indexed(kind, &[]), |key, _| {
            entries.extend(Repo::index_parts(key).map(|(head, place)| (place, head)));
            Ok(())
        })?;
        entries.sort_unstable();
        let found = raw_misfits(objects, broken, &entries);
        if found.is_empty() {
            return Ok(Vec::new());
        }
        // Resolve names and links only now, since most checks find no mismatch.
        drop(entries);
        let heads: HashSet<[u8; 8]> =
            found.iter().flat_map(|raw| [raw.found, raw.expected]).flatten().collect();
        let stored: HashSet<[u8; 8]> = objects
            .iter()
            .map(|object| keys::head(&object.head))
            .filter(|head| heads.contains(head))
            .collect();
        let links = self.links_to(kind, &heads, survey)?;
        let named = |head: Option<[u8; 8]>| head.and_then(|head| links.get(&head).copied());
        found
            .into_iter()
            .map(|RawIndexMismatch { place, found, expected, is_lacking }| {
                let object = match expected {
                    Some(_) => self.object_at(kind, place)?,
                    None => None,
                };
                let (found, object, bytes) = match (is_lacking, expected) {
                    (true, _) => (None, object.or(named(found)), expected.is_none()),
                    (false, None) => (found, named(found), named(found).is_some()),
                    // If something links to the indexed id and that is stored nowhere, the bytes
                    // are damaged. If something links to the object here, the index is wrong.
                    (false, Some(_)) => {
                        let is_stored = found.is_some_and(|head| stored.contains(&head));
                        let is_lost = named(found).is_some() && !is_stored;
                        let bytes = is_lost || named(expected).is_none();
                        (found, if bytes { named(found) } else { object }, bytes)
                    }
                };
                Ok(IndexMismatch { kind, place, found, expected, object, bytes })
            })
            .collect()
    }

    /// Finds linked objects with these prefixes, so that damage can be reported with an id.
    fn links_to(
        &self,
        kind: Indexed,
        heads: &HashSet<[u8; 8]>,
        survey: &Survey,
    ) -> StoreResult<HashMap<[u8; 8], ObjectId>> {
        let mut links = HashMap::new();
        let mut link = |object: ObjectId| {
            let is_kind = match object {
                ObjectId::Commit(_) => kind == Indexed::Commit,
                ObjectId::Blob(_) => kind == Indexed::Blob,
                ObjectId::Toolset(_) | ObjectId::Tool(_) => false,
            };
            let head = keys::head(object.as_bytes());
            if is_kind && heads.contains(&head) {
                links.insert(head, object);
            }
        };
        each(self.read, &self.repo.all(Space::Commits), |key, value| {
            let place = Repo::number(key).unwrap_or_default();
            if let Some(StoredCommit { commit, .. }) = any_commit(place, value) {
                commit.links().for_each(&mut link);
            }
            Ok(())
        })?;
        let entries = survey.toolsets.values().flat_map(Toolset::entries);
        entries.for_each(|entry| link(ObjectId::Blob(entry.schema)));
        // Damaged refs are reported separately.
        for (_, target) in self.list_refs("").unwrap_or_default() {
            match target {
                RefTarget::Commit(id) => link(ObjectId::Commit(id)),
                RefTarget::Blob(id) => link(ObjectId::Blob(id)),
                RefTarget::Ref(_) => {}
            }
        }
        Ok(links)
    }
}

/// Compares the places of objects and unreadable records with the entries of an index. All lists
/// are sorted.
fn raw_misfits(
    objects: &[SurveyedObject],
    broken: &[u64],
    entries: &[(u64, [u8; 8])],
) -> Vec<RawIndexMismatch> {
    let mut found = Vec::new();
    let mut rest = entries;
    let mut broken = broken.iter().copied().peekable();
    let mut objects = objects.iter().peekable();
    loop {
        let (place, expected) = match (objects.peek(), broken.peek()) {
            (Some(object), Some(place)) if *place < object.place => (*place, None),
            (Some(object), _) => (object.place, Some(keys::head(&object.head))),
            (None, Some(place)) => (*place, None),
            (None, None) => break,
        };
        match expected {
            Some(_) => drop(objects.next()),
            None => drop(broken.next()),
        }
        let (nowhere, after) =
            rest.split_at(rest.partition_point(|(at, _)| *at < place).min(rest.len()));
        let (here, after) = after.split_at(after.iter().take_while(|(at, _)| *at == place).count());
        rest = after;
        found.extend(nowhere.iter().map(indexed_nowhere));
        if here.is_empty() || expected.is_none() {
            let found_here = here.first().map(|(_, head)| *head);
            found.push(RawIndexMismatch { place, found: found_here, expected, is_lacking: true });
            continue;
        }
        for (_, head) in here.iter().filter(|(_, head)| Some(*head) != expected) {
            found.push(RawIndexMismatch { place, found: Some(*head), expected, is_lacking: false });
        }
    }
    found.extend(rest.iter().map(indexed_nowhere));
    found
}

fn indexed_nowhere((place, head): &(u64, [u8; 8])) -> RawIndexMismatch {
    RawIndexMismatch { place: *place, found: Some(*head), expected: None, is_lacking: false }
}

/// Returns the tool name in a schema: `function.name`, else `name`, else empty.
pub(super) fn tool_name(schema: &Blob) -> String {
    let parsed = schema.text().and_then(|text| ToolSchema::parse(text).ok());
    parsed.map(|schema| schema.name().to_owned()).unwrap_or_default()
}

impl IndexMismatch {
    pub(super) fn damage(&self) -> Damage {
        let at = place_text(self.place);
        match (self.bytes, self.found, self.expected) {
            (true, Some(_), None) => lost(self.object, format!("{at}: indexed, but not stored")),
            (true, _, _) => lost(self.object, format!("{at}: stored bytes are damaged")),
            (false, None, _) => derived(self.object, format!("{at}: not in the index")),
            (false, Some(_), None) => {
                derived(self.object, format!("{at}: indexed, but nothing is there"))
            }
            (false, Some(_), Some(_)) => {
                derived(self.object, format!("{at}: indexed under a wrong id"))
            }
        }
    }
}

impl Survey {
    /// Records a commit. `before` is the previous readable commit with its place.
    fn take(
        &mut self,
        place: u64,
        content: Option<u64>,
        commit: Commit,
        before: Option<(u64, SeenCommit)>,
        tools: &mut ToolsInForce<'_>,
    ) -> (u64, SeenCommit) {
        let id = commit.id();
        let near = before.filter(|(at, _)| at + 1 == place).map(|(_, near)| near);
        let is_first = keys::position_of(place) == 0;
        if is_first && let Some(segment) = self.segments.last_mut() {
            segment.parent = commit.parent();
        }
        let follows_broken = self.broken.last().is_some_and(|broken| broken + 1 == place);
        let follows = near.is_some_and(|near| Some(near.id) == commit.parent());
        if !is_first && !follows_broken && !follows {
            self.misplaced.push((place, id));
        }
        let is_near = |parent: &CommitId| near.is_some_and(|near| near.id == *parent);
        let others = commit.parents.iter().filter(|parent| !is_near(parent));
        self.parents.extend(others.map(|parent| (id, *parent)));
        let there = content.and_then(|at| find(&self.blobs, at));
        let is_right = match (commit.content, content) {
            (None, None) => true,
            (Some(content), Some(_)) => {
                there.is_some_and(|blob| blob.head == id_head(content.as_bytes()))
            }
            _ => false,
        };
        if !is_right {
            let is_other = commit.content.is_some() && there.is_some();
            let content = commit.content;
            self.contents.push(WrongContent { place, commit: id, content, is_other });
        }
        self.commits.push(SurveyedObject { place, head: id_head(id.as_bytes()) });
        (place, tools.see(&commit, near))
    }

    pub(super) fn has_commit(&self, place: u64) -> bool {
        find(&self.commits, place).is_some()
    }

    /// Returns the places of blobs.
    pub(super) fn places_of(
        &self,
        blobs: impl IntoIterator<Item = BlobId>,
    ) -> HashMap<BlobId, u64> {
        let wanted: HashMap<IdHead, BlobId> =
            blobs.into_iter().map(|id| (id_head(id.as_bytes()), id)).collect();
        if wanted.is_empty() {
            return HashMap::new();
        }
        let place = |blob: &SurveyedObject| Some((*wanted.get(&blob.head)?, blob.place));
        self.blobs.iter().filter_map(place).collect()
    }

    /// Returns the expected row of each segment, and whether its parent is stored; true if it has
    /// none.
    pub(super) fn expected_segments(&self) -> Vec<(u32, Segment, bool)> {
        let mut wanted: HashMap<IdHead, Option<u64>> = HashMap::new();
        let parents = self.segments.iter().filter_map(|segment| segment.parent);
        wanted.extend(parents.map(|id| (id_head(id.as_bytes()), None)));
        if !wanted.is_empty() {
            for commit in &self.commits {
                if let Some(place) = wanted.get_mut(&commit.head) {
                    *place = Some(commit.place);
                }
            }
        }
        let expected = |segment: &SurveyedSegment| {
            let parent =
                segment.parent.map(|id| wanted.get(&id_head(id.as_bytes())).copied().flatten());
            let row = Segment { tip: segment.tip, parent: parent.flatten() };
            (segment.number, row, parent.is_none_or(|parent| parent.is_some()))
        };
        self.segments.iter().map(expected).collect()
    }
}

/// Finds the object at a place.
fn find(objects: &[SurveyedObject], place: u64) -> Option<&SurveyedObject> {
    let found = objects.binary_search_by_key(&place, |object| object.place).ok();
    found.and_then(|found| objects.get(found))
}

//! Reading a repository from end to end: objects by place, compared with the indexes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use super::Space;
use super::keys::{self, Indexed, Repo};
use super::read::View;
use super::value::{self, Segment};
use tract_core::commit::Commit;
use tract_core::id::{BlobId, CommitId, ToolId, ToolsetId};
use tract_core::object::{Blob, ObjectId, Toolset};
use tract_core::refs::RefTarget;
use tract_core::schema::ToolSchema;
use tract_core::store::{Damage, StoreResult};

/// A commit as it lies there.
pub(super) struct SurveyedCommit {
    pub(super) commit: Commit,
    pub(super) content: Option<u64>,
}

/// All that a repository holds, read from end to end and hashed.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) commits: BTreeMap<u64, SurveyedCommit>,
    /// Places whose record cannot be read.
    pub(super) broken: Vec<u64>,
    pub(super) blobs: BTreeMap<u64, BlobId>,
    pub(super) toolsets: HashMap<ToolsetId, Toolset>,
    /// Prefixes of what something links to, so that damage has a name.
    links: HashMap<(Indexed, [u8; 8]), ObjectId>,
}

/// One entry of an index, or a lack of one.
pub(super) struct Misfit {
    pub(super) kind: Indexed,
    pub(super) place: u64,
    /// The entry that is there and wrong.
    pub(super) found: Option<[u8; 8]>,
    /// The entry that should be there.
    pub(super) expected: Option<[u8; 8]>,
    object: Option<ObjectId>,
    /// The object is damaged, not the index.
    bytes: bool,
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

impl View<'_> {
    /// Reads everything.
    pub(super) fn survey(&self, damage: &mut Vec<Damage>) -> StoreResult<Survey> {
        let mut survey = Survey::default();
        self.read.scan(&self.repo.all(Space::Commits), &mut |key, value| {
            let place = Repo::number(key).unwrap_or_default();
            let opened = value::split_commit(place, value)
                .and_then(|(content, record)| Some((content, Commit::decode_any(record).ok()?)));
            match opened {
                Some((content, commit)) => {
                    survey.links_of(&commit);
                    survey.commits.insert(place, SurveyedCommit { commit, content });
                }
                None => survey.broken.push(place),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.read.scan(&self.repo.all(Space::Blobs), &mut |key, bytes| {
            survey
                .blobs
                .insert(Repo::number(key).unwrap_or_default(), tract_core::hash::blob(bytes));
            Ok(ControlFlow::Continue(()))
        })?;
        let skip = self.repo.toolsets(&[]).from.len();
        self.read.scan(&self.repo.toolsets(&[]), &mut |key, bytes| {
            let id = key.get(skip..).and_then(|id| id.try_into().ok()).map(ToolsetId::from_bytes);
            let Some(id) = id else { return Ok(ControlFlow::Continue(())) };
            match Toolset::decode(id, bytes) {
                Some(toolset) => {
                    for entry in toolset.entries() {
                        survey.link(ObjectId::Blob(entry.schema));
                    }
                    survey.toolsets.insert(id, toolset);
                }
                None => damage.push(lost(
                    Some(ObjectId::Toolset(id)),
                    "the toolset's stored bytes do not hash to its id",
                )),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // Damaged refs are reported by their own check.
        for (_, target) in self.list_refs("").unwrap_or_default() {
            match target {
                RefTarget::Commit(id) => survey.link(ObjectId::Commit(id)),
                RefTarget::Blob(id) => survey.link(ObjectId::Blob(id)),
                RefTarget::Ref(_) => {}
            }
        }
        Ok(survey)
    }

    /// Compares the indexes with what lies at the places.
    pub(super) fn misfits(&self, survey: &Survey) -> StoreResult<Vec<Misfit>> {
        let mut misfits = Vec::new();
        for kind in [Indexed::Commit, Indexed::Blob] {
            let mut entries: BTreeMap<u64, Vec<[u8; 8]>> = BTreeMap::new();
            self.read.scan(&self.repo.whole_index(kind), &mut |key, _| {
                if let Some((head, place)) = Repo::index_parts(key) {
                    entries.entry(place).or_default().push(head);
                }
                Ok(ControlFlow::Continue(()))
            })?;
            let stored: BTreeMap<u64, Option<ObjectId>> = match kind {
                Indexed::Commit => {
                    let whole = survey
                        .commits
                        .iter()
                        .map(|(place, seen)| (*place, Some(ObjectId::Commit(seen.commit.id()))));
                    whole.chain(survey.broken.iter().map(|place| (*place, None))).collect()
                }
                _ => survey.blobs.iter().map(|(at, id)| (*at, Some(ObjectId::Blob(*id)))).collect(),
            };
            let heads: HashSet<[u8; 8]> =
                stored.values().flatten().map(|object| keys::head(object.as_bytes())).collect();
            for (place, object) in &stored {
                let indexed = entries.remove(place).unwrap_or_default();
                let expected = object.map(|object| keys::head(object.as_bytes()));
                if indexed.is_empty() || expected.is_none() {
                    let named = indexed.first().and_then(|head| survey.links.get(&(kind, *head)));
                    let (object, bytes) = (object.or(named.copied()), expected.is_none());
                    misfits.push(Misfit {
                        kind,
                        place: *place,
                        found: None,
                        expected,
                        object,
                        bytes,
                    });
                    continue;
                }
                for head in indexed.into_iter().filter(|head| Some(*head) != expected) {
                    // Something links to what the index says, and it is nowhere: the bytes are
                    // wrong. Something links to what lies here: the index is.
                    let named = survey.links.get(&(kind, head)).copied();
                    let is_lost = named.is_some() && !heads.contains(&head);
                    let is_linked = expected
                        .is_some_and(|expected| survey.links.contains_key(&(kind, expected)));
                    let bytes = is_lost || !is_linked;
                    let object = if bytes { named } else { *object };
                    let (place, found) = (*place, Some(head));
                    misfits.push(Misfit { kind, place, found, expected, object, bytes });
                }
            }
            for (place, heads) in entries {
                for head in heads {
                    let object = survey.links.get(&(kind, head)).copied();
                    let (found, bytes) = (Some(head), object.is_some());
                    misfits.push(Misfit { kind, place, found, expected: None, object, bytes });
                }
            }
        }
        Ok(misfits)
    }
}

/// Returns the name in a schema: `function.name`, else `name`, else empty.
pub(super) fn tool_name(schema: &Blob) -> String {
    let parsed = schema.text().and_then(|text| ToolSchema::parse(text).ok());
    parsed.map(|schema| schema.name().to_owned()).unwrap_or_default()
}

impl Misfit {
    /// Whether repair may change the index here.
    pub(super) fn is_derived(&self) -> bool {
        !self.bytes
    }

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
    fn link(&mut self, object: ObjectId) {
        let kind = match object {
            ObjectId::Commit(_) => Indexed::Commit,
            ObjectId::Blob(_) => Indexed::Blob,
            ObjectId::Toolset(_) | ObjectId::Tool(_) => return,
        };
        self.links.insert((kind, keys::head(object.as_bytes())), object);
    }

    fn links_of(&mut self, commit: &Commit) {
        commit.parents.iter().for_each(|parent| self.link(ObjectId::Commit(*parent)));
        commit.linked_blobs().for_each(|blob| self.link(ObjectId::Blob(blob)));
    }

    pub(super) fn places(&self) -> HashMap<CommitId, u64> {
        self.commits.iter().map(|(place, seen)| (seen.commit.id(), *place)).collect()
    }

    pub(super) fn blob_places(&self) -> HashMap<BlobId, u64> {
        self.blobs.iter().map(|(place, id)| (*id, *place)).collect()
    }

    /// Returns the places of commits whose first parent does not lie right before them.
    pub(super) fn misplaced(&self) -> Vec<u64> {
        let wrong = |place: &&u64| {
            let (place, position) = (**place, keys::position_of(**place));
            if position == 0 || self.broken.contains(&(place - 1)) {
                return false;
            }
            let before = self.commits.get(&(place - 1)).map(|seen| seen.commit.id());
            let parent = self.commits.get(&place).and_then(|seen| seen.commit.parent());
            before.is_none() || before != parent
        };
        self.commits.keys().filter(wrong).copied().collect()
    }

    /// Returns the first parent of a segment's first commit.
    pub(super) fn parent_of(&self, segment: u32) -> Option<CommitId> {
        self.commits.get(&keys::place(segment, 0))?.commit.parent()
    }

    /// Returns what each segment's row should say.
    pub(super) fn segments(&self) -> BTreeMap<u32, Segment> {
        let places = self.places();
        let mut segments = BTreeMap::new();
        for place in self.commits.keys().chain(&self.broken) {
            let number = keys::segment_of(*place);
            let parent = || self.parent_of(number).and_then(|id| places.get(&id).copied());
            let segment =
                segments.entry(number).or_insert_with(|| Segment { tip: 0, parent: parent() });
            segment.tip = segment.tip.max(keys::position_of(*place));
        }
        segments
    }

    /// Returns each tool as given, with the first commit that has it in force and its time.
    pub(super) fn tools_in_force(&self) -> BTreeMap<(ToolId, BlobId), (i64, CommitId)> {
        let by_id: HashMap<CommitId, &Commit> =
            self.commits.values().map(|seen| (seen.commit.id(), &seen.commit)).collect();
        let mut times = Times { by_id: &by_id, known: HashMap::new() };
        let mut first: HashMap<ToolsetId, (i64, CommitId)> = HashMap::new();
        for seen in self.commits.values() {
            let Some(toolset) = seen.commit.toolset else { continue };
            let sight = (times.of(&seen.commit), seen.commit.id());
            first.entry(toolset).and_modify(|known| *known = sight.min(*known)).or_insert(sight);
        }
        let mut tools: BTreeMap<(ToolId, BlobId), (i64, CommitId)> = BTreeMap::new();
        for (toolset, sight) in first {
            for entry in self.toolsets.get(&toolset).map(Toolset::entries).unwrap_or_default() {
                let known = tools.entry((entry.tool, entry.schema)).or_insert(sight);
                *known = sight.min(*known);
            }
        }
        tools
    }
}

/// When commits were made; one without a time counts as its parent, 0 at a root.
struct Times<'a> {
    by_id: &'a HashMap<CommitId, &'a Commit>,
    /// Those that had to be looked for at a parent, so that no line is followed twice.
    known: HashMap<CommitId, i64>,
}

impl Times<'_> {
    fn of(&mut self, commit: &Commit) -> i64 {
        let (mut at, mut passed) = (commit, Vec::new());
        let time = loop {
            if let Some(time) = at.created_at.or_else(|| self.known.get(&at.id()).copied()) {
                break time;
            }
            passed.push(at.id());
            match at.parent().and_then(|parent| self.by_id.get(&parent)) {
                Some(parent) => at = parent,
                None => break 0,
            }
        };
        self.known.extend(passed.into_iter().map(|id| (id, time)));
        time
    }
}

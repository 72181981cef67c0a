//! Checks the store: objects, their places, indexes, counters and the ref log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use super::Space;
use super::compressed::DamagedCopy;
use super::keys::{self, Indexed, Repo};
use super::read::{View, collect, each};
use super::repair::{orphans, repo_count};
use super::survey::{Survey, derived, lost, place_text, tool_name};
use super::value::{self, Segment};
use tract_core::batch::ToolRow;
use tract_core::id::{BlobId, ToolId};
use tract_core::object::ObjectId;
use tract_core::refs::{RefName, RefTarget};
use tract_core::store::{Damage, LogQuery, StoreError, StoreErrorKind, StoreResult, StoreStats};

/// Number of log entries read per page.
const LOG_PAGE: usize = 4096;

impl View<'_> {
    pub(super) fn check(&self) -> StoreResult<Vec<Damage>> {
        let mut damage = Vec::new();
        if let Some(next) = repo_count(self.read)? {
            damage.push(derived(None, format!("expected {next} as the next repository's number")));
        }
        if let Err(error) = self.state() {
            damage.push(derived(None, error.message));
        }
        let survey = self.survey(&mut damage)?;
        for misfit in self.misfits(&survey)? {
            damage.push(misfit.damage());
        }
        self.check_places(&survey, &mut damage)?;
        for (child, parent) in &survey.parents {
            // A stored but damaged parent is reported under its own id.
            if let Ok(None) = self.commit(*parent) {
                let what = format!("its parent {parent} is missing");
                damage.push(lost(Some(ObjectId::Commit(*child)), what));
            }
        }
        self.check_segments(&survey, &mut damage)?;
        self.check_tools(&survey, &mut damage)?;
        self.check_log(&mut damage)?;
        for key in orphans(self, &survey)? {
            let at = place_text(Repo::number(&key).unwrap_or_default());
            damage.push(derived(None, format!("a derived row of no commit, {at}")));
        }
        for DamagedCopy { id, has_other, .. } in self.dictionaries()?.1 {
            damage.push(match has_other {
                true => derived(None, "a copy of a dictionary is damaged; another copy is whole"),
                false if self.needs_dictionary(id)? => {
                    lost(None, "a dictionary is damaged, and so are the blobs that need it")
                }
                false => derived(None, "a dictionary that no blob needs is damaged"),
            });
        }
        Ok(damage)
    }

    fn check_places(&self, survey: &Survey, damage: &mut Vec<Damage>) -> StoreResult<()> {
        for (place, commit) in &survey.misplaced {
            let object = Some(ObjectId::Commit(*commit));
            let what = format!("{}: what lies before it is not its parent", place_text(*place));
            damage.push(derived(object, what));
        }
        let others = survey.contents.iter().filter(|wrong| wrong.is_other);
        let stored = survey.places_of(others.filter_map(|wrong| wrong.content));
        for wrong in &survey.contents {
            // The content may have been erased; its commit still names it.
            if let Some(content) = wrong.content.filter(|_| !wrong.is_other)
                && self.is_erased(content)?
            {
                continue;
            }
            // Or it was erased, and another message stored the same bytes again.
            if let Some(content) = wrong.content
                && self.writes().is_ok_and(|writes| writes.sweeps > 0)
                && matches!(self.blob(content, None), Ok(Some(_)))
            {
                continue;
            }
            let at = place_text(wrong.place);
            let what = match wrong.content.filter(|_| wrong.is_other) {
                Some(content) if stored.contains_key(&content) => {
                    format!("{at}: its content lies elsewhere")
                }
                // The blob is damaged, not the place; that is reported under the blob's id.
                Some(_) => continue,
                None => format!("{at}: wrong about where its content lies"),
            };
            damage.push(derived(Some(ObjectId::Commit(wrong.commit)), what));
        }
        Ok(())
    }

    fn check_segments(&self, survey: &Survey, damage: &mut Vec<Damage>) -> StoreResult<()> {
        let mut segments: HashMap<u32, Option<Segment>> =
            collect(self.read, &self.repo.segments(), |key, sealed| {
                let segment = value::open(key, sealed).and_then(Segment::decode);
                Some((u32::from_be_bytes(*key.last_chunk()?), segment))
            })?;
        for (number, expected, parent_known) in survey.expected_segments() {
            let right = match segments.remove(&number) {
                // The tip may be beyond the last commit if a repair moved commits away.
                Some(Some(found)) => {
                    found.tip >= expected.tip && (!parent_known || found.parent == expected.parent)
                }
                Some(None) | None => false,
            };
            if !right {
                damage.push(derived(None, format!("segment {number}: wrong tip or parent")));
            }
        }
        for (number, _) in segments.into_iter().filter(|(_, segment)| segment.is_none()) {
            damage.push(derived(None, format!("segment {number}: damaged, and without commits")));
        }
        Ok(())
    }

    fn check_tools(&self, survey: &Survey, damage: &mut Vec<Damage>) -> StoreResult<()> {
        let mut rows: HashMap<(ToolId, BlobId), ToolRow> = HashMap::new();
        each(self.read, &self.repo.tools(&[]), |key, sealed| {
            match (Repo::tool_parts(key), value::open_tool(key, sealed)) {
                (Some(pair), Some(row)) => drop(rows.insert(pair, row)),
                (Some((tool, _)), None) => damage
                    .push(derived(Some(ObjectId::Tool(tool)), "its tool index entry is damaged")),
                (None, _) => damage.push(derived(None, "a tool index entry has a damaged key")),
            }
            Ok(())
        })?;
        let mut names = HashSet::new();
        each(self.read, &self.repo.tool_names(), |key, _| {
            match self.repo.tool_name_parts(key) {
                Some((name, tool)) => drop(names.insert((name.to_owned(), tool))),
                None => damage.push(derived(None, "a tool name's entry has a damaged key")),
            }
            Ok(())
        })?;
        let blob_places = survey.places_of(rows.keys().map(|(_, schema)| *schema));
        let was_swept = self.writes().is_ok_and(|writes| writes.sweeps > 0);
        for (pair, row) in &rows {
            // A collection that was interrupted leaves rows of commits that it deleted.
            if was_swept && !survey.sighted.contains_key(&row.commit) {
                continue;
            }
            let entry = survey.sighted.get(&row.commit).and_then(|toolset| {
                let toolset = survey.toolsets.get(&(*toolset)?)?;
                toolset.entries().iter().find(|entry| (entry.tool, entry.schema) == *pair)
            });
            let schema = match entry {
                Some(entry) => {
                    let hint = blob_places.get(&entry.schema).copied();
                    self.blob(entry.schema, hint).unwrap_or_default()
                }
                None => None,
            };
            let name_is_right = schema.is_none_or(|(_, blob)| tool_name(&blob) == row.name);
            if entry.is_none() || !name_is_right || !names.contains(&(row.name.clone(), pair.0)) {
                let what = "the tool index is wrong about its name or its first commit";
                damage.push(derived(Some(ObjectId::Tool(pair.0)), what));
            }
        }
        let indexed: HashSet<(&str, ToolId)> =
            rows.iter().map(|((id, _), row)| (row.name.as_str(), *id)).collect();
        for (name, tool) in names {
            if !indexed.contains(&(name.as_str(), tool)) {
                let what = format!("the tool index has it under the wrong name {name:?}");
                damage.push(derived(Some(ObjectId::Tool(tool)), what));
            }
        }
        let mut reported = HashSet::new();
        for pair in survey.tools.keys() {
            if !rows.contains_key(pair) && reported.insert(pair.0) {
                let what = "it is in force at a commit and not in the tool index";
                damage.push(derived(Some(ObjectId::Tool(pair.0)), what));
            }
        }
        Ok(())
    }

    fn check_log(&self, damage: &mut Vec<Damage>) -> StoreResult<()> {
        // Pages are newest first, so keep the next newer entry of each ref for comparison.
        let mut later: HashMap<RefName, (u64, Option<RefTarget>)> = HashMap::new();
        let mut newest: BTreeMap<RefName, RefTarget> = BTreeMap::new();
        let mut batches: Vec<([u8; 8], u64)> = Vec::new();
        let mut unfit = Vec::new();
        let mut before = None;
        loop {
            let query = LogQuery { before, limit: LOG_PAGE, ..LogQuery::default() };
            let page = match self.ref_log(&query) {
                Ok(page) => page,
                Err(error) => return corrupt_as_damage(error, damage),
            };
            let is_last = page.len() < LOG_PAGE;
            before = page.last().map(|entry| entry.seq);
            for entry in page {
                batches.push((keys::head(entry.batch.as_bytes()), entry.seq));
                match later.insert(entry.name.clone(), (entry.seq, entry.before)) {
                    Some((seq, before)) if before != entry.after => unfit.push(seq),
                    Some(_) => {}
                    None => newest.extend(entry.after.map(|after| (entry.name, after))),
                }
            }
            if is_last {
                break;
            }
        }
        let refs = match self.list_refs("") {
            Ok(refs) => refs,
            Err(error) => return corrupt_as_damage(error, damage),
        };
        // Each ref starts absent, so its first entry must have no previous target.
        unfit.extend(later.into_values().filter(|(_, at)| at.is_some()).map(|(seq, _)| seq));
        for seq in unfit {
            let what = format!("entry {seq} of the ref log does not follow the one before");
            damage.push(lost(None, what));
        }
        if newest.into_iter().ne(refs) {
            damage.push(lost(None, "replaying the ref log does not give the refs"));
        }
        batches.sort_unstable();
        batches.dedup();
        let (mut expected, mut fits) = (batches.iter(), true);
        self.read.scan(&self.repo.indexed(Indexed::Batch, &[]), &mut |key, _| {
            // Keys are scanned in the order of the sorted pairs.
            if let Some(pair) = Repo::index_parts(key) {
                fits &= expected.next() == Some(&pair);
            }
            Ok(if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if !fits || expected.next().is_some() {
            damage.push(derived(None, "the index of batches does not fit the ref log"));
        }
        Ok(())
    }

    pub(super) fn stats(&self) -> StoreResult<StoreStats> {
        let count = |scan| {
            let (mut rows, mut bytes) = (0u64, 0u64);
            each(self.read, &scan, |_, value| {
                rows += 1;
                bytes += value.len() as u64;
                Ok(())
            })?;
            Ok::<_, StoreError>((rows, bytes))
        };
        let tools: HashSet<ToolId> = collect(self.read, &self.repo.tools(&[]), |key, _| {
            Repo::tool_parts(key).map(|(tool, _)| tool)
        })?;
        let mut stats = StoreStats::default();
        (stats.commits, stats.commit_bytes) = count(self.repo.all(Space::Commits))?;
        (stats.blobs, stats.blob_bytes) = count(self.repo.all(Space::Blobs))?;
        (stats.derived, stats.derived_bytes) = count(self.repo.all_derived())?;
        (stats.toolsets, _) = count(self.repo.toolsets(&[]))?;
        (stats.refs, _) = count(self.repo.refs(""))?;
        (stats.log_entries, _) = count(self.repo.all(Space::Log))?;
        stats.tools = tools.len() as u64;
        Ok(stats)
    }
}

fn corrupt_as_damage(error: StoreError, damage: &mut Vec<Damage>) -> StoreResult<()> {
    match error.kind {
        StoreErrorKind::Corrupt { object } => damage.push(lost(object, error.message)),
        _ => return Err(error),
    }
    Ok(())
}

//! Rebuilds derived data: indexes, places, counters, the tool index.

use std::collections::{BTreeMap, HashMap};

use super::keys::{self, Indexed, Repo};
use super::overlay::Overlay;
use super::read::{self, View, scan_keys};
use super::survey::{Survey, SurveyedObject, id_head, tool_name};
use super::value::{self, Segment, State};
use super::{KvEngine, KvRead, KvStore, Space, write};
use tract_core::batch::{DerivedKind, ToolRow};
use tract_core::commit::Commit;
use tract_core::id::{CommitId, RepoName};
use tract_core::refs::LogEntry;
use tract_core::store::{LogQuery, StoreResult};

impl<E: KvEngine> KvStore<E> {
    /// Rebuilds derived data. Objects, refs and the ref log are not changed.
    pub(super) fn repair(&self, repo: &RepoName) -> StoreResult<()> {
        self.write("repair", |overlay| {
            let Some(repo) = read::repo_number(overlay, E::NAME, repo)? else { return Ok(()) };
            // Every write of the repository replaces these counters. One that is made since the
            // survey makes the repair conflict and plan again.
            overlay.require(Space::Small, repo.state())?;
            if let Some(next) = repo_count(overlay)? {
                overlay.require(Space::Small, keys::NEXT_REPO.to_vec())?;
                let key = keys::NEXT_REPO.to_vec();
                overlay.seal(Space::Small, key, next.to_be_bytes().to_vec());
            }
            repair(overlay, repo, E::NAME)
        })
    }
}

/// Returns the correct number of the next repository if the stored one is wrong.
pub(super) fn repo_count(read: &dyn KvRead) -> StoreResult<Option<u32>> {
    let numbers: Vec<u32> = read::collect(read, &keys::repos(), value::open_number)?;
    let next = numbers.into_iter().max().unwrap_or_default().saturating_add(1);
    let sealed = read.get(Space::Small, keys::NEXT_REPO)?;
    let found = sealed.and_then(|sealed| value::open_number(keys::NEXT_REPO, &sealed));
    Ok((found.unwrap_or_default() < next).then_some(next))
}

fn repair(overlay: &mut Overlay<'_>, repo: Repo, backend: &'static str) -> StoreResult<()> {
    // Read everything first, because staged writes make scans slow.
    let view = View { read: overlay, repo, backend };
    let survey = view.survey(&mut Vec::new())?;
    let mut state = counters(&view, &survey)?;
    let misfits = view.misfits(&survey)?;
    let blob_places = survey.places_of(survey.tools.keys().map(|(_, schema)| *schema));
    let mut rows = Vec::new();
    for (&(id, schema), &(created_at, commit)) in &survey.tools {
        let name = match view.blob(schema, blob_places.get(&schema).copied()) {
            Ok(Some((_, blob))) => tool_name(&blob),
            // The name of a damaged schema is unknown. The damage itself is reported.
            _ => continue,
        };
        rows.push(ToolRow { id, name, schema, commit, created_at });
    }
    let mut stale = scan_keys(overlay, &repo.tools(&[]))?;
    stale.extend(scan_keys(overlay, &repo.tool_names())?);
    stale.extend(orphans(&view, &survey)?);
    let (dictionaries, copies) = view.dictionaries()?;
    for copy in copies.iter().filter(|copy| !copy.has_other) {
        if !view.needs_dictionary(copy.id)? {
            stale.push(copy.key.clone());
        }
    }
    let log = view.ref_log(&LogQuery::default()).unwrap_or_default();
    let stale_batches = if log.is_empty() {
        Vec::new()
    } else {
        scan_keys(overlay, &repo.indexed(Indexed::Batch, &[]))?
    };

    for key in stale {
        overlay.delete(Space::Small, key);
    }
    for row in rows {
        write::put_tool(overlay, repo, &row);
    }
    for dictionary in &dictionaries {
        if copies.iter().any(|copy| copy.has_other && copy.id == Some(dictionary.id)) {
            dictionary.put(overlay, repo);
        }
    }
    for key in stale_batches {
        overlay.delete(Space::Index, key);
    }
    for LogEntry { seq, batch, .. } in log {
        overlay.add(Space::Index, repo.index(Indexed::Batch, keys::head(batch.as_bytes()), seq));
    }
    for misfit in misfits.iter().filter(|misfit| !misfit.bytes) {
        if let Some(head) = misfit.found {
            overlay.delete(Space::Index, repo.index(misfit.kind, head, misfit.place));
        }
        if let Some(head) = misfit.expected {
            overlay.add(Space::Index, repo.index(misfit.kind, head, misfit.place));
        }
    }
    rebuild_segments(overlay, repo, &survey, &mut state)?;
    state.generation += 1;
    overlay.seal(Space::Small, repo.state(), state.encode());
    Ok(())
}

/// Returns the stored counters, or else counters beyond all existing objects and entries.
fn counters(view: &View<'_>, survey: &Survey) -> StoreResult<State> {
    if let Ok(state) = view.state() {
        return Ok(state);
    }
    let objects = survey.commits.iter().chain(&survey.blobs).map(|object| object.place);
    let places = objects.chain(survey.broken.iter().copied());
    let last = places.map(keys::segment_of).max().unwrap_or_default();
    let rows = scan_keys(view.read, &view.repo.all(Space::Log))?;
    let last_seq = rows.last().and_then(|key| Repo::number(key)).unwrap_or_default();
    Ok(State {
        generation: last_seq,
        // Beyond everything that is stored: a number that is used again would give two commits the
        // same place.
        next_segment: last.saturating_add(1),
        next_seq: last_seq.saturating_add(1),
        ..State::NEW
    })
}

/// Returns the keys of derived rows without a commit.
pub(super) fn orphans(view: &View<'_>, survey: &Survey) -> StoreResult<Vec<Vec<u8>>> {
    let skip = view.repo.all_derived().from.len();
    read::collect(view.read, &view.repo.all_derived(), |key, _| {
        let known = DerivedKind::ALL.iter().any(|kind| key.get(skip) == Some(&kind.number()));
        let place = Repo::number(key).unwrap_or_default();
        let has_commit = survey.has_commit(place) || survey.broken.binary_search(&place).is_ok();
        (!known || !has_commit).then(|| key.to_vec())
    })
}

/// Moves each run of commits that does not follow its predecessor in place into a new segment, and
/// rewrites the rows of all segments.
fn rebuild_segments(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    survey: &Survey,
    state: &mut State,
) -> StoreResult<()> {
    let by_head = |objects: &[SurveyedObject]| -> HashMap<_, _> {
        objects.iter().map(|object| (object.head, object.place)).collect()
    };
    let (mut places, blob_places) = (by_head(&survey.commits), by_head(&survey.blobs));
    let content_of = |commit: &Commit| {
        commit.content.and_then(|id| blob_places.get(&id_head(id.as_bytes())).copied())
    };
    let starts: Vec<u64> = survey.misplaced.iter().map(|(place, _)| *place).collect();
    let mut segments: BTreeMap<u32, Segment> =
        survey.expected_segments().into_iter().map(|(number, row, _)| (number, row)).collect();
    // The first parents of the segments, whose places may change.
    let mut parents: HashMap<u32, Option<CommitId>> =
        survey.segments.iter().map(|segment| (segment.number, segment.parent)).collect();
    for start in &starts {
        let number = state.next_segment;
        state.next_segment = number.saturating_add(1);
        let mut position = 0;
        let from = survey.commits.partition_point(|commit| commit.place < *start);
        for SurveyedObject { place, head } in survey.commits.iter().skip(from) {
            let runs_on = *place == *start + u64::from(position)
                && (position == 0 || starts.binary_search(place).is_err())
                && keys::segment_of(*place) == keys::segment_of(*start);
            let commit = if runs_on { commit_at(overlay, repo, *place)? } else { None };
            let Some(commit) = commit else { break };
            if position == 0 {
                parents.insert(number, commit.parent());
            }
            let to = keys::place(number, position);
            places.insert(*head, to);
            let value = value::commit_value(to, content_of(&commit), &commit.encode());
            overlay.delete(Space::Commits, repo.numbered(*place));
            overlay.put(Space::Commits, repo.numbered(to), value);
            let head = keys::head(head);
            overlay.delete(Space::Index, repo.index(Indexed::Commit, head, *place));
            overlay.add(Space::Index, repo.index(Indexed::Commit, head, to));
            for kind in DerivedKind::ALL {
                let from = repo.derived(kind, *place);
                if let Some(row) = overlay.get(Space::Small, &from)? {
                    overlay.delete(Space::Small, from);
                    overlay.put(Space::Small, repo.derived(kind, to), row);
                }
            }
            position += 1;
        }
        // The old tip is kept: blobs may still use the places that the commits left.
        let tip = position.saturating_sub(1);
        segments.insert(number, Segment { tip, parent: None });
    }
    for wrong in &survey.contents {
        if places.get(&id_head(wrong.commit.as_bytes())) != Some(&wrong.place) {
            continue;
        }
        let Some(commit) = commit_at(overlay, repo, wrong.place)? else { continue };
        if let Some(content) = content_of(&commit) {
            let value = value::commit_value(wrong.place, Some(content), &commit.encode());
            overlay.put(Space::Commits, repo.numbered(wrong.place), value);
        }
    }
    // Parents may have moved, so look up their current places.
    for (number, segment) in &mut segments {
        let parent = parents.get(number).copied().flatten();
        segment.parent = parent.and_then(|id| places.get(&id_head(id.as_bytes())).copied());
    }
    for (number, segment) in segments {
        overlay.seal(Space::Small, repo.segment(number), segment.encode());
    }
    Ok(())
}

/// Reads the commit at a place, regardless of its id.
fn commit_at(overlay: &Overlay<'_>, repo: Repo, place: u64) -> StoreResult<Option<Commit>> {
    let value = overlay.get(Space::Commits, &repo.numbered(place))?;
    Ok(value.and_then(|value| Some(read::any_commit(place, &value)?.commit)))
}

//! Lists stored objects, and deletes the unneeded ones.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::keys::{self, Indexed, Repo};
use super::overlay::Overlay;
use super::read::{self, View};
use super::value::{self, State, WriteCounts};
use super::{KvEngine, KvStore, Space, write};
use tract_core::batch::DerivedKind;
use tract_core::id::{RepoName, ToolsetId};
use tract_core::object::{ObjectId, Toolset};
use tract_core::store::{
    ListKind, ObjectListing, ObjectPage, StoreResult, Sweep, SweepAnswer, WritePosition,
};

impl View<'_> {
    /// Returns the position of the last write.
    pub(super) fn position(&self) -> StoreResult<WritePosition> {
        let log = self.state()?.next_seq.saturating_sub(1);
        Ok(WritePosition { log, unlogged: self.writes()?.unlogged })
    }

    /// Lists objects.
    pub(super) fn list(&self, listing: &ObjectListing) -> StoreResult<ObjectPage> {
        match listing.kind {
            ListKind::Commits => self.list_places(Space::Commits, listing, |place, value| {
                let found = read::any_commit(place, value);
                Ok(found.map(|found| ObjectId::Commit(found.commit.id())))
            }),
            ListKind::Blobs => self.list_places(Space::Blobs, listing, |_, bytes| {
                let plain = self.plain(Bytes::copy_from_slice(bytes))?;
                Ok(plain.map(|plain| ObjectId::Blob(tract_core::hash::blob(&plain))))
            }),
            // Toolsets are few, so they fit into one page.
            ListKind::Toolsets => {
                let scan = self.repo.toolsets(&[]);
                let objects = read::collect(self.read, &scan, |key, bytes| {
                    let id = ToolsetId::from_bytes(*key.last_chunk()?);
                    Toolset::decode(id, bytes)?;
                    Some((ObjectId::Toolset(id), bytes.len() as u64))
                })?;
                Ok(ObjectPage { objects, ..ObjectPage::default() })
            }
        }
    }

    fn list_places(
        &self,
        space: Space,
        listing: &ObjectListing,
        id: impl Fn(u64, &[u8]) -> StoreResult<Option<ObjectId>>,
    ) -> StoreResult<ObjectPage> {
        let mut page = ObjectPage::default();
        let (mut last, mut left) = (listing.after, listing.limit.max(1));
        // Segments are numbered from 1, so no place is 0, and a listing that starts after 0 is
        // complete.
        let scan = self.repo.places(space, listing.after.saturating_add(1), u64::MAX);
        self.read.scan(&scan, &mut |key, value| {
            last = Repo::number(key).unwrap_or(last);
            page.objects.extend(id(last, value)?.map(|object| (object, value.len() as u64)));
            left -= 1;
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        page.next = (left == 0).then_some(last);
        Ok(page)
    }
}

impl<E: KvEngine> KvStore<E> {
    /// Deletes objects if nothing was written since the sweep's position.
    ///
    /// A write that lands between the caller's marking and this check may link to an object that is
    /// about to be deleted. Comparing the position and requiring the counters in the same write
    /// excludes that.
    pub(super) fn sweep_objects(&self, name: &RepoName, sweep: &Sweep) -> StoreResult<SweepAnswer> {
        self.write("sweep", |overlay| {
            let Some(repo) = read::repo_number(overlay, E::NAME, name)? else {
                return Ok(SweepAnswer::Done);
            };
            overlay.require(Space::Small, repo.state())?;
            let view = View { read: &*overlay, repo, backend: E::NAME };
            let position = view.position()?;
            if position != sweep.position {
                return Ok(SweepAnswer::Moved(position));
            }
            let state = view.state()?;
            for object in &sweep.objects {
                delete(overlay, repo, E::NAME, *object)?;
            }
            for row in &sweep.tools {
                write::put_tool(overlay, repo, row);
            }
            // A new generation makes concurrent writes conflict and plan again: they may have
            // relied on deleted objects.
            let state = State { generation: state.generation + 1, ..state };
            overlay.seal(Space::Small, repo.state(), state.encode());
            count(overlay, repo, E::NAME)?;
            Ok(SweepAnswer::Done)
        })
    }
}

/// Counts a sweep or an erasure, which invalidates the places that handles have cached.
pub(super) fn count(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
) -> StoreResult<()> {
    let writes = View { read: &*overlay, repo, backend }.writes()?;
    let writes = WriteCounts { sweeps: writes.sweeps + 1, ..writes };
    overlay.seal(Space::Small, repo.writes(), writes.encode());
    Ok(())
}

pub(super) fn delete(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
    object: ObjectId,
) -> StoreResult<()> {
    let view = View { read: &*overlay, repo, backend };
    let head = keys::head(object.as_bytes());
    match object {
        ObjectId::Commit(id) => {
            // Already deleted by an interrupted collection.
            let Some(found) = view.commit(id)? else { return Ok(()) };
            let place = found.place;
            // Derived rows are stored by place. Left behind they would belong to no commit, which
            // the check reports.
            let mut derived = Vec::new();
            for kind in DerivedKind::ALL {
                derived
                    .extend(read::scan_keys(overlay, &repo.derived_between(kind, place, place))?);
            }
            derived.into_iter().for_each(|key| overlay.delete(Space::Small, key));
            overlay.delete(Space::Commits, repo.numbered(place));
            overlay.delete(Space::Index, repo.index(Indexed::Commit, head, place));
            // All other commits of the segment descend from its first one and are deleted as well.
            if keys::position_of(place) == 0 {
                overlay.delete(Space::Small, repo.segment(keys::segment_of(place)));
            }
        }
        ObjectId::Blob(id) => {
            let Some((place, _)) = view.blob(id, None)? else { return Ok(()) };
            overlay.delete(Space::Blobs, repo.numbered(place));
            overlay.delete(Space::Index, repo.index(Indexed::Blob, head, place));
        }
        ObjectId::Toolset(id) => overlay.delete(Space::Small, repo.toolset(id)),
        ObjectId::Tool(id) => {
            let names: Vec<String> =
                read::collect(overlay, &repo.tools(id.as_bytes()), |key, sealed| {
                    Some(value::open_tool(key, sealed)?.name)
                })?;
            for key in read::scan_keys(overlay, &repo.tools(id.as_bytes()))? {
                overlay.delete(Space::Small, key);
            }
            for name in names {
                overlay.delete(Space::Small, repo.tool_name(&name, id));
            }
        }
    }
    Ok(())
}

//! Restores damaged or missing objects from copies.

use super::compressed::value_of;
use super::keys::{self, Indexed, Repo};
use super::overlay::Overlay;
use super::read::View;
use super::value::{self, WriteCounts};
use super::write::{self, Writer};
use super::{KvEngine, KvStore, Space};
use tract_core::commit::Commit;
use tract_core::id::RepoName;
use tract_core::object::{Blob, ObjectId};
use tract_core::store::{ObjectCopies, StoreErrorKind, StoreResult};

impl<E: KvEngine> KvStore<E> {
    /// Stores copies of unreadable objects. Returns the ids of the objects written.
    pub(super) fn restore_objects(
        &self,
        name: &RepoName,
        copies: &ObjectCopies,
    ) -> StoreResult<Vec<ObjectId>> {
        let written = self.write("restore", |overlay| {
            let mark = overlay.mark();
            let repo = write::open_repo(overlay, E::NAME, name)?;
            let restored = restore(overlay, repo, E::NAME, copies)?;
            if restored.is_empty() {
                // `open_repo` may have created the repository.
                overlay.roll_back(mark);
            }
            Ok(restored)
        })?;
        Ok(written)
    }
}

fn restore(
    overlay: &mut Overlay<'_>,
    repo: Repo,
    backend: &'static str,
    copies: &ObjectCopies,
) -> StoreResult<Vec<ObjectId>> {
    let (mut restored, mut stored) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(overlay, repo, backend, &mut stored)?;
    // Blobs first, because commits record the places of their contents.
    for blob in &copies.blobs {
        if restore_blob(&mut writer, repo, blob)? {
            restored.push(ObjectId::Blob(blob.id()));
        }
    }
    for commit in &copies.commits {
        if restore_commit(&mut writer, repo, commit)? {
            restored.push(ObjectId::Commit(commit.id()));
        }
    }
    for toolset in &copies.toolsets {
        if sound(writer.view().toolset(toolset.id()))?.is_none() {
            let key = repo.toolset(toolset.id());
            writer.overlay.put(Space::Small, key, toolset.encode().into());
            restored.push(ObjectId::Toolset(toolset.id()));
        }
    }
    if writer.wrote() {
        let writes = writer.view().writes()?;
        let counted = WriteCounts { unlogged: writes.unlogged + 1, ..writes };
        writer.overlay.seal(Space::Small, repo.writes(), counted.encode());
    }
    writer.finish();
    Ok(restored)
}

/// Treats a damaged object as missing.
fn sound<T>(read: StoreResult<Option<T>>) -> StoreResult<Option<T>> {
    match read {
        Err(error) if matches!(error.kind, StoreErrorKind::Corrupt { .. }) => Ok(None),
        read => read,
    }
}

fn restore_blob(writer: &mut Writer<'_, '_>, repo: Repo, blob: &Blob) -> StoreResult<bool> {
    let view = writer.view();
    if sound(view.blob(blob.id(), None))?.is_some() || view.is_erased(blob.id())? {
        return Ok(false);
    }
    match view.damaged_place(ObjectId::Blob(blob.id()))? {
        Some(place) => {
            writer.overlay.put(Space::Blobs, repo.numbered(place), value_of(blob.bytes()));
        }
        None => {
            let place = writer.next_loose_place()?;
            writer.blob(blob, place);
        }
    }
    Ok(true)
}

fn restore_commit(writer: &mut Writer<'_, '_>, repo: Repo, commit: &Commit) -> StoreResult<bool> {
    let view = writer.view();
    if sound(view.commit(commit.id()))?.is_some() {
        return Ok(false);
    }
    let content = match commit.content {
        Some(id) => sound(view.blob(id, None))?.map(|(place, _)| place),
        None => None,
    };
    let damaged = view.damaged_place(ObjectId::Commit(commit.id()))?;
    let place = match damaged {
        Some(place) => place,
        None => {
            let parent = match commit.parent() {
                Some(parent) => sound(view.commit(parent))?.map(|found| found.place),
                None => None,
            };
            let place = writer.next_place(parent)?;
            let head = keys::head(commit.id().as_bytes());
            writer.overlay.add(Space::Index, repo.index(Indexed::Commit, head, place));
            place
        }
    };
    let value = value::commit_value(place, content, &commit.encode());
    writer.overlay.put(Space::Commits, repo.numbered(place), value);
    Ok(true)
}

impl View<'_> {
    /// Returns a place that is indexed for an object, but where nothing is stored, or an object
    /// that is not indexed there.
    fn damaged_place(&self, object: ObjectId) -> StoreResult<Option<u64>> {
        let kind = match object {
            ObjectId::Commit(_) => Indexed::Commit,
            ObjectId::Blob(_) => Indexed::Blob,
            ObjectId::Toolset(_) | ObjectId::Tool(_) => return Ok(None),
        };
        for place in self.hits(kind, keys::head(object.as_bytes()))? {
            let is_taken = match self.object_at(kind, place)? {
                Some(found) => {
                    let key = self.repo.index(kind, keys::head(found.as_bytes()), place);
                    self.read.get(Space::Index, &key)?.is_some()
                }
                None => false,
            };
            if !is_taken {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

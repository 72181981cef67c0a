use async_trait::async_trait;
use tract_core::store::{StoreError, StoreResult};
use tract_core::{BlobId, CommitId, ObjectId, RefName, RefTarget, Store, ToolsetId};
use tract_testkit::{Answer, Call, Watch};

/// What is wrong with a store.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The stored bytes of a commit are damaged: also the walks that meet it fail.
    Commit(CommitId),
    /// A commit is not there.
    NoCommit(CommitId),
    /// The stored bytes of a blob are damaged.
    Blob(BlobId),
    /// A blob is not there.
    NoBlob(BlobId),
    /// The stored bytes of a toolset are damaged.
    Toolset(ToolsetId),
    /// A toolset is not there.
    NoToolset(ToolsetId),
    /// Range walks leave out one commit, as a flipped place would.
    Walk(CommitId),
    /// A ref has moved without a log entry.
    Ref(RefName, CommitId),
    /// An entry of the ref log is gone.
    Log(usize),
    /// The ref log lacks its oldest entries, up to this one.
    OldestLogEntries(u64),
    /// The tool index knows nothing.
    Index,
    /// The snapshots hold other bytes.
    Snapshots,
}

impl Fault {
    /// The object that is damaged or gone.
    pub(crate) fn object(&self) -> ObjectId {
        match self {
            Self::Commit(id) | Self::NoCommit(id) => ObjectId::Commit(*id),
            Self::Blob(id) | Self::NoBlob(id) => ObjectId::Blob(*id),
            Self::Toolset(id) | Self::NoToolset(id) => ObjectId::Toolset(*id),
            other => panic!("{other:?} is about no single object"),
        }
    }

    fn corrupt<T>(&self) -> StoreResult<T> {
        Err(StoreError::corrupt("broken", "read", self.object()))
    }
}

/// Leaves out what is stored under an id.
fn hide<T>(found: &mut [Option<T>], is_it: impl Fn(&T) -> bool) {
    found.iter_mut().filter(|one| one.as_ref().is_some_and(&is_it)).for_each(|one| *one = None);
}

#[async_trait]
impl Watch for Fault {
    async fn answer(&self, store: &dyn Store, call: Call<'_>) -> StoreResult<Answer> {
        let mut answer = call.ask(store).await?;
        match (self, &mut answer) {
            (Self::Blob(id), Answer::Blobs(found))
                if found.iter().flatten().any(|blob| blob.id() == *id) =>
            {
                return self.corrupt();
            }
            (Self::NoBlob(id), Answer::Blobs(found)) => hide(found, |blob| blob.id() == *id),
            (Self::Toolset(id), Answer::Toolsets(found))
                if found.iter().flatten().any(|toolset| toolset.id() == *id) =>
            {
                return self.corrupt();
            }
            (Self::NoToolset(id), Answer::Toolsets(found)) => {
                hide(found, |toolset| toolset.id() == *id);
            }
            (Self::Commit(id), Answer::Commits(found))
                if found.iter().flatten().any(|commit| commit.id() == *id) =>
            {
                return self.corrupt();
            }
            (Self::NoCommit(id), Answer::Commits(found)) => {
                hide(found, |commit| commit.id() == *id);
            }
            (Self::Commit(id), Answer::Walk(page))
                if page.steps.iter().any(|step| step.commit.id() == *id) =>
            {
                return self.corrupt();
            }
            (Self::NoCommit(id), Answer::Walk(page))
                if page.steps.iter().any(|step| step.commit.id() == *id) =>
            {
                return Err(StoreError::missing("broken", "walk", ObjectId::Commit(*id)));
            }
            (Self::Walk(id), Answer::Walk(page)) => {
                page.steps.retain(|step| step.commit.id() != *id);
            }
            (Self::Ref(name, to), Answer::ListRefs(refs)) => {
                refs.iter_mut().filter(|(n, _)| n == name).for_each(|(_, at)| {
                    *at = RefTarget::Commit(*to);
                });
            }
            (Self::Ref(name, to), Answer::Refs(found)) => {
                let Call::Refs { names, .. } = call else { return Ok(answer) };
                for (_, at) in names.iter().zip(found).filter(|(n, _)| *n == name) {
                    *at = Some(RefTarget::Commit(*to));
                }
            }
            (Self::Log(gone), Answer::RefLog(log)) if log.len() > *gone => drop(log.remove(*gone)),
            (Self::OldestLogEntries(kept), Answer::RefLog(log)) => {
                log.retain(|entry| entry.seq > *kept);
            }
            (Self::Index, Answer::Tools(found)) => found.fill(None),
            (Self::Snapshots, Answer::Derived(found)) => {
                for bytes in found.iter_mut().flatten() {
                    let mut flipped = bytes.to_vec();
                    if let Some(last) = flipped.last_mut() {
                        *last ^= 1;
                    }
                    *bytes = flipped.into();
                }
            }
            _ => {}
        }
        Ok(answer)
    }
}

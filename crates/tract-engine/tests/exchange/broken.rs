use async_trait::async_trait;
use tract_core::store::{StoreError, StoreResult};
use tract_core::{CommitId, ObjectId, RefName, RefTarget, Store};
use tract_testkit::{Answer, Call, Watch};

/// What is wrong with a store.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The stored bytes of an object are damaged: also the walks that meet it fail.
    Damaged(ObjectId),
    /// An object is not there.
    Missing(ObjectId),
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
            Self::Damaged(id) | Self::Missing(id) => *id,
            other => panic!("{other:?} is about no single object"),
        }
    }
}

/// Whether an answer has an object.
fn has(answer: &Answer, object: ObjectId) -> bool {
    let is_it = |id: ObjectId| id == object;
    match answer {
        Answer::Blobs(found) => found.iter().flatten().any(|one| is_it(ObjectId::Blob(one.id()))),
        Answer::Toolsets(all) => all.iter().flatten().any(|one| is_it(ObjectId::Toolset(one.id()))),
        Answer::Commits(all) => all.iter().flatten().any(|one| is_it(ObjectId::Commit(one.id()))),
        Answer::Walk(page) => page.entries.iter().any(|s| is_it(ObjectId::Commit(s.commit.id()))),
        _ => false,
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
            (Self::Damaged(id), answer) if has(answer, *id) => {
                return Err(StoreError::corrupt("broken", "read", *id));
            }
            (Self::Missing(ObjectId::Blob(id)), Answer::Blobs(found)) => {
                hide(found, |blob| blob.id() == *id);
            }
            (Self::Missing(ObjectId::Toolset(id)), Answer::Toolsets(found)) => {
                hide(found, |toolset| toolset.id() == *id);
            }
            (Self::Missing(ObjectId::Commit(id)), Answer::Commits(found)) => {
                hide(found, |commit| commit.id() == *id);
            }
            (Self::Missing(id), answer @ Answer::Walk(_)) if has(answer, *id) => {
                return Err(StoreError::missing("broken", "walk", *id));
            }
            (Self::Walk(id), Answer::Walk(page)) => {
                page.entries.retain(|entry| entry.commit.id() != *id);
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

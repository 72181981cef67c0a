//! Leases of writers that store objects before a ref leads to them: long imports, atomic streams,
//! bundles, transfers.
//!
//! A lease is a document under `leases/` with the ids of those stored objects that no other object
//! links to. It is updated in the same batch that stores the objects, so they are never stored
//! without it, and garbage collection keeps everything that it leads to, as for any document. A
//! lease ends when the writer releases it, when it was not renewed for ten minutes, or when the
//! collector finds that the process that holds it has ended.

mod process;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tract_core::store::BlobKey;
use tract_core::{
    Applied, Batch, Blob, CommitId, Expect, ObjectId, RefEdit, RefName, RefTarget, StoreResult,
    block_on,
};

use self::process::Process;
use crate::repo::Repo;
use crate::repo::batch::apply_to_store_once;
use crate::repo::error::Result;
use crate::repo::operation::Operation;

/// Time for which a lease is valid without being renewed. The collector compares the expiry with
/// its own clock, so this must be longer than the clocks of two machines usually differ.
const LEASE: Duration = Duration::from_secs(10 * 60);
/// Interval at which the lease of a writer that waits for its input is renewed.
const RENEW: Duration = Duration::from_secs(2 * 60);
/// Number of objects in a lease document from which on another one is started. Every covered batch
/// writes the document in full, so a single one would make each batch more expensive.
const NAMES: usize = 512;

/// The document of a lease.
#[derive(Deserialize, Serialize)]
struct Document {
    /// The process that holds it, if the system can identify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<Process>,
    /// The ids of the objects that it keeps.
    #[serde(default)]
    objects: Vec<String>,
    /// Expiry time unless it is renewed: microseconds since 1970, UTC.
    until: i64,
}

/// One ref of a lease.
struct LeaseRef {
    name: RefName,
    /// The objects that no other object links to.
    tips: HashSet<ObjectId>,
    /// The document written last; `None` until the first covered batch is stored.
    at: Option<RefTarget>,
}

#[derive(Default)]
struct State {
    /// All refs except the last one are full.
    refs: Vec<LeaseRef>,
    /// Whether a thread renews the lease.
    is_renewed: bool,
}

/// Stops the thread that renews a lease.
#[derive(Default)]
struct Stop {
    is_over: Mutex<bool>,
    changed: Condvar,
}

struct Inner {
    repo: Repo,
    /// Part of the names of the refs.
    id: String,
    /// Whether the writer may wait for longer than a lease is valid, for example for a slow stream.
    waits: bool,
    state: Mutex<State>,
    stop: Arc<Stop>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        *lock(&self.stop.is_over) = true;
        self.stop.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds these locks, so the state is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lease of one writer. It writes nothing until it covers a batch. Clones share the lease.
#[derive(Clone)]
pub(crate) struct Lease(Arc<Inner>);

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// The state of a lease after a batch is stored.
pub(crate) struct Cover {
    tips: HashSet<ObjectId>,
    at: RefTarget,
}

impl Lease {
    /// Creates a lease for a writer to the repository. With `waits`, a thread renews it while the
    /// writer waits for its input.
    pub(crate) fn new(repo: &Repo, waits: bool) -> Result<Self> {
        let id = Operation::begin()?.id().to_hex();
        let (state, stop) = Default::default();
        Ok(Self(Arc::new(Inner { repo: repo.clone(), id, waits, state, stop })))
    }

    /// Adds the lease's document to a batch. It names `others` and the objects of the batch that no
    /// other object of the batch links to. After the batch is stored, the caller calls
    /// [`covered`](Self::covered).
    pub(crate) fn cover(&self, batch: &mut Batch, others: &[ObjectId]) -> Cover {
        let mut state = lock(&self.0.state);
        let last = state.refs.last().filter(|last| last.tips.len() < NAMES);
        let (name, mut tips) = match last {
            Some(last) => (last.name.clone(), last.tips.clone()),
            None => {
                let name = RefName::lease(&self.0.id, state.refs.len());
                let (tips, at) = Default::default();
                state.refs.push(LeaseRef { name: name.clone(), tips, at });
                (name, HashSet::new())
            }
        };
        drop(state);
        // An object that another one links to is kept by that one, so the document need not name
        // it. A history of any length needs one name: its newest commit.
        let commits = batch.commits.iter().flat_map(|commit| commit.links());
        let entries = batch.toolsets.iter().flat_map(|set| set.entries());
        let linked: HashSet<ObjectId> =
            commits.chain(entries.map(|entry| ObjectId::Blob(entry.schema))).collect();
        tips.retain(|tip| !linked.contains(tip));
        let brought = batch.objects().filter(|object| !matches!(object, ObjectId::Tool(_)));
        tips.extend(brought.filter(|object| !linked.contains(object)));
        tips.extend(others);
        let document = self.document(&tips);
        let at = RefTarget::Blob(document.id());
        batch.blobs.push(document);
        // Unconditional: the name is unique to this lease, and this document replaces the one of an
        // earlier batch or a renewal. If a collector has deleted the ref as expired, this creates
        // it again; expecting the earlier document would make the batch fail.
        batch.refs.push(RefEdit { name, expect: Expect::Any, to: Some(at.clone()) });
        // The state changes only in `covered`. Until then a renewal repeats the earlier document.
        // If the store applies the batch first, the renewal fails its comparison; if it applies the
        // renewal first, the batch replaces it.
        Cover { tips, at }
    }

    /// Records that a covered batch is stored.
    pub(crate) fn covered(&self, cover: Cover) {
        let mut state = lock(&self.0.state);
        if let Some(last) = state.refs.last_mut() {
            (last.tips, last.at) = (cover.tips, Some(cover.at));
        }
        if self.0.waits && !state.is_renewed {
            state.is_renewed = true;
            drop(state);
            self.renew_meanwhile();
        }
    }

    /// Stores a batch of objects that no ref leads to yet, covered by the lease.
    pub(crate) async fn store(
        &self,
        operation: &Operation,
        mut batch: Batch,
        others: &[ObjectId],
    ) -> StoreResult<Applied> {
        let cover = self.cover(&mut batch, others);
        let (store, name) = (self.0.repo.store().as_ref(), self.0.repo.name());
        let applied = apply_to_store_once(store, name, &batch).await?;
        if applied.is_stored() {
            operation.recorded(store, name, batch.id, batch.refs.len()).await;
            self.covered(cover);
        }
        Ok(applied)
    }

    /// Ends the lease, once refs lead to the covered objects or the writer gave up. If the write
    /// fails, the lease expires.
    pub(crate) async fn release(&self) {
        let refs = std::mem::take(&mut lock(&self.0.state).refs);
        // A ref without `at` was in no stored batch. If its batch was stored after all, although
        // the store reported an error, the lease expires.
        let names = refs.into_iter().filter(|one| one.at.is_some()).map(|one| one.name);
        let deleted = |name| RefEdit { name, expect: Expect::Any, to: None };
        let _ = self.write(names.map(deleted).collect(), Vec::new()).await;
    }

    fn document(&self, tips: &HashSet<ObjectId>) -> Blob {
        let digits = |tip: &ObjectId| CommitId::from_bytes(*tip.as_bytes()).to_hex();
        let mut objects: Vec<String> = tips.iter().map(digits).collect();
        objects.sort_unstable();
        let lease = i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX);
        let until = self.0.repo.now_us().saturating_add(lease);
        let document = Document { process: Process::of_this(), objects, until };
        Blob::seal(serde_json::to_vec(&document).unwrap_or_default())
    }

    async fn write(&self, refs: Vec<RefEdit>, blobs: Vec<Blob>) -> Result<bool> {
        if refs.is_empty() {
            return Ok(true);
        }
        let repo = &self.0.repo;
        let mut batch = repo.batch(&Operation::begin()?, "lease")?;
        (batch.refs, batch.blobs) = (refs, blobs);
        let applied = apply_to_store_once(repo.store().as_ref(), repo.name(), &batch).await?;
        Ok(applied.is_stored())
    }

    /// Renews the lease from now on.
    async fn renew(&self) {
        let (mut edits, mut blobs) = (Vec::new(), Vec::new());
        for one in &lock(&self.0.state).refs {
            // Skip a ref that a batch in progress creates. For the others the write is conditional:
            // if the writer has stored a newer document, that one is renewed already and must not
            // be replaced.
            let Some(at) = &one.at else { continue };
            let document = self.document(&one.tips);
            let to = Some(RefTarget::Blob(document.id()));
            edits.push(RefEdit { name: one.name.clone(), expect: Expect::Is(at.clone()), to });
            blobs.push(document);
        }
        // One conflicting ref makes the whole renewal fail. The next one comes long before the
        // lease expires, and a conflict usually means that the writer has just stored a newer
        // document.
        if !matches!(self.write(edits.clone(), blobs).await, Ok(true)) {
            return;
        }
        for RefEdit { name, expect, to } in edits {
            let mut state = lock(&self.0.state);
            let found = state.refs.iter_mut().find(|one| one.name == name);
            if let Some(one) = found
                && let Expect::Is(before) = &expect
                && one.at.as_ref() == Some(before)
            {
                one.at = to;
            }
        }
    }

    /// Renews the lease on a separate thread, because the writer's thread may be blocked by a slow
    /// stream.
    fn renew_meanwhile(&self) {
        let (stop, lease) = (Arc::clone(&self.0.stop), Arc::downgrade(&self.0));
        let renewal = move || {
            let mut is_over = lock(&stop.is_over);
            loop {
                let waited = stop.changed.wait_timeout_while(is_over, RENEW, |over| !*over);
                is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
                if *is_over {
                    return;
                }
                drop(is_over);
                // Weak, so that the thread does not keep a dropped lease alive.
                let Some(inner) = Weak::upgrade(&lease) else { return };
                block_on(Lease(inner).renew());
                is_over = lock(&stop.is_over);
            }
        };
        // If no thread can be started, the lease expires ten minutes after the last batch.
        let _ = std::thread::Builder::new().name("tract-lease".to_owned()).spawn(renewal);
    }
}

/// Returns the expired leases.
pub(crate) async fn expired(repo: &Repo) -> Result<Vec<(RefName, RefTarget)>> {
    let leases = repo.store().list_refs(repo.name(), RefName::leases()).await?;
    let keys: Vec<BlobKey> =
        leases.iter().filter_map(|(_, to)| to.blob()).map(BlobKey::from).collect();
    let documents = repo.store().blobs(repo.name(), &keys).await?;
    let now = repo.now_us();
    let mut documents = documents.into_iter();
    let mut expired = Vec::new();
    for (name, target) in leases {
        let document = target.blob().and_then(|_| documents.next()).flatten();
        let document = document.map(|blob| serde_json::from_slice::<Document>(blob.bytes()));
        let holds = match document {
            Some(Ok(document)) => {
                document.until > now && !document.process.is_some_and(|holder| holder.is_gone())
            }
            // A document of a later version cannot be judged here, so the lease is valid.
            Some(Err(_)) => true,
            None => false,
        };
        if !holds {
            expired.push((name, target));
        }
    }
    Ok(expired)
}

/// Deletes the expired leases. One that is renewed at the same time stays.
pub(crate) async fn delete_expired(repo: &Repo) -> Result<()> {
    let operation = Operation::begin()?;
    for (name, target) in expired(repo).await? {
        let mut batch = repo.batch(&operation, "gc")?;
        batch.refs = vec![RefEdit { name, expect: Expect::Is(target), to: None }];
        let _renewed = apply_to_store_once(repo.store().as_ref(), repo.name(), &batch).await?;
    }
    Ok(())
}

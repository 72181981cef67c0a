use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::batch::{Batch, DerivedKind};
use crate::commit::Commit;
use crate::id::{BatchId, CommitId, OperationId, RepoName, ToolId, ToolsetId};
use crate::object::{Blob, IdPrefix, ObjectId, ToolDefinition, Toolset};
use crate::refs::{Conflict, Expect, LogEntry, LogNote, RefName, RefTarget};
use crate::store::{
    BlobKey, Capabilities, Damage, JoinBatches, LogQuery, Store, StoreStats, Walk, WalkPage,
};

/// Notes the size of each group, tells when a group begins and lets it end on request.
#[derive(Debug)]
struct Gate {
    groups: Mutex<Vec<usize>>,
    /// How many joined each group, where any may.
    joined: Option<Mutex<Vec<usize>>>,
    entered: Mutex<Sender<()>>,
    leave: Mutex<Receiver<()>>,
}

fn gate() -> (Gate, Receiver<()>, Sender<()>) {
    let (entered, has_entered) = channel();
    let (may_leave, leave) = channel();
    let (entered, leave) = (entered.into(), leave.into());
    let gate = Gate { groups: Mutex::default(), joined: None, entered, leave };
    (gate, has_entered, may_leave)
}

fn no<T>() -> StoreResult<T> {
    Err(StoreError::new(StoreErrorKind::Unsupported, "gate", "read", "nothing is read here"))
}

impl BlockingStore for Gate {
    fn backend(&self) -> &'static str {
        "gate"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_MEMORY
    }
    fn blobs(&self, _: &RepoName, _: &[BlobKey]) -> StoreResult<Vec<Option<Blob>>> {
        no()
    }
    fn toolsets(&self, _: &RepoName, _: &[ToolsetId]) -> StoreResult<Vec<Option<Toolset>>> {
        no()
    }
    fn resolve_prefix(&self, _: &RepoName, _: &IdPrefix, _: usize) -> StoreResult<Vec<ObjectId>> {
        no()
    }
    fn commits(&self, _: &RepoName, _: &[CommitId]) -> StoreResult<Vec<Option<Commit>>> {
        no()
    }
    fn walk(&self, _: &RepoName, _: Walk) -> StoreResult<WalkPage> {
        no()
    }
    fn tools(&self, _: &RepoName, _: &[ToolId]) -> StoreResult<Vec<Option<ToolDefinition>>> {
        no()
    }
    fn tools_by_name(&self, _: &RepoName, _: &str) -> StoreResult<Vec<ToolDefinition>> {
        no()
    }
    fn tool_names(&self, _: &RepoName) -> StoreResult<Vec<String>> {
        no()
    }
    fn refs(&self, _: &RepoName, _: &[RefName]) -> StoreResult<Vec<Option<RefTarget>>> {
        no()
    }
    fn list_refs(&self, _: &RepoName, _: &str) -> StoreResult<Vec<(RefName, RefTarget)>> {
        no()
    }
    fn ref_log(&self, _: &RepoName, _: &LogQuery) -> StoreResult<Vec<LogEntry>> {
        no()
    }
    fn derived(
        &self,
        _: &RepoName,
        _: DerivedKind,
        _: &[CommitId],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        no()
    }
    fn drop_derived(&self, _: &RepoName) -> StoreResult<()> {
        no()
    }
    fn repos(&self) -> StoreResult<Vec<RepoName>> {
        no()
    }
    fn stats(&self, _: &RepoName) -> StoreResult<StoreStats> {
        no()
    }
    fn check(&self, _: &RepoName, _: bool) -> StoreResult<Vec<Damage>> {
        no()
    }
    fn apply_group(&self, group: &[(RepoName, Batch)]) -> Vec<StoreResult<Applied>> {
        self.entered.lock().unwrap().send(()).unwrap();
        self.leave.lock().unwrap().recv().unwrap();
        self.groups.lock().unwrap().push(group.len());
        if group.iter().any(|(_, batch)| batch.note.what == "panic") {
            panic!("as asked");
        }
        group.iter().map(|(_, batch)| self.answer(&batch.note.what)).collect()
    }
    fn apply_joined(
        &self,
        group: &[(RepoName, Batch)],
        joining: &mut JoinBatches<'_>,
    ) -> Vec<StoreResult<Applied>> {
        let mut answers = self.apply_group(group);
        if let Some(sizes) = &self.joined {
            let joined = joining();
            sizes.lock().unwrap().push(joined.len());
            assert!(joined.iter().all(|(_, batch)| batch.note.what != "panic"), "as asked");
            answers.extend(joined.iter().map(|(_, batch)| self.answer(&batch.note.what)));
        }
        answers
    }
}

impl Gate {
    /// What a store answers that forgets its losers when a flush fails.
    fn answer(&self, what: &str) -> StoreResult<Applied> {
        match what {
            "lose" => Ok(Applied::Conflict(Conflict {
                name: RefName::branch("main").unwrap(),
                expected: Expect::Absent,
                found: Some(RefTarget::Commit(CommitId::from_bytes([1; 32]))),
            })),
            "fail" => Err(StoreError::new(StoreErrorKind::Unknown, "gate", "apply", "no flush")),
            _ => Ok(Applied::Done),
        }
    }
}

fn batch(what: &str) -> Batch {
    let note = LogNote {
        operation: OperationId::from_bytes([0; 16]),
        what: what.to_owned(),
        who: "test".to_owned(),
        why: None,
        undoes: None,
        at: 0,
    };
    Batch::new(BatchId::from_bytes([0; 16]), note)
}

fn apply(store: &Arc<ThreadedStore<Gate>>) -> thread::JoinHandle<StoreResult<Applied>> {
    let store = Arc::clone(store);
    thread::spawn(move || crate::block_on(store.apply(&RepoName::default(), batch("test"))))
}

/// A store that is writing a first batch, and may not end that before it is let.
struct HeldWrite {
    store: Arc<ThreadedStore<Gate>>,
    first: thread::JoinHandle<StoreResult<Applied>>,
    entered: Receiver<()>,
    leave: Sender<()>,
}

impl HeldWrite {
    fn new(mode: WriteMode, accepts_joiners: bool) -> Self {
        let (mut gate, entered, leave) = gate();
        gate.joined = accepts_joiners.then(Mutex::default);
        let store = Arc::new(ThreadedStore::new(gate, mode));
        let first = apply(&store);
        entered.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { store, first, entered, leave }
    }
}

/// Waits until the queue has so many batches.
fn queued(store: &ThreadedStore<Gate>, count: usize) {
    while store.shared.queue.len() < count {
        thread::yield_now();
    }
}

#[test]
fn batches_that_arrive_during_a_write_are_one_group() {
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        let HeldWrite { store, first, entered: _entered, leave } = HeldWrite::new(mode, false);
        let others: Vec<_> = (0..5).map(|_| apply(&store)).collect();
        queued(&store, 5);
        leave.send(()).unwrap();
        leave.send(()).unwrap();
        assert_eq!(first.join().unwrap().unwrap(), Applied::Done);
        for other in others {
            assert_eq!(other.join().unwrap().unwrap(), Applied::Done);
        }
        assert_eq!(*store.store().groups.lock().unwrap(), [1, 5], "{mode:?}");
    }
}

#[test]
fn in_place_and_inline_start_no_thread_for_a_lone_writer() {
    for wrap in [|gate| ThreadedStore::new(gate, WriteMode::InPlace), ThreadedStore::inline] {
        let (gate, _entered, leave) = gate();
        leave.send(()).unwrap();
        let store = wrap(gate);
        let written = crate::block_on(store.apply(&RepoName::default(), batch("test")));
        assert_eq!(written.unwrap(), Applied::Done);
        assert!(store.thread.lock().unwrap().is_none());
    }
}

#[test]
fn dropping_writes_what_is_queued() {
    let HeldWrite { store, first, entered: _entered, leave } =
        HeldWrite::new(WriteMode::Thread, false);
    let second = apply(&store);
    queued(&store, 1);
    let shared = Arc::clone(&store.shared);
    leave.send(()).unwrap();
    leave.send(()).unwrap();
    drop(store);
    assert_eq!(first.join().unwrap().unwrap(), Applied::Done);
    assert_eq!(second.join().unwrap().unwrap(), Applied::Done);
    assert_eq!(*shared.store.groups.lock().unwrap(), [1, 1]);
}

#[test]
fn closed_means_closed() {
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        let (gate, _entered, _leave) = gate();
        let store = ThreadedStore::new(gate, mode);
        crate::block_on(store.close()).unwrap();
        crate::block_on(store.close()).unwrap();
        let refused = crate::block_on(store.apply(&RepoName::default(), batch("test")));
        assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Unavailable);
    }
}

#[test]
fn a_panic_of_the_store_is_answered_and_ends_writing() {
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        let (gate, _entered, leave) = gate();
        leave.send(()).unwrap();
        let store = ThreadedStore::new(gate, mode);
        let repo = RepoName::default();
        let first = crate::block_on(store.apply(&repo, batch("panic"))).unwrap_err();
        assert_eq!(first.kind, StoreErrorKind::Unknown);
        let second = crate::block_on(store.apply(&repo, batch("test"))).unwrap_err();
        assert_eq!(second.kind, StoreErrorKind::Poisoned);
    }
}

#[test]
fn a_full_queue_makes_callers_wait_and_loses_none() {
    let HeldWrite { store, first, entered: _entered, leave } =
        HeldWrite::new(WriteMode::Thread, false);
    let repo = RepoName::default();
    let waiting = in_queue((0..1100).map(|_| Box::pin(store.apply(&repo, batch("test")))));
    assert_eq!(store.shared.queue.len(), 1024);
    (0..1101).for_each(|_| leave.send(()).unwrap());
    assert_eq!(first.join().unwrap().unwrap(), Applied::Done);
    for future in waiting {
        assert_eq!(crate::block_on(future).unwrap(), Applied::Done);
    }
    let groups = store.store().groups.lock().unwrap();
    assert_eq!(groups.iter().sum::<usize>(), 1101);
    assert!(groups.iter().all(|size| *size <= 256), "{groups:?}");
}

/// Queues a winner and one that loses to it, so that both are in one group whose flush is held;
/// returns the loser's answer after the flush.
fn loser_of(winner: &str, mode: WriteMode) -> StoreResult<Applied> {
    let HeldWrite { store, first, entered, leave } = HeldWrite::new(mode, false);
    let repo = RepoName::default();
    let both = in_queue([winner, "lose"].map(|what| Box::pin(store.apply(&repo, batch(what)))));
    leave.send(()).unwrap();
    assert_eq!(first.join().unwrap().unwrap(), Applied::Done);
    // The group of both is in the store's hands, its flush is held: neither has an answer.
    entered.recv().unwrap();
    let mut both = in_queue(both);
    leave.send(()).unwrap();
    let error = crate::block_on(both.pop().unwrap());
    assert_eq!(crate::block_on(both.pop().unwrap()).is_ok(), winner == "win");
    assert_eq!(*store.store().groups.lock().unwrap(), [1, 2]);
    error
}

#[test]
fn conflict_waits_for_flush() {
    for mode in [WriteMode::Thread, WriteMode::InPlace] {
        assert!(matches!(loser_of("win", mode).unwrap(), Applied::Conflict(_)));
        // The state that it would have lost to never became durable.
        assert_eq!(loser_of("fail", mode).unwrap_err().kind, StoreErrorKind::Unknown);
    }
}

/// Puts writes into the queue, or finds them waiting.
fn in_queue<F: Future + Unpin>(writes: impl IntoIterator<Item = F>) -> Vec<F> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut writes: Vec<F> = writes.into_iter().collect();
    for write in &mut writes {
        assert!(std::pin::Pin::new(write).poll(&mut context).is_pending());
    }
    writes
}

/// Sends five writes while a store that accepts joiners writes the first; returns all six answers.
fn answers_with_joiners(what: &str) -> (Vec<StoreResult<Applied>>, Arc<ThreadedStore<Gate>>) {
    let HeldWrite { store, first, entered: _entered, leave } =
        HeldWrite::new(WriteMode::Thread, true);
    let repo = RepoName::default();
    let others = ["test", what, "lose", "test", "test"];
    let others = in_queue(others.map(|what| Box::pin(store.apply(&repo, batch(what)))));
    leave.send(()).unwrap();
    let first = first.join().unwrap();
    let answers = std::iter::once(first).chain(others.into_iter().map(crate::block_on)).collect();
    (answers, store)
}

#[test]
fn writes_during_a_group_commit_join_it() {
    let (answers, store) = answers_with_joiners("test");
    let lost = |answer: &StoreResult<Applied>| matches!(answer, Ok(Applied::Conflict(_)));
    assert_eq!(
        answers.iter().map(lost).collect::<Vec<_>>(),
        [false, false, false, true, false, false]
    );
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(*store.store().groups.lock().unwrap(), [1]);
    assert_eq!(*store.store().joined.as_ref().unwrap().lock().unwrap(), [5]);
}

#[test]
fn those_who_joined_share_what_becomes_of_a_group() {
    for (what, expected) in [("fail", "no flush"), ("panic", "the store panicked while it wrote")] {
        let (answers, _) = answers_with_joiners(what);
        assert_eq!(answers.len(), 6);
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap_err).collect();
        assert!(answers.iter().all(|error| error.kind == StoreErrorKind::Unknown), "{answers:?}");
        assert!(answers.iter().any(|error| error.message == expected), "{answers:?}");
    }
}

#[test]
fn no_more_join_than_one_transaction_may_hold() {
    let HeldWrite { store, first, entered: _entered, leave } =
        HeldWrite::new(WriteMode::Thread, true);
    let repo = RepoName::default();
    let others = in_queue((0..300).map(|_| Box::pin(store.apply(&repo, batch("test")))));
    leave.send(()).unwrap();
    leave.send(()).unwrap();
    assert_eq!(first.join().unwrap().unwrap(), Applied::Done);
    for other in others {
        assert_eq!(crate::block_on(other).unwrap(), Applied::Done);
    }
    assert_eq!(*store.store().groups.lock().unwrap(), [1, 45]);
    assert_eq!(*store.store().joined.as_ref().unwrap().lock().unwrap(), [255, 0]);
}

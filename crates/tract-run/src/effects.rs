//! Claims on the effects of calls: documents under `effects/`, outside of every branch and out of
//! `undo`'s reach.
//!
//! One run at a time works on the calls of a message, over all branches that contain it. It holds
//! `effects/<message>/turn`, and others wait for it. Each call with an effect is claimed in
//! `effects/<message>/<index>` before its tool runs, by compare-and-swap, in the batch that stores
//! the start marker on the branch. The answer is added to the claim when it arrives. So a fork, a
//! run after an undo and a concurrent run find the answer and do not run the tool again.

mod beat;
mod doc;
mod holder;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tract_core::{Applied, BlobId, CommitId, RefName, RefTarget};
use tract_engine::plan::Request;
use tract_engine::{BatchAttachment, Repo, Txn, WriteOptions};
use tract_tools::dispatch::{CallStart, Recorded, Start};

use self::beat::Heartbeat;
use self::doc::{CallDoc, CallState, TurnDoc, call_ref, parse, prefix, put, turn_ref};
use self::holder::{Holder, HolderName};
use crate::error::{Result, RunError};

/// Lease of a run whose process cannot be inspected. A run renews its lease three times within it.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Minimum lease. A shorter one would write almost without pause.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The answer to a call that was running when the process ended.
pub(crate) const INTERRUPTED: &str = "interrupted, outcome unknown: the tool may have run, and the \
    process ended before it answered. Find out what became of it before you ask for it again.";
/// The text for the model that replaces an erased answer.
pub(crate) const ERASED_ANSWER: &str = "The tool ran, and its answer was erased.";

/// The state of the effect of a call.
#[derive(Clone, Debug)]
pub(crate) enum EffectStatus {
    /// The tool answered.
    Answered(Recorded),
    /// The tool was started and no answer is known: the branch, and whether a person had approved
    /// it.
    Unknown { branch: String, approved: bool },
}

/// The hold of a run on the calls of a message.
#[derive(Clone, Debug)]
struct Claimant {
    repo: Repo,
    branch: RefName,
    slot: CommitId,
    name: HolderName,
    lease: Duration,
}

/// The claims of one run on the calls of one message.
#[derive(Debug)]
pub(crate) struct Effects {
    run: Claimant,
    /// Keeps the run registered as alive until this is dropped.
    _holder: Holder,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The last hold document that this run wrote, as far as known here: the heartbeat writes
    /// others. `None` if the run does not hold the calls.
    last: Option<BlobId>,
    beat: Option<Heartbeat>,
    /// Answers that are not written yet; `None` for calls that are answered as interrupted.
    outcomes: BTreeMap<u32, Option<Recorded>>,
    /// Branches that record a call as interrupted although it has been answered since.
    misled: BTreeMap<u32, BTreeSet<String>>,
    /// Calls that may be started again although they were started before.
    again: BTreeSet<u32>,
}

impl Claimant {
    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        name: &RefName,
        target: &RefTarget,
    ) -> Result<Option<T>> {
        match target.blob() {
            Some(id) => parse(name, &self.repo.require_blob(id).await?).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a hold document names this run.
    async fn is_mine(&self, name: &RefName, target: &RefTarget) -> Result<bool> {
        let doc: Option<TurnDoc> = self.read(name, target).await?;
        Ok(doc.is_some_and(|doc| doc.holder.id == self.name.id))
    }
}

impl Effects {
    /// Creates the claims of a run that has claimed nothing yet. The run counts as alive until this
    /// is dropped.
    pub(crate) fn new(
        repo: Repo,
        branch: RefName,
        slot: CommitId,
        lease: Duration,
    ) -> Result<Self> {
        let (holder, lease) = (Holder::new()?, lease.max(SHORTEST_LEASE));
        let run = Claimant { repo, branch, slot, name: holder.name().clone(), lease };
        Ok(Self { run, _holder: holder, inner: Mutex::default() })
    }

    /// Adds the hold on the calls to the write that records their message. Once that is stored,
    /// call [`begun`](Self::begun) with the returned id of the document.
    pub(crate) fn put_in(&self, txn: &mut Txn<'_>) -> Result<BlobId> {
        put(txn, &turn_ref(self.run.slot)?, None, &TurnDoc::of(&self.run))
    }

    /// Records that the hold document is stored, and starts the heartbeat.
    pub(crate) fn begun(&self, marker: BlobId) {
        let mut inner = self.inner();
        if inner.last.replace(marker).is_none() {
            inner.beat = Heartbeat::start(&self.run);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows an idempotent call that was started before to be started again.
    pub(crate) fn allow_again(&self, index: u32) {
        self.inner().again.insert(index);
    }

    /// Returns whether a tool's answer is not written yet.
    pub(crate) fn has_answers(&self) -> bool {
        self.inner().outcomes.values().any(Option::is_some)
    }

    /// Records that a call is answered as interrupted. It is written with the answer.
    pub(crate) fn give_up(&self, index: u32) {
        self.inner().outcomes.entry(index).or_default();
    }

    /// Returns the known states of the calls' effects, by index.
    pub(crate) async fn known(&self) -> Result<BTreeMap<u32, EffectStatus>> {
        let prefix = prefix(self.run.slot);
        let mut known = BTreeMap::new();
        let repo = &self.run.repo;
        let refs = repo.store().list_refs(repo.name(), &prefix).await;
        for (name, target) in refs.map_err(tract_engine::Error::from)? {
            let index = name.as_str().strip_prefix(&prefix).and_then(|index| index.parse().ok());
            let (Some(index), Some(blob)) = (index, target.blob()) else { continue };
            let blob = match repo.require_blob(blob).await {
                Ok(blob) => blob,
                Err(error) => match erased_answer(&error) {
                    Some(answer) => {
                        known.insert(index, EffectStatus::Answered(answer));
                        continue;
                    }
                    None => return Err(error.into()),
                },
            };
            let doc: CallDoc = parse(&name, &blob)?;
            let found = match doc.answer() {
                Some(answer) => EffectStatus::Answered(answer),
                None => EffectStatus::Unknown { branch: doc.branch, approved: doc.approved },
            };
            known.insert(index, found);
        }
        Ok(known)
    }

    /// Returns whether a hold document names this run.
    async fn is_mine(&self, name: &RefName, target: &RefTarget) -> Result<bool> {
        // Saves reading the document in the usual case. The heartbeat writes other documents, so a
        // difference proves nothing.
        let is_last = target.blob().is_some() && target.blob() == self.inner().last;
        Ok(is_last || self.run.is_mine(name, target).await?)
    }

    /// Claims the effect of a call, in one durable write with `note` on the branch.
    pub(crate) async fn start(
        &self,
        index: u32,
        call: &CallStart,
        note: &Request,
    ) -> Result<Start> {
        let names = [turn_ref(self.run.slot)?, call_ref(self.run.slot, index)?];
        let [turn, claim] = &names;
        let mut races = self.run.repo.races();
        loop {
            let found = self.run.repo.store().refs(self.run.repo.name(), &names).await;
            let mut found = found.map_err(tract_engine::Error::from)?.into_iter();
            // Both refs in one read: the checks below and the conditions of the batch must be about
            // one state.
            let (at_turn, at_claim) = (found.next().flatten(), found.next().flatten());
            if let Some(start) = self.keeps_from_starting(turn, at_turn.as_ref()).await? {
                return Ok(start);
            }
            let doc = match &at_claim {
                Some(target) => match self.run.read::<CallDoc>(claim, target).await {
                    Err(RunError::Engine(error)) => match erased_answer(&error) {
                        Some(answer) => return Ok(Start::Answered(answer)),
                        None => return Err(error.into()),
                    },
                    read => read?,
                },
                None => None,
            };
            if let Some(doc) = doc {
                if let Some(answer) = doc.answer() {
                    return Ok(Start::Answered(answer));
                }
                // A person has approved one run of the call, so it is not started twice even if the
                // tool is idempotent.
                if doc.approved || !self.inner().again.contains(&index) {
                    self.give_up(index);
                    return Ok(Start::Interrupted(INTERRUPTED.to_owned()));
                }
            }
            // Start marker, hold and claim are one batch, conditional on both refs as read above.
            // Written one by one, a crash could leave a marker without a claim, and another run
            // could take the calls between the check and the claim.
            let mut txn = Txn::new(&self.run.repo)?;
            txn.add(&self.run.branch, note).await?;
            let marker = put(&mut txn, turn, at_turn, &TurnDoc::of(&self.run))?;
            put(&mut txn, claim, at_claim, &CallDoc::started(call, &self.run))?;
            match txn.apply("start", &WriteOptions::default()).await? {
                Applied::Done | Applied::Already => {
                    self.begun(marker);
                    return Ok(Start::Begin);
                }
                Applied::Conflict(_) | Applied::Moved(_) => races.lose().await?,
            }
        }
    }

    /// Returns the run that holds the calls, if it is another one. This run has lost them then.
    async fn keeps_from_starting(
        &self,
        turn: &RefName,
        at: Option<&RefTarget>,
    ) -> Result<Option<Start>> {
        let taken = self.inner().last.is_some();
        let Some(target) = at else {
            // Another run took the calls over, and has released them since.
            return Ok(taken.then(|| Start::Held("another run".to_owned())));
        };
        if self.is_mine(turn, target).await? {
            return Ok(None);
        }
        let Some(doc) = self.run.read::<TurnDoc>(turn, target).await? else { return Ok(None) };
        // A run that held the calls and lost them must not take them back, because the other run
        // may have started some. It may only take over from a run that is known to have ended.
        let free = !taken && doc.holder.is_alive() == Some(false);
        Ok((!free).then(|| Start::Held(doc.holder.describe())))
    }

    /// Keeps the answer of a started call until the turn is written.
    pub(crate) fn finish(&self, index: u32, answer: &Recorded) {
        self.inner().outcomes.insert(index, Some(answer.clone()));
    }

    /// Adds the answers to a write. They are stored in the batch of the turn, together with the
    /// tools' state that they belong to, and not with the next start.
    async fn add_answers(&self, txn: &mut Txn<'_>) -> Result<()> {
        // Cloned and not taken: the write may conflict, and then they are added to the next one.
        // `done` drops them once they are stored.
        let outcomes = self.inner().outcomes.clone();
        for (index, outcome) in outcomes {
            let name = call_ref(self.run.slot, index)?;
            let Some(target) = self.run.repo.ref_target(&name).await? else { continue };
            let Some(mut doc) = self.run.read::<CallDoc>(&name, &target).await? else { continue };
            let mut branches = match doc.state {
                // The answer is there already.
                CallState::Answered { .. } => continue,
                CallState::Started => Vec::new(),
                CallState::Unknown { branches } => branches,
            };
            let here = self.run.branch.as_str();
            doc.state = match outcome {
                Some(answer) => {
                    self.inner().misled.entry(index).or_default().extend(branches);
                    CallState::answered(answer)
                }
                None if branches.iter().any(|branch| branch == here) => continue,
                None => {
                    branches.push(here.to_owned());
                    CallState::Unknown { branches }
                }
            };
            put(txn, &name, Some(target), &doc)?;
        }
        Ok(())
    }

    /// Writes the remaining answers and releases the calls, if no other write does.
    pub(crate) async fn release(&self) -> Result<()> {
        let mut races = self.run.repo.races();
        loop {
            let mut txn = Txn::new(&self.run.repo)?;
            self.add_to(&mut txn).await?;
            if txn.moves_refs()
                && !txn.apply("effects", &WriteOptions::default()).await?.is_stored()
            {
                races.lose().await?;
                continue;
            }
            self.done();
            return Ok(());
        }
    }

    /// Reports that the batch of [`add_to`](BatchAttachment::add_to) is stored, so no claim is
    /// open.
    pub(crate) fn done(&self) {
        let mut inner = self.inner();
        inner.beat = None;
        inner.last = None;
        inner.outcomes.clear();
    }

    /// Returns, once, the other branches that record a call as interrupted although it has an
    /// answer.
    pub(crate) fn misled_branches(&self) -> BTreeMap<u32, BTreeSet<String>> {
        let mut misled = std::mem::take(&mut self.inner().misled);
        for branches in misled.values_mut() {
            branches.remove(self.run.branch.as_str());
        }
        misled
    }
}

#[async_trait]
impl BatchAttachment for Effects {
    async fn add_to(&self, txn: &mut Txn<'_>) -> tract_engine::Result<()> {
        let add = async {
            self.add_answers(txn).await?;
            let turn = turn_ref(self.run.slot)?;
            // The hold is released in the same batch that stores the answers. Released earlier,
            // another run could start a call whose answer is not stored yet.
            if let Some(target) = self.run.repo.ref_target(&turn).await?
                && self.is_mine(&turn, &target).await?
            {
                txn.move_from(&turn, Some(target), None);
            }
            Ok(())
        };
        add.await.map_err(crate::error::into_engine)
    }
}

/// Returns the placeholder for an erased answer; `None` for another error. The tool has run, so a
/// fork must not run it again because its answer is gone.
pub(crate) fn erased_answer(error: &tract_engine::Error) -> Option<Recorded> {
    let tract_engine::Error::Erased(erasure) = error else { return None };
    let reason = &erasure.reason;
    Some(Recorded::new(format!("[erased: {reason}] {ERASED_ANSWER}")))
}

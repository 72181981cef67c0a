//! Converts the events of recordings to commits and branches, with many recordings per durable
//! write.

mod growth;
mod placing;

use std::collections::{HashMap, HashSet};

use tract_core::{
    Applied, AuthorKind, Commit, CommitId, Content, Draft, JsonText, Op, Priority, RefName,
    RefTarget,
};
use tract_engine::plan::{Details, Request, Selection};
use tract_engine::{Error, Refusal, Repo, Result, Txn, WriteOptions};
use tract_secrets::Scanner;

#[cfg(feature = "python")]
pub(crate) use self::placing::write_document;
pub(crate) use self::placing::{PlacedSession, document_ref, leads_to};
use crate::redact::{redact_json, redact_report};
use crate::report::{AnomalyKind, SessionReport};
use crate::tree::{BranchNumber, BranchStart, ItemNumber, TreeEvent};

/// Number of bytes of content to collect for one durable write.
const GROUP_BYTES: usize = 12 << 20;
/// Number of commits to collect for one durable write.
const GROUP_COMMITS: usize = 12 << 10;
/// Number of branches to move in one durable write.
const GROUP_BRANCHES: usize = 256;

/// A branch while its recording is read.
#[derive(Default)]
struct OpenBranch {
    suffix: String,
    /// The suffix of its name if the recording continues on another branch; only the conversation's
    /// branch has one.
    abandoned_suffix: Option<String>,
    start: BranchStart,
    /// The branch that it starts from, and the number of that branch's commits that it shares.
    base: Option<(BranchNumber, usize)>,
    /// Its own commits, in order.
    commits: Vec<CommitId>,
    head: Option<CommitId>,
    /// Its own calls, each with the number of commits of the branch up to it.
    calls: HashMap<String, Vec<(usize, CommitId)>>,
}

/// A written item: its commit, its branch, and the number of commits of the branch up to it.
struct StoredItem {
    commit: Option<CommitId>,
    branch: BranchNumber,
    commits: usize,
}

/// A recording that was read, but whose branches are not placed yet.
struct ReadSession {
    name: String,
    branches: Vec<OpenBranch>,
    /// The branch with the name of the recording.
    resumed: BranchNumber,
    documents: Vec<JsonText>,
    report: SessionReport,
}

/// Writes recordings. Commits are stored before any branch contains them, so other readers do not
/// see them. Branches move in groups, once all their commits are durable.
///
/// The commits are planned on a temporary ref. Each flush stores them and restores that ref, so it
/// never points to them in the store.
pub(crate) struct TreeWriter<'a> {
    repo: &'a Repo,
    txn: Txn<'a>,
    /// The temporary ref for planning. It is restored at the end of each write.
    desk: RefName,
    on_desk: Option<CommitId>,
    bytes: usize,
    fresh: HashSet<CommitId>,
    branches: Vec<OpenBranch>,
    resumed: BranchNumber,
    items: Vec<StoredItem>,
    waiting: Vec<ReadSession>,
    /// The scanner for secrets; `None` to keep secrets.
    scanner: Option<&'static Scanner>,
}

impl<'a> TreeWriter<'a> {
    pub(crate) fn new(repo: &'a Repo, scanner: Option<&'static Scanner>) -> Result<Self> {
        Ok(Self {
            scanner,
            repo,
            txn: Txn::new(repo)?.importing(),
            // A scratch ref for planning on any branch of a recording. It exists in transactions
            // only: `flush` sets it back to its stored target, so the batch does not contain it.
            desk: RefName::new("imports/desk")?,
            on_desk: None,
            bytes: 0,
            fresh: HashSet::new(),
            branches: Vec::new(),
            resumed: 0,
            items: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// Processes the next event of the current recording.
    pub(crate) async fn add(&mut self, event: TreeEvent, report: &mut SessionReport) -> Result<()> {
        self.bytes += event.size();
        match event {
            TreeEvent::Branch { after, suffix, start } => self.begin(after, suffix, start),
            TreeEvent::Resumed { branch, suffix } => self.resume(branch, suffix),
            TreeEvent::Message { branch, line, draft } => {
                let request = Request::Import(*draft);
                let commit = self.commit(branch, line, &request, report).await?;
                report.messages += 1;
                if let (Some(commit), Request::Import(draft)) = (commit, &request) {
                    self.note_calls(branch, commit, draft);
                    self.hide_late_result(branch, commit, draft, report).await?;
                }
            }
            TreeEvent::Summary { branch, line, keep, draft } => {
                self.summary(branch, line, &keep, *draft, report).await?;
            }
            TreeEvent::Note { branch, line, message, content, metadata, at } => {
                let details = Details { message: Some(message), metadata, ..import_details(at) };
                let request = Request::Note { content: Some(content), details };
                self.commit(branch, line, &request, report).await?;
            }
            TreeEvent::Edit { branch, line, item, draft } => match self.commit_of(item) {
                Some(target) => {
                    let request = Request::edit(target, &draft);
                    self.commit(branch, line, &request, report).await?;
                }
                None => self.store_item(branch, None),
            },
            TreeEvent::Skip { branch, line, items, at } => {
                let targets = items.iter().filter_map(|item| self.commit_of(*item)).collect();
                let details = import_details(at);
                let reason = Some("removed by the tool that recorded it".to_owned());
                let (priority, retention) = (Priority::Skip, None);
                let request = Request::Annotate { targets, priority, reason, retention, details };
                self.commit(branch, line, &request, report).await?;
            }
        }
        // Commits are stored before the branches that lead to them, which are placed once the whole
        // recording is read. Memory then depends on these limits and not on the size of the
        // recording.
        if self.bytes >= GROUP_BYTES || self.txn.commits().len() >= GROUP_COMMITS {
            self.flush().await?;
        }
        Ok(())
    }

    fn begin(&mut self, after: Option<usize>, suffix: String, start: BranchStart) {
        let item = after.and_then(|item| self.items.get(item));
        let base = item.map(|item| (item.branch, item.commits));
        let head = item.and_then(|item| self.head_at(item.branch, item.commits));
        self.branches.push(OpenBranch { suffix, start, base, head, ..OpenBranch::default() });
    }

    /// Moves the name of the recording to the branch on which it continues.
    fn resume(&mut self, number: BranchNumber, suffix: String) {
        let Some((first, others)) = self.branches.split_first_mut() else { return };
        let Some(branch) = number.checked_sub(1).and_then(|number| others.get_mut(number)) else {
            first.abandoned_suffix = Some(suffix);
            return;
        };
        // A branch whose messages were all left out cannot be placed, so it does not get the name.
        if branch.head.is_none() {
            return;
        }
        std::mem::swap(&mut first.start, &mut branch.start);
        let own = std::mem::replace(&mut first.suffix, suffix);
        branch.abandoned_suffix = Some(std::mem::replace(&mut branch.suffix, own));
        self.resumed = number;
    }

    fn commit_of(&self, item: ItemNumber) -> Option<CommitId> {
        self.items.get(item)?.commit
    }

    /// Returns the commit of a branch after a number of its own commits.
    fn head_at(&self, branch: BranchNumber, commits: usize) -> Option<CommitId> {
        let branch = self.branches.get(branch)?;
        match commits.checked_sub(1) {
            Some(last) => branch.commits.get(last).copied(),
            None => branch.base.and_then(|(base, commits)| self.head_at(base, commits)),
        }
    }

    /// Carries out a request on a branch. A message that breaks a limit is left out and reported.
    async fn commit(
        &mut self,
        number: BranchNumber,
        line: usize,
        request: &Request,
        report: &mut SessionReport,
    ) -> Result<Option<CommitId>> {
        let commit = match self.plan(number, request).await {
            Ok(commit) => Some(commit),
            // A message that the engine refuses is left out and reported, and the import continues.
            // A store that fails would fail for the next message as well.
            Err(error) if error.is_store_failure() => return Err(error),
            Err(error) => {
                let kind = match error {
                    Error::TooLarge(_) => AnomalyKind::TooLarge,
                    _ => AnomalyKind::UnreadableMessage,
                };
                report.anomalies.add(line, kind, format!("left out: {}", error.code()));
                None
            }
        };
        self.store_item(number, commit);
        Ok(commit)
    }

    /// Records the calls of a message.
    fn note_calls(&mut self, number: BranchNumber, commit: CommitId, draft: &Draft) {
        let Some(branch) = self.branches.get_mut(number) else { return };
        let commits = branch.commits.len();
        for call in draft.content.calls() {
            branch.calls.entry(call.id.clone()).or_default().push((commits, commit));
        }
    }

    /// Returns the newest call with this id on the path to the end of a branch.
    fn call_of(&self, number: BranchNumber, id: &str) -> Option<CommitId> {
        let (mut number, mut count) = (number, usize::MAX);
        loop {
            let branch = self.branches.get(number)?;
            let calls = branch.calls.get(id).map(Vec::as_slice).unwrap_or_default();
            if let Some((_, call)) = calls.iter().rev().find(|(commits, _)| *commits <= count) {
                return Some(*call);
            }
            (number, count) = branch.base?;
        }
    }

    /// Skips a result whose call was summarized while it was open. Providers reject a result
    /// without its call, and the summary covers both; the log keeps the pair.
    async fn hide_late_result(
        &mut self,
        number: BranchNumber,
        commit: CommitId,
        draft: &Draft,
        report: &mut SessionReport,
    ) -> Result<()> {
        let Content::ToolResult(answer) = &draft.content else { return Ok(()) };
        // A result of a visible call is bound to it.
        let is_bound = |commit: &Commit| !matches!(&commit.op, Op::Append { answers: None, .. });
        if self.txn.commits().last().is_none_or(is_bound) {
            return Ok(());
        }
        let Some(call) = self.call_of(number, &answer.call_id) else { return Ok(()) };
        if self.txn.fold(Some(commit)).await?.view().rows().any(|row| row.slot == call) {
            return Ok(());
        }
        let request = Request::Annotate {
            targets: vec![commit],
            priority: Priority::Skip,
            reason: Some("its call is summarized".to_owned()),
            retention: None,
            details: import_details(draft.created_at),
        };
        let skip = self.plan(number, &request).await?;
        report.hidden += 1;
        let Some(branch) = self.branches.get_mut(number) else { return Ok(()) };
        branch.commits.push(skip);
        branch.head = Some(skip);
        // A branch that starts after the result shares this commit as well.
        if let Some(item) = self.items.last_mut() {
            item.commits = branch.commits.len();
        }
        Ok(())
    }

    async fn plan(&mut self, number: BranchNumber, request: &Request) -> Result<CommitId> {
        let head = self.branches.get(number).and_then(|branch| branch.head);
        if self.on_desk != head {
            self.txn.move_ref(&self.desk, head.map(RefTarget::Commit)).await?;
            self.on_desk = head;
        }
        let commit = self.txn.add(&self.desk, request).await?.id();
        self.on_desk = Some(commit);
        Ok(commit)
    }

    fn store_item(&mut self, number: BranchNumber, commit: Option<CommitId>) {
        let Some(branch) = self.branches.get_mut(number) else { return };
        // An item that was left out is numbered too: later events name items by their position.
        branch.commits.extend(commit);
        branch.head = commit.or(branch.head);
        let commits = branch.commits.len();
        self.items.push(StoredItem { commit, branch: number, commits });
    }

    /// Replaces the visible messages with a summary, except for those that the tool kept.
    async fn summary(
        &mut self,
        number: BranchNumber,
        line: usize,
        keep: &[usize],
        draft: Draft,
        report: &mut SessionReport,
    ) -> Result<()> {
        let kept: HashSet<CommitId> =
            keep.iter().filter_map(|item| self.items.get(*item)?.commit).collect();
        let head = self.branches.get(number).and_then(|branch| branch.head);
        let history = self.txn.fold(head).await?;
        let rows = history.view().rows().filter(|row| {
            // A result is only kept with its call: one that arrived while the summary was written
            // is not.
            let has_call = row.answers.is_none_or(|call| kept.contains(&call.slot));
            !kept.contains(&row.slot) || !has_call
        });
        let hidden: Vec<CommitId> = rows.map(|row| row.version).collect();
        let before = history.view().len();
        drop(history);
        let request = Request::Compress {
            select: Selection::Recorded(hidden),
            content: draft.content.clone(),
            role: draft.role.clone(),
            details: Details::from(&draft),
        };
        match self.plan(number, &request).await {
            Ok(commit) => {
                let after = self.txn.fold(Some(commit)).await?.view().len();
                report.compactions += 1;
                report.hidden += (before + 1).saturating_sub(after);
                self.store_item(number, Some(commit));
                Ok(())
            }
            Err(Error::Refused(Refusal::NothingLeft { .. })) => {
                let what = "the summary hides nothing; it is a message";
                report.anomalies.add(line, AnomalyKind::EmptyCompaction, what);
                report.messages += 1;
                self.commit(number, line, &Request::Import(draft), report).await?;
                Ok(())
            }
            Err(error) if error.is_store_failure() => Err(error),
            Err(error) => {
                let what = format!("left out: {}", error.code());
                report.anomalies.add(line, AnomalyKind::UnreadableMessage, what);
                self.store_item(number, None);
                Ok(())
            }
        }
    }

    /// Ends a recording. Its branches are placed and reported together with those of others.
    ///
    /// `name` is the branch of the conversation, `documents` the documents of its branches.
    pub(crate) async fn end(
        &mut self,
        name: String,
        mut documents: Vec<JsonText>,
        mut report: SessionReport,
    ) -> Result<Vec<PlacedSession>> {
        if let Some(scanner) = self.scanner {
            for document in &mut documents {
                *document = redact_json(document, scanner, &mut report);
            }
            redact_report(&mut report, scanner);
        }
        let branches = std::mem::take(&mut self.branches);
        let resumed = std::mem::take(&mut self.resumed);
        self.items = Vec::new();
        self.waiting.push(ReadSession { name, branches, resumed, documents, report });
        let count: usize = self.waiting.iter().map(|session| session.branches.len()).sum();
        if count >= GROUP_BRANCHES { self.finish().await } else { Ok(Vec::new()) }
    }

    /// Drops the current recording. No branch contains its stored commits.
    pub(crate) fn forget(&mut self) {
        self.branches = Vec::new();
        self.resumed = 0;
        self.items = Vec::new();
    }

    /// Stores the commits planned so far.
    async fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        self.on_desk = None;
        let mut next = Txn::new(self.repo)?.importing();
        let found = next.target(&self.desk).await?;
        self.txn.move_ref(&self.desk, found).await?;
        let done = std::mem::replace(&mut self.txn, next);
        store_new(self.repo, done, &mut self.fresh).await
    }
}

/// Returns the details of an imported commit.
pub(crate) fn import_details(at: Option<i64>) -> Details {
    Details { origin: AuthorKind::Import.into(), created_at: at, ..Details::default() }
}

/// Applies a write if any of its commits is new, and adds the new ones to `fresh`.
pub(crate) async fn store_new(
    repo: &Repo,
    txn: Txn<'_>,
    fresh: &mut HashSet<CommitId>,
) -> Result<()> {
    let made: Vec<CommitId> = txn.commits().iter().map(|commit| commit.id()).collect();
    // Before the write: after it, new and known commits could not be distinguished, and the report
    // counts the new ones.
    let stored = repo.store().commits(repo.name(), &made).await?;
    let before = fresh.len();
    let new = made.iter().zip(&stored).filter(|(_, stored)| stored.is_none());
    fresh.extend(new.map(|(id, _)| *id));
    // Everything is stored already. Importing a recording again writes nothing, not even an entry
    // in the ref log.
    if fresh.len() == before {
        return Ok(());
    }
    match txn.apply("import", &WriteOptions::default()).await? {
        Applied::Done | Applied::Already => Ok(()),
        Applied::Conflict(conflict) => Err(conflict.into()),
        Applied::Moved(_) => Err(Error::KeptMoving { attempts: 1 }),
    }
}

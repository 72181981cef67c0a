//! From the events of recordings to commits and branches, many recordings to a durable write.

mod placing;

use std::collections::HashSet;

use tract_core::{Applied, AuthorKind, CommitId, Draft, JsonText, Priority, RefName, RefTarget};
use tract_engine::plan::{Details, Request, Selection};
use tract_engine::{Error, Refusal, Repo, Result, Txn, WriteOptions};
use tract_secrets::Scanner;

#[cfg(feature = "python")]
pub(crate) use self::placing::write_document;
pub(crate) use self::placing::{PlacedSession, document_ref, leads_to};
use crate::redact::{redact_json, redact_report};
use crate::report::{AnomalyKind, SessionReport};
use crate::tree::{BranchNumber, BranchStart, ItemNumber, TreeEvent};

/// Bytes of content that are collected for one durable write.
const GROUP_BYTES: usize = 12 << 20;
/// Commits that are collected for one durable write.
const GROUP_COMMITS: usize = 12 << 10;
/// Branches that are moved in one durable write.
const GROUP_BRANCHES: usize = 256;

/// A branch while its recording is read.
struct OpenBranch {
    suffix: String,
    start: BranchStart,
    /// The branch that it begins in, and how many of that one's commits it shares.
    base: Option<(BranchNumber, usize)>,
    /// Its own commits, in order.
    commits: Vec<CommitId>,
    head: Option<CommitId>,
}

/// What became of an item: its commit, its branch, and its place among the commits of the branch.
struct StoredItem {
    commit: Option<CommitId>,
    branch: BranchNumber,
    commits: usize,
}

/// A recording that was read, whose branches are not placed yet.
struct ReadSession {
    name: String,
    branches: Vec<OpenBranch>,
    documents: Vec<JsonText>,
    report: SessionReport,
}

/// Writes recordings. Nothing that no branch holds is seen by other readers; branches move in
/// groups, when all their commits are durable.
pub(crate) struct TreeWriter<'a> {
    repo: &'a Repo,
    txn: Txn<'a>,
    /// What the branch in work is called while its commits are planned; it is restored at the end.
    desk: RefName,
    on_desk: Option<CommitId>,
    bytes: usize,
    fresh: HashSet<CommitId>,
    branches: Vec<OpenBranch>,
    items: Vec<StoredItem>,
    waiting: Vec<ReadSession>,
    /// What finds secrets; none where they are imported as they are.
    scanner: Option<&'static Scanner>,
}

impl<'a> TreeWriter<'a> {
    pub(crate) fn new(repo: &'a Repo, scanner: Option<&'static Scanner>) -> Result<Self> {
        Ok(Self {
            scanner,
            repo,
            txn: Txn::new(repo)?.importing(),
            desk: RefName::new("imports/desk")?,
            on_desk: None,
            bytes: 0,
            fresh: HashSet::new(),
            branches: Vec::new(),
            items: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// Takes the next event of the recording that is read.
    pub(crate) async fn add(&mut self, event: TreeEvent, report: &mut SessionReport) -> Result<()> {
        self.bytes += event.size();
        match event {
            TreeEvent::Branch { after, suffix, start } => self.begin(after, suffix, start),
            TreeEvent::Message { branch, line, draft } => {
                self.commit(branch, line, &Request::Import(*draft), report).await?;
                report.messages += 1;
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
        if self.bytes >= GROUP_BYTES || self.txn.commits().len() >= GROUP_COMMITS {
            self.flush().await?;
        }
        Ok(())
    }

    fn begin(&mut self, after: Option<usize>, suffix: String, start: BranchStart) {
        let item = after.and_then(|item| self.items.get(item));
        let base = item.map(|item| (item.branch, item.commits));
        let head = item.and_then(|item| self.head_at(item.branch, item.commits));
        self.branches.push(OpenBranch { suffix, start, base, commits: Vec::new(), head });
    }

    fn commit_of(&self, item: ItemNumber) -> Option<CommitId> {
        self.items.get(item)?.commit
    }

    /// The commit of a branch after so many of its own.
    fn head_at(&self, branch: BranchNumber, commits: usize) -> Option<CommitId> {
        let branch = self.branches.get(branch)?;
        match commits.checked_sub(1) {
            Some(last) => branch.commits.get(last).copied(),
            None => branch.base.and_then(|(base, commits)| self.head_at(base, commits)),
        }
    }

    /// Carries out a request on a branch. What breaks a limit is left out and reported.
    async fn commit(
        &mut self,
        number: BranchNumber,
        line: usize,
        request: &Request,
        report: &mut SessionReport,
    ) -> Result<()> {
        let commit = match self.plan(number, request).await {
            Ok(commit) => Some(commit),
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
        branch.commits.extend(commit);
        branch.head = commit.or(branch.head);
        let commits = branch.commits.len();
        self.items.push(StoredItem { commit, branch: number, commits });
    }

    /// Puts a summary in the place of what is shown, but for what the tool kept.
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
        let line_of = self.txn.line(head).await?;
        let hidden: Vec<CommitId> = line_of
            .view()
            .rows()
            .filter(|row| !kept.contains(&row.slot))
            .map(|row| row.version)
            .collect();
        let before = line_of.view().len();
        drop(line_of);
        let request = Request::Compress {
            select: Selection::Exactly(hidden),
            content: draft.content.clone(),
            role: draft.role.clone(),
            details: Details::from(&draft),
        };
        match self.plan(number, &request).await {
            Ok(commit) => {
                let after = self.txn.line(Some(commit)).await?.view().len();
                report.compactions += 1;
                report.hidden += (before + 1).saturating_sub(after);
                self.store_item(number, Some(commit));
                Ok(())
            }
            Err(Error::Refused(Refusal::NothingLeft { .. })) => {
                let what = "the summary hides nothing; it is a message";
                report.anomalies.add(line, AnomalyKind::EmptyCompaction, what);
                report.messages += 1;
                self.commit(number, line, &Request::Import(draft), report).await
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

    /// Ends a recording. Its branches are placed with those of others, and reported then.
    ///
    /// `name` is the branch of the conversation, `documents` what else belongs to each branch.
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
        self.items = Vec::new();
        self.waiting.push(ReadSession { name, branches, documents, report });
        let count: usize = self.waiting.iter().map(|session| session.branches.len()).sum();
        if count >= GROUP_BRANCHES { self.finish().await } else { Ok(Vec::new()) }
    }

    /// Leaves the recording that is read; what was stored of it no branch holds.
    pub(crate) fn forget(&mut self) {
        self.branches = Vec::new();
        self.items = Vec::new();
    }

    /// Stores what was planned so far.
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

/// What a commit of an import says of where it comes from.
pub(crate) fn import_details(at: Option<i64>) -> Details {
    Details { origin: AuthorKind::Import.into(), created_at: at, ..Details::default() }
}

/// Applies a write where any of its commits is new, and adds those that are to `fresh`.
pub(crate) async fn store_new(
    repo: &Repo,
    txn: Txn<'_>,
    fresh: &mut HashSet<CommitId>,
) -> Result<()> {
    let made: Vec<CommitId> = txn.commits().iter().map(|commit| commit.id()).collect();
    let stored = repo.store().commits(repo.name(), &made).await?;
    let before = fresh.len();
    let new = made.iter().zip(&stored).filter(|(_, stored)| stored.is_none());
    fresh.extend(new.map(|(id, _)| *id));
    if fresh.len() == before {
        return Ok(());
    }
    match txn.apply("import", &WriteOptions::default()).await? {
        Applied::Done | Applied::Already => Ok(()),
        Applied::Conflict(conflict) => Err(conflict.into()),
    }
}

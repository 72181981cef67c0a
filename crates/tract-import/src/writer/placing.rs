//! Places the branches of recordings: under their own names, or next to branches with other
//! commits.

use std::collections::{HashMap, HashSet};

use tract_core::store::StoreExt as _;
use tract_core::{Applied, Blob, CommitId, JsonText, RefName, RefTarget};
use tract_engine::{Error, ImportDocument, ImportStatus, Repo, Result, Txn, WriteOptions};

use super::growth::{Growth, growth};
use super::{OpenBranch, ReadSession, TreeWriter};
use crate::cache::{PlacedBranch, StoredSession, name_of};
use crate::report::{AnomalyKind, RecordedBranch, SessionReport};
use crate::tree::BranchNumber;

/// Number of tries to place a group of branches before the import fails.
const ATTEMPTS: usize = 16;
/// Maximum number of names tried for a branch, if branches of other recordings use them.
const NAMES: usize = 100;

/// A recording whose branches are placed.
pub(crate) struct PlacedSession {
    pub(crate) report: SessionReport,
    /// Its cache entry; `None` if it cannot be cached.
    pub(crate) stored: Option<StoredSession>,
}

impl TreeWriter<'_> {
    /// Places the branches of all recordings that were read. Returns their reports.
    pub(crate) async fn finish(&mut self) -> Result<Vec<PlacedSession>> {
        // Commits first: the branches below must not lead to commits that are not stored.
        self.flush().await?;
        let waiting = std::mem::take(&mut self.waiting);
        for _ in 0..ATTEMPTS {
            let mut txn = Txn::new(self.repo)?.importing();
            self.look_up(&mut txn, &waiting).await?;
            let mut reports = Vec::with_capacity(waiting.len());
            let mut counted = HashSet::new();
            for session in &waiting {
                reports.push(self.place(&mut txn, session, &mut counted).await?);
            }
            let is_done = !txn.moves_refs()
                || match txn.apply("import", &WriteOptions::default()).await? {
                    Applied::Done | Applied::Already => true,
                    Applied::Conflict(_) | Applied::Moved(_) => false,
                };
            if is_done {
                // Only after the write: a lost race places the sessions again, and must count the
                // same commits as new.
                self.fresh.retain(|id| !counted.contains(id));
                return Ok(reports);
            }
        }
        Err(Error::KeptMoving { attempts: ATTEMPTS })
    }

    /// Places the branches of a recording. A new commit is counted once, even if several recordings
    /// contain it: `counted` has those already counted.
    async fn place(
        &self,
        txn: &mut Txn<'_>,
        session: &ReadSession,
        counted: &mut HashSet<CommitId>,
    ) -> Result<PlacedSession> {
        let mut report = session.report.clone();
        let mut stored = Vec::with_capacity(session.branches.len());
        let siblings = Siblings::of(session);
        // The first number to try for each name: smaller ones belong to branches of this recording.
        let mut first: HashMap<String, usize> = HashMap::new();
        // The commit that the conversation moved away from, and the branches in the order of the
        // report.
        let (mut previous, mut numbers) = (None, Vec::new());
        // A truncated recording is not cached, so it is read every time.
        let mut is_stored = true;
        // Whether the recording is an older state of what was imported before.
        let mut is_older = false;
        // Place the conversation first, so that no other branch takes its name.
        let others = (0..session.branches.len()).filter(|number| *number != session.resumed);
        for number in std::iter::once(session.resumed).chain(others) {
            let Some(branch) = session.branches.get(number) else { continue };
            let Some(head) = branch.head else { continue };
            let is_conversation = number == session.resumed;
            let meta = session.documents.get(number);
            let line = Ancestors { session, number };
            let commits = line.iter().count();
            let fresh = branch.commits.iter().filter(|id| self.fresh.contains(id));
            // Branches share commits. Each is counted for the first branch that has it.
            let new = fresh.filter(|id| counted.insert(**id)).count();
            let plain = format!("{}{}", session.name, branch.suffix);
            let (mut placed, mut abandoned) = (None, None);
            let mut rejected = Vec::new();
            let begin = first.get(&plain).copied().unwrap_or(1);
            for attempt in begin.. {
                if rejected.len() >= NAMES {
                    break;
                }
                let name = name_of(&plain, attempt);
                let at = RefName::branch(&name)?;
                let found = txn.target(&at).await?.and_then(|target| target.commit());
                let (status, moves) = match found {
                    // An older state has a branch that the newer one merged into another.
                    None if is_older && !is_conversation => {
                        match self.branch_with(session, head).await? {
                            Some(name) => {
                                abandoned = Some(name);
                                break;
                            }
                            None => (ImportStatus::Created, true),
                        }
                    }
                    None => (ImportStatus::Created, true),
                    Some(found) if found == head => (ImportStatus::Unchanged, true),
                    Some(found) if is_conversation && line.iter().any(|id| id == found) => {
                        (ImportStatus::Forwarded, true)
                    }
                    // The session was rewound since its last import: its name moves to the branch
                    // that the tool would resume. Another branch of the recording keeps the
                    // commits. A user's own commits are not part of the recording, so a branch with
                    // any of them does not move.
                    Some(found) if is_conversation && siblings.recorded.contains(&found) => {
                        previous = Some(found);
                        (ImportStatus::Moved, true)
                    }
                    // Rewinds with the same id prefix share a name, with different numbers.
                    Some(found) if siblings.are_apart(found, head) => continue,
                    Some(found) if line.iter().any(|id| id == found) => {
                        (ImportStatus::Forwarded, true)
                    }
                    // The branch contains more than the recording, which was truncated since.
                    Some(found) if leads_to(self.repo, found, head).await? => {
                        is_older |= is_conversation;
                        (ImportStatus::Unchanged, false)
                    }
                    Some(found) => {
                        let recorded: Vec<CommitId> = line.iter().collect();
                        match growth(self.repo, found, &recorded).await? {
                            // The tool wrote the file while an answer was not complete.
                            Some(Growth::Newer) => (ImportStatus::Forwarded, true),
                            Some(Growth::Older) => {
                                is_older |= is_conversation;
                                (ImportStatus::Unchanged, false)
                            }
                            None => {
                                let root = recorded.last().copied();
                                let from = (found, root);
                                if is_conversation
                                    && let Some(name) =
                                        self.abandoned(txn, session, branch, head, from).await?
                                {
                                    is_older = true;
                                    abandoned = Some(name);
                                    break;
                                }
                                rejected.push((attempt, found));
                                continue;
                            }
                        }
                    }
                };
                let document = match meta {
                    Some(meta) => Some(self.document(txn, &name, head, meta).await?),
                    None => None,
                };
                let id = document.as_ref().map(Blob::id);
                if moves {
                    txn.move_ref(&at, Some(RefTarget::Commit(head))).await?;
                    if let Some(document) = document {
                        write_document(txn, &document_ref(&name)?, document).await?;
                    }
                }
                placed = Some((name, status, id, attempt));
                if attempt == begin {
                    first.insert(plain.clone(), attempt + 1);
                }
                break;
            }
            if let Some(name) = abandoned {
                let (status, start) = (ImportStatus::Unchanged, branch.start.clone());
                let moved_from = None;
                let branch =
                    RecordedBranch { branch: name, status, commits, new, start, moved_from };
                report.branches.push(branch);
                numbers.push(number);
                is_stored = false;
                continue;
            }
            let (name, status, document, attempt) =
                placed.unwrap_or((plain.clone(), ImportStatus::Diverged, None, 1));
            if !rejected.is_empty() {
                let what = format!("a branch of its name has other commits; it is {name}");
                report.anomalies.add(0, AnomalyKind::Diverged, what);
            }
            let start = branch.start.clone();
            let moved_from = None;
            let branch = RecordedBranch { branch: name, status, commits, new, start, moved_from };
            report.branches.push(branch);
            numbers.push(number);
            stored.push(PlacedBranch { plain, head, attempt, rejected, document });
        }
        if let Some(previous) = previous {
            let keeps = |number: &usize| {
                let branch = session.branches.get(*number);
                branch.is_some_and(|branch| branch.commits.contains(&previous))
            };
            let keeper = numbers.iter().position(keeps).and_then(|at| report.branches.get(at));
            let keeper = keeper.map(|branch| branch.branch.clone());
            if let Some(conversation) = report.branches.first_mut() {
                conversation.moved_from = keeper;
            }
        }
        let stored = is_stored.then(|| StoredSession::of(&report, stored)).flatten();
        Ok(PlacedSession { report, stored })
    }

    /// Makes the document of a branch. The title that a person gave the branch is kept.
    async fn document(
        &self,
        txn: &mut Txn<'_>,
        name: &str,
        head: CommitId,
        meta: &JsonText,
    ) -> Result<Blob> {
        let mut document = ImportDocument::new(name, Some(head), Some(meta.clone()));
        if let Some(RefTarget::Blob(id)) = txn.target(&document_ref(name)?).await? {
            let stored = self.repo.store().blob(self.repo.name(), id).await?;
            let stored = stored.as_ref().and_then(ImportDocument::parse);
            document.title = stored.and_then(|stored| stored.title);
        }
        document.seal()
    }

    /// Returns the branch that contains the whole conversation under its name for abandoned ones:
    /// the recording is then an older state of a session whose user went back since. `named` is the
    /// head of the branch that has the name of the session, `root` the first commit of the recording.
    async fn abandoned(
        &self,
        txn: &mut Txn<'_>,
        session: &ReadSession,
        branch: &OpenBranch,
        head: CommitId,
        (named, root): (CommitId, Option<CommitId>),
    ) -> Result<Option<String>> {
        if let Some(suffix) = &branch.abandoned_suffix {
            let plain = format!("{}{suffix}", session.name);
            for attempt in 1..=NAMES {
                let name = name_of(&plain, attempt);
                let found = txn.target(&RefName::branch(&name)?).await?;
                let Some(found) = found.and_then(|target| target.commit()) else { break };
                if found == head || leads_to(self.repo, found, head).await? {
                    return Ok(Some(name));
                }
            }
        }
        // A branch of this name that begins differently is another conversation, next to which the
        // recording is placed.
        match root {
            Some(root) if leads_to(self.repo, named, root).await? => {
                self.branch_with(session, head).await
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Returns a branch of the recording that contains a commit. The branch may have any suffix: the
    /// message that is in the suffix may be newer than this state of the recording.
    async fn branch_with(&self, session: &ReadSession, commit: CommitId) -> Result<Option<String>> {
        let plain = RefName::branch(&session.name)?;
        let found = self.repo.store().list_refs(self.repo.name(), plain.as_str()).await?;
        for (name, target) in found.into_iter().take(NAMES) {
            let suffix = name.as_str().strip_prefix(plain.as_str());
            let is_own = suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'));
            let Some(head) = target.commit().filter(|_| is_own) else { continue };
            if head == commit || leads_to(self.repo, head, commit).await? {
                return Ok(name.branch_name().map(str::to_owned));
            }
        }
        Ok(None)
    }

    /// Reads the heads of all branches at once.
    async fn look_up(&self, txn: &mut Txn<'_>, sessions: &[ReadSession]) -> Result<()> {
        let mut names = Vec::new();
        for session in sessions {
            for branch in session.branches.iter().filter(|branch| branch.head.is_some()) {
                let name = format!("{}{}", session.name, branch.suffix);
                names.push(RefName::branch(&name)?);
                names.push(document_ref(&name)?);
            }
        }
        txn.look_up(&names).await
    }
}

/// The heads of a recording's branches.
struct Siblings {
    /// All commits of the branches.
    recorded: HashSet<CommitId>,
    heads: HashSet<CommitId>,
    /// Commits after which a branch of the recording continues.
    continued: HashSet<CommitId>,
}

impl Siblings {
    fn of(session: &ReadSession) -> Self {
        let heads = session.branches.iter().filter_map(|branch| branch.head).collect();
        let commits = session.branches.iter().flat_map(|branch| &branch.commits);
        let recorded = commits.copied().collect();
        let mut continued = HashSet::new();
        for branch in &session.branches {
            let inner = branch.commits.split_last().map_or(&[][..], |(_, inner)| inner);
            continued.extend(inner.iter().copied());
            let before = branch.base.and_then(|(base, count)| {
                session.branches.get(base)?.commits.get(count.checked_sub(1)?).copied()
            });
            continued.extend(before);
        }
        Self { recorded, heads, continued }
    }

    /// Returns whether two different heads are of branches of the recording, neither of which continues
    /// the other.
    fn are_apart(&self, found: CommitId, head: CommitId) -> bool {
        let is_end = |id: &CommitId| self.heads.contains(id) && !self.continued.contains(id);
        is_end(&found) && is_end(&head)
    }
}

/// Returns whether a commit is on the first-parent chain of another.
pub(crate) async fn leads_to(repo: &Repo, head: CommitId, commit: CommitId) -> Result<bool> {
    let mut history = repo.history(head);
    while let Some(page) = history.next_page().await? {
        if page.iter().any(|read| read.id() == commit) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the ref of a branch's document.
pub(crate) fn document_ref(branch: &str) -> Result<RefName> {
    ImportDocument::ref_of(branch)
}

/// Writes a document and its ref, unless it is unchanged.
pub(crate) async fn write_document(
    txn: &mut Txn<'_>,
    name: &RefName,
    document: Blob,
) -> Result<()> {
    let to = RefTarget::Blob(document.id());
    if txn.target(name).await?.as_ref() != Some(&to) {
        txn.blob(document)?;
        txn.move_ref(name, Some(to)).await?;
    }
    Ok(())
}

/// All commits that lead to the head of a branch, newest first.
struct Ancestors<'a> {
    session: &'a ReadSession,
    number: BranchNumber,
}

impl<'a> Ancestors<'a> {
    fn iter(&self) -> impl Iterator<Item = CommitId> + use<'a> {
        let session = self.session;
        let all =
            session.branches.get(self.number).map(|branch| (self.number, branch.commits.len()));
        std::iter::successors(all, move |(number, _)| session.branches.get(*number)?.base).flat_map(
            move |(number, count)| {
                let own = session.branches.get(number).map_or(&[][..], |branch| &branch.commits);
                own.get(..count).unwrap_or_default().iter().rev().copied()
            },
        )
    }
}

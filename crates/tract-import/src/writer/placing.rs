//! Where the branches of recordings go: to their own names, or next to branches with other commits.

use tract_core::json::{self, Escapes};
use tract_core::{Applied, Blob, CommitId, JsonText, RefName, RefTarget, store::Walk};
use tract_engine::{Error, ImportStatus, Repo, Result, Txn, WriteOptions};

use super::{ReadSession, TreeWriter};
use crate::cache::{PlacedBranch, StoredSession, name_of};
use crate::report::{AnomalyKind, RecordedBranch, SessionReport};
use crate::tree::BranchNumber;

/// How often the branches of a group are placed before the import fails.
const ATTEMPTS: usize = 16;
/// Branches of one name that are tried, where others have different commits.
const NAMES: usize = 100;

/// A recording whose branches are placed.
pub(crate) struct PlacedSession {
    pub(crate) report: SessionReport,
    /// What tells later that nothing changed; `None` where that cannot be told.
    pub(crate) stored: Option<StoredSession>,
}

impl TreeWriter<'_> {
    /// Places the branches of all recordings that were read, and reports them.
    pub(crate) async fn finish(&mut self) -> Result<Vec<PlacedSession>> {
        self.flush().await?;
        let waiting = std::mem::take(&mut self.waiting);
        for _ in 0..ATTEMPTS {
            let mut txn = Txn::new(self.repo)?.importing();
            self.look_up(&mut txn, &waiting).await?;
            let mut reports = Vec::with_capacity(waiting.len());
            for session in &waiting {
                reports.push(self.place(&mut txn, session).await?);
            }
            if !txn.moves_refs() {
                return Ok(reports);
            }
            match txn.apply("import", &WriteOptions::default()).await? {
                Applied::Done | Applied::Already => return Ok(reports),
                Applied::Conflict(_) => {}
            }
        }
        Err(Error::KeptMoving { attempts: ATTEMPTS })
    }

    async fn place(&self, txn: &mut Txn<'_>, session: &ReadSession) -> Result<PlacedSession> {
        let mut report = session.report.clone();
        let mut stored = Vec::with_capacity(session.branches.len());
        for (number, branch) in session.branches.iter().enumerate() {
            let Some(head) = branch.head else { continue };
            let meta = session.documents.get(number);
            let line = Ancestors { session, number };
            let commits = line.iter().count();
            let new = branch.commits.iter().filter(|id| self.fresh.contains(id)).count();
            let plain = format!("{}{}", session.name, branch.suffix);
            let mut placed = None;
            let mut rejected = Vec::new();
            for attempt in 1..=NAMES {
                let name = name_of(&plain, attempt);
                let at = RefName::branch(&name)?;
                let found = txn.target(&at).await?.and_then(|target| target.commit());
                let (status, moves) = match found {
                    None => (ImportStatus::Created, true),
                    Some(found) if found == head => (ImportStatus::Unchanged, true),
                    Some(found) if line.iter().any(|id| id == found) => {
                        (ImportStatus::Forwarded, true)
                    }
                    // The branch has more than the recording: it was cut short since.
                    Some(found) if leads_to(self.repo, found, head).await? => {
                        (ImportStatus::Unchanged, false)
                    }
                    Some(found) => {
                        rejected.push(found);
                        continue;
                    }
                };
                let document = meta.map(|meta| document(&name, head, meta)).transpose()?;
                let id = document.as_ref().map(Blob::id);
                if moves {
                    txn.move_ref(&at, Some(RefTarget::Commit(head))).await?;
                    if let Some(document) = document {
                        write_document(txn, &document_ref(&name)?, document).await?;
                    }
                }
                placed = Some((name, status, id));
                break;
            }
            let (name, status, document) =
                placed.unwrap_or((plain.clone(), ImportStatus::Diverged, None));
            if name != plain || status == ImportStatus::Diverged {
                let what = format!("a branch of its name has other commits; it is {name}");
                report.anomalies.add(0, AnomalyKind::Diverged, what);
            }
            let start = branch.start.clone();
            report.branches.push(RecordedBranch { branch: name, status, commits, new, start });
            stored.push(PlacedBranch { plain, head, rejected, document });
        }
        let stored = StoredSession::of(&report, stored);
        Ok(PlacedSession { report, stored })
    }

    /// Reads where the branches are, all of them at once.
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

/// Whether a commit is on the first-parent chain of another.
pub(crate) async fn leads_to(repo: &Repo, head: CommitId, commit: CommitId) -> Result<bool> {
    let mut next = Some(head);
    while let Some(head) = next {
        let page = repo.store().walk(repo.name(), Walk::from(head)).await?;
        if page.steps.iter().any(|step| step.commit.id() == commit) {
            return Ok(true);
        }
        next = page.next;
    }
    Ok(false)
}

/// The ref of what belongs to a branch.
pub(crate) fn document_ref(branch: &str) -> Result<RefName> {
    Ok(RefName::new(format!("imports/{branch}"))?)
}

fn document(name: &str, head: CommitId, meta: &JsonText) -> Result<Blob> {
    let mut text = format!("{{\"head\":\"{head}\",\"id\":");
    json::write_string(&mut text, name, Escapes::Raw);
    text.push_str(",\"meta\":");
    text.push_str(meta.as_str());
    text.push('}');
    json::check(&text)?;
    Ok(Blob::seal(text.into_bytes()))
}

/// Puts a document where a ref finds it; one that says the same is left alone.
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

//! Negotiation: finds the commits that another repository lacks, with few requests.
//!
//! A repository with a commit that a ref leads to has all ancestors of it. So along first parents,
//! the missing commits come first and the present ones follow. The border is found by probing at
//! doubling distances and then narrowing down: O(log n) requests for n commits.
//!
//! A commit that is present but that no ref leads to proves nothing: it may be garbage whose
//! ancestors were deleted first. So behind the missing commits, the history of the receiver is
//! read, from its refs until it reaches the present commit, or else from that commit to its roots.

use std::collections::{HashSet, VecDeque};

use tract_core::store::{StoreErrorKind, Walk};
use tract_core::{Commit, CommitId, ObjectId};

use crate::history::reach::{CommitGraph, changes_of, commit_id, links};
use crate::repo::Repo;
use crate::repo::error::{Error, Result};
use crate::upkeep::restore::readable_commits;

/// Number of commits in a page of a walk, at first and at most.
const PAGES: [usize; 2] = [32, 4096];
/// Number of lines that are walked together.
const LINES: usize = 64;
/// Maximum number of ids in one request.
const IDS: usize = 512;
/// Number of commits of a line in one request while the border is narrowed down.
const NARROW: usize = 15;

/// The source of information about present commits.
pub(crate) enum Receiver<'a> {
    /// A repository.
    Repo(&'a Repo),
    /// A receiver that has given commits, and all their ancestors in the source.
    Has(Option<CommitGraph>),
}

/// The commits that a repository lacks.
pub(crate) struct MissingCommits {
    /// The commits, parents first.
    pub(crate) order: Vec<CommitId>,
    /// The commits that these link to and that are present.
    pub(crate) boundary: Vec<CommitId>,
    /// Damaged commits of the receiver; they count as missing.
    pub(crate) damaged: Vec<CommitId>,
}

/// Finds the commits that `heads` lead to and that a receiver lacks. `has` names commits that it is
/// known to have.
///
/// # Errors
/// [`Error::Damaged`] when an object that the heads lead to is damaged or missing; those of the
/// stores.
pub(crate) async fn lacking_commits(
    from: &Repo,
    to: Option<&Repo>,
    heads: &[CommitId],
    has: impl IntoIterator<Item = CommitId>,
) -> Result<MissingCommits> {
    let receiver = to.map_or(Receiver::Has(None), Receiver::Repo);
    let has: HashSet<CommitId> = has.into_iter().collect();
    let mut negotiation = Negotiation {
        from,
        receiver,
        given: has.iter().copied().collect(),
        has,
        lacks: HashSet::new(),
        damaged: Vec::new(),
        graph: CommitGraph::default(),
    };
    negotiation.run(heads).await?;
    if let Some(to) = to {
        negotiation.complete(to, heads).await?;
    }
    let Negotiation { graph, damaged, .. } = negotiation;
    Ok(MissingCommits { order: graph.parents_first(), boundary: graph.boundary(), damaged })
}

struct Negotiation<'a> {
    from: &'a Repo,
    receiver: Receiver<'a>,
    /// The commits that the receiver has according to the caller.
    given: Vec<CommitId>,
    has: HashSet<CommitId>,
    lacks: HashSet<CommitId>,
    damaged: Vec<CommitId>,
    /// The missing commits, and the commits that they link to.
    graph: CommitGraph,
}

/// A commit of a line, without its record.
struct Walked {
    id: CommitId,
    parent: Option<CommitId>,
    /// Its links except the first parent.
    others: Vec<CommitId>,
}

/// First parents from a commit on, as far as they have been read.
struct Line {
    walked: Vec<Walked>,
    next: Option<CommitId>,
    limit: usize,
    /// Number of commits, from the head on, that are known to be missing.
    lacking: usize,
    /// The index of the first commit that is known to be present.
    there: Option<usize>,
    /// The next distance to probe, counted from 1: a power of two.
    probe: usize,
    /// The indices in the current request, ascending.
    probes: Vec<usize>,
    /// Whether the line reached a present commit.
    met: bool,
}

impl Line {
    fn new(head: CommitId) -> Self {
        Self {
            walked: Vec::new(),
            next: Some(head),
            limit: PAGES[0],
            lacking: 0,
            there: None,
            probe: 1,
            probes: Vec::new(),
            met: false,
        }
    }

    /// Returns the indices between the missing and the present commits.
    fn undecided(&self) -> std::ops::Range<usize> {
        self.lacking..self.there.unwrap_or(self.walked.len())
    }

    fn questions(&self) -> impl Iterator<Item = CommitId> {
        self.probes.iter().filter_map(|place| self.walked.get(*place)).map(|walked| walked.id)
    }

    /// Chooses the indices to probe after a page: those at doubling distances from the head, and
    /// all of them if the line is complete and only few are undecided.
    fn probe(&mut self) {
        self.probes.clear();
        if self.next.is_none() && self.undecided().len() <= NARROW {
            self.probes.extend(self.undecided());
            return;
        }
        // A transfer usually brings few commits, so the border is near the head. For a long history
        // the number of questions grows with its logarithm.
        while self.probe <= self.walked.len() {
            self.probes.push(self.probe - 1);
            self.probe *= 2;
        }
    }

    /// Chooses indices between the missing and the present commits. Always includes the last one:
    /// if it is missing, all are.
    fn narrow(&mut self) {
        let open = self.undecided();
        let step = open.len().div_ceil(NARROW).max(1);
        self.probes = open.clone().step_by(step).chain(open.last()).collect();
    }

    fn is_open(&self) -> bool {
        self.there.is_none() && self.next.is_some()
    }
}

/// Returns the missing ancestors of stored commits. Commits that refs lead to are complete and not
/// examined.
pub(crate) async fn incomplete(repo: &Repo, ids: &[CommitId]) -> Result<Vec<CommitId>> {
    let (store, name) = (repo.store().as_ref(), repo.name());
    let mut ids = ids.to_vec();
    let mut reached = CommitGraph::of_first_parents();
    let refs = store.list_refs(name, "").await?;
    let mut readings = VecDeque::new();
    for head in refs.iter().filter_map(|(_, target)| target.commit()) {
        if !ids.contains(&head) {
            readings.push_back(reached.begin(head)?);
        } else {
            ids.retain(|id| *id != head);
        }
    }
    // One page of each in turn, because the commits are usually near one of the refs.
    while let Some(mut reading) = readings.pop_front() {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        if !reached.page(store, name, &mut reading).await?.is_empty() {
            ids.retain(|id| !reached.holds(*id));
            readings.push_back(reading);
        }
    }
    // Only damage in the ancestors of the given commits counts.
    reached.damage.clear();
    for id in ids {
        reached.add(store, name, id).await?;
    }
    let lost = reached.damage.into_iter().filter(|damage| !damage.derived);
    Ok(lost.filter_map(|damage| commit_id(damage.object?)).collect())
}

impl Negotiation<'_> {
    /// Adds missing ancestors of present commits that no ref leads to.
    async fn complete(&mut self, to: &Repo, heads: &[CommitId]) -> Result<()> {
        let known: HashSet<CommitId> = self.given.iter().copied().collect();
        let mut ends = self.graph.boundary();
        ends.extend(heads.iter().filter(|head| self.has.contains(*head)));
        ends.retain(|id| !known.contains(id));
        if ends.is_empty() {
            return Ok(());
        }
        let lost: HashSet<CommitId> = incomplete(to, &ends).await?.into_iter().collect();
        if lost.is_empty() {
            return Ok(());
        }
        self.has.retain(|id| !lost.contains(id));
        self.lacks.extend(&lost);
        // All other present commits were just read, or are requested again.
        self.run(&lost.into_iter().collect::<Vec<_>>()).await
    }

    async fn run(&mut self, heads: &[CommitId]) -> Result<()> {
        for head in heads {
            if !self.has.contains(head) {
                self.graph.begin_at(*head)?;
            }
        }
        let mut open = heads.to_vec();
        // A small number of heads is requested together with their ancestors.
        let mut ask_first = heads.len() > LINES;
        loop {
            let mut seen = HashSet::new();
            open.retain(|id| !self.graph.knows(*id) && !self.has.contains(id) && seen.insert(*id));
            if open.is_empty() {
                return Ok(());
            }
            if std::mem::replace(&mut ask_first, true) {
                self.ask(&open).await?;
                open.retain(|id| self.lacks.contains(id));
            }
            let mut found = Vec::new();
            for heads in open.chunks(LINES) {
                self.lines(heads, &mut found).await?;
            }
            open = found;
        }
    }

    /// Walks lines side by side until each reaches a present commit or its root.
    async fn lines(&mut self, heads: &[CommitId], found: &mut Vec<CommitId>) -> Result<()> {
        let mut lines: Vec<Line> = heads.iter().copied().map(Line::new).collect();
        // Where lines join, only one of them continues.
        let mut walked = HashSet::new();
        while lines.iter().any(Line::is_open) {
            let mut questions = Vec::new();
            for line in lines.iter_mut().filter(|line| line.is_open()) {
                self.read(line, &mut walked).await?;
                if self.is_clear(line) {
                    line.probes.clear();
                } else {
                    line.probe();
                    questions.extend(line.questions());
                }
            }
            self.ask(&questions).await?;
            lines.iter_mut().for_each(|line| self.learn(line));
        }
        loop {
            let mut questions = Vec::new();
            for line in &mut lines {
                line.narrow();
                questions.extend(line.questions());
            }
            if questions.is_empty() {
                break;
            }
            self.ask(&questions).await?;
            lines.iter_mut().for_each(|line| self.learn(line));
        }
        for line in lines {
            for walked in line.walked.into_iter().take(line.lacking) {
                if self.graph.knows(walked.id) {
                    // Another line was here first.
                    break;
                }
                found.extend(walked.others.iter().copied());
                self.graph.insert(walked.id, walked.parent, &walked.others)?;
            }
        }
        Ok(())
    }

    /// Reads the next page of a line, up to a commit that is already decided.
    async fn read(&self, line: &mut Line, walked: &mut HashSet<CommitId>) -> Result<()> {
        let Some(head) = line.next.take() else { return Ok(()) };
        let (store, name) = (self.from.store().as_ref(), self.from.name());
        let walk = Walk { limit: line.limit, ..Walk::from(head) };
        let page = store.walk(name, walk).await.map_err(|error| match &error.kind {
            StoreErrorKind::Corrupt { .. } | StoreErrorKind::Missing { .. } => {
                Error::Damaged { object: Some(ObjectId::Commit(head)), what: error.message }
            }
            _ => error.into(),
        })?;
        line.limit = (line.limit * 2).min(PAGES[1]);
        let mut next = Some(head);
        for entry in page.entries {
            let commit = entry.commit;
            if next != Some(commit.id()) {
                return Err(out_of_order(head));
            }
            if self.is_there(commit.id()) {
                line.met = true;
                return Ok(());
            }
            if self.graph.knows(commit.id()) {
                // That commit is missing, so all its descendants are missing too.
                line.lacking = line.walked.len();
                return Ok(());
            }
            if !walked.insert(commit.id()) {
                return Ok(());
            }
            let walked = self.walked(&commit).await?;
            next = walked.parent;
            line.walked.push(walked);
        }
        if next != page.next || next == Some(head) {
            return Err(out_of_order(head));
        }
        line.next = next;
        Ok(())
    }

    async fn walked(&self, commit: &Commit) -> Result<Walked> {
        let changes = changes_of(self.from.store().as_ref(), self.from.name(), commit).await?;
        let parent = commit.parent();
        let others = links(commit, &changes?).into_iter().filter(|id| Some(*id) != parent);
        Ok(Walked { id: commit.id(), parent, others: others.collect() })
    }

    fn is_there(&self, id: CommitId) -> bool {
        let closure = match &self.receiver {
            Receiver::Has(Some(closure)) => closure.holds(id),
            Receiver::Has(None) | Receiver::Repo(_) => false,
        };
        closure || self.has.contains(&id)
    }

    /// Returns whether a line needs no request after a page. If the receiver consists of given
    /// commits, the commits before one of them are missing; their ancestors are loaded only for a
    /// line that ends elsewhere or is long.
    fn is_clear(&self, line: &mut Line) -> bool {
        if matches!(self.receiver, Receiver::Repo(_)) {
            return false;
        }
        if line.met {
            line.lacking = line.walked.len();
        }
        line.met || (line.next.is_some() && line.walked.len() < PAGES[1])
    }

    /// Records the answers about a line.
    fn learn(&self, line: &mut Line) {
        for place in std::mem::take(&mut line.probes) {
            let Some(id) = line.walked.get(place).map(|walked| walked.id) else { continue };
            if self.is_there(id) {
                line.there = Some(line.there.map_or(place, |there| there.min(place)));
            } else if self.lacks.contains(&id) {
                // The commits in front of it descend from it. The receiver would have it if it had
                // one of them.
                line.lacking = line.lacking.max(place + 1);
            }
        }
    }

    /// Requests which of some commits the receiver has.
    async fn ask(&mut self, ids: &[CommitId]) -> Result<()> {
        let mut seen = HashSet::new();
        let new: Vec<CommitId> = ids
            .iter()
            .filter(|id| !self.is_there(**id) && !self.lacks.contains(*id) && seen.insert(**id))
            .copied()
            .collect();
        for ids in new.chunks(IDS) {
            match &mut self.receiver {
                Receiver::Repo(to) => {
                    let (found, damaged) = readable_commits(to, ids).await?;
                    self.damaged.extend(damaged);
                    for (id, commit) in ids.iter().zip(found) {
                        let set = if commit.is_some() { &mut self.has } else { &mut self.lacks };
                        set.insert(*id);
                    }
                }
                Receiver::Has(closure) => {
                    let closure = match closure {
                        Some(closure) => closure,
                        None => {
                            let given = self.given.iter().copied();
                            closure.insert(CommitGraph::of(self.from, given).await?)
                        }
                    };
                    self.lacks.extend(ids.iter().filter(|id| !closure.holds(**id)));
                }
            }
        }
        Ok(())
    }
}

fn out_of_order(head: CommitId) -> Error {
    let what = "a range walk from here does not follow the parents".to_owned();
    Error::Damaged { object: Some(ObjectId::Commit(head)), what }
}

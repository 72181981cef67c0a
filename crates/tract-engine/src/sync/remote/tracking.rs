//! Compares branches with their last known state in remotes.

use std::collections::{HashMap, VecDeque};

use tract_core::store::Walk;
use tract_core::{CommitId, ObjectId, RefName};

use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// The number of commits that only one of two heads leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadBehind {
    /// Number of commits that only the first head leads to.
    pub ahead: usize,
    /// Number of commits that only the second head leads to.
    pub behind: usize,
}

/// The last known state of a branch in a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// The remote.
    pub remote: String,
    /// The head of the branch when it was last fetched or pushed.
    pub head: CommitId,
    /// The difference between the local branch and that head.
    pub counts: AheadBehind,
}

/// Number of commits in a page of a walk: few at first, because heads are usually near each other.
const PAGES: [usize; 2] = [32, 4096];

const OURS: u8 = 1;
const THEIRS: u8 = 2;
const BOTH: u8 = OURS | THEIRS;

impl Repo {
    /// Returns the last known state of a branch in each remote, from the refs under `remotes/`,
    /// sorted by remote. The remotes are not contacted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tracking(&self, branch: &RefName) -> Result<Vec<Tracking>> {
        let Some(name) = branch.branch_name() else { return Ok(Vec::new()) };
        let seen = self.remote_branches().await?;
        let Some(seen) = seen.get(name) else { return Ok(Vec::new()) };
        let Some(head) = self.head_of(branch).await? else { return Ok(Vec::new()) };
        let mut found = Vec::with_capacity(seen.len());
        for (remote, there) in seen {
            let counts = self.ahead_behind(head, *there).await?;
            found.push(Tracking { remote: remote.clone(), head: *there, counts });
        }
        Ok(found)
    }

    /// Returns the last known heads of all branches in remotes: for each branch, the remotes and
    /// commits.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remote_branches(&self) -> Result<HashMap<String, Vec<(String, CommitId)>>> {
        let mut found: HashMap<String, Vec<(String, CommitId)>> = HashMap::new();
        for (name, target) in self.store().list_refs(self.name(), "remotes/").await? {
            if let (Some((remote, branch)), Some(id)) = (name.remote_branch_name(), target.commit())
            {
                found.entry(branch.to_owned()).or_default().push((remote.to_owned(), id));
            }
        }
        Ok(found)
    }

    /// Counts the commits that only one of two heads leads to, over all parents.
    ///
    /// Both histories are read page by page in turn until they meet. If one of them has a merge
    /// that the other lacks, both are read to their roots.
    ///
    /// # Errors
    /// [`Error::Missing`] when a commit is not stored; those of the store.
    pub async fn ahead_behind(&self, ours: CommitId, theirs: CommitId) -> Result<AheadBehind> {
        let mut sides = Histories::default();
        if ours != theirs {
            sides.reach(ours, OURS);
            sides.reach(theirs, THEIRS);
            while let Some((head, limit)) = sides.next() {
                let walk = Walk { limit, ..Walk::from(head) };
                let page = self.store().walk(self.name(), walk).await?;
                if page.entries.is_empty() {
                    return Err(Error::Missing(ObjectId::Commit(head)));
                }
                for entry in page.entries {
                    sides.read(entry.commit.id(), entry.commit.parents.clone());
                }
                if let Some(next) = page.next {
                    sides.read_more(next, (limit * 2).min(PAGES[1]));
                }
            }
        }
        Ok(sides.counts())
    }
}

/// The read parts of two histories.
#[derive(Default)]
struct Histories {
    /// For each commit, the heads known to lead to it, and its parents once it was read.
    commits: HashMap<CommitId, (u8, Option<Vec<CommitId>>)>,
    /// The commits to continue from.
    open: VecDeque<(CommitId, usize)>,
    /// Whether a commit of only one side has several parents. Then a common ancestor may be behind
    /// it that the walk from the other side has not reached yet.
    merges: bool,
}

impl Histories {
    /// Records that heads lead to a commit and to everything already read behind it.
    fn reach(&mut self, id: CommitId, heads: u8) {
        let mut changed = vec![(id, heads)];
        while let Some((id, heads)) = changed.pop() {
            let (known, parents) = self.commits.entry(id).or_insert_with(|| {
                self.open.push_back((id, PAGES[0]));
                (0, None)
            });
            if *known | heads == *known {
                continue;
            }
            *known |= heads;
            let known = *known;
            changed.extend(parents.iter().flatten().map(|parent| (*parent, known)));
        }
    }

    fn read(&mut self, id: CommitId, parents: Vec<CommitId>) {
        let Some((heads, read)) = self.commits.get_mut(&id).filter(|(_, read)| read.is_none())
        else {
            return;
        };
        let heads = *heads;
        self.merges |= parents.len() > 1 && heads != BOTH;
        *read = Some(parents.clone());
        for parent in parents {
            self.reach(parent, heads);
        }
    }

    /// Sets the page size of the walk from a commit.
    fn read_more(&mut self, id: CommitId, limit: usize) {
        for (_, most) in self.open.iter_mut().filter(|(at, _)| *at == id) {
            *most = limit;
        }
    }

    /// Returns the commit to continue from; `None` when the result is final.
    fn next(&mut self) -> Option<(CommitId, usize)> {
        let is_unread = |id: &CommitId| {
            self.commits.get(id).filter(|(_, read)| read.is_none()).map(|(heads, _)| *heads)
        };
        self.open.retain(|(id, _)| is_unread(id).is_some());
        let one_sided = self.open.iter().any(|(id, _)| is_unread(id) != Some(BOTH));
        if !one_sided && !self.merges {
            return None;
        }
        // Reading commits of both sides is useful only if there are merges.
        let place = match self.merges {
            true => 0,
            false => self.open.iter().position(|(id, _)| is_unread(id) != Some(BOTH))?,
        };
        self.open.remove(place)
    }

    fn counts(&self) -> AheadBehind {
        let mut counts = AheadBehind::default();
        for (heads, _) in self.commits.values() {
            match *heads {
                OURS => counts.ahead += 1,
                THEIRS => counts.behind += 1,
                _ => {}
            }
        }
        counts
    }
}

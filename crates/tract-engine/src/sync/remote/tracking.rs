//! How far branches are from where remotes have them.

use std::collections::{HashMap, VecDeque};

use tract_core::store::Walk;
use tract_core::{CommitId, ObjectId, RefName};

use crate::repo::Repo;
use crate::repo::error::{Error, Result};

/// How many commits one head has that another has not, and the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadBehind {
    /// Commits that only the first has.
    pub ahead: usize,
    /// Commits that only the second has.
    pub behind: usize,
}

/// Where a remote has a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// The remote.
    pub remote: String,
    /// Where the branch was there when it was last fetched or pushed.
    pub head: CommitId,
    /// How far the branch here is from that.
    pub counts: AheadBehind,
}

/// Commits asked for in one page of a walk: few at first, since heads are near each other as a rule.
const PAGES: [usize; 2] = [32, 4096];

const OURS: u8 = 1;
const THEIRS: u8 = 2;
const BOTH: u8 = OURS | THEIRS;

impl Repo {
    /// Lists where remotes have a branch, by the refs under `remotes/`, sorted by remote. Nothing is
    /// asked of the remotes.
    ///
    /// # Errors
    /// What the store says.
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

    /// Lists where remotes have their branches, by the branch: the remote's name and the commit.
    ///
    /// # Errors
    /// What the store says.
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

    /// Counts the commits that one head leads to and another does not, over all parents.
    ///
    /// Both histories are read page by page in turn until they meet. Where one of them has a merge
    /// that the other has not, both are read to their roots.
    ///
    /// # Errors
    /// [`Error::Missing`] when a commit is not stored; what the store says.
    pub async fn ahead_behind(&self, ours: CommitId, theirs: CommitId) -> Result<AheadBehind> {
        let mut sides = Histories::default();
        if ours != theirs {
            sides.reach(ours, OURS);
            sides.reach(theirs, THEIRS);
            while let Some((head, limit)) = sides.next() {
                let walk = Walk { limit, ..Walk::from(head) };
                let page = self.store().walk(self.name(), walk).await?;
                if page.steps.is_empty() {
                    return Err(Error::Missing(ObjectId::Commit(head)));
                }
                for step in page.steps {
                    sides.read(step.commit.id(), step.commit.parents.clone());
                }
                if let Some(next) = page.next {
                    sides.read_more(next, (limit * 2).min(PAGES[1]));
                }
            }
        }
        Ok(sides.counts())
    }
}

/// Two histories, as far as they were read.
#[derive(Default)]
struct Histories {
    /// Which heads lead to a commit, as far as that is known, and its parents once it was read.
    commits: HashMap<CommitId, (u8, Option<Vec<CommitId>>)>,
    /// Where to read on.
    open: VecDeque<(CommitId, usize)>,
    /// Whether a commit of one side only has several parents: then an ancestor of both may lie
    /// behind it that the other side has not been read up to.
    merges: bool,
}

impl Histories {
    /// Takes in that heads lead to a commit, and to all that was read behind it.
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

    /// Sets how much is read from a commit on.
    fn read_more(&mut self, id: CommitId, limit: usize) {
        for (_, most) in self.open.iter_mut().filter(|(at, _)| *at == id) {
            *most = limit;
        }
    }

    /// Returns the commit to read on from; `None` when all is known.
    fn next(&mut self) -> Option<(CommitId, usize)> {
        let is_unread = |id: &CommitId| {
            self.commits.get(id).filter(|(_, read)| read.is_none()).map(|(heads, _)| *heads)
        };
        self.open.retain(|(id, _)| is_unread(id).is_some());
        let one_sided = self.open.iter().any(|(id, _)| is_unread(id) != Some(BOTH));
        if !one_sided && !self.merges {
            return None;
        }
        // A page of a commit of both sides tells nothing new unless there are merges.
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

//! Counts the commits that only one of two heads leads to.

use std::collections::{HashMap, VecDeque};

use tract_core::CommitId;

use super::AheadBehind;
use crate::repo::Repo;
use crate::repo::error::Result;

/// Number of commits in a page of a walk: few at first, because heads are usually near each other.
const PAGES: [usize; 2] = [32, 4096];

const OURS: u8 = 1;
const THEIRS: u8 = 2;
const BOTH: u8 = OURS | THEIRS;

/// Counts as [`Repo::ahead_behind`] does.
pub(super) async fn count(repo: &Repo, ours: CommitId, theirs: CommitId) -> Result<AheadBehind> {
    let mut sides = Histories::default();
    if ours != theirs {
        sides.reach(ours, OURS);
        sides.reach(theirs, THEIRS);
        while let Some((head, limit)) = sides.next() {
            let mut history = repo.history(head).pages(limit, limit);
            for commit in history.next_page().await?.unwrap_or_default() {
                sides.read(commit.id(), commit.parents.clone());
            }
            if let Some(next) = history.peek() {
                sides.read_more(next, (limit * 2).min(PAGES[1]));
            }
        }
    }
    Ok(sides.counts())
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

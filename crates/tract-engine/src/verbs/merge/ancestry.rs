//! The common ancestors of two heads, over all parents.
//!
//! Both histories are colored from their heads back, newest commit first, until all commits still
//! to be visited are known to be common. So the cost depends on the number of commits since the
//! last merge of the two, not on the length of the history. The order matters for speed only: with
//! wrong or missing times more commits are visited, and the result is the same.

use std::collections::{BinaryHeap, HashMap, HashSet};

use tract_core::{Commit, CommitId, ObjectId};

use crate::repo::error::{Error, Result};
use crate::write::txn::Txn;

/// The relation between two heads.
pub(super) enum Ancestry {
    /// Ours is an ancestor of theirs.
    Forward,
    /// Theirs is ours, or an ancestor of ours.
    Contained,
    /// The best common ancestors: those that are not ancestors of another one. May be empty.
    Best(Vec<CommitId>),
}

/// Color of ours and its ancestors.
const OURS: u8 = 1;
/// Color of theirs and its ancestors.
const THEIRS: u8 = 1 << 1;
/// Color of the ancestors of a common ancestor, which cannot be best ones.
const STALE: u8 = 1 << 2;
const BOTH: u8 = OURS | THEIRS;

/// Number of commits per read: first and maximum.
const PAGES: (usize, usize) = (16, 4096);

/// The parts of a commit that determine its place in a history.
struct Node {
    parents: Vec<CommitId>,
    /// Its time in microseconds; 0 if it has none.
    time: i64,
}

impl Node {
    fn of(commit: &Commit) -> Self {
        Self { parents: commit.parents.clone(), time: commit.created_at.unwrap_or_default() }
    }
}

/// The commits that were read so far.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<CommitId, Node>,
    pages: usize,
}

impl Graph {
    /// Reads a commit and some of its first-parent ancestors; the number grows with each read.
    async fn node(&mut self, txn: &Txn<'_>, id: CommitId) -> Result<&Node> {
        if self.nodes.contains_key(&id) {
            return self.known(id);
        }
        match txn.made_here(id) {
            Some(commit) => drop(self.nodes.insert(id, Node::of(commit))),
            None => {
                // Doubles with every second read, because usually two histories are read in turn.
                let limit = (PAGES.0 << (self.pages.min(16) / 2)).min(PAGES.1);
                self.pages += 1;
                let page = txn.repo().history(id).pages(limit, limit).next_page().await?;
                let commits = page.iter().flatten();
                self.nodes.extend(commits.map(|commit| (commit.id(), Node::of(commit))));
            }
        }
        self.known(id)
    }

    fn known(&self, id: CommitId) -> Result<&Node> {
        self.nodes.get(&id).ok_or(Error::Missing(ObjectId::Commit(id)))
    }
}

/// Returns the relation between two heads.
pub(super) async fn common(txn: &Txn<'_>, ours: CommitId, theirs: CommitId) -> Result<Ancestry> {
    if ours == theirs {
        return Ok(Ancestry::Contained);
    }
    let mut graph = Graph::default();
    let painted = paint(txn, &mut graph, ours, theirs).await?;
    if painted.has(theirs, OURS) {
        return Ok(Ancestry::Contained);
    }
    if painted.has(ours, THEIRS) {
        return Ok(Ancestry::Forward);
    }
    let mut best = painted.best();
    // If times do not follow the history, a candidate may still be an ancestor of another one.
    let mut place = 0;
    while let Some(one) = best.get(place).copied() {
        let mut is_inner = false;
        // There are rarely more than two candidates, and the graph keeps the commits that were
        // read.
        for other in best.iter().filter(|other| **other != one) {
            if paint(txn, &mut graph, *other, one).await?.has(one, OURS) {
                is_inner = true;
                break;
            }
        }
        match is_inner {
            true => drop(best.remove(place)),
            false => place += 1,
        }
    }
    best.sort_unstable();
    Ok(Ancestry::Best(best))
}

struct Painted(HashMap<CommitId, u8>);

impl Painted {
    fn has(&self, id: CommitId, color: u8) -> bool {
        self.0.get(&id).is_some_and(|colors| colors & color != 0)
    }

    /// Returns the common ancestors that are not known to be ancestors of another one.
    fn best(&self) -> Vec<CommitId> {
        let best = |colors: u8| colors & BOTH == BOTH && colors & STALE == 0;
        self.0.iter().filter(|(_, colors)| best(**colors)).map(|(id, _)| *id).collect()
    }
}

/// Colors the ancestors of two commits until only stale ones are left. After that every commit that
/// only one side has is colored, and so is each common ancestor that no other one descends from.
async fn paint(
    txn: &Txn<'_>,
    graph: &mut Graph,
    ours: CommitId,
    theirs: CommitId,
) -> Result<Painted> {
    let mut colors: HashMap<CommitId, u8> = HashMap::new();
    // Newest first; commits of the same time in the order in which they are found.
    let mut open: BinaryHeap<(i64, u64, CommitId)> = BinaryHeap::new();
    let mut waiting: HashSet<CommitId> = HashSet::new();
    let (mut fresh, mut turn) = (0_usize, u64::MAX);
    for (id, color) in [(ours, OURS), (theirs, THEIRS)] {
        *colors.entry(id).or_default() |= color;
        if waiting.insert(id) {
            open.push((graph.node(txn, id).await?.time, turn, id));
            (fresh, turn) = (fresh + 1, turn - 1);
        }
    }
    while fresh > 0 {
        let Some((_, _, id)) = open.pop() else { break };
        waiting.remove(&id);
        let mine = colors.get(&id).copied().unwrap_or_default();
        // `fresh` counts the queued commits that are not stale. Once it is 0, only ancestors of
        // known common ancestors are left.
        fresh -= usize::from(mine & STALE == 0);
        let below = if mine & BOTH == BOTH { mine | STALE } else { mine };
        let parents = graph.node(txn, id).await?.parents.clone();
        for parent in parents {
            let was = colors.get(&parent).copied().unwrap_or_default();
            if was | below == was {
                continue;
            }
            colors.insert(parent, was | below);
            match (waiting.insert(parent), was & STALE == 0, below & STALE == 0) {
                (true, _, is_fresh) => {
                    fresh += usize::from(is_fresh && was & STALE == 0);
                    open.push((graph.node(txn, parent).await?.time, turn, parent));
                    turn -= 1;
                }
                // It was already queued, and is now stale.
                (false, true, false) => fresh -= 1,
                (false, _, _) => {}
            }
        }
    }
    Ok(Painted(colors))
}

/// Returns a commit and its ancestors, without those of a base.
pub(super) async fn since(
    txn: &Txn<'_>,
    head: CommitId,
    base: Option<CommitId>,
) -> Result<HashSet<CommitId>> {
    let mut graph = Graph::default();
    let Some(base) = base else { return ancestors(txn, &mut graph, head).await };
    let Painted(colors) = paint(txn, &mut graph, head, base).await?;
    Ok(colors.into_iter().filter(|(_, colors)| colors & BOTH == OURS).map(|(id, _)| id).collect())
}

/// Returns a commit and all its ancestors.
pub(super) async fn ancestors(
    txn: &Txn<'_>,
    graph: &mut Graph,
    head: CommitId,
) -> Result<HashSet<CommitId>> {
    let mut seen = HashSet::from([head]);
    let mut open = vec![head];
    while let Some(id) = open.pop() {
        for parent in &graph.node(txn, id).await?.parents {
            if seen.insert(*parent) {
                open.push(*parent);
            }
        }
    }
    Ok(seen)
}

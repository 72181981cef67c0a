//! The order in which commits are deleted.

use tract_compile::IdMap;
use tract_core::{CommitId, ObjectId, StoreErrorKind};

use crate::history::reach::{changes_of, commit_id, links};
use crate::repo::Repo;
use crate::repo::error::Result;

/// Number of commits that are read together.
const CHUNK: usize = 512;

/// Sorts commits so that each comes before everything that it links to.
pub(super) async fn children_first(repo: &Repo, commits: &mut Vec<(ObjectId, u64)>) -> Result<()> {
    let (store, name) = (repo.store().as_ref(), repo.name());
    let ids: Vec<CommitId> = commits.iter().filter_map(|(object, _)| commit_id(*object)).collect();
    let mut numbers: IdMap<CommitId, u32> = IdMap::default();
    numbers.reserve(ids.len());
    for (number, id) in (0u32..).zip(&ids) {
        numbers.insert(*id, number);
    }
    // The links of all commits, concatenated, and for each commit the end of its links.
    // Flat lists of numbers: a map of ids would take several times the memory, and any number of
    // commits may be deleted.
    let mut targets: Vec<u32> = Vec::with_capacity(ids.len());
    let mut ends: Vec<usize> = Vec::with_capacity(ids.len());
    let mut children: Vec<u32> = vec![0; ids.len()];
    for chunk in ids.chunks(CHUNK) {
        for commit in store.commits(name, chunk).await? {
            if let Some(commit) = commit {
                let changes = match changes_of(store, name, &commit).await {
                    Ok(changes) => changes.unwrap_or_default(),
                    Err(error) if matches!(error.kind, StoreErrorKind::Missing { .. }) => {
                        Vec::new()
                    }
                    Err(error) => return Err(error.into()),
                };
                for target in links(&commit, &changes) {
                    let Some(number) = numbers.get(&target) else { continue };
                    targets.push(*number);
                    if let Some(count) = children.get_mut(*number as usize) {
                        *count += 1;
                    }
                }
            }
            ends.push(targets.len());
        }
    }
    let mut ordered = Vec::with_capacity(commits.len());
    let childless = |(number, count): (u32, &u32)| (*count == 0).then_some(number);
    let mut open: Vec<u32> = (0u32..).zip(&children).filter_map(childless).collect();
    while let Some(number) = open.pop() {
        let at = number as usize;
        ordered.extend(commits.get(at).copied());
        let from = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let to = ends.get(at).copied().unwrap_or(from);
        for target in targets.get(from..to).unwrap_or_default() {
            if let Some(count) = children.get_mut(*target as usize) {
                *count -= 1;
                // All commits that link to it come earlier now.
                if *count == 0 {
                    open.push(*target);
                }
            }
        }
    }
    // Ids are hashes of linked ids, so links cannot form a cycle, and every commit was ordered.
    *commits = ordered;
    Ok(())
}

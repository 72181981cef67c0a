//! A cache of the places of commits that this handle wrote recently.

use std::collections::HashMap;

use super::keys::Repo;
use tract_core::id::CommitId;

/// Minimum number of commits to remember. The cache has two generations of this size.
const COMMITS: usize = 4096;

/// A repository and its number of sweeps.
pub(super) type Era = (Repo, u64);

/// A commit with its era and its place.
pub(super) type Stored = (Era, CommitId, u64);

/// Places of commits. Other handles cannot make an entry stale: a place never changes, a commit is
/// added only once it is durable, and a sweep starts a new era without entries.
#[derive(Debug, Default)]
pub(super) struct Recent {
    young: HashMap<(Era, CommitId), u64>,
    old: HashMap<(Era, CommitId), u64>,
}

impl Recent {
    pub(super) fn place(&self, era: Era, commit: CommitId) -> Option<u64> {
        let key = (era, commit);
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    pub(super) fn remember(&mut self, stored: impl IntoIterator<Item = Stored>) {
        for (era, commit, place) in stored {
            if self.young.len() >= COMMITS {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert((era, commit), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_others_go() {
        let mut recent = Recent::default();
        let id = |n: u64| CommitId::from_bytes([n.to_be_bytes(); 4].concat().try_into().unwrap());
        let many = 3 * COMMITS as u64;
        recent.remember((0..many).map(|n| ((Repo(1), 0), id(n), n)));
        for n in many - COMMITS as u64..many {
            assert_eq!(recent.place((Repo(1), 0), id(n)), Some(n));
            assert_eq!(recent.place((Repo(2), 0), id(n)), None);
            assert_eq!(recent.place((Repo(1), 1), id(n)), None);
        }
        assert_eq!(recent.place((Repo(1), 0), id(0)), None);
        assert!(recent.young.len() + recent.old.len() <= 2 * COMMITS);
    }
}

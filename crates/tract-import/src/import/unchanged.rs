//! Finds files that need not be read: they are unchanged since they were cached, and so are their
//! branches.

use std::collections::{HashMap, HashSet};

use tract_core::{RefName, RefTarget};
use tract_engine::{Repo, Result};

use crate::cache::{ImportCache, StoredFile};
use crate::source::SessionFile;
use crate::writer::{document_ref, leads_to};

/// Number of refs read at once.
const REFS: usize = 4096;

/// Returns the cache entries of the files that are unchanged and whose branches still contain all
/// their commits, by file number.
pub(super) async fn unchanged(
    repo: &Repo,
    cache: &mut ImportCache,
    files: &[SessionFile],
    redact: bool,
) -> Result<HashMap<usize, StoredFile>> {
    cache.begin();
    let same = files.iter().enumerate();
    let mut same: HashMap<usize, StoredFile> = same
        .filter_map(|(number, file)| Some((number, cache.find(file, redact)?.clone())))
        .collect();
    let refs = Refs::of(repo, same.values()).await?;
    let mut moved = Vec::new();
    for (number, file) in &same {
        if !refs.have(repo, file).await? {
            moved.push(*number);
        }
    }
    for number in moved {
        same.remove(&number);
    }
    Ok(same)
}

/// The targets of the branches of files, and of their documents.
struct Refs(HashMap<RefName, RefTarget>);

impl Refs {
    /// Reads all refs in a few calls: a call for each would take longer than everything else.
    async fn of(repo: &Repo, files: impl Iterator<Item = &StoredFile>) -> Result<Self> {
        let mut names = HashSet::new();
        for branch in files.flat_map(|file| &file.sessions).flat_map(|session| &session.branches) {
            for (attempt, _) in &branch.rejected {
                names.extend(RefName::branch(&branch.name(*attempt)));
            }
            names.extend(RefName::branch(&branch.placed()));
            names.extend(document_ref(&branch.placed()));
        }
        let names: Vec<RefName> = names.into_iter().collect();
        let mut found = HashMap::with_capacity(names.len());
        for names in names.chunks(REFS) {
            let targets = repo.store().refs(repo.name(), names).await?;
            let there = names.iter().zip(targets);
            found.extend(there.filter_map(|(name, target)| Some((name.clone(), target?))));
        }
        Ok(Self(found))
    }

    /// Returns whether an import of the file would find everything in place.
    async fn have(&self, repo: &Repo, file: &StoredFile) -> Result<bool> {
        for branch in file.sessions.iter().flat_map(|session| &session.branches) {
            let head = |attempt: usize| {
                let name = RefName::branch(&branch.name(attempt)).ok()?;
                self.0.get(&name)?.commit()
            };
            // The names tried before still belong to the same other commits.
            let mut rejected = branch.rejected.iter();
            if !rejected.all(|(attempt, other)| head(*attempt) == Some(*other)) {
                return Ok(false);
            }
            let is_placed = match head(branch.attempt) {
                None => false,
                Some(found) if found == branch.head => {
                    let name = document_ref(&branch.placed()).ok();
                    let document = name.and_then(|name| self.0.get(&name));
                    document == branch.document.map(RefTarget::Blob).as_ref()
                }
                // The branch continues after the recording, so an import leaves it alone.
                Some(found) => leads_to(repo, found, branch.head).await?,
            };
            if !is_placed {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

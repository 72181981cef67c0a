//! Restores damaged and missing objects from a bundle.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

use tract_core::store::ObjectCopies;
use tract_core::stream::StreamOpKind;
use tract_core::{BlobId, Changes, CommitId, ObjectId, ToolsetId};

use super::Bundle;
use crate::history::reach::links;
use crate::plan::seal_tools;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::sync::apply::{given_tools, toolset_of_list};
use crate::upkeep::restore::{by_kind, lacking_blobs, lacking_commits, lacking_toolsets};
use crate::upkeep::verify::{VerifyOptions, VerifyReport, replaced};

/// Approximate size of the objects that are replaced together, in bytes.
const BYTES: usize = 8 << 20;
/// Maximum number of objects that are replaced together.
const OBJECTS: usize = 512;

/// Like [`verify_from`](crate::verify_from), with the objects of a bundle.
///
/// # Errors
/// Those of [`verify_from`](crate::verify_from), and [`Error::Bundle`](crate::Error::Bundle) when
/// the file is not a complete bundle.
pub async fn verify_from_bundle(
    repo: &Repo,
    from: impl Read + Seek,
    options: &VerifyOptions,
) -> Result<VerifyReport> {
    let mut bundle = Bundle::open(from)?;
    replaced(repo, options, async |lost: &[ObjectId]| bundle.restore(repo, lost).await).await
}

impl<R: Read + Seek> Bundle<R> {
    /// Replaces objects, the history of the commits among them, and everything that these link to,
    /// if they are damaged or missing in a repository and present in the bundle. Returns the number
    /// of replaced objects.
    pub(crate) async fn restore(&mut self, repo: &Repo, objects: &[ObjectId]) -> Result<usize> {
        let (commits, blobs, toolsets) = by_kind(objects.iter().copied());
        let commits = self.leading_to(commits).await?;
        let mut blobs: HashSet<BlobId> = blobs.into_iter().collect();
        let mut toolsets: HashSet<ToolsetId> = toolsets.into_iter().collect();
        self.each_step(async |step| {
            if let Some(commit) = step.recorded.filter(|commit| commits.contains(&commit.id())) {
                blobs.extend(commit.linked_blobs());
                toolsets.extend([commit.toolset, commit.active].into_iter().flatten());
            }
            Ok(())
        })
        .await?;
        // A toolset's schemas are restored with it. Only its list in the bundle names them.
        self.each_step(async |step| {
            let list = match &step.op {
                StreamOpKind::Blob(blob) => toolset_of_list(blob),
                _ => Some(seal_tools(given_tools(&step))),
            };
            if let Some(toolset) = list.filter(|toolset| toolsets.contains(&toolset.id())) {
                blobs.extend(toolset.entries().iter().map(|entry| entry.schema));
            }
            Ok(())
        })
        .await?;
        let commits: Vec<CommitId> = commits.into_iter().collect();
        let blobs: Vec<BlobId> = blobs.into_iter().collect();
        let toolsets: Vec<ToolsetId> = toolsets.into_iter().collect();
        let commits: HashSet<CommitId> =
            lacking_commits(repo, &commits).await?.into_iter().collect();
        let mut blobs: HashSet<BlobId> = lacking_blobs(repo, &blobs).await?.into_iter().collect();
        let mut toolsets: HashSet<ToolsetId> =
            lacking_toolsets(repo, &toolsets).await?.into_iter().collect();
        let (mut copies, mut bytes, mut restored) = (ObjectCopies::default(), 0, 0);
        self.each_step(async |step| {
            let list = match &step.op {
                StreamOpKind::Blob(blob) => toolset_of_list(blob),
                _ => Some(seal_tools(given_tools(&step))),
            };
            copies.toolsets.extend(list.filter(|toolset| toolsets.remove(&toolset.id())));
            if let StreamOpKind::Blob(blob) = step.op
                && blobs.remove(&blob.id())
            {
                bytes += blob.bytes().len();
                copies.blobs.push(blob);
            }
            let commit = step.recorded.filter(|commit| commits.contains(&commit.id()));
            copies.commits.extend(commit);
            if bytes >= BYTES || copies.len() >= OBJECTS {
                let full = std::mem::take(&mut copies);
                restored += repo.store().restore(repo.name(), full).await?.len();
                bytes = 0;
            }
            Ok(())
        })
        .await?;
        if !copies.is_empty() {
            restored += repo.store().restore(repo.name(), copies).await?.len();
        }
        Ok(restored)
    }

    /// Returns commits and all their ancestors in the bundle.
    async fn leading_to(&mut self, commits: Vec<CommitId>) -> Result<HashSet<CommitId>> {
        let mut all: HashMap<CommitId, Vec<CommitId>> = HashMap::new();
        if commits.is_empty() {
            return Ok(HashSet::new());
        }
        self.each_step(async |step| {
            if let Some(commit) = step.recorded {
                let changes = match &commit.changes {
                    Changes::List(changes) => changes.as_slice(),
                    Changes::Blob(_) => &[],
                };
                all.insert(commit.id(), links(&commit, changes));
            }
            Ok(())
        })
        .await?;
        let (mut open, mut found) = (commits, HashSet::new());
        while let Some(id) = open.pop() {
            if let Some(links) = all.get(&id)
                && found.insert(id)
            {
                open.extend(links);
            }
        }
        Ok(found)
    }
}

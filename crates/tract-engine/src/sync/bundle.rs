//! Bundles: history in a file, for transfers between repositories without a connection.
//!
//! The first line names the commits that the receiver must have. The lines of an export follow:
//! blobs and commits, parents first, and the refs. The last line has the SHA-256 of all bytes
//! before it, so that a truncated or modified file is detected before anything is written.

mod read;
mod restore;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Seek};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tract_core::{CommitId, RefName};

pub use self::read::Bundle;
pub(crate) use self::read::{TakenBundle, take};
pub use self::restore::verify_from_bundle;
use crate::history::reach::chosen_refs;
use crate::repo::Repo;
use crate::repo::error::{BundleError, Error, Result};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::OnCopy;
use crate::sync::export::Export;
use crate::sync::remote::{
    PlannedRef, RefRule, TransferStatus, TransferredRef, begin_at, index_moved, lacking_commits,
};
use crate::upkeep::erase::{CarriedErasures, arrive};

/// The format version that is written, and the newest one that can be read.
const VERSION: u64 = 1;

#[derive(Deserialize, Serialize)]
struct FirstLine {
    op: String,
    version: u64,
    #[serde(default)]
    requires: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct LastLine {
    op: String,
    lines: u64,
    commits: u64,
    sha256: String,
}

/// The contents of a bundle, for [`create_bundle`].
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    /// The refs; `HEAD`, all branches, tags and import documents if absent.
    pub refs: Option<Vec<RefName>>,
    /// Commits that the receiver has. They and their ancestors are left out.
    pub since: Vec<CommitId>,
    /// Also include approvals, policies, pending operations, decisions, effects and pins, if no
    /// refs are chosen.
    pub everything: bool,
}

/// A bundle that is being written, line by line.
#[derive(Debug)]
pub struct BundleLines {
    export: Export,
    ready: VecDeque<String>,
    prerequisites: Vec<CommitId>,
    refs: usize,
    hash: Sha256,
    lines: u64,
    ended: bool,
}

/// Starts writing a bundle.
///
/// # Behavior
/// - It contains every commit that the refs lead to and the commits of [`BundleOptions::since`] do
///   not. Other commits that these link to are its prerequisites.
/// - Equal repositories produce equal bundles, in every store.
/// - The state that a repository keeps about [remotes](RefName::is_remote_state) is never included.
///
/// # Errors
/// [`Error::UnknownBranch`] or [`Error::UnknownRevision`] when a chosen ref does not exist;
/// [`Error::Damaged`] when an object that the refs lead to is damaged or missing.
pub async fn create_bundle(repo: &Repo, options: &BundleOptions) -> Result<BundleLines> {
    let mut refs = chosen_refs(repo, options.refs.as_deref()).await?;
    match &options.refs {
        None if options.everything => {}
        None => refs.retain(|(name, _)| name.is_history()),
        Some(chosen) => {
            let documents: Vec<RefName> = chosen
                .iter()
                .filter_map(RefName::companion)
                .filter(|name| !chosen.contains(name))
                .collect();
            let found = repo.store().refs(repo.name(), &documents).await?;
            let found = documents.into_iter().zip(found);
            refs.extend(found.filter_map(|(name, at)| Some((name, at?))));
        }
    }
    let heads: Vec<CommitId> = refs.iter().filter_map(|(_, target)| target.commit()).collect();
    let lacking = lacking_commits(repo, None, &heads, options.since.iter().copied()).await?;
    // A ref to a commit that is left out makes that commit a prerequisite.
    let mut prerequisites = lacking.boundary;
    let included: std::collections::HashSet<&CommitId> = lacking.order.iter().collect();
    prerequisites.extend(heads.iter().filter(|id| !included.contains(id)));
    prerequisites.sort_unstable();
    prerequisites.dedup();
    let first = FirstLine {
        op: "bundle".to_owned(),
        version: VERSION,
        requires: prerequisites.iter().map(CommitId::to_hex).collect(),
    };
    let refs_count = refs.len();
    Ok(BundleLines {
        export: Export::of(repo, lacking.order, refs),
        ready: VecDeque::from([line(&first)?]),
        prerequisites,
        refs: refs_count,
        hash: Sha256::new(),
        lines: 0,
        ended: false,
    })
}

fn line(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Bundle(BundleError::Read(error.into())))
}

impl BundleLines {
    /// Returns the number of commits in the bundle.
    pub fn commits(&self) -> usize {
        self.export.commits()
    }

    /// Returns the number of refs in the bundle.
    pub fn refs(&self) -> usize {
        self.refs
    }

    /// Returns the commits that the receiver must have.
    pub fn prerequisites(&self) -> &[CommitId] {
        &self.prerequisites
    }

    /// Returns the next line, without its line break; `None` at the end.
    ///
    /// # Errors
    /// When the store fails, or an object is damaged.
    pub async fn next_line(&mut self) -> Result<Option<String>> {
        let next = match self.ready.pop_front() {
            Some(line) => Some(line),
            None if self.ended => return Ok(None),
            None => self.export.next_line().await?,
        };
        let Some(text) = next else {
            self.ended = true;
            let last = LastLine {
                op: "end".to_owned(),
                lines: self.lines,
                commits: self.export.commits() as u64,
                sha256: hex(self.hash.clone()),
            };
            return line(&last).map(Some);
        };
        self.lines += 1;
        self.hash.update(text.as_bytes());
        self.hash.update(b"\n");
        Ok(Some(text))
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// Options of [`apply_bundle`].
#[derive(Clone, Debug, Default)]
pub struct ApplyBundleOptions {
    /// Also apply approvals, policies, pending operations, decisions, effects and pins.
    pub trust: bool,
    /// Called with the progress.
    pub progress: Option<OnCopy>,
}

/// The result of [`apply_bundle`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleReport {
    /// Commits in the bundle.
    pub commits: usize,
    /// Number of those that were stored already.
    pub reused: usize,
    /// Number of damaged or missing objects that were replaced.
    pub restored: usize,
    /// The refs in the bundle, with their outcomes.
    pub refs: Vec<TransferredRef>,
    /// Number of refs that were left out because they are not history and the bundle is not
    /// trusted.
    pub untrusted: usize,
    /// Erasures that arrived with a trusted bundle.
    pub erased: CarriedErasures,
}

impl BundleReport {
    /// Returns whether a branch or tag points elsewhere here and was not changed.
    pub fn diverged(&self) -> bool {
        self.refs.iter().any(|at| matches!(at.status, TransferStatus::Diverged { .. }))
    }
}

/// Applies a bundle to a repository. The bundle is read twice: nothing is written before all of it
/// was checked.
///
/// # Behavior
/// - A branch is created or moved forward. A branch that is ahead or has other commits stays. Tags
///   and documents are created, never moved. `HEAD` is set if it names a branch without commits.
/// - All refs move in one operation, after all objects. Applying the bundle again continues an
///   interrupted run.
///
/// # Errors
/// [`Error::Bundle`] when the file is not a complete bundle of a supported version, or when
/// prerequisites are missing: then nothing was written. Also when a line is refused, or the file
/// changes during the call: then objects may have been stored, but no ref has moved.
pub async fn apply_bundle(
    repo: &Repo,
    from: impl Read + Seek,
    options: &ApplyBundleOptions,
) -> Result<BundleReport> {
    let mut bundle = Bundle::open(from)?;
    bundle.require_prerequisites(repo).await?;
    let mut report = BundleReport { commits: bundle.commits(), ..BundleReport::default() };
    let mut planned = Vec::new();
    for (name, to) in bundle.refs() {
        let rule = match (name.branch_name().is_some(), name.as_str()) {
            _ if name.is_local() => continue,
            (true, _) => RefRule::Forward,
            (false, "HEAD") => RefRule::Begin,
            (false, _) if name.companion_of().is_some() => RefRule::MakeQuietly,
            (false, _) if name.is_history() || options.trust => RefRule::Make,
            (false, _) => {
                report.untrusted += 1;
                continue;
            }
        };
        planned.push(PlannedRef::new(name.clone(), to.clone(), rule));
    }
    // Last, once its branch exists.
    planned.sort_by_key(|planned| planned.rule == RefRule::Begin);
    if planned.iter().all(|planned| planned.rule != RefRule::Begin) {
        let first = planned.iter().find(|planned| planned.rule == RefRule::Forward);
        let begin = first.map(|planned| begin_at(&planned.name));
        planned.extend(begin);
    }
    let carrier = ObjectCopier::new(repo, repo, "bundle apply")?;
    let done = take(repo, &mut bundle, &carrier, &planned, &options.progress).await?;
    let TakenBundle { new, restored, refs, erasures } = done;
    report.restored = restored;
    report.reused = report.commits - new.min(report.commits);
    report.refs = refs;
    // Applied as an arriving erasure: this repository decides which of its bytes are deleted.
    report.erased = arrive(repo, None, erasures).await?;
    index_moved(repo, None, &report.refs, new).await;
    Ok(report)
}

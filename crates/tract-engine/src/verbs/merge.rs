//! Merges: common ancestors, fast-forward, and the merge commit.

mod ancestry;
mod kept;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tract_core::{Commit, CommitId, RefName, RefTarget};
use tract_hooks::BeforeMerge;

use self::ancestry::{Ancestry, Graph, ancestors, common, since};
pub(crate) use self::kept::decisions_ref;
pub use self::kept::{KeptMerge, MergeProgress};
use crate::plan::{
    BranchTip, Details, History, MergeConflict, MergeSides, NewContent, Refusal, Request,
    Resolution, ResolveFn, Resolver, differing, merge as plan_merge,
};
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::repo::error::gone::is_gone;
use crate::write::hooks::WriteTarget;
use crate::write::pending::{Document, PendingRequest};
use crate::write::races::Attempts;
use crate::write::txn::{Txn, WriteOptions};

/// Options of a merge.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Whether to create a commit even if a fast-forward is possible.
    pub no_fast_forward: bool,
    /// Whether to merge histories that share no commit.
    pub allow_unrelated: bool,
    /// The details of the merge commit.
    pub details: Details,
    /// Resolves conflicts; set it with [`resolve`](Self::resolve()).
    pub resolve: Option<ConflictResolver>,
}

/// A function that resolves the conflicts of a merge; see [`MergeOptions::resolve`].
#[derive(Clone)]
pub struct ConflictResolver(Arc<ResolveFn>);

impl fmt::Debug for ConflictResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConflictResolver")
    }
}

impl MergeOptions {
    /// Resolves conflicts with a function; `None` leaves a conflict open. The function is called
    /// once per conflict. The metadata of the merge commit lists the resolutions as `resolutions`.
    ///
    /// ```
    /// use tract_engine::plan::{ConflictKind, Resolution};
    /// use tract_engine::MergeOptions;
    /// let options = MergeOptions::default().resolve(|conflict| match conflict.kind {
    ///     ConflictKind::Version => Some(Resolution::Both),
    ///     _ => Some(Resolution::Theirs),
    /// });
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn resolve(
        mut self,
        resolve: impl Fn(&MergeConflict) -> Option<Resolution> + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Some(ConflictResolver(Arc::new(resolve)));
        self
    }

    fn resolver(&self) -> Resolver<'_> {
        self.resolve.as_ref().map_or_else(Resolver::none, |resolve| Resolver::new(&*resolve.0))
    }
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The branch already contains everything in the source.
    NothingToMerge,
    /// The branch was fast-forwarded to the source.
    FastForward {
        /// The new head.
        head: CommitId,
    },
    /// A merge commit joins both.
    Commit(Commit),
}

/// The record of the handlers' decisions on a merge, if any: details of the commit, and a document.
type MergeNote = Option<Box<(Details, Document)>>;

impl Repo {
    /// Merges a head into a branch.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused) with [`Refusal::Conflicts`](crate::Refusal) when
    /// both sides changed the same thing and [`MergeOptions::resolve`] does not resolve it, or with
    /// [`Refusal::IllegalResolution`](crate::Refusal) when a resolution is not legal for its
    /// conflict. Nothing is then written.
    pub async fn merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let mut attempts = Attempts::new(self);
        // Handlers are asked once, even if the merge is retried.
        let mut ruling = None;
        // Kept across retries as well: a resolver may ask a person or a model, and must not be
        // asked twice about the same conflict.
        let mut resolver = options.resolver();
        loop {
            let mut txn = Txn::new(self)?;
            let merged =
                txn.merge_asking(branch, source, options, &mut ruling, &mut resolver).await;
            let merged = match merged {
                Ok(merged) => merged,
                // The branch may have moved since it was read, and its commits may be collected.
                Err(error) => {
                    attempts.again(error).await?;
                    continue;
                }
            };
            if merged == Merged::NothingToMerge {
                return Ok(merged);
            }
            if attempts.won(txn.apply("merge", &WriteOptions::default()).await?).await? {
                return Ok(merged);
            }
        }
    }

    /// Plans a merge without writing or asking handlers.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    pub async fn preview_merge(
        &self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        Txn::new(self)?.merge_decided(branch, source, options).await
    }
}

impl Txn<'_> {
    /// Merges a head into a branch, as part of this transaction.
    ///
    /// # Errors
    /// As [`Repo::merge`].
    pub async fn merge(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        self.merge_asking(branch, source, options, &mut None, &mut options.resolver()).await
    }

    /// Merges without asking handlers.
    pub(crate) async fn merge_decided(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
    ) -> Result<Merged> {
        let resolver = &mut options.resolver();
        self.merge_asking(branch, source, options, &mut Some(None), resolver).await
    }

    /// Returns the commits that a branch shares with another head. The set is complete enough to
    /// find, walking the branch from its head, the first commit that both contain.
    pub(crate) async fn shared(&mut self, head: CommitId, other: CommitId) -> Result<Shared> {
        let ancestry = common(self, head, other).await?;
        let contains_head = matches!(ancestry, Ancestry::Contained);
        let commits = match ancestry {
            Ancestry::Forward => HashSet::from([head]),
            Ancestry::Best(bases) if bases.is_empty() => HashSet::new(),
            Ancestry::Contained | Ancestry::Best(_) => {
                ancestors(self, &mut Graph::default(), other).await?
            }
        };
        Ok(Shared { contains_head, commits })
    }

    /// Returns the smallest of some commits that a head contains. `base` must contain none of them,
    /// and is what the walk from the head stops at.
    pub(crate) async fn first_reached(
        &self,
        head: CommitId,
        base: Option<CommitId>,
        commits: &HashSet<CommitId>,
    ) -> Result<Option<CommitId>> {
        if commits.is_empty() {
            return Ok(None);
        }
        let reached = since(self, head, base).await?;
        Ok(commits.iter().filter(|commit| reached.contains(commit)).min().copied())
    }

    /// Merges. Asks handlers unless `ruling` already contains their decision.
    ///
    /// # Errors
    /// [`Error::Collected`](crate::Error::Collected) when garbage collection deleted the source
    /// after the caller named it. The store is healthy, so this must not be reported as damage.
    async fn merge_asking(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
        ruling: &mut Option<MergeNote>,
        resolver: &mut Resolver<'_>,
    ) -> Result<Merged> {
        let merged = self.merge_stored(branch, source, options, ruling, resolver).await;
        if merged.as_ref().is_err_and(is_gone) {
            self.repo().require_uncollected(&[source]).await?;
        }
        merged
    }

    /// Merges a source whose commits are expected to be stored.
    async fn merge_stored(
        &mut self,
        branch: &RefName,
        source: CommitId,
        options: &MergeOptions,
        ruling: &mut Option<MergeNote>,
        resolver: &mut Resolver<'_>,
    ) -> Result<Merged> {
        let head = self.head(branch).await?;
        let ancestry = match head {
            Some(head) => common(self, head, source).await?,
            None => Ancestry::Forward,
        };
        let forward = matches!(ancestry, Ancestry::Forward) && !options.no_fast_forward;
        let forward = forward || head.is_none();
        if matches!(ancestry, Ancestry::Contained) {
            return Ok(Merged::NothingToMerge);
        }
        if matches!(&ancestry, Ancestry::Best(bases) if bases.is_empty())
            && !options.allow_unrelated
        {
            return Err(Refusal::Unrelated.into());
        }
        let hooks = self.repo().hooks();
        if ruling.is_none() && hooks.has_handler::<BeforeMerge>() && !self.imports() {
            let event = BeforeMerge {
                head,
                fast_forward: forward,
                ..BeforeMerge::new(branch.clone(), vec![source])
            };
            let decision = hooks.before_merge(&event).await;
            let request = PendingRequest::Merge {
                source,
                no_fast_forward: options.no_fast_forward,
                details: options.details.clone(),
                conflicts: None,
            };
            match WriteTarget::new(self.repo(), branch, head).merge(decision, request) {
                Ok(noted) => *ruling = Some(noted),
                Err(stopped) => return Err(Self::store_stopped(self.repo(), stopped).await),
            }
        }
        let noted_down = ruling.as_ref().and_then(Option::as_ref);
        if forward {
            if self.made_here(source).is_none() {
                self.repo().require_commit(source).await?;
            }
            // A fast-forward makes no commit to hold the record, so store it as a document.
            if let Some(noted) = noted_down {
                self.add_document(&noted.1)?;
            }
            self.move_ref(branch, Some(RefTarget::Commit(source))).await?;
            return Ok(Merged::FastForward { head: source });
        }
        let bases = match ancestry {
            Ancestry::Best(bases) => bases,
            Ancestry::Forward | Ancestry::Contained => head.into_iter().collect(),
        };
        if let (Some(ours), [base]) = (head, bases.as_slice())
            && let Some(ends) = self.ends_of(ours, source, *base).await?
        {
            let (ours, theirs, base) = ends;
            let (histories, differing) = ([base], differing(ours.view(), theirs.view(), None));
            let sides = MergeSides {
                ours: &ours,
                theirs: &theirs,
                bases: &histories,
                differing: &differing,
            };
            let details = noted_down.map_or(&options.details, |noted| &noted.0);
            let planned =
                self.plan_with(head, |records| plan_merge(sides, records, details, resolver)).await;
            // The whole histories may allow the merge; if they do not, their refusal is more
            // precise.
            if let Ok(planned) = planned
                && planned.texts.is_empty()
            {
                let tip = BranchTip::from(&ours);
                return Ok(Merged::Commit(self.change(branch, tip, planned.commit)?));
            }
        }
        let ours = self.fold(head).await?;
        let theirs = self.fold(Some(source)).await?;
        let mut histories = Vec::with_capacity(bases.len());
        for base in bases {
            histories.push(self.fold(Some(base)).await?);
        }
        let differing = self.repo().compared_heads().differing(&ours, &theirs);
        let sides =
            MergeSides { ours: &ours, theirs: &theirs, bases: &histories, differing: &differing };
        let details = noted_down.map_or(&options.details, |noted| &noted.0);
        let planned =
            self.plan_with(head, |records| plan_merge(sides, records, details, resolver)).await?;
        let merged = self.commit(branch, &ours, planned.commit).await?;
        let details = Details {
            origin: options.details.origin.clone(),
            created_at: options.details.created_at,
            ..Details::default()
        };
        for (target, text) in planned.texts {
            let content = NewContent::Text(text);
            let edit = Request::Edit { target, content, details: details.clone() };
            Box::pin(self.add_decided(branch, &edit)).await?;
        }
        Ok(Merged::Commit(merged))
    }
}

impl Txn<'_> {
    /// Returns the ends of two histories that forked near their heads, and the end of the history
    /// at the fork; `None` if more than the ends is needed, or the histories are in memory anyway.
    async fn ends_of(
        &self,
        ours: CommitId,
        theirs: CommitId,
        base: CommitId,
    ) -> Result<Option<(History, History, History)>> {
        let repo = self.repo();
        let is_known = repo.compiler().cached_history(ours).is_some();
        if is_known || self.made_here(ours).is_some() || self.made_here(theirs).is_some() {
            return Ok(None);
        }
        let ends = Box::pin(repo.recent_histories(base, [ours, theirs])).await?;
        Ok(ends.map(|(base, [ours, theirs])| (ours, theirs, base)))
    }
}

/// The commits that two heads share.
pub(crate) struct Shared {
    /// Whether the branch contains the whole other history.
    pub(crate) contains_head: bool,
    pub(crate) commits: HashSet<CommitId>,
}

/// Returns the source head and options of a merge; `None` for any other request.
pub(crate) fn merge_of(request: &PendingRequest) -> Option<(CommitId, MergeOptions)> {
    let PendingRequest::Merge { source, no_fast_forward, details, .. } = request else {
        return None;
    };
    // Unrelated histories were already refused when the merge was deferred or kept.
    let mut options =
        MergeOptions { allow_unrelated: true, details: details.clone(), ..MergeOptions::default() };
    options.no_fast_forward = *no_fast_forward;
    Some((*source, options))
}

//! Garbage collection: deletes unreachable objects.

mod mark;
mod order;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tract_core::store::{ListKind, ObjectListing, SpaceRelease, Sweep, SweepAnswer, WritePosition};
use tract_core::{ObjectId, ToolId, ToolRow};

use self::mark::Marks;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::lease;
use crate::write::races::Attempts;

/// How far a garbage collection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GcProgress {
    /// So many objects were found to be needed.
    Marking(u64),
    /// So many objects were compared with those.
    Listing(u64),
    /// So many of the unneeded objects were deleted.
    Sweeping {
        /// Deleted so far.
        done: u64,
        /// To be deleted.
        of: u64,
    },
    /// All is deleted, and the store gives the space back.
    Releasing,
}

/// Receives the progress of a garbage collection.
pub type OnGc = Arc<dyn Fn(GcProgress) + Send + Sync>;

/// How [`gc`] works.
#[derive(Clone)]
#[non_exhaustive]
pub struct GcOptions {
    /// Keeps what entries of the ref log younger than this lead to; 30 days by default.
    pub keep: Duration,
    /// Counts and deletes nothing.
    pub dry_run: bool,
    /// Gives free space back to the file system afterwards; true by default. redb keeps all others
    /// waiting while it moves its pages.
    pub release_space: bool,
    /// Receives the progress.
    pub progress: Option<OnGc>,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { keep: Self::KEEP, dry_run: false, release_space: true, progress: None }
    }
}

impl GcOptions {
    /// For how long what the ref log names is kept unless set: 30 days.
    pub const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// Starts from the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for how long what entries of the ref log lead to is kept.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets whether it only counts.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether free space is given back to the file system afterwards. Without that the store uses
    /// it again, and no writer waits longer than for a small transaction.
    #[must_use]
    pub fn release_space(mut self, release_space: bool) -> Self {
        self.release_space = release_space;
        self
    }

    /// Sets who receives the progress.
    #[must_use]
    pub fn progress(mut self, progress: OnGc) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl fmt::Debug for GcOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcOptions")
            .field("keep", &self.keep)
            .field("dry_run", &self.dry_run)
            .field("release_space", &self.release_space)
            .finish_non_exhaustive()
    }
}

/// A number of objects and of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCount {
    /// Objects.
    pub objects: u64,
    /// Their bytes, without what the engine adds.
    pub bytes: u64,
}

impl ObjectCount {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Why an object is kept: the first of these that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptBy {
    /// A branch or a tag.
    History,
    /// A document: pending approvals, decisions, pins, effects, imports, settings.
    Document,
    /// An entry of the ref log that is younger than the limit: what `undo` may need.
    RefLog,
    /// A write that came in while garbage was collected, or that is under way: a stream, an import or
    /// a transfer stores objects before a ref leads to them.
    Written,
}

/// What [`gc`] did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcReport {
    /// Objects kept, by reason.
    pub kept: BTreeMap<KeptBy, ObjectCount>,
    /// Commits deleted.
    pub commits: ObjectCount,
    /// Lists of tools deleted.
    pub toolsets: ObjectCount,
    /// Contents deleted: messages, documents, schemas.
    pub blobs: ObjectCount,
    /// Tools of the index that only deleted commits had in force.
    pub tools: u64,
    /// What was given back to the file system; `None` when nothing was deleted, or in a dry run.
    pub released: Option<SpaceRelease>,
}

impl GcReport {
    /// Returns how much was deleted in all.
    pub fn deleted(&self) -> ObjectCount {
        let counts = [self.commits, self.toolsets, self.blobs];
        ObjectCount {
            objects: counts.iter().map(|count| count.objects).sum(),
            bytes: counts.iter().map(|count| count.bytes).sum(),
        }
    }

    fn count(&mut self, object: ObjectId, bytes: u64) {
        match object {
            ObjectId::Commit(_) => self.commits.add(bytes),
            ObjectId::Toolset(_) => self.toolsets.add(bytes),
            ObjectId::Blob(_) => self.blobs.add(bytes),
            ObjectId::Tool(_) => self.tools += 1,
        }
    }
}

/// Objects that one sweep deletes at most, and bytes, so that writers wait for milliseconds.
const SWEEP_OBJECTS: usize = 512;
const SWEEP_BYTES: u64 = 8 << 20;
/// Objects that are listed together.
const LIST_OBJECTS: usize = 4096;

/// Deletes the unreachable objects of a repository.
///
/// # Behavior
/// - Keeps what refs lead to, what entries of the ref log younger than `keep` lead to, and every
///   object whose id is written in a document: approvals, decisions, pins.
/// - Writers continue meanwhile. What they link to is kept, and what they need and is deleted already
///   is refused with `Missing`, as if it had never been stored.
/// - Streams, imports and transfers that store objects before a ref leads to them hold a lease: what
///   they stored is kept until they end, their process ends, or they are silent for ten minutes.
/// - Deletes commits before what they link to, in small transactions: cut short at any moment, the
///   store is whole, and the next collection continues.
/// - A dry run counts the same and deletes nothing.
/// - The ref log stays: entries older than `keep` may name what is gone, and `undo` cannot go back
///   there.
///
/// # Errors
/// `Unsupported` when the store cannot collect garbage; [`Error::Damaged`](crate::Error::Damaged)
/// when something that is needed is damaged or missing, before anything is deleted;
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others keep writing objects without a ref,
/// as a copy does.
pub async fn gc(repo: &Repo, options: &GcOptions) -> Result<GcReport> {
    let mut races = repo.races();
    let mut collected = GcReport::default();
    let mut attempts = Attempts::new(repo);
    loop {
        match collect(repo, options, &mut collected).await {
            Ok(true) => {
                if options.release_space && !options.dry_run && collected.deleted().objects > 0 {
                    if let Some(report) = &options.progress {
                        report(GcProgress::Releasing);
                    }
                    collected.released = Some(repo.store().release_space().await?);
                }
                return Ok(collected);
            }
            Ok(false) => races.lose().await?,
            // A ref that this collection has read may be gone since, and another collection may
            // have deleted what it led to.
            Err(error) => attempts.again(error).await?,
        }
    }
}

/// Makes one attempt; returns whether it came to the end.
async fn collect(repo: &Repo, options: &GcOptions, collected: &mut GcReport) -> Result<bool> {
    Collection::begin(repo, options).await?.run(collected).await
}

/// One attempt: marks, lists, sweeps.
struct Collection<'a> {
    repo: &'a Repo,
    options: &'a GcOptions,
    position: WritePosition,
    marks: Marks<'a>,
}

impl<'a> Collection<'a> {
    async fn begin(repo: &'a Repo, options: &'a GcOptions) -> Result<Self> {
        let mut marks = Marks::new(repo, options.progress.clone());
        if options.dry_run {
            marks.pass_over(lease::expired(repo).await?);
        } else {
            lease::delete_expired(repo).await?;
        }
        // The position is read before the refs: what moves afterwards is seen as a move.
        let position = repo.store().write_position(repo.name()).await?;
        let keep = i64::try_from(options.keep.as_micros()).unwrap_or(i64::MAX);
        let since = repo.now_us().saturating_sub(keep);
        marks.refs().await?;
        marks.log(since).await?;
        Ok(Self { repo, options, position, marks })
    }

    /// Deletes what is not marked; says whether it came to the end.
    async fn run(mut self, report: &mut GcReport) -> Result<bool> {
        let mut kept = BTreeMap::new();
        let mut commits = self.unmarked(ListKind::Commits, &mut kept).await?;
        let toolsets = self.unmarked(ListKind::Toolsets, &mut kept).await?;
        let blobs = self.unmarked(ListKind::Blobs, &mut kept).await?;
        let tools = self.unmarked_tools().await?;
        report.kept = kept;
        if self.options.dry_run {
            for (object, bytes) in commits.iter().chain(&toolsets).chain(&blobs) {
                report.count(*object, *bytes);
            }
            report.tools =
                tools.iter().filter(|id| self.marks.rows_of(**id).is_empty()).count() as u64;
            return Ok(true);
        }
        order::children_first(self.repo, &mut commits).await?;
        let of = (commits.len() + toolsets.len() + blobs.len()) as u64;
        // Nothing that is stored ever links to what is gone: commits, then lists of tools, then
        // contents. The tool index names no schema that is gone either.
        if !self.sweep(&commits, of, report).await? || !self.sweep_tools(&tools, report).await? {
            return Ok(false);
        }
        Ok(self.sweep(&toolsets, of, report).await? && self.sweep(&blobs, of, report).await?)
    }

    fn progress(&self, progress: GcProgress) {
        if let Some(report) = &self.options.progress {
            report(progress);
        }
    }

    async fn unmarked(
        &self,
        kind: ListKind,
        kept: &mut BTreeMap<KeptBy, ObjectCount>,
    ) -> Result<Vec<(ObjectId, u64)>> {
        let mut unmarked = Vec::new();
        let (mut after, mut listed) = (0, 0);
        loop {
            let listing = ObjectListing { kind, after, limit: LIST_OBJECTS };
            let page = self.repo.store().list_objects(self.repo.name(), listing).await?;
            for (object, bytes) in page.objects {
                match self.marks.reason(&object) {
                    Some(reason) => kept.entry(reason).or_default().add(bytes),
                    None => unmarked.push((object, bytes)),
                }
                listed += 1;
            }
            self.progress(GcProgress::Listing(listed));
            match page.next {
                Some(next) => after = next,
                None => return Ok(unmarked),
            }
        }
    }

    /// Lists the tools with a row of the index that names something unmarked.
    async fn unmarked_tools(&self) -> Result<Vec<ToolId>> {
        let (store, name) = (self.repo.store(), self.repo.name());
        let mut found = Vec::new();
        for tool in store.tool_names(name).await? {
            for tool in store.tools_by_name(name, &tool).await? {
                let is_kept = |object: ObjectId| self.marks.reason(&object).is_some();
                let whole = is_kept(ObjectId::Commit(tool.first))
                    && tool.schemas.iter().all(|schema| is_kept(ObjectId::Blob(*schema)));
                if !whole {
                    found.push(tool.id);
                }
            }
        }
        Ok(found)
    }

    async fn sweep(
        &mut self,
        objects: &[(ObjectId, u64)],
        of: u64,
        report: &mut GcReport,
    ) -> Result<bool> {
        let mut rest = objects;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, size): &&(ObjectId, u64)| {
                bytes += size;
                bytes <= SWEEP_BYTES
            };
            let take = rest.iter().take(SWEEP_OBJECTS).take_while(fits).count().max(1);
            let (chunk, after) = rest.split_at(take);
            rest = after;
            loop {
                let unmarked: Vec<(ObjectId, u64)> = chunk
                    .iter()
                    .filter(|(object, _)| self.marks.reason(object).is_none())
                    .copied()
                    .collect();
                let objects = unmarked.iter().map(|(object, _)| *object).collect();
                match self.delete(objects, Vec::new()).await? {
                    Deletion::Done => {
                        unmarked.iter().for_each(|(object, size)| report.count(*object, *size));
                        break;
                    }
                    Deletion::Again => {}
                    Deletion::Restart => return Ok(false),
                }
            }
            self.progress(GcProgress::Sweeping { done: report.deleted().objects, of });
        }
        Ok(true)
    }

    /// Gives the tool index the rows that kept commits call for.
    async fn sweep_tools(&mut self, tools: &[ToolId], report: &mut GcReport) -> Result<bool> {
        for chunk in tools.chunks(SWEEP_OBJECTS) {
            loop {
                let objects = chunk.iter().copied().map(ObjectId::Tool).collect();
                let mut rows: Vec<ToolRow> = Vec::new();
                let mut gone = 0;
                for tool in chunk {
                    let kept = self.marks.tool_rows(*tool).await?;
                    gone += u64::from(kept.is_empty());
                    rows.extend(kept);
                }
                match self.delete(objects, rows).await? {
                    Deletion::Done => {
                        report.tools += gone;
                        break;
                    }
                    Deletion::Again => {}
                    Deletion::Restart => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    async fn delete(&mut self, objects: Vec<ObjectId>, tools: Vec<ToolRow>) -> Result<Deletion> {
        if objects.is_empty() {
            return Ok(Deletion::Done);
        }
        let sweep = Sweep { position: self.position, objects, tools };
        match self.repo.store().sweep(self.repo.name(), sweep).await? {
            SweepAnswer::Done => Ok(Deletion::Done),
            // Objects in no ref's reach may link to anything: what is needed is found again.
            SweepAnswer::Moved(now) if now.unlogged != self.position.unlogged => {
                Ok(Deletion::Restart)
            }
            SweepAnswer::Moved(now) => {
                self.marks.moves(self.position.log).await?;
                self.position = now;
                Ok(Deletion::Again)
            }
        }
    }
}

enum Deletion {
    Done,
    /// Others wrote, and what they link to is marked now.
    Again,
    Restart,
}

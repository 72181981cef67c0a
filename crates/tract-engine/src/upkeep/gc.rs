//! Garbage collection: deletes unreachable objects.

pub(super) mod mark;
mod order;

use std::collections::BTreeMap;
use std::time::Duration;

use tract_core::store::{ListKind, ObjectListing, SpaceRelease, Sweep, SweepAnswer, WritePosition};
use tract_core::{ObjectId, ToolId, ToolRow};

use self::mark::Marks;
use crate::repo::error::Result;
use crate::repo::{Callback, Repo};
use crate::write::lease;
use crate::write::races::Attempts;

/// Progress of a garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcProgress {
    /// Number of objects found to be needed so far.
    Marking(u64),
    /// Number of stored objects compared with the needed ones so far.
    Listing(u64),
    /// Unneeded objects are being deleted.
    Sweeping {
        /// Number of objects deleted so far.
        done: u64,
        /// Number of objects to delete.
        of: u64,
    },
    /// Everything is deleted, and the store releases the free space.
    Releasing,
}

/// Receives the progress of a garbage collection.
pub type OnGc = Callback<GcProgress>;

/// Options of [`gc`].
#[derive(Clone, Debug)]
pub struct GcOptions {
    /// Keeps everything that ref log entries younger than this lead to; 30 days by default.
    pub keep: Duration,
    /// Only counts; deletes nothing.
    pub dry_run: bool,
    /// Returns free space to the file system afterwards; true by default. redb blocks all other
    /// users of the store while it moves its pages.
    pub release_space: bool,
    /// Receives progress reports.
    pub progress: Option<OnGc>,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { keep: Self::KEEP, dry_run: false, release_space: true, progress: None }
    }
}

impl GcOptions {
    /// The default of `keep`: 30 days.
    pub const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
}

/// A number of objects and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCount {
    /// Number of objects.
    pub objects: u64,
    /// Their size in bytes, without the overhead of the engine.
    pub bytes: u64,
}

impl ObjectCount {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// The reason for keeping an object: the first of these that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptBy {
    /// A branch or a tag.
    History,
    /// A document: pending approvals, decisions, pins, effects, imports or settings.
    Document,
    /// A ref log entry that is younger than the limit, which `undo` may need.
    RefLog,
    /// A write made during the collection, or one in progress: a stream, an import or a transfer
    /// stores objects before a ref leads to them.
    Written,
}

/// The result of [`gc`], or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Number of kept objects, by reason.
    pub kept: BTreeMap<KeptBy, ObjectCount>,
    /// Deleted commits.
    pub commits: ObjectCount,
    /// Deleted toolsets.
    pub toolsets: ObjectCount,
    /// Deleted blobs: messages, documents and schemas.
    pub blobs: ObjectCount,
    /// Number of tools removed from the index because only deleted commits used them.
    pub tools: u64,
    /// The space returned to the file system; `None` when nothing was deleted, or in a dry run.
    pub released: Option<SpaceRelease>,
}

impl GcReport {
    /// Returns the total of deleted objects.
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

/// Limits of one sweep, in objects and bytes, so that writers wait only milliseconds.
const SWEEP_OBJECTS: usize = 512;
const SWEEP_BYTES: u64 = 8 << 20;
/// Number of objects that are listed together.
const LIST_OBJECTS: usize = 4096;

/// Deletes the unreachable objects of a repository.
///
/// # Behavior
/// - Keeps everything that refs and ref log entries younger than `keep` lead to, and every object
///   whose id appears in a document: approvals, decisions, pins.
/// - Writers continue during the collection. Objects that they link to are kept. A write that needs
///   an already deleted object fails with `Missing`, as if it had never been stored.
/// - Streams, imports and transfers that store objects before a ref leads to them hold a lease:
///   their objects are kept until the writer or its process ends, or until it has not renewed the
///   lease for ten minutes.
/// - Deletes commits before the objects that they link to, in small transactions. If it is
///   interrupted, the store is consistent, and the next collection continues.
/// - A dry run counts the same and deletes nothing.
/// - The ref log stays: entries older than `keep` may name deleted objects, and `undo` cannot go
///   back to them.
///
/// # Errors
/// `Unsupported` when the store cannot collect garbage; [`Error::Damaged`](crate::Error::Damaged)
/// when a needed object is damaged or missing, before anything is deleted;
/// [`Error::KeptMoving`](crate::Error::KeptMoving) when others keep writing objects without a ref,
/// as a copy does.
pub async fn gc(repo: &Repo, options: &GcOptions) -> Result<GcReport> {
    let mut collected = GcReport::default();
    let mut attempts = Attempts::new(repo);
    loop {
        match collect(repo, options, &mut collected).await {
            Ok(true) => {
                if options.release_space && !options.dry_run && collected.deleted().objects > 0 {
                    if let Some(report) = &options.progress {
                        report.call(GcProgress::Releasing);
                    }
                    collected.released = Some(repo.store().release_space().await?);
                }
                return Ok(collected);
            }
            Ok(false) => attempts.lose().await?,
            // A ref that this attempt has read may have been deleted since, and another collection
            // may have deleted what it led to.
            Err(error) => attempts.again(error).await?,
        }
    }
}

/// Makes one attempt. Returns `false` if it has to be restarted.
async fn collect(repo: &Repo, options: &GcOptions, collected: &mut GcReport) -> Result<bool> {
    Collection::begin(repo, options).await?.run(collected).await
}

/// One attempt of mark and sweep.
///
/// Every sweep is conditional on the write position up to which everything is marked: the store
/// deletes only if nothing was written since. Otherwise the new ref log entries are marked, and the
/// sweep is retried without the objects that are needed now. So no object is deleted that a
/// concurrent write has linked to.
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
            // Before the position is read, because deleting a lease is a write that moves it.
            lease::delete_expired(repo).await?;
        }
        // Read the position before the refs, so that every ref that moves afterwards is noticed.
        let position = repo.store().write_position(repo.name()).await?;
        let keep = i64::try_from(options.keep.as_micros()).unwrap_or(i64::MAX);
        let since = repo.now_us().saturating_sub(keep);
        // Refs before the log: the first mark of an object decides the reason that is reported.
        marks.refs().await?;
        marks.log(since).await?;
        Ok(Self { repo, options, position, marks })
    }

    /// Deletes the unmarked objects. Returns `false` if the attempt has to be restarted.
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
        // Delete commits, then toolsets, then blobs, so that no stored object ever links to a
        // deleted one. The tool index is cleaned before the schemas that it names are deleted.
        if !self.sweep(&commits, of, report).await? || !self.sweep_tools(&tools, report).await? {
            return Ok(false);
        }
        Ok(self.sweep(&toolsets, of, report).await? && self.sweep(&blobs, of, report).await?)
    }

    fn progress(&self, progress: GcProgress) {
        if let Some(report) = &self.options.progress {
            report.call(progress);
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
            // An object that is stored after the marks were made is listed as unmarked. That is
            // harmless: its write has moved the position, so the sweep marks the new log entries
            // before it deletes anything.
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

    /// Returns the tools with an index row that names an unmarked object.
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
            // At least one: an object may be larger than the limit.
            let take = rest.iter().take(SWEEP_OBJECTS).take_while(fits).count().max(1);
            let (chunk, after) = rest.split_at(take);
            rest = after;
            loop {
                // Filtered for each try, since `Again` means that more objects are marked now.
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

    /// Replaces the index rows of tools by the rows that kept commits require.
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
            // New objects without a ref may link to any object, and no log entry names them, so the
            // marks are worthless. Start over.
            SweepAnswer::Moved(now) if now.unlogged != self.position.unlogged => {
                Ok(Deletion::Restart)
            }
            // The entries are read after the store has reported its position, so they include
            // everything up to `now`. Entries that are even newer are marked too, which keeps more
            // than necessary and never less.
            SweepAnswer::Moved(now) => {
                self.marks.moves(self.position.log).await?;
                self.position = now;
                Ok(Deletion::Again)
            }
        }
    }
}

/// The outcome of one conditional deletion.
enum Deletion {
    Done,
    /// Others moved refs. The objects that those lead to are marked now: retry with the others.
    Again,
    /// Others stored objects without a ref: mark again from the start.
    Restart,
}

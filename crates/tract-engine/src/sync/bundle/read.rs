//! Reads a bundle: once to check all of it, once to apply it.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};
use tract_core::stream::{StreamOp, StreamOpKind};
use tract_core::{Blob, BlobId, Changes, CommitId, RefName, RefTarget};

use super::{FirstLine, LastLine, VERSION, hex};
use crate::history::reach::links;
use crate::repo::Repo;
use crate::repo::erasure::Erasure;
use crate::repo::error::gone::is_gone;
use crate::repo::error::{BundleError, Error, LineError, Result};
use crate::sync::apply::{ApplyOptions, MAX_LINE_BYTES, StreamLine, apply_stream_with};
use crate::sync::carry::ObjectCopier;
use crate::sync::copy::{CopyProgress, OnCopy};
use crate::sync::remote::{PlannedRef, TransferredRef, incomplete, move_refs};
use crate::upkeep::erase::read_sent;
use crate::upkeep::restore::readable_commits;

/// Number of commits that are looked up together.
const IDS: usize = 512;

/// The beginning of the closing line.
const END: &[u8] = br#"{"op":"end","#;

/// A completely checked bundle: it is complete and unmodified, its format is known, every object
/// has its stated id, and every commit comes after the commits that it links to.
#[derive(Debug)]
pub struct Bundle<R> {
    source: R,
    prerequisites: Vec<CommitId>,
    commits: Vec<CommitId>,
    refs: Vec<(RefName, RefTarget)>,
    lines: usize,
    sha256: String,
}

impl<R: Read + Seek> Bundle<R> {
    /// Reads and checks a bundle. Keeps the ids of its commits, and one line, in memory.
    ///
    /// # Errors
    /// [`Error::Bundle`] with the reason.
    pub fn open(mut source: R) -> Result<Self> {
        let checked = Checked::read(&mut source).map_err(Error::Bundle)?;
        let Checked { prerequisites, commits, refs, lines, sha256, .. } = checked;
        Ok(Self { source, prerequisites, commits, refs, lines, sha256 })
    }

    /// Returns the commits that the receiver must have.
    pub fn prerequisites(&self) -> &[CommitId] {
        &self.prerequisites
    }

    /// Returns the refs in the bundle.
    pub fn refs(&self) -> &[(RefName, RefTarget)] {
        &self.refs
    }

    /// Returns the number of commits in the bundle.
    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Returns the prerequisites that a repository lacks.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn missing_prerequisites(&self, repo: &Repo) -> Result<Vec<CommitId>> {
        let missing = missing(repo, &self.prerequisites).await?;
        if !missing.is_empty() {
            return Ok(missing);
        }
        // A commit that no ref leads to may be stored without all of its ancestors.
        incomplete(repo, &self.prerequisites).await
    }

    pub(crate) async fn require_prerequisites(&self, repo: &Repo) -> Result<()> {
        let missing = self.missing_prerequisites(repo).await?;
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Error::Bundle(BundleError::MissingPrerequisites { missing })),
        }
    }
}

async fn missing(repo: &Repo, ids: &[CommitId]) -> Result<Vec<CommitId>> {
    let mut missing = Vec::new();
    for ids in ids.chunks(IDS) {
        let found = repo.store().commits(repo.name(), ids).await?;
        missing.extend(
            ids.iter().zip(found).filter(|(_, commit)| commit.is_none()).map(|(id, _)| *id),
        );
    }
    Ok(missing)
}

/// Reads one line including its line break; `None` at the end of the file.
fn read_line(
    reader: &mut impl BufRead,
    number: usize,
    bytes: &mut Vec<u8>,
) -> Result<Option<()>, BundleError> {
    bytes.clear();
    let read =
        reader.take(MAX_LINE_BYTES + 1).read_until(b'\n', bytes).map_err(BundleError::Read)?;
    match read as u64 {
        0 => Ok(None),
        read if read > MAX_LINE_BYTES => {
            let what = format!("line {number} is longer than {MAX_LINE_BYTES} bytes");
            Err(BundleError::Changed { what })
        }
        _ => Ok(Some(())),
    }
}

/// The result of the first pass.
#[derive(Default)]
struct Checked {
    prerequisites: Vec<CommitId>,
    commits: Vec<CommitId>,
    refs: Vec<(RefName, RefTarget)>,
    lines: usize,
    sha256: String,
    /// The commits that later lines may link to.
    known: HashSet<CommitId>,
}

impl Checked {
    fn read(source: &mut (impl Read + Seek)) -> Result<Self, BundleError> {
        source.seek(SeekFrom::Start(0)).map_err(BundleError::Read)?;
        let mut reader = BufReader::with_capacity(256 << 10, source);
        let (mut found, mut bytes) = (Self::default(), Vec::new());
        if read_line(&mut reader, 1, &mut bytes)?.is_none() {
            return Err(BundleError::NotABundle { what: "it is empty".to_owned() });
        }
        found.first(&bytes)?;
        let mut hash = Sha256::new();
        // Report an invalid line only if the hash matches: otherwise the file was modified, and
        // that is the error to report.
        let mut wrong: Option<BundleError> = None;
        loop {
            hash.update(&bytes);
            found.lines += 1;
            let number = found.lines + 1;
            if read_line(&mut reader, number, &mut bytes)?.is_none() {
                return Err(BundleError::Cut { lines: found.lines });
            }
            if bytes.starts_with(END) {
                break;
            }
            if wrong.is_none() {
                wrong = found.line(number, &bytes).err();
            }
        }
        found.sha256 = hex(hash);
        let changed = |what: String| Err(BundleError::Changed { what });
        let Ok(last) = serde_json::from_slice::<LastLine>(&bytes) else {
            return changed("its closing line is not one".to_owned());
        };
        if (last.lines, &last.sha256) != (found.lines as u64, &found.sha256) {
            return changed(match &wrong {
                Some(BundleError::Line { line, error }) => format!("line {line}: {error}"),
                _ => format!("its lines have the hash {}, not {}", found.sha256, last.sha256),
            });
        }
        if read_line(&mut reader, found.lines + 2, &mut bytes)?.is_some() {
            return changed("something follows its closing line".to_owned());
        }
        match wrong {
            Some(wrong) => Err(wrong),
            None if last.commits != found.commits.len() as u64 => {
                let what = format!("it has {} commits, not {}", found.commits.len(), last.commits);
                changed(what)
            }
            None => Ok(found),
        }
    }

    fn first(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let not = |what: String| BundleError::NotABundle { what };
        // A later format version may have other fields.
        #[derive(serde::Deserialize)]
        struct Version {
            op: String,
            version: u64,
        }
        let version: Version = serde_json::from_slice(bytes)
            .map_err(|_| not("its first line is not that of a bundle".to_owned()))?;
        if version.op != "bundle" {
            return Err(not(format!("its first line has the operation {:?}", version.op)));
        }
        if version.version != VERSION {
            return Err(match version.version > VERSION {
                true => BundleError::NewerFormat { version: version.version, newest: VERSION },
                false => not(format!("there is no format {}", version.version)),
            });
        }
        let first: FirstLine =
            serde_json::from_slice(bytes).map_err(|error| not(error.to_string()))?;
        for id in &first.requires {
            let id = id.parse().map_err(|_| not(format!("{id:?} is no id of a commit")))?;
            self.prerequisites.push(id);
            self.known.insert(id);
        }
        Ok(())
    }

    /// Checks a line on its own, and that the commits that it links to come before it.
    fn line(&mut self, line: usize, bytes: &[u8]) -> Result<(), BundleError> {
        let step =
            parse(bytes).map_err(|error| BundleError::Line { line, error: Box::new(error) })?;
        if let Some(commit) = &step.recorded {
            let changes = match &commit.changes {
                Changes::List(changes) => changes.as_slice(),
                // These are in a blob; they are checked when the line is applied.
                Changes::Blob(_) => &[],
            };
            let links = links(commit, changes);
            if let Some(commit) = links.into_iter().find(|id| !self.known.contains(id)) {
                return Err(BundleError::Incomplete { line, commit });
            }
            self.known.insert(commit.id());
            self.commits.push(commit.id());
            return Ok(());
        }
        match step.op {
            StreamOpKind::Blob(_) => Ok(()),
            StreamOpKind::Ref { name, to } => {
                if let Some(commit) = to.commit().filter(|id| !self.known.contains(id)) {
                    return Err(BundleError::Incomplete { line, commit });
                }
                self.refs.push((name, to));
                Ok(())
            }
            op => Err(BundleError::ForeignLine { line, op: op.name() }),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<StreamOp, LineError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        LineError::Read(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    })?;
    StreamOp::parse(text.trim_end()).map_err(LineError::Step)
}

impl<R: Read + Seek> Bundle<R> {
    /// Reads the lines with objects again.
    pub(super) async fn each_step(
        &mut self,
        mut take: impl AsyncFnMut(StreamOp) -> Result<()>,
    ) -> Result<()> {
        self.source.seek(SeekFrom::Start(0)).map_err(|error| failed(BundleError::Read(error)))?;
        let mut reader = BufReader::with_capacity(256 << 10, &mut self.source);
        let (mut hash, mut bytes) = (Sha256::new(), Vec::new());
        for number in 1..=self.lines {
            let read = read_line(&mut reader, number, &mut bytes).map_err(failed)?;
            hash.update(&bytes);
            if number == 1 || read.is_none() {
                continue;
            }
            let step = parse(&bytes).map_err(|error| {
                failed(BundleError::Line { line: number, error: Box::new(error) })
            })?;
            take(step).await?;
        }
        if hex(hash) == self.sha256 {
            return Ok(());
        }
        let what = "its bytes changed while it was read".to_owned();
        Err(failed(BundleError::Changed { what }))
    }
}

/// The lines with objects, in the second pass.
struct Objects<'a, R> {
    reader: BufReader<&'a mut R>,
    hash: Sha256,
    number: usize,
    lines: usize,
    /// The ids of documents that refs point to.
    wanted: HashSet<BlobId>,
    documents: HashMap<BlobId, Blob>,
    failed: Option<BundleError>,
}

impl<R: Read> Iterator for Objects<'_, R> {
    type Item = StreamLine;

    fn next(&mut self) -> Option<StreamLine> {
        let mut bytes = Vec::new();
        while self.failed.is_none() && self.number < self.lines {
            self.number += 1;
            match read_line(&mut self.reader, self.number, &mut bytes) {
                Ok(Some(())) => {}
                Ok(None) => {
                    self.failed = Some(BundleError::Cut { lines: self.number - 1 });
                    return None;
                }
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            }
            self.hash.update(&bytes);
            if self.number == 1 {
                continue;
            }
            let step = parse(&bytes);
            match step.as_ref().map(|step| (&step.op, &step.recorded)) {
                Ok((StreamOpKind::Ref { .. }, None)) => continue,
                Ok((StreamOpKind::Blob(blob), None)) if self.wanted.contains(&blob.id()) => {
                    self.documents.insert(blob.id(), blob.clone());
                }
                Ok((StreamOpKind::Blob(_), None) | (_, Some(_))) | Err(_) => {}
                // The file was modified since the first pass. The hash reports it at the end.
                Ok((_, None)) => continue,
            }
            let mut line = StreamLine::new(self.number, step);
            line.bytes = bytes.len();
            line.followed = true;
            return Some(line);
        }
        None
    }
}

/// Maximum number of retries of a bundle when a line needs an object that is missing. The first
/// pass found the bundle complete, so that object was stored here already, and was
/// garbage-collected in the meantime.
const AGAIN: usize = 2;

/// The result of applying a bundle.
pub(crate) struct TakenBundle {
    /// Number of commits that were not stored here.
    pub(crate) new: usize,
    /// Number of damaged or missing objects that were replaced.
    pub(crate) restored: usize,
    /// The refs with their outcomes.
    pub(crate) refs: Vec<TransferredRef>,
    /// The erasures among them, which are still to be applied.
    pub(crate) erasures: Vec<Erasure>,
}

/// Applies the objects of a bundle, and moves refs.
pub(crate) async fn take<R: Read + Seek>(
    repo: &Repo,
    bundle: &mut Bundle<R>,
    carrier: &ObjectCopier<'_>,
    planned: &[PlannedRef],
    progress: &Option<OnCopy>,
) -> Result<TakenBundle> {
    let is_erasure = |planned: &&PlannedRef| planned.name.erased_blob().is_some();
    let (sent, planned): (Vec<&PlannedRef>, Vec<&PlannedRef>) =
        planned.iter().partition(is_erasure);
    let planned: Vec<PlannedRef> = planned.into_iter().cloned().collect();
    let mut tries = 0;
    let taken = loop {
        let taken = async {
            let (new, restored, documents) = load(repo, bundle, carrier, progress).await?;
            let refs = move_refs(carrier, repo, &planned, &documents).await?;
            let erasures = sent.iter().filter_map(|sent| {
                let document = sent.to.as_ref().and_then(RefTarget::blob);
                read_sent(&sent.name, documents.get(&document?)?)
            });
            Ok(TakenBundle { new, restored, refs, erasures: erasures.collect() })
        };
        match taken.await {
            Err(error) if tries < AGAIN && is_lacking(&error) => tries += 1,
            taken => break taken,
        }
        if let Err(error) = bundle.require_prerequisites(repo).await {
            break Err(error);
        }
    };
    carrier.lease.release().await;
    taken
}

/// Returns whether an error reports a missing object.
fn is_lacking(error: &Error) -> bool {
    match error {
        Error::Bundle(BundleError::Line { error, .. }) => match &**error {
            LineError::NotBrought { .. } => true,
            LineError::Engine(error) => is_gone(error),
            _ => false,
        },
        error => is_gone(error),
    }
}

/// Applies the objects of a bundle. Returns the number of commits that were not stored here, the
/// number of replaced objects, and the documents that its refs point to.
async fn load<R: Read + Seek>(
    repo: &Repo,
    bundle: &mut Bundle<R>,
    carrier: &ObjectCopier<'_>,
    progress: &Option<OnCopy>,
) -> Result<(usize, usize, HashMap<BlobId, Blob>)> {
    let mut new = 0;
    for ids in bundle.commits.chunks(IDS) {
        let (found, _) = readable_commits(repo, ids).await?;
        new += found.iter().filter(|commit| commit.is_none()).count();
    }
    let commits = bundle.commits.len();
    bundle.source.seek(SeekFrom::Start(0)).map_err(|error| failed(BundleError::Read(error)))?;
    let mut objects = Objects {
        reader: BufReader::with_capacity(256 << 10, &mut bundle.source),
        hash: Sha256::new(),
        number: 0,
        lines: bundle.lines,
        wanted: bundle.refs.iter().filter_map(|(_, target)| target.blob()).collect(),
        documents: HashMap::new(),
        failed: None,
    };
    let options =
        ApplyOptions { operation: Some(carrier.operation.clone()), ..ApplyOptions::default() };
    // The lease is released after the refs have moved.
    let lease = Some(carrier.lease.clone());
    let (mut refused, mut done) = (None, 0);
    let applied =
        apply_stream_with(repo, objects.by_ref(), &options, lease, |event| match event.result {
            Ok(commit) => {
                done += usize::from(commit.is_some());
                if let (Some(progress), Some(_)) = (progress, commit) {
                    progress.call(CopyProgress { commits_done: done, commits });
                }
            }
            Err(error) => refused = Some((event.line, error)),
        })
        .await?;
    if let Some(error) = objects.failed {
        return Err(failed(error));
    }
    if let Some((line, error)) = refused {
        return Err(failed(BundleError::Line { line, error: Box::new(error) }));
    }
    let found = hex(objects.hash);
    if found != bundle.sha256 {
        let what = "its bytes changed while it was read".to_owned();
        return Err(failed(BundleError::Changed { what }));
    }
    Ok((new, applied.restored, objects.documents))
}

fn failed(error: BundleError) -> Error {
    Error::Bundle(error)
}

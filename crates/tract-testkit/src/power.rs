//! Power loss: each write that was not flushed may or may not be on the disk.
//!
//! A [`WriteTrace`] contains the writes and flushes of files and the acknowledgments between them.
//! It comes from an engine that does its input and output through a [`Recorder`], or, on Linux,
//! from a process that [`record()`] runs: every write and flush of its C library is recorded.
//! [`losses`] cuts the power at many moments, makes an [`Image`] of the disk for each, and compares
//! the store opened there with the acknowledged writes.
//!
//! The process that is recorded appends with [`crash::append`](crate::crash::append) and reports
//! each acknowledged commit to [`AckReporter`]; the test that starts it is most often the same
//! program:
//!
//! ```no_run
//! # use std::path::Path;
//! # use std::process::Command;
//! # use std::sync::Arc;
//! # use tract_core::{RepoName, Store, StoreResult};
//! # use tract_testkit::{crash, power};
//! # fn open(folder: &Path) -> StoreResult<Arc<dyn Store>> { Ok(Arc::new(tract_kv::memory())) }
//! # fn child(folder: &Path) -> std::io::Result<()> {
//! // In the child.
//! let store = open(folder).expect("it opens");
//! let mut acknowledged = power::AckReporter::create(folder)?;
//! let repo = RepoName::default();
//! crash::append(&*store, &repo, 0, 60, |id| acknowledged.add(0, id).expect("a line"))
//!     .expect("it is written");
//! # Ok(())
//! # }
//! # fn parent() -> std::io::Result<()> {
//! // In the test.
//! let folder = tempfile::tempdir()?;
//! let mut command = Command::new(std::env::current_exe()?);
//! command.args(["--exact", "child"]);
//! if let Some(tape) = power::record(&mut command, folder.path())? {
//!     let images = tempfile::tempdir()?;
//!     let open = |image: &power::Image| {
//!         let place = image.number().to_string();
//!         let place = images.path().join(place);
//!         image.write_to(&place)?;
//!         open(&place)
//!     };
//!     power::losses(&tape, &mut tract_testkit::rounds(1000, 60), open).expect("nothing is lost");
//! }
//! # Ok(())
//! # }
//! ```

mod record;
mod recorder;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tract_core::{CommitId, RepoName, Store, StoreResult};

pub use self::record::{AckReporter, library, record};
pub use self::recorder::Recorder;
use crate::Rounds;
use crate::crash::{Loss, WriterReport};

/// The file in which acknowledged commits are reported.
const ACKNOWLEDGED: &str = "acknowledged";

/// An operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Bytes were written at an offset.
    Write(u64, Vec<u8>),
    /// The length of the file was set.
    Length(u64),
    /// A flush of the earlier writes of a file, or of the entries of a folder.
    Flush,
    /// The file was deleted.
    Remove,
}

/// One recorded operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOp {
    /// The path of the file within the recorded folder.
    pub file: PathBuf,
    /// The operation on it.
    pub act: Act,
}

/// The operations on the files of a folder, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTrace {
    /// The operations.
    pub steps: Vec<FileOp>,
}

/// Pseudo-random numbers from a fixed seed.
#[derive(Clone, Debug)]
pub struct SeededRng(pub u64);

impl SeededRng {
    /// Returns the next number, less than `most`.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % most.max(1)
    }
}

fn carry_out(bytes: &mut Vec<u8>, act: &Act) {
    match act {
        Act::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(data);
        }
        Act::Length(length) => bytes.resize(*length as usize, 0),
        Act::Flush | Act::Remove => {}
    }
}

/// A possible state of the files of a folder after a power loss.
#[derive(Clone, Debug, Default)]
pub struct Image {
    number: usize,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    /// Returns the number of the image, unique within a run.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the bytes of a file; empty if it is missing.
    pub fn file(&self, name: impl AsRef<Path>) -> &[u8] {
        self.files.get(name.as_ref()).map_or(&[], Vec::as_slice)
    }

    /// Writes the files to a folder, which is created.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }
}

impl WriteTrace {
    /// Makes a possible state of the files if the power is lost before a step. Flushed writes are
    /// there; each other write is missing, complete or torn.
    fn image(&self, cut: usize, dice: &mut SeededRng) -> Image {
        let steps = self.steps.get(..cut).unwrap_or(&self.steps);
        let (mut flushed, mut written) = (BTreeMap::new(), BTreeMap::new());
        for (place, step) in steps.iter().enumerate() {
            let last = if step.act == Act::Flush { &mut flushed } else { &mut written };
            last.insert(step.file.as_path(), place);
        }
        let is_after = |last: &BTreeMap<&Path, usize>, file: &Path, place: usize| {
            last.get(file).is_some_and(|last| *last >= place)
        };
        let mut image = Image::default();
        for (place, step) in steps.iter().enumerate() {
            if step.file == Path::new(ACKNOWLEDGED) || step.act == Act::Flush {
                continue;
            }
            if step.act == Act::Remove {
                // A removal is durable once the folder is flushed, or a new file of that name was
                // written.
                let folder = step.file.parent().unwrap_or(Path::new(""));
                let lasts =
                    is_after(&flushed, folder, place) || is_after(&written, &step.file, place + 1);
                if lasts || dice.below(2) == 0 {
                    image.files.remove(&step.file);
                }
                continue;
            }
            let file = image.files.entry(step.file.clone()).or_default();
            let is_flushed = is_after(&flushed, &step.file, place);
            match (dice.below(3), &step.act) {
                _ if is_flushed => carry_out(file, &step.act),
                (0, _) => {}
                (1, Act::Write(offset, data)) => {
                    let torn = data[..dice.below(data.len())].to_vec();
                    carry_out(file, &Act::Write(*offset, torn));
                }
                (_, act) => carry_out(file, act),
            }
        }
        image
    }

    /// Returns the acknowledged commits with their writers, each with the step that reported it.
    fn acknowledged(&self) -> Vec<(usize, usize, CommitId)> {
        let mut found = Vec::new();
        for (place, step) in self.steps.iter().enumerate() {
            let Act::Write(_, line) = &step.act else { continue };
            if step.file != Path::new(ACKNOWLEDGED) {
                continue;
            }
            let text = std::str::from_utf8(line).unwrap_or_default().trim();
            let parts = text.split_once(' ');
            found
                .extend(parts.and_then(|(writer, id)| {
                    Some((place, writer.parse().ok()?, id.parse().ok()?))
                }));
        }
        found
    }
}

/// Counts of a run without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The number of images.
    pub images: usize,
    /// The number of images that contain a write that was not acknowledged yet.
    pub in_flight: usize,
}

/// A violation after a power loss.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("image {image}, power lost before step {cut}: {loss}")]
pub struct LossOfPower {
    /// The number of the image.
    pub image: usize,
    /// The number of the step before which the power was lost.
    pub cut: usize,
    /// The violation.
    pub loss: Loss,
}

/// Cuts the power at one moment per round, and compares the store with the writes acknowledged
/// before, like [`WriterReport::judge`].
///
/// # Errors
/// [`LossOfPower`] for the first image in which an acknowledged write is lost, that `open` rejects,
/// or in which the store's check finds damage.
///
/// # Panics
/// If nothing was acknowledged, so that nothing can be lost.
pub fn losses(
    tape: &WriteTrace,
    rounds: &mut Rounds,
    open: impl Fn(&Image) -> StoreResult<Arc<dyn Store>>,
) -> Result<Losses, LossOfPower> {
    let acknowledged = tape.acknowledged();
    let begun = acknowledged.first().expect("something was acknowledged").0;
    let writers = acknowledged.iter().map(|(_, writer, _)| writer + 1).max().unwrap_or_default();
    let (mut dice, mut losses) = (SeededRng(11), Losses::default());
    for number in rounds.by_ref() {
        let cut = begun + dice.below(tape.steps.len() - begun + 1);
        let image = Image { number, ..tape.image(cut, &mut dice) };
        let (before, after) =
            acknowledged.split_at(acknowledged.partition_point(|(place, ..)| *place < cut));
        let mut report = WriterReport::new(writers);
        for (_, writer, id) in before {
            report.acknowledge(*writer, *id);
        }
        let known = report.clone();
        let judged = open(&image)
            .map_err(Loss::from)
            .and_then(|store| report.judge(&*store, &RepoName::default()))
            .and_then(|()| is_next(&known, &report, after));
        judged.map_err(|loss| LossOfPower { image: number, cut, loss })?;
        losses.images += 1;
        losses.in_flight += usize::from(report != known);
    }
    Ok(losses)
}

/// Checks that an unacknowledged write in the image is the next write that its writer acknowledged.
fn is_next(
    known: &WriterReport,
    found: &WriterReport,
    after: &[(usize, usize, CommitId)],
) -> Result<(), Loss> {
    let mut seen = HashSet::new();
    for (_, writer, next) in after {
        let (known, found) = (known.at(*writer), found.at(*writer));
        if seen.insert(*writer) && found != known && found != Some(*next) {
            return Err(Loss::Elsewhere { writer: *writer, found, known });
        }
    }
    Ok(())
}

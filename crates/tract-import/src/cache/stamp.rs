//! Detects whether a file changed, without reading it.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970.
type Time = (i64, u32);

/// The file system's metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    len: u64,
    modified: Time,
    /// The time of the last change of any kind, and the identity of the file, if the system
    /// provides them: a program may reset the modification time, or put another file in its place.
    changed: Option<Time>,
    file: Option<(u64, u64)>,
}

impl Stamp {
    /// Reads the stamp of a file; `None` if it does not exist or is not a regular file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let (changed, identity) = identity(&file);
        let modified = time(file.modified().ok()?)?;
        Some(Self { len: file.len(), modified, changed, file: identity })
    }

    /// Returns whether the file was not modified since a time, by its own timestamps.
    pub(crate) fn is_settled(&self, since: SystemTime) -> bool {
        let Some(since) = time(since) else { return false };
        self.modified <= since && self.changed.is_none_or(|changed| changed <= since)
    }
}

fn time(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some((i64::try_from(since.as_secs()).ok()?, since.subsec_nanos()))
}

#[cfg(unix)]
fn identity(file: &Metadata) -> (Option<Time>, Option<(u64, u64)>) {
    use std::os::unix::fs::MetadataExt as _;
    let nanos = u32::try_from(file.ctime_nsec()).unwrap_or_default();
    (Some((file.ctime(), nanos)), Some((file.dev(), file.ino())))
}

#[cfg(not(unix))]
fn identity(_file: &Metadata) -> (Option<Time>, Option<(u64, u64)>) {
    (None, None)
}

//! What tells that a file is the same, without reading it.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970.
type Time = (i64, u32);

/// A file as the file system knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    len: u64,
    modified: Time,
    /// The last change of any kind, and the file itself, where the system has them: a program may
    /// set the time of modification back, and another file may take the place of this one.
    changed: Option<Time>,
    file: Option<(u64, u64)>,
}

impl Stamp {
    /// Looks at a file; `None` for what is none, or is not there.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let (changed, identity) = identity(&file);
        let modified = time(file.modified().ok()?)?;
        Some(Self { len: file.len(), modified, changed, file: identity })
    }

    /// Whether nothing was written to the file since a time, by its own times.
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

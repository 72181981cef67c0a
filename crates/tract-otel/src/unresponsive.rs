//! Collectors that did not answer in time, remembered across processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a collector is remembered. One that is started within this time misses the spans of
/// short programs.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The file with the time at which a collector did not answer.
#[derive(Debug)]
pub(crate) struct Unresponsive {
    file: PathBuf,
    started: Instant,
    /// Whether it had not answered when this program started.
    is_remembered: bool,
}

impl Unresponsive {
    /// `collector` is its scheme, host and port.
    pub(crate) fn of(folder: &Path, collector: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = collector.chars().map(plain).take(100).collect();
        let file = folder.join(format!("telemetry-{name}"));
        let modified = std::fs::metadata(&file).and_then(|file| file.modified());
        // A time in the future is of a clock that was set back.
        let age = modified.ok().and_then(|at| at.elapsed().ok());
        let is_remembered = age.is_some_and(|age| age < REMEMBERED);
        Self { file, started: Instant::now(), is_remembered }
    }

    /// Returns whether the flush waits for the collector. A program that runs for long tries again.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.is_remembered || self.started.elapsed() >= REMEMBERED
    }

    /// Remembers that the collector did not answer. Without it the next program waits again.
    pub(crate) fn remember(&self) {
        if let Some(folder) = self.file.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = std::fs::write(&self.file, b"");
    }

    /// Forgets it, as it has answered.
    pub(crate) fn forget(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    /// Says how long it is not waited for.
    pub(crate) fn note() -> String {
        format!("; commands do not wait for it for {} s", REMEMBERED.as_secs())
    }
}

//! The flush that sled does not do.
//!
//! sled 0.34's own `flush` writes its buffers out and asks Linux to start writing
//! (`sync_file_range`), which waits for no disk. What it wrote is made durable here, through
//! handles of our own on the same files.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tract_kv::files::sync_folder;

/// The files of one sled folder.
#[derive(Debug)]
pub(crate) struct Flush {
    log: File,
    /// Where values go that are too long for a segment of the log, one file each.
    long: PathBuf,
    /// Those of them that were flushed already.
    flushed: HashSet<OsString>,
    /// When that folder was last changed, where it is sure that `flushed` knows it as it was then.
    listed: Option<SystemTime>,
}

/// How long after a change a folder may change again without another time of change: file systems
/// tell times in steps.
const STEP: Duration = Duration::from_secs(2);

impl Flush {
    /// Takes handles on the files of an opened folder, and makes their names durable.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let flush = Self {
            log: File::open(folder.join("db"))?,
            long: folder.join("blobs"),
            flushed: HashSet::new(),
            listed: None,
        };
        for name in ["conf", "db"] {
            File::open(folder.join(name))?.sync_all()?;
        }
        sync_folder(folder);
        folder.parent().into_iter().for_each(sync_folder);
        Ok(flush)
    }

    /// Waits until all that was written is on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let changed = std::fs::metadata(&self.long)?.modified().ok();
        if changed.is_none() || changed != self.listed {
            self.sync_long()?;
            let settled = |changed: &SystemTime| changed.elapsed().is_ok_and(|age| age > STEP);
            // Listed after a change that is old enough, the folder is known as it is.
            self.listed = changed.filter(settled);
        }
        // Growing counts: the length of the file is part of what reading needs.
        self.log.sync_data()
    }
}

impl Flush {
    /// Flushes the files of long values that came since the last time.
    fn sync_long(&mut self) -> io::Result<()> {
        let mut found = HashSet::with_capacity(self.flushed.len());
        let mut added = false;
        for entry in std::fs::read_dir(&self.long)? {
            let name = entry?.file_name();
            if !self.flushed.contains(&name) {
                match File::open(self.long.join(&name)) {
                    Ok(file) => file.sync_all()?,
                    // sled removes those that nothing points to any more.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                added = true;
            }
            found.insert(name);
        }
        if added {
            sync_folder(&self.long);
        }
        self.flushed = found;
        Ok(())
    }
}

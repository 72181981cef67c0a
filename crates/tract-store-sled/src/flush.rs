//! Flushes sled's files to disk.
//!
//! sled 0.34's own `flush` writes its buffers and asks Linux to start writing (`sync_file_range`),
//! but does not wait for the disk. Here the files are flushed through separate handles on them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tract_kv::files::sync_folder;

/// The files of a sled folder.
#[derive(Debug)]
pub(crate) struct Flush {
    log: File,
    /// The folder of values that are too long for a segment of the log, with one file per value.
    long: PathBuf,
    /// The long values that are flushed already.
    flushed: HashSet<OsString>,
    /// Modification time of that folder at the last listing, if `flushed` is certain to be complete
    /// as of that time.
    listed: Option<SystemTime>,
    /// Numbers of listed names and flushed files, for tests.
    #[cfg(test)]
    counts: FlushCounts,
}

/// Numbers of listed names and flushed files.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FlushCounts {
    names: usize,
    files: usize,
}

/// Granularity of modification times. A folder that changed this recently may change again without
/// a new modification time.
const STEP: Duration = Duration::from_secs(2);

impl Flush {
    /// Opens the files of an opened folder, and makes their names durable.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let flush = Self {
            log: File::open(folder.join("db"))?,
            long: folder.join("blobs"),
            flushed: HashSet::new(),
            listed: None,
            #[cfg(test)]
            counts: FlushCounts::default(),
        };
        for name in ["conf", "db"] {
            File::open(folder.join(name))?.sync_all()?;
        }
        sync_folder(folder);
        folder.parent().into_iter().for_each(sync_folder);
        Ok(flush)
    }

    /// Waits until all writes are on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        let changed = std::fs::metadata(&self.long)?.modified().ok();
        if changed.is_none() || changed != self.listed {
            self.sync_long()?;
            let settled = |changed: &SystemTime| changed.elapsed().is_ok_and(|age| age > STEP);
            // Only trust a listing if the last change is old enough that a later one has another
            // time.
            self.listed = changed.filter(settled);
        }
        // Data-only sync is enough even if the file grew: it includes the length, which reads need.
        self.log.sync_data()
    }

    /// Flushes the files of long values that are new since the last flush.
    fn sync_long(&mut self) -> io::Result<()> {
        let mut found = HashSet::with_capacity(self.flushed.len());
        let mut added = false;
        for entry in std::fs::read_dir(&self.long)? {
            let name = entry?.file_name();
            #[cfg(test)]
            {
                self.counts.names += 1;
            }
            if !self.flushed.contains(&name) {
                match File::open(self.long.join(&name)) {
                    Ok(file) => file.sync_all()?,
                    // sled removes unreferenced files concurrently.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                added = true;
                #[cfg(test)]
                {
                    self.counts.files += 1;
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the given number of long values, last changed a minute ago.
    fn folder(values: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("blobs")).unwrap();
        for name in ["conf", "db"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        for value in 0..values {
            std::fs::write(folder.path().join("blobs").join(value.to_string()), b"long").unwrap();
        }
        age(folder.path());
        folder
    }

    fn age(folder: &Path) {
        let minute_ago = SystemTime::now() - Duration::from_secs(60);
        File::open(folder.join("blobs")).unwrap().set_modified(minute_ago).unwrap();
    }

    /// With many short writes and many long values, listing them at every flush would make the cost
    /// the product of both numbers.
    #[test]
    fn flushes_look_at_each_long_value_once_however_many_there_are() {
        for values in [50, 200] {
            let folder = folder(values);
            let mut flush = Flush::open(folder.path()).unwrap();
            for _ in 0..values {
                flush.sync().unwrap();
            }
            assert_eq!(flush.counts, FlushCounts { names: values, files: values });
        }
    }

    #[test]
    fn a_long_value_that_came_since_is_the_only_one_that_is_flushed() {
        let values = 100;
        let folder = folder(values);
        let mut flush = Flush::open(folder.path()).unwrap();
        flush.sync().unwrap();
        std::fs::write(folder.path().join("blobs/new"), b"long").unwrap();
        flush.sync().unwrap();
        assert_eq!(flush.counts.files, values + 1);
        // Right after a change the folder is listed again, because it may have changed once more.
        flush.sync().unwrap();
        assert_eq!(flush.counts, FlushCounts { names: 3 * values + 2, files: values + 1 });
    }
}

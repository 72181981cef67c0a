//! A read-only file whose writes stay in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

const BLOCK: u64 = 4096;

/// A file with an overlay of writes that never reach it. redb's own check repairs the file as far
/// as possible; here it repairs a copy that is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    /// Length of the valid part of the file, which shrinks when it is truncated.
    kept: u64,
    len: u64,
    written: BTreeMap<u64, Vec<u8>>,
}

impl Scratch {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self(Mutex::new(Inner { file, kept: len, len, written: BTreeMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Reads from the file; zeros beyond its end or where it was truncated.
    fn below(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = self.kept.saturating_sub(offset).min(out.len() as u64) as usize;
        let (there, _) = out.split_at_mut(there);
        if there.is_empty() {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(there)
    }
}

/// Splits a range at block boundaries into block, offset in the block, offset in the range, length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % BLOCK) as usize;
        let take = (BLOCK as usize - within).min(len - done);
        let piece = (at / BLOCK, within, done, take);
        done += take;
        Some(piece)
    })
}

impl StorageBackend for Scratch {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut inner = self.lock();
        if offset.saturating_add(out.len() as u64) > inner.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        inner.below(offset, out)?;
        for (block, within, at, take) in pieces(offset, out.len()) {
            let written =
                inner.written.get(&block).and_then(|bytes| bytes.get(within..within + take));
            if let (Some(written), Some(out)) = (written, out.get_mut(at..at + take)) {
                out.copy_from_slice(written);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.lock();
        inner.kept = inner.kept.min(len);
        inner.len = len;
        drop(inner.written.split_off(&len.div_ceil(BLOCK)));
        if let Some(rest) = inner.written.get_mut(&(len / BLOCK)) {
            rest.iter_mut().skip((len % BLOCK) as usize).for_each(|byte| *byte = 0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        for (block, within, at, take) in pieces(offset, data.len()) {
            if !inner.written.contains_key(&block) {
                let mut bytes = vec![0; BLOCK as usize];
                inner.below(block * BLOCK, &mut bytes)?;
                inner.written.insert(block, bytes);
            }
            let written =
                inner.written.get_mut(&block).and_then(|b| b.get_mut(within..within + take));
            if let (Some(written), Some(data)) = (written, data.get(at..at + take)) {
                written.copy_from_slice(data);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_leaves_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let scratch = Scratch::open(file.path()).unwrap();
        let mut model = bytes.clone();
        for (offset, len) in [(0, 5), (4090, 20), (8191, 1), (9000, 1000)] {
            let data = vec![0xee; len];
            scratch.write(offset as u64, &data).unwrap();
            model[offset..offset + len].copy_from_slice(&data);
        }
        for len in [12_000, 6_000, 9_000] {
            scratch.set_len(len).unwrap();
            model.resize(len as usize, 0);
            let mut found = vec![1; len as usize];
            scratch.read(0, &mut found).unwrap();
            assert!(found == model, "after a length of {len}");
        }
        assert!(scratch.read(8_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), bytes);
    }
}

//! Detects whether the write-ahead log has lost acknowledged writes.
//!
//! SQLite reads its log up to the first frame with a wrong checksum and silently drops the rest.
//! After a crash, the rest was never acknowledged; after a flipped bit, it may have been. The two
//! can be told apart, because each checksum continues the one stored in the previous frame, so
//! frames after a damaged one are still valid. A transaction is only written after the previous one
//! is flushed, so a crash leaves at most one valid transaction after a gap. If there are two, the
//! first of them was acknowledged.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use tract_core::StoreResult;
use tract_core::store::{adjacent_path, damaged_log_path};

use crate::error::damaged;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first word of a log, without its last bit, which is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

type Sum = (u32, u32);

/// The header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    big_endian: bool,
    page_size: usize,
    salts: [u8; 8],
    sum: Sum,
}

/// A gap in a log that is followed by more than one transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Offset of the first invalid frame.
    pub(crate) at: u64,
    /// Number of transactions that end after it.
    pub(crate) transactions: u64,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Continues a checksum over bytes, in blocks of eight.
fn sum(big_endian: bool, (mut a, mut b): Sum, bytes: &[u8]) -> Sum {
    let (chunks, _) = bytes.as_chunks::<8>();
    for &[b0, b1, b2, b3, b4, b5, b6, b7] in chunks {
        let (first, second) = ([b0, b1, b2, b3], [b4, b5, b6, b7]);
        let (first, second) = if big_endian {
            (u32::from_be_bytes(first), u32::from_be_bytes(second))
        } else {
            (u32::from_le_bytes(first), u32::from_le_bytes(second))
        };
        a = a.wrapping_add(first).wrapping_add(b);
        b = b.wrapping_add(second).wrapping_add(a);
    }
    (a, b)
}

impl Header {
    /// Reads a header; `None` if SQLite would not accept it.
    fn read(file: &mut File) -> io::Result<Option<Self>> {
        let mut bytes = Vec::with_capacity(HEADER);
        file.seek(SeekFrom::Start(0))?;
        file.take(HEADER as u64).read_to_end(&mut bytes)?;
        let magic = word(&bytes, 0);
        let (page_size, big_endian) = (word(&bytes, 8) as usize, magic & 1 == 1);
        let (Some(start), Some(salts)) = (bytes.get(..24), bytes.get(16..24)) else {
            return Ok(None);
        };
        let stored = (word(&bytes, 24), word(&bytes, 28));
        let is_one = magic & !1 == MAGIC
            && (512..=65536).contains(&page_size)
            && page_size.is_power_of_two()
            && sum(big_endian, (0, 0), start) == stored;
        let salts = salts.first_chunk::<8>().copied().unwrap_or_default();
        Ok(is_one.then_some(Self { big_endian, page_size, salts, sum: stored }))
    }
}

/// Finds a gap in a log. Reads the whole log once.
fn gap(path: &Path) -> io::Result<Option<Gap>> {
    let mut file = File::open(path)?;
    let Some(header) = Header::read(&mut file)? else { return Ok(None) };
    let mut reader = BufReader::with_capacity(1 << 18, &file);
    let mut frame = vec![0; FRAME_HEADER + header.page_size];
    let (mut before, mut at) = (header.sum, HEADER as u64);
    let mut found: Option<Gap> = None;
    loop {
        match reader.read_exact(&mut frame) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        let stored = (word(&frame, 16), word(&frame, 20));
        let (head, page) = frame.split_at(FRAME_HEADER);
        let computed = sum(header.big_endian, before, head.get(..8).unwrap_or_default());
        let holds = word(head, 0) != 0
            && head.get(8..16) == Some(header.salts.as_slice())
            && sum(header.big_endian, computed, page) == stored;
        let ends_transaction = word(head, 4) != 0;
        match (&mut found, holds) {
            (None, false) => found = Some(Gap { at, transactions: 0 }),
            (Some(gap), true) => gap.transactions += u64::from(ends_transaction),
            (None, true) | (Some(_), false) => {}
        }
        // The sum of a frame includes the one before. Continuing with the stored sum lets the
        // frames after a damaged one still match.
        before = stored;
        at += frame.len() as u64;
    }
    // If another process restarted the log during this read, old frames follow new ones.
    let is_same = Header::read(&mut file)? == Some(header);
    Ok(found.filter(|gap| is_same && gap.transactions > 1))
}

/// Rejects a store once if its log has a gap followed by acknowledged writes, and keeps a copy of
/// that log. Opening the store again continues without these writes.
pub(crate) fn check(path: &Path) -> StoreResult<()> {
    let log = adjacent_path(path, "-wal");
    // If the log cannot be read, SQLite reports the error.
    let Ok(Some(Gap { at, transactions })) = gap(&log) else { return Ok(()) };
    let copy = damaged_log_path(path);
    let same = |a: &Path, b: &Path| {
        let read = |path: &Path| Header::read(&mut File::open(path)?);
        Ok::<_, io::Error>(read(a)? == read(b)?)
    };
    if same(&log, &copy).unwrap_or_default() {
        return Ok(());
    }
    let (shown, kept) = (log.display(), copy.display());
    let copied = std::fs::copy(&log, &copy).and_then(|_| File::open(&copy)?.sync_all());
    let then = match copied {
        Ok(()) => format!("a copy is at {kept}, and opening again continues without them"),
        Err(error) => format!("it cannot be copied: {error}"),
    };
    let message = format!(
        "{shown} is damaged at byte {at}, with {transactions} acknowledged writes behind it; {then}"
    );
    Err(damaged("open", message))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::*;

    /// Returns a log with this number of transactions, none of which is checkpointed.
    fn logged(folder: &Path, transactions: u32) -> (PathBuf, Vec<u8>) {
        let live = folder.join("live.db");
        let connection = Connection::open(&live).expect("it opens");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)",
            )
            .expect("a table");
        for n in 0..transactions {
            connection.execute("INSERT INTO t VALUES (?1)", [n]).expect("a row");
        }
        let log = folder.join("copy.db-wal");
        std::fs::copy(adjacent_path(&live, "-wal"), &log).expect("a copy");
        (log.clone(), std::fs::read(&log).expect("a log"))
    }

    #[test]
    fn a_flipped_bit_before_acknowledged_writes_is_found_and_a_torn_end_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, whole) = logged(folder.path(), 30);
        assert_eq!(gap(&log).expect("it reads"), None);
        let header = Header::read(&mut File::open(&log).unwrap()).unwrap().expect("a header");
        let frame = FRAME_HEADER + header.page_size;
        let frames = (whole.len() - HEADER) / frame;
        // Any bit of a frame: numbers, salts, checksum, page.
        for (n, within) in
            (0..frames - 3).zip([0, 5, 9, 14, 17, 22, 24, 2000, 4000].into_iter().cycle())
        {
            let mut bytes = whole.clone();
            bytes[HEADER + n * frame + within] ^= 1 << (n % 8);
            std::fs::write(&log, &bytes).unwrap();
            let found = gap(&log).unwrap().unwrap_or_else(|| panic!("frame {n}, byte {within}"));
            assert_eq!(found.at, (HEADER + n * frame) as u64);
            assert!(found.transactions > 1);
        }
        // A crash leaves an end that was never flushed, either cut off or with a gap.
        for cut in (HEADER..whole.len()).step_by(frame / 3) {
            std::fs::write(&log, &whole[..cut]).unwrap();
            assert_eq!(gap(&log).unwrap(), None, "cut at {cut}");
        }
        let mut bytes = whole.clone();
        let last = HEADER + (frames - 1) * frame;
        bytes[last - frame..last].fill(0);
        std::fs::write(&log, &bytes).unwrap();
        assert_eq!(gap(&log).unwrap(), None, "one transaction behind a gap was perhaps under way");
    }

    #[test]
    fn frames_of_an_earlier_round_of_the_log_are_no_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let live = folder.path().join("live.db");
        let connection = Connection::open(&live).expect("it opens");
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").expect("a table");
        for n in 0..20 {
            connection.execute("INSERT INTO t VALUES (?1)", [n]).expect("a row");
        }
        connection
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
            .expect("it restarts");
        connection.execute("INSERT INTO t VALUES (1)", []).expect("a row");
        assert_eq!(gap(&adjacent_path(&live, "-wal")).expect("it reads"), None);
    }
}

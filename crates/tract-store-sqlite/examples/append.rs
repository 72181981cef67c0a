//! Measures this store against raw SQLite that writes the same bytes into as many tables and
//! indexes: `cargo run --release -p tract-store-sqlite --example append -- [folder] [text bytes]`.
//!
//! Floor, in place and through the thread take turns, so that the disk's mood meets all alike.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use tract_core::store::{BlobKey, BlockingStore, ThreadedStore, Walk, WriteMode};
use tract_core::{
    Applied, Batch, BatchId, Blob, By, Commit, CommitId, CommitRecord, Expect, Kind, LogNote, Op,
    OperationId, RefEdit, RefName, RefTarget, RepoName, Store, block_on,
};
use tract_store_sqlite::{SqliteOptions, SqliteStore};

/// The rounds of each durable measurement, and the commits in a round.
const ROUNDS: usize = 5;
const ROUND: usize = 400;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = match arguments.next() {
        Some(folder) => folder.into(),
        None => tempfile::tempdir()?.keep(),
    };
    let size: usize = arguments.next().map_or(Ok(500), |size| size.parse())?;
    std::fs::create_dir_all(&folder)?;
    for history in [0, 5_000, 50_000] {
        durable(&folder, history, size)?;
    }
    for history in [1_000, 5_000, 50_000] {
        let path = folder.join(format!("size-{history}.db"));
        let store = fresh(&path, WriteMode::InPlace)?;
        let mut line = Line::new("main", size)?;
        line.fill(&store, history)?;
        block_on(store.close())?;
        let bytes = std::fs::metadata(&path)?.len();
        println!("{history:>6} commits: {} bytes on disk a commit", bytes / history as u64);
        if history == 5_000 {
            cold(&path, line.head.ok_or("no head")?)?;
        }
    }
    Ok(())
}

fn fresh(path: &Path, mode: WriteMode) -> Outcome<ThreadedStore<SqliteStore>> {
    for end in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        let _ = std::fs::remove_file(file);
    }
    Ok(tract_store_sqlite::open(path, &SqliteOptions::new().create(true).write_mode(mode))?)
}

/// A branch that grows by one message a batch.
struct Line {
    name: RefName,
    head: Option<CommitId>,
    size: usize,
    count: u64,
}

/// What one append writes, made beforehand.
struct Append {
    batch: Batch,
    record: Vec<u8>,
}

impl Line {
    fn new(name: &str, size: usize) -> Outcome<Self> {
        Ok(Self { name: RefName::branch(name)?, head: None, size, count: 0 })
    }

    fn next(&mut self) -> Outcome<Append> {
        self.count += 1;
        let id = BatchId::random()?;
        let at = 1_763_000_000_000_000 + self.count as i64;
        let mut text = format!("{{\"text\":\"{} {} ", self.name, self.count);
        // Words that do not repeat from message to message.
        while text.len() + 2 < self.size + 12 {
            let word = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ text.len() as u64;
            text.push_str(&format!("{:x} ", word.wrapping_mul(0xbf58_476d_1ce4_e5b9)));
        }
        text.truncate(self.size + 10);
        text.push_str("\"}");
        let blob = Blob::seal(text);
        let mut record = CommitRecord::new(Op::append(), By::User);
        record.parents.extend(self.head);
        record.content = Some(blob.id());
        record.kind = Some(Kind::User);
        record.created_at = Some(at);
        record.batch = Some(id);
        let commit = Commit::seal(record)?;
        let note = LogNote {
            operation: OperationId::random()?,
            what: "commit".to_owned(),
            who: "bench".to_owned(),
            why: None,
            undoes: None,
            at,
        };
        let mut batch = Batch::new(id, note);
        let expect = match self.head {
            Some(head) => Expect::Is(RefTarget::Commit(head)),
            None => Expect::Absent,
        };
        self.head = Some(commit.id());
        let to = self.head.map(RefTarget::Commit);
        batch.refs.push(RefEdit { name: self.name.clone(), expect, to });
        let record = commit.encode();
        batch.commits.push(commit);
        batch.blobs.push(blob);
        Ok(Append { batch, record })
    }

    fn fill(&mut self, store: &ThreadedStore<SqliteStore>, count: usize) -> Outcome<()> {
        let repo = RepoName::default();
        let mut left = count;
        while left > 0 {
            let group: Outcome<Vec<_>> =
                (0..left.min(250)).map(|_| Ok((repo.clone(), self.next()?.batch))).collect();
            let group = group?;
            left -= group.len();
            for answer in store.store().apply_group(&group) {
                expect_done(answer?)?;
            }
        }
        Ok(())
    }
}

fn expect_done(answer: Applied) -> Outcome<()> {
    match answer {
        Applied::Done => Ok(()),
        other => Err(format!("expected a write to go through, found {other:?}").into()),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn micros(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

/// Processor time of this thread, where the system tells: figures that a busy machine leaves
/// alone.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Times `ROUND` appends in microseconds each, made beforehand.
fn round(line: &mut Line, write: impl Fn(Append) -> Outcome<()>) -> Outcome<f64> {
    let appends: Outcome<Vec<_>> = (0..ROUND).map(|_| line.next()).collect();
    let appends = appends?;
    let start = Instant::now();
    appends.into_iter().try_for_each(write)?;
    Ok(micros(start.elapsed(), ROUND))
}

/// Measures durable appends, one a transaction, then 100 batches in one.
fn durable(folder: &Path, history: usize, size: usize) -> Outcome<()> {
    let in_place = fresh(&folder.join("in-place.db"), WriteMode::InPlace)?;
    let thread = fresh(&folder.join("thread.db"), WriteMode::Thread)?;
    let floor = Floor::new(&folder.join("floor.db"))?;
    let mut a = Line::new("main", size)?;
    let mut b = Line::new("main", size)?;
    let mut c = Line::new("main", size)?;
    a.fill(&in_place, history)?;
    b.fill(&thread, history)?;
    for _ in 0..history.div_ceil(250) {
        let group: Outcome<Vec<_>> = (0..250).map(|_| c.next()).collect();
        floor.write(&group?)?;
    }
    let repo = RepoName::default();
    let apply = |store: &ThreadedStore<SqliteStore>, append: Append| {
        expect_done(block_on(store.apply(&repo, append.batch))?)
    };
    let mut times = [const { Vec::new() }; 7];
    let [own, hop, raw, grouped, raw_grouped, work, raw_work] = &mut times;
    for _ in 0..ROUNDS {
        raw.push(round(&mut c, |append| floor.write(&[append]))?);
        own.push(round(&mut a, |append| apply(&in_place, append))?);
        hop.push(round(&mut b, |append| apply(&thread, append))?);
    }
    for _ in 0..ROUNDS * 2 {
        let group: Outcome<Vec<_>> = (0..100).map(|_| c.next()).collect();
        let group = group?;
        let (start, busy) = (Instant::now(), processor());
        floor.write(&group)?;
        raw_grouped.push(micros(start.elapsed(), 100));
        raw_work.push(micros(processor() - busy, 100));
        let group: Outcome<Vec<_>> =
            (0..100).map(|_| Ok((repo.clone(), a.next()?.batch))).collect();
        let group = group?;
        let (start, busy) = (Instant::now(), processor());
        for answer in in_place.store().apply_group(&group) {
            expect_done(answer?)?;
        }
        grouped.push(micros(start.elapsed(), 100));
        work.push(micros(processor() - busy, 100));
    }
    let [own, hop, raw, grouped, raw_grouped, work, raw_work] = times.map(median);
    println!(
        "{history:>6} commits: floor {raw:.0} µs, in place {own:.0} µs ({:.2} × floor's rate), \
         thread {hop:.0} µs ({:.2}); 100 at once {raw_grouped:.1} µs each, {grouped:.1} ({:.2}); \
         processor {raw_work:.1} and {work:.1} ({:.2})",
        raw / own,
        raw / hop,
        raw_grouped / grouped,
        raw_work / work
    );
    Ok(())
}

/// Measures opening, walking and fetching a whole branch, every byte hashed.
fn cold(path: &Path, head: CommitId) -> Outcome<()> {
    let repo = RepoName::default();
    let (mut walks, mut fetches) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let store = tract_store_sqlite::open(path, &SqliteOptions::new())?;
        let start = processor();
        let page = store.store().walk(&repo, Walk { limit: usize::MAX, ..Walk::from(head) })?;
        walks.push(micros(processor() - start, 1000));
        let keys: Vec<_> = page
            .steps
            .iter()
            .filter_map(|step| Some(BlobKey { id: step.commit.content?, hint: step.content }))
            .collect();
        let start = processor();
        let blobs = store.store().blobs(&repo, &keys)?;
        fetches.push(micros(processor() - start, 1000));
        if blobs.len() != page.steps.len() || blobs.iter().any(Option::is_none) {
            return Err("expected every blob".into());
        }
    }
    println!("        processor: walk {:.1} ms, blobs {:.1} ms", median(walks), median(fetches));
    Ok(())
}

/// Raw SQLite: the same bytes into as many tables and indexes, prepared statements, one
/// transaction, the same durability; it looks nothing up and checks nothing.
struct Floor {
    connection: Connection,
    next: std::cell::Cell<i64>,
}

impl Floor {
    fn new(path: &Path) -> Outcome<Self> {
        for end in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(end);
            let _ = std::fs::remove_file(file);
        }
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -8000;
             PRAGMA wal_autocheckpoint = 4000;
             CREATE TABLE commits (id INTEGER PRIMARY KEY, repo INTEGER, h INTEGER, content INTEGER, rec BLOB) STRICT;
             CREATE INDEX commits_h ON commits (repo, h);
             CREATE TABLE blobs (id INTEGER PRIMARY KEY, repo INTEGER, h INTEGER, data BLOB) STRICT;
             CREATE INDEX blobs_h ON blobs (repo, h);
             CREATE TABLE refs (repo INTEGER, name TEXT, target BLOB, sum INTEGER, PRIMARY KEY (repo, name)) STRICT, WITHOUT ROWID;
             CREATE TABLE ref_log (id INTEGER PRIMARY KEY, ref INTEGER, before INTEGER, after INTEGER,
               b1 INTEGER, b2 INTEGER, operation BLOB, what INTEGER, who INTEGER, at INTEGER, sum INTEGER) STRICT;
             CREATE INDEX ref_log_batch ON ref_log (b1);",
        )?;
        Ok(Self { connection, next: std::cell::Cell::new(1) })
    }

    fn write(&self, group: &[Append]) -> Outcome<()> {
        let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| -> Outcome<()> {
            self.connection.prepare_cached(sql)?.execute(parameters)?;
            Ok(())
        };
        run("BEGIN IMMEDIATE", &[])?;
        for append in group {
            let n = self.next.get();
            self.next.set(n + 1);
            let at = 2i64 << 32 | n;
            let half = |bytes: &[u8]| {
                bytes.iter().take(8).fold(0i64, |number, byte| number << 8 | i64::from(*byte))
            };
            let [commit] = append.batch.commits.as_slice() else { return Err("one commit".into()) };
            let [blob] = append.batch.blobs.as_slice() else { return Err("one blob".into()) };
            let (id, content) = (commit.id(), blob.id());
            let batch = append.batch.id.as_bytes();
            run(
                "INSERT INTO commits VALUES (?1, 1, ?2, 0, ?3)",
                params![at, half(id.as_bytes()), append.record],
            )?;
            run(
                "INSERT INTO blobs VALUES (?1, 1, ?2, ?3)",
                params![at, half(content.as_bytes()), blob.bytes().as_ref()],
            )?;
            run(
                "INSERT OR REPLACE INTO refs VALUES (1, 'heads/main', ?1, 123456789)",
                params![id.as_bytes().as_slice()],
            )?;
            run(
                "INSERT INTO ref_log VALUES (?1, 1, 1, ?2, ?3, ?4, ?5, 2, 3, ?6, 123456789)",
                params![
                    n,
                    at,
                    half(batch),
                    half(&batch[8..]),
                    append.batch.note.operation.as_bytes().as_slice(),
                    append.batch.note.at
                ],
            )?;
        }
        run("COMMIT", &[])
    }
}

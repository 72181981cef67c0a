//! `cargo xtask bench engine URL`: what the engine of a URL does on this machine, next to its baseline.
//!
//! All is done in a new store of that engine: in a temporary folder in the folder of the file that
//! the URL names, which is removed at the end, or in a schema of its own in the database. What the
//! URL itself names is not opened and not changed. The baseline is the bare engine in the same run:
//! it writes as many bytes into the same tables, as durably (for 16 writers all sixteen in one
//! transaction, for a fork one ref), or reads and hashes as many rows (cold).

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tract::store::{StoreOptions, WriteMode};
use tract::{Draft, OpenOptions, Tract, block_on};

use crate::bare::{self, BareEngine, Outcome};

const WRITERS: u64 = 16;
const BATCH: u64 = 100;
const ROUNDS: u64 = 5;

/// One thing that was measured.
#[derive(Debug, Serialize)]
struct Figure {
    what: &'static str,
    unit: &'static str,
    value: f64,
    /// The bare engine's figure; absent if it has no equivalent.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<f64>,
    /// The floor as a part of the value, or for rates the value as a part of the floor: 1 is as
    /// fast as the bare engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_floor: Option<f64>,
}

/// The figures of one engine.
#[derive(Debug, Serialize)]
pub struct EngineReport {
    engine: String,
    messages: u64,
    figures: Vec<Figure>,
    /// The location of leftovers that have to be removed by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl Figure {
    /// A time or a size, of which the bare engine takes another.
    fn time(what: &'static str, unit: &'static str, value: f64, floor: Option<f64>) -> Self {
        Self { what, unit, value, floor, of_floor: floor.map(|floor| floor / value) }
    }

    /// The medians of times in microseconds, ours and those of the bare engine where there are any.
    fn with_floor(what: &'static str, ours: Vec<f64>, bare: Vec<f64>) -> Self {
        let floor = (!bare.is_empty()).then(|| median(bare));
        Self::time(what, "µs", median(ours), floor)
    }

    /// So many a second, where the bare engine does more.
    fn rate(what: &'static str, value: f64, floor: Option<f64>) -> Self {
        let of_floor = floor.map(|floor| value / floor);
        Self { what, unit: "a second", value, floor, of_floor }
    }
}

/// Measures the engine of a URL with messages of 500 characters.
///
/// # Errors
/// When the engine fails, or its folder cannot be written to.
pub async fn measure(url: &str, messages: u64) -> Outcome<EngineReport> {
    let place = BenchTarget::near(url)?;
    let mut figures = Vec::new();
    let n = messages;

    let tract = place.open("single", WriteMode::InPlace).await?;
    let engine = tract.store().backend().to_owned();
    let mut bare = place.bare("single", &tract).await?;
    append(&tract, bare.as_mut(), n, &mut figures).await?;
    let stats = tract.store().stats(tract.repo().name()).await?;
    tract.store().close().await?;
    drop(tract);
    let size = place.bytes("single").unwrap_or(stats.disk_bytes);

    // A store in memory loses its content when it is closed.
    let tract = if place.keeps() {
        let start = Instant::now();
        let tract = place.open("single", WriteMode::InPlace).await?;
        std::hint::black_box(tract.compile().await?.message_count());
        let took = micros(start.elapsed()) / 1000.0;
        let floor = bare.as_deref().map(|bare| reading(bare, n)).transpose()?;
        figures.push(Figure::time("open and compile, cold", "ms", took, floor));
        tract
    } else {
        let tract = place.open("single", WriteMode::InPlace).await?;
        tract.commit_all((0..n).map(draft)).await?;
        tract
    };
    warm(&tract, bare.as_mut(), n, &mut figures).await?;
    // It writes its log back when it closes.
    drop(bare);
    if size > 0 {
        let each = size as f64 / stats.commits.max(1) as f64;
        let floor = place.bytes("single-bare").filter(|bytes| *bytes > 0);
        let floor = floor.map(|bytes| bytes as f64 / n as f64);
        figures.push(Figure::time("bytes a message", "B", each, floor));
    }
    batches(&place, n, &mut figures).await?;
    tract.store().close().await?;
    drop(tract);
    writers(&place, n, &mut figures).await?;
    if let Some(peak) = peak_bytes() {
        figures.push(Figure::time("peak memory of this run", "B", peak as f64, None));
    }
    Ok(EngineReport { engine, messages, figures, left: place.left() })
}

/// One durable write for each message, in turns with the bare engine.
async fn append(
    tract: &Tract,
    mut bare: Option<&mut Box<dyn BareEngine>>,
    n: u64,
    figures: &mut Vec<Figure>,
) -> Outcome<()> {
    let each = (n / ROUNDS).max(1);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let mut next = 0;
    for round in 0..ROUNDS {
        let last = if round + 1 == ROUNDS { n } else { next + each };
        let texts: Vec<String> = (next..last).map(text).collect();
        let many = texts.len().max(1) as f64;
        let start = Instant::now();
        for text in texts {
            tract.user(text).await?;
        }
        ours.push(micros(start.elapsed()) / many);
        if let Some(bare) = &mut bare {
            let start = Instant::now();
            for _ in next..last {
                bare.write(1)?;
            }
            floor.push(micros(start.elapsed()) / many);
        }
        next = last;
    }
    figures.push(Figure::with_floor("append, one a write", ours, floor));
    Ok(())
}

/// A hundred messages in each durable write, in turns with the bare engine.
async fn batches(place: &BenchTarget, n: u64, figures: &mut Vec<Figure>) -> Outcome<()> {
    let tract = place.open("batched", WriteMode::InPlace).await?;
    let mut bare = place.bare("batched", &tract).await?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let mut next = 0;
    while next < n {
        let last = (next + BATCH).min(n);
        let drafts: Vec<Draft> = (next..last).map(draft).collect();
        let many = (last - next) as f64;
        let start = Instant::now();
        tract.commit_all(drafts).await?;
        ours.push(micros(start.elapsed()) / many);
        if let Some(bare) = &mut bare {
            let start = Instant::now();
            bare.write(last - next)?;
            floor.push(micros(start.elapsed()) / many);
        }
        next = last;
    }
    figures.push(Figure::with_floor("append, 100 a write", ours, floor));
    tract.store().close().await?;
    Ok(())
}

/// How long the bare engine reads as many rows, and hashes them, in milliseconds.
fn reading(bare: &dyn BareEngine, n: u64) -> Outcome<f64> {
    let start = Instant::now();
    bare.walk(n)?;
    Ok(micros(start.elapsed()) / 1000.0)
}

async fn warm(
    tract: &Tract,
    mut bare: Option<&mut Box<dyn BareEngine>>,
    n: u64,
    figures: &mut Vec<Figure>,
) -> Outcome<()> {
    tract.compile().await?;
    let mut took = Vec::new();
    for step in 0..50 {
        tract.user(text(n + step)).await?;
        let start = Instant::now();
        std::hint::black_box(tract.compile().await?.message_count());
        took.push(micros(start.elapsed()));
    }
    figures.push(Figure::time("compile after one append", "µs", median(took), None));
    let head = tract.head().await?;
    let (mut took, mut floor) = (Vec::new(), Vec::new());
    for fork in 0..20 {
        let Some(head) = head else { break };
        let start = Instant::now();
        tract.fork(&format!("fork-{fork}"), head).await?;
        took.push(micros(start.elapsed()));
        if let Some(bare) = &mut bare {
            let start = Instant::now();
            bare.write(0)?;
            floor.push(micros(start.elapsed()));
        }
    }
    figures.push(Figure::with_floor("fork", took, floor));
    Ok(())
}

/// Sixteen threads, each on a branch of its own, against the bare engine with all of them at once.
async fn writers(place: &BenchTarget, n: u64, figures: &mut Vec<Figure>) -> Outcome<()> {
    let tract = place.open("writers", WriteMode::Thread).await?;
    tract.user(text(0)).await?;
    let bare = place.bare("writers", &tract).await?;
    let Some(head) = tract.head().await? else { return Ok(()) };
    let mut handles = Vec::new();
    for writer in 0..WRITERS {
        handles.push(tract.fork(&format!("writer-{writer}"), head).await?);
    }
    let each = (n / WRITERS).max(1);
    let start = Instant::now();
    let written: tract::Result<()> = std::thread::scope(|scope| {
        let threads: Vec<_> = handles
            .iter()
            .zip(0..)
            .map(|(handle, writer): (&Tract, u64)| {
                scope.spawn(move || {
                    let from = 1 + writer * each;
                    (from..from + each).try_for_each(|n| block_on(handle.user(text(n))).map(drop))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    });
    let rate = (each * WRITERS) as f64 / start.elapsed().as_secs_f64();
    written?;
    let floor = bare.map(|bare| together(bare, each)).transpose()?;
    figures.push(Figure::rate("append, 16 writers", rate, floor));
    tract.store().close().await?;
    Ok(())
}

/// How many messages a second the bare engine writes, sixteen in each transaction.
fn together(mut bare: Box<dyn BareEngine>, each: u64) -> Outcome<f64> {
    let start = Instant::now();
    for _ in 0..each {
        bare.write_branches(WRITERS, WRITERS as u32)?;
    }
    Ok((each * WRITERS) as f64 / start.elapsed().as_secs_f64())
}

/// The folder of the new stores.
struct BenchTarget {
    url: String,
    scheme: String,
    folder: tempfile::TempDir,
    in_files: bool,
    schema: Option<String>,
}

impl BenchTarget {
    fn near(url: &str) -> Outcome<Self> {
        let file = tract::store::file_of(url)?;
        let near = file.as_deref().and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
        let near = near.unwrap_or(Path::new("."));
        let folder = match &file {
            Some(_) => tempfile::Builder::new().prefix(".tract-bench-").tempdir_in(near),
            None => tempfile::tempdir(),
        };
        let folder = folder.map_err(|error| {
            format!(
                "{}: {error}; the engine is measured on the disk of the URL: name a folder that \
                 exists and can be written to",
                near.display()
            )
        })?;
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_owned();
        let database = scheme.starts_with("postgres");
        Ok(Self {
            url: url.to_owned(),
            scheme,
            folder,
            in_files: file.is_some(),
            schema: database.then(|| format!("tract_bench_{}", std::process::id())),
        })
    }

    fn url(&self, name: &str) -> String {
        match &self.schema {
            Some(schema) => {
                let join = if self.url.contains('?') { '&' } else { '?' };
                format!("{}{join}schema={schema}", self.url)
            }
            None if self.in_files => {
                format!("{}:{}", self.scheme, self.folder.path().join(name).join("store").display())
            }
            None => self.url.clone(),
        }
    }

    async fn open(&self, name: &str, mode: WriteMode) -> Outcome<Tract> {
        let options = StoreOptions { create: true, write_mode: mode };
        let store = tract::store::open_with(&self.url(name), &options).await?;
        let options = OpenOptions::new().repo(name).create(true).who("bench");
        Ok(options.open_store(store).await?)
    }

    /// The bare engine, for messages as large as those of a store.
    async fn bare(&self, name: &str, tract: &Tract) -> Outcome<Option<Box<dyn BareEngine>>> {
        if !self.in_files {
            return Ok(None);
        }
        let folder = self.folder.path().join(format!("{name}-bare"));
        std::fs::create_dir_all(&folder)?;
        // The first message is not measured; it sets the size of the rows of the baseline.
        tract.user(text(u64::MAX)).await?;
        bare::create(&self.scheme, &folder, tract)
    }

    /// Whether what is stored is there when it is opened again.
    fn keeps(&self) -> bool {
        self.in_files || self.schema.is_some()
    }

    /// The bytes of a store's files.
    fn bytes(&self, name: &str) -> Option<u64> {
        self.in_files.then(|| size_of(&self.folder.path().join(name)))
    }

    fn left(&self) -> Option<String> {
        self.schema.as_ref().map(|schema| format!("schema {schema}"))
    }
}

/// The bytes of the files of a folder and of those in it.
pub fn size_of(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size_of(&entry.path()),
            _ => entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .sum()
}

impl std::fmt::Display for EngineReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {} messages of 500 characters", self.engine, self.messages)?;
        for figure in &self.figures {
            let shown = |value: f64| match figure.unit {
                unit if value >= 100.0 => format!("{value:.0} {unit}"),
                unit => format!("{value:.1} {unit}"),
            };
            let floor = match (figure.floor, figure.of_floor) {
                (Some(floor), Some(part)) => format!("floor {}, {part:.2} of it", shown(floor)),
                _ if figure.what.starts_with("append") => "no floor".to_owned(),
                _ => String::new(),
            };
            writeln!(f, "  {:<26} {:>14}  {floor}", figure.what, shown(figure.value))?;
        }
        match &self.left {
            Some(left) => writeln!(f, "left behind: {left}; drop it when you are done"),
            None => Ok(()),
        }
    }
}

/// The n-th message: 500 characters, no two alike.
pub fn text(n: u64) -> String {
    const WORDS: &str = "agent branch commit context model tool result answer reservation flight \
                         the a of and to with was is for payment";
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = n.to_string();
    while text.len() < 500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push(' ');
        text.push_str(WORDS.split(' ').nth((state % 20) as usize).unwrap_or("agent"));
    }
    text.truncate(500);
    text
}

fn draft(n: u64) -> Draft {
    Draft::user(text(n))
}

/// A time in microseconds.
pub fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

/// The value in the middle; not a number where there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the peak memory of this process; `None` if the system does not report it.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_baseline_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        for (engine, floor) in [("sqlite", true), ("redb", true), ("memory", false)] {
            let url = match engine {
                "memory" => "memory:".to_owned(),
                _ => format!("{engine}:{}", folder.path().join("agent.db").display()),
            };
            let report = block_on(measure(&url, 40)).unwrap();
            let of = |what: &str| report.figures.iter().find(|figure| figure.what == what);
            for what in ["append, one a write", "append, 100 a write", "append, 16 writers", "fork"]
            {
                let figure = of(what).unwrap();
                assert!(figure.value > 0.0, "{figure:?}");
                assert_eq!(figure.floor.is_some_and(|floor| floor > 0.0), floor, "{figure:?}");
            }
            for what in ["open and compile, cold", "bytes a message"] {
                let positive = of(what).and_then(|figure| figure.floor);
                assert_eq!(positive.is_some_and(|floor| floor > 0.0), floor, "{what}");
            }
            assert_eq!(report.to_string().contains("no floor"), !floor);
        }
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "neither the store of the URL nor a scratch one");
        let missing = folder.path().join("nowhere").join("x.db");
        let error = block_on(measure(&format!("sqlite:{}", missing.display()), 40)).unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}

//! `tract bench`

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tract::store::{BareEngine, StoreOptions, WriteMode};
use tract::{Draft, OpenOptions, Tract, block_on};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, bytes, count};
use crate::style::{BOLD, DIM, Styled};

/// Measure a store's engine, next to its baseline.
///
/// All is done in a new store of that engine: in a temporary folder next to the file that the url
/// names, which is removed at the end, or in a schema of its own in the database. What the url
/// itself names is not opened and not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Floor is the bare engine in the same run: writing as many bytes into the same tables, as durably (for 16
writers all sixteen in one transaction, for a fork one ref), or reading and hashing as many rows (cold).
Examples:
  tract --store sqlite:agent.db bench
  tract --store redb:/mnt/disk/x.redb bench --messages 10000 --json")]
pub(crate) struct Bench {
    /// How many messages of 500 characters are appended in each way.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(20..=10_000_000))]
    messages: u64,
}

const WRITERS: u64 = 16;
const BATCH: u64 = 100;
const ROUNDS: u64 = 5;

/// One thing that was measured.
#[derive(Debug, Serialize)]
struct Figure {
    what: &'static str,
    unit: &'static str,
    value: f64,
    /// What the bare engine takes; absent where there is no such measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<f64>,
    /// The floor as a part of the value, or for rates the value as a part of the floor: 1 is as
    /// fast as the bare engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_floor: Option<f64>,
}

#[derive(Serialize)]
struct Document<'a> {
    engine: &'a str,
    messages: u64,
    figures: &'a [Figure],
    /// Where something was left that has to be removed by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<&'a str>,
}

impl Figure {
    /// A time, of which the bare engine takes another.
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

    fn alone(what: &'static str, unit: &'static str, value: f64) -> Self {
        Self { what, unit, value, floor: None, of_floor: None }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, bench: &Bench) -> Outcome<()> {
    let place = BenchTarget::near(&context.url_to_make())?;
    let bar = render::progress("measuring", "steps");
    bar.set_length(6);
    let mut figures = Vec::new();
    let n = bench.messages;

    let tract = place.open("single", WriteMode::InPlace).await?;
    let engine = tract.store().backend();
    let mut bare = place.bare("single", &tract).await?;
    append(&tract, bare.as_mut(), n, &mut figures).await?;
    bar.inc(1);
    let stats = tract.store().stats(tract.repo().name()).await?;
    tract.store().close().await?;
    drop(tract);
    let size = place.bytes("single").unwrap_or(stats.disk_bytes);
    bar.inc(1);

    // What is only in memory is gone when its store is closed.
    let tract = if place.keeps() {
        let (tract, took) = cold(&place).await?;
        let floor = bare.as_ref().map(|bare| reading(bare, n)).transpose()?;
        figures.push(Figure::time("open and compile, cold", "ms", took, floor));
        tract
    } else {
        let tract = place.open("single", WriteMode::InPlace).await?;
        tract.commit_all((0..n).map(draft)).await?;
        tract
    };
    bar.inc(1);
    warm(&tract, bare.as_mut(), n, &mut figures).await?;
    // It writes its log back when it closes.
    drop(bare);
    if size > 0 {
        let each = size as f64 / stats.commits.max(1) as f64;
        let floor = place.bytes("single-bare").filter(|bytes| *bytes > 0);
        let floor = floor.map(|bytes| bytes as f64 / n as f64);
        figures.push(Figure::time("bytes a message", "B", each, floor));
    }
    bar.inc(1);
    batches(&place, n, &mut figures).await?;
    bar.inc(1);
    tract.store().close().await?;
    drop(tract);
    writers(&place, n, &mut figures).await?;
    bar.inc(1);
    bar.finish_and_clear();
    if let Some(peak) = peak_bytes() {
        figures.push(Figure::alone("peak memory of this run", "B", peak as f64));
    }
    print(context, engine, n, &figures, place.left())
}

/// One durable write for each message, in turns with the bare engine.
async fn append(
    tract: &Tract,
    mut bare: Option<&mut BareEngine>,
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

async fn cold(place: &BenchTarget) -> Outcome<(Tract, f64)> {
    let start = Instant::now();
    let tract = place.open("single", WriteMode::InPlace).await?;
    let compiled = tract.compile().await?;
    std::hint::black_box(compiled.message_count());
    Ok((tract, micros(start.elapsed()) / 1000.0))
}

/// How long the bare engine reads as many rows, and hashes them, in milliseconds.
fn reading(bare: &BareEngine, n: u64) -> Outcome<f64> {
    let start = Instant::now();
    bare.walk(n)?;
    Ok(micros(start.elapsed()) / 1000.0)
}

async fn warm(
    tract: &Tract,
    mut bare: Option<&mut BareEngine>,
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
    figures.push(Figure::alone("compile after one append", "µs", median(took)));
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
    let failed: Vec<tract::Error> = std::thread::scope(|scope| {
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
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.filter_map(|done| done.ok().and_then(Result::err)).collect()
    });
    let rate = (each * WRITERS) as f64 / start.elapsed().as_secs_f64();
    if let Some(error) = failed.into_iter().next() {
        return Err(error.into());
    }
    let floor = bare.map(|bare| together(bare, each)).transpose()?;
    figures.push(Figure::rate("append, 16 writers", rate, floor));
    tract.store().close().await?;
    Ok(())
}

/// How many messages a second the bare engine writes, sixteen in each transaction.
fn together(mut bare: BareEngine, each: u64) -> Outcome<f64> {
    let start = Instant::now();
    for _ in 0..each {
        bare.write_branches(WRITERS, WRITERS as u32)?;
    }
    Ok((each * WRITERS) as f64 / start.elapsed().as_secs_f64())
}

/// Where the new stores are made.
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
            Failure::file(near, &error).note("the engine is measured on the disk of the url: name a folder that exists and can be written to")
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
        let options = StoreOptions::new().create(true).write_mode(mode);
        let store = tract::store::open_with(&self.url(name), &options).await?;
        let options = OpenOptions::new().repo(name).create(true).who("bench");
        Ok(options.open_store(store).await?)
    }

    /// The bare engine, for messages as large as those of a store.
    async fn bare(&self, name: &str, tract: &Tract) -> Outcome<Option<BareEngine>> {
        if !self.in_files {
            return Ok(None);
        }
        let folder = self.folder.path().join(format!("{name}-bare"));
        std::fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
        // The first message is not measured; it says how large the others will be.
        tract.user(text(u64::MAX)).await?;
        let stats = tract.store().stats(tract.repo().name()).await?;
        let content = usize::try_from(stats.blob_bytes / stats.blobs.max(1)).unwrap_or(500);
        let record = usize::try_from(stats.commit_bytes / stats.commits.max(1)).unwrap_or(200);
        Ok(BareEngine::create(&self.url, &folder, content, record)?)
    }

    /// Whether what is stored is there when it is opened again.
    fn keeps(&self) -> bool {
        self.in_files || self.schema.is_some()
    }

    /// The bytes of a store's files.
    fn bytes(&self, name: &str) -> Option<u64> {
        if !self.in_files {
            return None;
        }
        let path = self.folder.path().join(name);
        Some(size_of(&path))
    }

    fn left(&self) -> Option<String> {
        self.schema.as_ref().map(|schema| format!("schema {schema}"))
    }
}

fn size_of(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size_of(&entry.path()),
            _ => entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .sum()
}

fn print(
    context: &mut Context<'_>,
    engine: &str,
    messages: u64,
    figures: &[Figure],
    left: Option<String>,
) -> Outcome<()> {
    if context.out.is_json() {
        let left = left.as_deref();
        return context.out.json(&Document { engine, messages, figures, left });
    }
    let messages = count(usize::try_from(messages).unwrap_or(usize::MAX), "message");
    context.out.line(format_args!("{}: {messages} of 500 characters", Styled(BOLD, engine)))?;
    for figure in figures {
        let shown = |value: f64| match figure.unit {
            "B" => bytes(value as u64),
            unit if value >= 100.0 => format!("{} {unit}", render::number(value as u64)),
            unit => format!("{value:.1} {unit}"),
        };
        let floor = match (figure.floor, figure.of_floor) {
            (Some(floor), Some(part)) => format!("floor {}, {part:.2} of it", shown(floor)),
            _ if figure.what.starts_with("append") => "no floor".to_owned(),
            _ => String::new(),
        };
        context.out.line(format_args!(
            "  {:<26} {:>14}  {}",
            figure.what,
            shown(figure.value),
            Styled(DIM, floor)
        ))?;
    }
    if let Some(left) = left {
        context.out.line(format_args!("left behind: {left}; drop it when you are done"))?;
    }
    Ok(())
}

/// The n-th message: 500 characters, no two alike.
fn text(n: u64) -> String {
    const WORDS: [&str; 8] =
        ["agent", "branch", "commit", "context", "model", "tool", "result", "answer"];
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = n.to_string();
    while text.len() < 500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push(' ');
        text.push_str(WORDS.get((state % 8) as usize).unwrap_or(&"agent"));
    }
    text.truncate(500);
    text
}

fn draft(n: u64) -> Draft {
    Draft::user(text(n))
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The most memory that this process ever had, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib * 1024)
}

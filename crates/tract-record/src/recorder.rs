//! The recorder: a thread with a bounded queue. A full queue drops exchanges instead of blocking.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tract_engine::Repo;
use tract_import::AnomalyKind;
use tract_secrets::Scanner;

use crate::capture::{Budget, Capture, Exchange};
use crate::counts::{Counts, Reason};
use crate::error::{Error, Result};
use crate::lull::Lull;
use crate::read::{self, Answer};
use crate::report::{RecordAnomaly, RecordReport, WrittenBranch};
use crate::write::{Writer, WrittenTurn};

/// Options of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// Whether secrets are redacted. Default: true.
    pub redact: bool,
    /// Memory limit of all copies in bytes. Default: 256 MiB. Up to a quarter of it is kept for
    /// later copies.
    pub budget_bytes: usize,
    /// Maximum number of exchanges that wait to be recorded. Default: 1024.
    pub queue_exchanges: usize,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self { redact: true, budget_bytes: 256 << 20, queue_exchanges: 1024 }
    }
}

/// The results of the recorder thread, for the report.
#[derive(Debug, Default)]
struct Progress {
    branches: BTreeMap<String, (u64, u64)>,
    redacted: BTreeMap<String, u64>,
    anomalies: Anomalies,
    last_error: Option<String>,
}

/// Maximum number of anomalies in the report; more are only counted.
const LISTED: usize = 20;
/// Maximum number of remembered anomalies. A remembered one is not counted again when a client
/// sends it with each request.
const REMEMBERED: usize = 10_000;

/// The anomalies of the recorded exchanges.
#[derive(Debug, Default)]
struct Anomalies {
    counts: BTreeMap<AnomalyKind, u64>,
    listed: Vec<RecordAnomaly>,
    known: HashSet<(String, String)>,
}

impl Anomalies {
    fn add(&mut self, branch: &str, kind: AnomalyKind, what: String) {
        let key = (branch.to_owned(), what);
        if self.known.contains(&key) {
            return;
        }
        *self.counts.entry(kind).or_default() += 1;
        if self.listed.len() < LISTED {
            let (branch, what) = key.clone();
            self.listed.push(RecordAnomaly { branch, kind, what });
        }
        if self.known.len() < REMEMBERED {
            self.known.insert(key);
        }
    }
}

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    repo: Repo,
    handle: RecorderHandle,
    progress: Arc<Mutex<Progress>>,
}

/// The queue to which a proxy sends its copies.
#[derive(Clone, Debug)]
pub struct RecorderHandle {
    to: Sender<Exchange>,
    counts: Arc<Counts>,
    budget: Arc<Budget>,
}

impl RecorderHandle {
    pub(crate) fn capture(&self, parts: &http::request::Parts, path: &str) -> Arc<Capture> {
        Capture::new(self.to.clone(), Arc::clone(&self.counts), &self.budget, parts, path)
    }
}

impl Recorder {
    /// Starts a thread that writes recordings to a repository.
    ///
    /// # Errors
    /// [`Error::Recorder`] if the thread cannot be started.
    pub fn start(repo: Repo, options: &RecorderOptions) -> Result<Self> {
        let (to, from) = channel(options.queue_exchanges.max(1));
        let counts = Arc::new(Counts::default());
        let budget = Arc::new(Budget::new(options.budget_bytes));
        let progress = Arc::new(Mutex::new(Progress::default()));
        let scanner = options.redact.then(Scanner::builtin);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Recorder)?;
        let mut work = Work {
            writer: Writer::new(repo.clone(), scanner),
            counts: Arc::clone(&counts),
            progress: Arc::clone(&progress),
            lull: Lull::new(Arc::clone(&counts), Arc::clone(&budget)),
        };
        std::thread::Builder::new()
            .name("tract-record".to_owned())
            .spawn(move || work.run(&runtime, from))
            .map_err(Error::Recorder)?;
        Ok(Self { repo, handle: RecorderHandle { to, counts, budget }, progress })
    }

    /// Returns the queue for a proxy.
    pub fn handle(&self) -> RecorderHandle {
        self.handle.clone()
    }

    /// Returns a report of the recording so far.
    pub fn report(&self) -> RecordReport {
        let counts = &self.handle.counts;
        let progress = lock(&self.progress);
        let branches = progress.branches.iter().map(|(branch, (exchanges, commits))| {
            WrittenBranch { branch: branch.clone(), exchanges: *exchanges, commits: *commits }
        });
        RecordReport {
            at_us: self.repo.now_us(),
            exchanges: counts.seen_count(),
            recorded: counts.recorded(),
            not_recorded: counts.skipped(),
            branches: branches.collect(),
            redacted: progress.redacted.clone(),
            anomalies: progress.anomalies.counts.clone(),
            listed: progress.anomalies.listed.clone(),
            last_error: progress.last_error.clone(),
        }
    }

    /// Waits until all exchanges are recorded or skipped, up to `most`.
    pub async fn settle(&self, most: Duration) {
        let end = Instant::now() + most;
        while !self.handle.counts.is_settled() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits up to `most` for the exchanges being recorded, stores the report next to the
    /// recordings and returns it. Exchanges that are still open count as not recorded.
    pub async fn finish(self, most: Duration) -> RecordReport {
        self.settle(most).await;
        let mut report = self.report();
        let dealt_with = report.recorded + report.not_recorded.values().sum::<u64>();
        let open = report.exchanges.saturating_sub(dealt_with);
        if open > 0 {
            *report.not_recorded.entry(Reason::RecorderStopped).or_default() += open;
        }
        if report.exchanges > 0 {
            // A store that rejects the report rejected the recordings too, which the report
            // contains.
            let stored = tokio::time::timeout(most, report.store(&self.repo)).await;
            if let Ok(Err(error)) = stored {
                report.last_error = Some(error.code().to_owned());
            }
        }
        report
    }
}

struct Work {
    writer: Writer,
    counts: Arc<Counts>,
    progress: Arc<Mutex<Progress>>,
    lull: Lull,
}

impl Work {
    fn run(&mut self, runtime: &tokio::runtime::Runtime, mut from: Receiver<Exchange>) {
        while let Some(exchange) = from.blocking_recv() {
            self.lull.wait(|| from.len() >= from.max_capacity() / 2, std::thread::sleep);
            // A defect in reading one exchange must not end the recording of the others.
            let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(self.one(exchange))));
            match done {
                Ok(Ok(())) => self.counts.record(),
                Ok(Err(reason)) => self.counts.skip(reason),
                Err(_) => {
                    self.writer.forget();
                    self.counts.skip(Reason::RecorderFailed);
                }
            }
        }
    }

    async fn one(&mut self, exchange: Exchange) -> Result<(), Reason> {
        let turn = read::read(exchange)?;
        let is_error = matches!(turn.answer, Answer::Error { .. });
        let is_fetched = turn.fetched.is_some();
        let damage = turn.damage.clone();
        let written = self.writer.record(turn).await;
        let mut progress = lock(&self.progress);
        progress.redacted =
            self.writer.redacted().map(|(kind, count)| (kind.to_owned(), count)).collect();
        match written {
            Ok(Some(WrittenTurn { branch, commits })) if !is_error => {
                for (kind, what) in damage {
                    progress.anomalies.add(&branch, kind, what);
                }
                let count = progress.branches.entry(branch).or_default();
                *count = (count.0 + 1, count.1 + commits);
            }
            // A repeated fetch of the response, or one by another client.
            Ok(None) if is_fetched => return Err(Reason::NotATurn),
            Ok(_) => {}
            Err(error) => {
                progress.last_error = Some(error.code().to_owned());
                // The outcome of the write is unknown, so the index may differ from the store.
                self.writer.forget();
                return Err(Reason::StoreFailed);
            }
        }
        if is_error { Err(Reason::UpstreamStatus) } else { Ok(()) }
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

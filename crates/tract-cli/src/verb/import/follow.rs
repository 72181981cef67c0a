//! `tract import … --follow`: imports files, and then their changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use serde::Serialize;
use tract::Tract;
use tract::import::{
    self, AnomalyKind, ImportStatus, RecordingOptions, SessionFile, SessionReport, Source,
};

use super::cache::CacheFile;
use super::changes::{ChangedFile, Files, Wakeup, Watch, wait};
use super::{Import, sessions};
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::render::count;
use crate::runtime;
use crate::style::{DIM, REF, Styled, WARN};

#[derive(Serialize)]
struct FollowingLine {
    following: FollowStarted,
}

#[derive(Serialize)]
struct FollowStarted {
    files: usize,
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    summary: &'a Totals,
}

/// The totals of the import.
#[derive(Debug, Default, Serialize)]
struct Totals {
    sessions: usize,
    new: usize,
    redacted: usize,
    unread: usize,
    /// The secrets of each conversation: a report counts those of the whole conversation.
    #[serde(skip)]
    secrets: BTreeMap<String, usize>,
    #[serde(skip)]
    unread_files: BTreeSet<PathBuf>,
}

/// Imports the files of the paths, and their changes until it is interrupted.
pub(super) async fn run(context: &mut Context<'_>, import: &mut Import) -> Outcome<()> {
    let roots = roots(import)?;
    let paths: Vec<PathBuf> = roots.iter().map(|(_, path)| path.clone()).collect();
    let files = Files::new(roots, sessions::filter(import));
    // A missing path is reported before a store is created for it.
    let first = files.changed().map_err(|(path, error)| Failure::file(&path, &error))?;
    let tract = context.open_or_init().await?;
    let (wake, wakeups) = mpsc::channel();
    let _runtime = stop_on_interrupt(wake.clone())?;
    // Changes during the first import are handled after it.
    let (_watch, watched) = Watch::start(&paths, wake);
    if let Err(error) = watched {
        let what = format!("cannot watch all of it, so it is looked at every second: {error}");
        context.out.say(Styled(WARN, escape::line(&what)));
    }
    let cached = CacheFile::open(&context.url()?, &context.global.repo);
    let mut work = Follower {
        context,
        tract,
        cached,
        files,
        options: sessions::recording_options(import),
        lists: import.anomalies,
        orphans: BTreeSet::new(),
        damage: BTreeMap::new(),
        totals: Totals::default(),
        first_import: Some(HashSet::new()),
    };
    let count_of = first.len();
    work.import(first).await?;
    let conversations = work.first_import.take().unwrap_or_default();
    super::check_out_newest(work.context.out, &work.tract, &conversations).await?;
    work.cached.iter_mut().for_each(CacheFile::save);
    work.begin(count_of, &paths)?;
    let mut scan = Duration::ZERO;
    let mut problem = None;
    while wait(&wakeups, scan) {
        let start = Instant::now();
        let changed = work.files.changed();
        scan = start.elapsed();
        let done = match changed {
            Ok(changed) => work.import(changed).await,
            Err((path, error)) => Err(Failure::file(&path, &error)),
        };
        match done {
            Ok(()) => problem = None,
            Err(failure) if failure.is_of_store() => return Err(failure),
            // Such as a folder that is missing for a moment, or a branch moved by another writer.
            // The import is retried, and the failure is reported once.
            Err(failure) => {
                let failure = failure.for_people();
                if problem.as_ref() != Some(&failure) {
                    work.context.out.say(failure.trim_end());
                    problem = Some(failure);
                }
            }
        }
    }
    work.end()
}

/// Returns the files and folders to follow, each with its tool.
fn roots(import: &mut Import) -> Outcome<Vec<(Source, PathBuf)>> {
    let source = sessions::take_source(import)?;
    let mut roots = Vec::with_capacity(import.files.len());
    for path in std::mem::take(&mut import.files) {
        if input::is_stdin(&path) {
            return Err(Failure::usage("standard input cannot be followed").note("name a file"));
        }
        if path.to_str().is_some_and(sessions::is_database) {
            return Err(Failure::usage("a database on a server cannot be followed")
                .note("import it again to take what is new"));
        }
        let found = match source {
            Some(source) => Some(source),
            None if import.format.is_some() => None,
            None => import::detect_source(&path).map_err(|error| Failure::file(&path, &error))?,
        };
        let Some(source) = found else {
            let what = format!("--follow watches recordings of agent tools: {}", path.display());
            return Err(
                Failure::usage(what).note("name the tool: `tract import claude-code --follow`")
            );
        };
        roots.push((source, path));
    }
    Ok(roots)
}

/// Sends [`Wakeup::Stop`] on an interrupt; a second one ends the process at once.
fn stop_on_interrupt(wake: Sender<Wakeup>) -> Outcome<tokio::runtime::Runtime> {
    let runtime = runtime::threads(1)?;
    runtime.spawn(runtime::on_interrupt(move || {
        // The receiver may have ended already.
        let _ = wake.send(Wakeup::Stop);
    }));
    Ok(runtime)
}

struct Follower<'a, 'b> {
    context: &'a mut Context<'b>,
    tract: Tract,
    /// The cache of unchanged files, for the first import of a later run.
    cached: Option<CacheFile>,
    files: Files,
    options: RecordingOptions,
    lists: bool,
    /// Subagents whose call was not found in any session yet.
    orphans: BTreeSet<PathBuf>,
    /// The anomalies that were already reported, by conversation.
    damage: BTreeMap<(PathBuf, String), BTreeMap<AnomalyKind, usize>>,
    totals: Totals,
    /// The conversations of the first import, one of which is checked out in a new store; `None`
    /// afterwards.
    first_import: Option<HashSet<String>>,
}

impl Follower<'_, '_> {
    fn begin(&mut self, files: usize, paths: &[PathBuf]) -> Outcome<()> {
        if self.context.out.is_json() {
            self.context.out.json(&FollowingLine { following: FollowStarted { files } })?;
        } else {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let what = format!(
                "following {} in {}; Ctrl-C ends it",
                count(files, "file"),
                paths.join(", ")
            );
            self.context.out.say(Styled(DIM, escape::line(&what)));
        }
        self.context.out.flush()
    }

    /// Imports changed files, with the same functions as without `--follow`.
    async fn import(&mut self, changed: Vec<ChangedFile>) -> Outcome<()> {
        let changed = self.files.choose(changed);
        if changed.is_empty() {
            return Ok(());
        }
        let mut files: Vec<SessionFile> = self.files.callers(&changed);
        files.extend(changed.iter().map(|changed| changed.file.clone()));
        let is_listed: BTreeSet<PathBuf> =
            files.iter().map(|file| file.path().to_owned()).collect();
        // A subagent may be recorded before the call that started it. Its file does not change when
        // the call is written, so it is imported again with each change of another file.
        let orphans = self.orphans.iter().filter(|path| !is_listed.contains(*path));
        files.extend(orphans.map(|path| SessionFile::new(Source::ClaudeCode, path)));
        // Errors of files that are still being written may disappear, so only settled files report
        // them.
        let settled: BTreeSet<PathBuf> = changed
            .iter()
            .filter(|changed| changed.is_settled)
            .map(|changed| changed.file.path().to_owned())
            .collect();
        // Each import is a separate operation, so that one undo reverts it.
        let tract = self.tract.one_operation()?;
        let mut done = Vec::new();
        let each = |path: &Path, report| done.push((path.to_owned(), report));
        let (repo, options) = (tract.repo(), &self.options);
        let imported = match &mut self.cached {
            Some(CacheFile { cache, .. }) => {
                import::import_files_cached(repo, &files, options, cache, each).await
            }
            None => import::import_files(repo, &files, options, each).await,
        };
        imported.map_err(Failure::from)?;
        // Only after the import: if it fails, the files must be found as changed by the next scan.
        for changed in &changed {
            self.files.remember(changed);
        }
        for (path, report) in done {
            match report {
                Ok(report) => self.tell(path, &report)?,
                Err(error) if settled.contains(&path) => {
                    self.totals.unread_files.insert(path.clone());
                    let failure = Failure::file(&path, &error);
                    sessions::tell_unread(self.context, &path, &failure)?;
                }
                Err(_) => {
                    self.orphans.remove(&path);
                }
            }
        }
        self.context.out.flush()
    }

    /// Reports a conversation with new content.
    fn tell(&mut self, path: PathBuf, report: &SessionReport) -> Outcome<()> {
        self.totals.unread_files.remove(&path);
        if let Some(conversations) = &mut self.first_import {
            conversations.extend(sessions::conversations(report));
        }
        match report.anomalies.counts.contains_key(&AnomalyKind::UnknownCaller) {
            true => self.orphans.insert(path.clone()),
            false => self.orphans.remove(&path),
        };
        let changed = report.branches.iter().filter(|branch| {
            branch.new > 0
                || matches!(
                    branch.status,
                    ImportStatus::Created | ImportStatus::Forwarded | ImportStatus::Moved
                )
        });
        let changed: Vec<_> = changed.collect();
        let damage = self.new_damage(&path, report);
        let Some(first) = changed.first() else {
            if !damage.is_empty() {
                sessions::tell(self.context, &path, report, self.lists)?;
                self.tell_damage(&path, &damage)?;
            }
            return Ok(());
        };
        let new = report.branches.iter().map(|branch| branch.new).sum();
        self.totals.new += new;
        let secrets = report.redacted.values().sum();
        self.totals.secrets.insert(first.branch.clone(), secrets);
        sessions::tell(self.context, &path, report, self.lists)?;
        if self.context.out.is_json() {
            return Ok(());
        }
        let more = match changed.len() - 1 {
            0 => String::new(),
            n => format!(" and {}", count(n, "more branch")),
        };
        let (branch, file) = (escape::line(&first.branch), path.display().to_string());
        self.context.out.line(format_args!(
            "{}{more}: {}  {}",
            Styled(REF, &branch),
            count(new, "new commit"),
            Styled(DIM, escape::line(&file)),
        ))?;
        self.tell_damage(&path, &damage)
    }

    /// Returns the anomalies of a conversation that are new since its last import. Those that the
    /// next line may resolve are left out.
    fn new_damage(&mut self, path: &Path, report: &SessionReport) -> BTreeMap<AnomalyKind, usize> {
        const PASSING: [AnomalyKind; 3] =
            [AnomalyKind::TornLine, AnomalyKind::Unanswered, AnomalyKind::UnknownCaller];
        let key = (path.to_owned(), report.session.clone());
        let known = self.damage.entry(key).or_default();
        let counts = report.anomalies.counts.iter();
        let mut new = BTreeMap::new();
        for (kind, count) in counts.filter(|(kind, _)| !PASSING.contains(kind)) {
            let before = known.insert(*kind, *count).unwrap_or_default();
            if *count > before {
                new.insert(*kind, count - before);
            }
        }
        new
    }

    fn tell_damage(&mut self, path: &Path, damage: &BTreeMap<AnomalyKind, usize>) -> Outcome<()> {
        if damage.is_empty() || self.context.out.is_json() {
            return Ok(());
        }
        let kinds: Vec<String> =
            damage.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let file = path.display().to_string();
        let what = format!("unusual: {}; --anomalies lists them", kinds.join(", "));
        let file = Styled(DIM, escape::line(&file));
        self.context.out.line(format_args!("{}  {file}", Styled(WARN, what)))
    }

    fn end(mut self) -> Outcome<()> {
        self.cached.iter_mut().for_each(CacheFile::save);
        self.totals.sessions = self.totals.secrets.len();
        self.totals.redacted = self.totals.secrets.values().sum();
        self.totals.unread = self.totals.unread_files.len();
        let totals = &self.totals;
        if self.context.out.is_json() {
            self.context.out.json(&SummaryLine { summary: totals })?;
        } else {
            self.context.out.line(format_args!(
                "imported {} of {}",
                count(totals.new, "new commit"),
                count(totals.sessions, "conversation")
            ))?;
            if totals.redacted > 0 {
                let redacted = count(totals.redacted, "secret");
                self.context
                    .out
                    .line(format_args!("{redacted} redacted; --no-redact keeps them"))?;
            }
            if totals.unread > 0 {
                let unread = format!("{} not read", count(totals.unread, "file"));
                self.context.out.line(Styled(WARN, unread))?;
            }
        }
        self.context.out.flush()
    }
}

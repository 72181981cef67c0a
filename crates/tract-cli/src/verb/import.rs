//! `tract import`

mod batch;
mod cache;
#[cfg(feature = "follow")]
mod changes;
#[cfg(feature = "follow")]
mod follow;
mod list;
mod sessions;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use serde::Serialize;
use tract::engine::Repo;
use tract::import::python::{self, PythonError};
use tract::import::{
    self, Anomaly, Dialect, ImportError, ImportOptions, ImportStatus, Imported, Importer,
    LargeConversation, Source, har_exchanges as har,
};
use tract::{Kind, RefName, Tract};

use self::batch::{BatchAnswers, BatchStep};
pub(crate) use self::cache::forget as forget_cache;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome, RefusedLine};
use crate::input::{self, Document, Documents};
use crate::out::Output;
use crate::render::{self, count};
use crate::style::{BAD, DIM, REF, Styled, WARN};

/// Import recorded conversations, one branch each.
///
/// Reads files with one conversation per line, or with one JSON document: requests to the
/// providers that --format lists, objects with `messages` and `tools`, and recordings that contain
/// such a request. Databases of the Python version are imported with all branches, named
/// TRACT/BRANCH. `tract import claude-code` imports the sessions of Claude Code from its own
/// folder, or from the given files and folders: one branch for each session, subagent and rewind.
/// `codex`, `gemini-cli`, `opencode`, `goose`, `copilot-cli`, `qwen-code`, `vscode-chat` and
/// `cursor` are found in the same way; files of `openai-agents`, `langgraph`, `ai-sdk`, `atif`,
/// `swe-agent`, `openhands`, `inspect`, `chatgpt`, `claude-ai`, `pydantic-ai`, `langchain`,
/// `dataset`, `mini-swe-agent` and `aider` have to be named. Most of them are recognized without
/// the word. Checkpoints of LangGraph on a PostgreSQL server are named by its url, and read in one
/// read-only transaction; PGPASSWORD may have the password. Importing again changes nothing. The
/// common beginning of two conversations is stored once.
#[derive(Debug, Args)]
#[command(after_help = "\
A branch is named after the id of its conversation; if that name is invalid or taken, digits of the
id's hash are added. Lines that cannot be read and branches that hold other commits are reported;
the rest is imported, and the exit code is 1.
Examples:
  tract import chats.jsonl
  tract import --format anthropic request.json
  tract import --format python-tract old.db  a database of the Python version
  tract import --anomalies chats.jsonl       also list what a strict reader would reject
  tract import claude-code                   all sessions of Claude Code on this machine
  tract import claude-code --project . --since 2026-11-01T00:00:00Z
  tract import claude-code session.jsonl     one session, or a folder of them
  tract import codex                         all threads of Codex CLI on this machine
  tract import claude-code --follow          and what is written to them from now on
  tract import runs.eval checkpoints.sqlite  a log of Inspect, a database of LangGraph
  tract import langgraph postgres://me@db/agents
  curl -s … | tract import -")]
pub(crate) struct Import {
    /// The files; `-` reads standard input. After a tool such as `claude-code`: files and folders
    /// of its recordings [default: its own folder]
    #[arg(value_name = "[TOOL] FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format, if it cannot be detected.
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,
    /// List every anomaly with its line.
    #[arg(long)]
    anomalies: bool,
    /// Import only sessions whose file changed at this time or on this day, or later, such as
    /// 2026-11-01 or 2h.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    since: Option<i64>,
    /// Import only sessions that ran in this folder or below it; a single name is the folder's last
    /// part.
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Keep keys, tokens and passwords in what agent tools recorded; they are replaced by marks
    /// unless this is given.
    #[arg(long)]
    no_redact: bool,
    /// Read a channel of LangGraph's threads in the place of messages, as what this role says; may
    /// be given several times [ROLE: user, assistant or system; default: user]
    #[arg(long, value_name = "NAME[:ROLE]")]
    channel: Vec<String>,
    /// Import what is there, then what changes, until interrupted (Ctrl-C). A line for each
    /// conversation that brought something.
    #[cfg(feature = "follow")]
    #[arg(long)]
    follow: bool,
    /// Files that no reader takes, and what they seem to be.
    #[arg(skip)]
    unknown: Vec<(PathBuf, Failure)>,
}

/// The value of `--format`.
#[derive(Clone, Copy, Debug)]
enum Format {
    Dialect(Dialect),
    /// A database of the Python original.
    PythonTract,
    /// Files of an agent tool.
    Source(Source),
}

/// Parses the name of a format.
fn format() -> impl TypedValueParser<Value = Format> {
    const PYTHON: &str = "python-tract";
    let sources = Source::ALL.iter().map(|source| source.as_str());
    let words = Dialect::ALL.map(Dialect::as_str).into_iter().chain([PYTHON]).chain(sources);
    PossibleValuesParser::new(words.collect::<Vec<_>>()).try_map(|word| match word.as_str() {
        PYTHON => Ok(Format::PythonTract),
        word => match word.parse() {
            Ok(source) => Ok(Format::Source(source)),
            Err(_) => word.parse().map(Format::Dialect),
        },
    })
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    branch: &'a str,
    status: &'static str,
    commits: usize,
    reused: usize,
    anomalies: &'a [String],
}

/// Lines of at least this many bytes are read message by message while they are stored.
const LARGE_BYTES: usize = 1 << 20;

/// Maximum number of rejected lines that are reported per reason; more are only counted.
const REPORTED: usize = 5;

#[derive(Default)]
struct ImportTotals {
    conversations: usize,
    by_status: HashMap<&'static str, usize>,
    commits: usize,
    reused: usize,
    anomalies: usize,
    anomalous: usize,
    /// Rejected lines, by the code of the reason.
    refused: BTreeMap<&'static str, usize>,
    last_branch: Option<String>,
    /// A branch that has only an answer, and was left alone.
    lone_answer: Option<String>,
    /// The branches of the conversations that were imported.
    branches: HashSet<String>,
}

impl ImportTotals {
    /// Fails with exit code 1 if there is no conversation, or one did not get a branch.
    fn outcome(&self) -> Outcome<()> {
        let is_whole = self.refused.is_empty() && self.diverged() == 0;
        Failure::unless(self.conversations > 0 && is_whole)
    }

    fn diverged(&self) -> usize {
        self.by_status.get(ImportStatus::Diverged.as_str()).copied().unwrap_or(0)
    }

    fn add(&mut self, done: &Line<'_>) {
        self.conversations += 1;
        *self.by_status.entry(done.status).or_default() += 1;
        self.anomalies += done.anomalies.len();
        self.anomalous += usize::from(!done.anomalies.is_empty());
        // Nothing of it is stored.
        if done.status == ImportStatus::Diverged.as_str() {
            return;
        }
        self.commits += done.commits;
        self.reused += done.reused;
        if done.commits > 0 {
            self.branches.insert(done.branch.to_owned());
            self.last_branch.get_or_insert_with(|| done.branch.to_owned());
        }
    }

    /// Counts a rejected line, and returns how many were rejected for the same reason so far.
    fn refuse(&mut self, failure: &Failure) -> usize {
        let refused = self.refused.entry(failure.code).or_default();
        *refused += 1;
        *refused
    }
}

pub(crate) async fn run(context: &mut Context<'_>, mut import: Import) -> Outcome<()> {
    #[cfg(feature = "follow")]
    if import.follow {
        return follow::run(context, &mut import).await;
    }
    let sessions = sessions::take(&mut import)?;
    if let Some(Format::PythonTract) = import.format {
        return databases(context, &import).await;
    }
    // A file that cannot be opened is reported before a store is created for it.
    let inputs: Vec<(PathBuf, Documents)> = import
        .files
        .iter()
        .map(|path| Ok((path.clone(), Documents::new(input::open(path)?)?)))
        .collect::<Outcome<_>>()?;
    let mut unknown = std::mem::take(&mut import.unknown);
    let is_all = sessions.is_empty() && inputs.is_empty() && !unknown.is_empty();
    if is_all
        && unknown.len() == 1
        && let Some((_, failure)) = unknown.pop()
    {
        return Err(failure);
    }
    for (path, failure) in &unknown {
        sessions::tell_unread(context, path, failure)?;
    }
    if is_all {
        return Failure::unless(false);
    }
    // Unreadable files do not prevent the others from being imported.
    let mut unread = Failure::unless(unknown.is_empty());
    if !sessions.is_empty() || inputs.is_empty() {
        let done = sessions::run(context, &import, &sessions).await;
        if done.as_ref().is_err_and(|failure| !failure.is_silent()) {
            return done;
        }
        unread = unread.and(done);
    }
    if !inputs.is_empty() {
        conversations(context, &import, inputs).await?;
    }
    unread
}

/// Imports files of conversations.
async fn conversations(
    context: &mut Context<'_>,
    import: &Import,
    mut inputs: Vec<(PathBuf, Documents)>,
) -> Outcome<()> {
    let batches = BatchAnswers::find(&mut inputs)?;
    let format = import.format.and_then(|format| match format {
        Format::Dialect(dialect) => Some(dialect),
        Format::PythonTract | Format::Source(_) => None,
    });
    let tract = context.open_or_init().await?;
    let importer = Importer::new(tract.repo(), ImportOptions::default())?;
    let bar = render::progress("importing", "conversations");
    let mut work = ImportRun {
        context,
        repo: tract.repo().clone(),
        importer,
        bar,
        format,
        list: import.anomalies,
        batches,
        left_out: HashSet::new(),
        waiting: Vec::new(),
        total: ImportTotals::default(),
    };
    for (path, documents) in inputs {
        if !work.file(&path, documents).await? {
            sessions::tell_empty(work.context.out, &[&path]);
        }
    }
    let done = work.importer.finish().await?;
    work.report(done).await?;
    work.bar.finish_and_clear();
    for (code, lines) in work.total.refused.iter().filter(|(_, lines)| **lines > REPORTED) {
        if !work.context.out.is_json() {
            let more = count(lines - REPORTED, "more line");
            let reason = format_args!("… and {more} refused for the same reason: error[{code}]");
            work.context.out.say(reason);
        }
    }
    summary(work.context.out, &work.total)?;
    check_out_newest(work.context.out, &tract, &work.total.branches).await?;
    work.total.outcome()
}

/// Checks out the newest of the imported conversations if the branch of `HEAD` has no commits yet, so
/// that the next commands show a conversation.
async fn check_out_newest(
    out: &mut Output,
    tract: &Tract,
    imported: &HashSet<String>,
) -> Outcome<()> {
    if imported.is_empty() || tract.head().await?.is_some() {
        return Ok(());
    }
    let branches = tract.branches().newest_first().await?;
    if let Some(newest) = branches.into_iter().find(|branch| imported.contains(&branch.name)) {
        tract.checkout(&newest.name).await?;
        let name = Styled(REF, escape::line(&newest.name));
        out.say(format_args!("on {name}, the newest conversation"));
    }
    Ok(())
}

/// Imports database files of the Python original.
async fn databases(context: &mut Context<'_>, import: &Import) -> Outcome<()> {
    let mut files = Vec::with_capacity(import.files.len());
    for path in &import.files {
        if input::is_stdin(path) {
            return Err(Failure::usage("a database is read from a file")
                .note("name the file in place of `-`"));
        }
        files.push(database(path)?);
    }
    let tract = context.open_or_init().await?;
    let mut total = ImportTotals::default();
    let mut line = 0;
    for data in &files {
        for branch in python::import(tract.repo(), data).await? {
            line += 1;
            match branch.done {
                Ok(done) => {
                    let report = Line {
                        id: &branch.id,
                        branch: &done.branch,
                        status: done.status.as_str(),
                        commits: done.commits,
                        reused: done.reused,
                        anomalies: &done.anomalies,
                    };
                    total.add(&report);
                    tell(context.out, line, &report, (import.anomalies, total.diverged()))?;
                }
                Err(why) => {
                    let failure = Failure::no("damaged", why)
                        .note("the other branches were imported; restore the file from a copy");
                    total.refuse(&failure);
                    if context.out.is_json() {
                        let id = Some(branch.id.as_str());
                        context
                            .out
                            .json(&RefusedLine { id, ..RefusedLine::new(line, &failure) })?;
                    } else {
                        let (id, why) = (escape::line(&branch.id), failure.for_people());
                        context.out.say(format_args!("{id}: {}", why.trim_end()));
                    }
                }
            }
        }
    }
    context.out.flush()?;
    summary(context.out, &total)?;
    check_out_newest(context.out, &tract, &total.branches).await?;
    total.outcome()
}

/// Opens a file, so that an error in its name is reported before a store is created.
fn database(path: &Path) -> Outcome<python::Database> {
    python::read(path).map_err(|error| {
        let notes = error.notes();
        match error {
            PythonError::File { source, .. } => Failure::file(path, &source),
            PythonError::Version { .. } => Failure::no("schema_version", error.to_string()),
            PythonError::NotTract { .. } => Failure::no("no_python_tract", error.to_string()),
            other => Failure::no("damaged_file", other.to_string()),
        }
        .notes(notes)
    })
}

/// Reports a branch: all anomalies if they are requested, and the first branches that diverged.
fn tell(
    out: &mut Output,
    line: usize,
    report: &Line<'_>,
    (list, diverged): (bool, usize),
) -> Outcome<()> {
    if out.is_json() {
        return out.json(report);
    }
    let branch = Styled(REF, escape::line(report.branch));
    if report.status == ImportStatus::Diverged.as_str() && diverged <= REPORTED {
        out.say(format_args!(
            "line {line}: {branch} diverged: the branch holds other commits and was left alone"
        ));
    }
    for anomaly in report.anomalies.iter().filter(|_| list) {
        out.line(format_args!("line {line}: {branch}: {}", escape::line(anomaly)))?;
    }
    Ok(())
}

struct ImportRun<'a, 'b> {
    context: &'a mut Context<'b>,
    repo: Repo,
    importer: Importer,
    bar: ProgressBar,
    format: Option<Dialect>,
    list: bool,
    batches: BatchAnswers,
    /// The members that were reported for the current file as left out of HTTP messages.
    left_out: HashSet<String>,
    /// Line and anomalies of each conversation, in the order of the importer's answers.
    waiting: Vec<(usize, Vec<String>)>,
    total: ImportTotals,
}

impl ImportRun<'_, '_> {
    /// Imports a file, and returns whether it contains anything that may be a conversation.
    async fn file(&mut self, path: &Path, mut documents: Documents) -> Outcome<bool> {
        let mut has_any = false;
        self.left_out.clear();
        let stem = if input::is_stdin(path) {
            "stdin".to_owned()
        } else {
            path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
        };
        while let Some(document) = documents.next()? {
            let BatchStep::Import(document) = self.batches.step(document, self.format) else {
                has_any = true;
                continue;
            };
            self.bar.inc_length(1);
            let Document { line, mut text, mut replaced } = document;
            if let Some(unpacked) = import::unpacked(&text) {
                text = unpacked.text;
                replaced.extend(unpacked.replaced.iter().map(ToString::to_string));
            }
            let text = self.with_request(text).await?;
            let fallback = format!("{stem}-{line}");
            if let Some(exchanges) = har(&text) {
                has_any |= !exchanges.lines.is_empty();
                self.exchanges(&stem, exchanges).await?;
                continue;
            }
            has_any = true;
            if let Some(elements) = import::listed_conversations(&text) {
                self.list(&stem, &elements, replaced).await?;
                continue;
            }
            if text.len() > LARGE_BYTES {
                self.large(line, &text, &fallback, replaced).await?;
                continue;
            }
            let damaged = match input::is_json(&text) {
                true => None,
                false => import::records_of_line(&text),
            };
            match damaged {
                None => self.conversation(line, &text, &fallback, replaced).await?,
                Some((records, damage)) => {
                    let anomalies = replaced.into_iter().chain([format!("damaged line: {damage}")]);
                    self.records(line, &records, &fallback, anomalies.collect()).await?;
                }
            }
        }
        Ok(has_any)
    }

    /// Joins an answer of a batch with its request, if that was imported earlier.
    async fn with_request(&self, text: String) -> Outcome<String> {
        if !self.batches.may_continue(&text) {
            return Ok(text);
        }
        let joined = import::batch_line_with_request(&self.repo, &text).await?;
        // If they cannot be read together, the answer is imported alone.
        let joined = joined.filter(|joined| import::read(joined, self.format, "").is_ok());
        Ok(joined.unwrap_or(text))
    }

    /// Imports the records of a damaged line, each as a conversation. The first one gets the
    /// anomalies of the line.
    async fn records(
        &mut self,
        line: usize,
        records: &[&str],
        fallback: &str,
        mut anomalies: Vec<String>,
    ) -> Outcome<()> {
        for (number, record) in records.iter().enumerate() {
            let fallback = match number {
                0 => fallback.to_owned(),
                number => format!("{fallback}-{}", number + 1),
            };
            let anomalies = std::mem::take(&mut anomalies);
            self.conversation(line, record, &fallback, anomalies).await?;
        }
        Ok(())
    }

    /// Imports a conversation that is in memory as a whole.
    async fn conversation(
        &mut self,
        line: usize,
        text: &str,
        fallback: &str,
        replaced: Vec<String>,
    ) -> Outcome<()> {
        let read = match import::read(text, self.format, fallback) {
            Ok(read) => read,
            Err(error) => return self.refuse(line, None, Failure::from(error)),
        };
        let id = read.conversation.id.clone();
        let anomalies = self.reported(&read.anomalies);
        self.waiting.push((line, replaced.into_iter().chain(anomalies).collect()));
        match self.importer.add(read.conversation).await {
            Ok(done) => self.report(done).await,
            Err(error) => {
                self.waiting.pop();
                self.refuse(line, Some(&id), error.into())
            }
        }
    }

    /// Imports a conversation message by message, without keeping it in memory.
    async fn large(
        &mut self,
        line: usize,
        text: &str,
        fallback: &str,
        replaced: Vec<String>,
    ) -> Outcome<()> {
        // A first pass that stores nothing: a line that is rejected must change nothing.
        let checked = LargeConversation::open(text, self.format, fallback).and_then(|mut read| {
            read.messages.next_draft()?.ok_or(ImportError::NoMessages)?;
            while read.messages.next_draft()?.is_some() {}
            Ok(())
        });
        if let Err(error) = checked {
            return self.refuse(line, None, error.into());
        }
        let done = self.importer.finish().await?;
        self.report(done).await?;
        let read = LargeConversation::open(text, self.format, fallback)?;
        let LargeConversation { id, tools, meta, mut messages, .. } = read;
        let next = || messages.next_draft().map_err(tract::Error::from);
        match self.importer.add_large(id.as_str(), &tools, Some(meta), next).await {
            Ok(done) => {
                let anomalies = messages.finish();
                let anomalies = self.reported(&anomalies);
                self.waiting.push((line, replaced.into_iter().chain(anomalies).collect()));
                self.report(done).await
            }
            Err(error) => self.refuse(line, Some(&id), error.into()),
        }
    }

    /// Writes the anomalies of a conversation. What is left out of all exchanges is reported once for
    /// each file.
    fn reported(&mut self, anomalies: &[Anomaly]) -> Vec<String> {
        let is_new =
            |anomaly: &&Anomaly| !anomaly.is_left_out() || self.left_out.insert(anomaly.at.clone());
        anomalies.iter().filter(is_new).map(ToString::to_string).collect()
    }

    /// Reports a refused line. A failure of the store is not a refusal, and ends the import.
    fn refuse(&mut self, line: usize, id: Option<&str>, failure: Failure) -> Outcome<()> {
        if failure.is_of_store() {
            return Err(failure);
        }
        self.bar.inc(1);
        let refused = RefusedLine { id, ..RefusedLine::new(line, &failure) };
        if self.total.refuse(&failure) <= REPORTED || self.context.out.is_json() {
            self.bar.suspend(|| self.context.out.refuse(&refused))?;
        }
        self.context.out.flush()
    }

    /// Sets the status of a conversation whose branch continues it: the recording is an older state.
    /// Notes a branch with the answer of a batch, whose request was read without that answer.
    async fn settle(&mut self, imported: &mut Imported) -> Outcome<()> {
        let Some(head) = imported.head.filter(|_| imported.status == ImportStatus::Diverged) else {
            return Ok(());
        };
        let branch = RefName::branch(&imported.branch)?;
        let Some(found) = self.repo.ref_target(&branch).await?.and_then(|it| it.commit()) else {
            return Ok(());
        };
        if import::is_in_history(&self.repo, found, head).await? {
            imported.status = ImportStatus::Unchanged;
        } else if let Some(commit) = self.repo.commit(found).await?
            && commit.parent().is_none()
            && commit.kind == Some(Kind::Assistant)
        {
            self.total.lone_answer.get_or_insert_with(|| imported.branch.clone());
        }
        Ok(())
    }

    /// Reports conversations that are durable.
    async fn report(&mut self, mut done: Vec<Imported>) -> Outcome<()> {
        for imported in &mut done {
            self.settle(imported).await?;
        }
        for (imported, (line, anomalies)) in done.iter().zip(self.waiting.drain(..done.len())) {
            self.bar.inc(1);
            let report = Line {
                id: &imported.id,
                branch: &imported.branch,
                status: imported.status.as_str(),
                commits: imported.commits,
                reused: imported.reused,
                anomalies: &anomalies,
            };
            self.total.add(&report);
            let (context, list) = (&mut *self.context, (self.list, self.total.diverged()));
            self.bar.suspend(|| tell(context.out, line, &report, list))?;
        }
        if self.context.out.is_json() && !done.is_empty() {
            self.context.out.flush()?;
        }
        Ok(())
    }
}

fn summary(out: &mut Output, total: &ImportTotals) -> Outcome<()> {
    let of = |status: ImportStatus| total.by_status.get(status.as_str()).copied().unwrap_or(0);
    let new = total.commits - total.reused;
    let mut parts = vec![format!(
        "imported {}: {}, {} of them new",
        count(total.conversations, "conversation"),
        count(total.commits, "commit"),
        render::number(new as u64),
    )];
    for status in [ImportStatus::Created, ImportStatus::Forwarded, ImportStatus::Unchanged] {
        if of(status) > 0 {
            parts.push(format!("{} {status}", count(of(status), "branch")));
        }
    }
    let mut lines = vec![parts.join("; ")];
    if of(ImportStatus::Diverged) > 0 {
        let diverged = count(of(ImportStatus::Diverged), "branch");
        lines.push(Styled(WARN, format!("{diverged} diverged and left alone")).to_string());
        if let Some(branch) = &total.lone_answer {
            let branch = escape::line(branch);
            lines.push(format!(
                "{branch} has an answer without its request: delete the branch with `tract branch \
                 --delete`, and import the files with the requests and the answers in one command"
            ));
        }
    }
    if total.anomalies > 0 {
        lines.push(format!(
            "{} in {}, kept as recorded; --anomalies lists them",
            count(total.anomalies, "anomaly"),
            count(total.anomalous, "conversation")
        ));
    }
    let refused: usize = total.refused.values().sum();
    if refused > 0 {
        let refused = format!("{} refused", count(refused, "line"));
        lines.push(Styled(BAD, refused).to_string());
    }
    for line in lines {
        if out.is_json() { out.say(line) } else { out.line(line)? }
    }
    if let (Some(branch), false) = (&total.last_branch, out.is_json()) {
        let next = format!("next: tract log {}", escape::line(branch));
        out.say(Styled(DIM, next));
    }
    Ok(())
}

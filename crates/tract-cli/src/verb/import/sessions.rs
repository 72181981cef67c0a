//! `tract import TOOL`, and recognition of agent tools' files by their content.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tract::Tract;
use tract::import::{
    self, Anomalies, BranchStart, FileKind, ImportStatus, RecordedBranch, RecordingAnomaly,
    RecordingOptions, SessionFile, SessionFilter, SessionReport, Source, TokenTotals, UnknownFile,
};
use tract::store::hide_passwords;

use super::batch;
use super::cache::CacheFile;
use super::{Format, Import};
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render::{self, count, number};
use crate::style::{BAD, DIM, Styled, WARN};

/// Takes a tool's name out of the arguments of an import, and leaves its files and folders: the
/// named ones, else those of the tool.
pub(super) fn take_source(import: &mut Import) -> Outcome<Option<Source>> {
    let first = import.files.first().and_then(|word| word.to_str());
    let named =
        first.and_then(|word| word.parse::<Source>().ok()).filter(|_| import.format.is_none());
    let source = match import.format {
        Some(Format::Source(source)) => Some(source),
        _ => named,
    };
    if named.is_some() {
        import.files.remove(0);
    }
    if let Some(source) = source.filter(|_| import.files.is_empty()) {
        import.files = own_folders(source)?;
    }
    Ok(source)
}

/// Returns the filter of sessions.
pub(super) fn filter(import: &Import) -> SessionFilter {
    let mut filter = SessionFilter::new();
    filter.since = import.since.map(system_time);
    filter.project.clone_from(&import.project);
    filter
}

/// Takes the files of agent tools out of the arguments of an import: all of them after a tool's
/// name, else those that are recognized by their content.
pub(super) fn take(import: &mut Import) -> Outcome<Vec<SessionFile>> {
    let is_filtered = import.since.is_some() || import.project.is_some();
    let filter = filter(import);
    let source = take_source(import)?;
    let databases = take_databases(import, source)?;
    if !databases.is_empty() {
        if is_filtered {
            return Err(Failure::usage("--since and --project choose among files")
                .note("a database is imported as a whole"));
        }
        if import.files.is_empty() {
            let with = |file: SessionFile| file.with_channels(&import.channel);
            return Ok(databases.into_iter().map(with).collect());
        }
    }
    let mut found = found(import, source, is_filtered, &filter)?;
    found.extend(databases);
    if !import.channel.is_empty() {
        if found.iter().any(|file| file.source() != Source::LangGraph) {
            return Err(Failure::usage("--channel reads channels of LangGraph")
                .note("name its databases: `tract import langgraph FILE --channel NAME`"));
        }
        found = found.into_iter().map(|file| file.with_channels(&import.channel)).collect();
    }
    Ok(found)
}

/// Takes the databases on servers, which are URLs, out of the arguments.
fn take_databases(import: &mut Import, source: Option<Source>) -> Outcome<Vec<SessionFile>> {
    let mut databases = Vec::new();
    for path in std::mem::take(&mut import.files) {
        let Some(url) = path.to_str().filter(|text| is_database(text)) else {
            import.files.push(path);
            continue;
        };
        let name = hide_passwords(url);
        match (source, import.format) {
            (Some(Source::LangGraph), _) | (None, None) => {
                databases.push(SessionFile::database(Source::LangGraph, url, name));
            }
            _ => {
                return Err(Failure::usage(format!("no format of a database on a server: {name}"))
                    .note("checkpoints of LangGraph are read from PostgreSQL: `langgraph`"));
            }
        }
    }
    Ok(databases)
}

/// Returns whether an argument names a database on a server.
pub(super) fn is_database(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme))
}

/// Finds the files of agent tools.
fn found(
    import: &mut Import,
    source: Option<Source>,
    is_filtered: bool,
    filter: &SessionFilter,
) -> Outcome<Vec<SessionFile>> {
    let Some(source) = source else {
        return if is_filtered {
            Err(Failure::usage("--since and --project choose among sessions")
                .note("name the tool: `tract import claude-code --project .`"))
        } else if import.format.is_some() {
            Ok(Vec::new())
        } else {
            detected(import, filter)
        };
    };
    let paths = std::mem::take(&mut import.files);
    let files = import::session_files(source, &paths, filter)
        .map_err(|(path, error)| Failure::file(&path, &error))?;
    if files.is_empty() {
        let what = if is_filtered { "no matching session in" } else { "no session in" };
        let folders: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::no("no_sessions", format!("{what} {}", folders.join(", ")))
            .note("name another file or folder"));
    }
    Ok(files)
}

/// Takes out the files that are recognized, and those that no reader accepts.
fn detected(import: &mut Import, filter: &SessionFilter) -> Outcome<Vec<SessionFile>> {
    let mut files = Vec::new();
    let mut paths: VecDeque<PathBuf> = std::mem::take(&mut import.files).into();
    while let Some(path) = paths.pop_front() {
        if input::is_stdin(&path) {
            import.files.push(path);
            continue;
        }
        match import::recognize(&path) {
            Ok(FileKind::Source(source)) => {
                let found = import::session_files(source, &[path], filter)
                    .map_err(|(path, error)| Failure::file(&path, &error))?;
                files.extend(found);
            }
            Ok(FileKind::Unknown(UnknownFile { what, notes, .. })) => {
                // A batch is in several files, which are often in a folder of their own.
                let of_batch = batch::folder_files(&path);
                if !of_batch.is_empty() {
                    of_batch.into_iter().rev().for_each(|file| paths.push_front(file));
                    continue;
                }
                let what = format!("{} is not read: it is {what}", path.display());
                import.unknown.push((path, Failure::no("unknown_format", what).notes(notes)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(tool) = similar_tool(&path) {
                    return Err(Failure::file(&path, &error)
                        .note(format!("did you mean the tool: `tract import {tool}`?")));
                }
                import.files.push(path);
            }
            // An unreadable file is reported when it is opened.
            Ok(_) | Err(_) => import.files.push(path),
        }
    }
    Ok(files)
}

/// Returns the tool whose name is similar to a path that does not exist.
fn similar_tool(path: &Path) -> Option<String> {
    let word = path.to_str().filter(|word| !word.contains(['/', '.']))?.to_lowercase();
    let tools: Vec<String> = Source::ALL.iter().map(ToString::to_string).collect();
    let longer = tools.iter().find(|tool| tool.starts_with(&word));
    let nearest = || tract::core::nearest(&word, tools.iter().map(String::as_str));
    longer.map(String::as_str).or_else(nearest).map(str::to_owned)
}

fn own_folders(source: Source) -> Outcome<Vec<PathBuf>> {
    let name = source.title();
    let Some(place) = source.place() else {
        return Err(Failure::usage(format!("no file of {name}"))
            .note(format!("name them: `tract import {source} FILE`")));
    };
    let folders: Vec<PathBuf> = source.folders().into_iter().filter(|path| path.is_dir()).collect();
    if folders.is_empty() {
        return Err(Failure::no("no_sessions", format!("{name} has no folder of sessions here"))
            .note(format!("it is {place}; or name a file or folder"))
            .note(
                "to see tract without sessions: `tract demo` creates a store with conversations",
            ));
    }
    Ok(folders)
}

fn system_time(at_us: i64) -> SystemTime {
    let distance = Duration::from_micros(at_us.unsigned_abs());
    let at = match at_us {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    };
    at.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[derive(Serialize)]
struct SessionLine<'a> {
    session: &'a str,
    file: &'a str,
    title: Option<&'a str>,
    branches: Vec<BranchLine<'a>>,
    lines: usize,
    messages: usize,
    pairs: usize,
    compactions: usize,
    hidden: usize,
    edited: usize,
    removed: usize,
    repeated: usize,
    skipped: &'a BTreeMap<String, usize>,
    redacted: &'a BTreeMap<&'static str, usize>,
    models: &'a BTreeMap<String, usize>,
    tokens: TokenTotals,
    anomalies: BTreeMap<&'static str, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<&'a [RecordingAnomaly]>,
}

#[derive(Serialize)]
struct BranchLine<'a> {
    branch: &'a str,
    status: &'static str,
    start: &'static str,
    commits: usize,
    new: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<&'a str>,
}

impl<'a> BranchLine<'a> {
    fn of(branch: &'a RecordedBranch) -> Self {
        let RecordedBranch { branch: name, status, start, commits, new, moved_from, .. } = branch;
        let (status, start) = (status.as_str(), start.as_str());
        let (commits, new, moved_from) = (*commits, *new, moved_from.as_deref());
        Self { branch: name, status, start, commits, new, moved_from }
    }
}

#[derive(Serialize)]
struct UnreadFile<'a> {
    file: &'a str,
    error: &'a Failure,
}

#[derive(Serialize)]
struct SummaryLine {
    summary: Totals,
}

/// The totals of all sessions.
#[derive(Debug, Default, Serialize)]
struct Totals {
    sessions: usize,
    subagents: usize,
    empty: usize,
    unread: usize,
    branches: BTreeMap<&'static str, usize>,
    rewinds: usize,
    messages: usize,
    new: usize,
    pairs: usize,
    compactions: usize,
    hidden: usize,
    repeated: usize,
    models: BTreeMap<String, usize>,
    tokens: TokenTotals,
    skipped: BTreeMap<String, usize>,
    redacted: BTreeMap<&'static str, usize>,
    anomalies: BTreeMap<&'static str, usize>,
    /// Whether a source can have system prompts or tools.
    #[serde(skip)]
    has_prompts: bool,
    #[serde(skip)]
    longest: Option<(usize, String)>,
    /// Threads without messages, with their channels.
    #[serde(skip_serializing_if = "is_zero")]
    without_messages: usize,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    channels: BTreeSet<String>,
    /// The branches of the sessions.
    #[serde(skip)]
    placed: HashSet<String>,
    /// Those that are neither a subagent, a fork nor a rewind.
    #[serde(skip)]
    conversations: HashSet<String>,
}

/// Returns the branches of a session that are neither a subagent, a fork nor a rewind.
pub(super) fn conversations(report: &SessionReport) -> impl Iterator<Item = String> {
    let is_conversation = |branch: &&RecordedBranch| {
        branch.start == BranchStart::Conversation && branch.status != ImportStatus::Diverged
    };
    report.branches.iter().filter(is_conversation).map(|branch| branch.branch.clone())
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Totals {
    fn add(&mut self, report: &SessionReport) {
        let start = report.branches.first().map(|branch| &branch.start);
        match start {
            None => self.empty += 1,
            Some(BranchStart::Subagent) => self.subagents += 1,
            Some(_) => self.sessions += 1,
        }
        for branch in &report.branches {
            *self.branches.entry(branch.status.as_str()).or_default() += 1;
            self.rewinds += usize::from(branch.start == BranchStart::Rewind);
            self.new += branch.new;
            self.placed.insert(branch.branch.clone());
            let is_longer = self.longest.as_ref().is_none_or(|(most, _)| branch.commits > *most);
            let is_conversation =
                matches!(branch.start, BranchStart::Conversation | BranchStart::Subagent);
            if is_longer && is_conversation && branch.status != ImportStatus::Diverged {
                self.longest = Some((branch.commits, branch.branch.clone()));
            }
        }
        self.conversations.extend(conversations(report));
        self.without_messages += usize::from(!report.channels.is_empty());
        self.channels.extend(report.channels.iter().cloned());
        self.messages += report.messages;
        self.pairs += report.pairs;
        self.compactions += report.compactions;
        self.hidden += report.hidden;
        self.repeated += report.repeated;
        add_counts(&mut self.skipped, &report.skipped);
        for (kind, count) in &report.redacted {
            *self.redacted.entry(kind).or_default() += count;
        }
        add_counts(&mut self.models, &report.models);
        self.tokens.add(&report.tokens);
        for (kind, count) in counts(&report.anomalies) {
            *self.anomalies.entry(kind).or_default() += count;
        }
    }
}

impl Totals {
    /// Counts the answers of the branches as `tract usage` does: each once, even if it is in
    /// several sessions.
    async fn count_answers(&mut self, tract: &Tract) -> Outcome<()> {
        let (mut tokens, mut models) = (TokenTotals::default(), BTreeMap::new());
        for answer in import::branch_usage(tract.repo(), &self.placed).await? {
            tokens.add(&answer.tokens);
            let model = answer.model.unwrap_or_else(|| "unknown".to_owned());
            let requests = usize::try_from(answer.requests).unwrap_or(usize::MAX);
            *models.entry(model).or_default() += requests;
        }
        // The sessions also count answers without tokens, which the store cannot distinguish.
        if tokens != self.tokens {
            (self.tokens, self.models) = (tokens, models);
        }
        Ok(())
    }
}

fn add_counts(to: &mut BTreeMap<String, usize>, from: &BTreeMap<String, usize>) {
    for (name, count) in from {
        *to.entry(name.clone()).or_default() += count;
    }
}

fn counts(anomalies: &Anomalies) -> BTreeMap<&'static str, usize> {
    anomalies.counts.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
}

/// Returns the options of the import.
pub(super) fn recording_options(import: &Import) -> RecordingOptions {
    RecordingOptions { redact: !import.no_redact }
}

/// Imports sessions, reports each with `--json`, and prints a summary.
pub(super) async fn run(
    context: &mut Context<'_>,
    options: &Import,
    files: &[SessionFile],
) -> Outcome<()> {
    let tract = context.open_or_init().await?;
    let bar = render::progress("importing", "sessions");
    bar.set_length(files.len() as u64);
    let has_prompts = files.iter().any(|file| file.source() != Source::ClaudeCode);
    let mut totals = Totals { has_prompts, ..Totals::default() };
    let mut failed = Ok(());
    let lists = options.anomalies;
    let recording = recording_options(options);
    let mut cached = CacheFile::open(&context.url()?, &context.global.repo);
    let each = |path: &Path, done: Result<SessionReport, io::Error>| {
        bar.inc(1);
        let shown = bar.suspend(|| match done {
            Ok(report) => {
                totals.add(&report);
                tell(context, path, &report, lists)
            }
            Err(error) => {
                totals.unread += 1;
                tell_unread(context, path, &Failure::file(path, &error))
            }
        });
        if failed.is_ok() {
            failed = shown;
        }
    };
    let imported = match &mut cached {
        Some(CacheFile { cache, .. }) => {
            import::import_files_cached(tract.repo(), files, &recording, cache, each).await
        }
        None => import::import_files(tract.repo(), files, &recording, each).await,
    };
    imported.map_err(Failure::from)?;
    cached.iter_mut().for_each(CacheFile::save);
    bar.finish_and_clear();
    failed?;
    let (unread, found) = (totals.unread, totals.sessions + totals.subagents);
    totals.count_answers(&tract).await?;
    let conversations = std::mem::take(&mut totals.conversations);
    summary(context, totals)?;
    super::check_out_newest(context.out, &tract, &conversations).await?;
    if found == 0 && unread == 0 {
        let files: Vec<&Path> = files.iter().map(SessionFile::path).collect();
        tell_empty(context.out, &files);
    }
    context.out.flush()?;
    Failure::unless(unread == 0 && found > 0)
}

/// Reports files without a conversation.
pub(super) fn tell_empty(out: &mut Output, files: &[&Path]) {
    let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let what = format!("no conversation in {}", escape::line(&files.join(", ")));
    out.say(Styled(BAD, what));
}

pub(super) fn tell(
    context: &mut Context<'_>,
    path: &Path,
    report: &SessionReport,
    lists: bool,
) -> Outcome<()> {
    let file = path.display().to_string();
    if context.out.is_json() {
        return context.out.json(&SessionLine {
            session: &report.session,
            file: &file,
            title: report.title.as_deref(),
            branches: report.branches.iter().map(BranchLine::of).collect(),
            lines: report.lines,
            messages: report.messages,
            pairs: report.pairs,
            compactions: report.compactions,
            hidden: report.hidden,
            edited: report.edited,
            removed: report.removed,
            repeated: report.repeated,
            skipped: &report.skipped,
            redacted: &report.redacted,
            models: &report.models,
            tokens: report.tokens,
            anomalies: counts(&report.anomalies),
            listed: lists.then_some(&report.anomalies.listed),
        });
    }
    for branch in &report.branches {
        if let Some(earlier) = &branch.moved_from {
            let (branch, earlier) = (escape::line(&branch.branch), escape::line(earlier));
            context.out.line(format_args!(
                "{branch} moved to what the session continues after a rewind; {earlier} has the \
                 abandoned messages"
            ))?;
        }
    }
    if lists && report.branches.is_empty() && report.channels.is_empty() {
        let (file, session) = (escape::line(&file), escape::line(&report.session));
        context.out.line(format_args!("{file}: {session} has no messages"))?;
    }
    if lists {
        for RecordingAnomaly { line, kind, what, .. } in &report.anomalies.listed {
            let (file, what) = (escape::line(&file), escape::line(what));
            context.out.line(format_args!("{file} line {line}: {kind}: {what}"))?;
        }
    }
    Ok(())
}

pub(super) fn tell_unread(
    context: &mut Context<'_>,
    path: &Path,
    failure: &Failure,
) -> Outcome<()> {
    let file = path.display().to_string();
    if context.out.is_json() {
        return context.out.json(&UnreadFile { file: &file, error: failure });
    }
    context.out.say(failure.for_people().trim_end());
    Ok(())
}

/// Formats the most frequent names, and the number of the others.
fn most<'a>(counts: impl IntoIterator<Item = (&'a str, usize)>) -> String {
    const LISTED: usize = 5;
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let more = counts.len().saturating_sub(LISTED);
    let listed = counts.iter().take(LISTED);
    let mut words: Vec<String> =
        listed.map(|(name, n)| format!("{} {}", number(*n as u64), escape::line(name))).collect();
    if more > 0 {
        words.push(format!("{more} more kinds"));
    }
    words.join(", ")
}

fn strings(counts: &BTreeMap<String, usize>) -> impl Iterator<Item = (&str, usize)> {
    counts.iter().map(|(name, count)| (name.as_str(), *count))
}

fn summary(context: &mut Context<'_>, totals: Totals) -> Outcome<()> {
    if context.out.is_json() {
        return context.out.json(&SummaryLine { summary: totals });
    }
    let mut lines = Vec::new();
    let agents = match totals.subagents {
        0 => String::new(),
        n => format!(" and {}", count(n, "subagent")),
    };
    lines.push(format!(
        "imported {}{agents}: {}, {} new",
        count(totals.sessions, "session"),
        count(totals.messages, "message"),
        count(totals.new, "commit"),
    ));
    let branches: Vec<String> = totals
        .branches
        .iter()
        .map(|(status, n)| format!("{} {status}", count(*n, "branch")))
        .collect();
    if !branches.is_empty() {
        let rewinds = match totals.rewinds {
            0 => String::new(),
            n => format!("; {}, each on a branch", count(n, "rewind")),
        };
        lines.push(format!("{}{rewinds}", branches.join(", ")));
    }
    lines.push(format!("{} with their results", count(totals.pairs, "call")));
    if !totals.models.is_empty() {
        lines.push(format!("answers: {}", most(strings(&totals.models))));
        let TokenTotals { input, output, cache_read, cache_write, .. } = totals.tokens;
        lines.push(format!(
            "tokens: {} in, {} out; prompt cache: {} read, {} written",
            number(input),
            number(output),
            number(cache_read),
            number(cache_write)
        ));
    }
    if totals.compactions > 0 {
        lines.push(format!(
            "{} hid {}; `tract log` has them all",
            count(totals.compactions, "compaction"),
            count(totals.hidden, "message")
        ));
    }
    if !totals.skipped.is_empty() {
        let skipped: usize = totals.skipped.values().sum();
        let of = most(strings(&totals.skipped));
        lines.push(format!("skipped {} that no model saw: {of}", count(skipped, "line")));
    }
    let empty = totals.empty.saturating_sub(totals.without_messages);
    if empty > 0 && totals.sessions + totals.subagents > 0 {
        let sessions = count(empty, "session");
        lines.push(format!("{sessions} without messages; --anomalies lists them"));
    }
    if totals.without_messages > 0 {
        let have = if totals.without_messages == 1 { "has" } else { "have" };
        let threads = count(totals.without_messages, "thread");
        let names: Vec<_> = totals.channels.iter().map(|name| escape::line(name)).collect();
        let what = format!("{threads} {have} no messages; channels: {}", names.join(", "));
        lines.push(Styled(WARN, what).to_string());
        lines.push(
            "--channel NAME[:ROLE] reads a channel as the messages of a user or an assistant"
                .to_owned(),
        );
    }
    if !totals.anomalies.is_empty() {
        let of = most(totals.anomalies.iter().map(|(kind, n)| (*kind, *n)));
        lines.push(Styled(WARN, format!("unusual: {of}; --anomalies lists them")).to_string());
    }
    if totals.unread > 0 {
        let unread = format!("{} not read", count(totals.unread, "file"));
        lines.push(Styled(BAD, unread).to_string());
    }
    for line in lines {
        context.out.line(line)?;
    }
    if !totals.redacted.is_empty() {
        let secrets: usize = totals.redacted.values().sum();
        let of = most(totals.redacted.iter().map(|(kind, n)| (*kind, *n)));
        context
            .out
            .line(format!("{} redacted: {of}; --no-redact keeps them", count(secrets, "secret")))?;
    }
    if !totals.has_prompts {
        context.out.say("the files have no system prompt and no tool definitions");
    }
    if let Some((_, branch)) = &totals.longest {
        let branch = escape::line(branch);
        let next =
            format!("next: tract cat {branch} -n 20, tract sessions, tract search --all WORDS");
        context.out.say(Styled(DIM, next));
    }
    Ok(())
}

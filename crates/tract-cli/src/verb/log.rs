//! `tract log`

use std::collections::HashMap;

use clap::{Args, ValueEnum};
use tract::engine::graph::{GraphRow, Layout};
use tract::engine::{LogLine, LogPages};
use tract::{Commit, CommitId, Kind, Priority, RefName, RefTarget, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::out::Output;
use crate::render::{self, count};
use crate::revisions::named_heads;
use crate::style::{self, BOLD, DIM, ID, REF, Styled};
use crate::titles::Titles;

/// List commits, newest first.
///
/// `#20` marks the 20th message of the context; `tract show main#20` shows it. Times are local; a
/// graph has none. With --all, conversations of imports are shown by their titles.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract log                                  this branch
  tract log --graph main terse               two branches and their fork
  tract log --graph --all                    every branch
  tract log --oneline -n 10 main             the last ten, one short line each
  tract log -p --role user                   what users said, in full
  tract log --tool get_weather --since 2026-01-31
  tract log --slot 'main#3'                  what happened to one message
  tract log main --limit 5 --json            one record a line, with its id as `commit`")]
pub(crate) struct Log {
    /// Revisions to start from; several are shown as a graph.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revisions: Vec<String>,
    /// List at most this many commits; 0 for all [default: 30]
    #[arg(long, short = 'n', value_name = "N", value_parser = input::limit)]
    limit: Option<usize>,
    /// Draw branches and merges.
    #[arg(long, short, conflicts_with_all = ["since", "until", "role", "tool", "slot"])]
    graph: bool,
    /// Start from every branch.
    #[arg(long, short)]
    all: bool,
    /// Print only id, kind and text of each commit.
    #[arg(long)]
    oneline: bool,
    /// Print the content or the changes of each commit.
    #[arg(long, short)]
    patch: bool,
    /// List only commits made at this time or on this day, or later. Commits without a time are
    /// left out.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    since: Option<i64>,
    /// List only commits made at this time or on this day, or earlier. Commits without a time are
    /// left out.
    #[arg(long, value_name = "TIME", value_parser = input::until)]
    until: Option<i64>,
    /// List only messages of this role and their edits; may be given several times.
    #[arg(long, value_enum)]
    role: Vec<RoleWord>,
    /// List only calls of this tool and their results.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// List only commits that added or changed the message at REV, such as `main#3`.
    #[arg(long, value_name = "REV")]
    slot: Option<String>,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleWord {
    System,
    User,
    Assistant,
    /// Results of tools
    #[value(alias = "tool-result", alias = "result")]
    Tool,
    Reasoning,
    Note,
}

impl RoleWord {
    /// Returns the kind of its messages.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::System => Kind::System,
            Self::User => Kind::User,
            Self::Assistant => Kind::Assistant,
            Self::Tool => Kind::ToolResult,
            Self::Reasoning => Kind::Reasoning,
            Self::Note => Kind::Note,
        }
    }
}

/// Default number of listed commits.
const DEFAULT_LIMIT: usize = 30;

impl Log {
    fn is_filtered(&self) -> bool {
        self.since.is_some()
            || self.until.is_some()
            || !self.role.is_empty()
            || self.tool.is_some()
            || self.slot.is_some()
    }

    /// Returns whether a commit passes the filters on its record.
    fn takes(&self, commit: &Commit) -> bool {
        let at = commit.created_at;
        let since = self.since.is_none_or(|since| at.is_some_and(|at| at >= since));
        let until = self.until.is_none_or(|until| at.is_some_and(|at| at <= until));
        let fits = |role: &RoleWord| commit.kind == Some(role.kind());
        since && until && (self.role.is_empty() || self.role.iter().any(fits))
    }
}

/// A row of the log, one text for each column.
struct Row {
    commit: Commit,
    date: String,
    number: String,
    refs: String,
    word: String,
    text: String,
    tokens: String,
}

pub(crate) async fn run(context: &mut Context<'_>, log: Log) -> Outcome<()> {
    let tract = context.open().await?;
    let heads = heads(&tract, &log).await?;
    let limit = log.limit.unwrap_or(DEFAULT_LIMIT);
    context.out.page();
    let several = heads.len() > 1;
    let graph = log.graph || (several && !log.is_filtered());
    // Commits that a filter leaves out do not count towards the limit, so all may have to be read.
    let read = if log.is_filtered() { usize::MAX } else { limit };
    let mut pages = match heads.as_slice() {
        [head] if !log.graph => LogPages::first_parents(tract.repo(), *head, read),
        heads => LogPages::all(tract.repo(), heads, read).await?,
    };
    let numbers = match (context.out.is_json() || log.oneline, heads.as_slice()) {
        (false, [head]) => numbers(&tract, *head, read).await?,
        _ => HashMap::new(),
    };
    let slot = match &log.slot {
        Some(revision) => Some(tract.slot_of(tract.resolve(revision.as_str()).await?).await?),
        None => None,
    };
    let mut printer = Printer::new(&tract, graph, numbers, log.all).await?;
    let (mut shown, mut seen) = (0, 0);
    // Printed page by page, so that memory does not contain the whole log, and a reader can end it
    // early.
    while shown < limit
        && let Some(commits) = pages.next_page().await?
    {
        seen += commits.len();
        let found = found(&tract, &log, slot, commits, limit - shown).await?;
        shown += found.len();
        if context.out.is_json() {
            for (commit, _) in &found {
                context.out.json_text(&render::record_json(commit))?;
            }
        } else {
            printer.page(context.out, &log, found).await?
        }
        context.out.flush()?;
        if context.out.is_lost() {
            return Ok(());
        }
    }
    if context.out.is_json() {
        return Ok(());
    }
    if seen == 0 {
        render::none_yet(context.out, &tract, None, "log", "commits").await?;
    } else if shown == 0 {
        context.out.say(format_args!("none of {} fits", count(seen, "commit")));
    } else if shown == limit && log.limit.is_none() {
        let more = format!("the newest {limit}; --limit N shows more, --limit 0 all");
        context.out.say(Styled(DIM, more));
    }
    Ok(())
}

/// Returns the commits of a page that pass the filters, with their lines.
async fn found(
    tract: &Tract,
    log: &Log,
    slot: Option<CommitId>,
    mut commits: Vec<Commit>,
    most: usize,
) -> Outcome<Vec<(Commit, LogLine)>> {
    commits.retain(|commit| log.takes(commit));
    if let Some(slot) = slot {
        let mut concerning = Vec::new();
        for commit in commits {
            if tract.concerns(&commit, slot).await? {
                concerning.push(commit);
            }
        }
        commits = concerning;
    }
    if log.tool.is_none() {
        commits.truncate(most);
    }
    let lines = tract::engine::describe(tract.repo(), &commits).await?;
    let called = |(_, line): &(Commit, LogLine)| {
        log.tool.as_ref().is_none_or(|tool| line.tool_names.contains(tool))
    };
    Ok(commits.into_iter().zip(lines).filter(called).take(most).collect())
}

/// On a branch of up to this many commits all messages get a number; on a longer one only the
/// newest.
const COUNTED: u64 = 10_000;

/// Returns the number of each commit's message in the context: `20` for `#20`. On a long branch
/// only commits near its end have a number.
async fn numbers(tract: &Tract, head: CommitId, limit: usize) -> Outcome<HashMap<CommitId, usize>> {
    let repo = tract.repo();
    if limit < usize::MAX && repo.counts(Some(head)).await?.commits > COUNTED {
        let numbers = repo.recent_numbers(head).await?;
        let numbers = numbers.into_iter();
        return Ok(numbers.filter_map(|(id, n)| Some((id, usize::try_from(n).ok()?))).collect());
    }
    let history = tract.repo().fold(Some(head)).await?;
    let shown = history
        .view()
        .rows()
        .filter(|row| history.fact(row.slot).is_some_and(|fact| fact.priority > Priority::Skip));
    Ok(shown.enumerate().map(|(place, row)| (row.version, place + 1)).collect())
}

async fn heads(tract: &Tract, log: &Log) -> Outcome<Vec<CommitId>> {
    let named = match log.revisions.as_slice() {
        [revision] if revision == "HEAD" => &[],
        named => named,
    };
    let heads = named_heads(tract, log.all, named).await?;
    let mut seen = std::collections::HashSet::new();
    Ok(heads.into_iter().map(|(_, head)| head).filter(|head| seen.insert(*head)).collect())
}

fn label(name: &RefName) -> Option<String> {
    let branch = name.branch_name().map(str::to_owned);
    branch.or_else(|| name.tag_name().map(|tag| format!("tag:{tag}")))
}

/// Prints pages of a log. Columns may become wider from page to page, but never narrower.
struct Printer<'a> {
    tract: &'a Tract,
    names: HashMap<CommitId, Vec<String>>,
    numbers: HashMap<CommitId, usize>,
    graph: Option<Layout>,
    widths: Widths,
}

/// The width of each column of the log.
#[derive(Default)]
struct Widths {
    graph: usize,
    date: usize,
    number: usize,
    refs: usize,
    word: usize,
    tokens: usize,
}

impl<'a> Printer<'a> {
    async fn new(
        tract: &'a Tract,
        graph: bool,
        numbers: HashMap<CommitId, usize>,
        with_titles: bool,
    ) -> Outcome<Self> {
        let titles = if with_titles { Titles::read(tract).await } else { Titles::default() };
        let mut names: HashMap<CommitId, Vec<String>> = HashMap::new();
        for (name, target) in tract.store().list_refs(tract.repo().name(), "").await? {
            let title = name.branch_name().and_then(|branch| titles.get(branch));
            let label = title.map(str::to_owned).or_else(|| label(&name));
            if let (Some(label), RefTarget::Commit(id)) = (label, target) {
                names.entry(id).or_default().push(label);
            }
        }
        let graph = graph.then(Layout::new);
        Ok(Self { tract, names, numbers, graph, widths: Widths::default() })
    }

    async fn page(
        &mut self,
        out: &mut Output,
        log: &Log,
        found: Vec<(Commit, LogLine)>,
    ) -> Outcome<()> {
        let rows: Vec<Row> = found.into_iter().map(|found| self.row(found, log)).collect();
        self.widen(&rows);
        let mut layout = self.graph.take();
        if let Some(layout) = &layout {
            // Drawn twice, first for the width. Keeping the rows would need memory for thousands of
            // branches.
            let mut ahead = layout.clone();
            for (place, row) in rows.iter().enumerate() {
                ahead.draw(place, row.commit.id(), &row.commit.parents, &mut |row| {
                    self.widths.graph = self.widths.graph.max(row.glyphs.len());
                });
            }
        }
        for (place, row) in rows.iter().enumerate() {
            let mut printed = Ok(());
            let mut print = |drawn: GraphRow| {
                if printed.is_ok() && !out.is_lost() {
                    printed = self.line(out, &drawn, drawn.commit.map(|_| row));
                }
            };
            match &mut layout {
                Some(layout) => {
                    layout.draw(place, row.commit.id(), &row.commit.parents, &mut print);
                }
                None => print(GraphRow { glyphs: Vec::new(), commit: Some(place) }),
            }
            printed?;
            if log.patch {
                for line in super::show::changes(self.tract, &row.commit).await? {
                    out.line(format_args!("    {line}"))?;
                }
                out.line("")?;
            }
        }
        self.graph = layout;
        Ok(())
    }

    fn row(&self, (commit, line): (Commit, LogLine), log: &Log) -> Row {
        let number = self.numbers.get(&commit.id());
        // The lines of a graph use the space of the dates.
        let with_date = !log.oneline && self.graph.is_none();
        let date = commit.created_at.filter(|_| with_date).and_then(crate::when::minute);
        // Encrypted reasoning has tokens that cannot be counted.
        let tokens = line.token_count.filter(|count| !log.oneline && *count > 0);
        let tokens = tokens.map(render::number);
        Row {
            date: date.unwrap_or_default(),
            number: number.map(|number| format!("#{number}")).unwrap_or_default(),
            refs: self.names.get(&commit.id()).map(|names| names.join(" ")).unwrap_or_default(),
            word: line.label,
            text: line.text,
            tokens: tokens.unwrap_or_default(),
            commit,
        }
    }

    fn widen(&mut self, rows: &[Row]) {
        let widest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
        let widths = &mut self.widths;
        widths.date = widths.date.max(widest(&|row| row.date.len()));
        widths.number = widths.number.max(widest(&|row| row.number.len()));
        // A single very long name must not hide all texts.
        widths.refs = widths.refs.max(widest(&|row| escape::width(&row.refs)).min(32));
        widths.word = widths.word.max(widest(&|row| escape::width(&row.word)).min(12));
        widths.tokens = widths.tokens.max(widest(&|row| row.tokens.len()));
    }

    fn line(&self, out: &mut Output, drawn: &GraphRow, row: Option<&Row>) -> Outcome<()> {
        let mut line = String::new();
        for glyph in &drawn.glyphs {
            match glyph.symbol {
                ' ' => line.push(' '),
                symbol => {
                    line.push_str(&Styled(style::graph_line(glyph.line), symbol).to_string());
                }
            }
        }
        let Some(row) = row else { return out.line(line) };
        let widths = &self.widths;
        let mut used = drawn.glyphs.len();
        if widths.graph > 0 {
            line.push_str(&" ".repeat(widths.graph + 1 - used));
            used = widths.graph + 1;
        }
        let id = row.commit.id().short();
        // On a narrow terminal, names take no more than a quarter.
        let refs = widths.refs.min((out.columns / 4).max(12));
        let cells = [
            (ID, id.as_str(), 8, " "),
            (DIM, &row.date, widths.date, " "),
            (BOLD, &row.number, widths.number, " "),
            (REF, &row.refs, refs, "  "),
            (style::kind(&row.word), &row.word, widths.word, "  "),
        ];
        // Columns of dates and numbers are omitted if no row has one.
        for (style, text, width, gap) in
            cells.into_iter().filter(|cell| cell.2 > 0 || cell.3 != " ")
        {
            let text = escape::cut(text, width);
            let pad = width.saturating_sub(escape::width(&text));
            if !text.is_empty() {
                line.push_str(&Styled(style, text).to_string());
            }
            line.push_str(&" ".repeat(pad));
            line.push_str(gap);
            used += width + gap.len();
        }
        let tokens = if widths.tokens == 0 { 0 } else { widths.tokens + "   tok".len() };
        let width = out.columns.saturating_sub(used + tokens).max(20);
        let text = escape::cut(&row.text, width);
        line.push_str(&text);
        if !row.tokens.is_empty() {
            line.push_str(&" ".repeat(width.saturating_sub(escape::width(&text))));
            let tokens = format!("  {:>1$} tok", row.tokens, widths.tokens);
            line.push_str(&Styled(DIM, tokens).to_string());
        }
        out.line(line)
    }
}

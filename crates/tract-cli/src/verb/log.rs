//! `tract log`

use std::collections::HashMap;

use clap::Args;
use tract::engine::LogLine;
use tract::engine::graph::{GraphRow, Layout};
use tract::{Commit, CommitId, RefName, RefTarget, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render;
use crate::style::{self, DIM, ID, REF, Styled};

/// Show the commits of a line, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract log                                  the line you stand on
  tract log --graph main terse               two lines and where they part
  tract log --graph --all                    every branch
  tract log main --limit 5 --json            one record a line, with its id as `commit`")]
pub(crate) struct Log {
    /// Where to begin; several with --graph.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revisions: Vec<String>,
    /// How many commits at most; 0 for all [default: 30]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Draw where lines part and meet.
    #[arg(long, short)]
    graph: bool,
    /// All branches.
    #[arg(long, short)]
    all: bool,
}

/// Commits that are shown unless somebody asks for more.
const DEFAULT_LIMIT: usize = 30;

/// What a row of the log shows, one text for each column.
struct Row {
    id: CommitId,
    refs: String,
    word: String,
    text: String,
    tokens: String,
}

pub(crate) async fn run(context: &mut Context<'_>, log: Log) -> Outcome<()> {
    let tract = context.open().await?;
    let heads = heads(&tract, &log).await?;
    let limit = match log.limit.unwrap_or(DEFAULT_LIMIT) {
        0 => usize::MAX,
        limit => limit,
    };
    let graph = log.graph || heads.len() > 1;
    let mut pages = tract.log_pages(&heads, graph, limit).await?;
    let mut printer = Printer::new(&tract, graph).await?;
    let mut shown = 0;
    // Page by page: what was printed is not kept, and a reader that has enough ends it.
    while let Some(commits) = pages.next_page().await? {
        shown += commits.len();
        match context.out.is_json() {
            true => {
                for commit in &commits {
                    context.out.json_text(&render::record_json(commit))?;
                }
            }
            false => printer.page(context, &commits).await?,
        }
        context.out.flush()?;
        if context.out.is_lost() {
            return Ok(());
        }
    }
    if context.out.is_json() {
        return Ok(());
    }
    if shown == 0 {
        context.out.say("no commits yet; tract commit user \"Hello\", or tract import FILE");
    } else if shown == limit && log.limit.is_none() {
        let more = format!("the newest {limit}; --limit N shows more, --limit 0 all");
        context.out.say(Styled(DIM, more));
    }
    Ok(())
}

async fn heads(tract: &Tract, log: &Log) -> Outcome<Vec<CommitId>> {
    let mut heads = Vec::new();
    if log.all {
        heads.extend(tract.branches().await?.into_iter().map(|branch| branch.head));
    } else if log.revisions == ["HEAD"] {
        // A branch without commits is no error: there is nothing to show yet.
        heads.extend(tract.head().await?);
    } else {
        heads = tract.resolve_all(&log.revisions).await?;
    }
    let mut seen = std::collections::HashSet::new();
    heads.retain(|head| seen.insert(*head));
    Ok(heads)
}

fn label(name: &RefName) -> Option<String> {
    let branch = name.branch_name().map(str::to_owned);
    branch.or_else(|| name.tag_name().map(|tag| format!("tag:{tag}")))
}

/// Prints pages of a log. Columns may become wider from one page to the next, never narrower.
struct Printer<'a> {
    tract: &'a Tract,
    names: HashMap<CommitId, Vec<String>>,
    graph: Option<Layout>,
    graph_width: usize,
    refs_width: usize,
    word_width: usize,
    number_width: usize,
}

impl<'a> Printer<'a> {
    async fn new(tract: &'a Tract, graph: bool) -> Outcome<Self> {
        let mut names: HashMap<CommitId, Vec<String>> = HashMap::new();
        for (name, target) in tract.store().list_refs(tract.repo().name(), "").await? {
            if let (Some(label), RefTarget::Commit(id)) = (label(&name), target) {
                names.entry(id).or_default().push(label);
            }
        }
        Ok(Self {
            tract,
            names,
            graph: graph.then(Layout::new),
            graph_width: 0,
            refs_width: 0,
            word_width: 0,
            number_width: 0,
        })
    }

    async fn page(&mut self, context: &mut Context<'_>, commits: &[Commit]) -> Outcome<()> {
        let rows = self.rows(commits).await?;
        self.widen(&rows);
        let mut drawn = Vec::with_capacity(commits.len());
        for (place, commit) in commits.iter().enumerate() {
            match &mut self.graph {
                Some(layout) => drawn.extend(layout.add(place, commit.id(), &commit.parents)),
                None => drawn.push(GraphRow { glyphs: Vec::new(), commit: Some(place) }),
            }
        }
        let width = drawn.iter().map(|row| row.glyphs.len()).max().unwrap_or(0);
        self.graph_width = self.graph_width.max(width);
        drawn.iter().try_for_each(|drawn| self.line(context, drawn, &rows))
    }

    async fn rows(&self, commits: &[Commit]) -> Outcome<Vec<Row>> {
        let lines = self.tract.describe(commits).await?;
        let row = |(commit, line): (&Commit, LogLine)| Row {
            id: commit.id(),
            refs: self.names.get(&commit.id()).map(|names| names.join(" ")).unwrap_or_default(),
            word: line.label,
            text: line.text,
            tokens: line.token_count.map(render::number).unwrap_or_default(),
        };
        Ok(commits.iter().zip(lines).map(row).collect())
    }

    fn widen(&mut self, rows: &[Row]) {
        let widest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
        // One very long name must not push every text off the screen.
        let refs = widest(&|row| escape::width(&row.refs)).min(32);
        let word = widest(&|row| escape::width(&row.word)).min(12);
        self.refs_width = self.refs_width.max(refs);
        self.word_width = self.word_width.max(word);
        self.number_width = self.number_width.max(widest(&|row| row.tokens.len()));
    }

    fn line(&self, context: &mut Context<'_>, drawn: &GraphRow, rows: &[Row]) -> Outcome<()> {
        let &Self { graph_width, refs_width, word_width, number_width, .. } = self;
        let gap = if graph_width > 0 { graph_width + 1 } else { 0 };
        let tokens_width = number_width + " tok".len() + 2;
        let fixed = gap + 8 + 1 + refs_width + 2 + word_width + 2 + tokens_width;
        let text_width = context.out.columns().saturating_sub(fixed).max(20);
        let mut line = String::new();
        for glyph in &drawn.glyphs {
            match glyph.symbol {
                ' ' => line.push(' '),
                symbol => {
                    line.push_str(&Styled(style::graph_line(glyph.line), symbol).to_string());
                }
            }
        }
        let Some(row) = drawn.commit.and_then(|place| rows.get(place)) else {
            return context.out.line(line);
        };
        line.push_str(&" ".repeat(gap - drawn.glyphs.len()));
        let refs = escape::cut(&row.refs, refs_width);
        let word = escape::cut(&row.word, word_width);
        let text = escape::cut(&row.text, text_width);
        let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(escape::width(text)));
        let named = match refs.is_empty() {
            true => String::new(),
            false => Styled(REF, &refs).to_string(),
        };
        line.push_str(&format!(
            "{} {named}{}  {}{}  {text}",
            Styled(ID, row.id.short()),
            pad(&refs, refs_width),
            Styled(style::kind(&row.word), &word),
            pad(&word, word_width),
        ));
        if !row.tokens.is_empty() {
            let tokens = format!("  {:>number_width$} tok", row.tokens);
            line.push_str(&format!("{}{}", pad(&text, text_width), Styled(DIM, tokens)));
        }
        context.out.line(line)
    }
}

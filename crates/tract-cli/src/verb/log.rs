//! `tract log`

use std::collections::HashMap;

use clap::Args;
use tract::engine::graph::{self, GraphRow};
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
    tokens: Option<u64>,
}

pub(crate) async fn run(context: &mut Context<'_>, log: Log) -> Outcome<()> {
    let tract = context.open().await?;
    let heads = heads(&tract, &log).await?;
    let limit = match log.limit.unwrap_or(DEFAULT_LIMIT) {
        0 => usize::MAX,
        limit => limit,
    };
    let graph = log.graph || heads.len() > 1;
    let commits = match (graph, heads.as_slice()) {
        (false, [head]) => tract.log(*head, limit).await?,
        (_, []) => Vec::new(),
        _ => tract.log_all(&heads, limit).await?,
    };
    if context.out.is_json() {
        for commit in &commits {
            context.out.raw(&render::record_json(commit))?;
        }
        return Ok(());
    }
    if commits.is_empty() {
        context.out.say("no commits yet; tract commit user \"Hello\", or tract import FILE");
        return Ok(());
    }
    let rows = rows(&tract, &commits).await?;
    let drawn = match graph {
        true => graph::layout(&parents(&commits)),
        false => (0..commits.len())
            .map(|place| GraphRow { glyphs: Vec::new(), commit: Some(place) })
            .collect(),
    };
    print(context, &rows, &drawn)?;
    if commits.len() == limit && log.limit.is_none() {
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

fn parents(commits: &[Commit]) -> Vec<(CommitId, Vec<CommitId>)> {
    commits.iter().map(|commit| (commit.id(), commit.parents.clone())).collect()
}

async fn rows(tract: &Tract, commits: &[Commit]) -> Outcome<Vec<Row>> {
    let mut names: HashMap<CommitId, Vec<String>> = HashMap::new();
    for (name, target) in tract.store().list_refs(tract.repo().name(), "").await? {
        if let (Some(label), RefTarget::Commit(id)) = (label(&name), target) {
            names.entry(id).or_default().push(label);
        }
    }
    let lines = tract.describe(commits).await?;
    Ok(commits
        .iter()
        .zip(lines)
        .map(|(commit, line)| Row {
            id: commit.id(),
            refs: names.get(&commit.id()).map(|names| names.join(" ")).unwrap_or_default(),
            word: line.label,
            text: line.text,
            tokens: line.token_count,
        })
        .collect())
}

fn label(name: &RefName) -> Option<String> {
    let branch = name.branch_name().map(str::to_owned);
    branch.or_else(|| name.tag_name().map(|tag| format!("tag:{tag}")))
}

fn print(context: &mut Context<'_>, rows: &[Row], drawn: &[GraphRow]) -> Outcome<()> {
    let graph_width = drawn.iter().map(|row| row.glyphs.len()).max().unwrap_or(0);
    let gap = if graph_width > 0 { graph_width + 1 } else { 0 };
    // One very long name must not push every text off the screen.
    let refs_width = rows.iter().map(|row| escape::width(&row.refs)).max().unwrap_or(0).min(32);
    let word_width = rows.iter().map(|row| escape::width(&row.word)).max().unwrap_or(0).min(12);
    let tokens: Vec<String> =
        rows.iter().map(|row| row.tokens.map(render::number).unwrap_or_default()).collect();
    let number_width = tokens.iter().map(String::len).max().unwrap_or(0);
    let tokens_width = number_width + " tok".len() + 2;
    let fixed = gap + 8 + 1 + refs_width + 2 + word_width + 2 + tokens_width;
    let text_width = context.out.columns().saturating_sub(fixed).max(20);
    for drawn in drawn {
        let mut line = String::new();
        for glyph in &drawn.glyphs {
            match glyph.symbol {
                ' ' => line.push(' '),
                symbol => {
                    line.push_str(&Styled(style::graph_line(glyph.line), symbol).to_string());
                }
            }
        }
        let of = drawn.commit.and_then(|place| rows.get(place).zip(tokens.get(place)));
        let Some((row, tokens)) = of else {
            context.out.line(line)?;
            continue;
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
        if !tokens.is_empty() {
            let tokens = format!("  {tokens:>number_width$} tok");
            line.push_str(&format!("{}{}", pad(&text, text_width), Styled(DIM, tokens)));
        }
        context.out.line(line)?;
    }
    Ok(())
}

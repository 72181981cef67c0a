//! `tract sessions`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tract::core::text::{compact, duration, file_name, model_name};
use tract::engine::{SessionNode, SessionQuery, SessionSummary, TitleSource, session_tree};
use tract::import::{UsageCost, cost_of_usage};
use tract::prices::PriceTable;
use tract::time::format_rfc3339;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::style::{BOLD, DIM, REF, Styled};
use crate::{escape, input, prices, when};

/// List conversations with their title, project, tool, model, time and cost, newest first.
///
/// A conversation's title is the one set with `tract branch --title`, else its tool's, else its
/// first prompt. Subagents, forks and rewinds are listed under their conversation. Counts and costs
/// of forks and rewinds include what they share with it.
#[derive(Debug, Args)]
#[command(after_help = "\
`tract cat login redirect` prints the conversation with these words in its title, when no branch
has that name.
Examples:
  tract sessions                                  all, newest first
  tract sessions login redirect                   with these words in the title, project or branch
  tract sessions --project shop --since 7d        of a project, with activity in the last week
  tract sessions --tool codex --model gpt-5       of a tool and a model
  tract sessions --long                           with their branches")]
pub(crate) struct Sessions {
    /// List only conversations with all these words in their title, last prompt, project or branch.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// List only conversations whose project folder contains this text.
    #[arg(long, value_name = "TEXT")]
    project: Option<String>,
    /// List only conversations that this tool recorded, such as `claude-code`.
    #[arg(long, value_name = "TEXT")]
    tool: Option<String>,
    /// List only conversations with answers of this model; a part of its name is enough.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// List only conversations with activity since this time, day (UTC) or duration before now.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    since: Option<i64>,
    /// List only conversations that started until this time, day (UTC) or duration before now.
    #[arg(long, value_name = "TIME", value_parser = input::until)]
    until: Option<i64>,
    /// List at most this many conversations; 0 for all [default: all]
    #[arg(long, short = 'n', value_name = "N", value_parser = input::limit)]
    limit: Option<usize>,
    /// Print the branch of each conversation too.
    #[arg(long, short)]
    long: bool,
    /// Read prices from this file.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

impl Sessions {
    fn query(&self) -> SessionQuery {
        SessionQuery {
            project: self.project.clone(),
            tool: self.tool.clone(),
            model: self.model.clone(),
            since: self.since,
            until: self.until,
            text: (!self.words.is_empty()).then(|| self.words.join(" ")),
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, args: Sessions) -> Outcome<()> {
    let prices = prices::read(args.prices.as_deref())?;
    let tract = context.open().await?;
    let query = args.query();
    let sessions = tract.sessions(&query).await?;
    let out = &mut *context.out;
    if sessions.is_empty() {
        let all = match query == SessionQuery::default() {
            true => 0,
            false => tract.branches().list().await?.len(),
        };
        if all == 0 {
            let start = "tract import claude-code imports those of Claude Code; tract import --help \
                         lists other tools";
            out.say(format_args!("no conversations yet; {start}"));
            return Ok(());
        }
        out.say(format_args!("no conversation matches; tract sessions lists all {all}"));
        return Err(Failure::reported_no());
    }
    let mut nodes = session_tree(&sessions);
    nodes.truncate(args.limit.unwrap_or(usize::MAX));
    let rows = nodes.iter().filter_map(|node| Some((*node, sessions.get(node.index)?)));
    let rows: Vec<Row<'_>> = rows
        .map(|(node, session)| {
            let cost = cost_of_usage(&session.usage, &prices);
            Row { node, session, cost }
        })
        .collect();
    if out.is_json() {
        for row in &rows {
            out.json(&row.json(&prices))?;
        }
        return Ok(());
    }
    out.page();
    print(out, &rows, &prices, args.long)?;
    if let Some(more) = sessions.len().checked_sub(rows.len()).filter(|more| *more > 0) {
        out.line(Styled(DIM, format!("{more} more; --limit lists more of them")))?;
    }
    Ok(())
}

/// A line of the list.
struct Row<'a> {
    node: SessionNode,
    session: &'a SessionSummary,
    cost: UsageCost,
}

impl Row<'_> {
    fn json(&self, prices: &PriceTable) -> Value {
        let session = self.session;
        let sum = |of: fn(&tract::engine::ModelUsage) -> u64| {
            session.usage.iter().map(of).fold(0, u64::saturating_add)
        };
        let parent = session.parent.as_ref();
        let source = session.title_source.map(|source| match source {
            TitleSource::Set => "set",
            TitleSource::Tool => "tool",
            TitleSource::Prompt => "prompt",
        });
        json!({
            "branch": session.branch,
            "head": session.head,
            "checked_out": session.checked_out,
            "title": session.title,
            "title_source": source,
            "last_prompt": session.last_prompt,
            "project": session.project,
            "tool": session.tool,
            "session": session.session,
            "agent": session.agent,
            "model": session.model,
            "models": session.models,
            "started_at": session.started_at.and_then(format_rfc3339),
            "active_at": session.active_at.and_then(format_rfc3339),
            "commits": session.commits,
            "messages": session.messages,
            "prompts": session.prompts,
            "context_tokens": session.context_tokens,
            "tokens": {
                "input": sum(|group| group.input),
                "output": sum(|group| group.output),
                "cache_read": sum(|group| group.cache_read),
                "cache_write": sum(|group| group.cache_write),
                "cache_write_1h": sum(|group| group.cache_write_1h),
            },
            "cost": prices::rounded(self.cost.cost),
            "currency": prices.currency(),
            "requests": self.cost.requests,
            "unpriced": self.cost.unpriced,
            "parent": parent.map(|parent| {
                json!({ "kind": parent.kind.as_str(), "branch": parent.branch, "call": parent.call })
            }),
            "depth": self.node.depth,
        })
    }

    /// The title with its place in the tree, in at most this many columns.
    fn title(&self, columns: usize) -> String {
        let mut indent = "  ".repeat(self.node.depth.min(8));
        if self.node.depth > 0 {
            indent.push_str("↳ ");
        }
        let kind = self.session.parent.as_ref().map(|parent| parent.kind.as_str());
        let title = match kind {
            Some(kind) => format!("{kind}: {}", self.session.name()),
            None => self.session.name().into_owned(),
        };
        let room = columns.saturating_sub(escape::width(&indent));
        format!("{indent}{}", escape::cut(&title, room))
    }

    /// The text of a column.
    fn cell(&self, column: Column) -> String {
        let session = self.session;
        match column {
            Column::Cost => {
                let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                let UsageCost { cost, requests, unpriced } = self.cost;
                match requests {
                    0 => String::new(),
                    all => prices::shown(cost, count(unpriced), count(all), 2),
                }
            }
            Column::Messages => session.messages.to_string(),
            Column::Model => {
                let model = session.model.as_deref().map(model_name).unwrap_or_default();
                escape::cut(model, 20)
            }
            Column::Tool => escape::cut(session.tool.as_deref().unwrap_or_default(), 14),
            Column::Project => {
                let folder = session.project.as_deref().unwrap_or_default();
                escape::cut(file_name(folder), 16)
            }
            Column::Tokens => match session.all_tokens() {
                0 => String::new(),
                tokens => compact(tokens),
            },
            Column::Duration => session.duration_us().map(duration).unwrap_or_default(),
        }
    }
}

/// A column right of the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Project,
    Tool,
    Model,
    Messages,
    Duration,
    Tokens,
    Cost,
}

impl Column {
    /// In the order of the table.
    const ALL: [Self; 7] = [
        Self::Project,
        Self::Tool,
        Self::Model,
        Self::Messages,
        Self::Duration,
        Self::Tokens,
        Self::Cost,
    ];
    /// In the order in which they are left out of a narrow table.
    const LEAST: [Self; 7] = [
        Self::Tokens,
        Self::Duration,
        Self::Tool,
        Self::Model,
        Self::Messages,
        Self::Project,
        Self::Cost,
    ];

    fn heading(self, prices: &PriceTable) -> &str {
        match self {
            Self::Project => "project",
            Self::Tool => "tool",
            Self::Model => "model",
            Self::Messages => "messages",
            Self::Duration => "duration",
            Self::Tokens => "tokens",
            Self::Cost => prices.currency(),
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Messages | Self::Duration | Self::Tokens | Self::Cost)
    }
}

/// Width of the time column.
const WHEN: usize = "2026-01-31".len();
/// Minimum width of the title, for which other columns are left out.
const TITLE: usize = 36;
/// Maximum width of the title.
const MOST_TITLE: usize = 100;
const GAP: &str = "  ";

fn print(out: &mut Output, rows: &[Row<'_>], prices: &PriceTable, long: bool) -> Outcome<()> {
    let width_of = |column: Column| {
        let cells = rows.iter().map(|row| escape::width(&row.cell(column)));
        let widest = cells.max().unwrap_or_default();
        (widest > 0).then(|| (column, widest.max(escape::width(column.heading(prices)))))
    };
    let mut columns: Vec<(Column, usize)> = Column::ALL.into_iter().filter_map(width_of).collect();
    let taken = |columns: &[(Column, usize)]| {
        let cells: usize = columns.iter().map(|(_, width)| GAP.len() + width).sum();
        WHEN + GAP.len() + cells
    };
    let titles =
        rows.iter().map(|row| escape::width(&row.title(MOST_TITLE))).max().unwrap_or_default();
    for least in Column::LEAST {
        if out.columns >= taken(&columns) + TITLE.min(titles) {
            break;
        }
        columns.retain(|(column, _)| *column != least);
    }
    let title_width = out.columns.saturating_sub(taken(&columns)).min(titles.max(5)).max(8);
    let mut head = format!("{:<WHEN$}{GAP}{:<title_width$}", "", "title");
    for (column, width) in &columns {
        let heading = column.heading(prices);
        head.push_str(&match column.is_number() {
            true => format!("{GAP}{heading:>width$}"),
            false => format!("{GAP}{heading:<width$}"),
        });
    }
    out.line(Styled(DIM, head.trim_end()))?;
    for row in rows {
        let at = row.session.active_at.and_then(when::ago).unwrap_or_default();
        let title = row.title(title_width);
        let pad = " ".repeat(title_width.saturating_sub(escape::width(&title)));
        let style = if row.node.depth == 0 { BOLD } else { DIM };
        let mut line =
            format!("{}{GAP}{}{pad}", Styled(DIM, format!("{at:<WHEN$}")), Styled(style, title));
        for (column, width) in &columns {
            let cell = row.cell(*column);
            let pad = " ".repeat(width.saturating_sub(escape::width(&cell)));
            line.push_str(&match column.is_number() {
                true => format!("{GAP}{pad}{cell}"),
                false => format!("{GAP}{cell}{pad}"),
            });
        }
        out.line(line.trim_end())?;
        if long {
            let branch = Styled(REF, escape::line(&row.session.branch));
            out.line(format_args!("{:<WHEN$}{GAP}{branch}", ""))?;
        }
    }
    Ok(())
}

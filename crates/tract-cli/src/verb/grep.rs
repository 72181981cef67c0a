//! `tract grep`

use std::ops::Range;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tract::core::BlobId;
use tract::engine::{GrepHit, GrepOptions, GrepPattern};
use tract::{CommitId, Kind, Tract};

use super::log::RoleWord;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render;
use crate::revisions;
use crate::style::{BAD, DIM, Styled};

/// Search messages, tool calls, results and tool definitions, line by line.
///
/// Searches the context of each revision, newest message first, and prints hits as they are found.
/// A text that several branches share is printed once, with the names of all of them. Arguments of
/// calls and tool definitions are searched as lines of the form `path: value`.
#[derive(Debug, Args)]
#[command(after_help = "\
PATTERN is a regular expression (https://docs.rs/regex). Searching takes linear time.
Exits with 1 when nothing matches.
Examples:
  tract grep timeout                         this branch
  tract grep -i -w 'error|panic' --all       every branch, whole words, any case
  tract grep -F 'rm -rf' --tool bash         in the calls of a tool and their results
  tract grep --hidden sk-                    also in what was edited, summarized or skipped
  tract grep TODO main work -C 2 --json      two branches; one hit a line")]
pub(crate) struct Grep {
    /// The pattern to search for.
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pattern: String,
    /// The revisions to search [default: HEAD, or every branch if HEAD has no commits yet]
    #[arg(value_name = "REV", conflicts_with_all = ["all", "all_repos"])]
    revisions: Vec<String>,
    /// Search every branch.
    #[arg(long, short)]
    all: bool,
    /// Search every branch of every repository of the store.
    #[arg(long)]
    all_repos: bool,
    /// Treat PATTERN as plain text, not as a regular expression.
    #[arg(long, short = 'F')]
    fixed_strings: bool,
    /// Ignore case.
    #[arg(long, short)]
    ignore_case: bool,
    /// Match whole words only.
    #[arg(long, short)]
    word_regexp: bool,
    /// Search only messages of this role, no tool definitions; may be given several times.
    #[arg(long, value_enum)]
    role: Vec<RoleWord>,
    /// Search only calls of this tool, its results and its definition.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Search only commits made at this time or later, no tool definitions. Commits without a time
    /// are left out.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    since: Option<i64>,
    /// Search only commits made at this time or earlier, no tool definitions. Commits without a
    /// time are left out.
    #[arg(long, value_name = "TIME", value_parser = input::until)]
    until: Option<i64>,
    /// Print this many lines before and after each match.
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0, hide_default_value = true)]
    context: usize,
    /// Also search edited, summarized, skipped and reverted messages, and tools no longer in force.
    #[arg(long)]
    hidden: bool,
}

impl Grep {
    fn pattern(&self) -> Outcome<GrepPattern> {
        let pattern = GrepPattern::new().ignore_case(self.ignore_case).word(self.word_regexp);
        let pattern = match self.fixed_strings {
            true => pattern.text(&self.pattern),
            false => pattern.regex(&self.pattern),
        };
        // Exit code 1 would mean that nothing matched.
        pattern.map_err(|error| Failure::usage(error.to_string()).notes(error.notes()))
    }

    fn options(&self) -> GrepOptions {
        GrepOptions {
            kinds: self.role.iter().map(|role| role.kind()).collect(),
            tool: self.tool.clone(),
            since: self.since,
            until: self.until,
            context: self.context,
            hidden: self.hidden,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<&'a str>,
    commit: CommitId,
    content: BlobId,
    kind: &'a str,
    tool_names: &'a [String],
    at: Option<String>,
    branches: Vec<&'a str>,
    hidden: bool,
    lines: Vec<LineDocument<'a>>,
}

#[derive(Serialize)]
struct LineDocument<'a> {
    part: &'a str,
    part_index: usize,
    line: usize,
    text: &'a str,
    /// In bytes.
    matched: Option<[usize; 2]>,
    matched_chars: Option<[usize; 2]>,
}

pub(crate) async fn run(context: &mut Context<'_>, grep: Grep) -> Outcome<()> {
    let pattern = grep.pattern()?;
    let tract = context.open().await?;
    context.out.page();
    let bar = render::counter("searched", "messages");
    let found = search_all(context, &grep, &tract, &pattern, &bar).await;
    bar.finish_and_clear();
    Failure::unless(found? > 0 || context.out.is_lost())
}

/// Searches one or all repositories, and returns the number of hits.
async fn search_all(
    context: &mut Context<'_>,
    grep: &Grep,
    tract: &Tract,
    pattern: &GrepPattern,
    bar: &ProgressBar,
) -> Outcome<usize> {
    let mut found = 0;
    let mut searched = Vec::new();
    if grep.all_repos {
        for repo in tract.store().repos().await? {
            let tract = revisions::open_repo(tract, &repo).await?;
            let heads = revisions::branch_heads(&tract).await?;
            let repo = Some(repo.as_str());
            found += search(context, grep, &tract, (repo, &heads), pattern, bar).await?;
            searched.extend(heads);
        }
    } else {
        searched = revisions::searched_heads(tract, grep.all, &grep.revisions).await?;
        found += search(context, grep, tract, (None, &searched), pattern, bar).await?;
    }
    if found == 0 && !context.out.is_json() {
        let is_default = !grep.all && !grep.all_repos && grep.revisions.is_empty();
        let place = revisions::nothing_in(tract, &searched, is_default, grep.hidden).await?;
        bar.suspend(|| context.out.say(format_args!("nothing matches in {place}")));
    }
    Ok(found)
}

async fn search(
    context: &mut Context<'_>,
    grep: &Grep,
    tract: &Tract,
    (repo, heads): (Option<&str>, &[(String, CommitId)]),
    pattern: &GrepPattern,
    bar: &ProgressBar,
) -> Outcome<usize> {
    let names: Vec<&str> = heads.iter().map(|(name, _)| name.as_str()).collect();
    let heads: Vec<CommitId> = heads.iter().map(|(_, head)| *head).collect();
    let mut search = tract.grep(&heads, pattern.clone(), grep.options()).await?;
    let mut found = 0;
    while let Some(hits) = search.next_hits().await? {
        found += hits.len();
        bar.set_position(search.searched() as u64);
        bar.suspend(|| hits.iter().try_for_each(|hit| print(context.out, repo, &names, hit)))?;
        context.out.flush()?;
        if context.out.is_lost() {
            break;
        }
    }
    Ok(found)
}

fn print(out: &mut Output, repo: Option<&str>, names: &[&str], hit: &GrepHit) -> Outcome<()> {
    let branches: Vec<&str> =
        hit.heads.iter().filter_map(|head| names.get(*head)).copied().collect();
    let kind = hit.kind.as_ref().map_or("definition", Kind::as_str);
    if out.is_json() {
        let lines = hit.lines.iter().map(|line| LineDocument {
            part: line.part,
            part_index: line.part_index,
            line: line.number,
            text: &line.text,
            matched: line.matched.as_ref().map(|matched| [matched.start, matched.end]),
            matched_chars: line
                .matched
                .as_ref()
                .map(|matched| render::in_chars(&line.text, matched)),
        });
        return out.json(&Document {
            repo,
            commit: hit.commit,
            content: hit.content,
            kind,
            tool_names: &hit.tool_names,
            at: hit.created_at.and_then(tract::time::format_rfc3339),
            hidden: branches.is_empty(),
            branches,
            lines: lines.collect(),
        });
    }
    out.line(render::hit(hit.commit, repo, &branches, kind, &hit.tool_names))?;
    let mut last: Option<(usize, usize)> = None;
    for line in &hit.lines {
        if last.is_some_and(|(part, number)| part != line.part_index || number + 1 < line.number) {
            out.line(Styled(DIM, "    --"))?;
        }
        last = Some((line.part_index, line.number));
        let sign = if line.matched.is_some() { ':' } else { '-' };
        let number = format!("{:>6}{sign}", line.number);
        let width = out.columns.saturating_sub(number.len() + 1).max(20);
        let text = around(&line.text, line.matched.clone(), width);
        out.line(format_args!("{} {text}", Styled(DIM, number)))?;
    }
    Ok(())
}

/// Returns a part of a line that fits and contains the match, which is highlighted.
fn around(line: &str, matched: Option<Range<usize>>, width: usize) -> String {
    let matched = matched.unwrap_or(0..0);
    let (before, rest) = line.split_at_checked(matched.start).unwrap_or(("", line));
    let (found, after) = rest.split_at_checked(matched.len()).unwrap_or((rest, ""));
    let from = match line.len() <= width {
        true => 0,
        false => before.char_indices().rev().nth(width / 3).map_or(0, |(place, _)| place),
    };
    let cut = if from > 0 { "…" } else { "" };
    let before = format!("{cut}{}", escape::line(before.get(from..).unwrap_or_default()));
    let found = beginning(found, width);
    let used = escape::width(&before) + escape::width(&found);
    let after = beginning(after, width.saturating_sub(used));
    format!("{before}{}{after}", Styled(BAD, found))
}

/// Returns the first characters of a text, with white space unchanged.
fn beginning(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", escape::line(text.get(..end).unwrap_or_default())),
        None => escape::line(text).into_owned(),
    }
}

//! `tract search`

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use tract::core::BlobId;
use tract::engine::{OnSearch, SearchHit, SearchOptions};
use tract::{CommitId, Tract};

use super::log::RoleWord;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render;
use crate::revisions;
use crate::style::{BAD, DIM, Styled};
use crate::titles::Titles;

/// Find messages by words, the best matches first.
///
/// Searches the context of each revision. Messages rank higher that contain more of the words, rarer
/// words, or are shorter, or that are next to another match; of two with the same rank, the newer one
/// is first. A message must contain at least one of the words, or another form of it. A text that
/// several branches contain is printed once, with all of them.
#[derive(Debug, Args)]
#[command(after_help = "\
Words are compared in lower case; `parseJson` is found by parse, by json and by parsejson.
`deploying` also finds deployed. Common words such as `what` count little.
A message must contain a part in double quotes as it is; `conf*` finds words that begin with conf.
The first search reads every message and keeps an index in the store; later ones read what is new.
Exits with 1 when nothing matches. `tract grep` finds exact text, patterns, and tool definitions.
Examples:
  tract search login timeout                 this branch
  tract search login timeout --all           every branch
  tract search when did we fix the login     a question
  tract search '\"disk full\"' --role user --since 2026-01-01T00:00:00Z
  tract search cargo test --tool bash --in main --in work
  tract search brake --limit 3 --json        one hit a line")]
pub(crate) struct Search {
    /// What to search for.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Search this revision; may be given several times [default: HEAD, or every branch if HEAD has
    /// no commits yet]
    #[arg(long = "in", value_name = "REV", conflicts_with_all = ["all", "all_repos"])]
    revisions: Vec<String>,
    /// Search every branch.
    #[arg(long, short)]
    all: bool,
    /// Search every branch of every repository of the store.
    #[arg(long)]
    all_repos: bool,
    /// Only messages of this role; may be given several times.
    #[arg(long, value_enum)]
    role: Vec<RoleWord>,
    /// Only messages that call this tool, and its results.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only messages of commits made at this time or later. A commit without a time is left out.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    since: Option<i64>,
    /// Only messages of commits made at this time or earlier. A commit without a time is left out.
    #[arg(long, value_name = "TIME", value_parser = input::until)]
    until: Option<i64>,
    /// Print at most this many hits; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value = "10", value_parser = input::limit)]
    limit: usize,
    /// Search also what no context shows: edited, summarized, skipped and reverted messages.
    #[arg(long)]
    hidden: bool,
}

impl Search {
    fn options(&self, bar: &ProgressBar) -> SearchOptions {
        let bar = bar.clone();
        SearchOptions {
            kinds: self.role.iter().map(|role| role.kind()).collect(),
            tool: self.tool.clone(),
            since: self.since,
            until: self.until,
            limit: self.limit,
            hidden: self.hidden,
            progress: Some(OnSearch::new(move |commits| bar.set_position(commits))),
            ..SearchOptions::default()
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    rank: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<&'a str>,
    commit: CommitId,
    content: BlobId,
    kind: &'a str,
    tool_names: &'a [String],
    at: Option<String>,
    branches: Vec<&'a str>,
    hidden: bool,
    score: f64,
    snippet: SnippetDocument<'a>,
}

#[derive(Serialize)]
struct SnippetDocument<'a> {
    part: &'a str,
    line: usize,
    text: &'a str,
    /// The byte range.
    matched: Vec<[usize; 2]>,
    matched_chars: Vec<[usize; 2]>,
}

/// A hit with its repository.
struct LocatedHit {
    repo: Option<String>,
    branches: Vec<String>,
    hit: SearchHit,
}

pub(crate) async fn run(context: &mut Context<'_>, search: Search) -> Outcome<()> {
    let query = search.words.join(" ");
    if !query.chars().any(char::is_alphanumeric) {
        let failure = Failure::usage(format!("no word in {query:?}"));
        return Err(failure.note("a word has letters or digits; tract grep -F finds any text"));
    }
    let tract = context.open().await?;
    let bar = render::counter("indexed", "commits");
    let found = search_all(&search, &tract, &query, &bar).await;
    bar.finish_and_clear();
    let (found, searched) = found?;
    context.out.page();
    let titles = match context.out.is_json() || found.is_empty() {
        true => Titles::default(),
        false => Titles::read(&tract).await,
    };
    for (found, rank) in found.iter().zip(1..) {
        print(context.out, rank, found, &titles)?;
    }
    if context.out.is_json() {
        return Failure::unless(!found.is_empty());
    }
    let Some(best) = found.first() else {
        let is_default = !search.all && !search.all_repos && search.revisions.is_empty();
        let place = revisions::nothing_in(&tract, &searched, is_default, search.hidden).await?;
        context.out.say(format_args!("no message has a word of {query:?} in {place}"));
        return Err(Failure::reported_no());
    };
    let repo = best.repo.as_ref();
    let at = repo.map(|repo| format!("--repo {} ", escape::line(repo))).unwrap_or_default();
    context.out.say(format_args!("next: tract {at}show {}", best.hit.commit.short()));
    Ok(())
}

/// Searches one or all repositories, and returns the hits and the searched heads.
async fn search_all(
    search: &Search,
    tract: &Tract,
    query: &str,
    bar: &ProgressBar,
) -> Outcome<(Vec<LocatedHit>, Vec<(String, CommitId)>)> {
    if !search.all_repos {
        let heads = revisions::searched_heads(tract, search.all, &search.revisions).await?;
        let found = search_heads(search, tract, None, &heads, (query, bar)).await?;
        return Ok((found, heads));
    }
    let (mut found, mut searched) = (Vec::new(), Vec::new());
    for repo in tract.store().repos().await? {
        let tract = revisions::open_repo(tract, &repo).await?;
        let heads = revisions::branch_heads(&tract).await?;
        let repo = Some(repo.as_str());
        found.extend(search_heads(search, &tract, repo, &heads, (query, bar)).await?);
        searched.extend(heads);
    }
    found.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
    found.truncate(search.limit);
    Ok((found, searched))
}

async fn search_heads(
    search: &Search,
    tract: &Tract,
    repo: Option<&str>,
    heads: &[(String, CommitId)],
    (query, bar): (&str, &ProgressBar),
) -> Outcome<Vec<LocatedHit>> {
    let ids: Vec<CommitId> = heads.iter().map(|(_, head)| *head).collect();
    let report = tract.search(&ids, query, &search.options(bar)).await?;
    let found = report.hits.into_iter().map(|hit| {
        let names = hit.heads.iter().filter_map(|head| heads.get(*head));
        let branches = names.map(|(name, _)| name.clone()).collect();
        LocatedHit { repo: repo.map(str::to_owned), branches, hit }
    });
    Ok(found.collect())
}

fn print(out: &mut Output, rank: usize, found: &LocatedHit, titles: &Titles) -> Outcome<()> {
    let LocatedHit { repo, branches, hit } = found;
    let branches: Vec<&str> = branches.iter().map(String::as_str).collect();
    let snippet = &hit.snippet;
    if out.is_json() {
        return out.json(&Document {
            rank,
            repo: repo.as_deref(),
            commit: hit.commit,
            content: hit.content,
            kind: hit.kind.as_str(),
            tool_names: &hit.tool_names,
            at: hit.created_at.and_then(tract::time::format_rfc3339),
            hidden: branches.is_empty(),
            branches,
            score: hit.score,
            snippet: SnippetDocument {
                part: snippet.part,
                line: snippet.line,
                text: &snippet.text,
                matched: snippet.matched.iter().map(|range| [range.start, range.end]).collect(),
                matched_chars: snippet
                    .matched
                    .iter()
                    .map(|range| render::in_chars(&snippet.text, range))
                    .collect(),
            },
        });
    }
    let (repo, kind) = (repo.as_deref(), hit.kind.as_str());
    let branches: Vec<&str> = branches.into_iter().map(|branch| titles.name(branch)).collect();
    let found = render::hit(hit.commit, repo, &branches, kind, &hit.tool_names);
    let at = hit.created_at.and_then(crate::when::minute).unwrap_or_default();
    out.line(format_args!("{rank:>2}. {found}{}", Styled(DIM, at)))?;
    let [before, after] = snippet.cut.map(|cut| if cut { "…" } else { "" });
    let mut text = format!("    {before}");
    let mut from = 0;
    for range in &snippet.matched {
        let plain = snippet.text.get(from..range.start).unwrap_or_default();
        let word = snippet.text.get(range.clone()).unwrap_or_default();
        text.push_str(&escape::line(plain));
        text.push_str(&Styled(BAD, escape::line(word)).to_string());
        from = range.end;
    }
    text.push_str(&escape::line(snippet.text.get(from..).unwrap_or_default()));
    out.line(format_args!("{text}{after}"))
}

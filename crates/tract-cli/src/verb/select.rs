//! `tract select`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tract::tools::select::{Candidate, CatalogEntry, PickOptions, PickReport, ToolIndex, pick};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome, RefusedLine};
use crate::input::{self, Document, Documents};
use crate::out::Output;
use crate::render::count;
use crate::style::{BOLD, DIM, Styled};

/// Find the tools of a catalog that match a query; opens no store.
#[derive(Debug, Args)]
#[command(after_help = "\
A catalog has a tool a line: {\"id\",\"name\",\"description\",\"parameters\"}, or any provider's shape.
Queries are lines {\"id\",\"query\"}.

Examples:
  tract select --catalog tools.jsonl --query \"what is the weather in Oslo?\"
  tract select --catalog tools.jsonl --queries asked.jsonl --k 5 --json")]
pub(crate) struct Select {
    /// The tools, one per line; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    catalog: PathBuf,
    /// The queries, one per line; `-` for standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "query")]
    queries: Option<PathBuf>,
    /// One query, in plain words.
    #[arg(long, value_name = "TEXT", conflicts_with = "queries")]
    query: Option<String>,
    /// The maximum number of candidates per query.
    #[arg(long, short, value_name = "N", default_value_t = 3)]
    k: usize,
    /// The scoring method.
    #[arg(long, value_enum, default_value_t = ScorerName::Bm25)]
    scorer: ScorerName,
    /// The minimum score of a candidate, from 0 to 1.
    #[arg(long, value_name = "SCORE", default_value_t = 0.0)]
    min_score: f64,
    /// Time limit per query, in milliseconds; after it the first tools of the catalog are the
    /// candidates, with score 0.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// Include tools that are declared unsafe or have no schema.
    #[arg(long)]
    allow_unsafe: bool,
}

/// The scorers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScorerName {
    /// The share of the query's words that a tool contains.
    Overlap,
    /// BM25: weighted fields, rare words count more.
    Bm25,
}

#[derive(Deserialize)]
struct Query {
    #[serde(default)]
    id: Option<Box<RawValue>>,
    query: String,
}

#[derive(Serialize)]
struct SelectionLine<'a> {
    id: &'a RawValue,
    candidates: Vec<Value>,
}

pub(crate) async fn run(context: &mut Context<'_>, select: Select) -> Outcome<()> {
    if !(0.0..=1.0).contains(&select.min_score) {
        let found = select.min_score;
        return Err(Failure::usage(format!("expected --min-score from 0 to 1, found {found}")));
    }
    if input::is_stdin(&select.catalog) && select.queries.as_deref().is_some_and(input::is_stdin) {
        return Err(Failure::usage("catalog and queries cannot both be standard input"));
    }
    let tools = read_catalog(&select.catalog)?;
    let options = PickOptions {
        max_candidates: select.k,
        min_score: select.min_score,
        allow_unsafe: select.allow_unsafe,
        timeout: select.timeout_ms.map(Duration::from_millis),
        ..PickOptions::default()
    };
    let pick: Box<dyn Fn(&str) -> PickReport> = match select.scorer {
        ScorerName::Overlap => Box::new(move |query| pick(query, &tools, &options)),
        ScorerName::Bm25 => {
            let index: ToolIndex = tools.into_iter().collect();
            Box::new(move |query| index.pick(query, &options))
        }
    };
    let (mut skipped, mut refused, mut late) = (0, 0, 0);
    let mut ask = |out: &mut Output, query: &Query, line| {
        let picked = pick(&query.query);
        skipped = picked.skipped_unsafe;
        late += usize::from(picked.timed_out);
        answer(out, query, line, &picked)
    };
    if let Some(query) = select.query {
        ask(context.out, &Query { id: None, query }, 1)?;
    } else if let Some(file) = &select.queries {
        let mut queries = Documents::new(input::open(file)?)?;
        while let Some(document) = queries.next()? {
            let line = document.line;
            match read_query(document) {
                Ok(query) => ask(context.out, &query, line)?,
                Err(failure) => {
                    refused += 1;
                    context.out.refuse(&RefusedLine::new(line, &failure))?;
                }
            }
        }
    }
    if late > 0 {
        let counted = count(late, "choice");
        context
            .out
            .say(format_args!("{counted} not made in time: the first tools are given, unscored"));
    }
    if skipped > 0 {
        let counted = count(skipped, "tool");
        context
            .out
            .say(format_args!("{counted} skipped: unsafe or without schema; --allow-unsafe"));
    }
    Failure::unless(refused == 0)
}

fn read_catalog(file: &Path) -> Outcome<Vec<CatalogEntry>> {
    let mut documents = Documents::new(input::open(file)?)?;
    let mut tools = Vec::new();
    let mut ids = std::collections::HashSet::new();
    while let Some(document) = documents.next()? {
        let line = document.line;
        let at = |failure: Failure| failure.at_line(file, line);
        let text = document.intact().map_err(at)?;
        let entry = CatalogEntry::parse(&text).map_err(|error| {
            at(Failure::no(error.code(), error.to_string()).notes(error.notes()))
        })?;
        if !ids.insert(entry.id().to_owned()) {
            let found = format!("a second tool with id {:?}", entry.id());
            return Err(at(Failure::no("duplicate_id", found)
                .note("give each tool an \"id\" of its own; without ids, names must differ")));
        }
        tools.push(entry);
    }
    Ok(tools)
}

fn read_query(document: Document) -> Outcome<Query> {
    let text = document.intact()?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::no("bad_query", format!("expected a query: {error}"))
            .note("a query is a line {\"id\",\"query\"}")
    })
}

fn answer(out: &mut Output, query: &Query, line: usize, picked: &PickReport) -> Outcome<()> {
    let number = serde_json::value::to_raw_value(&line).map_err(Failure::json)?;
    let id = query.id.as_deref().unwrap_or(&number);
    if out.is_json() {
        let candidates =
            picked.candidates.iter().map(|Candidate { id, name, score, reason, .. }| {
                json!({ "id": id, "name": name, "score": score, "reason": reason })
            });
        let candidates = candidates.collect();
        return out.json(&SelectionLine { id, candidates });
    }
    out.line(Styled(BOLD, escape::line(&query.query)))?;
    for candidate in &picked.candidates {
        let name = escape::line(&candidate.name);
        let why = escape::line(&candidate.reason).into_owned();
        let score = candidate.score;
        out.line(format_args!("  {score:.3}  {name}  {}", Styled(DIM, why)))?;
    }
    if picked.candidates.is_empty() {
        out.line(Styled(DIM, "  no tool fits"))?;
    }
    Ok(())
}

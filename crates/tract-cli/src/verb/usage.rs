//! `tract usage`

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tract::Tract;
use tract::import::{AnswerUsage, TokenTotals};
use tract::prices::{PriceTable, TokenAmounts};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{count, number};
use crate::style::{DIM, Styled};
use crate::titles::Titles;
use crate::{escape, prices};

/// Count the tokens of all answers, and what they cost.
///
/// Counts the answers that commits record: imported ones, and those of `chat`, `generate` and `run`.
/// An answer counts once, regardless of the number of branches and commits that contain it.
#[derive(Debug, Args)]
#[command(after_help = "\
Prices are the list prices at the time of each answer, from the table of the day that the last line
names; the prices of a long context apply to requests of that length. A model without a price is
named and left out of the sum. --prices reads a table of your own:
  {\"date\":\"2026-01-31\",\"models\":{\"NAME\":{\"input\":3,\"output\":15,\"cache_read\":0.3,\"cache_write\":3.75,
  \"cache_write_1h\":6}}}, or LiteLLM's model_prices_and_context_window.json.
Examples:
  tract usage
  tract usage --by day
  tract usage --by project --prices prices.json")]
pub(crate) struct Usage {
    /// Sum up by this.
    #[arg(long, value_name = "WHAT", default_value = "model")]
    by: GroupBy,
    /// Read prices from this file.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Sum up by days in UTC instead of the local time zone.
    #[arg(long)]
    utc: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GroupBy {
    /// The day, in the local time zone.
    Day,
    /// The model.
    Model,
    /// The folder that the session ran in.
    Project,
    /// The branch.
    Branch,
}

/// The figures of a group of answers.
#[derive(Debug, Default)]
struct Group {
    answers: usize,
    tokens: TokenTotals,
    cost: f64,
    /// Answers of models without a price.
    unpriced: usize,
}

impl Group {
    fn add(&mut self, answer: &AnswerUsage, cost: Option<f64>) {
        let requests = usize::try_from(answer.requests).unwrap_or(usize::MAX);
        self.answers = self.answers.saturating_add(requests);
        self.tokens.add(&answer.tokens);
        self.cost += cost.unwrap_or_default();
        let unpriced = if cost.is_none() { requests } else { 0 };
        self.unpriced = self.unpriced.saturating_add(unpriced);
    }

    fn all_tokens(&self) -> u64 {
        let TokenTotals { input, output, cache_read, cache_write, .. } = self.tokens;
        [output, cache_read, cache_write].into_iter().fold(input, u64::saturating_add)
    }
}

#[derive(Serialize)]
struct Line<'a> {
    name: Option<&'a str>,
    answers: usize,
    tokens: TokenTotals,
    /// The cost of answers whose model has a price.
    cost: f64,
    unpriced: usize,
}

#[derive(Serialize)]
struct Total<'a> {
    total: Line<'a>,
    currency: &'a str,
    prices_of: &'a str,
    unpriced_models: Vec<&'a str>,
    /// The time zone, if the groups are days.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'a str>,
}

pub(crate) async fn run(context: &mut Context<'_>, usage: Usage) -> Outcome<()> {
    let is_by_day = matches!(usage.by, GroupBy::Day);
    if usage.utc && !is_by_day {
        return Err(Failure::usage("--utc needs --by day"));
    }
    let zone = if usage.utc { TimeZone::UTC } else { TimeZone::system() };
    let prices = prices::read(usage.prices.as_deref())?;
    let tract = context.open().await?;
    let answers = tract::import::usage(tract.repo()).await?;
    let projects = match usage.by {
        GroupBy::Project => projects(&tract).await?,
        GroupBy::Day | GroupBy::Model | GroupBy::Branch => HashMap::new(),
    };
    let mut groups: BTreeMap<Option<String>, Group> = BTreeMap::new();
    let mut total = Group::default();
    let mut unpriced: BTreeSet<&str> = BTreeSet::new();
    for answer in &answers {
        let model = answer.model.as_deref();
        let cost = model.and_then(|model| prices.cost(model, &amounts(answer), answer.at));
        if cost.is_none() {
            unpriced.insert(model.unwrap_or("unknown"));
        }
        let name = match usage.by {
            GroupBy::Model => answer.model.clone(),
            GroupBy::Branch => Some(answer.branch.clone()),
            GroupBy::Project => projects.get(&answer.branch).cloned(),
            GroupBy::Day => answer.at.and_then(|at| day(at, &zone)),
        };
        groups.entry(name).or_default().add(answer, cost);
        total.add(answer, cost);
    }
    let mut groups: Vec<(Option<String>, Group)> = groups.into_iter().collect();
    if !matches!(usage.by, GroupBy::Day) {
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.all_tokens()));
    }
    if context.out.is_json() {
        for (name, group) in &groups {
            context.out.json(&line(name.as_deref(), group))?;
        }
        return context.out.json(&Total {
            total: line(None, &total),
            currency: prices.currency(),
            prices_of: prices.date(),
            unpriced_models: unpriced.into_iter().collect(),
            time_zone: is_by_day.then(|| zone_name(&zone)),
        });
    }
    if answers.is_empty() {
        return context.out.line("no answer says what it cost");
    }
    let titles = match usage.by {
        GroupBy::Branch => Titles::read(&tract).await,
        GroupBy::Project | GroupBy::Day | GroupBy::Model => Titles::default(),
    };
    table(context, &groups, &total, &prices, &titles)?;
    if !unpriced.is_empty() {
        let names: Vec<&str> = unpriced.into_iter().collect();
        context.out.line(prices::unpriced(&names, &count(total.unpriced, "answer")))?;
    }
    if is_by_day {
        let zone = zone_name(&zone);
        context.out.line(Styled(DIM, format!("days in {zone}; --utc for UTC")))?;
    }
    context.out.line(Styled(DIM, prices::source(&prices)))
}

fn amounts(answer: &AnswerUsage) -> TokenAmounts {
    let TokenTotals { input, output, cache_read, cache_write, cache_write_1h, .. } = answer.tokens;
    let requests = answer.requests;
    TokenAmounts { input, output, cache_read, cache_write, cache_write_1h, requests }
}

fn line<'a>(name: Option<&'a str>, group: &Group) -> Line<'a> {
    let cost = prices::rounded(group.cost);
    Line { name, answers: group.answers, tokens: group.tokens, cost, unpriced: group.unpriced }
}

/// Maximum number of printed groups; the others are summed up in a line.
const LISTED: usize = 40;
/// Maximum width of a name.
const NAME: usize = 60;
/// Width of a name for which other columns are left out.
const SHORT_NAME: usize = 20;
/// Width of the longest bar in columns.
const BAR: u64 = 20;
/// Columns of the bars.
const BARS: usize = 1 + 20;
/// Columns of the answers, the input, the output and the cost.
const FIXED: usize = 10 + 14 + 14 + 11;
/// Columns of the tokens that were read from and written to a cache.
const CACHE: usize = 14 + 14;

fn table(
    context: &mut Context<'_>,
    groups: &[(Option<String>, Group)],
    total: &Group,
    prices: &PriceTable,
    titles: &Titles,
) -> Outcome<()> {
    let most = groups.iter().map(|(_, group)| group.all_tokens()).max().unwrap_or_default().max(1);
    // On a narrow terminal, the bars are left out first, then the tokens of the cache.
    let room = context.out.columns.saturating_sub(FIXED);
    let with_cache = room >= CACHE + SHORT_NAME;
    let room = if with_cache { room - CACHE } else { room };
    let most_name = room.clamp(SHORT_NAME, NAME);
    let name = |name: &Option<String>| match name {
        Some(name) => escape::cut(titles.name(name), most_name),
        None => "unknown".to_owned(),
    };
    let names = groups.iter().take(LISTED).map(|(group, _)| escape::width(&name(group)));
    let width = names.max().unwrap_or_default().max(5);
    let unit = prices.currency();
    let with_bars = with_cache && room >= width + BARS;
    let line = |name: &str, cells: [&str; 4], cache: [&str; 2]| {
        let [answers, input, output, cost] = cells;
        let pad = " ".repeat(width.saturating_sub(escape::width(name)));
        let cache = match (with_cache, cache) {
            (true, [read, written]) => format!(" {read:>13} {written:>13}"),
            (false, _) => String::new(),
        };
        format!("{name}{pad} {answers:>9} {input:>13} {output:>13}{cache} {cost:>10}")
    };
    let head = line("", ["answers", "input", "output", unit], ["cache read", "cache write"]);
    let bars = if with_bars { " all tokens" } else { "" };
    context.out.line(Styled(DIM, format_args!("{head}{bars}")))?;
    let row = |name: &str, group: &Group| {
        let TokenTotals { input, output, cache_read, cache_write, .. } = group.tokens;
        let cost = prices::shown(group.cost, group.unpriced, group.answers, 2);
        let [input, output, read, written] = [input, output, cache_read, cache_write].map(number);
        let answers = number(group.answers as u64);
        line(name, [&answers, &input, &output, &cost], [&read, &written])
    };
    for (group, sums) in groups.iter().take(LISTED) {
        let row = row(&name(group), sums);
        if !with_bars {
            context.out.line(row)?;
            continue;
        }
        let bar = usize::try_from(sums.all_tokens().saturating_mul(BAR) / most).unwrap_or_default();
        let bar = Styled(DIM, "█".repeat(bar.max(1)));
        context.out.line(format_args!("{row} {bar}"))?;
    }
    if let Some(more) = groups.len().checked_sub(LISTED).filter(|more| *more > 0) {
        context.out.line(Styled(DIM, format!("{more} more")))?;
    }
    context.out.line(row("all", total))
}

fn day(at_us: i64, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::from_microsecond(at_us).ok()?;
    Some(zone.to_datetime(at).date().to_string())
}

fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("the local time zone")
}

/// Returns the folder of each branch, if an import recorded it.
async fn projects(tract: &Tract) -> Outcome<HashMap<String, String>> {
    #[derive(Deserialize)]
    struct Document {
        meta: Option<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        cwd: Option<String>,
    }
    let mut projects = HashMap::new();
    for (name, blob) in tract.repo().documents("imports/").await? {
        let document = serde_json::from_slice::<Document>(blob.bytes()).ok();
        let cwd = document.and_then(|document| document.meta?.cwd);
        if let (Some(branch), Some(cwd)) = (name.as_str().strip_prefix("imports/"), cwd) {
            projects.insert(branch.to_owned(), cwd);
        }
    }
    Ok(projects)
}

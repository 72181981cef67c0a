//! `tract why-miss --turns` and `--all`: the requests of whole conversations.

use std::collections::BTreeSet;

use serde::Serialize;
use tract::engine::{CacheMiss, CacheUse, RankedCause, cache_use, rank_misses};
use tract::import::cost_of_cache_miss;
use tract::prices::PriceTable;
use tract::{CommitId, Tract};

use crate::context::Context;
use crate::failure::Outcome;
use crate::render::{count, number, short};
use crate::style::{DIM, GOOD, Styled, WARN};
use crate::when::minute;
use crate::{escape, prices};

#[derive(Serialize)]
struct RequestLine<'a> {
    branch: &'a str,
    answer: CommitId,
    request: CommitId,
    before: Option<CommitId>,
    model: Option<&'a str>,
    at: Option<String>,
    recorded: bool,
    prompt: u64,
    read: u64,
    written: Option<u64>,
    again: u64,
    /// `null` for a model without a price.
    cost: Option<f64>,
    miss: Option<MissLine<'a>>,
}

#[derive(Serialize)]
struct MissLine<'a> {
    cause: &'static str,
    block: Option<String>,
    before: Option<&'a str>,
    after: Option<&'a str>,
}

#[derive(Serialize)]
struct CauseLine<'a> {
    cause: &'static str,
    requests: usize,
    again: u64,
    /// The cost of requests whose model has a price.
    cost: f64,
    unpriced: usize,
    largest: Option<Largest<'a>>,
}

#[derive(Serialize)]
struct Largest<'a> {
    branch: &'a str,
    answer: CommitId,
    again: u64,
}

#[derive(Serialize)]
struct TotalLine<'a> {
    total: Total,
    currency: &'a str,
    prices_of: &'a str,
    unpriced_models: Vec<&'a str>,
}

#[derive(Default, Serialize)]
struct Total {
    requests: usize,
    /// Requests whose tokens were counted instead of reported.
    counted: usize,
    misses: usize,
    again: u64,
    cost: f64,
    unpriced: usize,
}

/// Lists the requests of a conversation.
pub(super) async fn turns(
    context: &mut Context<'_>,
    tract: &Tract,
    revision: &str,
    prices: &PriceTable,
) -> Outcome<()> {
    let head = tract.resolve_position(revision).await?;
    let requests = cache_use(tract.repo(), &[(revision.to_owned(), head)]).await?;
    if context.out.is_json() {
        for request in &requests {
            context.out.json(&line(request, prices))?;
        }
        return context.out.json(&total_line(&requests, prices));
    }
    context.out.page();
    if requests.is_empty() {
        return context.out.line("no answer of a model");
    }
    let unit = prices.currency();
    let head = format!(
        "{:<8}  {:<16} {:>11} {:>11} {:>11} {unit:>9}",
        "answer", "", "prompt", "read", "again"
    );
    context.out.line(Styled(DIM, head))?;
    for request in &requests {
        let [prompt, read, again] = [request.prompt, request.read, request.again].map(number);
        let cost = match (request.again, cost_of_cache_miss(request, prices)) {
            (0, _) => String::new(),
            (_, Some(cost)) => format!("{cost:.4}"),
            (_, None) => "-".to_owned(),
        };
        let at = request.at.and_then(minute).unwrap_or_default();
        let answer = short(request.answer);
        let row = format!("{at:<16} {prompt:>11} {read:>11} {again:>11} {cost:>9}");
        match (&request.miss, request.before) {
            (Some(miss), _) => {
                let why = reason(miss);
                context.out.line(format_args!("{answer}  {row}  {}", Styled(WARN, why)))?;
            }
            (None, None) => {
                let first = Styled(DIM, "first request");
                context.out.line(format_args!("{answer}  {row}  {first}"))?;
            }
            (None, Some(_)) => context.out.line(format_args!("{answer}  {}", row.trim_end()))?,
        }
    }
    end(context, &requests, prices)
}

/// Ranks the causes over all branches.
pub(super) async fn ranked(
    context: &mut Context<'_>,
    tract: &Tract,
    prices: &PriceTable,
) -> Outcome<()> {
    let branches = tract.branches().list().await?;
    let heads: Vec<_> = branches.into_iter().map(|branch| (branch.name, branch.head)).collect();
    let requests = cache_use(tract.repo(), &heads).await?;
    let causes = rank_misses(&requests, |request| cost_of_cache_miss(request, prices));
    let largest = |cause: &RankedCause| requests.get(cause.largest);
    if context.out.is_json() {
        for cause in &causes {
            let largest = largest(cause).map(|request| Largest {
                branch: &request.branch,
                answer: request.answer,
                again: request.again,
            });
            context.out.json(&CauseLine {
                cause: cause.cause.as_str(),
                requests: cause.requests,
                again: cause.again,
                cost: prices::rounded(cause.cost),
                unpriced: cause.unpriced,
                largest,
            })?;
        }
        return context.out.json(&total_line(&requests, prices));
    }
    if requests.is_empty() {
        return context.out.line("no answer of a model");
    }
    if !causes.is_empty() {
        let unit = prices.currency();
        let head = format!("{:<23} {:>9} {:>13} {unit:>9}  largest", "", "requests", "again");
        context.out.line(Styled(DIM, head))?;
    }
    for cause in &causes {
        let name = cause.cause.to_string();
        let cost = prices::shown(cause.cost, cause.unpriced, cause.requests, 4);
        let (requests, again) = (number(cause.requests as u64), number(cause.again));
        let row = format!("{name:<23} {requests:>9} {again:>13} {cost:>9}");
        let Some(largest) = largest(cause) else { continue };
        let (answer, branch) = (short(largest.answer), escape::line(&largest.branch));
        context.out.line(format_args!("{row}  {answer} on {branch}"))?;
    }
    end(context, &requests, prices)
}

/// Prints the sum with its parts.
fn end(context: &mut Context<'_>, requests: &[CacheUse], prices: &PriceTable) -> Outcome<()> {
    let total = total(requests, prices);
    let all = count(total.requests, "request");
    if total.misses == 0 {
        let none = Styled(GOOD, "no miss");
        context.out.line(format_args!("{none}: {all}"))?;
    } else {
        let more = match total.unpriced {
            n if n == total.misses => String::new(),
            _ => format!(", {:.4} {} more than from the cache", total.cost, prices.currency()),
        };
        let (misses, again) = (number(total.misses as u64), number(total.again));
        let sum = format!("{misses} of {all} with a miss: {again} tokens sent again{more}");
        context.out.line(sum)?;
    }
    let unpriced = unpriced(requests, prices);
    if !unpriced.is_empty() {
        context.out.line(prices::unpriced(&unpriced, &count(total.unpriced, "miss")))?;
    }
    if total.counted > 0 {
        let counted = count(total.counted, "request");
        let what = format!("counted and not reported by the provider: the tokens of {counted}");
        context.out.line(Styled(DIM, what))?;
    }
    if total.misses > total.unpriced {
        context.out.line(Styled(DIM, prices::source(prices)))?;
    }
    Ok(())
}

/// Returns the cause, the block, and the difference.
fn reason(miss: &CacheMiss) -> String {
    let mut out = miss.cause.to_string();
    if let Some(block) = &miss.block {
        out = format!("{out}: {}", escape::line(&block.to_string()));
    }
    let quoted = |text: &str| format!("\"{}\"", escape::line(text));
    match (&miss.before, &miss.after) {
        (Some(before), Some(after)) => format!("{out}, {} → {}", quoted(before), quoted(after)),
        (None, Some(after)) => format!("{out}, {}", escape::line(after)),
        (Some(before), None) => format!("{out}, {} is gone", quoted(before)),
        (None, None) => out,
    }
}

fn line<'a>(request: &'a CacheUse, prices: &PriceTable) -> RequestLine<'a> {
    RequestLine {
        branch: &request.branch,
        answer: request.answer,
        request: request.request,
        before: request.before,
        model: request.model.as_deref(),
        at: request.at.and_then(tract::time::format_rfc3339),
        recorded: request.is_recorded,
        prompt: request.prompt,
        read: request.read,
        written: request.written,
        again: request.again,
        cost: cost_of_cache_miss(request, prices).map(prices::rounded),
        miss: request.miss.as_ref().map(|miss| MissLine {
            cause: miss.cause.as_str(),
            block: miss.block.as_ref().map(ToString::to_string),
            before: miss.before.as_deref(),
            after: miss.after.as_deref(),
        }),
    }
}

fn total(requests: &[CacheUse], prices: &PriceTable) -> Total {
    let mut total = Total { requests: requests.len(), ..Total::default() };
    for request in requests {
        total.counted += usize::from(!request.is_recorded);
        if request.miss.is_none() {
            continue;
        }
        total.misses += 1;
        total.again = total.again.saturating_add(request.again);
        match cost_of_cache_miss(request, prices) {
            Some(cost) => total.cost += cost,
            None => total.unpriced += 1,
        }
    }
    total
}

fn total_line<'a>(requests: &'a [CacheUse], prices: &'a PriceTable) -> TotalLine<'a> {
    let mut total = total(requests, prices);
    total.cost = prices::rounded(total.cost);
    TotalLine {
        total,
        currency: prices.currency(),
        prices_of: prices.date(),
        unpriced_models: unpriced(requests, prices),
    }
}

/// Returns the models of misses without a price.
fn unpriced<'a>(requests: &'a [CacheUse], prices: &PriceTable) -> Vec<&'a str> {
    let missed = requests.iter().filter(|request| request.miss.is_some());
    let without = missed.filter(|request| cost_of_cache_miss(request, prices).is_none());
    let names: BTreeSet<&str> =
        without.map(|request| request.model.as_deref().unwrap_or("unknown")).collect();
    names.into_iter().collect()
}

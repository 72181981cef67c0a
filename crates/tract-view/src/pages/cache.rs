//! The pages of prompt cache misses: of the repository, and of one session.

use maud::{Markup, html};
use tract_core::text::{beginning, compact, count, model_name, number};
use tract_engine::{CacheMiss, CacheUse, RequestBlock};

use super::figures::{meter, percent, tokens};
use super::{Tab, session_header};
use crate::load::{CacheReport, LoadedContext};
use crate::text::{query, visible};
use crate::times;

/// Maximum number of listed misses, the newest.
const MISSES: usize = 200;
/// Maximum characters of the title of a session.
const TITLE: usize = 48;
/// Maximum characters of a quoted difference.
const QUOTE: usize = 160;

/// Shows the causes of all misses.
pub(crate) fn cache(report: &CacheReport) -> Markup {
    html! {
        h1 { "Prompt cache" }
        (body(report, true))
    }
}

/// Shows the causes of the misses of a session, and each miss.
pub(crate) fn session_cache(context: &LoadedContext, report: Result<&CacheReport, &str>) -> Markup {
    html! {
        (session_header(context, Tab::Cache, true))
        (super::unreadable(context))
        @match report {
            Ok(report) => (body(report, false)),
            Err(error) => p .failed role="alert" { "The requests cannot be compared: " (visible(error)) },
        }
    }
}

fn body(report: &CacheReport, with_branch: bool) -> Markup {
    let mut misses = report.misses();
    let missed = misses.len();
    misses.truncate(MISSES);
    html! {
        @if report.requests.is_empty() { p .empty { "No answer of a model is recorded." } }
        @else {
            (totals(report, missed))
            @if missed == 0 { p .added { "No request missed the cache." } }
            @else {
                (causes(report))
                h2 { "Misses" }
                @if missed > misses.len() { p .soft .small { "The newest " (misses.len()) " of " (number(missed as u64)) "." } }
                div .scroll tabindex="0" {
                    table .figures {
                        thead { tr {
                            th scope="col" { "Answer" }
                            @if with_branch { th scope="col" .wide { "Session" } }
                            th scope="col" .wider { "Model" } th scope="col" .number { "Sent again" } th scope="col" .number .wide { "Of" }
                            th scope="col" .number { (visible(report.prices.currency())) } th scope="col" { "Cause" }
                        } }
                        tbody { @for request in misses { (miss_row(report, request, with_branch)) } }
                    }
                }
            }
            (notes(report))
        }
    }
}

fn totals(report: &CacheReport, missed: usize) -> Markup {
    let (prompt, read) = (report.sum(|one| one.prompt), report.sum(|one| one.read));
    html! {
        dl .totals {
            div { dt { "of the tokens sent came from the cache" } dd { (percent(read as f64 / prompt.max(1) as f64)) } }
            div { dt { "of " (count(report.requests.len(), "request")) " missed" } dd { (number(missed as u64)) } }
            div { dt { "tokens sent again" } dd { (compact(report.sum(|one| one.again))) } }
            @if missed > report.unpriced { div { dt { (visible(report.prices.currency())) " more than from the cache" } dd { (format!("{:.2}", report.cost)) } } }
        }
    }
}

fn causes(report: &CacheReport) -> Markup {
    let all = report.causes.iter().map(|cause| cause.again).sum::<u64>().max(1) as f64;
    html! {
        h2 { "Causes" }
        div .scroll tabindex="0" {
            table .figures {
                thead { tr {
                    th scope="col" { "Cause" } th scope="col" .number { "Requests" } th scope="col" .number { "Sent again" }
                    th scope="col" .number { (visible(report.prices.currency())) } th scope="col" .wide { "Share" }
                } }
                tbody {
                    @for cause in &report.causes {
                        tr {
                            th scope="row" { (cause.cause.to_string()) }
                            td .number { (number(cause.requests as u64)) }
                            td .number { (tokens(cause.again)) }
                            td .number { @if cause.unpriced < cause.requests { (format!("{:.2}", cause.cost)) } @else { "–" } }
                            @let share = cause.again as f64 / all;
                            td .wide .share { (meter(share)) " " span .soft { (percent(share)) } }
                        }
                    }
                }
            }
        }
    }
}

fn miss_row(report: &CacheReport, request: &CacheUse, with_branch: bool) -> Markup {
    html! {
        tr {
            td .time { a href=(format!("/transcript?rev={}", request.answer)) title=(request.answer.short()) { (times::minute(request.at, "answer")) } }
            @if with_branch { td .wide { a href=(format!("/cache?rev={}", query(&request.branch))) { @let title = report.titles.get(&request.branch).unwrap_or(&request.branch); (visible(beginning(title, TITLE).0)) @if beginning(title, TITLE).1 > 0 { "…" } } } }
            td .wider .soft { (visible(request.model.as_deref().map(model_name).unwrap_or_default())) }
            td .number { (tokens(request.again)) }
            td .number .wide .soft { (tokens(request.prompt)) }
            td .number { @if let Some(cost) = report.cost_of(request) { (format!("{cost:.3}")) } @else { "–" } }
            td { @if let Some(miss) = &request.miss { (cause(request, miss)) } }
        }
    }
}

fn cause(request: &CacheUse, miss: &CacheMiss) -> Markup {
    let quote = |text: &str| {
        let (kept, more) = beginning(text, QUOTE);
        format!("{}{}", visible(kept), if more > 0 { "…" } else { "" })
    };
    html! {
        b { (miss.cause.to_string()) }
        @if let Some(block) = &miss.block { " " (self::block(request, block)) }
        @if miss.before.is_some() || miss.after.is_some() {
            div .small .diff {
                @if let Some(before) = &miss.before { del { (quote(before)) } }
                @if let Some(after) = &miss.after { ins { (quote(after)) } }
            }
        }
    }
}

/// The block that broke the cache, with a link to it.
fn block(request: &CacheUse, block: &RequestBlock) -> Markup {
    html! {
        @match block {
            RequestBlock::Tool { name } => {
                a href=(format!("/tools?rev={}", request.request)) { "tool " (visible(name)) }
            }
            RequestBlock::Message { number, commit, .. } => {
                a href=(format!("/transcript?rev={}&from={number}#m{number}", request.request)) title=(commit.short()) { "message " (number) }
            }
        }
    }
}

fn notes(report: &CacheReport) -> Markup {
    let counted = report.requests.iter().filter(|one| !one.is_recorded).count();
    html! {
        p .soft .small {
            "A provider reads a request from its cache up to the first block that differs from the request before."
            @if counted > 0 { " The tokens of " (count(counted, "request")) " are counted; no provider reported them." }
            @if report.unpriced > 0 { " No price for the models of " (count(report.unpriced, "miss")) "." }
        }
    }
}

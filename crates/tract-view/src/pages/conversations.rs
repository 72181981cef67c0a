//! The list of conversations.

use maud::{Markup, html};
use tract_core::text::number;
use tract_engine::LogLine;

use super::usage::cost;
use super::{minute, search_form};
use crate::load::{BranchOrder, DatedBranch};
use crate::text::{query, visible};

/// Number of branches per page.
pub(crate) const PAGE: usize = 100;

/// Lists branches, each with a line about its newest commit.
pub(crate) fn conversations(
    repo: &str,
    filter: &str,
    order: BranchOrder,
    from: usize,
    total: usize,
    page: &[(DatedBranch, LogLine)],
) -> Markup {
    let link = |from: usize| format!("/?q={}&sort={}&from={from}", query(filter), order.name());
    let with_usage = page.iter().any(|(dated, _)| dated.usage.is_some());
    html! {
        h1 { "Conversations of " (visible(repo)) }
        form method="get" action="/" role="search" {
            label { span .soft { "name contains " } input type="search" name="q" value=(filter); }
            label {
                span .soft { "sort by " }
                select name="sort" {
                    @for one in BranchOrder::ALL {
                        option value=(one.name()) selected[one == order] { (one.name()) }
                    }
                }
            }
            button { "Show" }
        }
        (search_form(""))
        p .soft {
            (total) " conversations"
            @if with_usage { "; what branches share counts on the first of them by name" }
        }
        @if !page.is_empty() {
            table {
                thead { tr {
                    th { "branch" } th { "last commit" }
                    @if with_usage { th .number { "tokens" } th .number { "cost" } }
                    th .wide { "says" }
                } }
                tbody {
                    @for (dated, line) in page {
                        tr {
                            td { a href=(format!("/transcript?rev={}", query(&dated.branch.name))) { (visible(&dated.branch.name)) } }
                            td .time { (dated.commit.created_at.and_then(minute).unwrap_or_else(|| "no time".to_owned())) }
                            @if let Some(usage) = &dated.usage {
                                td .number { (number(usage.all_tokens())) }
                                td .number { (cost(usage)) }
                            }
                            td .wide .soft { (visible(&line.text)) }
                        }
                    }
                }
            }
        }
        nav .pages {
            @if from > 0 { a rel="prev" href=(link(from.saturating_sub(PAGE))) { "← before" } }
            @if from + page.len() < total { a rel="next" href=(link(from + PAGE)) { "after →" } }
        }
    }
}

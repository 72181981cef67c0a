//! The list of conversations.

use maud::{Markup, html};
use tract_engine::LogLine;

use super::{minute, search_form};
use crate::load::DatedBranch;
use crate::text::{query, visible};

/// Branches on one page.
pub(crate) const PAGE: usize = 100;

/// Lists branches with what their newest commits say.
pub(crate) fn conversations(
    repo: &str,
    filter: &str,
    by_name: bool,
    from: usize,
    total: usize,
    page: &[(DatedBranch, LogLine)],
) -> Markup {
    let sort = if by_name { "name" } else { "time" };
    let link = |from: usize| format!("/?q={}&sort={sort}&from={from}", query(filter));
    html! {
        h1 { "Conversations of " (visible(repo)) }
        form method="get" action="/" role="search" {
            label { span .soft { "name contains " } input type="search" name="q" value=(filter); }
            label {
                span .soft { "sort by " }
                select name="sort" {
                    option value="time" selected[!by_name] { "time" }
                    option value="name" selected[by_name] { "name" }
                }
            }
            button { "Show" }
        }
        (search_form(""))
        p .soft { (total) " conversations" }
        @if !page.is_empty() {
            table {
                thead { tr { th { "branch" } th { "last commit" } th .wide { "says" } } }
                tbody {
                    @for (dated, line) in page {
                        tr {
                            td { a href=(format!("/transcript?rev={}", query(&dated.branch.name))) { (visible(&dated.branch.name)) } }
                            td { (minute(&dated.commit).unwrap_or_else(|| "no time".to_owned())) }
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

//! The home page: the sessions of the repository.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::civil::Date;
use maud::{Markup, html};
use tract_core::text::{beginning, compact, count, duration, file_name, model_name, number};
use tract_engine::SessionParentKind;

use super::figures::{money, sparkline, tokens};
use crate::load::{ListedSession, SessionList};
use crate::text::{query, visible};
use crate::times;

/// Number of sessions per page, without their subagents, forks and rewinds.
pub(crate) const PAGE: usize = 200;
/// Maximum number of listed subagents, forks and rewinds of a session.
const CHILDREN: usize = 100;
/// Maximum characters of a title.
const TITLE: usize = 160;
/// Number of columns.
const COLUMNS: usize = 8;

/// The order of the list, and its groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SessionOrder {
    /// Grouped by day, the latest activity first.
    #[default]
    Day,
    /// Grouped by project, the latest activity first.
    Project,
    /// The most expensive first.
    Cost,
    /// Those with the most tokens first.
    Tokens,
}

impl SessionOrder {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Day, "day", "By day"),
        (Self::Project, "project", "By project"),
        (Self::Cost, "cost", "Most expensive first"),
        (Self::Tokens, "tokens", "Most tokens first"),
    ];

    fn name(self) -> &'static str {
        let mut names = Self::ALL.into_iter();
        names.find_map(|(order, name, _)| (order == self).then_some(name)).unwrap_or("day")
    }

    /// Parses a name; an unknown one is the default.
    pub(crate) fn of(name: &str) -> Self {
        let mut orders = Self::ALL.into_iter();
        orders.find_map(|(order, known, _)| (known == name).then_some(order)).unwrap_or_default()
    }
}

/// The filters and the order of the list, as in its URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionFilter {
    pub(crate) text: String,
    pub(crate) project: String,
    pub(crate) tool: String,
    pub(crate) model: String,
    pub(crate) order: SessionOrder,
    pub(crate) from: usize,
}

impl SessionFilter {
    fn is_set(&self) -> bool {
        [&self.text, &self.project, &self.tool, &self.model].into_iter().any(|one| !one.is_empty())
    }

    fn link(&self, from: usize) -> String {
        let sort = self.order.name();
        let (q, project) = (query(&self.text), query(&self.project));
        let (tool, model) = (query(&self.tool), query(&self.model));
        format!("/?q={q}&project={project}&tool={tool}&model={model}&sort={sort}&from={from}")
    }
}

/// Lists sessions, grouped by day or by project.
pub(crate) fn sessions(list: &SessionList, filter: &SessionFilter, today: Option<Date>) -> Markup {
    let mut roots: Vec<&ListedSession> = list.sessions.iter().collect();
    // The sorts are stable: of equal sessions, the latest stays first.
    match filter.order {
        SessionOrder::Day => {}
        SessionOrder::Project => roots.sort_by(|a, b| a.session.project.cmp(&b.session.project)),
        SessionOrder::Cost => roots.sort_by(|a, b| b.cost.cost.total_cmp(&a.cost.cost)),
        SessionOrder::Tokens => roots.sort_by_key(|one| Reverse(one.session.all_tokens())),
    }
    let total = roots.len();
    let page: Vec<&ListedSession> = roots.into_iter().skip(filter.from).take(PAGE).collect();
    html! {
        h1 { "Sessions" }
        (totals(list))
        (form(list, filter))
        @if page.is_empty() {
            p .empty {
                @if filter.is_set() { "No session matches. " a href="/" { "Show all" } }
                @else { "No sessions yet. " code { "tract import claude-code" } " imports those of Claude Code; " code { "tract import --help" } " lists other tools." }
            }
        } @else {
            div .scroll tabindex="0" {
                table .sessions {
                    thead { tr {
                        th scope="col" { "Session" } th scope="col" .wider { "Model" } th scope="col" { "When" }
                        th scope="col" .number .wide { "Duration" } th scope="col" .number .wide { "Messages" }
                        th scope="col" .number .wide { "Tokens" } th scope="col" .number { (list.currency) }
                        th scope="col" .wider { "Context" }
                    } }
                    @for group in groups(&page, filter.order) { (self::group(group, filter.order, today)) }
                }
            }
        }
        nav .pages aria-label="Pages" {
            @if filter.from > 0 { a rel="prev" href=(filter.link(filter.from.saturating_sub(PAGE))) { "← newer" } }
            @if total > PAGE { span .soft { (filter.from + 1) "–" (filter.from + page.len()) " of " (number(total as u64)) } }
            @if filter.from + page.len() < total { a rel="next" href=(filter.link(filter.from + PAGE)) { "older →" } }
        }
    }
}

fn totals(list: &SessionList) -> Markup {
    let totals = &list.totals;
    let cost = money(totals.cost.cost, totals.cost.unpriced, totals.cost.requests);
    let figures = [
        ("sessions", number(totals.sessions as u64)),
        ("messages", compact(totals.messages)),
        ("tokens", compact(totals.tokens)),
    ];
    html! {
        dl .totals {
            @for (name, value) in figures { div { dt { (name) } dd { (value) } } }
            @if !cost.is_empty() { div { dt { (visible(&list.currency)) " at list prices" } dd { (cost) } } }
        }
    }
}

fn form<'a>(list: &'a SessionList, filter: &SessionFilter) -> Markup {
    let choices = &list.choices;
    let choice = |name: &str, all: &str, values: Vec<(&str, &str)>, chosen: &str| {
        html! {
            @if values.len() > 1 || !chosen.is_empty() {
                label {
                    span .hidden { (name) }
                    select name=(name) {
                        option value="" { (all) }
                        @for (value, shown) in values {
                            option value=(value) selected[value == chosen] { (visible(beginning(shown, 60).0)) }
                        }
                    }
                }
            }
        }
    };
    let same = |values: &'a BTreeSet<String>| -> Vec<(&'a str, &'a str)> {
        values.iter().map(|value| (value.as_str(), value.as_str())).collect()
    };
    let projects = choices.projects.iter().map(|path| (path.as_str(), file_name(path))).collect();
    html! {
        form .filters method="get" action="/" {
            label {
                span .hidden { "Words of the title, project or branch" }
                input type="search" name="q" value=(filter.text) placeholder="Filter by title, project or branch" data-filters="sessions";
            }
            (choice("project", "All projects", projects, &filter.project))
            (choice("tool", "All tools", same(&choices.tools), &filter.tool))
            (choice("model", "All models", same(&choices.models), &filter.model))
            label {
                span .hidden { "Order" }
                select name="sort" {
                    @for (order, name, shown) in SessionOrder::ALL {
                        option value=(name) selected[order == filter.order] { (shown) }
                    }
                }
            }
            button { "Filter" }
            span #shown .soft .small role="status" {}
        }
    }
}

/// Splits a page where the day or the project changes, in an order with groups.
fn groups<'a, 'b>(
    page: &'b [&'a ListedSession],
    order: SessionOrder,
) -> impl Iterator<Item = &'b [&'a ListedSession]> {
    page.chunk_by(move |a, b| {
        let (a, b) = (&a.session, &b.session);
        match order {
            SessionOrder::Day => {
                a.active_at.and_then(times::day) == b.active_at.and_then(times::day)
            }
            SessionOrder::Project => a.project == b.project,
            SessionOrder::Cost | SessionOrder::Tokens => true,
        }
    })
}

fn group(sessions: &[&ListedSession], order: SessionOrder, today: Option<Date>) -> Markup {
    let first = sessions.first().map(|one| &one.session);
    let project = first.and_then(|one| one.project.as_deref());
    let day = first.and_then(|one| one.active_at).and_then(times::day);
    let (name, title) = match (order, project, day) {
        (SessionOrder::Cost | SessionOrder::Tokens, ..) => ("All days".to_owned(), None),
        (SessionOrder::Project, Some(path), _) => (file_name(path).to_owned(), Some(path)),
        (SessionOrder::Project, None, _) => ("No project".to_owned(), None),
        (SessionOrder::Day, _, Some(day)) => {
            let name = match today {
                Some(today) => times::day_name(day, today),
                None => day.to_string(),
            };
            (name, None)
        }
        (SessionOrder::Day, _, None) => ("No time".to_owned(), None),
    };
    html! {
        tbody {
            tr .group {
                th colspan=(COLUMNS) scope="rowgroup" title=[title.map(visible)] {
                    (visible(&name))
                    // A page may have a part of all days.
                    @if !matches!(order, SessionOrder::Cost | SessionOrder::Tokens) {
                        " " span .soft .small { (count(sessions.len(), "session")) }
                    }
                }
            }
            @for one in sessions { (row(one, order)) }
        }
    }
}

fn row(one: &ListedSession, order: SessionOrder) -> Markup {
    let session = &one.session;
    html! {
        tr {
            td {
                (title(one))
                div .soft .small {
                    @if let Some(path) = session.project.as_deref().filter(|_| order != SessionOrder::Project) {
                        span title=(visible(path)) { (visible(file_name(path))) }
                        " · "
                    }
                    // The branches of imports have the long names of their sessions.
                    @match &session.tool {
                        Some(tool) => (visible(tool)),
                        None => span .branch { (visible(&session.branch)) },
                    }
                }
                @if !one.children.is_empty() { (children(one)) }
            }
            td .wider .soft { (visible(session.model.as_deref().map(model_name).unwrap_or_default())) }
            td .time {
                @if order == SessionOrder::Day { (times::clock(session.active_at)) } @else { (times::date(session.active_at)) }
            }
            td .number .wide { (session.duration_us().map(duration).unwrap_or_default()) }
            td .number .wide { (number(session.messages)) }
            td .number .wide { @if session.all_tokens() > 0 { (tokens(session.all_tokens())) } }
            td .number { (money(one.cost.cost, one.cost.unpriced, one.cost.requests)) }
            td .wider { (sparkline(&session.window)) }
        }
    }
}

fn title(one: &ListedSession) -> Markup {
    let name = one.session.name();
    let (kept, more) = beginning(&name, TITLE);
    html! {
        a .title href=(format!("/transcript?rev={}", query(&one.session.branch))) {
            (visible(kept)) @if more > 0 { "…" }
        }
    }
}

/// The subagents, forks and rewinds of a session, folded.
fn children(one: &ListedSession) -> Markup {
    let kind = |child: &ListedSession| child.session.parent.as_ref().map(|parent| parent.kind);
    let of = |wanted: SessionParentKind| {
        one.children.iter().filter(|child| kind(child) == Some(wanted)).count()
    };
    let kinds = [
        (SessionParentKind::Subagent, "subagent"),
        (SessionParentKind::Fork, "fork"),
        (SessionParentKind::Rewind, "rewind"),
    ];
    let kinds = kinds.into_iter().map(|(kind, name)| (of(kind), name)).filter(|(n, _)| *n > 0);
    let kinds: Vec<String> = kinds.map(|(n, name)| count(n, name)).collect();
    html! {
        details .children {
            summary .small { (kinds.join(", ")) }
            ul {
                @for child in one.children.iter().take(CHILDREN) {
                    li {
                        span .tag { (kind(child).map(SessionParentKind::as_str).unwrap_or("branch")) } " "
                        (title(child)) " "
                        span .soft .small {
                            (count(usize::try_from(child.session.messages).unwrap_or(usize::MAX), "message"))
                            @let cost = money(child.cost.cost, child.cost.unpriced, child.cost.requests);
                            @if !cost.is_empty() { " · " (cost) }
                        }
                    }
                }
                @if one.children.len() > CHILDREN { li .soft { (one.children.len() - CHILDREN) " more: tract sessions" } }
            }
        }
    }
}

//! The pages of costs: of the repository, and of one session.

use maud::{Markup, html};
use tract_core::text::{compact, count, file_name, number};
use tract_engine::ToolCost;

use super::figures::{meter, money, percent, ticks, tokens};
use super::{Tab, session_header};
use crate::load::{LoadedContext, UsageGroup, UsageReport, UsageSum};
use crate::text::visible;

/// Maximum number of days in the chart, the newest.
const DAYS: usize = 90;
/// Maximum number of rows of a table.
const ROWS: usize = 100;
/// The size of the chart in SVG units.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
/// The space left of the chart and below it for its axes.
const LEFT: f64 = 56.0;
const BELOW: f64 = 24.0;

/// Shows the tokens and the cost of all answers.
pub(crate) fn usage(report: &UsageReport) -> Markup {
    html! {
        h1 { "Cost" }
        @if report.total.answers == 0 {
            p .empty { "No recorded answer says how many tokens it used." }
        } @else {
            (totals(report))
            (chart(report))
            (groups("By model", "Model", &report.models, report, |name| name.to_owned()))
            (groups("By project", "Project", &report.projects, report, |path| file_name(path).to_owned()))
            (groups("By tool", "Recorded by", &report.tools, report, str::to_owned))
        }
        (tool_costs(&report.tool_costs))
        (prices(report))
    }
}

/// Shows the tokens and the cost of a session.
pub(crate) fn session_cost(context: &LoadedContext, report: &UsageReport) -> Markup {
    html! {
        (session_header(context, Tab::Cost, true))
        (super::unreadable(context))
        @if report.total.answers == 0 {
            p .empty {
                @if context.is_branch { "No recorded answer of this session says how many tokens it used." }
                @else { "Costs are counted for branches; this is a commit." }
            }
        } @else {
            (totals(report))
            @if report.days.len() > 1 { (chart(report)) }
            (groups("By model", "Model", &report.models, report, |name| name.to_owned()))
        }
        (tool_costs(&report.tool_costs))
        (prices(report))
    }
}

fn totals(report: &UsageReport) -> Markup {
    let UsageSum { answers, tokens, .. } = report.total;
    let prompt = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
    let from_cache = tokens.cache_read as f64 / prompt.max(1) as f64;
    html! {
        dl .totals {
            div { dt { (visible(report.prices.currency())) " at list prices" } dd { (cost(&report.total)) } }
            div { dt { "answers" } dd { (number(answers as u64)) } }
            div { dt { "tokens sent" } dd { (compact(prompt)) } }
            div { dt { "of these from the cache" } dd { (percent(from_cache)) } }
            div { dt { "tokens generated" } dd { (compact(tokens.output)) } }
        }
    }
}

/// Draws the cost of each day.
fn chart(report: &UsageReport) -> Markup {
    let dated: Vec<&UsageGroup> = report.days.iter().filter(|(day, _)| day.is_some()).collect();
    let days = dated.get(dated.len().saturating_sub(DAYS)..).unwrap_or_default();
    let most = days.iter().map(|(_, sum)| sum.cost).fold(0.0, f64::max);
    let width = (WIDTH - LEFT) / days.len().max(1) as f64;
    let y = |cost: f64| HEIGHT - HEIGHT * cost / most;
    let every = days.len().div_ceil(12).max(1);
    let currency = visible(report.prices.currency());
    html! {
        @if most > 0.0 {
            h2 { "By day" }
            figure {
                svg .chart viewBox=(format!("0 -8 {WIDTH} {:.0}", HEIGHT + BELOW + 8.0)) role="img" aria-label=(format!("{currency} by day")) {
                    @for at in ticks(most) {
                        line .axis x1=(LEFT) x2=(WIDTH) y1=(format!("{:.1}", y(at))) y2=(format!("{:.1}", y(at))) {}
                        text x=(LEFT - 8.0) y=(format!("{:.1}", y(at) + 4.0)) text-anchor="end" { (format!("{at}")) }
                    }
                    line .axis x1=(LEFT) x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                    @for (place, (day, sum)) in days.iter().enumerate() {
                        @let day = day.as_deref().unwrap_or_default();
                        @let left = LEFT + width * place as f64;
                        rect .cost-bar x=(format!("{:.1}", left + width * 0.1)) y=(format!("{:.1}", y(sum.cost)))
                            width=(format!("{:.1}", (width * 0.8).min(48.0))) height=(format!("{:.1}", HEIGHT - y(sum.cost))) {
                            title { (day) ": " (currency) " " (cost(sum)) ", " (count(sum.answers, "answer")) }
                        }
                        @if place % every == 0 {
                            text x=(format!("{:.1}", left + width * 0.1)) y=(HEIGHT + 16.0) { (day.get(5..).unwrap_or(day)) }
                        }
                    }
                }
                figcaption .soft .small {
                    (currency) " by day"
                    @if dated.len() > days.len() { ", the newest " (days.len()) " of " (dated.len()) " days: tract usage --by day" }
                }
            }
        }
    }
}

/// Shows groups of answers as a table.
fn groups(
    title: &str,
    key: &str,
    groups: &[UsageGroup],
    report: &UsageReport,
    shown: impl Fn(&str) -> String,
) -> Markup {
    let all = report.total.all_tokens().max(1) as f64;
    html! {
        @if groups.iter().any(|(name, _)| name.is_some()) {
            h2 { (title) }
            div .scroll tabindex="0" {
                table .figures {
                    thead { tr {
                        th scope="col" { (key) }
                        @for name in ["Answers", "Input", "Output", "Cache read", "Cache write"] { th scope="col" .number { (name) } }
                        th scope="col" .number { (visible(report.prices.currency())) }
                        th scope="col" .wide { "Share of tokens" }
                    } }
                    tbody {
                        @for (name, sum) in groups.iter().take(ROWS) {
                            @let name = name.as_deref();
                            tr {
                                @let shown = name.map_or("not recorded".to_owned(), &shown);
                                th scope="row" title=[name.filter(|name| *name != shown).map(visible)] { (visible(&shown)) }
                                (cells(sum))
                                @let share = sum.all_tokens() as f64 / all;
                                td .wide .share { (meter(share)) " " span .soft { (percent(share)) } }
                            }
                        }
                    }
                }
            }
            @if groups.len() > ROWS { p .soft { (groups.len() - ROWS) " more: tract usage" } }
        }
    }
}

/// Shows the tokens that the definitions of tools added to the requests.
fn tool_costs(costs: &Result<Vec<ToolCost>, String>) -> Markup {
    let costs = match costs {
        Ok(costs) => costs,
        Err(error) => {
            return html! { p .failed role="alert" { "The tools cannot be read: " (visible(error)) } };
        }
    };
    html! {
        @if !costs.is_empty() {
            h2 { "Tool definitions" }
            p .soft .small { "Every request contains the definitions of all tools in force. Their tokens are counted, not reported by a provider." }
            div .scroll tabindex="0" {
                table .figures {
                    thead { tr {
                        th scope="col" { "Tool" } th scope="col" .number { "Tokens" } th scope="col" .number { "Requests" }
                        th scope="col" .number { "Tokens sent" } th scope="col" .number { "Calls" } th scope="col" .number { "Tokens sent per call" }
                        th scope="col" .wide { "Share of its requests" }
                    } }
                    tbody {
                        @for cost in costs.iter().take(ROWS) {
                            tr {
                                th scope="row" { (visible(&cost.name)) }
                                td .number { @if cost.requests > 0 { (number(cost.tokens)) } @else { span .soft { "no definition" } } }
                                td .number { (number(cost.requests)) }
                                td .number { (tokens(cost.sent_tokens)) }
                                td .number { (number(cost.calls)) }
                                td .number {
                                    @match (cost.sent_tokens, cost.calls) {
                                        (0, _) => {}
                                        (_, 0) => span .tag .changed { "never called" },
                                        (sent, calls) => (tokens(sent / calls)),
                                    }
                                }
                                td .wide .share { @if let Some(share) = cost.share() { (meter(share)) " " span .soft { (percent(share)) } } }
                            }
                        }
                    }
                }
            }
            @if costs.len() > ROWS { p .soft { (costs.len() - ROWS) " more: tract tools cost" } }
        }
    }
}

fn prices(report: &UsageReport) -> Markup {
    let unpriced: Vec<_> = report.unpriced_models.iter().map(|name| visible(name)).collect();
    html! {
        @if !unpriced.is_empty() {
            p .small { span .changed { "No price" } " for " (unpriced.join(", ")) ": " (count(report.total.unpriced, "answer")) " not in the sum." }
        }
        @if report.total.answers > 0 {
            p .soft .small { "List prices of " (visible(report.prices.date())) ", in " (visible(report.prices.currency())) "." }
        }
    }
}

fn cost(sum: &UsageSum) -> String {
    money(sum.cost, sum.unpriced as u64, sum.answers as u64)
}

fn cells(sum: &UsageSum) -> Markup {
    let amounts = &sum.tokens;
    html! {
        td .number { (number(sum.answers as u64)) }
        @for count in [amounts.input, amounts.output, amounts.cache_read, amounts.cache_write] {
            td .number { (tokens(count)) }
        }
        td .number { (cost(sum)) }
    }
}

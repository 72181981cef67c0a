//! The tokens of a context over time, with the prompt cache and the cost of its requests, as charts
//! over one axis.

use std::fmt::Write;

use maud::{Markup, html};
use tract_core::text::{compact, count, number};

use super::figures::ticks;
use super::{Tab, session_header};
use crate::load::{LoadedContext, PARTS, RequestTokens, Window, WindowMark};
use crate::times;

/// The size of the charts in SVG units. Left and right are the places of the axes.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
const HEIGHT: f64 = 280.0;
const LOWER: f64 = 120.0;
/// The space for the labels of the horizontal axis.
const BELOW: f64 = 24.0;
/// The space for the half of a label that is above a chart.
const ABOVE: f64 = 8.0;
/// Maximum number of listed changes.
const LISTED: usize = 200;
/// Number of labels of the horizontal axis.
const LABELS: usize = 6;

/// Shows how many tokens the context had after each commit, by kind, and where it was changed.
pub(crate) fn window(context: &LoadedContext, window: &Window) -> Markup {
    let places = Places::of(window);
    html! {
        (session_header(context, Tab::Window, true))
        (super::unreadable(context))
        @if !context.unreadable.is_empty() { p .soft { "The chart ends at the first message that cannot be read." } }
        @if window.points.is_empty() { p .empty { "This conversation has no commits yet." } }
        @else {
            (parts_chart(context, window, &places))
            (cache_chart(window, &places))
            (cost_chart(window, &places))
        }
        (changes(&window.marks))
    }
}

/// The positions of commits on the horizontal axis of all charts.
struct Places {
    last: f64,
}

impl Places {
    fn of(window: &Window) -> Self {
        Self { last: window.commits.saturating_sub(1).max(1) as f64 }
    }

    fn x(&self, place: usize) -> f64 {
        LEFT + (WIDTH - LEFT) * place.saturating_sub(1) as f64 / self.last
    }
}

fn parts_chart(context: &LoadedContext, window: &Window, places: &Places) -> Markup {
    let sums = window.points.iter().map(|point| point.tokens.iter().sum::<u64>());
    let largest = sums.max().unwrap_or_default().max(1);
    // A limit far above everything would flatten the chart.
    let limit = window.limit.filter(|limit| largest.saturating_mul(4) >= *limit);
    let most = limit.map_or(largest, |limit| limit.max(largest)) as f64;
    let now = window.points.last().map(|point| point.tokens).unwrap_or_default();
    let source = &context.compiled.token_count().source;
    html! {
        h2 { "Context" }
        figure {
            svg .chart viewBox=(view_box(HEIGHT)) role="img" aria-label="tokens of the context by kind, over commits" {
                (axes(window, places, HEIGHT, most, |at| compact(at as u64)))
                @for (part, name) in PARTS.iter().enumerate() {
                    path class=(format!("part-{name}")) d=(area(window, part, most, places)) {}
                }
                @if let Some(limit) = limit {
                    @let at = format!("{:.1}", HEIGHT - HEIGHT * limit as f64 / most);
                    line .limit x1=(LEFT) x2=(WIDTH) y1=(at) y2=(at) { title { "limit of the model: " (number(limit)) " tokens" } }
                }
                @for mark in &window.marks {
                    @let at = format!("{:.1}", places.x(mark.place));
                    line class=(format!("mark mark-{}", mark.kind)) x1=(at) x2=(at) y1="0" y2=(HEIGHT) { title { (mark.kind) ", commit " (mark.commit.short()) } }
                }
                (hover(window, places))
            }
            ul .legend {
                @for (name, tokens) in PARTS.iter().zip(now) {
                    li { span class=(format!("key part-{name}")) {} (name) " " span .soft { (compact(tokens)) } }
                }
                @if let Some(limit) = window.limit { li .soft { span .key .limit-key {} "model's limit " (compact(limit)) } }
                @for kind in ["edit", "summary", "revert", "merge", "priority"] {
                    @if window.marks.iter().any(|mark| mark.kind == kind) { li { span class=(format!("key mark-{kind}")) {} (kind) } }
                }
            }
            figcaption .soft .small {
                "Tokens after each of " (count(window.commits, "commit")) ", at most " (number(largest)) " (" (source) ")."
                @if let Some((first, last)) = window.times { " " (times::minute(Some(first), "")) " to " (times::minute(Some(last), "")) "." }
            }
        }
    }
}

fn view_box(height: f64) -> String {
    format!("0 -{ABOVE} {WIDTH} {}", height + ABOVE + BELOW)
}

/// The lines and the labels of both axes.
fn axes(
    window: &Window,
    places: &Places,
    height: f64,
    most: f64,
    label: impl Fn(f64) -> String,
) -> Markup {
    let step = window.commits.div_ceil(LABELS).max(1);
    html! {
        @for at in ticks(most) {
            @let y = height - height * at / most;
            line .axis x1=(LEFT) x2=(WIDTH) y1=(format!("{y:.1}")) y2=(format!("{y:.1}")) {}
            text x=(LEFT - 8.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (label(at)) }
        }
        line .axis x1=(LEFT) x2=(WIDTH) y1=(height) y2=(height) {}
        @for place in (1..=window.commits).step_by(step) {
            text x=(format!("{:.1}", places.x(place))) y=(height + 16.0) { "#" (place) }
        }
    }
}

/// A column for each point, which names its commit when the pointer is over it.
fn hover(window: &Window, places: &Places) -> Markup {
    let edges: Vec<f64> = window.points.iter().map(|point| places.x(point.place)).collect();
    let columns = window.points.iter().zip(&edges).enumerate();
    let columns = columns.map(|(number, (point, x))| {
        let before = number.checked_sub(1).and_then(|before| edges.get(before)).unwrap_or(x);
        let after = edges.get(number + 1).unwrap_or(x);
        let (left, right) = ((before + x) / 2.0, (x + after) / 2.0);
        (point, left, (right - left).max(1.0))
    });
    html! {
        @for (point, left, width) in columns {
            rect .hover x=(format!("{left:.1}")) y="0" width=(format!("{width:.1}")) height=(HEIGHT) {
                title {
                    "commit " (point.place) " of " (window.commits) " (" (point.commit.short()) ")"
                    @if let Some(at) = point.at.and_then(|at| times::local(at, "%Y-%m-%d %H:%M")) { ", " (at) }
                    ": " (number(point.tokens.iter().sum())) " tokens"
                    @for (name, tokens) in PARTS.iter().zip(point.tokens) { @if tokens > 0 { "\n" (name) " " (number(tokens)) } }
                }
            }
        }
    }
}

/// Shows the tokens that requests read from the prompt cache, wrote to it, and sent without it;
/// nothing if no answer reports them.
fn cache_chart(window: &Window, places: &Places) -> Markup {
    let sum = |of: fn(&RequestTokens) -> u64| window.requests.iter().map(of).sum::<u64>();
    let (read, written) = (sum(|one| one.read), sum(|one| one.written));
    let uncached = sum(|one| one.uncached);
    if read + written == 0 {
        return html! {};
    }
    let tallest = window.requests.iter().map(|one| one.read + one.written + one.uncached).max();
    let most = tallest.unwrap_or(1).max(1) as f64;
    let bar = |class: &'static str, place: usize, below: u64, tokens: u64| {
        let below = LOWER * below as f64 / most;
        html! { @if tokens > 0 { (column(class, window, places, place, below, LOWER * tokens as f64 / most)) } }
    };
    html! {
        h2 { "Prompt cache" }
        figure {
            svg .chart viewBox=(view_box(LOWER)) role="img" aria-label="tokens of requests by use of the prompt cache, over commits" {
                (axes(window, places, LOWER, most, |at| compact(at as u64)))
                @for one in &window.requests {
                    g {
                        title { "read " (number(one.read)) ", written " (number(one.written)) ", without the cache " (number(one.uncached)) }
                        (bar("cache-read", one.place, 0, one.read))
                        (bar("cache-written", one.place, one.read, one.written))
                        (bar("cache-none", one.place, one.read + one.written, one.uncached))
                    }
                }
            }
            ul .legend {
                li { span .key .cache-read {} "read from the cache " span .soft { (compact(read)) } }
                li { span .key .cache-written {} "written to it " span .soft { (compact(written)) } }
                li { span .key .cache-none {} "sent without it " span .soft { (compact(uncached)) } }
            }
        }
    }
}

/// Shows the cost of the requests and their answers; nothing if none has a price.
fn cost_chart(window: &Window, places: &Places) -> Markup {
    let most = window.requests.iter().map(|one| one.cost).fold(0.0, f64::max);
    let all: f64 = window.requests.iter().map(|one| one.cost).sum();
    html! {
        @if most > 0.0 {
            h2 { "Cost" }
            figure {
                svg .chart viewBox=(view_box(LOWER)) role="img" aria-label=(format!("{} over commits", window.currency)) {
                    (axes(window, places, LOWER, most, |at| format!("{at}")))
                    @for one in window.requests.iter().filter(|one| one.cost > 0.0) {
                        g {
                            title { (window.currency) " " (format!("{:.4}", one.cost)) }
                            (column("cost-bar", window, places, one.place, 0.0, LOWER * one.cost / most))
                        }
                    }
                }
                figcaption .soft .small { (window.currency) " " (format!("{all:.2}")) " at list prices, for the requests with a known price." }
            }
        }
    }
}

/// Draws a column of a lower chart, this high above the axis.
fn column(
    class: &str,
    window: &Window,
    places: &Places,
    place: usize,
    below: f64,
    height: f64,
) -> Markup {
    let room = (WIDTH - LEFT) / window.requests.len().max(1) as f64;
    let width = (room * 0.8).min(16.0);
    let left = (places.x(place) - width / 2.0).clamp(LEFT, WIDTH - width);
    html! {
        rect class=(class) x=(format!("{left:.1}")) y=(format!("{:.1}", LOWER - below - height))
            width=(format!("{width:.1}")) height=(format!("{height:.1}")) {}
    }
}

fn changes(marks: &[WindowMark]) -> Markup {
    html! {
        h2 { "Changes" }
        @if marks.is_empty() { p .soft { "Nothing was edited, summarized, reverted or merged." } }
        @else {
            table {
                thead { tr { th { "Commit" } th { "Change" } th { "Context" } } }
                tbody {
                    @for mark in marks.iter().rev().take(LISTED) {
                        tr {
                            td .id { (mark.commit.short()) }
                            td { span class=(format!("key mark-{}", mark.kind)) {} " " (mark.kind) }
                            td {
                                a href=(format!("/transcript?rev={}", mark.commit)) { "after" } " "
                                a href=(format!("/compare?a={0}~1&b={0}", mark.commit)) { "what it changed" }
                            }
                        }
                    }
                }
            }
            @if marks.len() > LISTED { p .soft { (marks.len() - LISTED) " earlier ones: tract log" } }
        }
    }
}

/// Draws one part on top of the parts below it.
fn area(window: &Window, part: usize, most: f64, places: &Places) -> String {
    let y = |tokens: u64| HEIGHT - HEIGHT * tokens as f64 / most;
    let mut out = String::new();
    let mut draw = |place: usize, tokens: u64| {
        let command = if out.is_empty() { 'M' } else { 'L' };
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{command}{:.1} {:.1}", places.x(place), y(tokens));
    };
    for point in &window.points {
        draw(point.place, point.tokens.iter().take(part + 1).sum());
    }
    for point in window.points.iter().rev() {
        draw(point.place, point.tokens.iter().take(part).sum());
    }
    if !out.is_empty() {
        out.push('Z');
    }
    out
}

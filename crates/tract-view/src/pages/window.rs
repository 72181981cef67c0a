//! The tokens of a context over time, as a chart.

use std::fmt::Write;

use maud::{Markup, html};
use tract_core::text::{count, number};

use super::{Tab, minute, session_header};
use crate::load::{CacheUse, LoadedContext, PARTS, Window};

/// The size of the chart in SVG units.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 240.0;
const CACHE_HEIGHT: f64 = 120.0;
/// Maximum number of listed changes.
const LISTED: usize = 200;

/// Shows how many tokens the context had after each commit, by kind, and where it was changed.
pub(crate) fn window(context: &LoadedContext, window: &Window) -> Markup {
    let sums = window.points.iter().map(|point| point.tokens.iter().sum::<u64>());
    let most = sums.max().unwrap_or_default().max(1);
    let x = |place: usize| {
        let last = window.commits.saturating_sub(1).max(1);
        WIDTH * place.saturating_sub(1) as f64 / last as f64
    };
    let now = window.points.last().map(|point| point.tokens).unwrap_or_default();
    html! {
        (session_header(context, Tab::Window, true))
        (super::unreadable(context))
        @if !context.unreadable.is_empty() { p .soft { "The chart ends at the first message that cannot be read." } }
        p .soft {
            "tokens after each of " (count(window.commits, "commit")) ", at most " (number(most))
            " (" (context.compiled.token_count().source) ")"
        }
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="tokens by kind, over commits" {
            @for (part, name) in PARTS.iter().enumerate() {
                path class=(format!("part-{name}")) d=(area(window, part, most, x)) {}
            }
            @for mark in &window.marks {
                @let at = format!("{:.1}", x(mark.place));
                line class=(format!("mark-{}", mark.kind)) x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
            }
        }
        @if let Some((first, last)) = window.times {
            p .soft { (minute(first).unwrap_or_default()) " to " (minute(last).unwrap_or_default()) }
        }
        table {
            thead { tr { th { "part" } th .number { "tokens now" } } }
            tbody {
                @for (name, tokens) in PARTS.iter().zip(now) {
                    tr { td { span class=(format!("key part-{name}")) {} " " (name) } td .number { (number(tokens)) } }
                }
            }
        }
        (cache(window, x))
        h2 { "Changes" }
        p .soft { (number(window.marks.len() as u64)) " edits, summaries, reverts, merges and changes of priority" }
        @if !window.marks.is_empty() {
            table {
                thead { tr { th { "commit" } th { "change" } th { "context" } } }
                tbody {
                    @for mark in window.marks.iter().rev().take(LISTED) {
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
            @if window.marks.len() > LISTED { p .soft { (window.marks.len() - LISTED) " earlier ones: tract log" } }
        }
    }
}

/// Shows the tokens that requests read from the prompt cache, wrote to it, and sent without it;
/// nothing if no answer reports them.
fn cache(window: &Window, x: impl Fn(usize) -> f64) -> Markup {
    let sum = |of: fn(&CacheUse) -> u64| window.cache.iter().map(of).sum::<u64>();
    let (read, written) = (sum(|one| one.read), sum(|one| one.written));
    let uncached = sum(|one| one.uncached);
    if read + written == 0 {
        return html! {};
    }
    let tallest = window.cache.iter().map(|one| one.read + one.written + one.uncached).max();
    let y = |tokens: u64| CACHE_HEIGHT * tokens as f64 / tallest.unwrap_or(1).max(1) as f64;
    let width = (WIDTH / window.cache.len().max(1) as f64 * 0.8).min(16.0);
    let bar = |class: &'static str, place: usize, below: u64, tokens: u64| {
        let (height, left) = (y(tokens), (x(place) - width / 2.0).clamp(0.0, WIDTH - width));
        let top = CACHE_HEIGHT - y(below) - height;
        html! {
            @if tokens > 0 {
                rect class=(class) x=(format!("{left:.1}")) y=(format!("{top:.1}"))
                    width=(format!("{width:.1}")) height=(format!("{height:.1}")) {}
            }
        }
    };
    html! {
        h2 { "Prompt cache" }
        svg viewBox=(format!("0 0 {WIDTH} {CACHE_HEIGHT}")) role="img" aria-label="tokens of requests by use of the prompt cache, over commits" {
            @for one in &window.cache {
                (bar("cache-read", one.place, 0, one.read))
                (bar("cache-written", one.place, one.read, one.written))
                (bar("cache-none", one.place, one.read + one.written, one.uncached))
            }
        }
        table {
            thead { tr { th { "tokens of requests" } th .number { "in all" } } }
            tbody {
                tr { td { span class="key cache-read" {} " read from the cache" } td .number { (number(read)) } }
                tr { td { span class="key cache-written" {} " written to it" } td .number { (number(written)) } }
                tr { td { span class="key cache-none" {} " sent without it" } td .number { (number(uncached)) } }
            }
        }
    }
}

/// Draws one part on top of the parts below it.
fn area(window: &Window, part: usize, most: u64, x: impl Fn(usize) -> f64) -> String {
    let y = |tokens: u64| HEIGHT - HEIGHT * tokens as f64 / most as f64;
    let mut out = String::new();
    let mut draw = |place: usize, tokens: u64| {
        let command = if out.is_empty() { 'M' } else { 'L' };
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{command}{:.1} {:.1}", x(place), y(tokens));
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

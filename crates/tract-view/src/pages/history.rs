//! The graph of a history: each commit with its operation, forks and merges.

use maud::{Markup, html};
use tract_core::Op;
use tract_engine::graph::GraphRow;

use super::{Tab, session_header};
use crate::load::{History, HistoryEntry, LoadedContext};
use crate::text::{query, visible};
use crate::times;

/// Number of commits per page.
pub(crate) const PAGE: usize = 200;
/// Maximum characters of a graph row that are drawn, two per line of the graph.
const MOST_COLUMNS: usize = 80;
/// The width of a character in pixels.
const CELL: usize = 8;
/// The height of a row of the graph in pixels.
const ROW: usize = 16;
/// Number of line colors, which repeat.
const COLORS: usize = 6;

/// Shows the commits of a history, newest first.
pub(crate) fn history(
    context: &LoadedContext,
    all: bool,
    from: usize,
    history: &History,
) -> Markup {
    let rev = query(&context.revision);
    let link = |from: usize, all: bool| {
        format!("/history?rev={rev}&from={from}{}", if all { "&all=1" } else { "" })
    };
    html! {
        (session_header(context, Tab::History, true))
        nav .pages aria-label="Branches" {
            @if all { a href=(link(0, false)) { "this branch alone" } }
            @else { a href=(link(0, true)) { "with the other branches" } }
        }
        @if history.left_out > 0 {
            p .soft { (history.left_out) " older branches are not drawn: tract log --all --graph" }
        }
        table .history {
            thead { tr { th { span .hidden { "graph" } } th { "commit" } th { "what it did" } th .wide { "when" } } }
            tbody { @for entry in &history.entries { (row(entry)) } }
        }
        nav .pages aria-label="Pages" {
            @if from > 0 { a rel="prev" href=(link(from.saturating_sub(PAGE), all)) { "← newer" } }
            @if history.has_more { a rel="next" href=(link(from + PAGE, all)) { "older →" } }
        }
    }
}

fn row(entry: &HistoryEntry) -> Markup {
    let id = entry.commit.id();
    let changes = !matches!(entry.commit.op, Op::Append { .. } | Op::Tools | Op::Note);
    html! {
        tr tabindex="-1" id=(format!("c{}", id.short())) {
            td { (graph(&entry.rows)) }
            td {
                a href=(format!("/transcript?rev={id}")) { (id.short()) }
                @for branch in &entry.branches {
                    " " a .tag href=(format!("/transcript?rev={}", query(branch))) { (visible(branch)) }
                }
            }
            td {
                b { (visible(&entry.line.label)) } " "
                @if changes && entry.commit.parent().is_some() {
                    a href=(format!("/compare?a={id}~1&b={id}")) { "what it changed" } " "
                }
                span .soft { (visible(&entry.line.text)) }
            }
            td .wide .soft { (times::minute(entry.commit.created_at, "")) }
        }
    }
}

/// Draws the rows of one commit.
fn graph(rows: &[GraphRow]) -> Markup {
    let columns = rows.iter().map(|row| row.glyphs.len()).max().unwrap_or_default();
    let columns = columns.min(MOST_COLUMNS);
    let (width, height) = (columns * CELL + CELL, rows.len() * ROW);
    html! {
        svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) aria-hidden="true" {
            @for (number, row) in rows.iter().enumerate() {
                @for (column, glyph) in row.glyphs.iter().take(MOST_COLUMNS).enumerate() {
                    @let (left, top) = (column * CELL, number * ROW);
                    @let (right, bottom) = (left + CELL, top + ROW);
                    @let middle = left + CELL / 2;
                    @let color = format!("line-{}", glyph.line % COLORS);
                    @match glyph.symbol {
                        '*' => {
                            line class=(color) x1=(middle) x2=(middle) y1=(top) y2=(bottom) {}
                            circle class=(color) cx=(middle) cy=(top + ROW / 2) r="4" {}
                        }
                        '|' => line class=(color) x1=(middle) x2=(middle) y1=(top) y2=(bottom) {},
                        '/' => line class=(color) x1=(right) x2=(left) y1=(top) y2=(bottom) {},
                        '\\' => line class=(color) x1=(left) x2=(right) y1=(top) y2=(bottom) {},
                        '_' => line class=(color) x1=(left) x2=(right) y1=(bottom) y2=(bottom) {},
                        _ => {}
                    }
                }
            }
        }
    }
}

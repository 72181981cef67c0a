//! The pages: functions from loaded data to HTML.

mod cache;
mod compare;
mod figures;
mod history;
mod pending;
mod requests;
mod search;
mod sessions;
mod tools;
mod transcript;
mod usage;
mod window;

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tract_core::Part;
use tract_core::text::{compact, count, duration, file_name, model_name, number};
use tract_engine::SessionSummary;

pub(crate) use self::cache::{cache, session_cache};
pub(crate) use self::compare::{Compared, compare};
pub(crate) use self::history::{PAGE as HISTORY, history};
pub(crate) use self::pending::pending;
pub(crate) use self::requests::{RequestForm, requests};
pub(crate) use self::search::{HITS, search};
pub(crate) use self::sessions::{SessionFilter, SessionOrder, sessions};
pub(crate) use self::tools::tools;
pub(crate) use self::transcript::{PAGE as TRANSCRIPT, TranscriptOptions, transcript, unreadable};
pub(crate) use self::usage::{session_cost, usage};
pub(crate) use self::window::window;

use crate::load::LoadedContext;
use crate::text::{query, visible};
use crate::times;

pub(crate) const STYLE: &str = include_str!("../assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/script.js");

/// The actions that the pages of a server offer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    ReadOnly,
    /// Pending approvals can be decided.
    Decisions,
}

/// Builds a page of the server. `live` is the URL at which the page checks for changes.
pub(crate) fn page(
    title: &str,
    live: Option<&str>,
    access: Option<Access>,
    main: &Markup,
) -> Markup {
    let title = crate::text::visible(title);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · tract" }
                link rel="stylesheet" href="/style.css";
                script src="/script.js" defer {}
            }
            body data-live=[live] {
                a .skip href="#main" { "Skip to the content" }
                header .site {
                    a .brand href="/" { "tract" }
                    nav aria-label="Pages of the store" {
                        a href="/" { "Sessions" }
                        a href="/usage" { "Cost" }
                        a href="/cache" { "Cache" }
                        a href="/pending" { "Pending" }
                    }
                    form method="get" action="/search" role="search" {
                        label { span .hidden { "Search in all messages" } input type="search" name="words" placeholder="Search all messages"; }
                    }
                    @if live.is_some() { span #live role="status" {} }
                    @match access {
                        Some(Access::ReadOnly) => span .soft .small { "read-only" },
                        Some(Access::Decisions) => span .tag .changed { "decisions allowed" },
                        None => {}
                    }
                }
                main #main { (main) }
                (keys())
            }
        }
    }
}

/// The keys, shown when `?` is pressed.
fn keys() -> Markup {
    const KEYS: [(&str, &str); 6] = [
        ("j k", "next and previous message"),
        ("[ ]", "previous and next page"),
        ("g G", "top and end"),
        ("/", "filter or search"),
        ("o", "fold and unfold the message"),
        ("?", "these keys"),
    ];
    html! {
        dialog #keys aria-label="Keys" {
            dl { @for (key, does) in KEYS { div { dt { kbd { (key) } } dd { (does) } } } }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// Builds a page that works without a server.
pub(crate) fn whole_file(title: &str, policy: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main #main { (main) }
                (keys())
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The pages about one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Transcript,
    History,
    Window,
    Tools,
    Cost,
    Cache,
    Requests,
}

impl Tab {
    const ALL: [(Self, &str, &str); 7] = [
        (Self::Transcript, "transcript", "Transcript"),
        (Self::History, "history", "Changes"),
        (Self::Window, "window", "Window"),
        (Self::Tools, "tools", "Tools"),
        (Self::Cost, "cost", "Cost"),
        (Self::Cache, "cache", "Cache"),
        (Self::Requests, "requests", "Requests"),
    ];
}

/// The title and the facts of a session, and the links to its pages, if there is a server for them.
pub(crate) fn session_header(context: &LoadedContext, tab: Tab, linked: bool) -> Markup {
    let tokens = context.compiled.token_count();
    let revision = query(&context.revision);
    html! {
        header .session {
            div .session-title {
                h1 title=(visible(&context.name())) { (visible(&context.name())) }
                p .facts {
                    @if let Some(session) = &context.session { (session_facts(session)) }
                    span { (count(context.compiled.message_count(), "message")) }
                    span { (count(context.compiled.tools().len(), "tool")) }
                    span title=(format!("{} tokens, {}", number(tokens.count), tokens.source)) {
                        (compact(tokens.count)) " tokens"
                    }
                    (details(context))
                }
            }
            @if linked {
                nav .tabs aria-label="Pages of the session" {
                    @for (one, path, name) in Tab::ALL {
                        a href=(format!("/{path}?rev={revision}")) aria-current=[(one == tab).then_some("page")] { (name) }
                    }
                }
            }
        }
    }
}

fn session_facts(session: &SessionSummary) -> Markup {
    html! {
        @if let Some(path) = &session.project { span title=(visible(path)) { (visible(file_name(path))) } }
        @if let Some(tool) = &session.tool { span { (visible(tool)) } }
        @if let Some(model) = &session.model { span title=(visible(model)) { (visible(model_name(model))) } }
        @if session.started_at.is_some() {
            span {
                (times::minute(session.started_at, ""))
                @if let Some(took) = session.duration_us().filter(|took| *took > 0) { ", " (duration(took)) }
            }
        }
    }
}

/// The names of a session in the store and in its tool, folded.
fn details(context: &LoadedContext) -> Markup {
    let session = context.session.as_ref();
    let id = session.and_then(|session| session.session.as_deref());
    let parent = session.and_then(|session| session.parent.as_ref());
    let parent = parent.and_then(|parent| Some((parent.kind.as_str(), parent.branch.as_deref()?)));
    html! {
        details .names {
            summary { "Names" }
            dl {
                div { dt { @if context.is_branch { "Branch" } @else { "Revision" } } dd { code { (visible(&context.revision)) } } }
                div { dt { "Commit" } dd { code { (context.head) } } }
                @if let Some(id) = id { div { dt { "Session" } dd { code { (visible(id)) } } } }
                @if let Some((kind, branch)) = parent {
                    div { dt { (kind) " of" } dd { a href=(format!("/transcript?rev={}", query(branch))) { (visible(branch)) } } }
                }
            }
        }
    }
}

/// Writes a part as text, followed by a line break.
pub(crate) fn part_text(part: &Part, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match part {
        Part::Text { text } | Part::Reasoning { text, .. } => writeln!(out, "{text}"),
        Part::ToolCall(call) => writeln!(out, "{}({})", call.name, call.arguments),
        Part::Image { media_type, .. } => {
            writeln!(out, "(image {})", media_type.as_deref().unwrap_or("of unknown type"))
        }
        Part::Opaque { dialect, json } => writeln!(out, "({dialect}) {json}"),
    };
}

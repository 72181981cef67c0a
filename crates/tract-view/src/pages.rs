//! The pages: functions from loaded data to HTML.

mod compare;
mod conversations;
mod history;
mod pending;
mod search;
mod tools;
mod transcript;
mod usage;
mod window;

use std::fmt::Write;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tract_core::{Part, time};

pub(crate) use self::compare::compare;
pub(crate) use self::conversations::{PAGE as CONVERSATIONS, conversations};
pub(crate) use self::history::{PAGE as HISTORY, history};
pub(crate) use self::pending::pending;
pub(crate) use self::search::{HITS, search, search_form};
pub(crate) use self::tools::tools;
pub(crate) use self::transcript::{PAGE as TRANSCRIPT, TranscriptOptions, transcript, unreadable};
pub(crate) use self::usage::usage;
pub(crate) use self::window::window;

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
                header {
                    strong { a href="/" { "tract" } }
                    a href="/usage" { "usage" }
                    a href="/pending" { "pending" }
                    @match access {
                        Some(Access::ReadOnly) => span .soft { "read-only" },
                        Some(Access::Decisions) => span .changed { "decisions allowed" },
                        None => {}
                    }
                    @if live.is_some() { span #live role="status" {} }
                }
                main { (main) }
            }
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
                main { (main) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Formats a time, to the minute.
pub(crate) fn minute(at_us: i64) -> Option<String> {
    let at = time::format_rfc3339(at_us)?;
    Some(at.get(..16)?.replace('T', " "))
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

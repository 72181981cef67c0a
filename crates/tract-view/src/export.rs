//! Conversations as one HTML file, usable without a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use tract_engine::Repo;
use tract_engine::secrets::Scanner;

use crate::error::Result;
use crate::load;
use crate::pages::{self, SCRIPT, STYLE, TranscriptOptions};
use crate::text::visible;

/// Characters of each text in the file.
const MOST: usize = 1_000_000;

/// Conversations as one page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HtmlExport {
    /// The page.
    pub page: String,
    /// How many keys and passwords were replaced.
    pub redacted: usize,
}

/// Writes conversations into one file: every message of each revision, with style and script, and
/// nothing that a browser would load from elsewhere.
///
/// Keys and passwords are replaced with marks unless `redact` is false.
///
/// # Errors
/// When a revision is unknown, something is damaged, or the store fails.
pub async fn export(repo: &Repo, revisions: &[String], redact: bool) -> Result<HtmlExport> {
    let mut bodies: Vec<Markup> = Vec::with_capacity(revisions.len());
    let options = TranscriptOptions { most: MOST, linked: false };
    for revision in revisions {
        let context = load::context(repo, revision).await?;
        let count = context.compiled.message_count();
        let messages = load::messages(repo, &context.compiled, 1, count).await?;
        bodies.push(pages::transcript(&context, 1, &messages, options));
    }
    let title = match revisions {
        [one] => visible(one).into_owned(),
        many => format!("{} conversations", many.len()),
    };
    let many = revisions.len() > 1;
    let main = html! {
        @for (revision, body) in revisions.iter().zip(&bodies) {
            @if many {
                details { summary { b { (visible(revision)) } } (body) }
            } @else { (body) }
        }
    };
    let main = main.into_string();
    let redacted = if redact { Scanner::builtin().redact(&main) } else { None };
    let (main, redacted) = match redacted {
        Some(redacted) => (redacted.text, redacted.found.len()),
        None => (main, 0),
    };
    let page = pages::whole_file(&title, &policy(), &PreEscaped(main)).into_string();
    Ok(HtmlExport { page, redacted })
}

/// What the file may do: run its own script and style, by their hashes, and show the pictures in it.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

//! Conversations as one HTML file, usable without a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use sha2::{Digest, Sha256};
use tract_core::Message;
use tract_engine::secrets::Scanner;
use tract_engine::{Repo, redact_content};

use crate::error::Result;
use crate::load;
use crate::pages::{self, SCRIPT, STYLE, TranscriptOptions};
use crate::text::visible;

/// Maximum characters of each text in the file.
const MOST: usize = 1_000_000;

/// An exported page.
#[derive(Clone, Debug)]
pub struct HtmlExport {
    /// The HTML of the page.
    pub page: String,
    /// The number of redacted keys and passwords.
    pub redacted: usize,
}

/// Writes conversations to one HTML page: every message of each revision, with style and script. A
/// browser loads nothing else.
///
/// Keys and passwords are redacted unless `redact` is false.
///
/// # Errors
/// If a revision is unknown, data is damaged, or the store fails.
pub async fn export(repo: &Repo, revisions: &[String], redact: bool) -> Result<HtmlExport> {
    let mut bodies: Vec<(Option<String>, Markup)> = Vec::with_capacity(revisions.len());
    let mut redacted = 0;
    for (part, revision) in revisions.iter().enumerate() {
        let mut context = load::context(repo, revision).await?;
        if redact {
            // A title may be the first prompt.
            let sessions = context.session.iter_mut().chain(context.subagents.values_mut());
            redacted += sessions.map(|session| redact_name(&mut session.title)).sum::<usize>();
        }
        let mut messages: Vec<Message> = context.compiled.messages().cloned().collect();
        for message in messages.iter_mut().filter(|_| redact) {
            if let Some(done) = redact_content(&message.content, Scanner::builtin()) {
                redacted += done.kinds.len();
                message.content = done.content;
            }
        }
        let shown = load::messages(repo, messages.iter(), 1, messages.len()).await?;
        let subagents = &context.subagents;
        let options = TranscriptOptions { most: MOST, linked: false, part, subagents };
        let name = visible(&context.name()).into_owned();
        let title = (name != *revision).then_some(name);
        bodies.push((title, pages::transcript(&context, 1, &shown, options)));
    }
    let title = match (revisions, bodies.as_slice()) {
        (_, [(Some(title), _)]) => title.clone(),
        ([one], _) => visible(one).into_owned(),
        (many, _) => format!("{} conversations", many.len()),
    };
    let many = bodies.len() > 1;
    let main = html! {
        @for (revision, (title, body)) in revisions.iter().zip(&bodies) {
            @if many {
                details {
                    summary { b { (visible(revision)) } @if let Some(title) = title { " " (title) } }
                    (body)
                }
            } @else { (body) }
        }
    };
    let page = pages::whole_file(&title, &policy(), &main).into_string();
    Ok(HtmlExport { page, redacted })
}

/// Redacts a title. Returns the number of keys and passwords in it.
fn redact_name(title: &mut Option<String>) -> usize {
    let done = title.as_deref().and_then(|text| Scanner::builtin().redact(text));
    let count = done.as_ref().map_or(0, |done| done.found.len());
    if let Some(done) = done {
        *title = Some(done.text);
    }
    count
}

/// The content security policy of the file. It allows the file's own script and style, by their
/// hashes, and its images.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

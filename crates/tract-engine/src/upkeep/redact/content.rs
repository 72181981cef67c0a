//! Replaces the secrets of a message with marks.

use tract_core::{Content, ImageSource, JsonText, Part};
use tract_secrets::{Scanner, SecretKind};

use crate::plan::json_string;

/// A content with its secrets replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactedContent {
    /// The content, with a mark in place of each secret.
    pub content: Content,
    /// The kinds of the secrets that were replaced, in order.
    pub kinds: Vec<SecretKind>,
}

/// Replaces the secrets of a content; `None` if it contains no secrets.
///
/// # Behavior
/// - Searches texts, reasoning, arguments of calls, results, artifacts, notes and URLs of images.
/// - Leaves names and ids of calls, embedded images, signatures and encrypted content unchanged.
///   Reasoning whose text changes loses its signature, which would be invalid.
///
/// ```
/// use tract_core::Content;
/// use tract_secrets::Scanner;
/// let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
/// let content = Content::user(format!("my token is {key}"));
/// let redacted = tract_engine::redact_content(&content, Scanner::builtin()).expect("it has one");
/// assert_eq!(redacted.content.text(), "my token is [redacted:github-token:ed12f64e]");
/// ```
pub fn redact_content(content: &Content, scanner: &Scanner) -> Option<RedactedContent> {
    let mut kinds = Vec::new();
    let content = redact_with(content, &mut |text, is_json| {
        let redacted = if is_json { scanner.redact_json(text) } else { scanner.redact(text) };
        redacted.map(|redacted| {
            kinds.extend(redacted.found.iter().map(|secret| secret.kind));
            redacted.text
        })
    })?;
    Some(RedactedContent { content, kinds })
}

/// Replaces texts of a content; `None` if nothing changes. `replace` receives each text and whether
/// it is JSON, and returns the new text, or `None` to leave it.
///
/// If a note is not valid JSON after the replacement, it is stored as a JSON string of the new
/// text.
pub fn redact_with(
    content: &Content,
    replace: &mut dyn FnMut(&str, bool) -> Option<String>,
) -> Option<Content> {
    let mut new = content.clone();
    let changed = match &mut new {
        Content::Artifact(artifact) => text(&mut artifact.text, false, replace),
        Content::Note(note) => match replace(note.as_str(), true) {
            Some(json) => {
                *note = JsonText::new(&json).unwrap_or_else(|_| json_string(&json));
                true
            }
            None => false,
        },
        content => content.parts_mut().is_some_and(|all| parts(all, replace)),
    };
    changed.then_some(new)
}

fn parts(parts: &mut [Part], replace: &mut dyn FnMut(&str, bool) -> Option<String>) -> bool {
    let mut changed = false;
    for part in parts {
        changed |= match part {
            Part::Text { text: value } => text(value, false, replace),
            Part::ToolCall(call) => text(&mut call.arguments, true, replace),
            Part::Reasoning { text: thought, signature, .. } => {
                let changed = text(thought, false, replace);
                if changed {
                    *signature = None;
                }
                changed
            }
            Part::Opaque { json, .. } => text(json, true, replace),
            Part::Image { source: ImageSource::Url(url), .. } => text(url, false, replace),
            Part::Image { source: ImageSource::Base64(_) | ImageSource::File(_), .. } => false,
        };
    }
    changed
}

fn text(
    text: &mut String,
    is_json: bool,
    replace: &mut dyn FnMut(&str, bool) -> Option<String>,
) -> bool {
    match replace(text, is_json) {
        Some(new) => {
            *text = new;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use tract_core::{Body, ToolAnswer};

    use super::*;

    fn key() -> String {
        format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a")
    }

    #[test]
    fn every_kind_of_text_is_searched_and_what_only_a_provider_reads_is_not() {
        let key = key();
        let parts = vec![
            Part::text(format!("a {key}")),
            Part::call("id", "name", format!(r#"{{"token":"{key}"}}"#)),
            Part::Reasoning {
                text: format!("b {key}"),
                signature: Some("signed".to_owned()),
                encrypted: Some(key.clone()),
            },
            Part::Reasoning {
                text: "no secret".to_owned(),
                signature: Some(key.clone()),
                encrypted: None,
            },
            Part::Opaque {
                dialect: "anthropic".to_owned(),
                json: format!(r#"{{"text":"{key}","signature":"{key}"}}"#),
            },
            Part::Image {
                media_type: None,
                source: ImageSource::Url(format!("https://a/?k={key}")),
            },
        ];
        let answer = ToolAnswer {
            call_id: "id".to_owned(),
            name: None,
            is_error: false,
            parts: parts.clone(),
        };
        for content in [Content::Assistant(Body { parts, name: None }), Content::ToolResult(answer)]
        {
            let redacted = redact_content(&content, Scanner::builtin()).expect("it has some");
            assert_eq!(redacted.kinds.len(), 5);
            let blob = redacted.content.to_blob().expect("canonical");
            assert_eq!(blob.matches(&key).count(), 3, "{blob}");
            assert!(!blob.contains("signed"), "{blob}");
            assert_eq!(redact_content(&redacted.content, Scanner::builtin()), None);
        }
        let note = Content::Note(JsonText::new(&format!(r#"{{"a":"{key}"}}"#)).expect("JSON"));
        let redacted = redact_content(&note, Scanner::builtin()).expect("it has one");
        assert!(redacted.content.text().starts_with(r#"{"a":"[redacted:"#));
        assert_eq!(redact_content(&Content::user("plain"), Scanner::builtin()), None);
    }

    #[test]
    fn a_note_that_a_pattern_breaks_is_kept_as_text() {
        let note = Content::Note(JsonText::new(r#"{"a":1}"#).expect("JSON"));
        let scanner = Scanner::empty().with_pattern(r#"\{"a":"#).expect("valid");
        let redacted = redact_content(&note, &scanner).expect("it matches");
        assert!(redacted.content.text().starts_with("\"[redacted:pattern:"));
    }
}

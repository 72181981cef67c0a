//! Whether a text has what is to be erased, and the text without it.

use std::ops::Range;

use tract_core::{Content, Part};
use tract_secrets::{Scanner, SecretKind, find_through_escapes};

use crate::plan::json_string;
use crate::upkeep::redact::{redact_content, redact_with};

/// Shorter texts are found in too much that has nothing to do with them.
const SHORTEST: usize = 16;

pub(super) enum Search {
    /// Whole texts of the erased messages, and their replacement.
    Texts {
        texts: Vec<String>,
        mark: String,
    },
    Secrets(Scanner),
}

/// A match in a text.
pub(super) enum Hit {
    Text,
    Secrets(Vec<SecretKind>),
}

impl Hit {
    pub(super) fn kinds(self) -> Vec<SecretKind> {
        match self {
            Self::Text => Vec::new(),
            Self::Secrets(kinds) => kinds,
        }
    }
}

impl Search {
    /// Searches for the texts of contents. Short texts are erased where they are, and not elsewhere.
    pub(super) fn texts(contents: &[Content], mark: String) -> Self {
        let mut texts: Vec<String> = contents
            .iter()
            .flat_map(texts_of)
            .map(|text| text.trim().to_owned())
            .filter(|text| text.len() >= SHORTEST)
            .collect();
        // The longest first, so that none is left of which a part was replaced.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self::Texts { texts, mark }
    }

    /// Returns the replacement of an erased text.
    pub(super) fn mark(&self) -> String {
        match self {
            Self::Texts { mark, .. } => mark.clone(),
            Self::Secrets(_) => String::new(),
        }
    }

    /// Searches a text, also behind escapes.
    pub(super) fn in_text(&self, text: &str) -> Option<Hit> {
        match self {
            Self::Texts { texts, .. } => (!places(texts, text).is_empty()).then_some(Hit::Text),
            Self::Secrets(scanner) => secrets(scanner.find(text)),
        }
    }

    /// Searches stored bytes: JSON, as a rule, in which texts have escapes.
    pub(super) fn in_bytes(&self, bytes: &[u8]) -> Option<Hit> {
        match self {
            Self::Texts { texts, .. } if texts.is_empty() => None,
            Self::Texts { .. } => self.in_text(&String::from_utf8_lossy(bytes)),
            Self::Secrets(scanner) => {
                secrets(scanner.find_in_json(&String::from_utf8_lossy(bytes)))
            }
        }
    }

    /// Returns a content without the text; `None` when the text is not in it.
    pub(super) fn content(&self, content: &Content) -> Option<Content> {
        match self {
            Self::Texts { .. } => redact_with(content, &mut |text, is_json| {
                if is_json { self.arguments(text) } else { self.replaced(text, false) }
            }),
            Self::Secrets(scanner) => Some(redact_content(content, scanner)?.content),
        }
    }

    /// Returns a text without it, with all else as it was. In JSON, and behind escapes, the mark has
    /// no character that would need escapes of its own.
    fn replaced(&self, text: &str, is_json: bool) -> Option<String> {
        let Self::Texts { texts, mark } = self else { return None };
        let found = places(texts, text);
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (range, level) in &found {
            out.push_str(text.get(from..range.start).unwrap_or_default());
            match is_json || *level > 0 {
                true => out.push_str(&plain(mark)),
                false => out.push_str(mark),
            }
            from = range.end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        (!found.is_empty()).then_some(out)
    }

    /// Returns a JSON text without it, with all else as it was; `None` when it is not in it.
    pub(super) fn json(&self, json: &str) -> Option<String> {
        match self {
            Self::Texts { .. } => self.replaced(json, true),
            Self::Secrets(scanner) => scanner.redact_json(json).map(|redacted| redacted.text),
        }
    }

    /// Returns the arguments of a call without it. Where it is written in an unusual way, nothing of
    /// them is left.
    fn arguments(&self, json: &str) -> Option<String> {
        let replaced = self.json(json);
        let left = replaced.as_deref().unwrap_or(json);
        match self.in_bytes(left.as_bytes()) {
            Some(_) => Some("{}".to_owned()),
            None => replaced,
        }
    }
}

/// Finds texts in another one and behind its escapes: where they are written, in order and without
/// overlap, and how many levels of escapes they are behind. Of two that begin together, the longer.
fn places(texts: &[String], text: &str) -> Vec<(Range<usize>, usize)> {
    let mut found = find_through_escapes(text, |level, text| {
        let found = texts.iter().flat_map(|searched| text.match_indices(searched.as_str()));
        found.map(|(at, found)| (at..at + found.len(), level)).collect()
    });
    found.sort_by_key(|(range, level)| (range.start, std::cmp::Reverse(range.end), *level));
    let mut end = 0;
    found.retain(|(range, _)| {
        let is_free = range.start >= end;
        end = if is_free { range.end } else { end };
        is_free
    });
    found
}

/// Returns a mark that is written the same at every level of escapes.
fn plain(mark: &str) -> String {
    let plain = |character| match character {
        '"' => '\'',
        '\\' => '/',
        character if character.is_control() => ' ',
        character => character,
    };
    mark.chars().map(plain).collect()
}

fn secrets(found: Vec<tract_secrets::SecretMatch>) -> Option<Hit> {
    let kinds: Vec<SecretKind> = found.into_iter().map(|secret| secret.kind).collect();
    (!kinds.is_empty()).then_some(Hit::Secrets(kinds))
}

fn texts_of(content: &Content) -> Vec<String> {
    let mut texts = vec![content.text()];
    for part in content.parts() {
        match part {
            Part::Text { text } | Part::Reasoning { text, .. } => texts.push(text.clone()),
            Part::ToolCall(call) => texts.push(call.arguments.clone()),
            Part::Image { .. } | Part::Opaque { .. } => {}
        }
    }
    texts
}

/// Returns a content whose texts are replaced by the mark; calls and their ids stay.
pub(super) fn emptied(content: &Content, mark: &str) -> Content {
    let mut content = content.clone();
    if let Some(parts) = content.parts_mut() {
        let calls = parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(Part::call(&call.id, &call.name, "{}")),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::Reasoning { .. }
            | Part::Opaque { .. } => None,
        });
        *parts = std::iter::once(Part::text(mark)).chain(calls).collect();
    }
    if let Content::Artifact(artifact) = &mut content {
        mark.clone_into(&mut artifact.text);
    }
    if let Content::Note(json) = &mut content {
        *json = json_string(mark);
    }
    content
}

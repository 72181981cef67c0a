//! Searches texts for the erased passages, and removes them.

use std::ops::Range;

use tract_core::{Content, Part};
use tract_secrets::{Scanner, SecretKind, find_through_escapes};

use crate::plan::json_string;
use crate::upkeep::redact::{redact_content, redact_with};

/// Minimum length in bytes of a text that is searched for elsewhere. Shorter texts also occur in
/// unrelated messages.
const SHORTEST: usize = 16;

pub(super) enum Search {
    /// Whole texts of the erased messages, and the mark that replaces them.
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
    /// Searches for the texts of contents. Short texts are erased in the named messages only.
    pub(super) fn texts(contents: &[Content], mark: String) -> Self {
        let mut texts: Vec<String> = contents
            .iter()
            .flat_map(texts_of)
            .map(|text| text.trim().to_owned())
            .filter(|text| text.len() >= SHORTEST)
            .collect();
        // The longest first, so that replacing a part of a text cannot keep the whole from being
        // found.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self::Texts { texts, mark }
    }

    /// Returns the replacement of erased text.
    pub(super) fn mark(&self) -> String {
        match self {
            Self::Texts { mark, .. } => mark.clone(),
            Self::Secrets(_) => String::new(),
        }
    }

    /// Searches a text, including passages that are escaped in it.
    pub(super) fn in_text(&self, text: &str) -> Option<Hit> {
        match self {
            Self::Texts { texts, .. } => (!places(texts, text).is_empty()).then_some(Hit::Text),
            Self::Secrets(scanner) => secrets(scanner.find(text)),
        }
    }

    /// Searches stored bytes, usually JSON, in which texts are escaped.
    pub(super) fn in_bytes(&self, bytes: &[u8]) -> Option<Hit> {
        match self {
            Self::Texts { texts, .. } if texts.is_empty() => None,
            Self::Texts { .. } => self.in_text(&String::from_utf8_lossy(bytes)),
            Self::Secrets(scanner) => {
                secrets(scanner.find_in_json(&String::from_utf8_lossy(bytes)))
            }
        }
    }

    /// Returns a content without the text; `None` if the text does not occur in it.
    pub(super) fn content(&self, content: &Content) -> Option<Content> {
        match self {
            Self::Texts { .. } => redact_with(content, &mut |text, is_json| {
                if is_json { self.arguments(text) } else { self.replaced(text, false) }
            }),
            Self::Secrets(scanner) => Some(redact_content(content, scanner)?.content),
        }
    }

    /// Returns a text with the passages replaced and everything else unchanged. In JSON and in
    /// escaped passages, a mark without characters that need escaping is used.
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

    /// Returns a JSON text with the passages replaced and everything else unchanged; `None` if
    /// there are none.
    pub(super) fn json(&self, json: &str) -> Option<String> {
        match self {
            Self::Texts { .. } => self.replaced(json, true),
            Self::Secrets(scanner) => scanner.redact_json(json).map(|redacted| redacted.text),
        }
    }

    /// Returns the arguments of a call with the passages replaced. If one remains because it is
    /// encoded in an unusual way, all arguments are removed.
    fn arguments(&self, json: &str) -> Option<String> {
        let replaced = self.json(json);
        // Checked again after the replacement, on the whole text: bytes that stay in a store after
        // a reported erasure are worse than lost arguments.
        let left = replaced.as_deref().unwrap_or(json);
        match self.in_bytes(left.as_bytes()) {
            Some(_) => Some("{}".to_owned()),
            None => replaced,
        }
    }
}

/// Finds texts in another text, including escaped occurrences. Returns their ranges, in order and
/// without overlap, and the number of escape levels. Of two matches with the same start, the longer
/// one is returned.
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

/// Returns the mark without characters that need escaping, so that it is the same at every level.
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

/// Returns a content with all texts replaced by the mark; calls and their ids stay.
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

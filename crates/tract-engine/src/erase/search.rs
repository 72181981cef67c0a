//! Whether a text has what is to be erased, and the text without it.

use serde_json::Value;
use tract_core::{Content, Part};
use tract_secrets::{Scanner, SecretKind};

use crate::redact::{json_string, redact_content, redact_with};

/// Shorter texts are found in too much that has nothing to do with them.
const SHORTEST: usize = 16;
/// How deep a JSON text within a JSON text is followed.
const DEPTH: usize = 6;

pub(super) enum Search {
    /// Whole texts of what is erased, and what replaces them.
    Texts {
        texts: Vec<String>,
        mark: String,
    },
    Secrets(Scanner),
}

/// What was found in a text.
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

    /// Searches a text that is not JSON.
    pub(super) fn in_text(&self, text: &str) -> Option<Hit> {
        match self {
            Self::Texts { texts, .. } => {
                texts.iter().any(|searched| text.contains(searched.as_str())).then_some(Hit::Text)
            }
            Self::Secrets(scanner) => secrets(scanner.find(text)),
        }
    }

    /// Searches stored bytes: JSON, as a rule, in which texts have escapes.
    pub(super) fn in_bytes(&self, bytes: &[u8]) -> Option<Hit> {
        let text = String::from_utf8_lossy(bytes);
        match self {
            Self::Texts { texts, .. } if texts.is_empty() => None,
            Self::Texts { .. } => self.in_text(&text).or_else(|| {
                let value = serde_json::from_str(&text).ok()?;
                self.in_value(&value, DEPTH).then_some(Hit::Text)
            }),
            Self::Secrets(scanner) => secrets(scanner.find_in_json(&text)),
        }
    }

    fn in_value(&self, value: &Value, depth: usize) -> bool {
        match value {
            Value::String(text) => {
                self.in_text(text).is_some()
                    || (depth > 0
                        && text.trim_start().starts_with(['{', '[', '"'])
                        && serde_json::from_str(text)
                            .is_ok_and(|inner| self.in_value(&inner, depth - 1)))
            }
            Value::Array(values) => values.iter().any(|value| self.in_value(value, depth)),
            Value::Object(fields) => fields.values().any(|value| self.in_value(value, depth)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns what a message says without it; `None` when it is not in it.
    pub(super) fn content(&self, content: &Content) -> Option<Content> {
        match self {
            Self::Texts { .. } => redact_with(content, &mut |text, is_json| {
                if is_json { self.arguments(text) } else { self.replaced(text) }
            }),
            Self::Secrets(scanner) => Some(redact_content(content, scanner)?.content),
        }
    }

    fn replaced(&self, text: &str) -> Option<String> {
        let Self::Texts { texts, mark } = self else { return None };
        let mut out: Option<String> = None;
        for searched in texts {
            let now = out.as_deref().unwrap_or(text);
            if now.contains(searched.as_str()) {
                out = Some(now.replace(searched.as_str(), mark));
            }
        }
        out
    }

    /// Returns a JSON text without it, with all else as it was; `None` when it is not in it as JSON
    /// texts are usually written.
    pub(super) fn json(&self, json: &str) -> Option<String> {
        let Self::Texts { texts, mark } = self else {
            let Self::Secrets(scanner) = self else { return None };
            return scanner.redact_json(json).map(|redacted| redacted.text);
        };
        let mut out: Option<String> = None;
        for searched in texts {
            // As a string, as a string within a JSON text that is a string, and so on.
            let (mut searched, mut mark) = (searched.clone(), mark.clone());
            for _ in 0..DEPTH {
                (searched, mark) = (escaped(&searched), escaped(&mark));
                let now = out.as_deref().unwrap_or(json);
                if now.contains(searched.as_str()) {
                    out = Some(now.replace(searched.as_str(), &mark));
                }
            }
        }
        out
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

/// Returns a text as it is written between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
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

/// Returns a message with nothing left of what it said, but what pairs calls with results.
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

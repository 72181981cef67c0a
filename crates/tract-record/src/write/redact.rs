//! Redaction of secrets in turns.

use std::collections::BTreeMap;

use tract_core::{Draft, JsonText, ToolSchema};
use tract_secrets::{Scanner, SecretKind, redact_identifier, redact_members};

use crate::read::{Answer, RecordedTurn};

/// Replaces secrets by placeholders, and counts them.
pub(super) struct Redactor {
    scanner: Option<&'static Scanner>,
    counts: BTreeMap<&'static str, u64>,
}

impl Redactor {
    pub(super) fn new(scanner: Option<&'static Scanner>) -> Self {
        Self { scanner, counts: BTreeMap::new() }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Redacts all messages of a turn, including recorded ones, so that they compare equal to the
    /// redacted recording.
    pub(super) fn turn(&mut self, turn: &mut RecordedTurn) {
        let Some(scanner) = self.scanner else { return };
        for draft in &mut turn.system {
            tract_import::redact_draft(draft, scanner);
        }
        let identifiers = [&mut turn.thread.session, &mut turn.thread.agent, &mut turn.user_agent];
        for text in identifiers.into_iter().flatten() {
            if let Some(redacted) = redact_identifier(text) {
                *text = redacted;
            }
        }
        let redact = |draft: &mut Draft| tract_import::redact_draft(draft, scanner);
        for tool in turn.tools.iter_mut().flatten() {
            // Definitions of MCP servers contain credentials.
            if let Some((redacted, _)) = redact_members(tool.text())
                && let Ok(parsed) = ToolSchema::parse(&redacted)
            {
                *tool = parsed;
            }
            tract_import::redact_tool(tool, scanner);
        }
        turn.redacted = turn.messages.iter_mut().map(redact).collect();
        if let Some((redacted, _)) = redact_members(turn.parameters.as_str())
            && let Ok(parameters) = JsonText::new(&redacted)
        {
            turn.parameters = parameters;
        }
        if let Some(redacted) = scanner.redact_json(turn.parameters.as_str())
            && let Ok(parameters) = JsonText::new(&redacted.text)
        {
            turn.parameters = parameters;
        }
        if let Answer::Partial { partial, .. } = &mut turn.answer {
            // A secret may be split over several pieces of the raw stream.
            partial.raw = None;
            for text in [&mut partial.text, &mut partial.reasoning] {
                if let Some(redacted) = scanner.redact(text) {
                    *text = redacted.text;
                }
            }
            for call in &mut partial.calls {
                if let Some(redacted) = scanner.redact(&call.call.arguments) {
                    call.call.arguments = redacted.text;
                }
            }
            for choice in &mut partial.other_choices {
                if let Some(redacted) = scanner.redact_json(choice.as_str()) {
                    let text = JsonText::new(&redacted.text).or_else(|_| JsonText::new("null"));
                    *choice = text.expect("null has a canonical form");
                }
            }
        }
    }

    /// Redacts an answer.
    pub(super) fn reply(&mut self, mut draft: Draft) -> Draft {
        if let Some(scanner) = self.scanner {
            let kinds = tract_import::redact_draft(&mut draft, scanner);
            self.count(&kinds);
        }
        draft
    }

    /// Counts the secrets of messages that are written for the first time.
    pub(super) fn count(&mut self, kinds: &[SecretKind]) {
        for kind in kinds {
            *self.counts.entry(kind.as_str()).or_default() += 1;
        }
    }
}

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
        let mut members = vec![&mut turn.parameters];
        if let Answer::Whole { others: Some(others), .. } = &mut turn.answer {
            redact_answer(others);
            members.push(others);
        }
        for object in members {
            if let Some(redacted) = scanner.redact_json(object.as_str())
                && let Ok(redacted) = JsonText::new(&redacted.text)
            {
                *object = redacted;
            }
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

    /// Redacts the message of an answer.
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

/// Members of answers with log probabilities, in which `token` is a piece of the answer.
const LOG_PROBABILITIES: [&str; 3] = ["choices", "candidates", "logprobs"];

/// Redacts the members of an answer whose names identify credentials.
fn redact_answer(others: &mut JsonText) {
    let Ok(members) = tract_core::json::split_object(others.as_str()) else { return };
    let is_spared = |name: &str| LOG_PROBABILITIES.contains(&name);
    let written = |spared: bool| {
        let members = members.iter().filter(|(name, _)| is_spared(name) == spared);
        let members = members
            .filter_map(|(name, raw)| Some(format!("{}:{raw}", serde_json::to_string(name).ok()?)));
        members.collect::<Vec<_>>().join(",")
    };
    let Some((redacted, _)) = redact_members(&format!("{{{}}}", written(false))) else { return };
    let spared = written(true);
    let whole = match redacted.strip_suffix('}') {
        Some(start) if !spared.is_empty() => format!("{start},{spared}}}"),
        _ => redacted,
    };
    if let Ok(redacted) = JsonText::new(&whole) {
        *others = redacted;
    }
}

//! Secrets in recordings: they are replaced by marks before anything is stored.

use tract_core::{Draft, JsonText, ToolSchema};
use tract_engine::{RedactedContent, redact_content};
use tract_secrets::{Redacted, Scanner};

use crate::report::SessionReport;
use crate::tree::TreeEvent;

/// Puts marks in the place of secrets, in all that a commit will say. A message that is changed keeps
/// no bytes of the recording.
pub(crate) fn redact_event(event: &mut TreeEvent, scanner: &Scanner, report: &mut SessionReport) {
    match event {
        TreeEvent::Message { draft, .. }
        | TreeEvent::Summary { draft, .. }
        | TreeEvent::Edit { draft, .. } => redact_draft(draft, scanner, report),
        TreeEvent::Note { message, content, metadata, .. } => {
            redact_text(message, scanner, report);
            *content = redact_json(content, scanner, report);
            redact_some_json(metadata, scanner, report);
        }
        TreeEvent::Branch { .. } | TreeEvent::Skip { .. } => {}
    }
}

fn redact_draft(draft: &mut Draft, scanner: &Scanner, report: &mut SessionReport) {
    let redacted = redact_content(&draft.content, scanner);
    // The bytes may say more than the content, such as members that no kind has.
    let verbatim = draft.verbatim.as_ref().map(|blob| String::from_utf8_lossy(blob.bytes()));
    let has_more = verbatim.is_some_and(|text| !scanner.find_in_json(&text).is_empty());
    if redacted.is_some() || has_more {
        draft.verbatim = None;
    }
    if let Some(RedactedContent { content, kinds, .. }) = redacted {
        draft.content = content;
        for kind in kinds {
            *report.redacted.entry(kind.as_str()).or_default() += 1;
        }
    }
    for json in [&mut draft.metadata, &mut draft.generation_config, &mut draft.retention] {
        redact_some_json(json, scanner, report);
    }
    for text in [&mut draft.message, &mut draft.origin.id].into_iter().flatten() {
        redact_text(text, scanner, report);
    }
    for tool in draft.tools.iter_mut().flatten() {
        redact_tool(tool, scanner, report);
    }
}

/// Replaces the secrets of a tool's definition; one that is no JSON after that becomes empty.
fn redact_tool(tool: &mut ToolSchema, scanner: &Scanner, report: &mut SessionReport) {
    let Some(redacted) = scanner.redact_json(tool.text()) else { return };
    count(&redacted, report);
    let parsed = ToolSchema::parse(&redacted.text).or_else(|_| ToolSchema::parse("{}"));
    *tool = parsed.expect("an empty object is a schema");
}

fn redact_some_json(json: &mut Option<JsonText>, scanner: &Scanner, report: &mut SessionReport) {
    if let Some(text) = json {
        *text = redact_json(text, scanner, report);
    }
}

/// Replaces the secrets of a JSON text; one that is no JSON after that becomes `null`.
pub(crate) fn redact_json(
    text: &JsonText,
    scanner: &Scanner,
    report: &mut SessionReport,
) -> JsonText {
    let Some(redacted) = scanner.redact_json(text.as_str()) else { return text.clone() };
    count(&redacted, report);
    let text = JsonText::new(&redacted.text).or_else(|_| JsonText::new("null"));
    text.expect("null has a canonical form")
}

fn redact_text(text: &mut String, scanner: &Scanner, report: &mut SessionReport) {
    if let Some(redacted) = scanner.redact(text) {
        count(&redacted, report);
        *text = redacted.text;
    }
}

fn count(redacted: &Redacted, report: &mut SessionReport) {
    for secret in &redacted.found {
        *report.redacted.entry(secret.kind.as_str()).or_default() += 1;
    }
}

/// Replaces the secrets of what is reported of a session. They are counted where they are stored.
pub(crate) fn redact_report(report: &mut SessionReport, scanner: &Scanner) {
    let replace = |text: &mut String| {
        if let Some(redacted) = scanner.redact(text) {
            *text = redacted.text;
        }
    };
    replace(&mut report.session);
    report.title.as_mut().map(replace);
    let models = std::mem::take(&mut report.models);
    for (mut model, answers) in models {
        replace(&mut model);
        *report.models.entry(model).or_default() += answers;
    }
    let skipped = std::mem::take(&mut report.skipped);
    for (mut name, count) in skipped {
        replace(&mut name);
        *report.skipped.entry(name).or_default() += count;
    }
    for anomaly in &mut report.anomalies.listed {
        replace(&mut anomaly.what);
    }
}

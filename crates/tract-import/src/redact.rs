//! Replaces secrets in recordings by marks before anything is stored.

use tract_core::{Draft, JsonText, ToolSchema};
use tract_engine::{RedactedContent, redact_content};
use tract_secrets::{Redacted, Scanner, SecretKind};

use crate::report::SessionReport;
use crate::tree::TreeEvent;

/// Replaces the secrets in all data of a future commit by marks.
pub(crate) fn redact_event(event: &mut TreeEvent, scanner: &Scanner, report: &mut SessionReport) {
    match event {
        TreeEvent::Message { draft, .. }
        | TreeEvent::Summary { draft, .. }
        | TreeEvent::Edit { draft, .. } => count(redact_draft(draft, scanner), report),
        TreeEvent::Note { message, content, metadata, .. } => {
            count(redact_text(message, scanner), report);
            *content = redact_json(content, scanner, report);
            if let Some(metadata) = metadata {
                *metadata = redact_json(metadata, scanner, report);
            }
        }
        TreeEvent::Branch { .. } | TreeEvent::Resumed { .. } | TreeEvent::Skip { .. } => {}
    }
}

/// Replaces the secrets of a message by marks, in its content, its tools and its other recorded
/// data. Returns their kinds. A changed message does not keep the recording's bytes, and neither
/// does one whose bytes contain a secret that its content lacks.
pub fn redact_draft(draft: &mut Draft, scanner: &Scanner) -> Vec<SecretKind> {
    let redacted = redact_content(&draft.content, scanner);
    // The bytes may contain more than the content, such as unknown members.
    let verbatim = draft.verbatim.as_ref().map(|blob| String::from_utf8_lossy(blob.bytes()));
    let has_more = verbatim.is_some_and(|text| !scanner.find_in_json(&text).is_empty());
    if redacted.is_some() || has_more {
        draft.verbatim = None;
    }
    let mut found = Vec::new();
    if let Some(RedactedContent { content, kinds, .. }) = redacted {
        draft.content = content;
        found.extend(kinds);
    }
    for json in [&mut draft.metadata, &mut draft.generation_config, &mut draft.retention] {
        if let Some(text) = json
            && let Some((redacted, kinds)) = redacted_json(text, scanner)
        {
            *text = redacted;
            found.extend(kinds);
        }
    }
    for text in [&mut draft.message, &mut draft.origin.id].into_iter().flatten() {
        found.extend(redact_text(text, scanner));
    }
    for tool in draft.tools.iter_mut().flatten() {
        found.extend(redact_tool(tool, scanner));
    }
    found
}

/// Replaces the secrets of a tool's definition by marks. Returns their kinds. A definition that is
/// not JSON afterwards becomes empty.
pub fn redact_tool(tool: &mut ToolSchema, scanner: &Scanner) -> Vec<SecretKind> {
    let Some(redacted) = scanner.redact_json(tool.text()) else { return Vec::new() };
    let parsed = ToolSchema::parse(&redacted.text).or_else(|_| ToolSchema::parse("{}"));
    *tool = parsed.expect("an empty object is a schema");
    kinds(&redacted)
}

/// Replaces the secrets of a JSON text and counts them.
pub(crate) fn redact_json(
    text: &JsonText,
    scanner: &Scanner,
    report: &mut SessionReport,
) -> JsonText {
    let Some((redacted, kinds)) = redacted_json(text, scanner) else { return text.clone() };
    count(kinds, report);
    redacted
}

/// Replaces the secrets of a JSON text; one that is not JSON afterwards becomes `null`. Returns
/// `None` without secrets.
fn redacted_json(text: &JsonText, scanner: &Scanner) -> Option<(JsonText, Vec<SecretKind>)> {
    let redacted = scanner.redact_json(text.as_str())?;
    let text = JsonText::new(&redacted.text).or_else(|_| JsonText::new("null"));
    Some((text.expect("null has a canonical form"), kinds(&redacted)))
}

fn redact_text(text: &mut String, scanner: &Scanner) -> Vec<SecretKind> {
    let Some(redacted) = scanner.redact(text) else { return Vec::new() };
    let found = kinds(&redacted);
    *text = redacted.text;
    found
}

fn kinds(redacted: &Redacted) -> Vec<SecretKind> {
    redacted.found.iter().map(|secret| secret.kind).collect()
}

fn count(kinds: Vec<SecretKind>, report: &mut SessionReport) {
    for kind in kinds {
        *report.redacted.entry(kind.as_str()).or_default() += 1;
    }
}

/// Replaces the secrets in the report of a session. They are counted when they are stored.
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

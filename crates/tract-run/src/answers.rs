//! Answers of dispatch as messages.

use serde_json::{Value, json};
use tract_core::Part;
use tract_core::{Blob, By, Content, Draft, JsonText, Origin, ToolAnswer, ToolCall};
use tract_tools::dispatch::{CallAnswer, Recorded};

/// Makes the message that answers a call. How it ended, how long it took and what only the operator
/// reads are in its origin; where its arguments come from is in a blob that it keeps.
pub(crate) fn draft(answer: &CallAnswer) -> serde_json::Result<Option<Draft>> {
    let Some(content) = answer.content() else { return Ok(None) };
    let invoked = &answer.invoked;
    let provenance = Blob::seal(JsonText::of(&invoked.provenance)?.as_str().to_owned());
    let mut detail: Value = serde_json::to_value(&**invoked)?;
    let mut keeps = Vec::new();
    if let Value::Object(members) = &mut detail {
        members.insert("provenance".to_owned(), json!(provenance.id().to_hex()));
        // What the model reads says the value as a rule; what it does not is kept.
        members.remove("value");
        if let Some(value) =
            answer.value.as_ref().filter(|value| !answer.text.contains(value.as_str()))
        {
            let value = Blob::seal(value.as_str().to_owned());
            members.insert("value".to_owned(), json!(value.id().to_hex()));
            keeps.push(value);
        }
    }
    keeps.insert(0, provenance);
    let mut draft = Draft::new(content);
    draft.origin = Origin {
        id: Some(answer.tool_name.clone()),
        detail: Some(JsonText::of(&detail)?),
        ..By::Tool.into()
    };
    draft.keeps = keeps;
    Ok(Some(draft))
}

/// Makes the answer to a call that was answered earlier, on another branch or before an undo.
pub(crate) fn recorded(call: &ToolCall, answer: &Recorded) -> serde_json::Result<Draft> {
    let mut draft = Draft::new(Content::ToolResult(ToolAnswer {
        call_id: call.id.clone(),
        name: Some(call.name.clone()),
        is_error: answer.is_error,
        parts: vec![Part::text(&answer.text)],
    }));
    let mut detail = json!({ "call_id": call.id, "outcome": outcome_of(answer), "replayed": true });
    if let (Value::Object(members), Some(value)) = (&mut detail, &answer.value)
        && !answer.text.contains(value.as_str())
    {
        let value = Blob::seal(value.as_str().to_owned());
        members.insert("value".to_owned(), json!(value.id().to_hex()));
        draft.keeps.push(value);
    }
    let detail = JsonText::of(&detail)?;
    draft.origin = Origin { id: Some(call.name.clone()), detail: Some(detail), ..By::Tool.into() };
    Ok(draft)
}

/// Returns the word for how a recorded call ended.
pub(crate) fn outcome_of(answer: &Recorded) -> &'static str {
    if answer.is_error { "failed" } else { "succeeded" }
}

/// Makes the answer to a call that will not run any more.
pub(crate) fn given_up(call: &ToolCall, text: &str, outcome: &str) -> serde_json::Result<Draft> {
    let mut draft = Draft::new(Content::ToolResult(ToolAnswer {
        call_id: call.id.clone(),
        name: Some(call.name.clone()),
        is_error: true,
        parts: vec![Part::text(text)],
    }));
    let detail = JsonText::of(&json!({ "call_id": call.id, "outcome": outcome }))?;
    draft.origin = Origin { id: Some(call.name.clone()), detail: Some(detail), ..By::Tool.into() };
    Ok(draft)
}

//! Converts answers of dispatch to messages.

use serde_json::{Value, json};
use tract_core::{AuthorKind, Blob, Content, Draft, JsonText, Origin, Part, ToolAnswer, ToolCall};
use tract_tools::dispatch::{CallAnswer, Recorded};

/// Creates the message that answers a call. Its origin contains the outcome, the duration and the
/// text for the operator; the provenance of the arguments is in a separate blob.
pub(crate) fn draft(answer: &CallAnswer) -> serde_json::Result<Option<Draft>> {
    let Some(content) = answer.content() else { return Ok(None) };
    let invoked = &answer.invoked;
    let provenance = Blob::seal(JsonText::of(&invoked.provenance)?.as_str().to_owned());
    let mut detail: Value = serde_json::to_value(&**invoked)?;
    if let Value::Object(members) = &mut detail {
        members.insert("provenance".to_owned(), json!(provenance.id().to_hex()));
        members.remove("value");
    }
    let value = keep_value(&mut detail, answer.value.as_ref(), &answer.text);
    let mut draft = Draft::new(content);
    draft.origin = origin(&answer.tool_name, &detail)?;
    draft.keeps = [provenance].into_iter().chain(value).collect();
    Ok(Some(draft))
}

/// Creates the answer to a call that is not dispatched, because it was answered earlier, on another
/// branch or before an undo (`replayed`), or will never run.
pub(crate) fn undispatched(
    call: &ToolCall,
    answer: &Recorded,
    outcome: &str,
    replayed: bool,
) -> serde_json::Result<Draft> {
    let mut detail = json!({ "call_id": call.id, "outcome": outcome });
    if replayed {
        detail["replayed"] = json!(true);
    }
    let value = keep_value(&mut detail, answer.value.as_ref(), &answer.text);
    let mut draft = Draft::new(Content::ToolResult(ToolAnswer {
        call_id: call.id.clone(),
        name: Some(call.name.clone()),
        is_error: answer.is_error,
        parts: vec![Part::text(answer.text.as_str())],
    }));
    draft.origin = origin(&call.name, &detail)?;
    draft.keeps.extend(value);
    Ok(draft)
}

fn origin(tool: &str, detail: &Value) -> serde_json::Result<Origin> {
    let detail = Some(JsonText::of(detail)?);
    Ok(Origin { id: Some(tool.to_owned()), detail, ..AuthorKind::Tool.into() })
}

/// Records the value of an answer in the detail and returns its blob, unless the text for the model
/// contains it.
fn keep_value(detail: &mut Value, value: Option<&JsonText>, text: &str) -> Option<Blob> {
    let value = value.filter(|value| !text.contains(value.as_str()))?;
    let blob = Blob::seal(value.as_str().to_owned());
    detail.as_object_mut()?.insert("value".to_owned(), json!(blob.id().to_hex()));
    Some(blob)
}

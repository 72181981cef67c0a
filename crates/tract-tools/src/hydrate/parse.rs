//! From the text of the arguments to a value: strict, or by the tolerant profile.

use std::sync::Arc;

use serde_json::Value;
use tract_core::json::{JsonError, repeated_keys};

use super::provenance::{Edit, Json};
use super::{Stage, StageError, tolerant};

/// Arguments that are JSON.
pub(super) struct ParsedArguments {
    pub(super) value: Value,
    pub(super) text: Json,
    pub(super) edits: Vec<Edit>,
}

/// Reads strict JSON with white space around it; nothing at all means no arguments.
pub(super) fn strict(raw: &Arc<str>, limit: usize) -> Result<ParsedArguments, StageError> {
    if raw.len() > limit {
        let message = format!("expected at most {limit} bytes of arguments, found {}", raw.len());
        return Err(StageError::new(Stage::Parse, "too_large", "/", message));
    }
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        let value = Value::Object(serde_json::Map::new());
        return Ok(ParsedArguments { value, text: Json::parsed("{}"), edits: Vec::new() });
    }
    let value = unique(trimmed)?;
    let text: Arc<str> = if trimmed.len() == raw.len() { Arc::clone(raw) } else { trimmed.into() };
    Ok(ParsedArguments { value, text: Json::parsed(text), edits: Vec::new() })
}

/// Reads JSON in which no object has a name twice: what is checked here is the last of them, and a
/// server that the text goes to may read the first.
fn unique(text: &str) -> Result<Value, StageError> {
    let value = serde_json::from_str(text).map_err(|error| refused(text, &error))?;
    let mut twice = None;
    let read = repeated_keys(text, |place, name| {
        twice.get_or_insert_with(|| (place.to_owned(), tolerant::cut(name)));
    });
    if let Some((place, name)) = twice {
        let place = if place.is_empty() { place } else { format!(" in {place}") };
        let message =
            format!("expected each property once, found a duplicate property {name:?}{place}");
        return Err(StageError::new(Stage::Parse, DUPLICATE, "/", message)
            .note("readers differ in which of them counts: send one"));
    }
    let too_large =
        |error: JsonError| StageError::new(Stage::Parse, "too_large", "/", error.to_string());
    read.map(|()| value).map_err(too_large)
}

/// The code of a name that an object has twice.
const DUPLICATE: &str = "duplicate_property";

fn refused(text: &str, error: &serde_json::Error) -> StageError {
    let cause = error.to_string();
    if cause.contains("recursion limit") {
        let message = format!("expected at most 128 levels of arguments, found more ({cause})");
        return StageError::new(Stage::Parse, "too_deep", "/", message);
    }
    let message = format!("expected one JSON object, found text that is no JSON: {cause}");
    let refusal = StageError::new(Stage::Parse, "invalid_json", "/", message);
    let first = text.chars().next().unwrap_or_default();
    match first {
        '`' => refusal.note("send the object alone, without a code fence"),
        '{' if error.is_eof() => refusal.note("the text ends before the object does"),
        '{' if text.contains('\'') => refusal.note("write strings in double quotes"),
        _ => refusal.note("send one JSON object that fits the tool's schema"),
    }
}

/// Reads what strict reading refuses, by the tolerant profile.
pub(super) fn tolerantly(raw: &Arc<str>, limit: usize) -> Result<ParsedArguments, StageError> {
    let first = match strict(raw, limit) {
        // A text that holds the object's text.
        Ok(ParsedArguments { value: Value::String(inner), .. }) => {
            let edit = Edit::new("tolerant", "unwrapped_text", raw, &inner);
            let edit = Edit { offset: Some(0), ..edit };
            let inner: Arc<str> = inner.trim().into();
            return strict(&inner, limit)
                .map(|parsed| ParsedArguments { edits: vec![edit], ..parsed });
        }
        Ok(parsed) => return Ok(parsed),
        Err(error) if error.code == "invalid_json" => error,
        Err(error) => return Err(error),
    };
    let (text, edits) = match tolerant::mend(raw) {
        Ok(mended) => mended,
        Err(why) => return Err(first.note(format!("the tolerant profile gave up: {why}"))),
    };
    match unique(&text) {
        Ok(value) => Ok(ParsedArguments { value, text: Json::parsed(text), edits }),
        Err(error) if error.code == DUPLICATE => Err(error),
        Err(_) => Err(first.note("the tolerant profile could not make JSON of it either")),
    }
}

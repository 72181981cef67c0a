//! Parses the text of arguments, strictly or with the tolerant profile.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::provenance::{Edit, Json};
use super::{Stage, StageError, tolerant};

/// Arguments in JSON.
pub(super) struct ParsedArguments {
    pub(super) value: Value,
    pub(super) text: Json,
    pub(super) edits: Vec<Edit>,
}

/// Parses strict JSON, surrounded by optional white space. Empty text means no arguments.
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
    match serde_json::from_str(trimmed) {
        Ok(Unique(value)) => {
            let text: Arc<str> =
                if trimmed.len() == raw.len() { Arc::clone(raw) } else { trimmed.into() };
            Ok(ParsedArguments { value, text: Json::parsed(text), edits: Vec::new() })
        }
        Err(error) => Err(refused(trimmed, &error)),
    }
}

fn refused(text: &str, error: &serde_json::Error) -> StageError {
    let cause = error.to_string();
    if cause.contains("recursion limit") {
        let message = format!("expected at most 128 levels of arguments, found more ({cause})");
        return StageError::new(Stage::Parse, "too_deep", "/", message);
    }
    if cause.starts_with(TWICE) {
        let message = format!("expected each property once, found a {cause}");
        return StageError::new(Stage::Parse, "duplicate_property", "/", message)
            .note("readers differ in which of them counts: send one");
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

/// Parses text strictly, and if that fails, with the tolerant profile.
pub(super) fn tolerantly(raw: &Arc<str>, limit: usize) -> Result<ParsedArguments, StageError> {
    let first = match strict(raw, limit) {
        // A JSON string that contains the text of the object.
        Ok(ParsedArguments { value: Value::String(inner), .. }) => {
            let edit = Edit::new("tolerant", "unwrapped_text", raw, &inner);
            let edit = Edit { offset: Some(0), ..edit };
            let inner: Arc<str> = inner.trim().into();
            return strict(&inner, limit)
                .map(|parsed| ParsedArguments { edits: vec![edit], ..parsed });
        }
        Ok(parsed) => return Ok(parsed),
        // Only text that is not JSON is repaired. Text that is JSON and was refused, such as one
        // with a duplicate property, has a meaning, and a repair would have to guess it.
        Err(error) if error.code == "invalid_json" => error,
        Err(error) => return Err(error),
    };
    let (text, edits) = match tolerant::mend(raw) {
        Ok(mended) => mended,
        Err(why) => return Err(first.note(format!("the tolerant profile gave up: {why}"))),
    };
    match serde_json::from_str(&text) {
        Ok(Unique(value)) => Ok(ParsedArguments { value, text: Json::parsed(text), edits }),
        Err(error) if error.to_string().starts_with(TWICE) => Err(refused(&text, &error)),
        Err(_) => Err(first.note("the tolerant profile could not make JSON of it either")),
    }
}

/// The parser's message for a duplicate name in an object.
const TWICE: &str = "duplicate property";

/// A value whose objects have no duplicate names. With duplicates, validation would check the last
/// one, while a server that receives the text may read the first.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = super::tolerant::cut(&name);
                return Err(A::Error::custom(format_args!("{TWICE} {name:?}")));
            }
            let Unique(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

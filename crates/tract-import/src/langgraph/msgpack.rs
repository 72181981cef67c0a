//! msgpack as LangGraph writes it: extensions name a Python class and hold its dump.

use rmpv::Value as Packed;
use serde_json::{Map, Value, json};

/// Values within values that are read.
const MAX_DEPTH: usize = 96;

/// Decodes a value; `None` where the bytes are none.
pub(super) fn decode(bytes: &[u8]) -> Option<Value> {
    Some(plain(read(bytes)?, MAX_DEPTH))
}

fn read(mut bytes: &[u8]) -> Option<Packed> {
    rmpv::decode::read_value_with_max_depth(&mut bytes, MAX_DEPTH).ok()
}

/// A value as JSON. Bytes and what cannot be told are null.
fn plain(value: Packed, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    match value {
        Packed::Nil | Packed::Binary(_) => Value::Null,
        Packed::Boolean(value) => Value::Bool(value),
        Packed::Integer(value) => match (value.as_i64(), value.as_u64()) {
            (Some(value), _) => value.into(),
            (None, Some(value)) => value.into(),
            (None, None) => Value::Null,
        },
        Packed::F32(value) => f64::from(value).into(),
        Packed::F64(value) => value.into(),
        Packed::String(text) => text.into_str().map_or(Value::Null, Value::String),
        Packed::Array(values) => values.into_iter().map(|value| plain(value, depth)).collect(),
        Packed::Map(members) => {
            let member = |(key, value): (Packed, Packed)| {
                let key = match key {
                    Packed::String(text) => text.into_str()?,
                    other => other.to_string(),
                };
                Some((key, plain(value, depth)))
            };
            Value::Object(members.into_iter().filter_map(member).collect::<Map<_, _>>())
        }
        Packed::Ext(code, bytes) => class(code, &bytes, depth),
    }
}

/// A dump of a class, in the form that the JSON encoding has: `[module, class, dump, …]`.
fn class(code: i8, bytes: &[u8], depth: usize) -> Value {
    let Some(Packed::Array(fields)) = read(bytes) else { return Value::Null };
    let mut fields = fields.into_iter();
    let (Some(module), Some(name)) = (fields.next(), fields.next()) else { return Value::Null };
    let dump = fields.next().map_or(Value::Null, |dump| plain(dump, depth));
    match code {
        // One argument: what the class was made of, such as a set's list or an id's text.
        0 => dump,
        1..=5 => {
            let id = [plain(module, depth), plain(name, depth)];
            json!({ "lc": 2, "type": "constructor", "id": id, "kwargs": dump })
        }
        _ => Value::Null,
    }
}

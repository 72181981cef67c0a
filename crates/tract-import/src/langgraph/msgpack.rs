//! msgpack as LangGraph writes it: extensions contain the name of a Python class and its dump.

use std::borrow::Cow;

use rmpv::Value as Packed;
use serde_json::{Map, Value, json};

use crate::report::AnomalyKind;

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 96;

/// Maximum number of damaged places that are listed; the others are counted.
const LISTED: usize = 20;

/// Decodes a value; `None` for invalid bytes. Replacements are added to `damage`.
pub(super) fn decode(bytes: &[u8], damage: &mut Vec<(AnomalyKind, String)>) -> Option<Value> {
    let mut decoder = Decoder::default();
    let value = decoder.plain(read(bytes)?, MAX_DEPTH);
    let unlisted = decoder.count.saturating_sub(decoder.damage.len());
    let more = (unlisted > 0).then(|| format!("{unlisted} more places were replaced"));
    let all = decoder.damage.into_iter().chain(more);
    damage.extend(all.map(|what| (AnomalyKind::ReplacedText, what)));
    Some(value)
}

fn read(mut bytes: &[u8]) -> Option<Packed> {
    rmpv::decode::read_value_with_max_depth(&mut bytes, MAX_DEPTH).ok()
}

/// Converts values to JSON and records replacements.
#[derive(Default)]
struct Decoder {
    /// The current member, such as `channel_values.messages[0].kwargs.content`.
    member: String,
    damage: Vec<String>,
    count: usize,
}

impl Decoder {
    /// Decodes a value of the member.
    fn within(&mut self, step: &str, value: Packed, depth: usize) -> Value {
        let length = self.member.len();
        self.member.push_str(step);
        let value = self.plain(value, depth);
        self.member.truncate(length);
        value
    }

    /// Decodes a text. Half an emoji is invalid UTF-8: it is replaced by U+FFFD and the other text
    /// kept.
    fn text(&mut self, text: &[u8]) -> String {
        let decoded = String::from_utf8_lossy(text);
        if matches!(decoded, Cow::Owned(_)) {
            self.count += 1;
            if self.damage.len() < LISTED {
                let member = self.member.trim_start_matches('.');
                self.damage.push(format!("{member}: invalid UTF-8 was replaced"));
            }
        }
        decoded.into_owned()
    }

    /// Converts a value to JSON. Bytes and values without a JSON form become null.
    fn plain(&mut self, value: Packed, depth: usize) -> Value {
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
            Packed::String(text) => self.text(text.as_bytes()).into(),
            Packed::Array(values) => {
                let values = values.into_iter().enumerate();
                values.map(|(n, value)| self.within(&format!("[{n}]"), value, depth)).collect()
            }
            Packed::Map(members) => {
                let mut map = Map::new();
                for (key, value) in members {
                    let key = match key {
                        Packed::String(text) => self.text(text.as_bytes()),
                        other => other.to_string(),
                    };
                    let value = self.within(&format!(".{key}"), value, depth);
                    map.insert(key, value);
                }
                Value::Object(map)
            }
            Packed::Ext(code, bytes) => self.class(code, &bytes, depth),
        }
    }

    /// Converts a class dump to the form of the JSON encoding: `[module, class, dump, …]`.
    fn class(&mut self, code: i8, bytes: &[u8], depth: usize) -> Value {
        let Some(Packed::Array(fields)) = read(bytes) else { return Value::Null };
        let mut fields = fields.into_iter();
        let (Some(module), Some(name)) = (fields.next(), fields.next()) else { return Value::Null };
        let dump = fields.next().map_or(Value::Null, |dump| self.within(".kwargs", dump, depth));
        match code {
            // One argument: the class was constructed from it, such as a set's list or an id's
            // text.
            0 => dump,
            1..=5 => {
                let id = [self.plain(module, depth), self.plain(name, depth)];
                json!({ "lc": 2, "type": "constructor", "id": id, "kwargs": dump })
            }
            _ => Value::Null,
        }
    }
}

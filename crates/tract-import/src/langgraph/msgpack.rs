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
    let more = (unlisted > 0).then(|| format!("{unlisted} more places were replaced or not read"));
    damage.extend(decoder.damage);
    damage.extend(more.map(|what| (AnomalyKind::ReplacedText, what)));
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
    damage: Vec<(AnomalyKind, String)>,
    count: usize,
}

impl Decoder {
    fn note(&mut self, kind: AnomalyKind, what: &str) {
        self.count += 1;
        if self.damage.len() < LISTED {
            let member = self.member.trim_start_matches('.');
            self.damage.push((kind, format!("{member}: {what}")));
        }
    }

    /// Reports a value without a JSON form, if it is a message or in one. Other channels are not read.
    fn unread(&mut self, what: &str) -> Value {
        if [".kwargs", ".messages["].iter().any(|member| self.member.contains(member)) {
            self.note(AnomalyKind::UnreadableMessage, what);
        }
        Value::Null
    }

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
            self.note(AnomalyKind::ReplacedText, "invalid UTF-8 was replaced");
        }
        decoded.into_owned()
    }

    /// Converts a value to JSON. Bytes and values without a JSON form become null, and are reported.
    fn plain(&mut self, value: Packed, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else {
            return self.unread("a value within too many others is not read");
        };
        match value {
            Packed::Nil => Value::Null,
            Packed::Binary(_) => self.unread("bytes are not read"),
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
        let fields = match read(bytes) {
            Some(Packed::Array(fields)) => fields,
            // The reader of messages keeps what is not a class as its JSON.
            Some(other) if (0..=5).contains(&code) && !other.is_nil() => {
                return self.plain(other, depth);
            }
            _ => return self.unread("a value of an unknown kind is not read"),
        };
        let mut fields = fields.into_iter();
        let (Some(module), Some(name)) = (fields.next(), fields.next()) else {
            return self.unread("a value of an unknown kind is not read");
        };
        let dump = fields.next().map_or(Value::Null, |dump| self.within(".kwargs", dump, depth));
        match code {
            // One argument: the class was constructed from it, such as a set's list or an id's
            // text.
            0 => dump,
            1..=5 => {
                let id = [self.plain(module, depth), self.plain(name, depth)];
                json!({ "lc": 2, "type": "constructor", "id": id, "kwargs": dump })
            }
            _ => self.unread("a value of an unknown kind is not read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(content: Packed) -> Vec<u8> {
        let text = |text: &str| Packed::from(text);
        let kwargs = Packed::Map(vec![(text("content"), content), (text("type"), text("human"))]);
        let class = Packed::Array(vec![text("langchain"), text("HumanMessage"), kwargs]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &class).expect("it is written");
        let list = Packed::Array(vec![Packed::Ext(5, bytes)]);
        let state =
            Packed::Map(vec![(text("messages"), list), (text("other"), Packed::Binary(vec![1]))]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &state).expect("it is written");
        bytes
    }

    #[test]
    fn values_of_messages_that_are_not_read_are_reported_with_their_member() {
        for (content, what) in [
            (Packed::from("Hi"), None),
            (Packed::Nil, None),
            (Packed::Binary(vec![1, 2]), Some("bytes are not read")),
            (Packed::Ext(99, vec![0x90]), Some("a value of an unknown kind is not read")),
            (Packed::Ext(5, vec![0xc1]), Some("a value of an unknown kind is not read")),
        ] {
            let mut damage = Vec::new();
            let state = decode(&packed(content), &mut damage).expect("a state");
            assert_eq!(state["messages"][0]["kwargs"]["type"], "human");
            let expected = what.map(|what| {
                let what = format!("messages[0].kwargs.content: {what}");
                (AnomalyKind::UnreadableMessage, what)
            });
            assert_eq!(damage, expected.into_iter().collect::<Vec<_>>());
        }
    }
}

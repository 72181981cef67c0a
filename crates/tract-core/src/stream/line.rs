//! Typed access to the fields of a line. Fields that were never read are rejected at the end.

use std::borrow::Cow;
use std::collections::HashSet;

use super::StreamOpError;
use crate::content::Part;
use crate::json;
use crate::nearest::nearest;
use crate::schema::ToolSchema;
use crate::text::JsonText;

pub(super) struct Line<'a> {
    pub(super) op: &'static str,
    members: Vec<(String, &'a str)>,
    known: Vec<&'static str>,
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

fn type_of(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "a truth value",
        Some(b'n') => "null",
        _ => "a number",
    }
}

impl<'a> Line<'a> {
    /// Splits a line into fields and determines its operation.
    pub(super) fn open(line: &'a str) -> Result<Self, StreamOpError> {
        let members = json::split_envelope(line)?;
        let mut keys = HashSet::with_capacity(members.len());
        if let Some((repeated, _)) = members.iter().find(|(key, _)| !keys.insert(key)) {
            return Err(StreamOpError::RepeatedField { field: cut(repeated) });
        }
        let mut line = Self { op: "", members, known: Vec::new() };
        let name = line.optional_text("op")?.ok_or(StreamOpError::MissingOp)?;
        line.op =
            super::op_names().find(|op| *op == name).ok_or_else(|| StreamOpError::UnknownOp {
                nearest: nearest(&name, super::op_names()),
                found: cut(&name),
            })?;
        Ok(line)
    }

    /// Rejects fields that were not read.
    pub(super) fn close(self) -> Result<(), StreamOpError> {
        // Fields that were read were removed, so what is left is unknown.
        match self.members.first() {
            None => Ok(()),
            Some((found, _)) => Err(StreamOpError::UnknownField {
                op: self.op,
                nearest: nearest(found, self.known.iter().copied()),
                found: cut(found),
            }),
        }
    }

    /// Takes a field as written. A null field counts as absent.
    pub(super) fn raw(&mut self, field: &'static str) -> Option<&'a str> {
        self.known.push(field);
        let place = self.members.iter().position(|(key, _)| key == field)?;
        let (_, raw) = self.members.remove(place);
        (raw != "null").then_some(raw)
    }

    pub(super) fn missing(&self, field: &'static str) -> StreamOpError {
        StreamOpError::MissingField { op: self.op, field }
    }

    pub(super) fn both(&self, one: &'static str, other: &'static str) -> StreamOpError {
        StreamOpError::BothFields { op: self.op, one, other }
    }

    fn wrong(field: &'static str, expected: &'static str, raw: &str) -> StreamOpError {
        StreamOpError::WrongType { field, expected, found: type_of(raw) }
    }

    pub(super) fn optional_text(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, StreamOpError> {
        self.raw(field)
            .map(|raw| json::read_string(raw).ok_or_else(|| Self::wrong(field, "text", raw)))
            .transpose()
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, StreamOpError> {
        self.optional_text(field)?.ok_or_else(|| self.missing(field))
    }

    /// Takes a text that is a name and must not be empty.
    pub(super) fn optional_name(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, StreamOpError> {
        match self.optional_text(field)? {
            Some(name) if name.is_empty() => {
                Err(StreamOpError::bad_value(field, "expected a name, found an empty text"))
            }
            name => Ok(name),
        }
    }

    pub(super) fn name(&mut self, field: &'static str) -> Result<String, StreamOpError> {
        self.optional_name(field)?.ok_or_else(|| self.missing(field))
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, StreamOpError> {
        match self.raw(field) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(raw) => Err(Self::wrong(field, "a truth value", raw)),
        }
    }

    pub(super) fn json(&mut self, field: &'static str) -> Result<Option<JsonText>, StreamOpError> {
        Ok(self.raw(field).map(JsonText::new).transpose()?)
    }

    pub(super) fn object(
        &mut self,
        field: &'static str,
    ) -> Result<Option<JsonText>, StreamOpError> {
        match self.raw(field) {
            Some(raw) if !raw.starts_with('{') => Err(Self::wrong(field, "an object", raw)),
            raw => Ok(raw.map(JsonText::new).transpose()?),
        }
    }

    pub(super) fn optional_list(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Vec<&'a str>>, StreamOpError> {
        match self.raw(field) {
            Some(raw) if !raw.starts_with('[') => Err(Self::wrong(field, "a list", raw)),
            raw => Ok(raw.map(json::split_array).transpose()?),
        }
    }

    /// Takes one revision from the field `one`, or a list of them from `many`.
    pub(super) fn targets(
        &mut self,
        one: &'static str,
        many: &'static str,
    ) -> Result<Option<Vec<String>>, StreamOpError> {
        let single = self.optional_name(one)?;
        let Some(list) = self.optional_list(many)? else {
            return Ok(single.map(|target| vec![target]));
        };
        if single.is_some() {
            return Err(self.both(one, many));
        }
        if list.is_empty() {
            let why = "expected at least one revision, found none";
            return Err(StreamOpError::bad_value(many, why));
        }
        let revision = |raw: &str| {
            json::read_string(raw)
                .filter(|revision| !revision.is_empty())
                .ok_or_else(|| Self::wrong(many, "a list of revisions as text", raw))
        };
        list.into_iter().map(revision).collect::<Result<_, _>>().map(Some)
    }

    /// Takes schemas: objects, kept as written, or strings that contain one.
    pub(super) fn schemas(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Vec<ToolSchema>>, StreamOpError> {
        let Some(list) = self.optional_list(field)? else { return Ok(None) };
        let schema = |(n, raw): (usize, &'a str)| {
            let schema: Cow<'a, str> = match type_of(raw) {
                "an object" => raw.into(),
                "text" => json::read_string(raw).unwrap_or_default().into(),
                _ => return Err(Self::wrong(field, "a list of objects", raw)),
            };
            ToolSchema::parse(&schema).map_err(|error| {
                StreamOpError::bad_value(field, format_args!("tool {}: {error}", n + 1))
            })
        };
        list.into_iter().enumerate().map(schema).collect::<Result<_, _>>().map(Some)
    }

    /// Takes a text, which becomes a text part, or a list of parts.
    pub(super) fn text_or_parts(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Vec<Part>>, StreamOpError> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        match json::read_string(raw) {
            Some(text) => Ok(Some(vec![Part::Text { text }])),
            None if raw.starts_with('[') => parts(raw, field).map(Some),
            None => Err(Self::wrong(field, "text or a list of parts", raw)),
        }
    }
}

/// Parses a list of parts, in the form of content blobs.
pub(super) fn parts(raw: &str, field: &'static str) -> Result<Vec<Part>, StreamOpError> {
    serde_json::from_str(raw)
        .map_err(|error| StreamOpError::bad_value(field, format_args!("expected parts: {error}")))
}

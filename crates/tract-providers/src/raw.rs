//! JSON texts with their path in the document, read and written member by member.

use std::borrow::Cow;

pub(crate) use tract_core::json::read_string as string;
use tract_core::json::{self, Escapes, JsonError};

use crate::error::ImportError;

/// A value as written, with its path.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) raw: &'a str,
    pub(crate) path: String,
}

impl<'a> Node<'a> {
    pub(crate) fn root(text: &'a str) -> Self {
        Self { raw: text.trim(), path: String::new() }
    }

    pub(crate) fn at(raw: &'a str, path: impl Into<String>) -> Self {
        Self { raw, path: path.into() }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.raw == "null"
    }

    pub(crate) fn is_string(&self) -> bool {
        self.raw.starts_with('"')
    }

    pub(crate) fn is_array(&self) -> bool {
        self.raw.starts_with('[')
    }

    pub(crate) fn is_object(&self) -> bool {
        self.raw.starts_with('{')
    }

    pub(crate) fn found(&self) -> &'static str {
        match self.raw.as_bytes().first() {
            Some(b'"') => "a string",
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            Some(_) => "a number",
            None => "nothing",
        }
    }

    pub(crate) fn expected(&self, expected: &'static str) -> ImportError {
        ImportError::Expected { path: self.path.clone(), expected, found: self.found() }
    }

    fn json(&self, source: JsonError) -> ImportError {
        ImportError::Json { path: self.path.clone(), source }
    }

    pub(crate) fn object(&self) -> Result<Fields<'a>, ImportError> {
        if !self.is_object() {
            json::check(self.raw).map_err(|source| self.json(source))?;
            return Err(self.expected("an object"));
        }
        let members = json::split_object(self.raw).map_err(|source| self.json(source))?;
        Ok(Fields { path: self.path.clone(), members })
    }

    pub(crate) fn array(&self) -> Result<Vec<Node<'a>>, ImportError> {
        if !self.is_array() {
            json::check(self.raw).map_err(|source| self.json(source))?;
            return Err(self.expected("an array"));
        }
        let elements = json::split_array(self.raw).map_err(|source| self.json(source))?;
        let place = |(n, raw)| Node { raw, path: format!("{}[{n}]", self.path) };
        Ok(elements.into_iter().enumerate().map(place).collect())
    }

    /// Iterates over the elements of an array, which are parsed lazily.
    pub(crate) fn each(&self) -> Result<impl Iterator<Item = Node<'a>> + use<'a>, ImportError> {
        if !self.is_array() {
            json::check(self.raw).map_err(|source| self.json(source))?;
            return Err(self.expected("an array"));
        }
        let elements = json::elements(self.raw).map_err(|source| self.json(source))?;
        let path = self.path.clone();
        Ok(elements.enumerate().map(move |(n, raw)| Node { raw, path: format!("{path}[{n}]") }))
    }

    pub(crate) fn string(&self) -> Result<String, ImportError> {
        string(self.raw).ok_or_else(|| self.expected("a string"))
    }
}

/// The members of an object.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) path: String,
    pub(crate) members: Vec<(String, &'a str)>,
}

impl<'a> Fields<'a> {
    fn inner(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns the member, of any type; the last of equal keys.
    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        let raw = self.raw(key)?;
        Some(Node { raw, path: self.inner(key) })
    }

    /// Iterates over all members, in order. Keys may repeat.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, Node<'a>)> {
        let members = self.members.iter();
        members.map(|(key, raw)| (key.as_str(), Node { raw, path: self.inner(key) }))
    }

    pub(crate) fn raw(&self, key: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Returns the member, if it exists and is not null.
    pub(crate) fn some(&self, key: &str) -> Option<Node<'a>> {
        self.get(key).filter(|node| !node.is_null())
    }

    /// Returns the member as an object, if it exists and is not null.
    pub(crate) fn some_object(&self, key: &str) -> Result<Option<Fields<'a>>, ImportError> {
        self.some(key).map(|node| node.object()).transpose()
    }

    pub(crate) fn require(&self, key: &'static str) -> Result<Node<'a>, ImportError> {
        self.get(key).ok_or_else(|| ImportError::Missing { path: self.path.clone(), member: key })
    }

    /// Returns the text of the member, if it is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(string)
    }

    /// Returns all members except these, as an object.
    pub(crate) fn without(&self, keys: &[&str]) -> String {
        let mut out = Object::new();
        for (key, raw) in &self.members {
            if !keys.contains(&key.as_str()) {
                out.raw(key, raw);
            }
        }
        out.end()
    }
}

/// Writes a string literal.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(json::string_len(text));
    json::write_string(&mut out, text, Escapes::Raw);
    out
}

/// Joins texts with line breaks; a single one is not copied.
pub(crate) fn joined<'a>(texts: &[&'a str]) -> Cow<'a, str> {
    match texts {
        [text] => Cow::Borrowed(text),
        texts => Cow::Owned(texts.join("\n")),
    }
}

/// Returns whether a text is a JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    json::split_object(text).is_ok()
}

/// Returns whether a text is a JSON object after damaged characters are replaced.
pub(crate) fn is_received_object(text: &str) -> bool {
    is_object(&json::decode(text.as_bytes()).text)
}

/// Returns whether two texts are equal as JSON. Texts that are not JSON are never equal.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a == b || json::equal(a, b).unwrap_or(false)
}

/// Texts of at least this size in bytes are moved instead of copied where possible.
const LARGE_BYTES: usize = 64 << 10;

/// Reserves capacity for a text. A large one does not double.
fn reserve(out: &mut String, more: usize) {
    if out.len() > LARGE_BYTES && out.capacity() - out.len() < more {
        out.reserve_exact(more + out.len() / 64);
    }
}

fn append(out: &mut String, piece: Cow<'_, str>) {
    match piece {
        Cow::Owned(mut piece) if piece.len() > LARGE_BYTES && piece.len() > out.len() => {
            reserve(&mut piece, out.len() + 1);
            piece.insert_str(0, out);
            *out = piece;
        }
        piece => {
            reserve(out, piece.len());
            out.push_str(&piece);
        }
    }
}

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    fn key(&mut self, key: &str) {
        reserve(&mut self.0, 6 * key.len() + 4);
        if self.0.len() > 1 {
            self.0.push(',');
        }
        json::write_string(&mut self.0, key, Escapes::Raw);
        self.0.push(':');
    }

    pub(crate) fn raw(&mut self, key: &str, raw: &str) -> &mut Self {
        self.nest(key, Cow::Borrowed(raw))
    }

    /// Writes a value. A large owned value is not copied.
    pub(crate) fn nest<'r>(&mut self, key: &str, raw: impl Into<Cow<'r, str>>) -> &mut Self {
        self.key(key);
        append(&mut self.0, raw.into());
        self
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) -> &mut Self {
        self.key(key);
        if text.len() > LARGE_BYTES {
            self.0.reserve_exact(json::string_len(text) + 1);
        }
        json::write_string(&mut self.0, text, Escapes::Raw);
        self
    }

    /// Ends the object, and returns its text.
    pub(crate) fn end(&mut self) -> String {
        reserve(&mut self.0, 1);
        self.0.push('}');
        std::mem::take(&mut self.0)
    }
}

/// Writes an array of texts. A large owned text is not copied.
pub(crate) fn array<'a, S: Into<Cow<'a, str>>>(elements: impl IntoIterator<Item = S>) -> String {
    let mut out = "[".to_owned();
    for (n, element) in elements.into_iter().enumerate() {
        if n > 0 {
            reserve(&mut out, 1);
            out.push(',');
        }
        append(&mut out, element.into());
    }
    reserve(&mut out, 1);
    out.push(']');
    out
}

/// Writes an object of members in order: name and JSON text.
pub(crate) fn object<S: AsRef<str>>(members: &[(S, S)]) -> String {
    let mut out = Object::new();
    for (name, raw) in members {
        out.raw(name.as_ref(), raw.as_ref());
    }
    out.end()
}

/// Returns a name such as `function_call` as `functionCall`.
pub(crate) fn camel(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let mut words = name.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    Cow::Owned(out)
}

//! A JSON tree that preserves member order and the text of scalars, for editing copies.

use std::borrow::Cow;

use tract_core::json::{self, Escapes, JsonError};

/// The members of an object, in order.
pub(crate) type Members = Vec<(String, Node)>;

/// A JSON value. The parser bounds its depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Scalar(String),
    Array(Vec<Node>),
    Object(Members),
}

/// Returns the member with a name; the last one if there are duplicates, as in JSON parsers.
pub(crate) fn get<'a, V>(members: &'a [(String, V)], key: &str) -> Option<&'a V> {
    members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn get_mut<'a>(members: &'a mut Members, key: &str) -> Option<&'a mut Node> {
    members.iter_mut().rev().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Removes the member that [`get`] returns.
pub(crate) fn take(members: &mut Members, key: &str) -> Option<Node> {
    let place = members.iter().rposition(|(name, _)| name == key)?;
    Some(members.remove(place).1)
}

/// Replaces the member that [`get`] returns, or appends one.
pub(crate) fn set(members: &mut Members, key: &str, value: Node) {
    match get_mut(members, key) {
        Some(old) => *old = value,
        None => members.push((key.to_owned(), value)),
    }
}

/// Returns a name as a segment of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the segments of a JSON pointer.
fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

impl Node {
    pub(crate) fn parse(text: &str) -> Result<Self, JsonError> {
        let text = text.trim();
        match text.as_bytes().first() {
            Some(b'{') => {
                let members = json::split_object(text)?.into_iter();
                let read = |(key, raw): (String, &str)| Ok((key, Self::parse(raw)?));
                Ok(Self::Object(members.map(read).collect::<Result<_, JsonError>>()?))
            }
            Some(b'[') => {
                let items = json::split_array(text)?.into_iter().map(Self::parse);
                Ok(Self::Array(items.collect::<Result<_, JsonError>>()?))
            }
            _ => {
                json::check(text)?;
                Ok(Self::Scalar(text.to_owned()))
            }
        }
    }

    pub(crate) fn text(value: &str) -> Self {
        let mut raw = String::with_capacity(value.len() + 2);
        json::write_string(&mut raw, value, Escapes::Raw);
        Self::Scalar(raw)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        get(self.members(), key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        get_mut(members, key)
    }

    pub(crate) fn set(&mut self, key: &str, value: Self) {
        if let Self::Object(members) = self {
            set(members, key, value);
        }
    }

    /// Moves a `$ref` that has other members next to it, such as a description, into an `anyOf`.
    /// Draft-07 ignores all members next to `$ref`, and strict modes reject them. Returns whether
    /// it changed anything.
    pub(crate) fn describe_reference(&mut self) -> bool {
        let Self::Object(members) = self else { return false };
        let holds = |key: &str| matches!(key, "$ref" | "$defs" | "definitions");
        if members.iter().all(|(key, _)| holds(key)) || get(members, "anyOf").is_some() {
            return false;
        }
        let Some((key, value)) = members.iter_mut().find(|(key, _)| key == "$ref") else {
            return false;
        };
        let reference = std::mem::replace(value, Self::Array(Vec::new()));
        let key = std::mem::replace(key, "anyOf".to_owned());
        *value = Self::Array(vec![Self::Object(vec![(key, reference)])]);
        true
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        take(members, key)
    }

    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            Self::Scalar(_) | Self::Object(_) => &[],
        }
    }

    /// Returns the items of a member that is a list.
    pub(crate) fn list(&self, key: &str) -> &[Self] {
        self.get(key).map(Self::items).unwrap_or_default()
    }

    /// Returns the strings in a member that is a list.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.list(key).iter().filter_map(Self::as_text).map(Cow::into_owned).collect()
    }

    /// Returns the names in `type`, which is one name or a list of them.
    pub(crate) fn types(&self) -> Vec<Cow<'_, str>> {
        let one = self.get("type").into_iter();
        one.chain(self.list("type")).filter_map(Self::as_text).collect()
    }

    pub(crate) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            Self::Scalar(_) | Self::Array(_) => &[],
        }
    }

    /// Returns the value of a string.
    pub(crate) fn as_text(&self) -> Option<Cow<'_, str>> {
        let Self::Scalar(raw) = self else { return None };
        match raw.strip_prefix('"')?.strip_suffix('"')? {
            spelled if spelled.contains('\\') => crate::shape::string(raw).map(Cow::Owned),
            plain => Some(Cow::Borrowed(plain)),
        }
    }

    /// Returns whether it is a scalar with this exact text, such as `null`.
    pub(crate) fn is(&self, raw: &str) -> bool {
        matches!(self, Self::Scalar(own) if own == raw)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns the target of a local reference, resolved from this node as the root.
    pub(crate) fn resolve(&self, reference: &str) -> Option<&Self> {
        self.at(reference.strip_prefix('#')?)
    }

    /// Returns the value at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Self> {
        steps(pointer).try_fold(self, |node, step| match node {
            Self::Object(_) => node.get(&step),
            Self::Array(items) => items.get(step.parse::<usize>().ok()?),
            Self::Scalar(_) => None,
        })
    }

    pub(crate) fn at_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        steps(pointer).try_fold(self, |node, step| match node {
            Self::Object(members) => get_mut(members, &step),
            Self::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            Self::Scalar(_) => None,
        })
    }

    pub(crate) fn write(&self) -> String {
        let mut out = String::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut String) {
        match self {
            Self::Scalar(raw) => out.push_str(raw),
            Self::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    item.write_to(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (n, (key, value)) in members.iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    json::write_string(out, key, Escapes::Raw);
                    out.push(':');
                    value.write_to(out);
                }
                out.push('}');
            }
        }
    }
}

//! JSON in its own order, with every scalar as it was written: what copies are changed as.

use tract_core::json::{self, Escapes, JsonError};

/// A JSON value. Depth is bounded by the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Scalar(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// The member of a name: of several the last, as readers of JSON take it.
pub(crate) fn get<'a, V>(members: &'a [(String, V)], key: &str) -> Option<&'a V> {
    members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Takes the member out that [`get`] gives.
pub(crate) fn take<V>(members: &mut Vec<(String, V)>, key: &str) -> Option<V> {
    let place = members.iter().rposition(|(name, _)| name == key)?;
    Some(members.remove(place).1)
}

/// Writes a list, each item by `write`.
pub(crate) fn write_list<V>(out: &mut String, items: &[V], write: fn(&V, &mut String)) {
    out.push('[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

/// Writes an object, each value by `write`.
pub(crate) fn write_object<V>(
    out: &mut String,
    members: &[(String, V)],
    write: fn(&V, &mut String),
) {
    out.push('{');
    for (n, (key, value)) in members.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        json::write_string(out, key, Escapes::Raw);
        out.push(':');
        write(value, out);
    }
    out.push('}');
}

/// A name as a step of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The steps of a JSON pointer.
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

    pub(crate) fn set(&mut self, key: &str, value: Self) {
        if let Self::Object(members) = self {
            match members.iter_mut().rev().find(|(name, _)| name == key) {
                Some((_, node)) => *node = value,
                None => members.push((key.to_owned(), value)),
            }
        }
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

    /// The items of a member that is a list.
    pub(crate) fn list(&self, key: &str) -> &[Self] {
        self.get(key).map(Self::items).unwrap_or_default()
    }

    /// The texts in a member that is a list.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.list(key).iter().filter_map(Self::as_text).collect()
    }

    /// The names in `type`, which is one name or a list of them.
    pub(crate) fn types(&self) -> Vec<String> {
        let one = self.get("type").and_then(Self::as_text);
        one.map_or_else(|| self.texts("type"), |name| vec![name])
    }

    pub(crate) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            Self::Scalar(_) | Self::Array(_) => &[],
        }
    }

    pub(crate) fn as_text(&self) -> Option<String> {
        match self {
            Self::Scalar(raw) if raw.starts_with('"') => crate::shape::string(raw),
            Self::Scalar(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(raw) if raw == "null")
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// The node that a local reference means: a pointer from the root.
    pub(crate) fn resolve(&self, reference: &str) -> Option<&Self> {
        self.at(reference.strip_prefix('#')?)
    }

    /// The value that a JSON pointer leads to.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Self> {
        steps(pointer).try_fold(self, |node, step| match node {
            Self::Object(_) => node.get(&step),
            Self::Array(items) => items.get(step.parse::<usize>().ok()?),
            Self::Scalar(_) => None,
        })
    }

    pub(crate) fn at_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        steps(pointer).try_fold(self, |node, step| match node {
            Self::Object(members) => {
                members.iter_mut().rev().find(|(name, _)| *name == step).map(|(_, node)| node)
            }
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
            Self::Array(items) => write_list(out, items, Self::write_to),
            Self::Object(members) => write_object(out, members, Self::write_to),
        }
    }
}

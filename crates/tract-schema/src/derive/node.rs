//! A JSON Schema as a tree that keeps the order of its members and the spelling of its numbers,
//! independent of the features of any JSON library.

use tract_core::json::{self, Escapes, JsonError};

pub(super) use crate::tree::{get, take};
use crate::tree::{write_list, write_object};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Members),
}

pub(super) type Members = Vec<(String, Node)>;

impl Node {
    pub(super) fn parse(text: &str) -> Result<Self, JsonError> {
        json::check(text)?;
        Self::of(text.trim())
    }

    fn of(text: &str) -> Result<Self, JsonError> {
        Ok(match text.as_bytes().first() {
            Some(b'{') => Self::Object(
                json::split_object(text)?
                    .into_iter()
                    .map(|(key, raw)| Ok((key, Self::of(raw.trim())?)))
                    .collect::<Result<_, JsonError>>()?,
            ),
            Some(b'[') => Self::List(
                json::split_array(text)?
                    .into_iter()
                    .map(|raw| Self::of(raw.trim()))
                    .collect::<Result<_, JsonError>>()?,
            ),
            Some(b'"') => Self::Text(
                serde_json::from_str(text).expect("a text that was checked to be JSON is JSON"),
            ),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            _ => Self::Number(text.to_owned()),
        })
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> &[Node] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub(super) fn members(&self) -> &[(String, Node)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        get(self.members(), key)
    }

    /// The items of a member that is a list.
    pub(super) fn list(&self, key: &str) -> &[Node] {
        list(self.members(), key)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(raw) => out.push_str(raw),
            Self::Text(text) => json::write_string(out, text, Escapes::Raw),
            Self::List(items) => write_list(out, items, Self::write),
            Self::Object(members) => write_object(out, members, Self::write),
        }
    }

    pub(super) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// The items of a member that is a list.
pub(super) fn list<'a>(members: &'a [(String, Node)], key: &str) -> &'a [Node] {
    get(members, key).map(Node::as_list).unwrap_or_default()
}

/// Sets a member, in its place when it is there already.
pub(super) fn set(members: &mut Members, key: &str, value: Node) {
    match members.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = value,
        None => members.push((key.to_owned(), value)),
    }
}

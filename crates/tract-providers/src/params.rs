//! The body of a request: JSON texts in order, ready to send.

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tract_compile::{Repair, RepairKind};
use tract_core::{CommitId, JsonText, RequestMap, json};
use tract_schema::{Aliases, Dialect};

use crate::prefix::{Blocks, PrefixHash, PrefixSource};
use crate::raw;

/// The forms that a context can be compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Form {
    /// `openai`, the list of messages, never repaired; `anthropic`, which is `{system, messages}`.
    Conversation(Dialect),
    /// `openai-params` and so on: a request.
    Params(Dialect),
    /// `messages`: the recorded messages, with the ids of their commits.
    Messages,
}

/// Members of a request's body in order: name and JSON text.
pub(crate) type Members = Vec<(String, String)>;

/// A body: members in order, or a list.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Object(Members),
    Array(String),
}

/// A compiled context in a provider's form. It serializes with its own order of members, and every
/// number as written.
#[derive(Clone, Debug)]
pub struct Params {
    pub(crate) form: Form,
    pub(crate) body: Body,
    pub(crate) blocks: Blocks,
    pub(crate) aliases: Option<Aliases>,
    pub(crate) head: Option<CommitId>,
    pub(crate) sent: RequestMap,
    /// Whether the body names the model; otherwise the URL does.
    pub(crate) names_model: bool,
    /// The model, if the URL names it instead of the body.
    pub(crate) model: Option<String>,
    /// The differences between the sent and the recorded content.
    pub repairs: Vec<Repair>,
    /// The prefix hash of each block, in cache order.
    pub prefix: Vec<PrefixHash>,
}

impl Params {
    /// Sets a member of the body, in place if it exists, else at the end.
    ///
    /// A value that does not serialize, or a form that is a list, leaves the body unchanged, and is
    /// listed in [`repairs`](Self::repairs).
    #[must_use]
    pub fn with<T: Serialize>(mut self, key: &str, value: T) -> Self {
        match serde_json::to_string(&value) {
            Ok(text) => self.set(key, text),
            Err(error) => {
                let text = format!("{key:?} is not set: {error}");
                self.repairs.push(Repair::new(RepairKind::NotSet, None, text));
            }
        }
        self
    }

    /// Lists the members of a request that was recorded for another provider: they are not sent, and
    /// this provider may have other names for them.
    #[must_use]
    pub fn with_unsent(mut self, members: &JsonText) -> Self {
        self.report_unsent(members, &[]);
        self
    }

    /// As [`with_unsent`](Self::with_unsent), without the members in `sent`.
    pub(crate) fn report_unsent(&mut self, members: &JsonText, sent: &[&str]) {
        // The tools are tools of the context.
        let is_other = |key: &str| !sent.contains(&key) && !matches!(key, "tools" | "functions");
        for (key, value) in json::split_object(members.as_str()).unwrap_or_default() {
            if is_other(&key) && value != "null" {
                let text =
                    format!("{key:?} is not set: the request was recorded for another provider");
                self.repairs.push(Repair::new(RepairKind::NotSet, None, text));
            }
        }
    }

    pub(crate) fn set(&mut self, key: &str, raw: String) {
        if key == "model" && !self.names_model && !self.has_model() {
            self.model = Some(raw);
            return;
        }
        match &mut self.body {
            Body::Object(members) => match members.iter_mut().find(|(name, _)| name == key) {
                Some((_, value)) => *value = raw,
                None => members.push((key.to_owned(), raw)),
            },
            Body::Array(_) => {
                let text = format!("{key:?} is not set: the form {} is a list", self.form);
                self.repairs.push(Repair::new(RepairKind::NotSet, None, text));
            }
        }
    }

    /// Returns whether the body has a model.
    fn has_model(&self) -> bool {
        matches!(&self.body, Body::Object(members) if members.iter().any(|(name, _)| name == "model"))
    }

    /// Puts the model into the body of a recorded request, although the URL names it.
    pub(crate) fn set_model_in_body(&mut self, raw: &str) {
        if let Body::Object(members) = &mut self.body
            && !members.iter().any(|(name, _)| name == "model")
        {
            members.insert(0, ("model".to_owned(), raw.to_owned()));
            self.model = None;
        }
    }

    /// Removes the model from a body whose URL names it.
    pub(crate) fn remove_model(&mut self) {
        self.model = self.get("model").map(str::to_owned);
        if let Body::Object(members) = &mut self.body {
            members.retain(|(name, _)| name != "model");
        }
    }

    /// Renames a member. If the new name exists already, the old member is removed instead.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let Body::Object(members) = &mut self.body else { return };
        if members.iter().any(|(name, _)| name == to) {
            members.retain(|(name, _)| name != from);
        } else if let Some((name, _)) = members.iter_mut().find(|(name, _)| name == from) {
            to.clone_into(name);
        }
    }

    /// Returns the text of a member. `model` is also returned if the URL names it.
    pub fn get(&self, key: &str) -> Option<&str> {
        let Body::Object(members) = &self.body else { return None };
        let found = members.iter().find(|(name, _)| name == key).map(|(_, raw)| raw.as_str());
        found.or(self.model.as_deref().filter(|_| key == "model"))
    }

    /// Returns the form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the commit that was compiled.
    pub fn head(&self) -> Option<CommitId> {
        self.head
    }

    /// Returns the origin of each block, parallel to [`prefix`](Self::prefix).
    pub fn origins(&self) -> &[PrefixSource] {
        &self.blocks.origins
    }

    /// Returns the aliases of tools, each with the name that it replaces.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().flat_map(Aliases::iter)
    }

    /// Returns how each tool was sent: its name, and whether its schema was written for strict
    /// mode. A reply read by [`reply`](Self::reply) contains it.
    pub fn sent(&self) -> &RequestMap {
        &self.sent
    }

    /// Returns the body's text.
    pub fn to_json(&self) -> String {
        match &self.body {
            Body::Array(text) => text.clone(),
            Body::Object(members) => raw::object(members),
        }
    }

    /// Deserializes the body as another crate's type.
    ///
    /// # Errors
    /// If the body does not match the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.to_json())
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = |text: &str| {
            RawValue::from_string(text.to_owned()).map_err(<S::Error as serde::ser::Error>::custom)
        };
        match &self.body {
            Body::Array(text) => raw(text)?.serialize(serializer),
            Body::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, text) in members {
                    map.serialize_entry(key, &raw(text)?)?;
                }
                map.end()
            }
        }
    }
}

/// Two bodies are equal if they are equal as JSON.
impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form && raw::same(&self.to_json(), &other.to_json())
    }
}

//! What comes in: drafts, tools, parameters, and what a strict reader would stumble over.

use std::collections::HashSet;
use std::fmt;

use tract_core::{By, Draft, JsonText, Role, ToolSchema};

use crate::dialect::{Dialect, detect};
use crate::error::ImportError;
use crate::raw::{Fields, Node};
use crate::{anthropic, ollama, openai, responses};

/// Something that a strict reader of a recording would stumble over. Nothing is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Anomaly {
    /// Where, such as `messages[3].tool_calls[0]`.
    pub at: String,
    /// What is odd about it.
    pub what: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// What a request says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The messages, in order: one draft for each tool result, one for each rest of a message.
    pub drafts: Vec<Draft>,
    /// The tools, in order, as given; `None` when the request says nothing of tools.
    pub tools: Option<Vec<ToolSchema>>,
    /// All other members of the request: an object.
    pub parameters: JsonText,
    /// What a strict reader would stumble over.
    pub anomalies: Vec<Anomaly>,
}

/// A conversation of a file: a request, and what the line says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversation {
    /// The line's own `id`.
    pub id: Option<String>,
    /// The dialect that it is in.
    pub dialect: Dialect,
    /// What the request says.
    pub imported: Imported,
    /// What the line says beside the request: an object.
    pub meta: JsonText,
}

impl Conversation {
    /// Reads one conversation: a request body, `{"messages","tools"}`, a list of messages, a line
    /// `{"id","messages","tools",…}` or `{"id","request",…}`. Of a line only the request is
    /// imported, the rest is [`meta`](Self::meta).
    ///
    /// # Errors
    /// [`ImportError`] naming the place; [`ImportError::Unknown`] when the dialect is neither
    /// given nor shown.
    ///
    /// ```
    /// use tract_providers::Conversation;
    /// let line = r#"{"id":"a","model":null,"messages":[{"role":"user","content":"Hi"}]}"#;
    /// let conversation = Conversation::read(line, None)?;
    /// assert_eq!(conversation.id.as_deref(), Some("a"));
    /// assert_eq!(conversation.imported.drafts.len(), 1);
    /// # Ok::<(), tract_providers::ImportError>(())
    /// ```
    pub fn read(text: &str, dialect: Option<Dialect>) -> Result<Self, ImportError> {
        let root = Node::root(text);
        let unknown = |found: &str| ImportError::Unknown { found: found.to_owned() };
        if !root.is_object() && !root.is_array() {
            tract_core::json::check(root.raw)
                .map_err(|source| ImportError::Json { path: String::new(), source })?;
            return Err(unknown(root.found()));
        }
        if root.is_array() {
            root.array()?;
            let dialect = dialect.or_else(|| detect(text)).ok_or_else(|| unknown("a list"))?;
            let imported = read(&root, dialect)?;
            return Ok(Self { id: None, dialect, imported, meta: object("{}", "")? });
        }
        let fields = root.object()?;
        let shown = || unknown(&format!("an object with {}", keys(&fields)));
        let dialect = dialect.or_else(|| detect(text)).ok_or_else(shown)?;
        let id = fields.text("id");
        if let Some(request) = fields.get("request").filter(Node::is_object) {
            let meta = object(&fields.without(&["id", "request", "response"]), "")?;
            return Ok(Self { id, dialect, imported: read(&request, dialect)?, meta });
        }
        // Our own lines: what is beside the request says nothing to a provider.
        const BESIDE: [&str; 4] = ["id", "anomalies", "meta", "source"];
        let request = match id.is_some() {
            true => {
                let mut beside = BESIDE.to_vec();
                beside.extend(fields.get("model").filter(Node::is_null).map(|_| "model"));
                fields.without(&beside)
            }
            false => root.raw.to_owned(),
        };
        let meta = match id.is_some() {
            true => {
                let mut out = crate::raw::Object::new();
                for key in &BESIDE[1..] {
                    if let Some(raw) = fields.raw(key) {
                        out.raw(key, raw);
                    }
                }
                object(&out.end(), "")?
            }
            false => object("{}", "")?,
        };
        let imported = read(&Node::root(&request), dialect)?;
        Ok(Self { id, dialect, imported, meta })
    }
}

fn keys(fields: &Fields<'_>) -> String {
    let names: Vec<_> = fields.members.iter().take(6).map(|(key, _)| format!("{key:?}")).collect();
    match names.is_empty() {
        true => "no members".to_owned(),
        false => names.join(", "),
    }
}

fn read(request: &Node<'_>, dialect: Dialect) -> Result<Imported, ImportError> {
    match dialect {
        Dialect::OpenAi => openai::import(request),
        Dialect::Responses => responses::import(request),
        Dialect::Anthropic => anthropic::import(request),
        Dialect::Ollama => ollama::import(request),
    }
}

pub(crate) fn object(text: &str, path: &str) -> Result<JsonText, ImportError> {
    JsonText::new(text).map_err(|source| ImportError::Json { path: path.to_owned(), source })
}

/// Reads the tools of a request; `null` counts as absent.
pub(crate) fn tools(fields: &Fields<'_>) -> Result<Option<Vec<ToolSchema>>, ImportError> {
    let Some(tools) = fields.some("tools") else { return Ok(None) };
    let schema = |tool: &Node<'_>| {
        tool.object()?;
        ToolSchema::parse(tool.raw)
            .map_err(|source| ImportError::Json { path: tool.path.clone(), source })
    };
    tools.array()?.iter().map(schema).collect::<Result<Vec<_>, _>>().map(Some)
}

/// Splits a request into its list of messages and the rest.
pub(crate) struct Request<'a> {
    pub(crate) fields: Option<Fields<'a>>,
    pub(crate) messages: Option<Node<'a>>,
}

impl<'a> Request<'a> {
    pub(crate) fn of(root: &Node<'a>, list: &'static str) -> Result<Self, ImportError> {
        if root.is_array() {
            let messages = Node::at(root.raw, list);
            return Ok(Self { fields: None, messages: Some(messages) });
        }
        let fields = root.object()?;
        let messages = fields.get(list);
        Ok(Self { fields: Some(fields), messages })
    }

    pub(crate) fn finish(
        self,
        drafts: Vec<Draft>,
        anomalies: Vec<Anomaly>,
        beside: &[&str],
    ) -> Result<Imported, ImportError> {
        let (tools, parameters) = match &self.fields {
            Some(fields) => (tools(fields)?, object(&fields.without(beside), "")?),
            None => (None, object("{}", "")?),
        };
        Ok(Imported { drafts, tools, parameters, anomalies })
    }
}

/// Makes a draft of an import: with nothing in it that is not in the input.
pub(crate) fn draft(content: tract_core::Content, role: Option<Role>, form: &str) -> Draft {
    let kind = content.kind();
    let mut draft = Draft::new(content).origin(By::Import);
    draft.role = role.filter(|role| *role != kind.default_role());
    draft.form = Some(form.to_owned());
    draft
}

/// Follows calls and results, and notes what does not pair.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    open: Vec<(String, String)>,
    seen: HashSet<String>,
    pub(crate) anomalies: Vec<Anomaly>,
}

impl Watch {
    pub(crate) fn note(&mut self, at: &str, what: impl Into<String>) {
        self.anomalies.push(Anomaly { at: at.to_owned(), what: what.into() });
    }

    pub(crate) fn call(&mut self, id: &str, at: &str) {
        if !self.seen.insert(id.to_owned()) {
            self.note(at, format!("tool call id {id:?} reused"));
        }
        self.open.push((id.to_owned(), at.to_owned()));
    }

    pub(crate) fn result(&mut self, id: &str, at: &str) {
        // The nearest call, as results are bound when they are written.
        match self.open.iter().rposition(|(open, _)| open == id) {
            Some(place) => {
                self.open.remove(place);
            }
            None if self.seen.contains(id) => {
                self.note(at, format!("tool call {id:?} is answered again"));
            }
            None => self.note(at, format!("result for {id:?} answers no call")),
        }
    }

    pub(crate) fn end(mut self) -> Vec<Anomaly> {
        for (id, at) in std::mem::take(&mut self.open) {
            self.note(&at, format!("tool call {id:?} unanswered"));
        }
        self.anomalies
    }
}

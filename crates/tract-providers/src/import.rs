//! What comes in: drafts, tools, parameters, and what a strict reader would stumble over.

mod foreign;

use std::collections::{HashMap, VecDeque};
use std::fmt;

use tract_core::{AuthorKind, Blob, Body, Content, Draft, JsonText, Part, Role, ToolSchema, json};
use tract_schema::Dialect;

use crate::adapter::{DialectAdapter as _, Reader};
use crate::detect::detect;
use crate::error::ImportError;
use crate::neutral::OutgoingMessage;
use crate::raw::{self, Fields, Node};

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

/// A conversation of a file: a request, and what else the line says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderConversation {
    /// The line's own `id`.
    pub id: Option<String>,
    /// The dialect that it is in.
    pub dialect: Dialect,
    /// What the request says.
    pub imported: Imported,
    /// What the line says besides the request: an object.
    pub meta: JsonText,
}

impl ProviderConversation {
    /// Reads one conversation: a request body, `{"messages","tools"}`, a list of messages, a line
    /// `{"id","messages","tools",…}` or `{"id","request",…}`. Of a line only the request is
    /// imported, the rest is [`meta`](Self::meta).
    ///
    /// # Errors
    /// [`ImportError`] naming the place; [`ImportError::Unknown`] when the dialect is neither
    /// given nor shown.
    ///
    /// ```
    /// use tract_providers::ProviderConversation;
    /// let line = r#"{"id":"a","model":null,"messages":[{"role":"user","content":"Hi"}]}"#;
    /// let conversation = ProviderConversation::read(line, None)?;
    /// assert_eq!(conversation.id.as_deref(), Some("a"));
    /// assert_eq!(conversation.imported.drafts.len(), 1);
    /// # Ok::<(), tract_providers::ImportError>(())
    /// ```
    pub fn read(text: &str, dialect: Option<Dialect>) -> Result<Self, ImportError> {
        let reader = ConversationReader::new(text, dialect)?;
        let ConversationReader { id, dialect, meta, tools, parameters, mut messages } = reader;
        let drafts = messages.drafts()?;
        let anomalies = messages.finish();
        let imported = Imported { drafts, tools, parameters, anomalies };
        Ok(Self { id, dialect, imported, meta })
    }
}

/// A conversation of a file whose messages are read one after the other: memory holds the text and
/// one message, however many there are. Else as [`ProviderConversation`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ConversationReader<'a> {
    /// The line's own `id`.
    pub id: Option<String>,
    /// The dialect that it is in.
    pub dialect: Dialect,
    /// What the line says besides the request: an object.
    pub meta: JsonText,
    /// The tools, in order, as given; `None` when the request says nothing of tools.
    pub tools: Option<Vec<ToolSchema>>,
    /// All other members of the request: an object.
    pub parameters: JsonText,
    messages: Messages<'a>,
}

impl<'a> ConversationReader<'a> {
    /// Begins with a text that [`ProviderConversation::read`] takes.
    ///
    /// # Errors
    /// As [`ProviderConversation::read`], but for what is wrong with a message.
    pub fn new(text: &'a str, dialect: Option<Dialect>) -> Result<Self, ImportError> {
        let root = Node::root(text);
        let unknown = |found: &str| ImportError::Unknown { found: found.to_owned() };
        if !root.is_object() && !root.is_array() {
            json::check(root.raw)
                .map_err(|source| ImportError::Json { path: String::new(), source })?;
            return Err(unknown(root.found()));
        }
        if root.is_array() {
            drop(root.each()?);
            let dialect = dialect.or_else(|| detect(text)).ok_or_else(|| unknown("a list"))?;
            return Self::of(None, dialect, object("{}", "")?, &root, &[]);
        }
        let fields = root.object()?;
        let shown = || unknown(&format!("an object with {}", keys(&fields)));
        let dialect = dialect.or_else(|| detect(text)).ok_or_else(shown)?;
        let id = fields.text("id");
        if let Some(request) = fields.get("request").filter(Node::is_object) {
            let meta = object(&fields.without(&["id", "request", "response"]), "")?;
            return Self::of(id, dialect, meta, &request, &[]);
        }
        // Our own lines: what is outside of the request says nothing to a provider.
        const NOT_OF_REQUEST: [&str; 4] = ["id", "anomalies", "meta", "source"];
        let mut others = Vec::new();
        let mut meta = crate::raw::Object::new();
        if id.is_some() {
            others.extend(NOT_OF_REQUEST);
            others.extend(fields.get("model").filter(Node::is_null).map(|_| "model"));
            for key in &NOT_OF_REQUEST[1..] {
                if let Some(raw) = fields.raw(key) {
                    meta.raw(key, raw);
                }
            }
        }
        Self::of(id, dialect, object(&meta.end(), "")?, &root, &others)
    }

    /// Begins with a request; its members named in `others` are not for the provider.
    fn of(
        id: Option<String>,
        dialect: Dialect,
        meta: JsonText,
        request: &Node<'a>,
        others: &[&str],
    ) -> Result<Self, ImportError> {
        foreign::refuse(request, dialect)?;
        let (tools, parameters, messages) = Messages::begin(request, dialect, others)?;
        Ok(Self { id, dialect, meta, tools, parameters, messages })
    }

    /// Reads on to the next draft; `None` at the end.
    ///
    /// # Errors
    /// [`ImportError`] naming the place.
    pub fn next_draft(&mut self) -> Result<Option<Draft>, ImportError> {
        self.messages.next_draft()
    }

    /// Ends the reading, and lists what a strict reader would stumble over.
    pub fn finish(self) -> Vec<Anomaly> {
        self.messages.finish()
    }
}

fn keys(fields: &Fields<'_>) -> String {
    let names: Vec<_> = fields.members.iter().take(6).map(|(key, _)| format!("{key:?}")).collect();
    if names.is_empty() { "no members".to_owned() } else { names.join(", ") }
}

/// Reads the text of messages, or of a whole request, in the shape of a dialect. Numbers and the order
/// of keys stay as written.
///
/// ```
/// use tract_providers::{Dialect, read_request};
/// let text = r#"{"system":"Be brief.","messages":[{"role":"user","content":[
///     {"type":"tool_result","tool_use_id":"t1","content":"11 °C"},
///     {"type":"text","text":"And tomorrow?"}]}]}"#;
/// let imported = read_request(text, Dialect::Anthropic)?;
/// assert_eq!(imported.drafts.len(), 3);
/// assert!(imported.drafts[2].joins_previous);
/// assert_eq!(imported.anomalies[0].what, "result for \"t1\" answers no call");
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// [`ImportError`] naming the place that is not what the dialect says.
pub fn read_request(text: &str, dialect: Dialect) -> Result<Imported, ImportError> {
    let (tools, parameters, mut messages) = Messages::begin(&Node::root(text), dialect, &[])?;
    let drafts = messages.drafts()?;
    Ok(Imported { drafts, tools, parameters, anomalies: messages.watch.end() })
}

/// Reads the parts of a content: a text is one, a list has one of each element.
pub(crate) fn parts_of<'a>(
    content: &Node<'a>,
    expected: &'static str,
    part: impl FnMut(&Node<'a>) -> Result<Part, ImportError>,
) -> Result<Vec<Part>, ImportError> {
    if content.is_string() {
        return Ok(vec![Part::text(content.string()?)]);
    }
    if !content.is_array() {
        return Err(content.expected(expected));
    }
    content.array()?.iter().map(part).collect()
}

/// Repeated members that are listed of one text; what follows is counted.
const LISTED: usize = 100;

/// Lists the members that an object of the request has twice.
fn repeated(request: &Node<'_>) -> Vec<Anomaly> {
    let mut found: Vec<Anomaly> = Vec::new();
    let mut left_out = 0_usize;
    let note = |at: &str, key: &str| {
        if found.len() < LISTED {
            found.push(Anomaly {
                at: if at.is_empty() { "the request".to_owned() } else { at.to_owned() },
                what: format!("member {key:?} is there twice; the last one counts"),
            })
        } else {
            left_out += 1
        }
    };
    // A text that is no JSON was refused before.
    let _ = json::repeated_keys(request.raw, note);
    if left_out > 0 {
        let what = format!("{left_out} more members are there twice");
        found.push(Anomaly { at: "the request".to_owned(), what });
    }
    found
}

pub(crate) fn object(text: &str, path: &str) -> Result<JsonText, ImportError> {
    JsonText::new(text).map_err(|source| ImportError::Json { path: path.to_owned(), source })
}

/// Reads the tools of a request; `null` counts as absent.
fn tools(fields: &Fields<'_>, dialect: Dialect) -> Result<Option<Vec<ToolSchema>>, ImportError> {
    let Some(list) = fields.some("tools") else { return Ok(None) };
    let mut tools = Vec::new();
    for element in list.array()? {
        element.object()?;
        for tool in dialect.adapter().tools_of(element)? {
            let schema = ToolSchema::parse(tool.raw);
            tools.push(schema.map_err(|source| ImportError::Json { path: tool.path, source })?);
        }
    }
    Ok(Some(tools))
}

/// The messages of a request, read one after the other: memory holds one at a time.
struct Messages<'a> {
    reader: Box<dyn Reader<'a> + Send + 'a>,
    elements: Option<Box<dyn Iterator<Item = Node<'a>> + Send + 'a>>,
    watch: Watch,
    /// The whole request, for what is found at its end.
    request: Node<'a>,
}

impl<'a> Messages<'a> {
    /// Begins with a request; returns its tools and its other parameters, too.
    fn begin(
        request: &Node<'a>,
        dialect: Dialect,
        others: &[&str],
    ) -> Result<(Option<Vec<ToolSchema>>, JsonText, Self), ImportError> {
        let (adapter, profile) = (dialect.adapter(), dialect.profile());
        let mut messages = Self {
            reader: adapter.reader(),
            elements: None,
            watch: Watch::default(),
            request: request.clone(),
        };
        if request.is_array() {
            messages.elements = Some(Box::new(Node::at(request.raw, profile.list).each()?));
            return Ok((None, object("{}", "")?, messages));
        }
        let mut fields = request.object()?;
        fields.members.retain(|(key, _)| !others.contains(&key.as_str()));
        if !adapter.begin(&fields, &mut messages.watch)? {
            let list = fields.require(profile.list)?;
            messages.elements = Some(Box::new(list.each()?));
        }
        let parameters = object(&adapter.parameters(profile, &fields), "")?;
        Ok((tools(&fields, dialect)?, parameters, messages))
    }

    fn next_draft(&mut self) -> Result<Option<Draft>, ImportError> {
        loop {
            if let Some(draft) = self.watch.drafts.pop_front() {
                return Ok(Some(draft));
            }
            let Some(message) = self.elements.as_mut().and_then(Iterator::next) else {
                self.elements = None;
                return Ok(self.reader.end());
            };
            self.reader.message(&message, &mut self.watch)?;
            self.watch.place += 1;
        }
    }

    /// Reads all drafts that are left.
    fn drafts(&mut self) -> Result<Vec<Draft>, ImportError> {
        std::iter::from_fn(|| self.next_draft().transpose()).collect()
    }

    /// Ends the reading, and lists what is odd about the messages and the whole request.
    fn finish(self) -> Vec<Anomaly> {
        let mut anomalies = self.watch.end();
        anomalies.extend(repeated(&self.request));
        anomalies
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("read", &self.watch.place).finish_non_exhaustive()
    }
}

/// Makes a draft of an import: with nothing in it that is not in the input.
pub(crate) fn draft(content: Content, role: Option<Role>, form: &str) -> Draft {
    let kind = content.kind();
    let mut draft = Draft::new(content).origin(AuthorKind::Import);
    draft.role = role.filter(|role| *role != kind.default_role());
    draft.form = Some(form.to_owned());
    draft
}

/// Makes a draft of a whole message, which keeps its bytes where lowering would not give them back.
pub(crate) fn whole_message(
    message: &Node<'_>,
    content: Content,
    role: Role,
    dialect: Dialect,
    lower: impl FnOnce(&mut OutgoingMessage<'_>) -> Option<String>,
) -> Draft {
    draft_of(message, content, role, dialect.form(), |out| {
        lower(out).is_some_and(|lowered| raw::same(&lowered, message.raw))
    })
}

/// Makes a draft of what was received, which keeps its bytes where it would not go out the same.
pub(crate) fn draft_of(
    received: &Node<'_>,
    content: Content,
    role: Role,
    form: &str,
    is_same: impl FnOnce(&mut OutgoingMessage<'_>) -> bool,
) -> Draft {
    let mut draft = draft(content, Some(role.clone()), form);
    if !is_same(&mut OutgoingMessage::recorded(&draft.content, &role)) {
        draft.verbatim = Some(Blob::seal(received.raw.as_bytes().to_vec()));
    }
    draft
}

/// The calls that have no result yet: id and name, oldest first.
#[derive(Default)]
pub(crate) struct OpenCalls(Vec<(String, String)>);

impl OpenCalls {
    pub(crate) fn push(&mut self, id: &str, name: &str) {
        self.0.push((id.to_owned(), name.to_owned()));
    }

    /// Takes out the call that a result answers, and returns its id: by the id that the result has,
    /// else by the tool's name, else the oldest.
    pub(crate) fn answered(&mut self, id: Option<String>, name: Option<&str>) -> String {
        let is_it = |(open, called): &(String, String)| match (&id, name) {
            (Some(id), _) => open == id,
            (None, Some(name)) => called == name,
            (None, None) => true,
        };
        match self.0.iter().position(is_it) {
            Some(at) => self.0.remove(at).0,
            None => id.unwrap_or_default(),
        }
    }
}

/// Follows the reading of messages: which one it is at, the drafts that are made of them, calls and
/// results, and what does not pair.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// How many messages were read before the one that is read.
    pub(crate) place: usize,
    /// Drafts that were not taken yet.
    pub(crate) drafts: VecDeque<Draft>,
    /// The calls of each id that have no result yet: their number and place, oldest first. An id
    /// stays when all of its calls have one.
    open: HashMap<String, Vec<(usize, String)>>,
    calls: usize,
    pub(crate) anomalies: Vec<Anomaly>,
}

impl Watch {
    pub(crate) fn note(&mut self, at: &str, what: impl Into<String>) {
        self.anomalies.push(Anomaly { at: at.to_owned(), what: what.into() });
    }

    /// Makes content that is no result of what a role said; a role without a meaning is noted.
    pub(crate) fn content_of(&mut self, role: &Role, body: Body, at: &str) -> Content {
        match role {
            Role::System | Role::Developer => Content::System(body),
            Role::User => Content::User(body),
            Role::Assistant => Content::Assistant(body),
            Role::Tool | Role::Other(_) => {
                self.note(at, format!("unknown role {:?}", role.as_str()));
                Content::Custom { kind: format!("role:{}", role.as_str()), body }
            }
        }
    }

    pub(crate) fn call(&mut self, id: &str, at: &str) {
        if self.open.contains_key(id) {
            self.note(at, format!("tool call id {id:?} reused"));
        }
        self.calls += 1;
        self.open.entry(id.to_owned()).or_default().push((self.calls, at.to_owned()));
    }

    pub(crate) fn result(&mut self, id: &str, at: &str) {
        // The nearest call, as results are bound when they are written.
        match self.open.get_mut(id).map(Vec::pop) {
            Some(Some(_)) => {}
            Some(None) => self.note(at, format!("tool call {id:?} is answered again")),
            None => self.note(at, format!("result for {id:?} answers no call")),
        }
    }

    pub(crate) fn end(mut self) -> Vec<Anomaly> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut open: Vec<(usize, String, String)> = open
            .flat_map(|(id, calls)| {
                calls.into_iter().map(move |(number, at)| (number, at, id.clone()))
            })
            .collect();
        open.sort_unstable();
        for (_, at, id) in open {
            self.note(&at, format!("tool call {id:?} unanswered"));
        }
        self.anomalies
    }
}

//! Reads requests: drafts, tools, parameters, and anomalies.

mod answer;
mod foreign;
mod har;
mod list;
mod packed;
mod pieces;
mod placement;

use std::fmt;

use tract_core::{Draft, JsonText, ToolSchema, json};
use tract_schema::Dialect;

use self::answer::{RecordedAnswer, RemainingMembers};
pub use self::har::{HarExchanges, har_exchanges};
pub use self::list::listed_conversations;
pub use self::packed::{UnpackedLine, unpacked};
pub use self::pieces::with_joined_pieces;
use crate::batch::{self, ANSWERS, BatchResult, OF_BEDROCK, REQUESTS, body_of};
use crate::detect::detect;
use crate::drafts::{Anomaly, Watch};
use crate::error::ImportError;
use crate::profile_of;
use crate::raw::{self, Fields, Node};
use crate::reader::Reader;

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The messages in order: a draft for each tool result, and one for each other part of a
    /// message.
    pub drafts: Vec<Draft>,
    /// The tools, in order, as given; `None` if the request does not mention tools.
    pub tools: Option<Vec<ToolSchema>>,
    /// All other members of the request: an object.
    pub parameters: JsonText,
    /// Content that a strict reader would reject.
    pub anomalies: Vec<Anomaly>,
}

/// A conversation of a file: a request, and the other members of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConversation {
    /// The line's own `id`.
    pub id: Option<String>,
    /// Its dialect.
    pub dialect: Dialect,
    /// The content of the request.
    pub imported: Imported,
    /// The members of the line besides the request: an object.
    pub meta: JsonText,
    /// Whether the last message is an answer that was recorded next to its request.
    pub is_answered: bool,
}

impl ProviderConversation {
    /// Reads one conversation: a request body, `{"messages","tools"}`, a list of messages, a line
    /// `{"id","messages","tools",…}`, `{"id","request",…}`, or a line of a batch
    /// (`{"custom_id","body"}`, `{"custom_id","params"}`, `{"recordId","modelInput"}`). An answer next
    /// to the request is the last message, with its model, usage and cost: under `response`, `output`,
    /// `completion` or `modelOutput`, the first one of `responses`, or the members `choices` and `usage`
    /// of the line. A line of a batch's results (`{"custom_id","response"}`, `{"custom_id","result"}`) has only the answer.
    /// The other members of a line are in [`meta`](Self::meta). A body that is a JSON text is read as
    /// the object that it contains.
    ///
    /// # Errors
    /// [`ImportError`] with the path; [`ImportError::Unknown`] if the dialect is neither given nor
    /// recognized; [`ImportError::NoAnswer`] for the result of a request that failed.
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
        let unpacked = unpacked(text);
        let line = unpacked.as_ref().map_or(text, |line| line.text.as_str());
        let mut reader = ConversationReader::new(line, dialect)?;
        let mut drafts = Vec::new();
        while let Some(draft) = reader.next_draft()? {
            drafts.push(draft);
        }
        let is_answered = reader.is_answered;
        let (id, dialect, meta) = (reader.id.take(), reader.dialect, reader.meta.clone());
        let (tools, parameters) = (reader.tools.take(), reader.parameters.clone());
        let mut anomalies = reader.finish();
        anomalies.extend(unpacked.into_iter().flat_map(|line| line.replaced));
        let imported = Imported { drafts, tools, parameters, anomalies };
        Ok(Self { id, dialect, imported, meta, is_answered })
    }
}

/// As [`ProviderConversation`], with messages that are read one by one: only the text and one
/// message are in memory.
#[derive(Debug)]
pub struct ConversationReader<'a> {
    /// The line's own `id`.
    pub id: Option<String>,
    /// Its dialect.
    pub dialect: Dialect,
    /// The members of the line besides the request: an object.
    pub meta: JsonText,
    /// The tools, in order, as given; `None` if the request does not mention tools.
    pub tools: Option<Vec<ToolSchema>>,
    /// All other members of the request: an object.
    pub parameters: JsonText,
    /// Whether an answer was recorded next to the request; it is the last draft.
    pub is_answered: bool,
    answer: Option<Draft>,
    messages: Messages<'a>,
    anomalies: Vec<Anomaly>,
}

impl<'a> ConversationReader<'a> {
    /// Starts to read a text that [`ProviderConversation::read`] accepts. A text with packed bodies
    /// has to be [`unpacked`] before.
    ///
    /// # Errors
    /// As [`ProviderConversation::read`], except for errors in messages.
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
            return Self::of(None, dialect, &root, &[]);
        }
        let fields = root.object()?;
        if let Some(result) = BatchResult::find(&fields) {
            return Self::of_result(result, &fields, dialect);
        }
        let shown = || unknown(&format!("an object with {}", keys(&fields)));
        let dialect = dialect.or_else(|| detect(text)).ok_or_else(shown)?;
        let id = fields.text("id").or_else(|| batch::id_of(&fields));
        let answer = RecordedAnswer::find(&fields);
        // A line of a batch also has its request in one member.
        let request = REQUESTS.iter().find_map(|key| {
            Some((*key, fields.get(key).filter(|node| is_request(node, &fields, key))?))
        });
        if let Some((key, request)) = request {
            let (request, envelope) = match body_of(&request) {
                body if key == "request" && body.is_object() && body.path != request.path => {
                    (body, Some(request))
                }
                _ => (request, None),
            };
            let mut apart = vec![key];
            // An id of another type is one of the other members.
            let own_id = fields.text("id").map(|_| "id");
            apart.extend(own_id.or_else(|| Some(batch::id_member(&fields)?.0)));
            apart.extend(answer.iter().map(|answer| answer.member));
            apart.extend(
                ANSWERS.iter().filter(|key| fields.get(key).is_some_and(|it| it.is_null())),
            );
            // A `response` that is not a model's answer is left out, and reported as an anomaly.
            apart.extend(answer.is_none().then_some("response"));
            let mut reader = Self::of(id, dialect, &request, &[])?;
            if let Some(response) = fields.some("response").filter(|_| answer.is_none()) {
                reader.anomalies.push(answer::not_an_answer("response", &response));
            }
            let (others, odd) = reader.read_answer(answer, &request);
            let (meta, left_out) = meta_of(&fields, &apart, envelope.as_ref(), others);
            reader.meta = object(&meta, "")?;
            reader.anomalies.extend(left_out.into_iter().chain(odd));
            return Ok(reader);
        }
        // Lines written by tract have members that are not part of the request.
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
        // If the line records what came of the request, only known parameters of the provider belong
        // to the request.
        let profile = profile_of(dialect);
        let is_own = |key: &str| {
            let (list, system) = (profile.format.list, profile.format.system);
            let own = [Some(list), system, Some("tools"), Some("model")];
            own.contains(&Some(key)) || profile.parameters.contains(&key)
        };
        if answer.is_some() || answer::has_outcome(&fields) {
            let is_answer = |key: &str| match &answer {
                Some(answer) => answer.member == key,
                None => ANSWERS.contains(&key),
            };
            for (key, node) in fields.nodes().filter(|(key, _)| !is_own(key)) {
                if !others.contains(&key) {
                    others.push(key);
                    let is_null_answer = node.is_null() && ANSWERS.contains(&key);
                    if !is_answer(key) && !is_null_answer {
                        meta.raw(key, node.raw);
                    }
                }
            }
        }
        let mut unread = if answer.is_none() { answer::unread(&fields) } else { Vec::new() };
        let mut reader = Self::of(id, dialect, &root, &others)?;
        let (kept, odd) = reader.read_answer(answer, &root);
        if let Some(kept) = kept {
            meta.nest(kept.member, kept.end(&mut unread));
        }
        reader.meta = object(&meta.end(), "")?;
        reader.anomalies.extend(unread.into_iter().chain(odd));
        Ok(reader)
    }

    /// Starts to read a request. Its members named in `others` are not sent to the provider.
    fn of(
        id: Option<String>,
        dialect: Dialect,
        request: &Node<'a>,
        others: &[&str],
    ) -> Result<Self, ImportError> {
        foreign::refuse(request, dialect)?;
        let (tools, parameters, messages) = Messages::begin(request, dialect, others)?;
        Ok(Self {
            id,
            dialect,
            meta: object("{}", "")?,
            tools,
            parameters,
            is_answered: false,
            answer: None,
            messages,
            anomalies: Vec::new(),
        })
    }

    /// Reads the answer to a request. Returns its members that are not in its message, and its
    /// anomalies.
    fn read_answer(
        &mut self,
        answer: Option<RecordedAnswer<'a>>,
        request: &Node<'_>,
    ) -> (Option<RemainingMembers<'a>>, Vec<Anomaly>) {
        let mut anomalies = Vec::new();
        let Some(answer) = answer else { return (None, anomalies) };
        let (draft, remaining) =
            answer.read(self.dialect, &self.parameters, request, &mut anomalies);
        self.is_answered = draft.is_some();
        self.answer = draft;
        (remaining, anomalies)
    }

    /// Starts to read the result of a batch without its request.
    fn of_result(
        result: BatchResult<'a>,
        fields: &Fields<'a>,
        requested: Option<Dialect>,
    ) -> Result<Self, ImportError> {
        let BatchResult { id, answer } = result;
        let (shown, answer) = answer.map_err(|cause| BatchResult::failure(&id, cause))?;
        if let Some(requested) = requested.filter(|requested| *requested != shown) {
            return Err(ImportError::OtherFormat { path: answer.path, requested, shown });
        }
        let request = Node::root("[]");
        let mut reader = Self::of(Some(id.clone()), shown, &request, &[])?;
        let (remaining, mut odd) = reader.read_answer(Some(RecordedAnswer::of(answer)), &request);
        if !reader.is_answered {
            let cause = odd.pop().map(|anomaly| anomaly.what).unwrap_or_default();
            return Err(BatchResult::failure(&id, cause));
        }
        let others = remaining.and_then(|remaining| remaining.others);
        reader.meta = object(&batch::meta(fields, others), "")?;
        let what = "the request is not in this line: the conversation has only the answer";
        reader.anomalies.push(Anomaly { at: "the request".to_owned(), what: what.to_owned() });
        reader.anomalies.extend(odd);
        Ok(reader)
    }

    /// Returns the next draft; `None` at the end.
    ///
    /// # Errors
    /// [`ImportError`] with the path.
    pub fn next_draft(&mut self) -> Result<Option<Draft>, ImportError> {
        Ok(self.messages.next_draft()?.or_else(|| self.answer.take()))
    }

    /// Ends the reading, and returns the anomalies.
    pub fn finish(self) -> Vec<Anomaly> {
        let mut anomalies = self.messages.finish();
        anomalies.extend(self.anomalies);
        anomalies
    }
}

/// Returns whether a member of a line is a request.
fn is_request(node: &Node<'_>, line: &Fields<'_>, key: &str) -> bool {
    node.is_object() && (key == "request" || key == OF_BEDROCK || line.has("custom_id"))
}

/// Returns the members of a line that are not part of the conversation: its own, except those that
/// are listed, those of the HTTP messages that contain the request and the answer, and those of the
/// answer. The headers of HTTP messages are left out, because they contain keys, and reported.
fn meta_of(
    fields: &Fields<'_>,
    apart: &[&str],
    request: Option<&Node<'_>>,
    answer: Option<RemainingMembers<'_>>,
) -> (String, Vec<Anomaly>) {
    let mut out = raw::Object::new();
    for (key, raw) in fields.members.iter().filter(|(key, _)| !apart.contains(&key.as_str())) {
        out.raw(key, raw);
    }
    let mut left_out = Vec::new();
    if let Some(envelope) = request {
        out.nest("request", envelope_meta(envelope, &mut left_out));
    }
    if let Some(answer) = answer {
        out.nest(answer.member, answer.end(&mut left_out));
    }
    (out.end(), left_out)
}

/// Returns the members of an HTTP message, without its body and those that may contain keys.
fn envelope_meta(envelope: &Node<'_>, left_out: &mut Vec<Anomaly>) -> String {
    const LEFT_OUT: [&str; 2] = ["headers", "cookies"];
    let Ok(inner) = envelope.object() else { return "{}".to_owned() };
    let headers = LEFT_OUT.iter().filter_map(|key| inner.some(key));
    left_out.extend(headers.map(|node| Anomaly::left_out(node.path)));
    inner.without(&["body", LEFT_OUT[0], LEFT_OUT[1]])
}

fn keys(fields: &Fields<'_>) -> String {
    let names: Vec<_> = fields.members.iter().take(6).map(|(key, _)| format!("{key:?}")).collect();
    if names.is_empty() { "no members".to_owned() } else { names.join(", ") }
}

/// Reads the text of messages, or of a whole request, in the shape of a dialect. Numbers and the
/// order of keys stay as written.
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
/// [`ImportError`] with the path that violates the dialect.
pub fn read_request(text: &str, dialect: Dialect) -> Result<Imported, ImportError> {
    let (tools, parameters, mut messages) = Messages::begin(&Node::root(text), dialect, &[])?;
    let drafts = messages.drafts()?;
    Ok(Imported { drafts, tools, parameters, anomalies: messages.watch.end() })
}

/// Returns whether a list of tools is empty.
fn is_empty(list: &str) -> bool {
    list == "null" || json::split_array(list).is_ok_and(|tools| tools.is_empty())
}

/// Maximum number of repeated members that are listed per text; more are only counted.
const LISTED: usize = 100;

/// Lists the repeated members of objects in the request.
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
    // A text that is not JSON was rejected before.
    let _ = json::repeated_keys(request.raw, note);
    if left_out > 0 {
        let what = format!("{left_out} more members are there twice");
        found.push(Anomaly { at: "the request".to_owned(), what });
    }
    found
}

fn object(text: &str, path: &str) -> Result<JsonText, ImportError> {
    JsonText::new(text).map_err(|source| ImportError::Json { path: path.to_owned(), source })
}

/// Reads the tools of a request; `null` counts as absent.
fn tools(fields: &Fields<'_>, dialect: Dialect) -> Result<Option<Vec<ToolSchema>>, ImportError> {
    let legacy = || fields.some(profile_of(dialect).legacy_tools?);
    let Some(list) = fields.some("tools").or_else(legacy) else { return Ok(None) };
    let mut tools = Vec::new();
    for element in list.array()? {
        element.object()?;
        for tool in profile_of(dialect).adapter.tools_of(element)? {
            let schema = ToolSchema::parse(tool.raw);
            tools.push(schema.map_err(|source| ImportError::Json { path: tool.path, source })?);
        }
    }
    Ok(Some(tools))
}

/// The messages of a request, read one by one, so that only one is in memory.
struct Messages<'a> {
    reader: Box<dyn Reader<'a> + Send + 'a>,
    elements: Option<Box<dyn Iterator<Item = Node<'a>> + Send + 'a>>,
    watch: Watch,
    /// The whole request, for the anomalies reported at the end.
    request: Node<'a>,
}

impl<'a> Messages<'a> {
    /// Starts to read a request; returns its tools and its other parameters, too.
    fn begin(
        request: &Node<'a>,
        dialect: Dialect,
        others: &[&str],
    ) -> Result<(Option<Vec<ToolSchema>>, JsonText, Self), ImportError> {
        let profile = profile_of(dialect);
        let (adapter, list) = (profile.adapter, profile.format.list);
        let mut messages = Self {
            reader: adapter.reader(),
            elements: None,
            watch: Watch::default(),
            request: request.clone(),
        };
        if request.is_array() {
            messages.elements = Some(Box::new(Node::at(request.raw, list).each()?));
            return Ok((None, object("{}", "")?, messages));
        }
        let mut fields = request.object()?;
        fields.members.retain(|(key, _)| !others.contains(&key.as_str()));
        if !adapter.begin(&fields, &mut messages.watch)? {
            let list = fields.require(list)?;
            messages.elements = Some(Box::new(list.each()?));
        }
        let mut parameters = adapter.parameters(profile, &fields);
        // An empty list means that there are no tools.
        if let Some(none) = fields.raw("tools").filter(|raw| is_empty(raw)) {
            let mut out = raw::Object::new();
            for (key, raw) in json::split_object(&parameters).unwrap_or_default() {
                out.raw(&key, raw);
            }
            parameters = out.raw("tools", none).end();
        }
        let parameters = object(&parameters, "")?;
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

    /// Reads all remaining drafts.
    fn drafts(&mut self) -> Result<Vec<Draft>, ImportError> {
        std::iter::from_fn(|| self.next_draft().transpose()).collect()
    }

    /// Ends the reading, and returns the anomalies of the messages and of the whole request.
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

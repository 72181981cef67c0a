//! Drafts of the messages that are read, and the anomalies found in them.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use tract_core::{AuthorKind, Blob, Body, Content, Draft, Part, Role, json};

use crate::error::ImportError;
use crate::format::{KEPT, MessageFormat};
use crate::neutral::OutgoingMessage;
use crate::raw::{self, Node};

/// The description of a member that is not stored.
const LEFT_OUT: &str = "left out: it may contain keys";

/// Something in a recording that a strict reader would reject. Nothing is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// The path, such as `messages[3].tool_calls[0]`.
    pub at: String,
    /// The description of the anomaly.
    pub what: String,
}

impl Anomaly {
    /// Returns whether it is content that was not understood and is kept as its JSON.
    pub fn is_kept_json(&self) -> bool {
        self.what.ends_with(KEPT)
    }

    /// Makes the anomaly of a member of an HTTP message that is not stored.
    pub(crate) fn left_out(at: impl Into<String>) -> Self {
        Self { at: at.into(), what: LEFT_OUT.to_owned() }
    }

    /// Returns whether it is a member that is left out of every HTTP message, such as its headers,
    /// because it may contain keys. One report per file is enough.
    pub fn is_left_out(&self) -> bool {
        self.what == LEFT_OUT
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Reads the parts of a content: one for a text, one per element for a list.
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

/// Makes a draft of an imported message, without a creation time or other added facts.
pub(crate) fn draft(content: Content, role: Option<Role>, form: &str) -> Draft {
    let kind = content.kind();
    let mut draft = Draft::new(content).origin(AuthorKind::Import);
    draft.role = role.filter(|role| *role != kind.default_role());
    draft.form = Some(form.to_owned());
    draft
}

/// Makes a draft of a whole message. It keeps the bytes if lowering would write other JSON.
pub(crate) fn whole_message(
    message: &Node<'_>,
    content: Content,
    role: Role,
    format: &MessageFormat,
    lower: impl FnOnce(&mut OutgoingMessage<'_>) -> Option<String>,
) -> Draft {
    draft_of(message, content, role, format.form, |out| {
        lower(out).is_some_and(|lowered| raw::same(&lowered, message.raw))
    })
}

/// Makes a draft of a received message. It keeps the bytes if lowering would write other JSON.
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

/// The calls without results. Answering one takes constant time on average.
#[derive(Default)]
pub(crate) struct OpenCalls {
    /// The ids of all calls; `None` if answered.
    calls: Vec<Option<String>>,
    by_id: HashMap<String, CallQueue>,
    by_name: HashMap<String, CallQueue>,
    all: CallQueue,
}

/// Numbers of calls by message, in order. Some may be answered already.
#[derive(Default)]
struct CallQueue(Vec<(usize, VecDeque<usize>)>);

impl CallQueue {
    fn push(&mut self, message: usize, call: usize) {
        match self.0.last_mut().filter(|(last, _)| *last == message) {
            Some((_, calls)) => calls.push_back(call),
            None => self.0.push((message, [call].into())),
        }
    }

    /// Removes the first open call of the nearest message with one.
    fn pop(&mut self, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        while let Some((_, calls)) = self.0.last_mut() {
            match calls.pop_front() {
                Some(call) if is_open(call) => return Some(call),
                Some(_) => {}
                None => drop(self.0.pop()),
            }
        }
        None
    }
}

impl OpenCalls {
    pub(crate) fn push(&mut self, message: usize, id: &str, name: &str) {
        let call = self.calls.len();
        self.calls.push(Some(id.to_owned()));
        self.by_id.entry(id.to_owned()).or_default().push(message, call);
        self.by_name.entry(name.to_owned()).or_default().push(message, call);
        self.all.push(message, call);
    }

    /// Removes the call that a result answers, and returns its id: the first call of the nearest
    /// message with a match. A match has the result's id, or the tool's name if there is no id;
    /// without either, any call matches.
    pub(crate) fn answered(&mut self, id: Option<String>, name: Option<&str>) -> String {
        let queue = match (&id, name) {
            (Some(id), _) => self.by_id.get_mut(id),
            (None, Some(name)) => self.by_name.get_mut(name),
            (None, None) => Some(&mut self.all),
        };
        let is_open = |call: usize| self.calls.get(call).is_some_and(Option::is_some);
        let call = queue.and_then(|queue| queue.pop(is_open));
        match call.and_then(|call| self.calls.get_mut(call)?.take()) {
            Some(id) => id,
            None => id.unwrap_or_default(),
        }
    }
}

/// The unanswered calls of one message with the same id, in order: number and path.
#[derive(Debug)]
struct OpenMessage {
    message: usize,
    calls: VecDeque<(usize, String)>,
}

/// The state of reading messages: the current place, the drafts, the open calls, and the anomalies.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The place of the current message.
    pub(crate) place: usize,
    /// Drafts that were not returned yet.
    pub(crate) drafts: VecDeque<Draft>,
    /// The open calls of each id, oldest first. An id stays after all its calls are answered.
    open: HashMap<String, Vec<OpenMessage>>,
    calls: usize,
    pub(crate) anomalies: Vec<Anomaly>,
}

impl Watch {
    pub(crate) fn note(&mut self, at: &str, what: impl Into<String>) {
        self.anomalies.push(Anomaly { at: at.to_owned(), what: what.into() });
    }

    /// Returns the arguments of a call. They are JSON within a JSON string, so damaged characters
    /// in them are replaced and noted here.
    pub(crate) fn arguments(&mut self, at: &str, text: String) -> String {
        let decoded = json::decode(text.as_bytes());
        if decoded.count == 0 {
            return text;
        }
        for place in &decoded.replaced {
            self.note(at, place.to_string());
        }
        decoded.text.into_owned()
    }

    /// Makes a part of content that only its provider understands. One of an unknown type is an
    /// anomaly.
    pub(crate) fn opaque(&mut self, format: &MessageFormat, node: &Node<'_>) -> Part {
        if let Some(what) = format.unknown_part(node.raw) {
            self.note(&node.path, what);
        }
        format.opaque_part(node)
    }

    /// Keeps an image whose source cannot be read, as received.
    pub(crate) fn unread_image(&mut self, format: &MessageFormat, node: &Node<'_>) -> Part {
        self.note(&node.path, format!("an image without a readable source, {KEPT}"));
        format.opaque_part(node)
    }

    /// Makes the content of a message that is not a result. An unknown role is an anomaly.
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
        let (message, call) = (self.place, (self.calls, at.to_owned()));
        let open = self.open.entry(id.to_owned()).or_default();
        match open.last_mut().filter(|last| last.message == message) {
            Some(last) => last.calls.push_back(call),
            None => open.push(OpenMessage { message, calls: [call].into() }),
        }
    }

    pub(crate) fn result(&mut self, id: &str, at: &str) {
        // The first call of the nearest message, the same rule by which commits bind results.
        let Some(open) = self.open.get_mut(id) else {
            return self.note(at, format!("result for {id:?} answers no call"));
        };
        let answered = open.last_mut().and_then(|last| last.calls.pop_front());
        open.pop_if(|last| last.calls.is_empty());
        if answered.is_none() {
            self.note(at, format!("tool call {id:?} is answered again"));
        }
    }

    pub(crate) fn end(mut self) -> Vec<Anomaly> {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut open: Vec<(usize, String, String)> = open
            .flat_map(|(id, messages)| {
                let calls = messages.into_iter().flat_map(|message| message.calls);
                calls.map(move |(number, at)| (number, at, id.clone()))
            })
            .collect();
        open.sort_unstable();
        for (_, at, id) in open {
            self.note(&at, format!("tool call {id:?} unanswered"));
        }
        self.anomalies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_answers_the_first_open_call_of_the_nearest_message() {
        let mut open = OpenCalls::default();
        for (message, id, name) in
            [(1, "a", "f"), (1, "b", "g"), (2, "c", "f"), (2, "d", "f"), (2, "a", "g")]
        {
            open.push(message, id, name);
        }
        assert_eq!(open.answered(None, Some("f")), "c");
        assert_eq!(open.answered(Some("a".to_owned()), Some("f")), "a", "that of message 2");
        assert_eq!(open.answered(None, Some("g")), "b", "the other one is answered");
        assert_eq!(open.answered(None, None), "d");
        assert_eq!(open.answered(None, None), "a", "that of message 1");
        assert_eq!(open.answered(None, None), "");
        assert_eq!(open.answered(Some("x".to_owned()), None), "x");
    }
}

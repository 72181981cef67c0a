//! Conversations that a file stores as a tree of messages, each naming its parent.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_core::{Content, Draft};

use crate::document::Conversation;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::AnomalyKind;

/// Number of characters of an id in a branch name, unless they are the same for another branch.
const SUFFIX_CHARS: usize = 8;

/// A message of the tree with its contents.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// The message before it; `None` for a first message.
    pub(crate) parent: Option<String>,
    /// Its position in the file, from 1.
    pub(crate) line: usize,
    /// Its content; empty if no model saw it.
    pub(crate) drafts: Vec<Draft>,
    /// Whether it continues the answer of the previous message, if both are the model's.
    pub(crate) continues: bool,
}

/// Adds the messages of a tree. The branch of the conversation leads to `current`, or by default
/// along the newest messages of the list. Every other end becomes a branch that shares the start.
pub(crate) fn say_tree(conversation: &mut Conversation, nodes: Vec<Node>, current: Option<&str>) {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    let mut repeated = BTreeSet::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.contains_key(node.id.as_str()) {
            repeated.insert(place);
        } else {
            places.insert(&node.id, place);
        }
    }
    let recording = &mut conversation.recording;
    for place in &repeated {
        if let Some(node) = nodes.get(*place) {
            let what = format!("message {:?} is there twice; the first one counts", node.id);
            recording.odd(node.line, AnomalyKind::Replayed, what);
        }
    }
    let mut tree = Tree {
        nodes: &nodes,
        cursors: vec![None; nodes.len()],
        suffixes: HashSet::new(),
        has_main: false,
    };
    recording.has_forks = true;
    let current = current.and_then(|id| places.get(id).copied());
    if current.is_none() && !nodes.is_empty() {
        // By default, the conversation ends at the last message of the list.
        let last = (0..nodes.len()).rev().find(|place| !repeated.contains(place));
        last.iter().for_each(|last| tree.say_path(recording, &places, *last));
    }
    current.iter().for_each(|place| tree.say_path(recording, &places, *place));
    for place in (0..nodes.len()).filter(|place| !repeated.contains(place)) {
        tree.say_path(recording, &places, place);
    }
    if let Some(cursor) = current.and_then(|place| tree.cursors.get(place)?.clone()) {
        conversation.cursor = cursor;
    }
}

struct Tree<'a> {
    nodes: &'a [Node],
    /// The context after each message so far.
    cursors: Vec<Option<Cursor>>,
    suffixes: HashSet<String>,
    has_main: bool,
}

impl Tree<'_> {
    /// Adds the messages that lead to one and were not added yet, oldest first.
    fn say_path(&mut self, recording: &mut Recording, places: &HashMap<&str, usize>, to: usize) {
        let mut path = Vec::new();
        let mut on_path = HashSet::new();
        let mut next = Some(to);
        let mut cursor = Cursor::default();
        while let Some(place) = next {
            let Some(node) = self.nodes.get(place) else { break };
            if let Some(Some(known)) = self.cursors.get(place) {
                cursor = known.clone();
                break;
            }
            if !on_path.insert(place) {
                let what = "messages follow each other in a circle; one of them begins it";
                recording.odd(node.line, AnomalyKind::MissingParent, what);
                break;
            }
            path.push(place);
            next = node.parent.as_deref().and_then(|parent| places.get(parent).copied());
            if next.is_none() && node.parent.is_some() {
                let what = "a message follows one that the file does not have";
                recording.odd(node.line, AnomalyKind::MissingParent, what);
            }
        }
        for place in path.into_iter().rev() {
            let Some(node) = self.nodes.get(place) else { continue };
            self.say(recording, &mut cursor, node);
            if let Some(slot) = self.cursors.get_mut(place) {
                *slot = Some(cursor.clone());
            }
        }
    }

    fn say(&mut self, recording: &mut Recording, cursor: &mut Cursor, node: &Node) {
        for (n, draft) in node.drafts.iter().enumerate() {
            if !recording.continues(cursor) {
                let suffix = self.has_main.then(|| self.suffix(&node.id));
                recording.fork(cursor, suffix);
                self.has_main = true;
            }
            let is_said = matches!(draft.content, Content::Assistant(_));
            if n == 0 && is_said && !node.continues {
                recording.end_answer(cursor);
            }
            let id = match n {
                0 => node.id.clone(),
                n => format!("{}#{n}", node.id),
            };
            let (line, draft) = (node.line, draft.clone());
            recording.append(cursor, RecordedMessage { id: Some(id), line, draft });
        }
    }

    /// Returns the suffix of a branch's name: the first characters of the id of its first message.
    fn suffix(&mut self, id: &str) -> String {
        let short: String = id.chars().take(SUFFIX_CHARS).collect();
        let short = format!(".{}", tract_core::RefName::distinct(&short));
        if self.suffixes.insert(short.clone()) {
            return short;
        }
        let whole = format!(".{}", tract_core::RefName::distinct(id));
        self.suffixes.insert(whole.clone());
        whole
    }
}

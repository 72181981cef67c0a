//! The difference between two compiled contexts: messages, tools, tokens, configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Write as _};

use similar::{Algorithm, DiffOp, TextDiff, capture_diff_slices};
use tract_compile::Compiled;
use tract_core::text::count;
use tract_core::{CommitId, Content, JsonText, Message, Part, json};

use crate::history::diff_line::DiffLineKind::{Added, Changed, Context, Heading, Removed, Summary};
use crate::history::diff_line::{DiffLine, DiffLineKind, write_lines};
use crate::history::log::one_line;
use crate::history::tool_diff::{SchemaDiff, ToolDiff, tool_diff};

/// One message that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageChange {
    /// Only the second context has it.
    Added {
        /// Its position in the second context, from 1.
        place: usize,
        /// The message.
        message: Box<Message>,
    },
    /// Only the first context has it.
    Removed {
        /// Its position in the first context, from 1.
        place: usize,
        /// The number of messages before it in the second context.
        after: usize,
        /// The message.
        message: Box<Message>,
    },
    /// Both contexts have it, with different content.
    Changed {
        /// Its position in the second context, from 1.
        place: usize,
        /// The message in the first context.
        before: Box<Message>,
        /// The message in the second context.
        after: Box<Message>,
        /// A unified diff of its text and tool calls, without headers. Empty if only other parts
        /// differ, such as an image or a signature.
        text: String,
    },
}

/// One key of the generation config in force that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The key.
    pub key: String,
    /// Its value in the first context.
    pub before: Option<JsonText>,
    /// Its value in the second context.
    pub after: Option<JsonText>,
}

/// The difference between two compiled contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// The messages that differ, in the order of the second context.
    pub messages: Vec<MessageChange>,
    /// The number of messages that are equal in both contexts.
    pub unchanged_count: usize,
    /// The tools that differ.
    pub tools: ToolDiff,
    /// The tokens of the first and of the second context.
    pub token_counts: (u64, u64),
    /// The keys of the last generation config that differ, sorted.
    pub config: Vec<ConfigChange>,
}

impl Diff {
    /// Returns the difference in tokens: positive when the second context is larger.
    pub fn token_delta(&self) -> i64 {
        let (before, after) = self.token_counts;
        after as i64 - before as i64
    }

    /// Returns whether a model cannot tell the contexts apart.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.tools.is_empty() && self.config.is_empty()
    }
}

/// Compares two compiled contexts.
///
/// Messages are aligned by content. Of the remaining ones, a slot that is in both contexts is one
/// changed message, and so are two neighbors of one role at the same position. `schemas` describes
/// the difference between two schemas of one tool.
pub fn diff(before: &Compiled, after: &Compiled, schemas: SchemaDiff<'_>) -> Diff {
    let old: Vec<&Message> = before.messages().collect();
    let new: Vec<&Message> = after.messages().collect();
    let (messages, unchanged_count) = messages(&old, &new);
    Diff {
        messages,
        unchanged_count,
        tools: tool_diff(before.tools(), after.tools(), schemas),
        token_counts: (before.token_count().count, after.token_count().count),
        config: config(last_config(before), last_config(after)),
    }
}

/// Returns the parts of a message that a model sees.
fn visible_content(message: &Message) -> (&Content, &str) {
    (&message.content, message.role.as_str())
}

fn messages(old: &[&Message], new: &[&Message]) -> (Vec<MessageChange>, usize) {
    let old_keys: Vec<_> = old.iter().map(|message| visible_content(message)).collect();
    let new_keys: Vec<_> = new.iter().map(|message| visible_content(message)).collect();
    let ops = capture_diff_slices(Algorithm::Myers, &old_keys, &new_keys);
    // Messages that are not aligned by text are matched by slot, wherever they are.
    let mut loose_old: HashMap<CommitId, usize> = HashMap::new();
    let mut loose_new: HashMap<CommitId, usize> = HashMap::new();
    for op in &ops {
        if !matches!(op, DiffOp::Equal { .. }) {
            loose_old.extend(op.old_range().map(|place| (old[place].slot, place)));
            loose_new.extend(op.new_range().map(|place| (new[place].slot, place)));
        }
    }
    let moved: HashSet<usize> = loose_old
        .iter()
        .filter(|(slot, _)| loose_new.contains_key(slot))
        .map(|(_, place)| *place)
        .collect();
    let removed = |gone: usize, after: usize| MessageChange::Removed {
        place: gone + 1,
        after,
        message: boxed(old[gone]),
    };
    let (mut changes, mut unchanged) = (Vec::new(), 0);
    for op in &ops {
        if let DiffOp::Equal { len, .. } = op {
            unchanged += len;
            continue;
        }
        let mut left: Vec<usize> =
            op.old_range().filter(|place| !moved.contains(place)).rev().collect();
        for place in op.new_range() {
            let message = new[place];
            let pair = match loose_old.get(&message.slot) {
                Some(pair) => {
                    // Removed messages from before it come first.
                    while let Some(gone) = left.pop_if(|gone| *gone < *pair) {
                        changes.push(removed(gone, place));
                    }
                    Some(*pair)
                }
                None => {
                    let same_role = |pair: &&usize| old[**pair].role == message.role;
                    left.last().filter(same_role).copied().inspect(|_| {
                        left.pop();
                    })
                }
            };
            match pair {
                None => {
                    changes.push(MessageChange::Added { place: place + 1, message: boxed(message) })
                }
                Some(pair) => changes.push(MessageChange::Changed {
                    place: place + 1,
                    before: boxed(old[pair]),
                    after: boxed(message),
                    text: unified(&plain(old[pair]), &plain(message)),
                }),
            }
        }
        let after = op.new_range().end;
        changes.extend(left.into_iter().rev().map(|gone| removed(gone, after)));
    }
    (changes, unchanged)
}

fn boxed(message: &Message) -> Box<Message> {
    Box::new(message.clone())
}

/// Maximum number of lines of both texts together for a line diff, which is quadratic in the worst
/// case.
const MAX_DIFF_LINES: usize = 40_000;

fn unified(before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let mut out = String::new();
    if before.lines().count() + after.lines().count() > MAX_DIFF_LINES {
        for (sign, text) in [('-', before), ('+', after)] {
            for line in text.lines() {
                let _ = writeln!(out, "{sign}{line}");
            }
        }
        return out;
    }
    let diff = TextDiff::from_lines(before, after);
    let _ = write!(out, "{}", diff.unified_diff().context_radius(3).missing_newline_hint(false));
    out
}

/// Returns a message as lines of text: its text, then its calls as `name(arguments)`.
pub fn plain(message: &Message) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    match &message.content {
        Content::Artifact(artifact) => line(&artifact.text),
        Content::Note(note) => line(note.as_str()),
        content => {
            if matches!(content, Content::ToolResult(answer) if answer.is_error) {
                line("(error)");
            }
            content.parts().iter().for_each(|part| line(&plain_part(part)));
        }
    }
    out
}

fn plain_part(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{}({})", call.name, call.arguments),
        Part::Reasoning { text, .. } => match part.unreadable_reasoning() {
            Some(why) => format!("(reasoning, {why})"),
            None => format!("(reasoning) {text}"),
        },
        Part::Image { media_type, .. } => {
            format!("(image {})", media_type.as_deref().unwrap_or("of unknown type"))
        }
        Part::Opaque { dialect, json } => format!("({dialect}) {json}"),
    }
}

fn last_config(compiled: &Compiled) -> Option<&JsonText> {
    compiled.messages().rev().find_map(|message| message.generation_config.as_ref())
}

fn config(before: Option<&JsonText>, after: Option<&JsonText>) -> Vec<ConfigChange> {
    let members = |config: Option<&JsonText>| -> BTreeMap<String, JsonText> {
        let split = config.and_then(|config| json::split_object(config.as_str()).ok());
        let members = split.unwrap_or_default().into_iter();
        members.filter_map(|(key, raw)| Some((key, JsonText::new(raw).ok()?))).collect()
    };
    let (mut before, mut after) = (members(before), members(after));
    let keys: std::collections::BTreeSet<String> =
        before.keys().chain(after.keys()).cloned().collect();
    keys.into_iter()
        .map(|key| ConfigChange { before: before.remove(&key), after: after.remove(&key), key })
        .filter(|change| change.before != change.after)
        .collect()
}

impl MessageChange {
    fn lines(&self, out: &mut Vec<DiffLine>) {
        let mut line = |kind, text: &str| out.push(DiffLine::new(kind, text));
        match self {
            Self::Added { place, message } => {
                line(Heading, &format!("#{place} {}, added", named(message)));
                plain(message).lines().for_each(|text| line(Added, text));
            }
            Self::Removed { after, message, .. } => {
                let place = match after {
                    0 => "before #1".to_owned(),
                    after => format!("after #{after}"),
                };
                line(Heading, &format!("{place}: {}, removed", named(message)));
                plain(message).lines().for_each(|text| line(Removed, text));
            }
            Self::Changed { place, before, after, text } => {
                let mut heading = format!("#{place} {}", named(after));
                if before.commit != after.commit {
                    heading += &format!(", was {}", before.commit.short());
                }
                if before.role != after.role {
                    heading += &format!(", role was {}", one_line(before.role.as_str(), NAME));
                }
                line(Heading, &heading);
                hunks(text, &mut line);
            }
        }
    }
}

/// Maximum length of a name in a heading, in characters.
const NAME: usize = 80;

fn named(message: &Message) -> String {
    format!("{} {}", one_line(message.role.as_str(), NAME), message.commit.short())
}

/// Yields the lines of a unified diff, with `…` in place of the omitted equal lines.
fn hunks(unified: &str, line: &mut impl FnMut(DiffLineKind, &str)) {
    let mut is_first = true;
    for text in unified.lines() {
        let mut rest = text.chars();
        match rest.next() {
            Some('+') => line(Added, rest.as_str()),
            Some('-') => line(Removed, rest.as_str()),
            Some('@') => {
                // The first hunk of a text needs no sign of omitted lines above it.
                if !std::mem::take(&mut is_first) {
                    line(Context, "…");
                }
            }
            _ => line(Context, rest.as_str()),
        }
    }
}

impl Diff {
    /// Returns the lines that `Display` writes.
    ///
    /// Messages have their numbers in the second context, so `B#n` names the message shown. A
    /// message that the second context lacks follows the number of the one before it.
    pub fn lines(&self) -> Vec<DiffLine> {
        let mut out = Vec::new();
        self.messages.iter().for_each(|change| change.lines(&mut out));
        out.extend(self.tools.lines());
        for ConfigChange { key, before, after } in &self.config {
            let value = |value: &Option<JsonText>| match value {
                Some(value) => one_line(value.as_str(), NAME),
                None => "absent".to_owned(),
            };
            let key = one_line(key, NAME);
            let text = format!("{key}: {} → {}", value(before), value(after));
            out.push(DiffLine::new(Changed, text));
        }
        if self.is_empty() {
            out.push(DiffLine::new(Heading, "no difference"));
        }
        let (before, after) = self.token_counts;
        let summary = format!(
            "{} unchanged, {before} → {after} tokens ({:+})",
            count(self.unchanged_count, "message"),
            self.token_delta()
        );
        out.push(DiffLine::new(Summary, summary));
        out
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(f, &self.lines())
    }
}

#[cfg(test)]
mod tests {
    use tract_compile::{Row, TokenCount, View};
    use tract_core::{Draft, Priority, Role};

    use super::*;
    use crate::history::tool_diff::no_schema_diff;

    fn id(n: u8) -> CommitId {
        CommitId::from_bytes([n; 32])
    }

    fn message(slot: u8, content: Content) -> Message {
        Message {
            commit: id(slot),
            slot: id(slot),
            priority: Priority::Normal,
            token_count: 1,
            ..Message::unrecorded(content)
        }
    }

    fn compiled(messages: Vec<Message>) -> Compiled {
        let rows = messages.iter().enumerate().map(|(key, message)| Row {
            slot: message.slot,
            key: key as u64,
            version: message.commit,
            mark: None,
            answers: None,
        });
        let view = View::from_parts(rows.collect::<Vec<_>>(), None, messages.len() as u64);
        let count = messages.iter().map(|message| message.token_count).sum();
        let tokens = TokenCount { count, source: "approx".into() };
        Compiled::new(None, view, messages, Vec::new(), tokens, 0)
    }

    #[track_caller]
    fn check(before: Vec<Message>, after: Vec<Message>, expected: &str) {
        let diff = diff(&compiled(before), &compiled(after), &no_schema_diff);
        assert_eq!(diff.to_string(), expected);
    }

    #[test]
    fn an_edit_is_a_change_of_one_message() {
        check(
            vec![message(1, Content::user("one\ntwo")), message(2, Content::assistant("ok"))],
            vec![message(1, Content::user("one\n2")), message(2, Content::assistant("ok"))],
            "#1 user 01010101\n  one\n- two\n+ 2\n1 message unchanged, 2 → 2 tokens (+0)",
        );
    }

    #[test]
    fn tool_calls_are_part_of_the_diff() {
        let call = |arguments: &str| Draft::assistant("").call("c1", "grep", arguments).content;
        check(
            vec![message(1, call(r#"{"p":"a"}"#))],
            vec![message(1, call(r#"{"p":"b"}"#))],
            "#1 assistant 01010101\n- grep({\"p\":\"a\"})\n+ grep({\"p\":\"b\"})\n\
             0 messages unchanged, 1 → 1 tokens (+0)",
        );
    }

    #[test]
    fn conversations_without_common_slots_align_by_text() {
        check(
            vec![message(1, Content::user("hello")), message(2, Content::assistant("hi"))],
            vec![
                message(3, Content::user("hello")),
                message(4, Content::assistant("hi there")),
                message(5, Content::user("bye")),
            ],
            "#2 assistant 04040404, was 02020202\n- hi\n+ hi there\n#3 user 05050505, added\n+ bye\n\
             1 message unchanged, 2 → 3 tokens (+1)",
        );
        check(
            vec![message(1, Content::user("x"))],
            vec![],
            "before #1: user 01010101, removed\n- x\n0 messages unchanged, 1 → 0 tokens (-1)",
        );
    }

    #[test]
    fn roles_and_configs_are_compared() {
        let mut before = message(1, Content::system("be brief"));
        before.generation_config = Some(JsonText::new(r#"{"model":"a","top_p":1}"#).expect("JSON"));
        let mut after = message(1, Content::system("be brief"));
        after.role = Role::Developer;
        after.generation_config = Some(JsonText::new(r#"{"model":"b"}"#).expect("JSON"));
        check(
            vec![before],
            vec![after],
            "#1 developer 01010101, role was system\n~ model: \"a\" → \"b\"\n~ top_p: 1 → absent\n\
             0 messages unchanged, 1 → 1 tokens (+0)",
        );
    }

    #[test]
    fn messages_are_numbered_as_in_the_second_context() {
        let texts = |texts: &[(u8, &str)]| -> Vec<Message> {
            texts.iter().map(|(slot, text)| message(*slot, Content::user(*text))).collect()
        };
        check(
            texts(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]),
            texts(&[(1, "a"), (3, "c"), (4, "D")]),
            "after #1: user 02020202, removed\n- b\n#3 user 04040404\n- d\n+ D\n\
             2 messages unchanged, 4 → 3 tokens (-1)",
        );
    }

    #[test]
    fn far_changes_of_one_text_are_hunks_with_a_gap_between() {
        let text = |first: &str, last: &str| {
            let between: Vec<String> = (2..20).map(|n| n.to_string()).collect();
            Content::user(format!("{first}\n{}\n{last}", between.join("\n")))
        };
        let before = compiled(vec![message(1, text("1", "20"))]);
        let after = compiled(vec![message(1, text("one", "twenty"))]);
        let printed = diff(&before, &after, &no_schema_diff).to_string();
        assert!(printed.contains("\n- 1\n+ one\n  2\n  3\n  4\n  …\n  17\n"), "{printed}");
        assert!(!printed.contains("@@"), "{printed}");
    }

    #[test]
    fn equal_contexts_have_an_empty_diff() {
        let context = compiled(vec![message(1, Content::user("x"))]);
        assert!(diff(&context, &context, &no_schema_diff).is_empty());
    }
}

//! Random objects and writes for proptest.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tract_core::stream::CompressWhat;
use tract_core::{
    Artifact, Batch, Body, Commit, CommitId, Content, DerivedKind, DerivedRow, ImageSource,
    JsonText, Part, Priority, StreamOp, StreamOpKind, ToolAnswer, ToolCall, ToolSchema,
};

use crate::fixtures::{advance, batch, push, push_with_tools};

/// Texts with words, line breaks, quotes and other scripts, or empty.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z ,.]{0,60}",
        2 => "\\PC{0,40}",
        1 => vec(any::<char>(), 0..8).prop_map(String::from_iter),
        1 => select(vec!["", "\n\n", "\"quoted\\", "語と絵文字 🙂", "a\u{0}b", "</tool_call>", "\u{202e}back"])
            .prop_map(str::to_owned),
    ]
}

/// JSON texts: nested objects with unusual numbers.
pub fn json() -> impl Strategy<Value = String> {
    let leaf =
        select(vec!["null", "true", "0", "-0.0", "1e5", "12345678901234567890", "0.1", "\"語\""])
            .prop_map(str::to_owned);
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec(("[a-z]{1,6}", inner), 0..4).prop_map(object),
        ]
    });
    vec(("[a-z]{1,8}", value), 0..5).prop_map(object)
}

fn object(fields: Vec<(String, String)>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn call() -> impl Strategy<Value = ToolCall> {
    let odd = select(vec!["{\"broken\":", "[1,2]", "{ \"a\" : 1e5 }", "{\r\n}"]);
    let arguments = prop_oneof![4 => json(), 1 => odd.prop_map(str::to_owned), 1 => text()];
    (text(), text(), arguments).prop_map(|(id, name, arguments)| ToolCall { id, name, arguments })
}

/// Parts of a message.
pub fn part() -> impl Strategy<Value = Part> {
    let source = prop_oneof![
        text().prop_map(ImageSource::Url),
        text().prop_map(ImageSource::Base64),
        text().prop_map(ImageSource::File),
    ];
    // Boxed, because nested strategies need more stack than a test has.
    prop_oneof![
        5 => text().prop_map(|text| Part::Text { text }),
        3 => call().prop_map(Part::ToolCall),
        1 => (option::of(text()), source)
            .prop_map(|(media_type, source)| Part::Image { media_type, source }),
        1 => (text(), option::of(text()), option::of(text()))
            .prop_map(|(text, signature, encrypted)| Part::Reasoning { text, signature, encrypted }),
        1 => (text(), prop_oneof![json().boxed(), text().boxed()])
            .prop_map(|(dialect, json)| Part::Opaque { dialect, json }),
    ]
    .boxed()
}

fn body() -> impl Strategy<Value = Body> {
    (vec(part(), 0..4), option::of(text())).prop_map(|(parts, name)| Body { parts, name })
}

/// Contents of every kind.
pub fn content() -> impl Strategy<Value = Content> {
    let answer = (text(), option::of(text()), any::<bool>(), vec(part(), 0..3));
    prop_oneof![
        1 => body().prop_map(Content::System),
        3 => body().prop_map(Content::User),
        3 => body().prop_map(Content::Assistant),
        3 => answer.prop_map(|(call_id, name, is_error, parts)| {
            Content::ToolResult(ToolAnswer { call_id, name, is_error, parts })
        }),
        1 => body().prop_map(Content::Reasoning),
        1 => (text(), option::of(text()), text()).prop_map(|(artifact_type, language, text)| {
            Content::Artifact(Artifact { artifact_type, language, text })
        }),
        1 => json().prop_map(|json| Content::Note(JsonText::new(&json).expect("made as valid JSON"))),
        1 => ("my-[a-z]{1,5}", body()).prop_map(|(kind, body)| Content::Custom { kind, body }),
    ]
    .boxed()
}

/// Tool schemas in the formats of several providers, with varying spelling.
pub fn tool_schema() -> impl Strategy<Value = ToolSchema> {
    let parameters = json().prop_map(|json| {
        format!(r#"{{"type":"object","properties":{{"value":{{"type":"string"}}}},"x":{json}}}"#)
    });
    ("[a-z_]{1,20}", text(), parameters, 0..5).prop_map(|(name, about, parameters, shape)| {
        let about = JsonText::of(&about).expect("text has a canonical form");
        let text = match shape {
            0 => format!(r#"{{"type":"function","function":{{"name":"{name}","description":{about},"parameters":{parameters}}}}}"#),
            1 => format!(r#"{{"name":"{name}","description":{about},"input_schema":{parameters}}}"#),
            2 => format!(r#"{{ "input_schema" : {parameters}, "name" : "{name}" }}"#),
            3 => format!("{{\n\t\"name\": \"{name}\"\n}}"),
            _ => format!(r#"{{"type":"function","name":"{name}","parameters":{parameters}}}"#),
        };
        ToolSchema::parse(&text).expect("made as a valid schema")
    })
}

/// Consecutive writes that succeed on an empty repository: messages on branches that fork anywhere,
/// tools, derived rows, repeated objects.
pub fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let tools = vec(tool_schema(), 1..4);
    let message = (text(), any::<Index>(), 0..8u8);
    (tools, vec(vec(message, 1..4), 1..12)).prop_map(|(tools, writes)| {
        let mut commits: Vec<CommitId> = Vec::new();
        let mut stored: Vec<(Commit, tract_core::Blob)> = Vec::new();
        writes
            .into_iter()
            .enumerate()
            .map(|(number, messages)| {
                let mut writing = batch("commit");
                for (text, index, choice) in messages {
                    let parent = match choice {
                        _ if commits.is_empty() => None,
                        0 => None,
                        1 | 2 => Some(*index.get(&commits)),
                        _ => commits.last().copied(),
                    };
                    let commit = match choice {
                        3 | 4 => push_with_tools(&mut writing, parent, &text, &tools),
                        _ => push(&mut writing, parent, &text),
                    };
                    if choice == 5 {
                        let bytes = text.into_bytes().into();
                        let kind = DerivedKind::Snapshot;
                        writing.derived.push(DerivedRow { kind, commit: commit.id(), bytes });
                    }
                    if choice == 6
                        && let Some((old, content)) = stored.first()
                    {
                        writing.commits.push(old.clone());
                        writing.blobs.push(content.clone());
                    }
                    commits.push(commit.id());
                    if stored.is_empty() && commit.parents.is_empty() {
                        stored.push((commit, writing.blobs[0].clone()));
                    }
                }
                if let Some(head) = commits.last() {
                    writing.refs.push(advance(&format!("branch-{number}"), None, *head));
                }
                writing
            })
            .collect()
    })
}

/// Histories as lines for `tract apply`: messages, calls and answers, edits, priorities, tools,
/// summaries, reverts, branches and merges. A line may be rejected, such as an edit of a summarized
/// message, and then changes nothing. A line refers only to earlier lines.
pub fn history() -> impl Strategy<Value = Vec<StreamOp>> {
    let tools = vec(tool_schema(), 1..4);
    let line = (0..40u8, text(), any::<Index>(), any::<Index>());
    (tools, vec(line, 1..40)).prop_map(|(tools, lines)| {
        let mut writer = HistoryWriter { tools, ..HistoryWriter::default() };
        for (number, (choice, text, one, two)) in lines.into_iter().enumerate() {
            writer.line(number, choice, text, one, two);
        }
        writer.steps
    })
}

#[derive(Default)]
struct HistoryWriter {
    steps: Vec<StreamOp>,
    tools: Vec<ToolSchema>,
    /// The marks (names in the stream) of messages, and of all commits.
    messages: Vec<String>,
    commits: Vec<String>,
    open_calls: Vec<String>,
    branches: usize,
}

impl HistoryWriter {
    fn line(&mut self, number: usize, choice: u8, text: String, one: Index, two: Index) {
        let pick = |marks: &[String], index: Index| format!(":{}", index.get(marks));
        let is_empty = self.messages.is_empty();
        let op = match choice {
            0..=1 => StreamOpKind::System { text },
            10..=15 => StreamOpKind::Assistant { text, reasoning: None, tool_calls: Vec::new() },
            16..=19 => {
                let id = format!("call-{number}");
                self.open_calls.push(id.clone());
                let call = ToolCall { id, name: "search".to_owned(), arguments: "{}".to_owned() };
                StreamOpKind::Assistant { text, reasoning: None, tool_calls: vec![call] }
            }
            20..=24 if !self.open_calls.is_empty() => StreamOpKind::ToolResult {
                call_id: self.open_calls.remove(0),
                name: Some("search".to_owned()),
                content: vec![Part::Text { text }],
                is_error: choice == 24,
            },
            _ if is_empty => StreamOpKind::User { text },
            25..=27 => {
                let target = pick(&self.messages, one);
                StreamOpKind::Edit { target, content: vec![Part::Text { text }] }
            }
            28..=30 => {
                let levels =
                    [Priority::Skip, Priority::Normal, Priority::Important, Priority::Pinned];
                StreamOpKind::Annotate {
                    targets: vec![pick(&self.messages, one)],
                    priority: *two.get(&levels),
                    reason: None,
                    retention: None,
                }
            }
            31 => {
                let (a, b) = (one.index(self.messages.len()), two.index(self.messages.len()));
                let mark = |n: usize| format!(":{}", self.messages[n]);
                let what = CompressWhat::Range { from: mark(a.min(b)), to: mark(a.max(b)) };
                StreamOpKind::Compress { what, content: text, kind: None }
            }
            32..=33 => {
                let targets = vec![pick(&self.commits, one)];
                StreamOpKind::Revert { targets, cascade: choice == 33 }
            }
            34 => {
                let shown = one.index(self.tools.len() + 1);
                StreamOpKind::SetTools { tools: self.tools[..shown].to_vec() }
            }
            35..=36 => {
                self.branches += 1;
                let name = format!("b{}", self.branches);
                let from = Some(pick(&self.commits, one));
                self.steps.push(StreamOpKind::Branch { name: name.clone(), from }.into());
                self.steps.push(StreamOpKind::Checkout { name }.into());
                return;
            }
            37 if self.branches > 0 => {
                let name = format!("b{}", one.index(self.branches) + 1);
                self.steps.push(StreamOpKind::Checkout { name }.into());
                return;
            }
            38 if self.branches > 0 => {
                StreamOpKind::Merge { from: format!("b{}", one.index(self.branches) + 1) }
            }
            39 => StreamOpKind::Note { text },
            _ => StreamOpKind::User { text },
        };
        let mark = format!("m{number}");
        if op.content().is_some() || matches!(op, StreamOpKind::Compress { .. }) {
            self.messages.push(mark.clone());
        }
        self.commits.push(mark.clone());
        self.steps.push(StreamOp { mark: Some(mark), ..StreamOp::from(op) });
    }
}

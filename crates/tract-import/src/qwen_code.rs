//! Sessions of Qwen Code: JSONL files in which each line names the one before it and contains a
//! message of Gemini's API. Files of older versions have the format of Gemini CLI.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use tract_core::{Body, Content, Draft, Part, ToolAnswer};

use crate::facts::Facts;
use crate::gemini_cli::answer::{has_more, media};
use crate::line_reader::LineReader;
use crate::object::Object;
use crate::recording::{Cursor, RecordedMessage, Recording};
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, canonical, has_members, model_config, recorded};

/// Returns whether an object is a line of a session.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    if !members.has_all(&["uuid", "parentUuid", "sessionId", "type"]) {
        return false;
    }
    let message = members.object("message").unwrap_or_default();
    message.has("parts") || members.has("usageMetadata") || members.has("systemPayload")
}

/// Number of characters of an id in a branch name.
const SUFFIX_CHARS: usize = 8;

#[derive(Default)]
pub(crate) struct QwenReader {
    recording: Recording,
    facts: Facts,
    /// The context after each line.
    cursors: HashMap<String, Cursor>,
    last: Cursor,
    has_main: bool,
    /// The first line of the session.
    first: Option<String>,
    suffixes: HashSet<String>,
}

impl LineReader for QwenReader {
    fn recording(&mut self) -> &mut Recording {
        &mut self.recording
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let raw: &RawValue = serde_json::from_slice(bytes)?;
        match Object::of(Some(raw)).filter(|line| line.has("type")) {
            Some(line) => self.record(number, &line),
            None => self.recording.unreadable(number, "a line in no known shape"),
        }
        Ok(())
    }

    fn is_record(text: &str) -> bool {
        has_members(text, &["uuid", "sessionId", "type"])
    }

    fn finish(&mut self) -> Facts {
        let suffix = self.first.take().map(|id| self.suffix(&id));
        self.recording.resume_at(&self.last, suffix);
        std::mem::take(&mut self.facts)
    }
}

impl QwenReader {
    fn record(&mut self, number: usize, line: &Object<'_>) {
        let facts = &mut self.facts;
        facts.session = facts.session.take().or_else(|| line.filled("sessionId"));
        facts.cwd = line.filled("cwd").or_else(|| facts.cwd.take());
        facts.git_branch = line.filled("gitBranch").or_else(|| facts.git_branch.take());
        facts.version = line.filled("version").or_else(|| facts.version.take());
        let id = line.text("uuid");
        if id.as_ref().is_some_and(|id| self.cursors.contains_key(id)) {
            self.recording.report.repeated += 1;
            return;
        }
        let mut cursor = match line.text("parentUuid") {
            Some(parent) => match self.cursors.get(&parent) {
                Some(cursor) => cursor.clone(),
                None => {
                    let what = "a line follows one that the file does not have before it";
                    self.recording.odd(number, AnomalyKind::MissingParent, what);
                    self.last.clone()
                }
            },
            None => Cursor::default(),
        };
        self.say(number, line, id.as_deref(), &mut cursor);
        self.last = cursor.clone();
        if let Some(id) = id {
            self.cursors.insert(id, cursor);
        }
    }

    fn say(&mut self, number: usize, line: &Object<'_>, id: Option<&str>, cursor: &mut Cursor) {
        let at = line.time("timestamp");
        let message = line.object("message").unwrap_or_default();
        let kind = line.text("type").unwrap_or_default();
        let subtype = line.text("subtype");
        if subtype.as_deref() == Some("chat_compression") {
            return self.compaction(number, line, id, at, cursor);
        }
        if !matches!(kind.as_str(), "user" | "assistant" | "tool_result") {
            let name = subtype.map_or(kind.clone(), |subtype| format!("{kind}:{subtype}"));
            return self.recording.skip(name);
        }
        let parts = message.list("parts");
        let drafts = self.drafts(number, &kind, id, &parts);
        if drafts.is_empty() {
            return self.recording.skip(format!("{kind}:empty"));
        }
        if !self.recording.continues(cursor) {
            let suffix = id.filter(|_| self.has_main).map(|id| self.suffix(id));
            self.recording.fork(cursor, suffix);
            if !self.has_main {
                self.first = id.map(str::to_owned);
            }
            self.has_main = true;
        }
        for (n, mut draft) in drafts.into_iter().enumerate() {
            if matches!(draft.content, Content::Assistant(_)) {
                let model = line.filled("model");
                let usage = line.object("usageMetadata").map(|usage| tokens(&usage));
                let mut metadata = Metadata::default();
                metadata.set_some("message_id", id);
                if let Some(usage) = &usage {
                    metadata.usage(usage);
                }
                draft.metadata = metadata.json();
                draft.generation_config = model_config(model.as_deref());
                self.recording.end_answer(cursor);
                self.recording.answer(model.as_deref(), usage.as_ref());
            }
            let own = id.map(|id| if n == 0 { id.to_owned() } else { format!("{id}#{n}") });
            let draft = recorded(draft, id, at);
            self.recording.append(cursor, RecordedMessage { id: own, line: number, draft });
        }
    }

    /// Returns the suffix of a branch's name: the first characters of the id of its first line.
    fn suffix(&mut self, id: &str) -> String {
        let short: String = id.chars().take(SUFFIX_CHARS).collect();
        let short = format!(".{}", tract_core::RefName::distinct(&short));
        match self.suffixes.insert(short.clone()) {
            true => short,
            false => format!(".{}", tract_core::RefName::distinct(id)),
        }
    }

    /// Returns the messages of a line: its results, and one message for everything else.
    fn drafts(
        &mut self,
        number: usize,
        kind: &str,
        id: Option<&str>,
        parts: &[&RawValue],
    ) -> Vec<Draft> {
        let mut drafts = Vec::new();
        let mut content = Vec::new();
        let mut calls = 0;
        for (n, raw) in parts.iter().enumerate() {
            let part = Object::of(Some(raw)).unwrap_or_default();
            let own = |part: &Object<'_>| {
                part.filled("id")
                    .unwrap_or_else(|| format!("{}-call-{calls}", id.unwrap_or("line")))
            };
            if let Some(call) = Object::of(part.in_any_case("functionCall")) {
                let arguments = call.raw("args").map_or_else(|| "{}".to_owned(), canonical);
                content.push(Part::call(
                    own(&call),
                    call.text("name").unwrap_or_default(),
                    arguments,
                ));
                calls += 1;
            } else if let Some(answer) = Object::of(part.in_any_case("functionResponse")) {
                let response = answer.object("response").unwrap_or_default();
                let is_error = response.has("error") && !response.has("output");
                // With other members, the model read the JSON of the response.
                let known = response.first(&["output", "error"]).filter(|_| !has_more(&response));
                let text = known.map(values::shown);
                let text = text.or_else(|| answer.raw("response").map(canonical));
                let mut unread = Vec::new();
                let path = format!("parts[{n}].functionResponse.parts");
                let more = media(&path, answer.raw("parts"), &mut unread);
                unread.into_iter().for_each(|what| self.recording.unreadable(number, what));
                let parts = std::iter::once(Part::text(text.unwrap_or_default())).chain(more);
                let result = ToolAnswer {
                    call_id: own(&answer),
                    name: answer.text("name"),
                    is_error,
                    parts: parts.collect(),
                };
                drafts.push(Draft::new(Content::ToolResult(result)));
                calls += 1;
            } else if let Some((data, media_type)) = Object::of(part.in_any_case("inlineData"))
                .and_then(|data| Some((data.text("data")?, data.in_any_case("mimeType"))))
            {
                content.push(values::image(data, values::text(media_type)));
            } else if let Some(text) = part.text("text") {
                if part.is_true("thought") {
                    let signature = values::text(part.in_any_case("thoughtSignature"));
                    content.push(Part::Reasoning { text, signature, encrypted: None });
                } else if !text.is_empty() {
                    content.push(Part::text(text));
                } else if let Some(signature) =
                    values::text(part.in_any_case("thoughtSignature")).filter(|it| !it.is_empty())
                {
                    let (signature, encrypted) = (Some(signature), None);
                    content.push(Part::Reasoning { text, signature, encrypted });
                }
            } else {
                let names = part.names().join(", ");
                let what = format!("a part with the members {names}, kept as its JSON");
                self.recording.unreadable(number, what);
                content.push(Part::text(canonical(raw)));
            }
        }
        if !content.is_empty() {
            drafts.push(match kind {
                "assistant" => content.into_iter().fold(Draft::assistant(""), Draft::part),
                _ => Draft::new(Content::User(Body { parts: content, name: None })),
            });
        }
        drafts
    }

    /// Replaces the visible messages with the history of a compaction.
    fn compaction(
        &mut self,
        number: usize,
        line: &Object<'_>,
        id: Option<&str>,
        at: Option<i64>,
        cursor: &mut Cursor,
    ) {
        let payload = line.object("systemPayload").unwrap_or_default();
        let mut messages = Vec::new();
        for (n, raw) in payload.list("compressedHistory").into_iter().enumerate() {
            let content = Object::of(Some(raw)).unwrap_or_default();
            let kind = match content.text("role").as_deref() {
                Some("model") => "assistant",
                _ => "user",
            };
            let own = id.map(|id| format!("{id}#{n}"));
            let drafts = self.drafts(number, kind, own.as_deref(), &content.list("parts"));
            messages.extend(drafts.into_iter().map(|draft| RecordedMessage {
                id: own.clone(),
                line: number,
                draft: recorded(draft, id, at),
            }));
        }
        if messages.is_empty() {
            return self.recording.skip("system:chat_compression");
        }
        self.recording.skip("system:chat_compression");
        self.recording.compact(cursor, messages);
    }
}

/// Returns the tokens of an answer of Gemini's API.
fn tokens(usage: &Object<'_>) -> TokenTotals {
    let count = |name: &str| usage.count(name).unwrap_or_default();
    let output = count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount"));
    TokenTotals::of_answer(
        Some(count("promptTokenCount")),
        Some(count("cachedContentTokenCount")),
        Some(output),
    )
}

//! Datasets of conversations: ShareGPT's `conversations` of `from` and `value`, messages with tools
//! as a JSON text, and xLAM's queries with answers. A file is a list, or has one record per line.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tract_core::{Body, Content, Draft, ToolAnswer, ToolSchema};
use tract_providers::{Dialect, ProviderConversation};

use crate::document::{Conversation, Document, LineNames, Values};
use crate::object::Object;
use crate::recording::Recording;
use crate::values::{self, Metadata, Raw, canonical, lenient, recorded};

/// Members with the turns of ShareGPT.
const TURNS: [&str; 2] = ["conversations", "conversation"];

/// Returns whether an object is a conversation of a dataset.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let turns = TURNS.iter().find_map(|name| members.list(name).first().copied());
    let first = turns.and_then(|raw| Object::of(Some(raw)));
    let has_turns = first.is_some_and(|turn| turn.has_all(&["from", "value"]));
    let has_text_tools = members.text("tools").is_some_and(|tools| is_list(&tools));
    let is_query = || {
        let has_tools =
            has_text_tools || members.raw("tools").is_some_and(|raw| is_list(raw.get()));
        has_tools && members.has_all(&["query", "answers"])
    };
    has_turns || (has_text_tools && members.has("messages")) || is_query()
}

fn is_list(text: &str) -> bool {
    serde_json::from_str::<Vec<&RawValue>>(text).is_ok()
}

pub(crate) fn read(bytes: &[u8], stem: &str) -> Result<Document, serde_json::Error> {
    let Values { values, damage } = Values::read(bytes, is_one)?;
    let mut all = Document::with_capacity(values.len());
    let mut names = LineNames::default();
    for (line, raw) in values {
        let mut conversation = Conversation::default();
        let members = Object::of(Some(raw)).unwrap_or_default();
        // A number identifies a record only together with the file's name.
        let id = members.filled("id").filter(|id| id.parse::<u64>().is_err());
        let name = id.unwrap_or_else(|| match members.id("id") {
            Some(number) => format!("{stem}-{number}"),
            None => names.next(stem, line),
        });
        conversation.facts.session = Some(name);
        conversation.recording.report.lines = 1;
        let mut reader =
            Reader { conversation: &mut conversation, line, calls: VecDeque::new(), count: 0 };
        if members.has_all(&["query", "answers"]) {
            reader.query(&members);
        } else if let Some(name) = TURNS.iter().find(|name| members.has(name)) {
            reader.turns(&members, name);
        } else if members.has("messages") {
            reader.messages(&members);
        } else {
            let what = format!("no conversation; members: {}", members.names().join(", "));
            conversation.recording.unreadable(line, what);
        }
        all.push(conversation);
    }
    if let Some(first) = all.first_mut() {
        for (line, kind, what) in damage {
            first.recording.odd(line, kind, what);
        }
    }
    Ok(all)
}

struct Reader<'a> {
    conversation: &'a mut Conversation,
    line: usize,
    /// The calls without a result, oldest first. These datasets have no call ids.
    calls: VecDeque<(String, String)>,
    count: usize,
}

impl Reader<'_> {
    fn say(&mut self, draft: Draft) {
        self.conversation.say(None, self.line, recorded(draft, None, None));
    }

    fn unreadable(&mut self, what: impl Into<String>) {
        self.conversation.recording.unreadable(self.line, what);
    }

    fn turns(&mut self, members: &Object<'_>, name: &str) {
        let mut tools = self.tools(members.raw("tools"));
        self.system(members, &mut tools);
        for raw in members.list(name) {
            let turn = Object::of(Some(raw)).unwrap_or_default();
            let Some(mut draft) = self.turn(&turn) else { continue };
            draft.tools = tools.take();
            self.say(draft);
        }
        self.preference(members);
        self.report_others(members, &[name, "chosen", "rejected"]);
    }

    /// Reads the preferred answer, and the rejected one as a branch.
    fn preference(&mut self, members: &Object<'_>) {
        let is_turn = |turn: &Object<'_>| {
            turn.first(&["value", "content"]).is_some()
                && turn.text("from").or_else(|| turn.text("role")).is_some()
        };
        let turn = |name: &str| {
            let raw = members.raw(name).filter(|raw| raw.get().starts_with('{'));
            Object::of(raw).filter(is_turn)
        };
        let (chosen, rejected) = (turn("chosen"), turn("rejected"));
        for (name, turn) in [("chosen", &chosen), ("rejected", &rejected)] {
            if members.has(name) && turn.is_none() {
                self.unreadable(format!("{name}: not a turn, not read"));
            }
        }
        let Some(chosen) = chosen else {
            if rejected.is_some() {
                self.unreadable("rejected: an answer without a chosen one, not read");
            }
            return;
        };
        let mut cursor = self.conversation.cursor.clone();
        let calls = self.calls.clone();
        if let Some(draft) = self.turn(&chosen) {
            self.say(draft);
        }
        let Some(rejected) = rejected else { return };
        if cursor.entries().is_empty() {
            return self.unreadable("rejected: an answer to no message, not read");
        }
        self.calls = calls;
        self.conversation.recording.has_forks = true;
        self.conversation.recording.fork(&mut cursor, Some(".rejected".to_owned()));
        std::mem::swap(&mut self.conversation.cursor, &mut cursor);
        if let Some(draft) = self.turn(&rejected) {
            self.say(draft);
        }
        self.conversation.cursor = cursor;
    }

    /// Adds the system prompt that is a member of the record, with the tools.
    fn system(&mut self, members: &Object<'_>, tools: &mut Option<Vec<ToolSchema>>) {
        let prompt = members.filled("system").or_else(|| members.filled("system_prompt"));
        if let Some(prompt) = prompt {
            let mut draft = Draft::system(prompt);
            draft.tools = tools.take();
            self.say(draft);
        }
    }

    /// Reports the members of a record that are not read.
    fn report_others(&mut self, members: &Object<'_>, known: &[&str]) {
        let prompt =
            ["system", "system_prompt"].into_iter().find(|name| members.filled(name).is_some());
        for name in members.names() {
            let is_empty =
                members.raw(name).is_none_or(|raw| matches!(raw.get(), "\"\"" | "[]" | "{}"));
            let is_known = ["id", "tools"].contains(&name) || prompt == Some(name);
            if !is_known && !is_empty && !known.contains(&name) {
                self.unreadable(format!("the member {name:?} is not read"));
            }
        }
    }

    fn turn(&mut self, turn: &Object<'_>) -> Option<Draft> {
        let value = turn.first(&["value", "content"]);
        let (Some(from), Some(value)) = (turn.text("from").or_else(|| turn.text("role")), value)
        else {
            self.unreadable("a turn without the members \"from\" and \"value\"");
            return None;
        };
        let text = || values::text(Some(value)).unwrap_or_else(|| canonical(value));
        let parts = self.conversation.recording.message_content(self.line, Some(value));
        let body = || Body { parts: parts.clone(), name: None };
        Some(match from.as_str() {
            "system" => Draft::new(Content::System(body())),
            "human" | "user" => Draft::new(Content::User(body())),
            "gpt" | "assistant" | "chatgpt" | "bard" | "bing" | "model" => {
                self.answer();
                body().parts.into_iter().fold(Draft::assistant(""), Draft::part)
            }
            "function_call" => {
                self.answer();
                self.function_call(&text())
            }
            "observation" | "tool" | "function_response" | "function-response"
            | "tool_response" => {
                let parts = body().parts;
                match self.calls.pop_front() {
                    Some((call_id, name)) => {
                        let (name, is_error) = (Some(name), false);
                        Draft::new(Content::ToolResult(ToolAnswer {
                            call_id,
                            name,
                            is_error,
                            parts,
                        }))
                    }
                    // The call is in the model's text.
                    None => {
                        let mut metadata = Metadata::default();
                        metadata.set("injected", from.as_str());
                        let mut draft = Draft::new(Content::User(Body { parts, name: None }));
                        draft.metadata = metadata.json();
                        draft
                    }
                }
            }
            other => {
                self.unreadable(format!(
                    "a turn of the unknown speaker {other:?}, kept as a user's"
                ));
                let mut metadata = Metadata::default();
                metadata.set("speaker", other);
                let mut draft = Draft::new(Content::User(Body { parts, name: name_of(other) }));
                draft.metadata = metadata.json();
                draft
            }
        })
    }

    fn answer(&mut self) {
        self.conversation.recording.end_answer(&self.conversation.cursor);
        self.conversation.recording.answer(None, None);
    }

    /// Reads calls from a JSON text: one, or a list. Any other text is kept unchanged.
    fn function_call(&mut self, text: &str) -> Draft {
        let list: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
        let list = list.or_else(|| Some(vec![serde_json::from_str(text).ok()?]));
        let calls: Option<Vec<(String, String)>> = list.and_then(|list| {
            let call = |raw: &RawValue| {
                let call = Object::of(Some(raw))?;
                Some((call.text("name")?, arguments(call.first(&["arguments", "parameters"]))))
            };
            list.into_iter().map(call).collect()
        });
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else {
            return Draft::assistant(text);
        };
        let mut draft = Draft::assistant("");
        for (name, arguments) in calls {
            self.count += 1;
            let id = format!("call-{}", self.count);
            draft = draft.call(&id, &name, arguments);
            self.calls.push_back((id, name));
        }
        draft
    }

    fn query(&mut self, members: &Object<'_>) {
        let mut tools = self.tools(members.raw("tools"));
        self.system(members, &mut tools);
        let mut draft = Draft::user(members.text("query").unwrap_or_default());
        draft.tools = tools;
        self.say(draft);
        let answers = members.raw("answers");
        let text = values::text(answers).or_else(|| answers.map(canonical)).unwrap_or_default();
        self.answer();
        let draft = self.function_call(&text);
        if draft.content.calls().next().is_none() {
            self.unreadable("answers that are not a list of calls, kept as a text");
        }
        self.say(draft);
        self.report_others(members, &["query", "answers"]);
    }

    /// Reads messages in a provider's format next to tools in a JSON text.
    fn messages(&mut self, members: &Object<'_>) {
        let mut tools = self.tools(members.raw("tools"));
        self.system(members, &mut tools);
        self.report_others(members, &["messages"]);
        let mut request = Map::new();
        let messages = members.raw("messages").and_then(|raw| lenient::<Value>(Some(raw)));
        request.insert("messages".to_owned(), messages.unwrap_or_default());
        let text = Value::Object(request).to_string();
        let read = match ProviderConversation::read(&text, None) {
            Ok(read) => read,
            Err(error) => match ProviderConversation::read(&text, Some(Dialect::OpenAi)) {
                Ok(read) => read,
                Err(_) => return self.unreadable(format!("messages of no provider: {error}")),
            },
        };
        for anomaly in read.imported.anomalies {
            self.unreadable(anomaly.to_string());
        }
        for mut draft in read.imported.drafts {
            if matches!(draft.content, Content::Assistant(_)) {
                self.conversation.recording.answer(None, None);
            }
            draft.tools = tools.take();
            self.say(draft);
        }
    }

    /// Reads tool definitions, possibly a JSON text, in any of the common formats.
    fn tools(&mut self, raw: Raw<'_>) -> Option<Vec<ToolSchema>> {
        let raw = raw?;
        let text = values::text(Some(raw));
        if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return None;
        }
        let list = match &text {
            Some(text) => serde_json::from_str(text).ok(),
            None => lenient::<Vec<&RawValue>>(Some(raw)),
        };
        let Some(list) = list else {
            self.unreadable("tools that are not a list in JSON");
            return None;
        };
        let mut tools = Vec::with_capacity(list.len());
        for definition in list {
            let schema = definition_of(definition, &mut self.conversation.recording, self.line);
            match schema.as_deref().and_then(|text| ToolSchema::parse(text).ok()) {
                Some(tool) => tools.push(tool),
                None => self.unreadable("a tool in no known shape"),
            }
        }
        Some(tools)
    }
}

/// Returns a speaker as the name of a message, if providers accept it.
fn name_of(speaker: &str) -> Option<String> {
    const LONGEST: usize = 64;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let is_name = (1..=LONGEST).contains(&speaker.len()) && speaker.bytes().all(is_plain);
    is_name.then(|| speaker.to_owned())
}

/// Returns the arguments of a call. A text is the model's own; a value was parsed from it.
fn arguments(raw: Raw<'_>) -> String {
    let Some(raw) = raw else { return "{}".to_owned() };
    match values::text(Some(raw)) {
        Some(text) if Object::parse(&text).is_some() => text,
        _ => canonical(raw),
    }
}

/// Returns a definition in OpenAI's format. xLAM lists the parameters by name, without a schema
/// around them.
fn definition_of(raw: &RawValue, recording: &mut Recording, line: usize) -> Option<String> {
    let members = Object::of(Some(raw))?;
    let function = members.object("function").unwrap_or_else(|| members.clone());
    let name = function.text("name")?;
    let parameters = function.raw("parameters");
    let listed = Object::of(parameters).unwrap_or_default();
    let is_schema = listed.text("type").is_some() || listed.has("properties") || listed.has("$ref");
    if is_schema || parameters.is_none() || listed.names().is_empty() {
        if members.has("function") {
            return Some(canonical(raw));
        }
        let function: Value = lenient(Some(raw))?;
        return Some(json!({ "type": "function", "function": function }).to_string());
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in listed.names() {
        let Some(Value::Object(mut schema)) =
            listed.raw(parameter).and_then(|raw| lenient::<Value>(Some(raw)))
        else {
            recording.unreadable(
                line,
                format!("the parameter {parameter:?} of {name:?} is not an object"),
            );
            continue;
        };
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_optional = kind.contains("optional") || schema.contains_key("default");
        let base = kind.split(',').next().unwrap_or_default();
        match json_type(base) {
            Some(known) => drop(schema.insert("type".to_owned(), json!(known))),
            None => {
                schema.remove("type");
                let what = format!("the type {kind:?} of the parameter {parameter:?} is not known");
                recording.unreadable(line, what);
            }
        }
        if !is_optional {
            required.push(parameter.to_owned());
        }
        properties.insert(parameter.to_owned(), Value::Object(schema));
    }
    let parameters = json!({ "type": "object", "properties": properties, "required": required });
    let description = function.text("description").unwrap_or_default();
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    Some(json!({ "type": "function", "function": function }).to_string())
}

/// Returns the JSON type for a Python type.
fn json_type(python: &str) -> Option<&'static str> {
    let base = python.split('[').next().unwrap_or_default().trim();
    Some(match base.to_ascii_lowercase().as_str() {
        "str" | "string" => "string",
        "int" | "integer" => "integer",
        "float" | "number" => "number",
        "bool" | "boolean" => "boolean",
        "list" | "array" | "tuple" | "set" => "array",
        "dict" | "object" => "object",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_python_are_types_of_json() {
        assert_eq!(json_type("List[int]"), Some("array"));
        assert_eq!(json_type("str"), Some("string"));
        assert_eq!(json_type("Callable"), None);
    }
}

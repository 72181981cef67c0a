//! Converts messages of Gemini CLI to drafts.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::{Content, Draft, Part, Priority, ToolAnswer};
use tract_providers::{Anomaly, Dialect, ProviderConversation};

use super::Line;
use crate::misfits;
use crate::object::Object;
use crate::report::TokenTotals;
use crate::values::{self, Metadata, Raw, canonical, lenient, model_config, shown, shown_member};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Thought {
    #[serde(deserialize_with = "shown_member")]
    subject: Option<String>,
    #[serde(deserialize_with = "shown_member")]
    description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordedCall<'a> {
    #[serde(deserialize_with = "shown_member")]
    id: Option<String>,
    #[serde(deserialize_with = "shown_member")]
    name: Option<String>,
    #[serde(borrow)]
    args: Raw<'a>,
    #[serde(borrow)]
    result: Raw<'a>,
    #[serde(deserialize_with = "shown_member")]
    status: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartFields<'a> {
    #[serde(deserialize_with = "shown_member")]
    text: Option<String>,
    thought: Option<bool>,
    #[serde(alias = "thought_signature", deserialize_with = "shown_member")]
    thought_signature: Option<String>,
    #[serde(alias = "function_call", borrow, deserialize_with = "values::member")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(alias = "function_response", borrow, deserialize_with = "values::member")]
    function_response: Option<FunctionResponse<'a>>,
}

impl PartFields<'_> {
    /// Returns whether it has no member that is read. A signature may be in an empty part.
    fn is_unknown(&self) -> bool {
        self.text.is_none()
            && self.thought.is_none()
            && self.thought_signature.is_none()
            && self.function_call.is_none()
            && self.function_response.is_none()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionCall<'a> {
    #[serde(deserialize_with = "shown_member")]
    id: Option<String>,
    #[serde(deserialize_with = "shown_member")]
    name: Option<String>,
    #[serde(borrow)]
    args: Raw<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionResponse<'a> {
    #[serde(deserialize_with = "shown_member")]
    id: Option<String>,
    #[serde(deserialize_with = "shown_member")]
    name: Option<String>,
    #[serde(borrow)]
    response: Raw<'a>,
    #[serde(borrow)]
    parts: Raw<'a>,
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    thoughts: u64,
    #[serde(default)]
    tool: u64,
}

impl Tokens {
    pub(super) fn totals(self) -> TokenTotals {
        let cached = self.cached.min(self.input);
        TokenTotals {
            input: (self.input - cached).saturating_add(self.tool),
            output: self.output.saturating_add(self.thoughts),
            cache_read: cached,
            ..TokenTotals::default()
        }
    }
}

/// An answer of the model on one line.
pub(super) struct Answer {
    /// The message of the model.
    pub(super) draft: Draft,
    /// The available results, each with the position of its call among the calls.
    pub(super) results: Vec<(usize, Draft)>,
    pub(super) tokens: Option<TokenTotals>,
    /// Descriptions of content in an unknown format, which is kept as its JSON.
    pub(super) unread: Vec<String>,
}

impl Answer {
    pub(super) fn read(line: &Line<'_>) -> Self {
        let mut unread = Vec::new();
        let recorded_calls: Vec<RecordedCall<'_>> =
            values::elements(values::given(line.tool_calls)).unwrap_or_default();
        let call_id = |id: Option<&String>, n: usize| match id {
            Some(id) => id.clone(),
            None => format!("{}-call-{n}", line.id.as_deref().unwrap_or("message")),
        };
        let content = values::given(line.content);
        let whole_text = values::text(content);
        let content = content.filter(|_| whole_text.is_none());
        let raws: Vec<&RawValue> = lenient(content).unwrap_or_default();
        let parts: Vec<(usize, &RawValue, PartFields<'_>)> = raws
            .into_iter()
            .enumerate()
            .filter_map(|(n, raw)| Some((n, raw, lenient(Some(raw))?)))
            .collect();
        let is_whole = parts
            .iter()
            .any(|(_, _, part)| part.function_call.is_some() || part.thought.unwrap_or_default());
        let mut answer_parts = Vec::new();
        let mut calls = 0;
        if !is_whole {
            let thoughts: Vec<Thought> =
                values::elements(values::given(line.thoughts)).unwrap_or_default();
            for Thought { subject, description } in thoughts {
                let heading = subject.map(|subject| format!("**{subject}**"));
                let text: Vec<String> = [heading, description].into_iter().flatten().collect();
                let (text, signature, encrypted) = (text.join("\n"), None, None);
                answer_parts.push(Part::Reasoning { text, signature, encrypted });
            }
            let text = whole_text.or_else(|| joined(parts.iter().map(|(_, _, part)| part)));
            answer_parts.extend(text.filter(|text| !text.is_empty()).map(Part::text));
            for (n, raw, _) in parts.iter().filter(|(_, _, part)| part.is_unknown()) {
                answer_parts.extend(other_part(*n, raw, &mut unread));
            }
            for (n, call) in recorded_calls.iter().enumerate() {
                let arguments = call.args.map_or_else(|| "{}".to_owned(), canonical);
                let name = call.name.clone().unwrap_or_default();
                answer_parts.push(Part::call(call_id(call.id.as_ref(), n), name, arguments));
            }
        } else {
            for (n, raw, part) in parts {
                if part.is_unknown() {
                    answer_parts.extend(other_part(n, raw, &mut unread));
                } else if let Some(call) = part.function_call {
                    // Ids may be missing: match by name and order, as for the results.
                    let known = recorded_calls.get(calls).and_then(|call| call.id.as_ref());
                    let id = call_id(call.id.as_ref().or(known), calls);
                    let arguments = call.args.map_or_else(|| "{}".to_owned(), canonical);
                    answer_parts.push(Part::call(id, call.name.unwrap_or_default(), arguments));
                    calls += 1;
                } else if let (Some(text), true) = (&part.text, part.thought.unwrap_or_default()) {
                    let (text, signature, encrypted) = (text.clone(), part.thought_signature, None);
                    answer_parts.push(Part::Reasoning { text, signature, encrypted });
                } else if let Some(text) = part.text.filter(|text| !text.is_empty()) {
                    answer_parts.push(Part::text(text));
                }
            }
        }
        let mut draft = Draft::assistant("");
        draft = answer_parts.into_iter().fold(draft, Draft::part);
        draft.generation_config = model_config(line.model.as_deref());
        let tokens: Option<Tokens> = lenient(values::given(line.tokens));
        let tokens = tokens.map(Tokens::totals);
        let mut metadata = Metadata::default();
        metadata.set_some("message_id", line.id.as_deref());
        if let Some(tokens) = &tokens {
            metadata.usage(tokens);
        }
        draft.metadata = metadata.json();
        let ids: Vec<String> = draft.content.calls().map(|call| call.id.clone()).collect();
        let mut results = Vec::new();
        for (n, call) in recorded_calls.iter().enumerate() {
            let Some(result) = values::given(call.result) else { continue };
            let id = ids.get(n).cloned().unwrap_or_else(|| call_id(call.id.as_ref(), n));
            let is_error = matches!(call.status.as_deref(), Some("error" | "cancelled"));
            let path = format!("toolCalls[{n}].result");
            let parts = result_parts(&path, result, &mut unread);
            let answer = ToolAnswer { call_id: id, name: call.name.clone(), is_error, parts };
            results.push((n, Draft::new(Content::ToolResult(answer))));
        }
        Self { draft, results, tokens, unread }
    }
}

fn joined<'p>(parts: impl Iterator<Item = &'p PartFields<'p>>) -> Option<String> {
    let texts: Vec<&str> = parts.filter_map(|part| part.text.as_deref()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns a user's message. Commands and texts inserted by the tool are not sent again, so they
/// are skipped. `unread` gets descriptions of content that is kept as its JSON.
pub(super) fn user(line: &Line<'_>, unread: &mut Vec<String>) -> Draft {
    const NOT_SENT: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];
    let whole_text = values::text(values::given(line.content));
    let content = values::given(line.content).filter(|_| whole_text.is_none());
    let parts: Vec<PartFields<'_>> = values::elements(content).unwrap_or_default();
    if parts.iter().any(|part| part.text.is_none())
        && let Some(draft) = line.content.and_then(|content| other_parts(content, unread))
    {
        return draft;
    }
    let text = whole_text.or_else(|| joined(parts.iter()));
    let text = text.unwrap_or_else(|| {
        line.content.map_or_else(String::new, |content| {
            unread.push("content: neither a text nor a list of parts, kept as its JSON".to_owned());
            canonical(content)
        })
    });
    let is_sent = !NOT_SENT.iter().any(|beginning| text.starts_with(beginning));
    let draft = Draft::user(text);
    if is_sent { draft } else { draft.priority(Priority::Skip) }
}

/// Returns the results that a user's message consists of; `None` if it contains anything else, or
/// the results do not name their calls. `unread` gets descriptions of content that is kept as its
/// JSON.
pub(super) fn results(line: &Line<'_>, unread: &mut Vec<String>) -> Option<Vec<Draft>> {
    let parts: Vec<&RawValue> = lenient(line.content)?;
    let result = |(n, raw): (usize, &&RawValue)| {
        let part: PartFields<'_> = lenient(Some(raw))?;
        let FunctionResponse { id, name, response, parts } = part.function_response?;
        let text = response.map_or_else(String::new, response_text);
        let call_id = id?;
        let path = format!("content[{n}].functionResponse.parts");
        let more = media(&path, parts, unread);
        let parts = std::iter::once(Part::text(text)).chain(more).collect();
        let answer = ToolAnswer { call_id, name, is_error: false, parts };
        Some(Draft::new(Content::ToolResult(answer)))
    };
    let results: Option<Vec<Draft>> = parts.iter().enumerate().map(result).collect();
    results.filter(|results| !results.is_empty())
}

/// Reads other parts than texts, such as images, like the API does.
fn other_parts(content: &RawValue, unread: &mut Vec<String>) -> Option<Draft> {
    let text = format!(r#"{{"contents":[{{"role":"user","parts":{}}}]}}"#, content.get());
    let read = ProviderConversation::read(&text, Some(Dialect::Gemini)).ok()?;
    let mut drafts = read.imported.drafts;
    let draft = drafts
        .pop()
        .filter(|draft| drafts.is_empty() && matches!(draft.content, Content::User(_)))?;
    misfits::keep(content);
    let kept = read.imported.anomalies.into_iter().filter(Anomaly::is_kept_json);
    unread.extend(kept.map(|kept| {
        let what = kept.to_string();
        what.replacen("contents[0].parts", "content", 1)
    }));
    Some(draft)
}

/// Reads a part of an answer that is neither a text nor a call, such as an image. One that is not
/// understood is kept as its JSON.
fn other_part(n: usize, raw: &RawValue, unread: &mut Vec<String>) -> Vec<Part> {
    let text = format!(r#"{{"contents":[{{"role":"model","parts":[{}]}}]}}"#, raw.get());
    let read = ProviderConversation::read(&text, Some(Dialect::Gemini)).ok();
    let mut drafts = read.map(|read| read.imported.drafts).unwrap_or_default();
    if let Some(Content::Assistant(body)) = drafts.pop().map(|draft| draft.content)
        && let [Part::Image { .. }] = body.parts.as_slice()
    {
        misfits::keep(raw);
        return body.parts;
    }
    let what = "a part that is neither a text nor a call, kept as its JSON";
    unread.push(format!("content[{n}]: {what}"));
    vec![Part::text(canonical(raw))]
}

/// Returns the parts of a result that the model read: its text, and pictures.
fn result_parts(path: &str, result: &RawValue, unread: &mut Vec<String>) -> Vec<Part> {
    let Some(parts) = lenient::<Vec<&RawValue>>(Some(result)) else {
        return vec![Part::text(shown(result))];
    };
    let (mut texts, mut more) = (Vec::new(), Vec::new());
    for (n, raw) in parts.into_iter().enumerate() {
        if let Some(text) = values::text(Some(raw)) {
            texts.push(text);
            continue;
        }
        let part: PartFields<'_> = lenient(Some(raw)).unwrap_or_default();
        if part.is_unknown() {
            unread.push(format!("{path}[{n}]: a part of an unknown type, kept as its JSON"));
            texts.push(shown(raw));
            continue;
        }
        if let Some(response) = part.function_response {
            texts.extend(response.response.map(response_text));
            let path = format!("{path}[{n}].functionResponse.parts");
            more.extend(media(&path, response.parts, unread));
        }
        texts.extend(part.text);
    }
    std::iter::once(Part::text(texts.join("\n"))).chain(more).collect()
}

/// Reads the parts of a function's response: pictures and texts. Others are kept as their JSON.
pub(crate) fn media(path: &str, parts: Raw<'_>, unread: &mut Vec<String>) -> Vec<Part> {
    let parts = values::given(parts);
    let Some(list) = lenient::<Vec<&RawValue>>(parts) else { return Vec::new() };
    let picture = |part: &Object<'_>| {
        let inline = Object::of(part.in_any_case("inlineData"));
        let file = Object::of(part.in_any_case("fileData"));
        let (data, name) = inline.map(|data| (data, "data")).or(file.map(|f| (f, "fileUri")))?;
        let media_type = values::text(data.in_any_case("mimeType"));
        let is_image = media_type.as_deref().is_none_or(|kind| kind.starts_with("image/"));
        let source = values::text(data.in_any_case(name)).filter(|text| !text.is_empty());
        source.filter(|_| is_image).map(|text| values::image(text, media_type))
    };
    let read = |(n, raw): (usize, &RawValue)| {
        let part = Object::of(Some(raw)).unwrap_or_default();
        let text = || part.text("text").map(Part::text);
        picture(&part).or_else(text).unwrap_or_else(|| {
            unread.push(format!("{path}[{n}]: a part of an unknown type, kept as its JSON"));
            Part::text(canonical(raw))
        })
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Returns whether a function's response has more than one output or error.
pub(crate) fn has_more(response: &Object<'_>) -> bool {
    response.names().into_iter().filter(|name| response.has(name)).count() > 1
}

/// Returns the text of a function's response: its output or error, if it has nothing else.
fn response_text(response: &RawValue) -> String {
    let is_object = response.get().starts_with('{');
    let members = Object::of(Some(response).filter(|_| is_object)).unwrap_or_default();
    let known = members.raw("output").or_else(|| members.raw("error"));
    let text = values::text(known.filter(|_| !has_more(&members)));
    text.unwrap_or_else(|| canonical(response))
}

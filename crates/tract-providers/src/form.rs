//! Compiles a context to a provider's form.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use tract_compile::{Compiled, Item, Pairing, Repair, RepairKind, Unpaired, pair};
use tract_core::json::{self, JsonError};
use tract_core::{JsonText, Message, RequestMap, RequestTool};
use tract_schema::{Aliases, Dialect, Loss, LossKind, Lowered, StrictAllowance, ToolView};

use crate::ids::{Ids, Repairing};
use crate::images::{self, ImageProvider};
use crate::members::get;
use crate::params::{Body, Members, Params};
use crate::prefix::{Blocks, PrefixSource};
use crate::profile_of;
use crate::raw::{self, Object};
use crate::sheet::{RequestWriter, is_answer};

pub use crate::params::Form;

impl Form {
    /// Returns all forms.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |dialect: Dialect| {
            let conversation = Self::Conversation(dialect);
            let has_it = profile_of(dialect).has_conversation;
            has_it.then_some(conversation).into_iter().chain([Self::Params(dialect)])
        };
        Dialect::ALL.into_iter().flat_map(of).chain([Self::Messages])
    }

    /// Returns the name used on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation(dialect) => dialect.as_str(),
            Self::Params(dialect) => profile_of(dialect).params,
            Self::Messages => "messages",
        }
    }

    /// Returns the names of all forms, for messages: `openai, openai-params, …`.
    pub fn names() -> String {
        Self::all().map(Self::as_str).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Conversation(dialect) | Self::Params(dialect) => dialect,
            Self::Messages => Dialect::OpenAi,
        }
    }

    /// Returns whether it is a whole request, with tools and parameters.
    fn is_request(self) -> bool {
        matches!(self, Self::Params(_))
    }

    /// Returns whether it is a list of messages, which is never repaired.
    fn is_plain(self) -> bool {
        matches!(self, Self::Conversation(Dialect::OpenAi) | Self::Messages)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Form {
    type Err = FormError;
    fn from_str(name: &str) -> Result<Self, FormError> {
        Self::all()
            .find(|form| form.as_str() == name)
            .ok_or_else(|| FormError::UnknownForm { name: name.to_owned() })
    }
}

/// A context that cannot be written in a form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// No form has this name.
    #[error("unknown form {name:?}")]
    UnknownForm {
        /// The name.
        name: String,
    },
    /// Calls and results do not pair, and pairing is strict.
    #[error(transparent)]
    Unpaired(#[from] Unpaired),
    /// A stored text has changed since it was stored.
    #[error("{what} is damaged: {source}")]
    Damaged {
        /// The owner of the text.
        what: String,
        /// The error of the reader.
        source: JsonError,
    },
}

impl FormError {
    /// Returns what to do about it.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::UnknownForm { .. } => vec![format!("known are {}", Form::names())],
            Self::Unpaired(unpaired) => {
                let steps = unpaired.repairs.iter().map(Repair::to_string);
                steps.chain(["pairing \"repair\" makes these changes".to_owned()]).collect()
            }
            Self::Damaged { .. } => vec!["verify the store".to_owned()],
        }
    }
}

/// Options of compiling a context to a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormOptions {
    /// The treatment of calls and results that do not pair. Default: `repair`, or `keep` for the
    /// forms `openai` and `messages`, which are never repaired.
    pub pairing: Option<Pairing>,
    /// Whether the provider enforces the schemas of tools, for tools whose schema can be enforced.
    /// Each tool then states whether it is strict. [`Params::sent`] has the outcome per tool.
    pub strict_tools: bool,
}

/// The forms of a compiled context.
///
/// # Errors
/// Each form returns [`FormError::Damaged`] if a stored text has changed.
pub trait RequestForms {
    /// Makes any form, with default options.
    fn to_form(&self, form: Form) -> Result<Params, FormError>;

    /// Makes a request to a provider.
    fn to_params(&self, dialect: Dialect) -> Result<Params, FormError> {
        self.to_form(Form::Params(dialect))
    }

    /// Makes the list of messages in OpenAI's shape as recorded, without repairs.
    fn to_openai(&self) -> Result<Params, FormError> {
        self.to_form(Form::Conversation(Dialect::OpenAi))
    }

    /// Makes a request to OpenAI's Chat Completions.
    fn to_openai_params(&self) -> Result<Params, FormError> {
        self.to_form(Form::Params(Dialect::OpenAi))
    }

    /// Makes a request to OpenAI's Responses.
    fn to_responses_params(&self) -> Result<Params, FormError> {
        self.to_form(Form::Params(Dialect::Responses))
    }

    /// Makes `{system, messages}` in Anthropic's shape.
    fn to_anthropic(&self) -> Result<Params, FormError> {
        self.to_form(Form::Conversation(Dialect::Anthropic))
    }

    /// Makes a request to Anthropic's Messages.
    fn to_anthropic_params(&self) -> Result<Params, FormError> {
        self.to_form(Form::Params(Dialect::Anthropic))
    }

    /// Makes a request to Ollama's own chat API.
    fn to_ollama_params(&self) -> Result<Params, FormError> {
        self.to_form(Form::Params(Dialect::Ollama))
    }

    /// Makes the neutral messages with the ids of their commits.
    fn to_messages(&self) -> Result<Params, FormError> {
        self.to_form(Form::Messages)
    }
}

impl RequestForms for Compiled {
    fn to_form(&self, form: Form) -> Result<Params, FormError> {
        compile_form(self, form, &FormOptions::default())
    }
}

/// Compiles a context to a form.
///
/// # Behavior
/// - Pure: the same context, form and options give the same bytes.
/// - Messages recorded in the form's dialect are sent as recorded, as far as they satisfy its
///   rules. Everything else is translated, and every repair is listed.
/// - The last generation config is sent unchanged if its message was recorded in this dialect.
///   Otherwise `model` and `max_tokens` are taken from the last config that has them. `tools` and
///   `system` are absent when empty.
///
/// # Errors
/// [`FormError::Unpaired`] in strict pairing; [`FormError::Damaged`] if a stored text has changed
/// since it was stored.
pub fn compile_form(
    compiled: &Compiled,
    form: Form,
    options: &FormOptions,
) -> Result<Params, FormError> {
    compile_with(compiled, form, options, None)
}

/// Compiles the context of a recorded request to the request, with the members that it had besides
/// messages and tools: an object, as [`Imported::parameters`](crate::Imported::parameters).
///
/// Members are sent as they were recorded. If the request has its tools in the legacy member
/// `functions`, `tools` is not sent. A schema of answers that Anthropic never accepts is repaired,
/// and listed. The members are ignored unless the form is a request.
///
/// # Errors
/// As [`compile_form`].
pub fn compile_recorded(
    compiled: &Compiled,
    form: Form,
    options: &FormOptions,
    members: &JsonText,
) -> Result<Params, FormError> {
    compile_with(compiled, form, options, Some(members).filter(|_| form.is_request()))
}

fn compile_with(
    compiled: &Compiled,
    form: Form,
    options: &FormOptions,
    request: Option<&JsonText>,
) -> Result<Params, FormError> {
    let pairing = match (form.is_plain(), options.pairing) {
        (true, Some(Pairing::Strict)) => Pairing::Strict,
        (true, _) => Pairing::Keep,
        (false, pairing) => pairing.unwrap_or_default(),
    };
    let dialect = form.dialect();
    let profile = profile_of(dialect);
    let repairing = pairing != Pairing::Keep;
    let mut replaced = Vec::new();
    let valid = match repairing {
        true => {
            let is_own = |message: &Message| profile.format.owns(message.form.as_deref());
            let provider = ImageProvider { dialect, title: profile.title, is_own: &is_own };
            images::without_invalid(compiled, provider, &mut replaced)
        }
        false => Cow::Borrowed(compiled),
    };
    let compiled = valid.as_ref();
    let paired = pair(compiled, pairing, &profile.pairing_rules())?;
    let mut repairs = paired.repairs;
    repairs.extend(replaced);
    let aliases = form.is_request().then(|| aliases(compiled, dialect));
    // Before anything is written, because a call and its result have to get the same id.
    let replaced = if repairing { Repairing::All } else { Repairing::Nothing };
    let ids = Ids::settle(&paired.items, profile.format, replaced, aliases.as_ref(), &mut repairs);
    let model = request.and_then(|members| get(members.as_str(), "model")).and_then(raw::string);
    let mut sheet = RequestWriter {
        compiled,
        format: profile.format,
        repairing,
        closing: repairing && form.is_request(),
        separate: false,
        model: model.or_else(|| last_model(compiled)),
        items: &paired.items,
        ids: &ids,
        repairs,
        blocks: Blocks::default(),
    };
    // A recorded configuration is sent as it was. `settle` would add what the provider requires of a
    // new request, and change it.
    let recorded = recorded_config(compiled, dialect).filter(|_| form.is_request());
    let members_of = request.or(recorded).map(JsonText::as_str);
    let recorded_tools = members_of.and_then(|members| get(members, "tools"));
    // Tools before the conversation: providers cache tools, then instructions, then messages, and
    // the blocks are hashed in that order.
    let (tools, sent) = match &aliases {
        Some(aliases) => tools(&mut sheet, dialect, aliases, options.strict_tools, recorded_tools)?,
        None => (Vec::new(), RequestMap::default()),
    };
    let body = match form {
        Form::Messages => Body::Object(neutral(&mut sheet)?),
        Form::Params(_) | Form::Conversation(_) => {
            let mut members = (profile.conversation)(&mut sheet);
            if form.is_plain() {
                Body::Array(members.pop().map(|(_, list)| list).unwrap_or_default())
            } else {
                Body::Object(members)
            }
        }
    };
    let RequestWriter { repairs, blocks, .. } = sheet;
    let mut params = Params {
        form,
        body,
        prefix: blocks.hashes.clone(),
        blocks,
        aliases,
        sent,
        names_model: profile.names_model || !form.is_request(),
        model: None,
        head: compiled.head(),
        repairs,
    };
    if form.is_request() {
        if recorded.is_none() {
            parameters(compiled, dialect, &mut params);
        }
        if !tools.is_empty() {
            params.set("tools", profile.adapter.tools(&tools, recorded_tools));
        }
        match recorded {
            Some(config) => params = params.with_recorded(config),
            None => profile.adapter.settle(&mut params),
        }
        if let Some(members) = request {
            params = params.with_recorded(members);
            // The answer's own config has a model too, which may come from its URL.
            if let Some(model) = get(members.as_str(), "model").filter(|_| !profile.names_model) {
                params.set_model_in_body(model);
            }
        }
    }
    Ok(params)
}

fn aliases(compiled: &Compiled, dialect: Dialect) -> Aliases {
    let calls = compiled
        .messages()
        .flat_map(|message| message.content.calls())
        .map(|call| call.name.as_str());
    let tools =
        compiled.tools().iter().map(|tool| tool.name.as_str()).filter(|name| !name.is_empty());
    Aliases::of(dialect, tools.chain(calls))
}

fn tools(
    sheet: &mut RequestWriter<'_>,
    dialect: Dialect,
    aliases: &Aliases,
    strict: bool,
    recorded: Option<&str>,
) -> Result<(Vec<String>, RequestMap), FormError> {
    let adapter = profile_of(dialect).adapter;
    let format = profile_of(dialect).format;
    let owns = |message: &&Message| format.owns(message.form.as_deref());
    let is_recorded = sheet.compiled.messages().any(|message| owns(&message));
    // Answers alone do not show that a request with these tools was accepted.
    let is_request = sheet.compiled.messages().filter(owns).any(|message| !is_answer(message));
    let mut lowered_tools = Vec::new();
    let mut allowance = StrictAllowance::new(dialect);
    for (index, tool) in sheet.compiled.tools().iter().enumerate() {
        let name = aliases.sent(&tool.name);
        let damaged = |source| FormError::Damaged { what: format!("tool {}", tool.name), source };
        let sent = |sent_name: String| RequestTool::new(sent_name, &*tool.name, tool.id);
        let strict_tool = |sent_name: String, null_for_absent: bool| RequestTool {
            strict: true,
            null_for_absent,
            ..sent(sent_name)
        };
        // Servers that are compatible with OpenAI accept more, and what was recorded was accepted.
        let shape = ToolView::parse(&tool.schema).map_err(damaged)?.shape;
        let keeps_strict = is_recorded && shape.is_of(dialect);
        let violation = match keeps_strict {
            true => None,
            false => tract_schema::strict_violation(&tool.schema, dialect).map_err(damaged)?,
        };
        let lowered = if strict || violation.is_some() {
            let lowered =
                tract_schema::translate_within(&tool.schema, dialect, &name, &mut allowance);
            let lowered = lowered.map_err(damaged)?;
            let reasons = lowered.losses.iter().filter(|l| l.kind == LossKind::NotExpressible);
            let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
            let not_strict = lowered.text.is_some() && !lowered.strict && !reasons.is_empty();
            if not_strict && dialect.has_strict_mode() {
                let why = format!("{:?} is not strict: {}", tool.name, reasons.join("; "));
                sheet.repairs.push(Repair::new(RepairKind::NotStrict, None, why));
            } else if let Some(why) = violation {
                let why = format!("tool {:?} gets a strict schema: {why}", tool.name);
                sheet.repairs.push(Repair::new(RepairKind::Changed, None, why));
            }
            for loss in &lowered.losses {
                completed(&mut sheet.repairs, &tool.name, loss);
            }
            match (lowered.text, lowered.strict) {
                (Some(text), true) => {
                    Ok((text, strict_tool(lowered.sent_name, lowered.null_for_absent)))
                }
                (Some(text), false) => Ok((text, sent(lowered.sent_name))),
                (None, _) => {
                    let why = lowered.losses.into_iter().map(|loss| loss.message);
                    Err((lowered.name, why.collect::<Vec<_>>().join("; ")))
                }
            }
        } else {
            // Other losses are not requested here, so they are not computed.
            let names = |list| adapter.names_tool(list, &name);
            let is_own = shape.is_of(dialect) || recorded.is_some_and(names);
            let lower = match is_request && is_own {
                true => tract_schema::lower_recorded_as,
                false => tract_schema::lower_as,
            };
            match lower(&tool.schema, dialect, &name).map_err(damaged)? {
                Lowered::Tool { text, name, strict, losses, .. } => {
                    let is_merged = losses.iter().any(|loss| loss.kind == LossKind::Changed);
                    let kept = is_recorded
                        && name == tool.name
                        && is_own
                        && !is_merged
                        && tract_schema::is_accepted_as_recorded(&tool.schema, dialect)
                            .map_err(damaged)?;
                    let text = if kept { tool.schema.to_string() } else { text };
                    for loss in losses.iter().filter(|_| !kept) {
                        completed(&mut sheet.repairs, &tool.name, loss);
                    }
                    Ok((text, if strict { strict_tool(name, false) } else { sent(name) }))
                }
                Lowered::LeftOut { name, reason, .. } => Err((name, reason)),
            }
        };
        lowered_tools.push((index, &tool.name, lowered));
    }
    // Of several tools with one name, only the newest is sent if the provider rejects duplicates.
    let mut newest: HashMap<String, usize> = HashMap::new();
    if profile_of(dialect).refuses_same_names {
        for (index, _, lowered) in &lowered_tools {
            // Built-in tools have no name.
            if let Ok((_, sent)) = lowered
                && !sent.sent_name.is_empty()
            {
                newest.insert(sent.sent_name.to_string(), *index);
            }
        }
    }
    let mut tools = Vec::new();
    let mut map = Vec::new();
    for (index, name, lowered) in lowered_tools {
        let lowered = lowered.and_then(|(text, sent): (String, RequestTool)| {
            match newest.get(&*sent.sent_name) {
                Some(newest) if *newest != index => {
                    Err((sent.sent_name, "a later tool has the same name".to_owned()))
                }
                _ => Ok((text, sent)),
            }
        });
        match lowered {
            Ok((text, sent)) => {
                sheet.blocks.push(PrefixSource::Tool { index, name: name.clone() }, &text);
                tools.push(text);
                map.push(sent);
            }
            Err((name, why)) => {
                let text = format!("tool {name:?} is left out: {why}");
                sheet.repairs.push(Repair::new(RepairKind::ToolLeftOut, None, text));
            }
        }
    }
    Ok((tools, map.into_iter().collect()))
}

/// Reports changes of the parameters of a tool, in strict mode and in others.
fn completed(repairs: &mut Vec<Repair>, tool: &str, loss: &Loss) {
    if loss.path == "parameters" {
        repairs.push(Repair::new(RepairKind::Changed, None, format!("tool {tool:?}: {loss}")));
    }
}

/// Returns the last generation config if it was recorded with a message of this dialect and
/// contains more than the model. Its members then have the provider's names.
fn recorded_config(compiled: &Compiled, dialect: Dialect) -> Option<&JsonText> {
    let last = compiled.messages().rev().find(|message| message.generation_config.is_some())?;
    let config = last.generation_config.as_ref()?;
    let members = json::split_object(config.as_str()).ok()?;
    let states_more = members.iter().any(|(name, _)| name != "model");
    (states_more && profile_of(dialect).format.owns(last.form.as_deref())).then_some(config)
}

/// Returns the model of the last generation config that has one.
fn last_model(compiled: &Compiled) -> Option<String> {
    compiled.messages().rev().find_map(|message| {
        let config = message.generation_config.as_ref()?;
        get(config.as_str(), "model").and_then(raw::string)
    })
}

/// Puts `model` and the token limit, from the last generation configs that have them, before the
/// other members, and reports the parameters of the last config that another provider's request had.
fn parameters(compiled: &Compiled, dialect: Dialect, params: &mut Params) {
    let last = |key: &str| {
        compiled.messages().rev().find_map(|message| {
            let config = message.generation_config.as_ref()?;
            let config = json::split_object(config.as_str()).ok()?;
            let value = config.into_iter().find(|(name, _)| name == key)?.1;
            (value != "null").then(|| value.to_owned())
        })
    };
    let Body::Object(members) = &mut params.body else { return };
    let rest = std::mem::take(members);
    for key in CARRIED {
        if let Some(value) = last(key) {
            crate::parameters::set(params, dialect, key, &value);
        }
    }
    for (key, value) in rest {
        params.set(&key, value);
    }
    let with_config = |message: &&Message| message.generation_config.is_some();
    let Some(last) = compiled.messages().rev().find(with_config) else { return };
    let is_request =
        Dialect::ALL.iter().any(|of| profile_of(*of).format.owns(last.form.as_deref()));
    if let Some(config) = last.generation_config.as_ref().filter(|_| is_request) {
        params.report_unsent(config, &CARRIED);
    }
}

/// Parameters of a recorded request that requests for other providers get too.
const CARRIED: [&str; 2] = ["model", "max_tokens"];

impl Params {
    /// Sets the members of a recorded request of this dialect, an object, as they were recorded. If
    /// the request has its tools in the legacy member `functions`, `tools` is not sent. A schema of
    /// answers that Anthropic never accepts is repaired, and listed.
    fn with_recorded(mut self, members: &JsonText) -> Self {
        let Body::Object(_) = &self.body else { return self };
        let members = json::split_object(members.as_str()).unwrap_or_default();
        let has_tools = members.iter().any(|(key, _)| key == "tools");
        for (key, raw) in members {
            let adapter = profile_of(self.form.dialect()).adapter;
            let is_listed =
                key == "tools" && (self.get("tools").is_some() || adapter.is_tool_layout(raw));
            if !is_listed {
                self.set(&key, raw.to_owned());
            }
            let is_legacy = key == "functions" && !has_tools && is_filled_list(raw);
            if let (true, Body::Object(body)) = (is_legacy, &mut self.body) {
                body.retain(|(name, _)| name != "tools");
            }
        }
        profile_of(self.form.dialect()).adapter.repair_recorded(&mut self);
        self
    }
}

fn is_filled_list(raw: &str) -> bool {
    json::split_array(raw).is_ok_and(|items| !items.is_empty())
}

/// Writes the neutral form: recorded messages, identified by their commits.
fn neutral(sheet: &mut RequestWriter<'_>) -> Result<Members, FormError> {
    let mut messages = Vec::new();
    for item in sheet.items {
        let Item::Message(message) = item else { continue };
        let content = message.content.to_blob().map_err(|error| FormError::Damaged {
            what: format!("commit {}", message.commit.short()),
            source: match error {
                tract_core::ContentError::Json(source) => source,
                _ => JsonError::Syntax { offset: 0, expected: "content", found: None },
            },
        })?;
        let mut out = Object::new();
        out.text("commit", &message.commit.to_hex());
        if message.slot != message.commit {
            out.text("slot", &message.slot.to_hex());
        }
        out.text("kind", message.content.kind().as_str());
        out.text("role", message.role.as_str());
        out.text("priority", message.priority.as_str());
        out.raw("content", &content);
        if let Some(of) = message.answers {
            out.raw("answers", &format!("[\"{}\",{}]", of.slot, of.index));
        }
        if let Some(form) = &message.form {
            out.text("form", form);
        }
        if let Some(config) = &message.generation_config {
            out.raw("generation_config", config.as_str());
        }
        out.raw("token_count", &message.token_count.to_string());
        let text = out.end();
        sheet.blocks.push(PrefixSource::Message(message.commit), &text);
        messages.push(text);
    }
    let mut members = vec![("messages".to_owned(), raw::array(messages))];
    let tools = sheet.compiled.tools();
    if !tools.is_empty() {
        let tools = tools.iter().map(|tool| tool.schema.as_ref());
        members.push(("tools".to_owned(), raw::array(tools)));
    }
    Ok(members)
}

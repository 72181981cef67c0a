//! From a compiled context to a provider's form.

use std::collections::HashSet;

use std::fmt;
use std::str::FromStr;

use tract_compile::{Compiled, Item, Pairing, Repair, RepairKind, pair};
use tract_core::{RequestMap, SentTool, json};
use tract_schema::{Aliases, LossKind, Lowered, Provider, StrictAllowance};

use crate::dialect::Dialect;
use crate::error::FormError;
use crate::ids::Ids;
use crate::params::{Body, Params};
use crate::prefix::{Blocks, Origin};
use crate::raw::{self, Object};
use crate::sheet::Sheet;
use crate::{anthropic, ollama, openai, responses};

/// What a context can be compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Form {
    /// `openai`: the list of messages, never repaired.
    OpenAi,
    /// `openai-params`: a request to OpenAI's Chat Completions.
    OpenAiParams,
    /// `responses-params`: a request to OpenAI's Responses.
    ResponsesParams,
    /// `anthropic`: `{system, messages}`.
    Anthropic,
    /// `anthropic-params`: a request to Anthropic's Messages.
    AnthropicParams,
    /// `ollama-params`: a request to Ollama's own chat API.
    OllamaParams,
    /// `messages`: as recorded, with the ids of the commits.
    Messages,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OpenAi,
        Self::OpenAiParams,
        Self::ResponsesParams,
        Self::Anthropic,
        Self::AnthropicParams,
        Self::OllamaParams,
        Self::Messages,
    ];

    /// Returns the word used on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiParams => "openai-params",
            Self::ResponsesParams => "responses-params",
            Self::Anthropic => "anthropic",
            Self::AnthropicParams => "anthropic-params",
            Self::OllamaParams => "ollama-params",
            Self::Messages => "messages",
        }
    }

    fn dialect(self) -> Dialect {
        match self {
            Self::OpenAi | Self::OpenAiParams | Self::Messages => Dialect::OpenAi,
            Self::ResponsesParams => Dialect::Responses,
            Self::Anthropic | Self::AnthropicParams => Dialect::Anthropic,
            Self::OllamaParams => Dialect::Ollama,
        }
    }

    /// Whether it is a whole request, with tools and parameters.
    fn is_request(self) -> bool {
        match self {
            Self::OpenAiParams
            | Self::ResponsesParams
            | Self::AnthropicParams
            | Self::OllamaParams => true,
            Self::OpenAi | Self::Anthropic | Self::Messages => false,
        }
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
        Self::ALL
            .into_iter()
            .find(|form| form.as_str() == name)
            .ok_or_else(|| FormError::UnknownForm { name: name.to_owned() })
    }
}

pub(crate) fn names() -> String {
    Form::ALL.map(Form::as_str).join(", ")
}

/// How a context is compiled to a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormOptions {
    /// What to do with calls and results that do not pair. Absent: `repair`, but `keep` for the
    /// forms `openai` and `messages`, which repair never.
    pub pairing: Option<Pairing>,
    /// Whether the provider is told to keep to the tools' schemas, where they can be written so;
    /// each tool then says whether it is. How each went out is in [`Params::sent`].
    pub strict_tools: bool,
}

impl FormOptions {
    /// Makes the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what to do with calls and results that do not pair.
    #[must_use]
    pub fn pairing(mut self, pairing: Pairing) -> Self {
        self.pairing = Some(pairing);
        self
    }

    /// Tells the provider to keep to the tools' schemas, where they can be written so.
    #[must_use]
    pub fn strict_tools(mut self, strict: bool) -> Self {
        self.strict_tools = strict;
        self
    }
}

/// The forms of a compiled context.
pub trait RequestForms {
    /// Makes the list of messages in OpenAI's shape, as recorded; never repaired.
    ///
    /// # Errors
    /// [`FormError::Damaged`] when a stored text is not what it was.
    fn to_openai(&self) -> Result<Params, FormError>;

    /// Makes a request to OpenAI's Chat Completions.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_openai_params(&self) -> Result<Params, FormError>;

    /// Makes a request to OpenAI's Responses.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_responses_params(&self) -> Result<Params, FormError>;

    /// Makes `{system, messages}` in Anthropic's shape.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_anthropic(&self) -> Result<Params, FormError>;

    /// Makes a request to Anthropic's Messages.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_anthropic_params(&self) -> Result<Params, FormError>;

    /// Makes a request to Ollama's own chat API.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_ollama_params(&self) -> Result<Params, FormError>;

    /// Makes the neutral messages with the ids of their commits.
    ///
    /// # Errors
    /// As [`to_openai`](Self::to_openai).
    fn to_messages(&self) -> Result<Params, FormError>;
}

impl RequestForms for Compiled {
    fn to_openai(&self) -> Result<Params, FormError> {
        compile_form(self, Form::OpenAi, &FormOptions::new())
    }

    fn to_openai_params(&self) -> Result<Params, FormError> {
        compile_form(self, Form::OpenAiParams, &FormOptions::new())
    }

    fn to_responses_params(&self) -> Result<Params, FormError> {
        compile_form(self, Form::ResponsesParams, &FormOptions::new())
    }

    fn to_anthropic(&self) -> Result<Params, FormError> {
        compile_form(self, Form::Anthropic, &FormOptions::new())
    }

    fn to_anthropic_params(&self) -> Result<Params, FormError> {
        compile_form(self, Form::AnthropicParams, &FormOptions::new())
    }

    fn to_ollama_params(&self) -> Result<Params, FormError> {
        compile_form(self, Form::OllamaParams, &FormOptions::new())
    }

    fn to_messages(&self) -> Result<Params, FormError> {
        compile_form(self, Form::Messages, &FormOptions::new())
    }
}

/// Compiles a context to a form.
///
/// # Behavior
/// - Pure: same context, form and options, same bytes.
/// - Rows that came in the form's own dialect go out as they were recorded, as far as they satisfy
///   its rules; everything else is translated, and every step that repairs is listed.
/// - `model` and `max_tokens` are those of the last generation config that has them; `tools` and
///   `system` are absent when empty.
///
/// # Errors
/// [`FormError::Unpaired`] in strict pairing; [`FormError::Damaged`] when a stored text is not
/// what it was when it was taken in.
pub fn compile_form(
    compiled: &Compiled,
    form: Form,
    options: &FormOptions,
) -> Result<Params, FormError> {
    let pairing = match (form, options.pairing) {
        (Form::OpenAi | Form::Messages, Some(Pairing::Strict)) => Pairing::Strict,
        (Form::OpenAi | Form::Messages, _) => Pairing::Keep,
        (_, pairing) => pairing.unwrap_or_default(),
    };
    let dialect = form.dialect();
    let paired = pair(compiled, pairing, &dialect.rules())?;
    let mut repairs = paired.repairs;
    let repairing = pairing != Pairing::Keep;
    let aliases = form.is_request().then(|| aliases(compiled, dialect));
    let ids = Ids::settle(&paired.items, dialect, repairing, aliases.as_ref(), &mut repairs);
    let mut sheet = Sheet {
        compiled,
        dialect,
        repairing,
        closing: repairing && form.is_request(),
        items: &paired.items,
        ids: &ids,
        repairs,
        blocks: Blocks::default(),
    };
    let (tools, sent) = match &aliases {
        Some(aliases) => tools(&mut sheet, aliases, options.strict_tools)?,
        None => (Vec::new(), RequestMap::default()),
    };
    let mut members = Vec::new();
    if form.is_request() {
        parameters(compiled, dialect, &mut members);
    }
    let body = match form {
        Form::OpenAi => {
            Body::Array(raw::array(sheet.one_by_one(openai::message, openai::stand_in)))
        }
        Form::OpenAiParams => {
            let messages = sheet.one_by_one(openai::message, openai::stand_in);
            members.push(("messages".to_owned(), raw::array(messages)));
            Body::Object(members)
        }
        Form::OllamaParams => {
            let messages = sheet.one_by_one(ollama::message, ollama::stand_in);
            members.push(("messages".to_owned(), raw::array(messages)));
            Body::Object(members)
        }
        Form::ResponsesParams => {
            members.extend(responses::members(&mut sheet));
            Body::Object(members)
        }
        Form::Anthropic | Form::AnthropicParams => {
            members.extend(anthropic::members(&mut sheet)?);
            Body::Object(members)
        }
        Form::Messages => Body::Object(neutral(&mut sheet)?),
    };
    let Sheet { repairs, blocks, .. } = sheet;
    let mut params = Params {
        form,
        body,
        prefix: blocks.hashes.clone(),
        blocks,
        aliases,
        sent,
        head: compiled.head(),
        repairs,
    };
    if let (Body::Object(members), false) = (&mut params.body, tools.is_empty()) {
        members.push(("tools".to_owned(), raw::array(tools)));
    }
    if form.is_request() {
        crate::parameters::settle_limit(&mut params, dialect);
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
    Aliases::of(dialect.provider(), tools.chain(calls))
}

fn tools(
    sheet: &mut Sheet<'_>,
    aliases: &Aliases,
    strict: bool,
) -> Result<(Vec<String>, RequestMap), FormError> {
    let mut tools = Vec::new();
    let mut map = Vec::new();
    let mut taken = HashSet::new();
    let provider = sheet.dialect.provider();
    let mut allowance = StrictAllowance::new(provider);
    for (index, tool) in sheet.compiled.tools().iter().enumerate() {
        let name = aliases.sent(&tool.name);
        let damaged = |source| FormError::Damaged { what: format!("tool {}", tool.name), source };
        let sent = |sent_name: String| SentTool::new(sent_name, &*tool.name, tool.id);
        let lowered = match strict {
            true => {
                let lowered =
                    tract_schema::translate_within(&tool.schema, provider, &name, &mut allowance);
                let lowered = lowered.map_err(damaged)?;
                let reasons = lowered.losses.iter().filter(|l| l.kind == LossKind::NotExpressible);
                let reasons: Vec<String> = reasons.map(ToString::to_string).collect();
                let not_strict = lowered.text.is_some() && !lowered.strict && !reasons.is_empty();
                if not_strict && provider != Provider::Ollama {
                    let why = format!("{:?} is not strict: {}", tool.name, reasons.join("; "));
                    sheet.repairs.push(Repair::new(RepairKind::NotStrict, None, why));
                }
                match (lowered.text, lowered.strict) {
                    (Some(text), true) => {
                        Ok((text, sent(lowered.sent_name).strict(lowered.null_for_absent)))
                    }
                    (Some(text), false) => Ok((text, sent(lowered.sent_name))),
                    (None, _) => {
                        let why = lowered.losses.into_iter().map(|loss| loss.message);
                        Err((lowered.name, why.collect::<Vec<_>>().join("; ")))
                    }
                }
            }
            // What is lost is not asked here, so it is not looked for.
            false => {
                match tract_schema::lower_as(&tool.schema, provider, &name).map_err(damaged)? {
                    Lowered::Tool { text, name, strict: true, .. } => {
                        Ok((text, sent(name).strict(false)))
                    }
                    Lowered::Tool { text, name, .. } => Ok((text, sent(name))),
                    Lowered::LeftOut { name, reason, .. } => Err((name, reason)),
                    _ => continue,
                }
            }
        };
        // Anthropic refuses a request with two tools of one name.
        let lowered = lowered.and_then(|(text, sent): (String, SentTool)| {
            match provider != Provider::Anthropic || taken.insert(sent.sent_name.clone()) {
                true => Ok((text, sent)),
                false => Err((sent.sent_name, "a tool before it has the same name".to_owned())),
            }
        });
        match lowered {
            Ok((text, sent)) => {
                sheet.blocks.push(Origin::Tool { index, name: tool.name.clone() }, &text);
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

/// `model` and the limit of tokens, from the last generation config that has them.
fn parameters(compiled: &Compiled, dialect: Dialect, members: &mut Vec<(String, String)>) {
    let last = |key: &str| {
        compiled.messages().rev().find_map(|message| {
            let config = message.generation_config.as_ref()?;
            let config = json::split_object(config.as_str()).ok()?;
            let value = config.into_iter().find(|(name, _)| name == key)?.1;
            (value != "null").then(|| value.to_owned())
        })
    };
    if let Some(model) = last("model") {
        members.push(("model".to_owned(), model));
    }
    if let Some(limit) = last("max_tokens") {
        let (key, value) = match dialect {
            Dialect::OpenAi | Dialect::Anthropic => ("max_tokens", limit),
            Dialect::Responses => ("max_output_tokens", limit),
            Dialect::Ollama => ("options", format!(r#"{{"num_predict":{limit}}}"#)),
        };
        members.push((key.to_owned(), value));
    }
}

/// The neutral form: what is recorded, named by its commits.
fn neutral(sheet: &mut Sheet<'_>) -> Result<Vec<(String, String)>, FormError> {
    let mut messages = Vec::new();
    for item in sheet.items {
        let Item::Message(message) = item else { continue };
        let content = message.content.to_blob().map_err(|error| FormError::Damaged {
            what: format!("commit {}", message.commit.short()),
            source: match error {
                tract_core::ContentError::Json(source) => source,
                _ => json::JsonError::Syntax { offset: 0, expected: "content", found: None },
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
        sheet.blocks.push(Origin::Message(message.commit), &text);
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

//! Google Gemini: `generateContent` and `streamGenerateContent`.

mod import;
mod lower;
mod names;
mod parameters;
mod reply;
mod request;
mod stream;
mod tools;

use tract_compile::Rules;
use tract_core::Draft;
use tract_core::text::percent_encoded;

use self::tools::ToolLayout;
use crate::api::Api;
use crate::drafts::Watch;
use crate::error::ImportError;
use crate::members::copy;
use crate::params::Params;
use crate::profile::{Adapter, AnswerShape, Foreign, Profile, Server};
use crate::raw::{self, Fields, Node, Object};
use crate::reader::Reader;
use crate::turns;

/// The adapter.
struct Gemini;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &Gemini,
    title: "Gemini",
    params: "gemini-params",
    has_conversation: false,
    format: &lower::FORMAT,
    names_model: false,
    limit: &["generationConfig", "maxOutputTokens"],
    parameters: parameters::PARAMETERS,
    options: parameters::OPTIONS,
    rules: |rules| Rules { turns: true, ..rules },
    conversation: |sheet| turns::members(sheet, &request::WORDING),
    set: parameters::set,
    wire,
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    refuses_same_names: true,
    foreign: Foreign {
        members: &["content", "tool_calls", "function_call", "tool_call_id"],
        roles: &["assistant", "tool"],
        blocks: &[],
    },
    file_paths: &[":generateContent", ":streamGenerateContent"],
    batch_member: None,
    legacy_tools: None,
    end_event: "",
    answer: AnswerShape {
        // A blocked prompt has no candidates.
        members: &["candidates", "promptFeedback"],
        read: &[
            "responseId",
            "modelVersion",
            "candidates[0].index",
            "candidates[0].content",
            "candidates[0].finishReason",
            "usageMetadata.promptTokenCount",
            "usageMetadata.toolUsePromptTokenCount",
            "usageMetadata.candidatesTokenCount",
            "usageMetadata.thoughtsTokenCount",
            "usageMetadata.cachedContentTokenCount",
            "usageMetadata.totalTokenCount",
        ],
        repeats_request: false,
    },
    block_types: &[],
    own_models: None,
    api: Api {
        telemetry_name: "gcp.gemini",
        base_url: "https://generativelanguage.googleapis.com",
        base_variable: "GOOGLE_GEMINI_BASE_URL",
        port: None,
        key_variable: "GEMINI_API_KEY",
        needs_key: true,
        paths: &[":generateContent", ":streamGenerateContent"],
        streams_lines: false,
        has_call_ids: false,
        has_background: false,
    },
    server: Server { key_header: ("x-goog-api-key", ""), headers: &[], demanded: None },
};

impl Adapter for Gemini {
    fn tools(&self, tools: &[String], recorded: Option<&str>) -> String {
        let layout = recorded.and_then(ToolLayout::parse);
        layout.and_then(|layout| layout.list(tools)).unwrap_or_else(|| tools::list(tools))
    }

    fn is_tool_layout(&self, tools: &str) -> bool {
        ToolLayout::parse(tools).is_some()
    }

    fn names_tool(&self, tools: &str, name: &str) -> bool {
        ToolLayout::parse(tools).is_some_and(|layout| layout.declares(name))
    }

    fn settle(&self, params: &mut Params) {
        parameters::settle(params);
        request::sign_calls(params);
    }

    fn recognizes(&self, request: &Fields<'_>) -> bool {
        request.get("contents").is_some_and(|contents| contents.is_array())
    }

    fn own_member(&self, message: &Fields<'_>) -> Option<&'static str> {
        import::is_content(message).then_some("parts")
    }

    fn instructions(
        &self,
        request: &Fields<'_>,
        watch: &mut Watch,
    ) -> Result<Option<Draft>, ImportError> {
        let system = names::member(request, "systemInstruction");
        system.map(|system| import::instructions(&system, watch)).transpose()
    }

    fn parameters(&self, profile: &Profile, request: &Fields<'_>) -> String {
        let parameters =
            names::parameters(request, &[profile.format.list, "tools", "systemInstruction"]);
        let layout = request.some("tools").and_then(|tools| ToolLayout::of_request(&tools));
        let Some(layout) = layout else { return parameters };
        let mut out = Object::new();
        copy(&mut out, &parameters, &[]);
        out.raw("tools", &layout.to_json()).end()
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::<import::Contents>::default()
    }

    fn tools_of<'a>(&self, element: Node<'a>) -> Result<Vec<Node<'a>>, ImportError> {
        Ok(match tools::declarations(&element)? {
            Some(declared) => declared,
            None => vec![element],
        })
    }
}

fn wire(mut params: Params, streaming: bool, _counts: bool) -> (String, Params) {
    request::sign_calls(&mut params);
    let model = params.get("model").and_then(raw::string).unwrap_or_default();
    // The path names it.
    params.remove_model();
    let folder = if model.contains('/') { "" } else { "models/" };
    let verb = match streaming {
        true => "streamGenerateContent?alt=sse",
        false => "generateContent",
    };
    (format!("v1beta/{folder}{}:{verb}", percent_encoded(&model, "-_./")), params)
}

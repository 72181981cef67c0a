//! Anthropic Messages.

mod answer;
mod import;
mod lower;
mod parameters;
mod reply;
mod request;
mod stream;

use tract_compile::Rules;
use tract_core::Draft;
use tract_schema::Dialect;

use crate::api::Api;
use crate::drafts::Watch;
use crate::error::ImportError;
use crate::params::Params;
use crate::profile::{Adapter, AnswerShape, Foreign, Profile, Server};
use crate::raw::Fields;
use crate::reader::Reader;
use crate::turns;

/// The adapter.
struct Anthropic;

/// The default token limit of an answer, which Anthropic requires.
const MAX_TOKENS: u64 = 4096;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &Anthropic,
    title: parameters::TITLE,
    params: "anthropic-params",
    has_conversation: true,
    format: &lower::FORMAT,
    names_model: true,
    limit: &["max_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    rules: |rules| Rules { turns: true, ..rules },
    conversation: |sheet| turns::members(sheet, &request::WORDING),
    set: parameters::set,
    wire: |params, streaming, _| ("v1/messages".to_owned(), params.with("stream", streaming)),
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    refuses_same_names: true,
    foreign: Foreign {
        members: &["tool_calls", "function_call", "tool_call_id"],
        roles: &["tool", "function"],
        blocks: &[
            ("image_url", Dialect::OpenAi),
            ("input_text", Dialect::Responses),
            ("output_text", Dialect::Responses),
            ("input_image", Dialect::Responses),
        ],
    },
    file_paths: &["/messages"],
    batch_member: Some("params"),
    legacy_tools: None,
    end_event: "",
    answer: AnswerShape {
        members: &["content"],
        read: &[
            "id",
            "type",
            "role",
            "model",
            "content",
            "stop_reason",
            "usage.input_tokens",
            "usage.output_tokens",
            "usage.cache_read_input_tokens",
            "usage.cache_creation_input_tokens",
            "usage.cache_creation.ephemeral_5m_input_tokens",
            "usage.cache_creation.ephemeral_1h_input_tokens",
        ],
        repeats_request: false,
    },
    block_types: &[
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "image",
        "document",
        "server_tool_use",
        "container_upload",
        "tool_addition",
    ],
    own_models: Some("claude-"),
    api: Api {
        telemetry_name: "anthropic",
        base_url: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        port: None,
        key_variable: "ANTHROPIC_API_KEY",
        needs_key: true,
        paths: &["/v1/messages", ":rawPredict", ":streamRawPredict"],
        streams_lines: false,
        has_call_ids: true,
        has_background: false,
    },
    server: Server {
        key_header: ("x-api-key", ""),
        headers: &[("anthropic-version", "2023-06-01")],
        demanded: Some(("max_tokens", MAX_TOKENS)),
    },
};

impl Adapter for Anthropic {
    fn instructions(
        &self,
        request: &Fields<'_>,
        watch: &mut Watch,
    ) -> Result<Option<Draft>, ImportError> {
        request.some("system").map(|system| import::instructions(&system, watch)).transpose()
    }

    fn repair_recorded(&self, params: &mut Params) {
        parameters::repair_recorded(params);
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::new(import::Messages)
    }
}

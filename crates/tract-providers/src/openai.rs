//! OpenAI Chat Completions, and APIs compatible with it.

mod answer;
mod import;
mod lower;
mod parameters;
mod reply;
mod stream;

use tract_schema::Dialect;

use crate::api::Api;
use crate::params::Params;
use crate::profile::{Adapter, AnswerShape, Foreign, Profile, Server};
use crate::reader::Reader;

pub(crate) use import::{SAYING, image_at, note_missing};
pub(crate) use lower::image_url;
pub(crate) use stream::provider_error;

/// The adapter.
struct OpenAi;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &OpenAi,
    title: "Chat Completions",
    params: "openai-params",
    has_conversation: true,
    format: &lower::FORMAT,
    names_model: true,
    limit: &["max_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    rules: |rules| rules,
    conversation: |sheet| sheet.messages(lower::message, lower::placeholder_result),
    set: parameters::set,
    wire,
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: true,
    refuses_same_names: false,
    foreign: Foreign {
        members: &["tool_name"],
        roles: &[],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    file_paths: &["/chat/completions"],
    batch_member: None,
    legacy_tools: Some("functions"),
    end_event: "data: [DONE]\n\n",
    answer: AnswerShape {
        members: &["choices"],
        read: &[
            "id",
            "object",
            "model",
            "choices[0].index",
            "choices[0].message",
            "choices[0].finish_reason",
            "usage.prompt_tokens",
            "usage.completion_tokens",
            "usage.total_tokens",
            "usage.prompt_tokens_details.cached_tokens",
            "usage.prompt_tokens_details.cache_write_tokens",
            "usage.completion_tokens_details.reasoning_tokens",
        ],
        repeats_request: false,
    },
    block_types: &[],
    own_models: None,
    api: API,
    server: SERVER,
};

/// OpenAI's HTTP API.
pub(crate) const API: Api = Api {
    telemetry_name: "openai",
    base_url: "https://api.openai.com/v1",
    base_variable: "OPENAI_BASE_URL",
    port: None,
    key_variable: "OPENAI_API_KEY",
    needs_key: true,
    paths: &["/chat/completions"],
    streams_lines: false,
    has_call_ids: true,
    has_background: false,
};

/// The headers of OpenAI's own server.
pub(crate) const SERVER: Server =
    Server { key_header: ("authorization", "Bearer "), headers: &[], demanded: None };

impl Adapter for OpenAi {
    fn settle(&self, params: &mut Params) {
        parameters::settle(params);
    }

    fn repair_recorded(&self, params: &mut Params) {
        parameters::repair_recorded(params);
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::new(import::Messages)
    }
}

fn wire(params: Params, streaming: bool, counts: bool) -> (String, Params) {
    let asks = streaming && counts && params.get("stream_options").is_none();
    let mut params = params.with("stream", streaming);
    if asks {
        params = params.with("stream_options", serde_json::json!({"include_usage": true}));
    }
    ("chat/completions".to_owned(), params)
}

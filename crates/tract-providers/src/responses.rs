//! OpenAI Responses.

mod import;
mod lower;
mod parameters;
mod reply;
mod request;
mod stream;

use tract_compile::Rules;
use tract_schema::Dialect;

use crate::api::Api;
use crate::drafts::Watch;
use crate::error::ImportError;
use crate::openai;
use crate::profile::{Adapter, AnswerShape, Foreign, Profile};
use crate::raw::Fields;
use crate::reader::Reader;

/// The adapter.
struct Responses;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &Responses,
    title: "Responses",
    params: "responses-params",
    has_conversation: false,
    format: &lower::FORMAT,
    names_model: true,
    limit: &["max_output_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    rules: |rules| Rules { anywhere: true, ..rules },
    conversation: request::members,
    set: parameters::set,
    wire: |params, streaming, _| ("responses".to_owned(), params.with("stream", streaming)),
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    refuses_same_names: false,
    foreign: Foreign {
        members: &["tool_calls", "function_call", "tool_call_id"],
        roles: &["tool", "function"],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    file_paths: &["/responses"],
    batch_member: None,
    legacy_tools: None,
    end_event: "",
    answer: AnswerShape {
        members: &["output"],
        read: &[
            "id",
            "object",
            "model",
            "output",
            "status",
            "incomplete_details.reason",
            "usage.input_tokens",
            "usage.output_tokens",
            "usage.total_tokens",
            "usage.input_tokens_details.cached_tokens",
            "usage.input_tokens_details.cache_write_tokens",
            "usage.output_tokens_details.reasoning_tokens",
        ],
        repeats_request: true,
    },
    block_types: &["input_text", "output_text", "input_image", "input_file"],
    own_models: None,
    api: Api { paths: &["/responses"], has_background: true, ..openai::API },
    server: openai::SERVER,
};

impl Adapter for Responses {
    fn recognizes(&self, request: &Fields<'_>) -> bool {
        ["input", "instructions", "previous_response_id"].iter().any(|key| request.has(key))
    }

    fn begin(&self, request: &Fields<'_>, watch: &mut Watch) -> Result<bool, ImportError> {
        import::begin(request, watch)
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::<import::ModelItems<'a>>::default()
    }
}

//! OpenAI Responses.

mod import;
mod lower;
mod parameters;
mod reply;
mod request;
mod stream;

use tract_compile::Rules;
use tract_schema::Dialect;

use crate::adapter::{Adapter, Foreign, Profile, Reader};
use crate::error::ImportError;
use crate::import::Watch;
use crate::raw::Fields;

/// The adapter.
struct Responses;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &Responses,
    title: "Responses",
    params: "responses-params",
    has_conversation: false,
    form: "openai-responses-1",
    system_form: Some("openai-instructions-1"),
    opaque: "openai-responses",
    list: "input",
    system: Some("instructions"),
    names_model: true,
    limit: &["max_output_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    rules: Rules::anywhere,
    conversation: request::members,
    set: parameters::set,
    wire: |params, streaming, _| ("responses".to_owned(), params.with("stream", streaming)),
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    longest_id: Some(64),
    refuses_same_names: false,
    foreign: Foreign {
        members: &["tool_calls", "function_call", "tool_call_id"],
        roles: &["tool", "function"],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    streams_lines: false,
    server: crate::openai::SERVER,
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

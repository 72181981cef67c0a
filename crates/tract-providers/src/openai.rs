//! OpenAI Chat Completions, and APIs compatible with it.

mod import;
mod lower;
mod parameters;
mod reply;
mod stream;

use tract_core::Reply;
use tract_schema::Dialect;

use crate::adapter::{Adapter, Foreign, Members, Profile, Reader, Server};
use crate::error::{FormError, ReplyError};
use crate::params::Params;
use crate::raw::Fields;
use crate::sheet::RequestWriter;

pub(crate) use import::image_at;
pub(crate) use lower::image_url;
pub(crate) use stream::provider_error;

/// The adapter.
pub(crate) struct OpenAi;

static PROFILE: Profile = Profile {
    title: "Chat Completions",
    params: "openai-params",
    has_conversation: true,
    form: "openai-chat-1",
    system_form: None,
    opaque: "openai",
    list: "messages",
    system: None,
    names_model: true,
    limit: &["max_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    set: parameters::set,
    stream: || Box::<stream::Stream>::default(),
    is_shared: true,
    longest_id: Some(40),
    repeats_ids: false,
    refuses_same_names: false,
    foreign: Foreign {
        members: &["tool_name"],
        roles: &[],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    streams_lines: false,
    server: SERVER,
};

/// OpenAI's own server.
pub(crate) const SERVER: Server = Server {
    base: "https://api.openai.com/v1",
    base_variable: "OPENAI_BASE_URL",
    key_variable: "OPENAI_API_KEY",
    key_header: ("authorization", "Bearer "),
    headers: &[],
    is_open: false,
    port: None,
    demanded: None,
};

impl Adapter for OpenAi {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn conversation(&self, sheet: &mut RequestWriter<'_>) -> Result<Members, FormError> {
        Ok(sheet.messages(lower::message, lower::placeholder_result))
    }

    fn settle(&self, params: &mut Params) {
        parameters::settle(params);
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::new(import::Messages)
    }

    fn reply(&self, fields: &Fields<'_>, _place: Option<usize>) -> Result<Reply, ReplyError> {
        reply::reply(fields)
    }

    fn wire(&self, params: Params, streaming: bool, counts: bool) -> (String, Params) {
        let asks = streaming && counts && params.get("stream_options").is_none();
        let params = params.with("stream", streaming);
        let params = if asks {
            params.with("stream_options", serde_json::json!({"include_usage": true}))
        } else {
            params
        };
        ("chat/completions".to_owned(), params)
    }
}

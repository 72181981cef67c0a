//! Ollama's own chat API.

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

/// The adapter.
pub(crate) struct Ollama;

static PROFILE: Profile = Profile {
    title: "Ollama",
    params: "ollama-params",
    has_conversation: false,
    form: "ollama-1",
    system_form: None,
    opaque: "ollama",
    list: "messages",
    system: None,
    names_model: true,
    limit: &["options", "num_predict"],
    parameters: parameters::PARAMETERS,
    options: parameters::OPTIONS,
    set: parameters::set,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    longest_id: None,
    repeats_ids: false,
    refuses_same_names: false,
    // Its own calls are written like those of OpenAI, but for those of old.
    foreign: Foreign {
        members: &["function_call"],
        roles: &["function"],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    streams_lines: true,
    server: Server {
        base: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        key_variable: "OLLAMA_API_KEY",
        key_header: ("authorization", "Bearer "),
        headers: &[],
        is_open: true,
        port: Some(11434),
        demanded: None,
    },
};

impl Adapter for Ollama {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn conversation(&self, sheet: &mut RequestWriter<'_>) -> Result<Members, FormError> {
        Ok(sheet.messages(lower::message, lower::placeholder_result))
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::<import::Messages>::default()
    }

    fn reply(&self, fields: &Fields<'_>, place: Option<usize>) -> Result<Reply, ReplyError> {
        reply::reply(fields, place)
    }

    fn wire(&self, params: Params, streaming: bool, _counts: bool) -> (String, Params) {
        ("api/chat".to_owned(), params.with("stream", streaming))
    }
}

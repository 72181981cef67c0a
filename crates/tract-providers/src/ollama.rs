//! Ollama's own chat API.

mod import;
mod lower;
mod parameters;
mod reply;
mod request;
mod stream;

use serde::Serialize;
use tract_core::Reply;
use tract_schema::Dialect;

use crate::adapter::{Adapter, Foreign, Members, Profile, Reader, Server};
use crate::error::{FormError, ImportError, ReplyError};
use crate::import::Imported;
use crate::params::Params;
use crate::raw::{Fields, Node};
use crate::sheet::RequestWriter;
use crate::stream::Accumulate;

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
        Ok(request::members(sheet))
    }

    fn set(&self, params: &mut Params, key: &str, value: &str) -> bool {
        parameters::set(params, key, value)
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::<import::Messages>::default()
    }

    fn reply(&self, fields: &Fields<'_>, place: Option<usize>) -> Result<Reply, ReplyError> {
        reply::reply(fields, place)
    }

    fn stream(&self) -> Box<dyn Accumulate> {
        Box::<stream::Stream>::default()
    }

    fn wire(&self, params: Params, streaming: bool, _counts: bool) -> (String, Params) {
        ("api/chat".to_owned(), params.with("stream", streaming))
    }
}

/// Takes messages, or a whole request, in Ollama's shape: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what Ollama's shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of messages, or of a whole request, in Ollama's shape. Calls have no ids there,
/// so each gets one from its place, and results are matched by name and order.
///
/// ```
/// use tract_providers::ollama;
/// let imported = ollama::drafts_of(r#"[
///     {"role":"assistant","content":"","tool_calls":[{"function":{"name":"now","arguments":{}}}]},
///     {"role":"tool","tool_name":"now","content":"noon"}]"#)?;
/// assert_eq!(imported.drafts[0].content.calls().next().map(|call| call.id.as_str()), Some("call_0_0"));
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::Ollama, &[])
}

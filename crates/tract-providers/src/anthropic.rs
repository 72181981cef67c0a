//! Anthropic Messages.

mod import;
mod lower;
mod parameters;
mod reply;
mod request;
mod stream;

use std::collections::VecDeque;

use serde::Serialize;
use tract_compile::Rules;
use tract_core::{Draft, Reply};
use tract_schema::Dialect;

use crate::adapter::{Adapter, Foreign, Members, Profile, Reader, Server};
use crate::error::{FormError, ImportError, ReplyError};
use crate::import::{Imported, Watch};
use crate::params::Params;
use crate::raw::{Fields, Node};
use crate::sheet::RequestWriter;
use crate::stream::Accumulate;

/// The adapter.
pub(crate) struct Anthropic;

/// How long an answer may be when the caller does not say; Anthropic demands a limit.
const MAX_TOKENS: u64 = 4096;

static PROFILE: Profile = Profile {
    title: "Anthropic",
    params: "anthropic-params",
    has_conversation: true,
    form: "anthropic-1",
    system_form: Some("anthropic-system-1"),
    opaque: "anthropic",
    list: "messages",
    system: Some("system"),
    names_model: true,
    limit: &["max_tokens"],
    parameters: parameters::PARAMETERS,
    options: &[],
    is_shared: false,
    longest_id: Some(64),
    repeats_ids: true,
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
    streams_lines: false,
    server: Server {
        base: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        key_variable: "ANTHROPIC_API_KEY",
        key_header: ("x-api-key", ""),
        headers: &[("anthropic-version", "2023-06-01")],
        is_open: false,
        port: None,
        demanded: Some(("max_tokens", MAX_TOKENS)),
    },
};

impl Adapter for Anthropic {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn rules(&self, rules: Rules) -> Rules {
        rules.turns()
    }

    fn conversation(&self, sheet: &mut RequestWriter<'_>) -> Result<Members, FormError> {
        Ok(request::members(sheet))
    }

    fn set(&self, params: &mut Params, key: &str, value: &str) -> bool {
        parameters::set(params, key, value)
    }

    fn begin(
        &self,
        request: &Fields<'_>,
        _watch: &mut Watch,
        drafts: &mut VecDeque<Draft>,
    ) -> Result<bool, ImportError> {
        if let Some(system) = request.some("system") {
            drafts.push_back(import::instructions(&system)?);
        }
        Ok(false)
    }

    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::new(import::Messages)
    }

    fn reply(&self, fields: &Fields<'_>, _place: Option<usize>) -> Result<Reply, ReplyError> {
        reply::reply(fields)
    }

    fn stream(&self) -> Box<dyn Accumulate> {
        Box::<stream::Stream>::default()
    }

    fn wire(&self, params: Params, streaming: bool, _counts: bool) -> (String, Params) {
        ("v1/messages".to_owned(), params.with("stream", streaming))
    }
}

/// Takes messages, or a whole request, in Anthropic's shape: anything that serializes.
///
/// # Errors
/// [`ImportError`] naming the place that is not what Anthropic's shape says.
pub fn drafts<T: Serialize + ?Sized>(value: &T) -> Result<Imported, ImportError> {
    drafts_of(&serde_json::to_string(value).map_err(ImportError::Serialize)?)
}

/// Takes the text of messages, or of a whole request, in Anthropic's shape. One draft for the
/// instructions, one for each tool result, one for each rest of a message.
///
/// ```
/// use tract_providers::anthropic;
/// let text = r#"{"system":"Be brief.","messages":[{"role":"user","content":[
///     {"type":"tool_result","tool_use_id":"t1","content":"11 °C"},
///     {"type":"text","text":"And tomorrow?"}]}]}"#;
/// let imported = anthropic::drafts_of(text)?;
/// assert_eq!(imported.drafts.len(), 3);
/// assert!(imported.drafts[2].joins_previous);
/// assert_eq!(imported.anomalies[0].what, "result for \"t1\" answers no call");
/// # Ok::<(), tract_providers::ImportError>(())
/// ```
///
/// # Errors
/// As [`drafts`].
pub fn drafts_of(text: &str) -> Result<Imported, ImportError> {
    crate::import::collect(&Node::root(text), Dialect::Anthropic, &[])
}

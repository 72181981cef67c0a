//! Ollama's own chat API.

mod import;
mod lower;
mod parameters;
mod reply;
mod stream;

use tract_schema::Dialect;

use crate::api::Api;
use crate::profile::{Adapter, AnswerShape, Foreign, Profile, Server};
use crate::reader::Reader;

/// The adapter.
struct Ollama;

pub(crate) static PROFILE: Profile = Profile {
    adapter: &Ollama,
    title: "Ollama",
    params: "ollama-params",
    has_conversation: false,
    format: &lower::FORMAT,
    names_model: true,
    limit: &["options", "num_predict"],
    parameters: parameters::PARAMETERS,
    options: parameters::OPTIONS,
    rules: |rules| rules,
    conversation: |sheet| sheet.messages(lower::message, lower::placeholder_result),
    set: parameters::set,
    wire: |params, streaming, _| ("api/chat".to_owned(), params.with("stream", streaming)),
    reply: reply::reply,
    stream: || Box::<stream::Stream>::default(),
    is_shared: false,
    refuses_same_names: false,
    // Ollama's calls are written like OpenAI's, except for legacy ones.
    foreign: Foreign {
        members: &["function_call"],
        roles: &["function"],
        blocks: &[("tool_use", Dialect::Anthropic), ("tool_result", Dialect::Anthropic)],
    },
    file_paths: &["/api/chat"],
    batch_member: None,
    legacy_tools: None,
    end_event: "",
    answer: AnswerShape {
        members: &["message"],
        read: &["model", "message", "done", "done_reason", "prompt_eval_count", "eval_count"],
        repeats_request: false,
    },
    block_types: &[],
    own_models: None,
    api: Api {
        telemetry_name: "ollama",
        base_url: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        port: Some(11434),
        key_variable: "OLLAMA_API_KEY",
        needs_key: false,
        paths: &["/api/chat"],
        streams_lines: true,
        has_call_ids: false,
        has_background: false,
    },
    server: Server { key_header: ("authorization", "Bearer "), headers: &[], demanded: None },
};

impl Adapter for Ollama {
    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a> {
        Box::<import::Messages>::default()
    }
}

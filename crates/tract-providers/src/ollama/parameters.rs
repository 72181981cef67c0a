//! The parameters of a request.

use crate::members::{get, list, member, schema_of};
use crate::params::Params;

/// The members of an Ollama request.
pub(crate) const PARAMETERS: &[&str] = &[
    "format",
    "keep_alive",
    "logprobs",
    "messages",
    "model",
    "options",
    "stream",
    "think",
    "tools",
    "top_logprobs",
];

/// Parameters that Ollama expects within `options`.
pub(crate) const OPTIONS: &[&str] = &[
    "embedding_only",
    "f16_kv",
    "frequency_penalty",
    "logits_all",
    "low_vram",
    "main_gpu",
    "min_p",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_keep",
    "num_predict",
    "num_thread",
    "numa",
    "penalize_newline",
    "presence_penalty",
    "repeat_last_n",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "tfs_z",
    "top_k",
    "top_p",
    "typical_p",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

/// Sets a parameter whose name or shape differs from Chat Completions.
pub(crate) fn set(params: &mut Params, key: &str, value: &str) -> bool {
    match key {
        "stop" | "stop_sequences" => member(params, "options", "stop", &list(value)),
        "response_format" => {
            let format = match schema_of(value) {
                Some(schema) => schema.to_owned(),
                None if get(value, "type") == Some("\"json_object\"") => "\"json\"".to_owned(),
                None => return true,
            };
            params.set("format", format);
        }
        "reasoning_effort" => {
            let think = match value {
                "\"none\"" => "false",
                "\"minimal\"" | "\"low\"" => "\"low\"",
                "\"high\"" | "\"xhigh\"" | "\"max\"" => "\"high\"",
                _ => value,
            };
            params.set("think", think.to_owned());
        }
        key if OPTIONS.contains(&key) => member(params, "options", key, value),
        _ => return false,
    }
    true
}

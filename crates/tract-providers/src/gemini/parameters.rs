//! The parameters of a request; most of them are members of `generationConfig`.

use crate::members::{Choice, copy, get, list, member, schema_of, tool_choice};
use crate::params::Params;
use crate::raw;

/// The members of a request.
pub(crate) const PARAMETERS: &[&str] = &[
    "cachedContent",
    "contents",
    "generationConfig",
    "safetySettings",
    "systemInstruction",
    "toolConfig",
    "tools",
];

/// The members of `generationConfig`.
pub(crate) const OPTIONS: &[&str] = &[
    "audioTimestamp",
    "audioTranscriptionConfig",
    "candidateCount",
    "enableAffectiveDialog",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "modelSelectionConfig",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "routingConfig",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
    "translationConfig",
];

const CONFIG: &str = "generationConfig";

/// Sets a parameter whose name or shape differs from Chat Completions.
pub(crate) fn set(params: &mut Params, key: &str, value: &str) -> bool {
    let name = match key {
        "top_p" => "topP",
        "top_k" => "topK",
        "n" => "candidateCount",
        "presence_penalty" => "presencePenalty",
        "frequency_penalty" => "frequencyPenalty",
        // `logprobs` is a flag in Chat Completions. Gemini's `logprobs` is the number that Chat
        // Completions calls `top_logprobs`.
        "logprobs" if matches!(value, "true" | "false") => "responseLogprobs",
        "top_logprobs" => "logprobs",
        "stop" | "stop_sequences" => {
            member(params, CONFIG, "stopSequences", &list(value));
            return true;
        }
        "reasoning_effort" => return reasoning(params, value),
        "response_format" => return format(params, value),
        "tool_choice" => return choice(params, value),
        key if OPTIONS.contains(&key) => key,
        _ => return false,
    };
    member(params, CONFIG, name, value);
    true
}

fn reasoning(params: &mut Params, effort: &str) -> bool {
    let (key, value) = match effort {
        "\"none\"" => ("thinkingBudget", "0".to_owned()),
        "\"max\"" => ("thinkingLevel", "\"XHIGH\"".to_owned()),
        effort => ("thinkingLevel", effort.to_uppercase()),
    };
    think(params, key, &value);
    true
}

/// Sets the amount of thinking; the rest of `thinkingConfig` is unchanged.
fn think(params: &mut Params, key: &str, value: &str) {
    let config = params.get(CONFIG).unwrap_or("{}").to_owned();
    let given = get(&config, "thinkingConfig").unwrap_or("{}");
    let mut out = raw::Object::new();
    copy(&mut out, given, &["thinkingLevel", "thinkingBudget"]);
    out.raw(key, value);
    member(params, CONFIG, "thinkingConfig", &out.end());
}

fn format(params: &mut Params, format: &str) -> bool {
    match (get(format, "type"), schema_of(format)) {
        (Some("\"json_object\""), _) => {}
        (_, Some(schema)) => member(params, CONFIG, "responseJsonSchema", schema),
        (_, None) => return get(format, "type") == Some("\"text\""),
    }
    member(params, CONFIG, "responseMimeType", "\"application/json\"");
    true
}

fn choice(params: &mut Params, choice: &str) -> bool {
    let chosen = match tool_choice(params, choice) {
        Choice::Word("auto") => raw::object(&[("mode", "\"AUTO\"")]),
        Choice::Word("required") => raw::object(&[("mode", "\"ANY\"")]),
        Choice::Word("none") => raw::object(&[("mode", "\"NONE\"")]),
        Choice::Tool(name) => {
            let names = raw::array([name]);
            raw::object(&[("mode", "\"ANY\""), ("allowedFunctionNames", &names)])
        }
        Choice::Word(_) | Choice::Other => return false,
    };
    member(params, "toolConfig", "functionCallingConfig", &chosen);
    true
}

/// Gemini 2.5 expects a number of tokens instead of a level.
pub(crate) fn settle(params: &mut Params) {
    let model = params.get("model").and_then(raw::string).unwrap_or_default();
    if !model.rsplit('/').next().is_some_and(|name| name.starts_with("gemini-2")) {
        return;
    }
    let config = params.get(CONFIG).unwrap_or("{}").to_owned();
    let level = get(&config, "thinkingConfig").and_then(|config| get(config, "thinkingLevel"));
    let budget = match level {
        Some("\"MINIMAL\"") => "512",
        Some("\"LOW\"") => "1024",
        Some("\"MEDIUM\"") => "8192",
        Some("\"HIGH\"" | "\"XHIGH\"") => "24576",
        _ => return,
    };
    think(params, "thinkingBudget", budget);
}

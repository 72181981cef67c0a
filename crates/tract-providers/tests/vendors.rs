//! The request bodies are what the vendors' own SDKs publish as the types of requests.

#![allow(clippy::unwrap_used)] // a test that panics has failed

mod support;

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use support::{cassettes, compiled, member, of, trajectories};
use tract_compile::Compiled;
use tract_core::{Draft, ImageSource, JsonText, ModelRequest, Part, ToolSchema};
use tract_providers::{
    Dialect, Form, FormOptions, Params, ProviderConversation, compile_form, params_of,
};

/// The Python with the SDKs: `TRACT_VENDORS` names it, and `.ci/run` sets it. `None` leaves a test
/// out, and says so; never in CI.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("TRACT_VENDORS").map(PathBuf::from);
    if python.is_none() {
        assert!(std::env::var_os("CI").is_none(), "set TRACT_VENDORS, as .ci/run does");
        println!("left out: the vendors' types; TRACT_VENDORS names a Python with their SDKs");
    }
    python
}

/// What the types do not allow of one body.
#[derive(Deserialize)]
struct Validation {
    name: String,
    errors: Vec<String>,
}

/// Bodies on their way to the SDKs' types.
struct Bodies {
    path: PathBuf,
    file: BufWriter<File>,
    count: usize,
}

impl Bodies {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bodies-{name}.jsonl"));
        Self { file: BufWriter::new(File::create(&path).unwrap()), path, count: 0 }
    }

    fn push(&mut self, name: &str, dialect: Dialect, body: &str) {
        let name = serde_json::to_string(name).unwrap();
        let body = body.replace(['\n', '\r'], " "); // between tokens: a string has none
        writeln!(self.file, r#"{{"name":{name},"dialect":"{dialect}","body":{body}}}"#).unwrap();
        self.count += 1;
    }

    fn check(mut self, python: &Path) -> Vec<Validation> {
        self.file.flush().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/bodies.py");
        let mut checker = Command::new(python)
            .arg(script)
            .stdin(File::open(&self.path).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(checker.stdout.take().unwrap()).lines();
        let verdicts: Vec<Validation> =
            lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert!(checker.wait().unwrap().success());
        assert_eq!(verdicts.len(), self.count);
        std::fs::remove_file(self.path).unwrap();
        verdicts
    }
}

/// What the caller adds to a compiled request that a provider demands.
fn complete(params: Params, dialect: Dialect) -> String {
    let params = match params.get("model") {
        Some(_) => params,
        None => params.with("model", "m"),
    };
    match (dialect, params.get("max_tokens")) {
        (Dialect::Anthropic, None) => params.with("max_tokens", 9).to_json(),
        _ => params.to_json(),
    }
}

/// All conversations that there are: where they come from, and their text.
fn conversations() -> Vec<(String, String)> {
    let recorded = ["openai", "openai_compat", "anthropic", "anthropic_compat", "ollama"];
    let exchanges = recorded.into_iter().flat_map(cassettes);
    trajectories().into_iter().chain(exchanges).collect()
}

/// What the vendors' types do not allow, but for what was in the recording that goes back to its
/// provider: that is sent as it was accepted, also where it is another vendor's behind the same
/// API.
fn refused(verdicts: &[Validation]) -> Vec<String> {
    let recorded: HashSet<(&str, &String)> = verdicts
        .iter()
        .filter_map(|report| Some((report.name.strip_suffix(RECORDED)?, &report.errors)))
        .flat_map(|(name, errors)| errors.iter().map(move |error| (name, error)))
        .collect();
    let mut refused = Vec::new();
    for report in verdicts {
        let Some((name, form)) = report.name.rsplit_once(" for ") else { continue };
        let errors = report.errors.iter().filter(|error| !recorded.contains(&(name, error)));
        refused.extend(errors.map(|error| format!("{name} for {form}: {error}")));
    }
    refused
}

/// Ends the name of a body that is the recording itself.
const RECORDED: &str = " as recorded";

/// Adds what a context becomes for every provider, with and without strict tools.
fn push_all(bodies: &mut Bodies, name: &str, context: &Compiled) {
    for dialect in Dialect::ALL {
        let has_tools = !context.tools().is_empty();
        for strict in [false, true].into_iter().filter(|strict| has_tools || !strict) {
            let options = FormOptions { strict_tools: strict, ..FormOptions::default() };
            let params = compile_form(context, Form::Params(dialect), &options).unwrap();
            let name = format!("{name} for {dialect}, strict {strict}");
            bodies.push(&name, dialect, &complete(params, dialect));
        }
    }
}

#[test]
fn every_conversation_becomes_what_each_vendor_publishes() {
    let Some(python) = python() else { return };
    let mut bodies = Bodies::new("conversations");
    for (name, text) in conversations() {
        let conversation = ProviderConversation::read(&text, None).unwrap();
        push_all(&mut bodies, &name, &of(&conversation.imported));
        let recorded = match member(&text, "request") {
            Some(request) => request.to_owned(),
            None => {
                let messages = member(&text, "messages").unwrap();
                let tools = member(&text, "tools").filter(|raw| *raw != "null").unwrap_or("[]");
                format!(r#"{{"model":"m","messages":{messages},"tools":{tools}}}"#)
            }
        };
        bodies.push(&format!("{name}{RECORDED}"), conversation.dialect, &recorded);
    }
    let verdicts = bodies.check(&python);
    let mut refused = refused(&verdicts);
    refused.retain(|line| !is_extension(line));
    println!("{} bodies, {} refused", verdicts.len(), refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Whether a line is about a member that another vendor behind the same API writes in an answer and
/// reads in the next request, such as the signature of a thought. The types are those of OpenAI
/// alone.
fn is_extension(line: &str) -> bool {
    const MEMBERS: [&str; 6] = [
        "channel",
        "extra_content",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thought_signature",
    ];
    let unknown = line.strip_suffix(": ChatCompletionAssistantMessageParam has no such member");
    let member = unknown.and_then(|place| place.rsplit_once('.'));
    member.is_some_and(|(_, member)| MEMBERS.contains(&member))
}

/// A conversation that no provider has seen, with everything that one can hold.
fn own_conversation() -> Compiled {
    let image = |source| Part::Image { media_type: Some("image/png".into()), source };
    let drafts = [
        Draft::system("Be brief."),
        Draft::user("What is it?")
            .part(image(ImageSource::Base64("AAAA".into())))
            .part(image(ImageSource::Url("https://example.org/a.png".into()))),
        Draft::reasoning("A clock, or a compass."),
        Draft::assistant("Looking.").call("c1", "now", r#"{"zone":"UTC"}"#).call("c 2", "now", ""),
        Draft::tool_result("c1", "noon").tool_name("now"),
        Draft::tool_result("c 2", "no clock").tool_name("now").is_error(true),
        Draft::system("Be briefer."),
        Draft::assistant("").call("c3", "no such", "[1]"),
        Draft::user("Well?"),
        Draft::assistant("Noon."),
    ];
    let tools = [
        r#"{"name":"now","description":"The time.","inputSchema":{"type":"object","properties":{"zone":{"type":"string"}}},"annotations":{},"outputSchema":{"type":"object"}}"#,
        r#"{"type":"function","function":{"name":"nested","parameters":{"type":"object"},"strict":true}}"#,
        r#"{"type":"function","name":"flat","parameters":{"type":"object"},"strict":true}"#,
        r#"{"name":"an.anthropic","input_schema":{"type":"object"},"input_examples":[{}],"cache_control":{"type":"ephemeral"}}"#,
    ];
    let tools = tools.map(|tool| ToolSchema::parse(tool).unwrap());
    compiled(&drafts, Some(&tools))
}

#[test]
fn random_conversations_become_valid_requests_of_each_vendor() {
    let Some(python) = python() else { return };
    let mut bodies = Bodies::new("own");
    push_all(&mut bodies, "of our own", &own_conversation());
    let choice = r#"{"type":"function","function":{"name":"now"}}"#;
    let format = r#"{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}"#;
    // In the words of Chat Completions, as callers say them. Temperature is not among them:
    // Anthropic's older models take it, and its types have it no longer.
    for (key, value) in [
        ("max_tokens", "7"),
        ("max_completion_tokens", "7"),
        ("seed", "7"),
        ("stop", "\"x\""),
        ("stop", r#"["x","y"]"#),
        ("tool_choice", "\"auto\""),
        ("tool_choice", "\"required\""),
        ("tool_choice", "\"none\""),
        ("tool_choice", choice),
        ("parallel_tool_calls", "false"),
        ("parallel_tool_calls", "true"),
        ("reasoning_effort", "\"high\""),
        ("response_format", r#"{"type":"json_object"}"#),
        ("response_format", format),
        ("verbosity", "\"low\""),
        ("user", "\"u\""),
        ("metadata", r#"{"a":"b"}"#),
        ("logprobs", "true"),
        ("top_logprobs", "2"),
        ("presence_penalty", "0.5"),
        ("frequency_penalty", "0.5"),
        ("store", "false"),
        ("service_tier", "\"auto\""),
    ] {
        let context = own_conversation();
        let tools: Vec<_> = context.tools().to_vec();
        let parameters = JsonText::new(&format!(r#"{{"{key}":{value}}}"#)).unwrap();
        let request = ModelRequest {
            tools: tools.into(),
            parameters: Some(parameters),
            ..ModelRequest::new(vec![context.messages().next().unwrap().clone()])
        };
        for dialect in Dialect::ALL {
            let params = params_of(&request, dialect, &FormOptions::default()).unwrap();
            let name = format!("{key} {value} for {dialect}");
            bodies.push(&name, dialect, &complete(params, dialect));
        }
    }
    let refused = refused(&bodies.check(&python));
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn the_types_refuse_what_is_wrong() {
    let Some(python) = python() else { return };
    let mut bodies = Bodies::new("wrong");
    for (dialect, body) in [
        (Dialect::OpenAi, r#"{"model":"m","messages":[{"role":"user","content":"x","foo":1}]}"#),
        (Dialect::OpenAi, r#"{"messages":[]}"#),
        (Dialect::Responses, r#"{"model":"m","input":[{"type":"function_call","name":"n"}]}"#),
        (Dialect::Anthropic, r#"{"model":"m","max_tokens":1,"messages":[{"role":"tool"}]}"#),
        (Dialect::Anthropic, r#"{"model":"m","max_tokens":"1","messages":[]}"#),
        (Dialect::Ollama, r#"{"model":"m","messages":[{"role":"user","images":"x"}]}"#),
    ] {
        bodies.push("wrong", dialect, body);
    }
    for (place, report) in bodies.check(&python).iter().enumerate() {
        assert!(!report.errors.is_empty(), "{place}");
    }
}

//! Recorded answers, and what the vendors' own SDKs made of them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tract_core::{Part, Reply, ReplyDelta};
use tract_providers::stream::{Assembler, StreamError};
use tract_providers::{Dialect, Params, RequestForms};
use tract_testkit::data;

/// One recorded exchange that succeeded.
#[derive(Deserialize)]
pub(crate) struct Exchange {
    #[serde(skip)]
    pub(crate) file: String,
    #[serde(skip)]
    pub(crate) provider: String,
    status: u16,
    #[serde(rename = "response_kind")]
    pub(crate) kind: String,
    response: Box<serde_json::value::RawValue>,
}

impl Exchange {
    pub(crate) fn dialect(&self) -> Dialect {
        match self.provider.as_str() {
            "openai" | "openai_compat" => Dialect::OpenAi,
            "anthropic" | "anthropic_compat" => Dialect::Anthropic,
            "responses" => Dialect::Responses,
            "ollama" => Dialect::Ollama,
            other => panic!("unknown provider {other}"),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.kind != "json"
    }

    /// The body as it went over the wire.
    pub(crate) fn body(&self) -> String {
        if self.is_stream() {
            serde_json::from_str(self.response.get()).unwrap()
        } else {
            self.response.get().to_owned()
        }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self.kind.as_str() {
            "json" => "application/json",
            "sse" => "text/event-stream; charset=utf-8",
            "ndjson" => "application/x-ndjson",
            other => panic!("unknown kind {other}"),
        }
    }

    /// Where the body can be cut between two events.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let (body, end) = (self.body(), if self.kind == "ndjson" { "\n" } else { "\n\n" });
        body.match_indices(end).map(|(at, end)| at + end.len()).collect()
    }
}

/// The recorded answers with status 200: those of the repository, and all others where they are.
pub(crate) fn exchanges() -> Vec<Exchange> {
    let (folder, all) = data::find("cassettes");
    let mut found = Vec::new();
    for folder in all.then_some(folder).into_iter().chain([data::bundled("cassettes")]) {
        for provider in folders(&folder) {
            for (stem, text) in data::texts(&provider, "json") {
                let mut exchange: Exchange = serde_json::from_str(&text).unwrap();
                exchange.provider = provider.file_name().unwrap().to_string_lossy().into_owned();
                exchange.file = format!("{}/{stem}", exchange.provider);
                if exchange.status == 200 {
                    found.push(exchange);
                }
            }
        }
    }
    found
}

fn folders(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// What an SDK made of an answer.
#[derive(Deserialize)]
pub(crate) struct Golden {
    file: String,
    sha256: String,
    #[serde(default)]
    pub(crate) failed: bool,
    golden: Option<Value>,
}

pub(crate) fn goldens() -> HashMap<String, Golden> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/replies.jsonl");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Golden>(line).unwrap());
    lines.map(|golden| (golden.file.clone(), golden)).collect()
}

impl Golden {
    /// Compares a reply with what the SDK made of the same bytes.
    pub(crate) fn check(&self, reply: &Reply, dialect: Dialect) -> Result<(), String> {
        let found = summary(reply, dialect);
        if let Some(golden) = self.golden.as_ref().filter(|golden| **golden != found) {
            return Err(format!("{}: expected {golden}, found {found}", self.file));
        }
        let canonical =
            tract_core::json::canonical(&found.to_string(), tract_core::json::Escapes::Raw)
                .unwrap();
        let hash = sha256(canonical.as_bytes());
        if hash.starts_with(&self.sha256) {
            Ok(())
        } else {
            Err(format!("{}: another than the SDK's: {canonical}", self.file))
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All text of a reply, with nothing between its parts.
fn text_of(reply: &Reply) -> String {
    let texts = reply.content.parts().iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// What `replies.py` compares.
fn summary(reply: &Reply, dialect: Dialect) -> Value {
    let canonical =
        |text: &str| tract_core::json::canonical(text, tract_core::json::Escapes::Raw).unwrap();
    let calls: Vec<Value> = reply
        .calls()
        .map(|call| match dialect {
            Dialect::OpenAi | Dialect::Responses => json!([call.id, call.name, call.arguments]),
            Dialect::Anthropic => json!([call.id, call.name, canonical(&call.arguments)]),
            Dialect::Ollama | Dialect::Gemini => {
                json!([null, call.name, canonical(&call.arguments)])
            }
        })
        .collect();
    let usage = reply.usage.unwrap_or_default();
    json!({
        "text": text_of(reply), "calls": calls,
        "stop": reply.stop_reason.as_ref().map(|reason| reason.as_str()),
        "input": usage.input_tokens, "output": usage.output_tokens,
        "cached": usage.cached_tokens, "reasoning": usage.reasoning_tokens,
        "id": reply.id, "model": reply.model,
    })
}

/// A request that says nothing, for its answer to be read by.
pub(crate) fn params(dialect: Dialect) -> Params {
    let empty = super::compiled(&[], None);
    empty.to_params(dialect).unwrap()
}

/// Reads a stream in chunks that end at these places.
pub(crate) fn assemble(
    params: &Params,
    body: &[u8],
    cuts: impl IntoIterator<Item = usize>,
) -> (StreamedReply, Result<Reply, StreamError>, Assembler) {
    let mut assembler = params.assembler().unwrap();
    let mut streamed = StreamedReply::default();
    let mut from = 0;
    for to in cuts.into_iter().chain([body.len()]) {
        if let Err(error) = assembler.push(&body[from..to], &mut |piece| streamed.hear(piece)) {
            return (streamed, Err(error), assembler);
        }
        from = to;
    }
    let reply = assembler.end().map(|whole| params.reply(&whole).unwrap());
    (streamed, reply, assembler)
}

/// Puts pieces together: text, reasoning, and the calls' names and arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamedReply {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<(String, String)>,
}

impl StreamedReply {
    pub(crate) fn hear(&mut self, piece: ReplyDelta) {
        match piece {
            ReplyDelta::Text(text) => self.text.push_str(&text),
            ReplyDelta::Reasoning(text) => self.reasoning.push_str(&text),
            ReplyDelta::Call { index, name } => {
                assert_eq!(index, self.calls.len(), "calls begin in order");
                self.calls.push((name, String::new()));
            }
            ReplyDelta::Arguments { index, text } => self.calls[index].1.push_str(&text),
            other => panic!("unknown piece {other:?}"),
        }
    }

    /// Whether the pieces are the reply.
    #[track_caller]
    pub(crate) fn check(&self, reply: &Reply, file: &str) {
        assert_eq!(self.text, text_of(reply), "{file}");
        let names: Vec<&str> = reply.calls().map(|call| call.name.as_str()).collect();
        let streamed: Vec<&str> = self.calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(streamed, names, "{file}");
        for ((_, streamed), call) in self.calls.iter().zip(reply.calls()) {
            // A call without arguments streams none.
            let streamed = if streamed.is_empty() { "{}" } else { streamed };
            let sent = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            assert_eq!(streamed.trim(), sent.trim(), "{file}");
        }
    }
}

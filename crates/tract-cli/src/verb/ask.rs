//! `tract chat` and `tract generate`

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use clap::Args;
use serde_json::json;
use tract::engine::OnPiece;
use tract::forms::{Dialect, api_of};
use tract::models::HttpModel;
use tract::{
    CancellationToken, ChatModel, ChatOptions, ChatReply, Commit, Draft, JsonText, ReplyDelta,
    Tract,
};

use super::cat;
use crate::commit_args::object;
use crate::context::Context;
use crate::definitions;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::out::Output;
use crate::render::{number, short};
use crate::runtime::{self, on_interrupt};
use crate::style::{DIM, Styled};

/// Returns the variables that a client reads, for the help.
fn variables() -> String {
    let apis = Dialect::ALL.map(api_of);
    let mut names: Vec<&str> = apis.iter().map(|api| api.key_variable).collect();
    names.extend(apis.iter().map(|api| api.base_variable));
    // Two of them share a server.
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    format!("Keys and base URLs come from the environment: {}.", names.join(", "))
}

/// Ask a model a question and record both sides.
///
/// Prints the answer as it arrives. If interrupted, the partial answer is logged but left out of
/// the context.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract chat 'Do I need a coat in Paris?' --model openai/gpt-5.5
  tract chat 'Hi' --model openai/local --base-url http://127.0.0.1:8080/v1
  echo 'And in Lyon?' | tract chat --model anthropic/claude-opus-4-7 --set temperature=0.2

".to_owned() + &variables())]
pub(crate) struct Chat {
    /// The question; standard input when absent or `-`.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    #[command(flatten)]
    model_args: ModelArgs,
}

/// Let a model continue from here and record its answer.
///
/// Use it after tool results, or to ask again after an interrupted answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract generate --model openai/gpt-5.5
  tract generate --model ollama/llama3 --set temperature=0")]
pub(crate) struct Generate {
    #[command(flatten)]
    model_args: ModelArgs,
}

/// The model that is asked.
#[derive(Debug, Args)]
pub(super) struct Model {
    #[arg(long, value_name = "PROVIDER/NAME", env = "TRACT_MODEL", hide_env_values = true)]
    #[arg(help = format!("The model: {}", input::model_names()))]
    model: String,
    /// Base URL of an API-compatible server.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Set a parameter, such as temperature or max_tokens; may be given several times.
    #[arg(long, value_name = "KEY=JSON", value_parser = input::key_value)]
    pub(super) set: Vec<(String, JsonText)>,
}

impl Model {
    /// Passes the flags that select a model, with their values, to a function.
    pub(super) fn flags(&self, mut add: impl FnMut(&str, &str)) {
        add("--model", &self.model);
        if let Some(url) = &self.base_url {
            add("--base-url", &without_query(url));
        }
        for (key, value) in &self.set {
            add("--set", &format!("{key}={}", value.as_str()));
        }
    }

    /// Makes its client.
    pub(super) fn client(&self) -> Outcome<HttpModel> {
        client(&self.model, self.base_url.as_deref())
    }
}

/// Returns a URL for the terminal, without its query, which may contain a key.
pub(super) fn without_query(url: &str) -> String {
    match url.split_once('?') {
        Some((before, _)) => format!("{before}?QUERY"),
        None => url.to_owned(),
    }
}

/// Makes the client of a model.
pub(super) fn client(model: &str, base_url: Option<&str>) -> Outcome<HttpModel> {
    let usage = |error: tract::ModelError| Failure::usage(error.to_string()).notes(error.notes());
    let mut builder = HttpModel::builder(model).map_err(usage)?;
    if let Some(url) = base_url {
        builder = builder.base_url(url);
    }
    builder.from_env().build().map_err(usage)
}

/// Who is asked, and how.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    model: Model,
    /// Send these tools with this request only: a file with a JSON list of schemas.
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Print the answer only when it is complete.
    #[arg(long)]
    no_stream: bool,
    /// Do not store the raw response.
    #[arg(long)]
    no_raw: bool,
}

pub(crate) async fn chat(context: &mut Context<'_>, chat: Chat) -> Outcome<()> {
    let text = input::text_or_stdin(chat.text)?;
    if text.trim().is_empty() {
        return Err(empty_question("`tract generate` asks without a new question"));
    }
    ask(context, chat.model_args, Some(Draft::user(text))).await
}

pub(crate) async fn generate(context: &mut Context<'_>, generate: Generate) -> Outcome<()> {
    ask(context, generate.model_args, None).await
}

async fn ask(
    context: &mut Context<'_>,
    model_args: ModelArgs,
    question: Option<Draft>,
) -> Outcome<()> {
    // Sockets and timers run on a separate thread; this one waits and writes.
    let runtime = runtime::threads(1)?;
    let model = Arc::new(model_args.model.client()?);
    let (cancellation, pieces, options) = options(&model_args, &runtime)?;
    let tract = context.open().await?;
    let tract = context.summarized_by(tract, Arc::clone(&model) as Arc<dyn ChatModel>);
    let work = runtime.spawn({
        let tract = tract.clone();
        async move {
            // Dropping the options closes the channel of pieces, which ends the printing.
            match question {
                Some(question) => tract.chat_with(&*model, question, &options).await,
                None => tract.generate_with(&*model, &options).await,
            }
        }
    });
    let mut printed = PrintState::default();
    for piece in pieces {
        printed.piece(context.out, &piece)?;
    }
    let answered = work
        .await
        .map_err(|error| Failure::no("runtime", format!("the request failed: {error}")))?;
    let interrupted = cancellation.is_cancelled();
    match answered {
        Ok(answer) => printed.end(context.out, &tract, &answer),
        Err(error) => {
            printed.text.end_line(context.out)?;
            let failure = Failure::from(error);
            Err(if interrupted { failure.interrupted() } else { failure })
        }
    }
}

/// Error returned for a question or task without text, before anything is recorded or sent.
pub(super) fn empty_question(note: &str) -> Failure {
    Failure::usage("nothing to ask: the text is empty").note(note)
}

type Set = (CancellationToken, Receiver<ReplyDelta>, ChatOptions);

fn options(model_args: &ModelArgs, runtime: &tokio::runtime::Runtime) -> Outcome<Set> {
    let cancellation = CancellationToken::new();
    let (sender, pieces) = mpsc::channel();
    let on_piece: OnPiece = Arc::new(move |piece| {
        // If the printer is gone, it has already canceled the request.
        let _ = sender.send(piece.clone());
    });
    let tools = model_args.tools.as_deref();
    let options = ChatOptions {
        tools: tools.map(definitions::read_to_send).transpose()?,
        parameters: object(&model_args.model.set)?,
        on_piece: (!model_args.no_stream).then_some(on_piece),
        cancellation: cancellation.clone(),
        discard_raw: model_args.no_raw,
    };
    stop_on_interrupt(runtime, &cancellation);
    Ok((cancellation, pieces, options))
}

/// Cancels on an interrupt; a second one ends the process at once.
pub(super) fn stop_on_interrupt(
    runtime: &tokio::runtime::Runtime,
    cancellation: &CancellationToken,
) {
    let token = cancellation.clone();
    runtime.spawn(on_interrupt(move || token.cancel()));
}

/// Writes the pieces of a text to stdout as they arrive.
#[derive(Default)]
pub(super) struct PieceWriter {
    /// Whether stdout has an incomplete line.
    open: bool,
}

impl PieceWriter {
    pub(super) fn piece(&mut self, out: &mut Output, text: &str) -> Outcome<()> {
        out.write(&escape::block(text))?;
        if let Some(last) = text.chars().last() {
            self.open = last != '\n';
        }
        out.flush()
    }

    /// Ends an incomplete line.
    pub(super) fn end_line(&mut self, out: &mut Output) -> Outcome<()> {
        if std::mem::take(&mut self.open) {
            out.write("\n")?;
            return out.flush();
        }
        Ok(())
    }
}

/// The part of an answer that was printed.
#[derive(Default)]
struct PrintState {
    text: PieceWriter,
    any: bool,
}

impl PrintState {
    fn piece(&mut self, out: &mut Output, piece: &ReplyDelta) -> Outcome<()> {
        self.any = true;
        if out.is_json() {
            let line = match piece {
                ReplyDelta::Text(text) => json!({ "piece": "text", "text": text }),
                ReplyDelta::Reasoning(text) => json!({ "piece": "reasoning", "text": text }),
                ReplyDelta::Call { index, name } => {
                    json!({ "piece": "call", "index": index, "name": name })
                }
                ReplyDelta::Arguments { index, text } => {
                    json!({ "piece": "arguments", "index": index, "text": text })
                }
                _ => return Ok(()),
            };
            out.json(&line)?;
            return out.flush();
        }
        match piece {
            ReplyDelta::Text(text) => self.text.piece(out, text),
            // Thinking is not part of the answer.
            ReplyDelta::Reasoning(text) => {
                let _ = write!(std::io::stderr(), "{}", escape::block(text));
                Ok(())
            }
            ReplyDelta::Call { name, .. } => {
                self.text.end_line(out)?;
                self.text.piece(out, &format!("call {name} "))
            }
            ReplyDelta::Arguments { text, .. } => self.text.piece(out, text),
            _ => Ok(()),
        }
    }

    fn end(&mut self, out: &mut Output, tract: &Tract, answer: &ChatReply) -> Outcome<()> {
        if !self.any && !out.is_json() {
            self.text.piece(out, &answer.text())?;
            for (index, call) in answer.calls().enumerate() {
                self.piece(out, &ReplyDelta::Call { index, name: call.name.clone() })?;
                self.text.piece(out, &call.arguments)?;
            }
        }
        self.text.end_line(out)?;
        let reply = &answer.reply;
        if out.is_json() {
            let usage = reply.usage.map(|usage| {
                json!({
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                })
            });
            let mut line = json!({
                "sent": answer.sent.as_ref().map(Commit::id),
                "commit": answer.commit.id(),
                "text": answer.text(),
                "tool_calls": answer.calls().map(cat::call).collect::<Vec<_>>(),
                "model": reply.model,
                "stop_reason": reply.stop_reason.as_ref().map(|reason| reason.as_str()),
                "usage": usage,
            });
            if let (Some(members), false) = (line.as_object_mut(), reply.other_choices.is_empty()) {
                members.insert("other_choices".to_owned(), json!(reply.other_choices));
            }
            return out.json(&line);
        }
        let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), number);
        let usage = reply.usage.unwrap_or_default();
        let stop = reply.stop_reason.as_ref().map_or("no reason", |reason| reason.as_str());
        let summary = format!(
            "{} · {} · {} + {} tokens · {}",
            escape::line(tract.branch_name()),
            escape::line(reply.model.as_deref().unwrap_or("a model")),
            tokens(usage.input_tokens),
            tokens(usage.output_tokens),
            escape::line(stop),
        );
        let commit = short(answer.commit.id());
        out.say(format_args!("{commit} {}", Styled(DIM, summary)));
        let others = reply.other_choices.len();
        if others > 0 {
            let plural = if others == 1 { "answer is" } else { "answers are" };
            out.say(format_args!(
                "{others} more {plural} in its metadata, not in the context: tract show {commit}"
            ));
        }
        Ok(())
    }
}

//! `tract compile`

use clap::Args;
use tract::compile::Pairing;
use tract::forms::{Form, FormOptions};
use tract::{JsonText, Params, Tract};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::render::{self, count};
use crate::style::{DIM, Styled, WARN};

/// Write the request that a provider accepts.
///
/// The body goes to stdout, diagnostics to stderr.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract compile --to anthropic-params --set model=claude-opus-4-7 --set max_tokens=1024
  tract compile main~10 --to openai-params > request.json
  tract compile --at 2026-01-31T09:30:00Z    as it was then: messages, priorities, tools
  tract compile --to messages                neutral, with the ids of the commits")]
pub(crate) struct Compile {
    /// Compile this revision.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: String,
    #[arg(long, value_name = "FORM", default_value = "messages", value_parser = form)]
    #[arg(help = format!("The request format: {}", Form::names()))]
    to: Form,
    /// Compile the branch as it was at this time, at the end of this day, or this long ago.
    #[arg(long, value_name = "TIME", value_parser = input::until)]
    at: Option<i64>,
    /// How to treat calls without results and results without calls.
    #[arg(long, value_enum)]
    pairing: Option<PairingWord>,
    /// Set a key of the body; may be given several times.
    #[arg(long, value_name = "KEY=JSON", value_parser = input::key_value)]
    set: Vec<(String, JsonText)>,
}

/// Reads the name of a form.
///
/// # Errors
/// The list of names, which clap prints.
pub(super) fn form(name: &str) -> Result<Form, String> {
    name.parse().map_err(|error: tract::forms::FormError| {
        std::iter::once(error.to_string()).chain(error.notes()).collect::<Vec<_>>().join("; ")
    })
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PairingWord {
    /// Keep the messages as they are
    Keep,
    /// Repair what the provider would reject, and list each repair
    Repair,
    /// Fail where the provider would reject the request
    Strict,
}

/// Returns the name of the branch that a revision begins with: that of `main` in `main~2`.
fn branch_of<'a>(tract: &'a Tract, revision: &'a str) -> &'a str {
    match revision.split(['~', '^', '@']).next().unwrap_or(revision) {
        "" | "HEAD" => tract.branch_name(),
        name => name,
    }
}

pub(crate) async fn run(context: &mut Context<'_>, compile: Compile) -> Outcome<()> {
    let tract = context.open().await?;
    let revision = compile.revision.as_str();
    let compiled = match compile.at {
        Some(at) => {
            let head = tract.resolve_position(revision).await?;
            tract.repo().compile_at_time(head, at).await?
        }
        None => tract.compile_at(revision).await?,
    };
    let pairing = compile.pairing.map(|pairing| match pairing {
        PairingWord::Keep => Pairing::Keep,
        PairingWord::Repair => Pairing::Repair,
        PairingWord::Strict => Pairing::Strict,
    });
    let options = FormOptions { pairing, ..FormOptions::default() };
    let mut recorded = None;
    if compile.at.is_none()
        && let (Form::Params(_), Some(head)) = (compile.to, compiled.head())
    {
        let branch = branch_of(&tract, revision);
        recorded = tract::import::recorded_parameters(tract.repo(), branch, head).await?;
    }
    let mut params: Params = match (recorded, compile.to) {
        (Some(recorded), Form::Params(dialect)) if recorded.dialect == dialect => {
            tract::forms::compile_recorded(&compiled, compile.to, &options, &recorded.parameters)?
        }
        (Some(recorded), form) => {
            tract::forms::compile_form(&compiled, form, &options)?.with_unsent(&recorded.parameters)
        }
        (None, form) => tract::forms::compile_form(&compiled, form, &options)?,
    };
    for (key, value) in compile.set {
        params = params.with(&key, &value);
    }
    context.out.json_text(&params.to_json())?;
    for repair in &params.repairs {
        let repair = repair.to_string();
        context.out.say(format_args!("{}: {}", Styled(WARN, "repair"), escape::line(&repair)));
    }
    let summary = format!(
        "{}, {}, {}, {}",
        count(compiled.message_count(), "message"),
        count(compiled.tools().len(), "tool"),
        render::tokens(&compiled),
        count(params.repairs.len(), "repair"),
    );
    context.out.say(Styled(DIM, summary));
    Ok(())
}

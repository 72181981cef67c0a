//! `tract hydrate`

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tract::core::json;
use tract::forms::{Dialect, read_reply};
use tract::schema::{Definition, Target, ValidateOptions};
use tract::tools::{
    Call, Decision, HydrateOptions, Hydrated, IntoCalls, NoSchema, Registry, Stage, StageError,
    hydrate_with, sent_in,
};
use tract::{JsonText, RequestMap, RequestTool};

use crate::context::Context;
use crate::definitions::{self, DefinitionText};
use crate::escape;
use crate::failure::{Failure, Outcome, note_line};
use crate::input::{self, Documents};
use crate::out::Output;
use crate::render::count;
use crate::style::{BAD, BOLD, DIM, Styled};

/// Validate a model's calls against the schemas of their tools. Opens a store only for --pinned.
#[derive(Debug, Args)]
#[command(after_help = "\
One call per line: {\"id\",\"name\",\"arguments\"}, arguments as text or object; \"tool_id\"
distinguishes tools with one name. With --from: one reply per document, as the provider sent it.

Examples:
  tract hydrate --tools tools.jsonl --calls calls.jsonl --json
  tract hydrate --tools tools.json --calls reply.json --from anthropic")]
pub(crate) struct Hydrate {
    /// Tool definitions in any provider's shape: one per line, or a list.
    #[arg(long, value_name = "FILE")]
    tools: PathBuf,
    /// The calls; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    calls: PathBuf,
    /// Read the calls from whole replies of this provider.
    #[arg(long, value_name = "PROVIDER", value_parser = input::dialect())]
    from: Option<Dialect>,
    /// Accept more than strict JSON of the right types, and list each repair.
    #[arg(long, value_name = "PROFILE")]
    profile: Vec<Profile>,
    /// The tools were sent in this provider's strict mode: read null as absent where it means that.
    #[arg(long, value_name = "PROVIDER", value_parser = input::dialect())]
    strict: Option<Dialect>,
    /// Refuse tools that the repository's pin policy does not allow.
    #[arg(long)]
    pinned: bool,
    /// With --pinned: the label of the tools' server.
    #[arg(long, value_name = "LABEL", default_value = "", hide_default_value = true)]
    #[arg(requires = "pinned")]
    server: String,
    /// Enforce `format`, which is only an annotation otherwise.
    #[arg(long)]
    formats: bool,
    /// Accept calls of tools without a schema: `read-only` for tools that promise to change
    /// nothing, `human-approval` or `full` for all. They need an approval unless a policy vouches
    /// for them.
    #[arg(long, value_name = "MODE", value_parser = no_schema, default_value = "refuse")]
    no_schema: NoSchema,
}

fn no_schema(word: &str) -> Result<NoSchema, String> {
    NoSchema::parse(word).ok_or_else(|| {
        format!("expected refuse, read-only, human-approval or full, found {word:?}")
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// Text that is nearly JSON: code fences, single quotes, trailing commas, a missing end.
    Tolerant,
    /// Values that spell another type: "7" for 7.
    Coercion,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    name: &'a str,
    success: bool,
    errors: &'a [StageError],
    arguments: Option<JsonText>,
    provenance: JsonText,
    /// Absent if the call needs no approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_approval: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, hydrate: &Hydrate) -> Outcome<()> {
    let (registry, bad) = catalog(context, hydrate).await?;
    let sent = match hydrate.strict {
        Some(to) => sent_strictly(&registry, to)?,
        None => RequestMap::default(),
    };
    let options = HydrateOptions {
        tolerant: hydrate.profile.contains(&Profile::Tolerant),
        coercion: hydrate.profile.contains(&Profile::Coercion),
        ..HydrateOptions::default()
    };
    let mut documents = Documents::new(input::open(&hydrate.calls)?)?;
    let (mut all, mut failed) = (0, 0);
    while let Some(document) = documents.next()? {
        let line = document.line;
        let text = document.intact().map_err(|failure| failure.at_line(&hydrate.calls, line))?;
        let calls = calls(&text, line, hydrate.from)?;
        for mut one in hydrate_with(sent_in(calls, &sent), &registry, &options) {
            // A call of a tool whose definition in the file is invalid is rejected for that reason.
            if let (None, Some(why)) = (&one.tool, bad.get(&one.name)) {
                one.errors.retain(|error| error.stage != Stage::Lookup);
                one.errors.push(StageError::new(Stage::Lookup, "bad_definition", "/", why.clone()));
            }
            all += 1;
            failed += usize::from(!one.success());
            print(context.out, &one)?;
        }
    }
    if !context.out.is_json() {
        let counted = format!("{}, {failed} refused", count(all, "call"));
        context.out.say(Styled(DIM, counted));
    }
    Failure::unless(failed == 0)
}

fn print(out: &mut Output, one: &Hydrated) -> Outcome<()> {
    let needs_approval = one.success() && one.decision == Decision::NeedsApproval;
    if out.is_json() {
        let arguments = one.arguments.as_ref().map(|text| JsonText::new(text.as_str()));
        return out.json(&Line {
            id: &one.id,
            name: &one.name,
            success: one.success(),
            errors: &one.errors,
            arguments: arguments.transpose()?,
            provenance: one.provenance.to_json().map_err(Failure::json)?,
            needs_approval,
        });
    }
    let (id, name) = (escape::line(&one.id), Styled(BOLD, escape::line(&one.name)));
    match &one.arguments {
        Some(arguments) => {
            out.line(format_args!("ok  {id}  {name}({})", escape::line(arguments.as_str())))?;
        }
        None => out.line(format_args!("{}  {id}  {name}", Styled(BAD, "no")))?,
    }
    if needs_approval {
        out.line(Styled(DIM, "      needs the approval of a person"))?;
    }
    for error in &one.errors {
        let stage = error.stage.as_str();
        let line = escape::line(&error.to_string()).into_owned();
        out.line(format_args!("      {stage}: {line}"))?;
        for note in &error.notes {
            out.line(format_args!("      {}", note_line(note)))?;
        }
    }
    for edit in &one.provenance.edits {
        let line = format!("{}: {} → {}", edit.kind, edit.before, edit.after);
        out.line(Styled(DIM, format!("      {}", escape::line(&line))))?;
    }
    Ok(())
}

fn text_member(text: &str, keys: &[&str]) -> Option<String> {
    let members = json::split_object(text).ok()?;
    keys.iter().find_map(|key| {
        let raw = members.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw)?;
        serde_json::from_str(raw).ok()
    })
}

/// Returns the tools as a request in strict mode sends them.
fn sent_strictly(registry: &Registry, to: Dialect) -> Outcome<RequestMap> {
    let sent = registry.iter().map(|tool| {
        let text = tool.definition().schema().text();
        let made = tract::schema::translate(text, Target::Provider(to), true)?;
        let sent = RequestTool::new(made.sent_name, made.name, tool.definition().id());
        Ok(RequestTool {
            strict: made.strict,
            null_for_absent: made.strict && made.null_for_absent,
            ..sent
        })
    });
    sent.collect()
}

/// Returns the tools of a file, and the errors of invalid ones by name.
async fn catalog(
    context: &mut Context<'_>,
    args: &Hydrate,
) -> Outcome<(Registry, HashMap<String, String>)> {
    let options = ValidateOptions { formats: args.formats, ..ValidateOptions::default() };
    let mut builder = Registry::builder().shared_names().options(options);
    let mut refused = HashMap::new();
    let mut seen = HashSet::new();
    let mut definitions = Vec::new();
    for DefinitionText { line, text, .. } in definitions::texts(&args.tools)? {
        match Definition::parse(&text) {
            Ok(definition) => {
                let id = text_member(&text, &["tool_id", "id"]);
                // A repeated equal definition is not a second tool.
                if seen.insert((id.clone(), definition.id())) {
                    definitions.push(definition.schema().clone());
                    builder = builder.import(id, definition, None).no_schema(args.no_schema);
                }
            }
            Err(error) => {
                context.out.say(format_args!("line {line}: {}", escape::line(&error.to_string())));
                for note in error.notes() {
                    context.out.say(format_args!("  {}", note_line(&note)));
                }
                refused.insert(error.name.clone(), error.to_string());
            }
        }
    }
    if args.pinned {
        let tract = context.open().await?;
        builder = builder.policy(tract.pins().gate(&args.server, &definitions).await?);
    }
    let registry =
        builder.build().map_err(|error| Failure::usage(error.to_string()).notes(error.notes()))?;
    Ok((registry, refused))
}

fn calls(text: &str, line: usize, from: Option<Dialect>) -> Outcome<Vec<Call>> {
    let bad = |message: String| {
        Failure::no("bad_call", format!("line {line}: {message}"))
            .note("a call is {\"id\",\"name\",\"arguments\"}; --from reads whole replies")
    };
    if from.is_none() && text.trim_start().starts_with('[') {
        let items = json::split_array(text).map_err(|error| bad(error.to_string()))?;
        let each = items.into_iter().map(|item| calls(item, line, None));
        return Ok(each.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect());
    }
    let members = json::split_object(text).map_err(|error| bad(error.to_string()))?;
    if let Some(from) = from {
        let dialect = match from {
            Dialect::OpenAi if members.iter().any(|(key, _)| key == "output") => Dialect::Responses,
            named => named,
        };
        let reply = read_reply(dialect, text).map_err(|error| bad(error.to_string()))?;
        return Ok(IntoCalls::into_calls(&reply));
    }
    let member = |key: &str| {
        let found = members.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, raw)| *raw).filter(|raw| *raw != "null")
    };
    let string = |key: &str| member(key).and_then(|raw| serde_json::from_str::<String>(raw).ok());
    let name = string("name").ok_or_else(|| bad("expected \"name\", a text".to_owned()))?;
    let id = match (string("id"), member("id")) {
        (Some(id), _) => id,
        (None, Some(raw)) => raw.to_owned(),
        (None, None) => line.to_string(),
    };
    let given = member("arguments").or_else(|| member("arguments_json")).unwrap_or("\"\"");
    let arguments = if given.starts_with('"') {
        serde_json::from_str(given).map_err(Failure::json)?
    } else {
        given.to_owned()
    };
    Ok(vec![Call { tool_id: string("tool_id"), ..Call::new(id, name, arguments) }])
}

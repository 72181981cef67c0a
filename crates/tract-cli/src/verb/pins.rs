//! `tract tools pin|trust|check`

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tract::ToolSchema;
use tract::tools::pin::{ApprovalStatus, Pin, PinPolicy, Pins};

use super::server::ServerArgs;
use crate::context::Context;
use crate::definitions;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::style::{BAD, BOLD, DIM, ID, Styled};

/// Definitions of tools, from a file or from a server.
#[derive(Debug, Args)]
pub(crate) struct DefinitionArgs {
    /// Tool definitions: a JSON list, one per line, or a server's list; `-` for standard input.
    #[arg(required_unless_present_any = ["command", "url"], conflicts_with_all = ["command", "url"])]
    file: Option<PathBuf>,
    /// Label of the server, since tools of different servers may share a name [default: the whole
    /// command line, or the URL]
    #[arg(long, value_name = "LABEL", default_value = "", hide_default_value = true)]
    server: String,
    /// Use only the tool with this name; may be given several times.
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
    #[command(flatten)]
    place: ServerArgs,
}

/// The treatment of tools that are not approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinAction {
    /// Approves new tools.
    Pin,
    /// Approves new and changed tools.
    Trust,
    /// Only reports them.
    Check,
}

pub(crate) async fn run(
    context: &mut Context<'_>,
    #[cfg_attr(not(feature = "mcp"), allow(unused_mut))] mut source: DefinitionArgs,
    action: PinAction,
) -> Outcome<()> {
    let found = found(&source)?;
    #[cfg(feature = "mcp")]
    if source.server.is_empty() {
        source.server = source.place.identity().unwrap_or_default();
    }
    let tract = match action {
        PinAction::Check => context.open().await?,
        PinAction::Pin | PinAction::Trust => context.open_or_create().await?,
    };
    let pins = tract.pins().all().await?;
    let mut approved = Vec::new();
    let mut refused = 0;
    for definition in &found {
        let approval = pins.status_of(&source.server, definition);
        let (status, approves) = match (&approval, action) {
            (ApprovalStatus::Approved, _) => ("approved", false),
            (ApprovalStatus::Unknown, PinAction::Pin | PinAction::Trust) => ("pinned", true),
            (ApprovalStatus::Changed { .. }, PinAction::Trust) => ("trusted", true),
            (ApprovalStatus::Changed { .. }, PinAction::Pin | PinAction::Check) => {
                ("changed", false)
            }
            (ApprovalStatus::Unknown, PinAction::Check) => ("unknown", false),
        };
        if approves {
            approved.push(Pin::of(source.server.clone(), definition));
        } else if status != "approved" {
            refused += 1;
        }
        tell(context.out, &source.server, definition, status, &approval)?;
    }
    tract.pins().approve(approved).await?;
    if action == PinAction::Check {
        missing_pins(context.out, &source, &found, &pins)?;
    }
    if refused > 0 && !context.out.is_json() {
        context.out.say("look at what changed, then: tract tools trust");
    }
    Failure::unless(refused == 0)
}

/// Prints or sets the policy.
pub(crate) async fn policy(context: &mut Context<'_>, wanted: Option<PinPolicy>) -> Outcome<()> {
    let tract = match wanted {
        Some(_) => context.open_or_create().await?,
        None => context.open().await?,
    };
    if let Some(policy) = wanted {
        tract.pins().set_policy(policy).await?;
    }
    let stated = tract.pins().policy().await?;
    let policy = stated.unwrap_or_default();
    // Whether this repository sets the policy.
    let json = json!({ "policy": policy, "stated": stated.is_some() });
    let note = if stated.is_some() { "" } else { "  (default)" };
    let line = format_args!("{}{}", Styled(BOLD, policy.as_str()), Styled(DIM, note));
    context.out.item(&json, line)
}

/// Reports approved tools that are gone; the command continues.
fn missing_pins(
    out: &mut Output,
    source: &DefinitionArgs,
    found: &[ToolSchema],
    pins: &Pins,
) -> Outcome<()> {
    let names: HashSet<&str> = found.iter().map(ToolSchema::name).collect();
    let wanted = |name: &str| source.tools.is_empty() || source.tools.iter().any(|t| t == name);
    for pin in pins.iter().filter(|pin| pin.server() == source.server) {
        let definition = pin.definition();
        if !names.contains(definition.name()) && wanted(definition.name()) {
            tell(out, pin.server(), definition, "gone", &ApprovalStatus::Approved)?;
        }
    }
    Ok(())
}

fn tell(
    out: &mut Output,
    server: &str,
    definition: &ToolSchema,
    status: &str,
    approval: &ApprovalStatus,
) -> Outcome<()> {
    let (approved, changes) = match approval {
        ApprovalStatus::Changed { approved, changes } => {
            (Some(*approved), changes.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        ApprovalStatus::Approved => (Some(definition.id()), Vec::new()),
        ApprovalStatus::Unknown => (None, Vec::new()),
    };
    let name = definition.name();
    if out.is_json() {
        let hash = definition.id();
        let mut json = json!({ "server": server, "name": name, "status": status, "hash": hash });
        if let Some(approved) = approved {
            json["approved"] = json!(approved);
        }
        json["changes"] = changes.into();
        return out.json(&json);
    }
    let word = match status {
        "changed" | "unknown" => Styled(BAD, status),
        "pinned" | "trusted" => Styled(BOLD, status),
        _ => Styled(DIM, status),
    };
    let id = definition.id().short();
    out.line(format_args!("{}  {}  {word}", Styled(ID, id), escape::line(name)))?;
    for change in changes {
        out.line(format_args!("    {}", escape::line(&change)))?;
    }
    Ok(())
}

fn found(source: &DefinitionArgs) -> Outcome<Vec<ToolSchema>> {
    let mut found = match &source.file {
        Some(file) => definitions::read(file)?,
        None => definitions(source)?,
    };
    for name in &source.tools {
        if !found.iter().any(|definition| definition.name() == name) {
            let names = found.iter().map(ToolSchema::name);
            let nearest = tract::core::nearest(name, names);
            return Err(Failure::no("unknown_tool", format!("no tool {name:?} there"))
                .notes(nearest.map(|near| format!("did you mean {near:?}?"))));
        }
    }
    if !source.tools.is_empty() {
        found.retain(|definition| source.tools.iter().any(|name| name == definition.name()));
    }
    let mut names = HashSet::new();
    for definition in &found {
        let name = definition.name();
        if name.is_empty() {
            return Err(Failure::no("no_name", "expected a tool with a name, found none"));
        }
        if !names.insert(name) {
            let failure = Failure::no("duplicate_name", format!("two tools {name:?}"));
            return Err(failure.note("approve the tools of each server separately: --server LABEL"));
        }
    }
    Ok(found)
}

#[cfg(feature = "mcp")]
fn definitions(source: &DefinitionArgs) -> Outcome<Vec<ToolSchema>> {
    super::mcp::definitions(&source.server, &source.place)
}

#[cfg(not(feature = "mcp"))]
fn definitions(_: &DefinitionArgs) -> Outcome<Vec<ToolSchema>> {
    Err(Failure::usage("this build cannot ask MCP servers").note("build with the feature \"mcp\""))
}

//! `tract tools`

mod cost;
mod definitions;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tract::core::ToolDefinition;
use tract::engine::Request;
use tract::schema::{Dialect, Target};
use tract::tools::pin::PinPolicy;
use tract::{ToolId, Tract};

use super::diff;
use super::pins::{self, DefinitionArgs, PinAction};
use crate::commit_args::CommitArgs;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::out::Output;
use crate::render::{self, count};
use crate::style::{BOLD, DIM, ID, Styled};

/// Look at tool definitions, or set those in force.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(subcommand)]
    verb: ToolsVerb,
}

#[derive(Debug, Subcommand)]
enum ToolsVerb {
    /// List all tools that the repository has seen.
    List,
    /// Show the schemas of a tool, by its name or 4 or more digits of its id.
    Show {
        /// The tool.
        tool: String,
    },
    /// List the tools in force at a revision, byte for byte.
    Of {
        /// The revision.
        #[arg(default_value = "HEAD", value_name = "REV")]
        revision: String,
        /// List only the tools that were set with this commit or by `tools set` before it, not
        /// those still in force from an earlier commit.
        #[arg(long)]
        own: bool,
    },
    /// List what each tool's definitions added to the requests: tokens, requests, calls, share.
    ///
    /// Every request contains the definitions of all tools in force, whether or not the model calls
    /// them.
    #[command(after_help = "\
Examples:
  tract tools cost                           of all branches, each request once
  tract tools cost main                      of the requests of a conversation")]
    Cost {
        /// The revision [default: all branches]
        #[arg(value_name = "REV")]
        revision: Option<String>,
    },
    /// Hash schemas; opens no store.
    Hash {
        /// Tool definitions in any provider's shape: one per line, a list, a request, or what an
        /// MCP server lists; `-` for standard input.
        file: PathBuf,
    },
    /// Check definitions for common mistakes; opens no store.
    Lint {
        /// Tool definitions in any provider's shape: one per line, or a list; `-` for standard
        /// input.
        file: PathBuf,
        /// Apply the stricter rules for your own tools: lower-case names, short descriptions.
        #[arg(long)]
        own: bool,
    },
    /// Translate definitions for a provider and list what is lost; opens no store.
    Translate {
        /// Tool definitions in any provider's shape: one per line, or a list; `-` for standard
        /// input.
        file: PathBuf,
        #[arg(long, value_parser = target)]
        #[arg(help = format!("The target: {} or mcp", Dialect::words()))]
        to: Target,
        /// Use OpenAI's strict mode where the schema allows it.
        #[arg(long)]
        strict: bool,
    },
    /// Show all versions of a tool, oldest first.
    History {
        /// The name of the tool.
        name: String,
    },
    /// Compare the tools in force at two revisions.
    Diff {
        /// The first revision.
        #[arg(value_name = "A")]
        before: String,
        /// The second revision.
        #[arg(value_name = "B", default_value = "HEAD")]
        after: String,
    },
    /// Approve new tools; changed ones are shown and not approved.
    #[command(after_help = "\
Examples:
  tract tools pin tools.json
  tract tools pin --server memory -- npx -y @modelcontextprotocol/server-memory")]
    Pin(DefinitionArgs),
    /// Approve tools as they are now, changed ones included.
    Trust(DefinitionArgs),
    /// Compare tools with their approvals; exits with 1 when one changed or was never approved.
    Check(DefinitionArgs),
    /// Show or set which tools of servers may run, for all users of the repository.
    #[command(after_help = "\
approved-only    those that were approved and did not change (the default)
refuse-changed   also those that were not approved yet
tell-only        all")]
    Policy {
        /// The policy: approved-only, refuse-changed or tell-only.
        #[arg(value_parser = pin_policy)]
        policy: Option<PinPolicy>,
    },
    /// Set the tools in force from here on.
    ///
    /// The file is a JSON list of definitions, one definition per line, a request, or the list of
    /// an MCP server. Names must be distinct. Definitions that providers reject are reported.
    #[command(after_help = "\
Examples:
  tract tools set tools.json
  tract tools set --none                     without tools from here on")]
    Set {
        /// The file; `-` for standard input.
        #[arg(required_unless_present = "none")]
        file: Option<PathBuf>,
        /// Use no tools from here on.
        #[arg(long, conflicts_with = "file")]
        none: bool,
        #[command(flatten)]
        commit_args: CommitArgs,
    },
}

fn target(word: &str) -> Result<Target, String> {
    Target::parse(word)
        .ok_or_else(|| format!("expected one of {}, mcp, found {word:?}", Dialect::words()))
}

fn pin_policy(word: &str) -> Result<PinPolicy, String> {
    PinPolicy::parse(word).ok_or_else(|| {
        format!("expected approved-only, refuse-changed or tell-only, found {word:?}")
    })
}

impl Tools {
    /// Returns whether the command writes.
    pub(crate) fn writes(&self) -> bool {
        matches!(
            self.verb,
            ToolsVerb::Set { .. }
                | ToolsVerb::Pin(_)
                | ToolsVerb::Trust(_)
                | ToolsVerb::Policy { policy: Some(_) }
        )
    }
}

pub(crate) async fn run(context: &mut Context<'_>, tools: Tools) -> Outcome<()> {
    match tools.verb {
        ToolsVerb::Hash { file } => definitions::hash(context.out, &file),
        ToolsVerb::Lint { file, own } => definitions::lint(context.out, &file, own),
        ToolsVerb::Translate { file, to, strict } => {
            definitions::translate(context.out, &file, to, strict)
        }
        ToolsVerb::Cost { revision } => cost::cost(context, revision.as_deref()).await,
        ToolsVerb::List => list(context).await,
        ToolsVerb::Show { tool } => show(context, &tool).await,
        ToolsVerb::Of { revision, own } => of(context, &revision, own).await,
        ToolsVerb::History { name } => history(context, &name).await,
        ToolsVerb::Diff { before, after } => compare(context, &before, &after).await,
        ToolsVerb::Pin(source) => pins::run(context, source, PinAction::Pin).await,
        ToolsVerb::Trust(source) => pins::run(context, source, PinAction::Trust).await,
        ToolsVerb::Check(source) => pins::run(context, source, PinAction::Check).await,
        ToolsVerb::Policy { policy } => pins::policy(context, policy).await,
        ToolsVerb::Set { file, commit_args, .. } => set(context, file, commit_args).await,
    }
}

async fn list(context: &mut Context<'_>) -> Outcome<()> {
    let tract = context.open().await?;
    let mut found = Vec::new();
    for name in tract.store().tool_names(tract.repo().name()).await? {
        found.extend(tract.tools().history(&name).await?);
    }
    definitions(context.out, &found)
}

async fn history(context: &mut Context<'_>, name: &str) -> Outcome<()> {
    let tract = context.open().await?;
    let found = tract.tools().history(name).await?;
    if found.is_empty() {
        return Err(unknown(&tract, name).await?);
    }
    definitions(context.out, &found)
}

/// Returns the width of the longest of these names.
pub(super) fn width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| escape::width(&escape::line(name))).max().unwrap_or(0)
}

/// Formats a row of a list of tools, with names padded to `width`.
pub(super) fn row(id: ToolId, name: &str, width: usize, rest: impl std::fmt::Display) -> String {
    let name = escape::line(name);
    let pad = " ".repeat(width - escape::width(&name));
    format!("{}  {}{pad}  {rest}", Styled(ID, id.short()), Styled(BOLD, name))
}

fn definitions(out: &mut Output, found: &[ToolDefinition]) -> Outcome<()> {
    let width = width(found.iter().map(|definition| definition.name.as_str()));
    for definition in found {
        let ToolDefinition { id, name, first, schemas, .. } = definition;
        let json = json!({ "hash": id, "name": name, "first": first, "schemas": schemas.len() });
        let first = format!("first in {}", render::short(*first));
        out.item(&json, row(*id, name, width, first))?;
    }
    if found.is_empty() && !out.is_json() {
        let sent = "`tract tools set FILE` sets some, and `tract record` keeps those that are sent";
        out.say(format_args!("no definitions of tools; {sent}"));
    }
    Ok(())
}

async fn unknown(tract: &Tract, name: &str) -> Outcome<Failure> {
    let names = tract.store().tool_names(tract.repo().name()).await?;
    let failure = Failure::no("unknown_tool", format!("unknown tool {name:?}"));
    let nearest = tract::core::nearest(name, names.iter().map(String::as_str));
    let list = || "`tract tools list` lists all tools".to_owned();
    Ok(failure.note(nearest.map_or_else(list, |near| format!("did you mean {near:?}?"))))
}

async fn show(context: &mut Context<'_>, tool: &str) -> Outcome<()> {
    let tract = context.open().await?;
    let mut found = tract.tools().history(tool).await?;
    if found.is_empty() {
        found = tract.tools().by_prefix(tool).await?;
    }
    if found.is_empty() {
        return Err(unknown(&tract, tool).await?);
    }
    for definition in &found {
        for schema in &definition.schemas {
            let blob = tract.repo().require_blob(*schema).await?;
            let text = String::from_utf8_lossy(blob.bytes());
            if context.out.is_json() {
                context.out.json_text(&one_line(&text)?)?;
                continue;
            }
            let title = format!("{}  {}", definition.id.short(), escape::line(&definition.name));
            context.out.line(Styled(BOLD, title))?;
            context.out.line(escape::block(&text))?;
            parameters(context.out, &text)?;
        }
    }
    Ok(())
}

/// Formats the parameters as a tree. The schema, which is printed above it, is authoritative.
fn parameters(out: &mut Output, text: &str) -> Outcome<()> {
    let schema =
        tract::schema::Definition::parse(text).ok().and_then(|found| found.arguments_schema());
    if let Some(params) = schema.and_then(|schema| tract::schema::params(&schema).ok()) {
        for line in params.to_string().lines() {
            out.line(format_args!("  {}", escape::line(line)))?;
        }
    }
    Ok(())
}

/// Puts a schema, which may have several lines, on one line.
pub(super) fn one_line(text: &str) -> Outcome<String> {
    if text.contains('\n') {
        Ok(tract::JsonText::new(text)?.as_str().to_owned())
    } else {
        Ok(text.to_owned())
    }
}

async fn of(context: &mut Context<'_>, revision: &str, only_own: bool) -> Outcome<()> {
    let tract = context.open().await?;
    let tools = if only_own {
        tract.tools().own(revision).await?
    } else {
        tract.tools().at(revision).await?
    };
    if context.out.is_json() {
        let schemas: Vec<&str> = tools.iter().map(|tool| &*tool.schema).collect();
        // One document is one line: line breaks occur between the parts of JSON, never in its
        // strings.
        let line = schemas.join(",").replace(['\n', '\r'], " ");
        return context.out.json_text(&format!("[{line}]"));
    }
    let width = width(tools.iter().map(|tool| tool.name.as_str()));
    for tool in &tools {
        let size = Styled(DIM, render::bytes(tool.schema.len() as u64));
        context.out.line(row(tool.id, &tool.name, width, size))?;
    }
    let counted = count(tools.len(), "tool");
    let counted = match only_own {
        true => format!("{counted} of its own at"),
        false if !tools.is_empty() && tract.tools().own(revision).await?.is_empty() => {
            format!("{counted} of an earlier commit in force at")
        }
        false => format!("{counted} in force at"),
    };
    context.out.say(Styled(DIM, format!("{counted} {}", escape::line(revision))));
    Ok(())
}

async fn compare(context: &mut Context<'_>, before: &str, after: &str) -> Outcome<()> {
    let tract = context.open().await?;
    let found = tract.tools().diff(before, after).await?;
    if context.out.is_json() {
        let (tools, unchanged) = (diff::tool_lines(&found), found.unchanged_count);
        let reordered = found.reordered;
        return context
            .out
            .json(&json!({ "tools": tools, "unchanged": unchanged, "reordered": reordered }));
    }
    found.lines().iter().try_for_each(|line| context.out.line(diff::styled(line)))?;
    let note = if found.is_empty() {
        ""
    } else {
        "   note: tools come first in a prompt, so the provider's cache misses from its first byte"
    };
    let unchanged = format!("{} unchanged{note}", found.unchanged_count);
    context.out.line(Styled(DIM, unchanged))
}

async fn set(
    context: &mut Context<'_>,
    file: Option<PathBuf>,
    commit_args: CommitArgs,
) -> Outcome<()> {
    let tract = context.open().await?;
    let tools = match file {
        Some(file) => crate::definitions::read_to_send(&file)?,
        None => Vec::new(),
    };
    crate::definitions::report_limits(context.out, &tools);
    let made = tract.record(Request::Tools { tools, details: commit_args.details()? }).await?;
    render::committed(context.out, &tract, &made).await
}

//! `tract verify`

use clap::Args;
use serde::Serialize;
use tract::engine::{VerifyOptions, VerifyReport};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count};
use crate::style::{BAD, GOOD, Styled, WARN};

/// Check every object's hash and every link.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 when something is damaged, and prints one line per damage.
Examples:
  tract verify
  tract verify --repair                      rebuilds derived data; objects are never touched")]
pub(crate) struct Verify {
    /// Rebuild damaged derived data.
    #[arg(long)]
    repair: bool,
}

impl Verify {
    /// Whether it writes.
    pub(crate) fn writes(&self) -> bool {
        self.repair
    }
}

#[derive(Serialize)]
struct Report {
    clean: bool,
    objects: usize,
    commits: usize,
    blobs: usize,
    tools: usize,
    toolsets: usize,
    ref_moves: usize,
    erased: Vec<String>,
    damage: Vec<DamageLine>,
}

#[derive(Serialize)]
struct DamageLine {
    object: Option<String>,
    what: String,
    derived: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, verify: Verify) -> Outcome<()> {
    let verified = verified(context, verify).await;
    let restore = "the cause cannot be narrowed down: restore the store from a copy or an export";
    verified.map_err(|failure| failure.advise_other_than("tract verify", restore))
}

async fn verified(context: &mut Context<'_>, verify: Verify) -> Outcome<()> {
    let tract = context.open().await?;
    let report = render::verify(&tract, VerifyOptions::new().repair(verify.repair)).await?;
    if context.out.is_json() {
        context.out.json(&document(&report))?
    } else {
        print(context, &report)?
    }
    if report.clean { Ok(()) } else { Err(Failure::reported_no()) }
}

fn document(report: &VerifyReport) -> Report {
    Report {
        clean: report.clean,
        objects: report.commits + report.blobs + report.toolsets,
        commits: report.commits,
        blobs: report.blobs,
        tools: report.tools,
        toolsets: report.toolsets,
        ref_moves: report.ref_moves,
        erased: report.erased.iter().map(|blob| blob.to_hex()).collect(),
        damage: report
            .damage
            .iter()
            .map(|damage| DamageLine {
                object: damage.object.map(|object| object.to_string()),
                what: damage.what.clone(),
                derived: damage.derived,
            })
            .collect(),
    }
}

fn print(context: &mut Context<'_>, report: &VerifyReport) -> Outcome<()> {
    for damage in &report.damage {
        let object = damage.object.map(|object| object.to_string()).unwrap_or_default();
        let sort = if damage.derived { Styled(WARN, "derived") } else { Styled(BAD, "damaged") };
        context.out.line(format_args!("{sort}  {object}  {}", escape::line(&damage.what)))?;
    }
    let checked = [
        count(report.commits, "commit"),
        count(report.blobs, "blob"),
        count(report.tools, "tool"),
        count(report.toolsets, "toolset"),
        count(report.ref_moves, "ref move"),
    ]
    .join(", ");
    if report.clean {
        context
            .out
            .line(format_args!("{}: {checked}, re-hashed and replayed", Styled(GOOD, "clean")))?;
        if !report.erased.is_empty() {
            let erased = count(report.erased.len(), "blob");
            context.out.line(format_args!("erased: {erased}; `tract erase --list` says why"))?;
        }
        Ok(())
    } else {
        context.out.line(format_args!(
            "{}: {} in {checked}",
            Styled(BAD, "not clean"),
            count(report.damage.len(), "damage")
        ))?;
        if report.damage.iter().all(|damage| damage.derived) {
            context.out.say("  note: only derived data; tract verify --repair rebuilds it")
        } else {
            context.out.say("  note: restore what is damaged from a copy or an export")
        }
        Ok(())
    }
}

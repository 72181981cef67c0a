//! `tract turns`

use clap::Args;
use serde_json::json;
use tract::engine::{ToolQuery, ToolTurn};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::render::{self, count, number, short};
use crate::revisions::{resolve_head_position, resolve_optional_position};
use crate::style::{DIM, Styled, WARN};

/// List tool turns, oldest first: calls with their results.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract turns                                all turns of this branch
  tract turns main --name grep --name find   turns with a call of grep or find
  tract turns --after 0a4f7712 --json        turns after a commit, one per line")]
pub(crate) struct Turns {
    /// The revision.
    #[arg(default_value = "HEAD", value_name = "REV")]
    revision: String,
    /// List only turns with a call of this tool; may be given several times.
    #[arg(long, value_name = "TOOL")]
    name: Vec<String>,
    /// List only turns after this commit.
    #[arg(long, value_name = "REV")]
    after: Option<String>,
    /// Also list turns that were summarized or reverted.
    #[arg(long)]
    hidden: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, turns: Turns) -> Outcome<()> {
    let tract = context.open().await?;
    let after = resolve_optional_position(&tract, turns.after.as_deref()).await?;
    let query = ToolQuery { names: turns.name, after, hidden: turns.hidden };
    let head = resolve_head_position(&tract, &turns.revision).await?;
    let found = tract.repo().find_tool_turns(head, &query).await?;
    let (mut number_of, mut tokens) = (0, 0);
    for turn in found {
        number_of += 1;
        tokens += turn.total_tokens();
        let json = json!({
            "call": turn.call,
            "results": turn.result_ids(),
            "tool_names": turn.tool_names,
            "total_tokens": turn.total_tokens(),
        });
        context.out.item(&json, line(&turn))?;
    }
    if !context.out.is_json() {
        if head.is_none() {
            return render::none_yet(context.out, &tract, head, "turns", "turns").await;
        }
        context.out.say(format_args!("{}, {} tok", count(number_of, "turn"), number(tokens)));
    }
    Ok(())
}

fn line(turn: &ToolTurn) -> String {
    let names: Vec<_> = turn.tool_names.iter().map(|name| escape::line(name)).collect();
    let results: Vec<String> = turn
        .results
        .iter()
        .map(|result| {
            let text = short(result.id).to_string();
            if result.is_error { format!("{text} {}", Styled(WARN, "failed")) } else { text }
        })
        .collect();
    let mut line = format!("{} {}", short(turn.call), names.join(", "));
    if !results.is_empty() {
        line += &format!("  → {}", results.join(", "));
    }
    if turn.open_calls() > 0 {
        line += &format!("  {}", Styled(WARN, format!("{} open", turn.open_calls())));
    }
    let tokens = format!("{} tok", number(turn.total_tokens()));
    format!("{line}  {}", Styled(DIM, tokens))
}

//! `tract copy`

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tract::RefName;
use tract::engine::{CopiedRef, CopyOptions, CopyReport, CopyStatus, VerifyOptions, VerifyReport};

use super::transfer::{RefLine, named, progress};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count};
use crate::style::{BAD, GOOD, Styled, WARN};

/// Copy a repository from one store to another, of any engine.
///
/// Ids do not change. Only missing objects are copied, so copying again continues an interrupted
/// copy, or brings new commits. Damaged objects of the target are replaced.
#[derive(Debug, Args)]
#[command(after_help = "\
The target is verified afterwards. A branch that has diverged in the target is reported and left
unchanged. Exits with 1 if a branch has diverged or the target is damaged.
Examples:
  tract copy --to redb:agent.redb
  tract copy --from sqlite:agent.db --to postgres://db/agents --all-repos
  tract copy --from sqlite:agent.db --to sqlite:part.db --branch main --branch draft")]
pub(crate) struct Copy {
    /// The store to copy from [default: that of --store]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// The store to copy to; created if it does not exist.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Copy only this branch; may be given several times.
    #[arg(long, value_name = "BRANCH", conflicts_with = "all_repos")]
    branch: Vec<String>,
    /// Copy every repository of the store.
    #[arg(long)]
    all_repos: bool,
}

pub(crate) async fn run(context: &mut Context<'_>, copy: Copy) -> Outcome<()> {
    let from = match &copy.from {
        Some(url) => context.open_store(url, false).await?,
        None => context.open_named_store().await?,
    };
    let to = context.open_store(&copy.to, true).await?;
    let repos = context.repos(&from, copy.all_repos).await?;
    let refs: Vec<RefName> =
        copy.branch.iter().map(|name| RefName::branch(name)).collect::<Result<_, _>>()?;
    let mut well = true;
    for repo in repos {
        context.global.repo = repo.as_str().to_owned();
        let source = context.open_repo(Arc::clone(&from), false).await?;
        let target = context.open_repo(Arc::clone(&to), true).await?;
        let (bar, progress) = progress("copying");
        let refs = (!refs.is_empty()).then(|| refs.clone());
        let options = CopyOptions { refs, progress: Some(progress) };
        let report = tract::engine::copy(source.repo(), target.repo(), &options).await;
        bar.finish_and_clear();
        let report = report?;
        let check = render::verify(&target, VerifyOptions::default()).await?;
        well &= check.clean && !report.diverged();
        print(context, &report, &check)?;
    }
    Failure::unless(well)
}

/// Returns whether a ref gets its own line: branches and tags do, and others if they failed. The
/// rest is counted.
fn is_shown(at: &CopiedRef) -> bool {
    let name = &at.name;
    name.branch_name().is_some()
        || name.tag_name().is_some()
        || *name == RefName::head()
        || matches!(at.status, CopyStatus::Diverged { .. })
}

fn print(context: &mut Context<'_>, report: &CopyReport, check: &VerifyReport) -> Outcome<()> {
    let repo = context.global.repo.clone();
    if context.out.is_json() {
        let refs = report.refs.iter().map(|at| RefLine {
            name: at.name.to_string(),
            to: Some(render::target(&at.to)),
            status: at.status.word(),
        });
        let mut document = json!({
            "repo": repo,
            "commits": report.commits,
            "reused": report.reused,
            "clean": check.clean,
            "damage": check.damage.len(),
            "refs": refs.collect::<Vec<_>>(),
        });
        if report.restored > 0 {
            document["restored"] = json!(report.restored);
        }
        return context.out.json(&document);
    }
    let (shown, internal): (Vec<_>, Vec<_>) = report.refs.iter().partition(|at| is_shown(at));
    for at in shown {
        let style = if matches!(at.status, CopyStatus::Diverged { .. }) { WARN } else { GOOD };
        let word = Styled(style, format!("{:<9}", at.status.word()));
        context.out.line(format_args!("{word}  {}", named(&at.name)))?;
    }
    if !internal.is_empty() {
        let mut by_word: BTreeMap<&str, u64> = BTreeMap::new();
        for at in &internal {
            *by_word.entry(at.status.word()).or_default() += 1;
        }
        let words: Vec<String> =
            by_word.iter().map(|(word, n)| format!("{} {word}", render::number(*n))).collect();
        let refs = count(internal.len(), "internal ref");
        context.out.line(format_args!("{refs}: {}", words.join(", ")))?;
    }
    let state = if check.clean { Styled(GOOD, "clean") } else { Styled(BAD, "not clean") };
    let reused = report.reused;
    context.out.line(format_args!(
        "{repo}: {}, {} of them there already; the target verifies {state}",
        count(report.commits, "commit"),
        render::number(reused as u64),
    ))?;
    if !check.clean {
        context.out.say("  note: tract verify lists the damage in the target");
    }
    render::restored(context.out, report.restored)?;
    render::erasures(context.out, &report.erased)?;
    if report.diverged() {
        context.out.say("  note: a diverged branch has other commits in the target; rename one of the two and copy again");
    }
    Ok(())
}

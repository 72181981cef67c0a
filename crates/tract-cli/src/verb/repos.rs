//! `tract repos`

use serde::Serialize;
use tract::RepoName;

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{REF, Styled};

#[derive(Serialize)]
struct RepoLine<'a> {
    repo: &'a str,
    current: bool,
}

pub(crate) async fn run(context: &mut Context<'_>) -> Outcome<()> {
    let store = context.open_named_store().await?;
    let current = RepoName::new(&context.global.repo).map_err(tract::Error::from)?;
    for repo in store.repos().await? {
        let json = RepoLine { repo: repo.as_str(), current: repo == current };
        let mark = if json.current { '*' } else { ' ' };
        let name = Styled(REF, escape::line(json.repo));
        context.out.item(&json, format_args!("{mark} {name}"))?;
    }
    Ok(())
}

use std::sync::Arc;

use tract_core::{Draft, block_on};
use tract_engine::Repo;
use tract_run::{Agent, Stop};
use tract_tools::dispatch::CallContext;
use tract_tools::prompt::{Bindings, Prompt, Section};
use tract_tools::{Registry, Session, ToolContext, ToolError, tool};

use crate::support::{
    Look, Script, agent_on, call, fresh, head, main_branch, reopened, run, texts,
};

/// Digs.
#[tool(read_only)]
async fn dig() -> &'static str {
    "gold"
}

/// Is of no section.
#[tool(read_only)]
async fn probe() -> &'static str {
    "there"
}

fn prompt() -> Prompt {
    Prompt::builder("tests", "digger")
        .section(Section::new("role", "Role", "You look.").tool(Look))
        .section(Section::new("dig", "Digging", "Dig deep.").summary("There is more.").tool(Dig))
        .build()
        .unwrap()
}

fn registry() -> Registry {
    Registry::builder().tool(Probe).build().unwrap()
}

#[test]
fn sections_that_the_model_opens_are_shown_and_stay_so() {
    let repo = fresh();
    let model = Script::new([
        call("c1", "dig", "{}"),
        call("c2", "open_sections", r#"{"sections":["dig"]}"#),
        call("c3", "dig", "{}"),
        Draft::assistant("gold"),
    ]);
    let agent = |repo: &Repo, model: &Arc<Script>| {
        let agent = Agent::new(repo.clone(), main_branch(), model.clone(), registry());
        agent.prompt(prompt(), Bindings::new()).unwrap()
    };
    let report = run(&agent(&repo, &model), "find");
    assert_eq!((report.stop, report.steps), (Stop::Answered, 4));
    assert_eq!(model.offered(0), ["look", "open_sections", "probe"]);
    assert_eq!(model.offered(2), ["look", "dig", "probe"]);
    let text = |place: usize| model.read(place, 0);
    assert!(text(1).contains("There is more.") && !text(1).contains("Dig deep."));
    assert!(text(2).contains("Dig deep."), "{}", text(2));
    let texts = texts(&repo);
    assert_eq!(texts.iter().filter(|line| line.starts_with("system")).count(), 1, "edited");
    assert!(texts[3].contains("not available") && texts[3].contains("<c1! dig>"), "{}", texts[3]);
    assert!(texts[7].starts_with("tool: gold <c3 dig>"), "{}", texts[7]);

    // Another process shows what was opened, and writes nothing that is there already.
    let before = head(&repo);
    let model = Script::new([Draft::assistant("yes")]);
    run(&agent(&reopened(&repo), &model).session(&Session::new()), "still?");
    assert!(model.read(0, 0).contains("Dig deep."));
    let log = block_on(tract_engine::log(&repo, head(&repo), 3)).unwrap();
    assert_eq!(log.commits[1].parent(), Some(before), "the question and the answer alone");
}

/// Tells what it knows of where it runs.
#[tool(read_only)]
async fn whereabouts(context: &ToolContext) -> Result<String, ToolError> {
    let prompt = context.prompt().ok_or_else(|| ToolError::other("no prompt"))?;
    let shown = context.rendered_prompt().ok_or_else(|| ToolError::other("no instructions"))?;
    let collapsed = shown.collapsed().join(",");
    let session = context.session().is_some();
    Ok(format!("{}/{} {collapsed} {session}", prompt.namespace(), prompt.key()))
}

#[test]
fn a_tool_sees_the_prompt_as_it_is_and_as_the_model_read_it() {
    let agent = |repo: &Repo| {
        let registry = Registry::builder().tool(Whereabouts).build().unwrap();
        agent_on(repo, [call("c1", "whereabouts", "{}"), Draft::assistant("there")], registry)
    };
    let repo = fresh();
    run(&agent(&repo).prompt(prompt(), Bindings::new()).unwrap(), "where?");
    assert_eq!(texts(&repo)[3], "tool: tests/digger dig true <c1 whereabouts>");
    // An agent without one has none to show.
    let other = fresh();
    run(&agent(&other), "where?");
    assert!(texts(&other)[2].contains("no prompt"));
}

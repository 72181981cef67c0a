use tract_core::{Draft, block_on};
use tract_run::{Agent, Stop};
use tract_tools::dispatch::CallContext;
use tract_tools::prompt::{Bindings, Prompt, Section};
use tract_tools::{Registry, Session, ToolContext, ToolError, tool};

use crate::support::{Look, Script, call, main_branch, memory, messages, repo_on, texts};

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
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        let model = Script::new([
            call("c1", "dig", "{}"),
            call("c2", "open_sections", r#"{"sections":["dig"]}"#),
            call("c3", "dig", "{}"),
            Draft::assistant("gold"),
        ]);
        let agent = Agent::new(repo.clone(), main_branch(), model.clone(), registry())
            .prompt(prompt(), Bindings::new())
            .unwrap();
        let report = agent.run(Some(Draft::user("find"))).await.unwrap();
        assert_eq!((report.stop, report.steps), (Stop::Answered, 4));
        let requests = model.requests.lock().unwrap().clone();
        let names = |place: usize| -> Vec<String> {
            requests[place].tools.iter().map(|tool| tool.name.clone()).collect()
        };
        assert_eq!(names(0), ["look", "open_sections", "probe"]);
        assert_eq!(names(2), ["look", "dig", "probe"]);
        let text = |place: usize| requests[place].messages[0].content.text();
        assert!(text(1).contains("There is more.") && !text(1).contains("Dig deep."));
        assert!(text(2).contains("Dig deep."), "{}", text(2));
        let texts = texts(&messages(&repo).await);
        assert_eq!(texts.iter().filter(|line| line.starts_with("system")).count(), 1, "edited");
        assert!(
            texts[3].contains("not available") && texts[3].contains("<c1! dig>"),
            "{}",
            texts[3]
        );
        assert!(texts[7].starts_with("tool: gold <c3 dig>"), "{}", texts[7]);

        // Another process shows what was opened, and writes nothing that is there already.
        let before = repo.head_of(&main_branch()).await.unwrap();
        let model = Script::new([Draft::assistant("yes")]);
        let fresh = Agent::new(repo_on(&store).await, main_branch(), model.clone(), registry())
            .session(&Session::new())
            .prompt(prompt(), Bindings::new())
            .unwrap();
        fresh.run(Some(Draft::user("still?"))).await.unwrap();
        let requests = model.requests.lock().unwrap().clone();
        assert!(requests[0].messages[0].content.text().contains("Dig deep."));
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        let log = tract_engine::log(&repo, head, 3).await.unwrap();
        assert_eq!(log.commits[1].parent(), before, "the question and the answer alone");
    });
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
    block_on(async {
        let repo = repo_on(&memory()).await;
        let says = || Script::new([call("c1", "whereabouts", "{}"), Draft::assistant("there")]);
        let registry = || Registry::builder().tool(Whereabouts).build().unwrap();
        let agent = Agent::new(repo.clone(), main_branch(), says(), registry())
            .prompt(prompt(), Bindings::new())
            .unwrap();
        agent.run(Some(Draft::user("where?"))).await.unwrap();
        let answers = texts(&messages(&repo).await);
        assert_eq!(answers[3], "tool: tests/digger dig true <c1 whereabouts>");
        // An agent without one has none to show.
        let other = repo_on(&memory()).await;
        let agent = Agent::new(other.clone(), main_branch(), says(), registry());
        agent.run(Some(Draft::user("where?"))).await.unwrap();
        assert!(texts(&messages(&other).await)[2].contains("no prompt"));
    });
}

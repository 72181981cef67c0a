use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tract_core::{Draft, JsonText, Op, RefName, block_on};
use tract_engine::Repo;
use tract_run::{Agent, load_session, stored_slices};
use tract_tools::CallContext as _;
use tract_tools::planning::{Plan, Planning, StepStatus};
use tract_tools::{
    EventType, Registry, Session, SessionItem, ToolContext, ToolError, ToolSpec, tool,
};

use crate::support::{
    Script, agent_on, call, fresh, head, main_branch, pause, reopened, run, run_all, texts, tool_of,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Seen(String);
impl SessionItem for Seen {
    const NAME: &'static str = "seen";
}
impl EventType for Seen {
    const KIND: &'static str = "seen";
}

/// Says something to the session, and may fail then.
#[tool]
async fn notice(what: String, fails: bool, context: &ToolContext) -> Result<String, ToolError> {
    context.publish(Seen(what))?;
    if fails { Err(ToolError::other("no")) } else { Ok("noticed".to_owned()) }
}

fn session() -> (Session, Registry) {
    let session = Session::new();
    session.log::<Seen>().unwrap();
    let planning = Planning::new(&session).unwrap();
    let mut builder = Registry::builder().tool(Notice);
    for tool in planning.tools() {
        builder = builder.dyn_tool(tool);
    }
    (session, builder.build().unwrap())
}

/// Runs until the model has said all; returns what the tools remember.
fn remembered(repo: &Repo, branch: RefName, says: Arc<Script>, word: &str) -> Session {
    let (own, registry) = session();
    let agent = Agent::new(repo.clone(), branch, says, registry).session(&own);
    run(&agent, word);
    own
}

/// What tools remember at the head of a branch.
fn slices(repo: &Repo, branch: &RefName) -> BTreeMap<String, JsonText> {
    let head = block_on(repo.head_of(branch)).unwrap();
    block_on(stored_slices(repo, head)).unwrap()
}

#[test]
fn slices_live_on_the_branch() {
    let repo = fresh();
    let model = Script::new([
        call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a","b"]}"#)
            .call("c2", "notice", r#"{"what":"x","fails":false}"#)
            .call("c3", "notice", r#"{"what":"y","fails":true}"#),
        call("c4", "planning_update_step", r#"{"step_id":1,"status":"done"}"#),
        Draft::assistant("so far"),
    ]);
    let own = remembered(&repo, main_branch(), model, "go");
    let head = head(&repo);
    assert_eq!(texts(&repo).len(), 8, "no model sees what tools remember");

    let plan = own.latest::<Plan>().unwrap();
    assert_eq!(plan.steps[0].status, StepStatus::Done);
    let (other, _) = session();
    block_on(load_session(&repo, Some(head), &other)).unwrap();
    assert_eq!(other.latest::<Plan>(), Some(plan));
    // A log keeps the events of a failed call.
    assert_eq!(*other.all::<Seen>().unwrap(), [Seen("x".into()), Seen("y".into())]);

    // One row for the plan, edited in place; a note for each event; how calls ended is kept
    // with their answers alone.
    let log = block_on(tract_engine::log(&repo, head, 99)).unwrap().commits;
    let of = |name: &str| -> Vec<&'static str> {
        let mine = log.iter().rev().filter(|commit| commit.origin.id.as_deref() == Some(name));
        mine.map(|commit| match commit.op {
            Op::Append { .. } => "append",
            Op::Edit { .. } => "edit",
            Op::Note => "note",
            _ => "other",
        })
        .collect()
    };
    assert_eq!(of("session/plan"), ["append", "edit"]);
    assert_eq!(of("session/seen"), ["note", "note"]);
    assert!(of("session/tool_invoked").is_empty());

    // Back in time the plan is as it was then.
    let edited = log.iter().find(|commit| {
        commit.origin.id.as_deref() == Some("session/plan") && matches!(commit.op, Op::Edit { .. })
    });
    let before = edited.unwrap().parent();
    block_on(load_session(&repo, before, &other)).unwrap();
    assert_eq!(other.latest::<Plan>().unwrap().steps[0].status, StepStatus::Pending);
    // A fork has its own, and another branch continues with what it finds.
    let fork = block_on(repo.create_branch("fork", before.unwrap())).unwrap();
    let model = Script::new([
        call("c4", "planning_update_step", r#"{"step_id":2,"status":"in_progress"}"#),
        Draft::assistant("forked"),
    ]);
    let forked = remembered(&repo, fork, model, "the other one");
    let statuses: Vec<StepStatus> =
        forked.latest::<Plan>().unwrap().steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [StepStatus::Pending, StepStatus::InProgress]);
    assert!(slices(&repo, &main_branch())["plan"].as_str().contains("done"));
}

#[test]
fn changes_of_a_failed_call_are_not_on_the_branch() {
    let repo = fresh();
    let model = Script::new([
        call("c1", "planning_setup_plan", r#"{"objective":"  "}"#),
        Draft::assistant("hm"),
    ]);
    remembered(&repo, main_branch(), model, "go");
    assert!(slices(&repo, &main_branch()).is_empty());
}

#[test]
fn a_summary_of_the_conversation_forgets_no_plan() {
    let repo = fresh();
    let model = Script::new([
        call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a"]}"#),
        Draft::assistant("planned"),
        call("c2", "planning_update_step", r#"{"step_id":1,"status":"in_progress"}"#),
        Draft::assistant("begun"),
    ]);
    remembered(&repo, main_branch(), model.clone(), "plan");
    let all = tract_engine::plan::Selection::Range { from: None, to: None };
    block_on(repo.compress(&main_branch(), all, "they planned")).unwrap();
    let later = remembered(&reopened(&repo), main_branch(), model, "begin");
    assert_eq!(later.latest::<Plan>().unwrap().steps[0].status, StepStatus::InProgress);
    assert!(slices(&repo, &main_branch())["plan"].as_str().contains("in_progress"));
}

#[test]
fn a_tool_may_be_named_like_what_sessions_are_kept_under() {
    let repo = fresh();
    // A server's own name for it is taken as it is.
    let listed = r#"{"name":"session/list","inputSchema":{"type":"object"}}"#;
    let tools = || {
        let spec = ToolSpec::new("session/list", "Lists.", r#"{"type":"object"}"#);
        let runs = tool_of(spec, |_, _| Ok("two sessions".to_owned()));
        Registry::builder().definition_with(listed, runs).build().unwrap()
    };
    let says = [call("c1", "session/list", "{}"), Draft::assistant("two")];
    run(&agent_on(&repo, says, tools()), "which?");
    let all = tract_engine::plan::Selection::Range { from: None, to: None };
    block_on(repo.compress(&main_branch(), all, "there were two")).unwrap();
    let later = agent_on(&repo, [Draft::assistant("still two")], tools());
    assert_eq!(run(&later, "and now?").text, "still two");
}

/// Says something to the session, and lets others run before it ends.
#[tool]
async fn remember(what: String, context: &ToolContext) -> Result<String, ToolError> {
    context.publish(Seen(what))?;
    pause(40).await;
    Ok("kept".to_owned())
}

#[test]
fn two_runs_at_once_on_one_session_record_each_what_its_own_tools_remember() {
    let repo = fresh();
    let head = block_on(repo.append(&main_branch(), Draft::user("begin"))).unwrap().id();
    let shared = Session::new();
    let (mut branches, mut runs) = (Vec::new(), Vec::new());
    for name in ["a", "b"] {
        let branch = block_on(repo.create_branch(name, head)).unwrap();
        let arguments = format!(r#"{{"what":"{name}"}}"#);
        let says = [call("c1", "remember", &arguments), Draft::assistant("done")];
        let registry = Registry::builder().tool(Remember).build().unwrap();
        let agent =
            Agent::new(repo.clone(), branch.clone(), Script::new(says), registry).session(&shared);
        branches.push(branch);
        runs.push(async move { drop(agent.run("go").await.unwrap()) });
    }
    block_on(run_all(runs));
    for branch in branches {
        let own = format!(r#"["{}"]"#, branch.branch_name().unwrap());
        assert_eq!(slices(&repo, &branch)["seen"].as_str(), own, "{branch}");
    }
}

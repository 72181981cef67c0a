use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tract_core::{Draft, Op, RefName, block_on};
use tract_engine::Repo;
use tract_engine::plan::Request;
use tract_run::{Agent, load_session, stored_slices};
use tract_tools::CallContext as _;
use tract_tools::planning::{Plan, Planning, StepStatus};
use tract_tools::{
    EventType, Registry, Session, SessionItem, ToolContext, ToolError, ToolSpec, tool,
};

use crate::support::{
    Script, call, main_branch, memory, messages, pause, repo_on, run_all, tool_of,
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
async fn remembered(repo: &Repo, branch: RefName, says: Arc<Script>, word: &str) -> Session {
    let (own, registry) = session();
    let agent = Agent::new(repo.clone(), branch, says, registry).session(&own);
    agent.run(Some(Draft::user(word))).await.unwrap();
    own
}

#[test]
fn slices_live_on_the_branch() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a","b"]}"#)
                .call("c2", "notice", r#"{"what":"x","fails":false}"#)
                .call("c3", "notice", r#"{"what":"y","fails":true}"#),
            call("c4", "planning_update_step", r#"{"step_id":1,"status":"done"}"#),
            Draft::assistant("so far"),
        ]);
        let own = remembered(&repo, main_branch(), model, "go").await;
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        assert_eq!(messages(&repo).await.len(), 8, "no model sees what tools remember");

        let plan = own.latest::<Plan>().unwrap();
        assert_eq!(plan.steps[0].status, StepStatus::Done);
        let (other, _) = session();
        load_session(&repo, Some(head), &other).await.unwrap();
        assert_eq!(other.latest::<Plan>(), Some(plan));
        // A log keeps the events of a failed call.
        assert_eq!(*other.all::<Seen>().unwrap(), [Seen("x".into()), Seen("y".into())]);

        // One row for the plan, edited in place; a note for each event; how calls ended is kept
        // with their answers alone.
        let log = tract_engine::log(&repo, head, 99).await.unwrap().commits;
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
            commit.origin.id.as_deref() == Some("session/plan")
                && matches!(commit.op, Op::Edit { .. })
        });
        let before = edited.unwrap().parent();
        load_session(&repo, before, &other).await.unwrap();
        assert_eq!(other.latest::<Plan>().unwrap().steps[0].status, StepStatus::Pending);
        // A fork has its own, and another branch continues with what it finds.
        let fork = RefName::branch("fork").unwrap();
        repo.create_branch("fork", before.unwrap()).await.unwrap();
        let model = Script::new([
            call("c4", "planning_update_step", r#"{"step_id":2,"status":"in_progress"}"#),
            Draft::assistant("forked"),
        ]);
        let forked = remembered(&repo, fork, model, "the other one").await;
        let statuses: Vec<StepStatus> =
            forked.latest::<Plan>().unwrap().steps.iter().map(|step| step.status).collect();
        assert_eq!(statuses, [StepStatus::Pending, StepStatus::InProgress]);
        let unchanged = stored_slices(&repo, Some(head)).await.unwrap();
        assert!(unchanged["plan"].as_str().contains("done"));
    });
}

#[test]
fn changes_of_a_failed_call_are_not_on_the_branch() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"  "}"#),
            Draft::assistant("hm"),
        ]);
        remembered(&repo, main_branch(), model, "go").await;
        let head = repo.head_of(&main_branch()).await.unwrap();
        assert!(stored_slices(&repo, head).await.unwrap().is_empty());
    });
}

#[test]
fn a_summary_of_the_conversation_forgets_no_plan() {
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a"]}"#),
            Draft::assistant("planned"),
            call("c2", "planning_update_step", r#"{"step_id":1,"status":"in_progress"}"#),
            Draft::assistant("begun"),
        ]);
        remembered(&repo, main_branch(), model.clone(), "plan").await;
        let all = tract_engine::plan::Selection::Range { from: None, to: None };
        repo.compress(&main_branch(), all, "they planned").await.unwrap();
        let later = remembered(&repo_on(&store).await, main_branch(), model, "begin").await;
        let status = later.latest::<Plan>().unwrap().steps[0].status;
        assert_eq!(status, StepStatus::InProgress);
        let head = repo.head_of(&main_branch()).await.unwrap();
        assert!(stored_slices(&repo, head).await.unwrap()["plan"].as_str().contains("in_progress"));
    });
}

#[test]
fn a_tool_may_be_named_like_what_sessions_are_kept_under() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        // A server's own name for it is taken as it is.
        let listed = r#"{"name":"session/list","inputSchema":{"type":"object"}}"#;
        let tools = || {
            let spec = ToolSpec::new("session/list", "Lists.", r#"{"type":"object"}"#);
            let runs = tool_of(spec, |_, _| Ok("two sessions".to_owned()));
            Registry::builder().definition_with(listed, runs).build().unwrap()
        };
        let model = Script::new([call("c1", "session/list", "{}"), Draft::assistant("two")]);
        let agent = Agent::new(repo.clone(), main_branch(), model, tools());
        agent.run(Some(Draft::user("which?"))).await.unwrap();
        let all = tract_engine::plan::Selection::Range { from: None, to: None };
        repo.compress(&main_branch(), all, "there were two").await.unwrap();
        let model = Script::new([Draft::assistant("still two")]);
        let agent = Agent::new(repo.clone(), main_branch(), model, tools());
        let report = agent.run(Some(Draft::user("and now?"))).await.unwrap();
        assert_eq!(report.text, "still two");
    });
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
    block_on(async {
        let repo = repo_on(&memory()).await;
        repo.write_one(&main_branch(), Request::Append(Draft::user("begin"))).await.unwrap();
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        let shared = Session::new();
        let (mut branches, mut runs) = (Vec::new(), Vec::new());
        for name in ["a", "b"] {
            let branch = repo.create_branch(name, head).await.unwrap();
            let arguments = format!(r#"{{"what":"{name}"}}"#);
            let says = [call("c1", "remember", &arguments), Draft::assistant("done")];
            let registry = Registry::builder().tool(Remember).build().unwrap();
            let agent = Agent::new(repo.clone(), branch.clone(), Script::new(says), registry)
                .session(&shared);
            branches.push(branch);
            runs.push(async move { drop(agent.run(Some(Draft::user("go"))).await.unwrap()) });
        }
        run_all(runs).await;
        for branch in branches {
            let head = repo.head_of(&branch).await.unwrap();
            let slices = stored_slices(&repo, head).await.unwrap();
            let own = format!(r#"["{}"]"#, branch.branch_name().unwrap());
            assert_eq!(slices.get("seen").map(|seen| seen.as_str()), Some(&*own), "{branch}");
        }
    });
}

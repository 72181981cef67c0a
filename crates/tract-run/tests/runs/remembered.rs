use serde::{Deserialize, Serialize};
use tract_core::{Draft, Op, RefName, block_on};
use tract_engine::plan::Request;
use tract_run::{Agent, load_session, stored_slices};
use tract_tools::CallContext as _;
use tract_tools::planning::{Plan, Planning, StepStatus};
use tract_tools::{EventType, Registry, Session, SessionItem, ToolContext, ToolError, tool};

use crate::support::{Script, main_branch, memory, messages, repo_on};

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

fn call(id: &str, name: &str, arguments: &str) -> Draft {
    Draft::assistant("").call(id, name, arguments)
}

#[test]
fn slices_live_on_the_branch() {
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        let (own, registry) = session();
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a","b"]}"#)
                .call("c2", "notice", r#"{"what":"x","fails":false}"#)
                .call("c3", "notice", r#"{"what":"y","fails":true}"#),
            call("c4", "planning_update_step", r#"{"step_id":1,"status":"done"}"#),
            Draft::assistant("so far"),
        ]);
        let agent = Agent::new(repo.clone(), main_branch(), model, registry).session(&own);
        agent.run(Some(Draft::user("go"))).await.unwrap();
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
        let (forked, registry) = session();
        let model = Script::new([
            call("c4", "planning_update_step", r#"{"step_id":2,"status":"in_progress"}"#),
            Draft::assistant("forked"),
        ]);
        Agent::new(repo.clone(), fork.clone(), model, registry)
            .session(&forked)
            .run(Some(Draft::user("the other one")))
            .await
            .unwrap();
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
        let store = memory();
        let repo = repo_on(&store).await;
        let (own, registry) = session();
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"  "}"#),
            Draft::assistant("hm"),
        ]);
        let agent = Agent::new(repo.clone(), main_branch(), model, registry).session(&own);
        agent.run(Some(Draft::user("go"))).await.unwrap();
        let head = repo.head_of(&main_branch()).await.unwrap();
        assert!(stored_slices(&repo, head).await.unwrap().is_empty());
    });
}

#[test]
fn a_summary_of_the_conversation_forgets_no_plan() {
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        let (own, registry) = session();
        let model = Script::new([
            call("c1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a"]}"#),
            Draft::assistant("planned"),
            call("c2", "planning_update_step", r#"{"step_id":1,"status":"in_progress"}"#),
            Draft::assistant("begun"),
        ]);
        let agent = Agent::new(repo.clone(), main_branch(), model.clone(), registry).session(&own);
        agent.run(Some(Draft::user("plan"))).await.unwrap();
        let all = tract_engine::plan::Selection::Range { from: None, to: None };
        repo.compress(&main_branch(), all, "they planned").await.unwrap();
        let (later, registry) = session();
        let agent =
            Agent::new(repo_on(&store).await, main_branch(), model, registry).session(&later);
        agent.run(Some(Draft::user("begin"))).await.unwrap();
        let status = later.latest::<Plan>().unwrap().steps[0].status;
        assert_eq!(status, StepStatus::InProgress);
        let head = repo.head_of(&main_branch()).await.unwrap();
        assert!(stored_slices(&repo, head).await.unwrap()["plan"].as_str().contains("in_progress"));
    });
}

/// A tool that is named like what sessions are kept under.
struct SessionList;

#[async_trait::async_trait]
impl tract_tools::DynTool for SessionList {
    fn spec(&self) -> tract_tools::ToolSpec {
        tract_tools::ToolSpec::new("session/list", "Lists.", r#"{"type":"object"}"#)
    }

    async fn run(
        &self,
        _: &str,
        _: &ToolContext,
    ) -> Result<tract_tools::ToolResult<tract_tools::RenderedValue>, ToolError> {
        Ok(tract_tools::ToolResult::done("two sessions"))
    }
}

#[test]
fn a_tool_may_be_named_like_what_sessions_are_kept_under() {
    block_on(async {
        let store = memory();
        let repo = repo_on(&store).await;
        // A server's own name for it is taken as it is.
        let listed = r#"{"name":"session/list","inputSchema":{"type":"object"}}"#;
        let tools = || {
            let runs = std::sync::Arc::new(SessionList);
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
    context.publish(KeptItem(what))?;
    let mut pauses = 0;
    std::future::poll_fn(|task| {
        pauses += 1;
        task.waker().wake_by_ref();
        if pauses > 40 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    Ok("kept".to_owned())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptItem(String);
impl SessionItem for KeptItem {
    const NAME: &'static str = "kept";
}
impl EventType for KeptItem {
    const KIND: &'static str = "kept";
}

#[test]
fn two_runs_at_once_on_one_session_record_each_what_its_own_tools_remember() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        repo.write_one(&main_branch(), Request::Append(Draft::user("begin"))).await.unwrap();
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        let shared = Session::new();
        let mut runs = Vec::new();
        for name in ["a", "b"] {
            let branch = repo.create_branch(name, head).await.unwrap();
            let arguments = format!(r#"{{"what":"{name}"}}"#);
            let says = [call("c1", "remember", &arguments), Draft::assistant("done")];
            let registry = Registry::builder().tool(Remember).build().unwrap();
            let agent = Agent::new(repo.clone(), branch.clone(), Script::new(says), registry)
                .session(&shared);
            runs.push((branch, Box::pin(async move { agent.run(Some(Draft::user("go"))).await })));
        }
        let mut done = 0;
        std::future::poll_fn(|task| {
            for (place, (_, run)) in runs.iter_mut().enumerate() {
                if done & (1 << place) == 0
                    && let std::task::Poll::Ready(report) = run.as_mut().poll(task)
                {
                    report.unwrap();
                    done |= 1 << place;
                }
            }
            if done == 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        for (branch, _) in &runs {
            let head = repo.head_of(branch).await.unwrap();
            let slices = stored_slices(&repo, head).await.unwrap();
            let own = format!(r#"["{}"]"#, branch.branch_name().unwrap());
            assert_eq!(slices.get("kept").map(|kept| kept.as_str()), Some(&*own), "{branch}");
        }
    });
}

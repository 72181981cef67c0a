use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{AuthorKind, CommitId, Draft, JsonText, Op, Origin, RefName, block_on};
use tract_engine::Repo;
use tract_engine::plan::{Details, Request, Selection};
use tract_hooks::{Hooks, ToolResultAction, ToolResultReceived};
use tract_run::{Agent, OnResume, Report, Stop};
use tract_tools::{Registry, ToolContext, ToolError, tool};

use crate::support::{
    Look, Script, main_branch, memory, messages, poll_until, repo_on, texts, texts_on,
};

/// What has happened in the world.
#[derive(Default)]
struct SideEffects(AtomicUsize);

/// Never comes back, once it has had its effect.
#[tool]
async fn hang(context: &ToolContext) -> Result<String, ToolError> {
    context.resource::<SideEffects>()?.0.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

/// Has its effect.
#[tool]
async fn act(context: &ToolContext) -> Result<String, ToolError> {
    let before = context.resource::<SideEffects>()?.0.fetch_add(1, Ordering::SeqCst);
    Ok(format!("effect {}", before + 1))
}

fn agent(repo: Repo, branch: RefName, world: &Arc<SideEffects>, says: Vec<Draft>) -> Agent {
    let registry = Registry::builder().tool(Hang).tool(Act).tool(Look).build().unwrap();
    Agent::new(repo, branch, Script::new(says), registry)
        .context(ToolContext::new("").with_shared_resource(Arc::clone(world)))
}

/// Runs until the world has changed, as a process does that is killed then; returns what another
/// process finds.
async fn killed() -> (Repo, Arc<SideEffects>) {
    let (store, world) = (memory(), Arc::new(SideEffects::default()));
    let asks = Draft::assistant("").call("c1", "look", "{}").call("c2", "hang", "{}");
    let says = vec![asks.call("c3", "act", "{}")];
    let agent = agent(repo_on(&store).await, main_branch(), &world, says);
    let run = std::pin::pin!(agent.run(Some(Draft::user("go"))));
    poll_until(run, || world.0.load(Ordering::SeqCst) > 0).await;
    (repo_on(&store).await, world)
}

#[test]
fn started_calls_are_interrupted_and_others_not_executed() {
    block_on(async {
        let (repo, world) = killed().await;
        assert_eq!(messages(&repo).await.len(), 2, "nothing is answered yet");
        let sorry = vec![Draft::assistant("sorry")];
        let report = agent(repo.clone(), main_branch(), &world, sorry).run(None).await.unwrap();
        assert_eq!((report.stop, report.calls), (Stop::Answered, 3));
        let texts = texts(&messages(&repo).await);
        assert!(texts[2].starts_with("tool: not executed") && texts[2].ends_with("<c1! look>"));
        assert!(texts[3].starts_with("tool: interrupted, outcome unknown"), "{}", texts[3]);
        assert!(texts[4].starts_with("tool: not executed"), "it was not begun: {}", texts[4]);
        assert_eq!(world.0.load(Ordering::SeqCst), 1, "no effect is repeated");
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        let log = tract_engine::log(&repo, head, 99).await.unwrap().commits;
        let marks = log.iter().filter(|commit| {
            commit.op == Op::Note && commit.origin.id.as_deref() == Some("run/started")
        });
        assert_eq!(marks.count(), 1, "one mark for the call that was begun");
    });
}

#[test]
fn calls_without_an_effect_may_run_again() {
    block_on(async {
        let (repo, world) = killed().await;
        let report = agent(repo.clone(), main_branch(), &world, vec![Draft::assistant("ok")])
            .on_resume(OnResume::Run)
            .run(None)
            .await
            .unwrap();
        assert_eq!(report.stop, Stop::Answered);
        let texts = texts(&messages(&repo).await);
        assert_eq!(texts[2], "tool: seen <c1 look>");
        assert!(texts[3].contains("interrupted"), "{texts:?}");
        assert_eq!(texts[4], "tool: effect 2 <c3 act>", "it was not begun before");
        assert_eq!(world.0.load(Ordering::SeqCst), 2);
    });
}

/// Runs calls again on a branch of its own; returns what is said there, too.
async fn run_again(
    repo: &Repo,
    name: &str,
    from: CommitId,
    world: &Arc<SideEffects>,
) -> (Report, Vec<String>) {
    let branch = repo.create_branch(name, from).await.unwrap();
    let says = vec![Draft::assistant("again")];
    let agent = agent(repo.clone(), branch.clone(), world, says).on_resume(OnResume::Run);
    let report = agent.run(None).await.unwrap();
    (report, texts_on(repo, &branch).await)
}

/// Acts twice on `main`, under handlers; returns where the calls were asked for, too.
async fn acted(hooks: Hooks) -> (Repo, Arc<SideEffects>, CommitId) {
    let (repo, world) = (repo_on(&memory()).await, Arc::new(SideEffects::default()));
    let asks = Draft::assistant("").call("c1", "act", "{}").call("c2", "act", "{}");
    let says = vec![asks, Draft::assistant("acted")];
    let agent = agent(repo.with_hooks(hooks), main_branch(), &world, says);
    agent.run(Some(Draft::user("go"))).await.unwrap();
    assert_eq!(world.0.load(Ordering::SeqCst), 2);
    let call_message = messages(&repo).await[1].commit;
    (repo, world, call_message)
}

#[test]
fn a_fork_that_is_run_again_repeats_no_effect_whatever_handlers_made_of_the_answers() {
    let effects = ["tool: effect 1 <c1 act>", "tool: effect 2 <c2 act>"];
    let changes: Vec<(Hooks, [&str; 2])> = vec![
        (Hooks::new(), effects),
        (
            Hooks::new().on("short", |event: &ToolResultReceived| match event.call_id.as_str() {
                "c1" => ToolResultAction::edit("in short"),
                _ => ToolResultAction::Reject("a secret".into()),
            }),
            ["tool: in short <c1 act>", "tool: rejected: a secret <c2! act>"],
        ),
        // A handler approved it, and it reads as it came.
        (Hooks::new().on("look", |_: &ToolResultReceived| ToolResultAction::Approve), effects),
    ];
    for (hooks, answers) in changes {
        block_on(async {
            let (repo, world, call_message) = acted(hooks).await;
            assert_eq!(texts(&messages(&repo).await)[2..4], answers);
            // What the tools said is given again; here no handler changes it.
            let (report, again) = run_again(&repo, "again", call_message, &world).await;
            assert_eq!((report.stop, report.calls), (Stop::Answered, 2));
            assert_eq!(again[2..4], effects);
            assert_eq!(world.0.load(Ordering::SeqCst), 2, "no effect is repeated");
        });
    }
}

#[test]
fn a_call_that_was_summarized_since_is_not_repeated() {
    block_on(async {
        let (repo, world, call_message) = acted(Hooks::new()).await;
        let all = Selection::Range { from: None, to: None };
        repo.compress(&main_branch(), all, "they acted twice").await.unwrap();
        assert_eq!(texts(&messages(&repo).await).len(), 1, "nothing but the summary is shown");
        let (_, again) = run_again(&repo, "again", call_message, &world).await;
        assert_eq!(again[2..4], ["tool: effect 1 <c1 act>", "tool: effect 2 <c2 act>"]);
        assert_eq!(world.0.load(Ordering::SeqCst), 2, "no effect is repeated");
    });
}

#[test]
fn a_branch_that_has_not_the_message_has_no_say() {
    block_on(async {
        let (repo, world, call_message) = acted(Hooks::new()).await;
        let before = messages(&repo).await[0].commit;
        let other = repo.create_branch("other", before).await.unwrap();
        let details = Details {
            origin: Origin { id: Some("run/started".to_owned()), ..AuthorKind::Tool.into() },
            ..Details::default()
        };
        let content = Some(JsonText::new(r#"{"of":"another program"}"#).unwrap());
        repo.write_one(&other, Request::Note { content, details }).await.unwrap();
        run_again(&repo, "again", call_message, &world).await;
        assert_eq!(world.0.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_fork_of_a_fork_knows_what_happened_before_both() {
    block_on(async {
        let (repo, world, call_message) = acted(Hooks::new()).await;
        let (_, again) = run_again(&repo, "again", call_message, &world).await;
        repo.checkout("again").await.unwrap();
        repo.delete_branch("main").await.unwrap();
        assert_eq!(run_again(&repo, "third", call_message, &world).await.1, again);
        assert_eq!(world.0.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_call_started_on_another_branch_is_not_run_again() {
    block_on(async {
        let (repo, world) = killed().await;
        let call_message = messages(&repo).await[1].commit;
        let (_, texts) = run_again(&repo, "fork", call_message, &world).await;
        assert_eq!(texts[2], "tool: seen <c1 look>", "looking has no effect");
        let line = &texts[3];
        assert!(line.starts_with("tool: interrupted, outcome unknown: "), "{line}");
        assert!(line.contains("another branch"), "{line}");
        assert_eq!(texts[4], "tool: effect 2 <c3 act>", "it was not begun before");
        assert_eq!(world.0.load(Ordering::SeqCst), 2, "no effect is repeated");
        // What the fork was answered is what a third branch is answered.
        run_again(&repo, "third", call_message, &world).await;
        assert_eq!(world.0.load(Ordering::SeqCst), 2);
    });
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{Draft, Op, Store, block_on};
use tract_run::{Agent, OnResume, Stop};
use tract_tools::{Registry, ToolContext, ToolError, tool};

use crate::support::{Script, main_branch, memory, messages, repo_on, said};

/// What has happened in the world.
#[derive(Default)]
struct World(AtomicUsize);

/// Never comes back, once it has had its effect.
#[tool]
async fn hang(context: &ToolContext) -> Result<String, ToolError> {
    context.resource::<World>()?.0.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

/// Has its effect.
#[tool]
async fn act(context: &ToolContext) -> Result<String, ToolError> {
    let before = context.resource::<World>()?.0.fetch_add(1, Ordering::SeqCst);
    Ok(format!("effect {}", before + 1))
}

/// Looks.
#[tool(read_only)]
async fn look() -> &'static str {
    "seen"
}

fn agent(repo: tract_engine::Repo, world: &Arc<World>, says: Vec<Draft>) -> Agent {
    let registry = Registry::builder().tool(Hang).tool(Act).tool(Look).build().unwrap();
    Agent::new(repo, main_branch(), Script::new(says), registry)
        .context(ToolContext::new("").with_shared_resource(Arc::clone(world)))
}

/// Runs until the world has changed, as a process does that is killed then.
async fn killed(store: &Arc<dyn Store>, world: &Arc<World>, says: Draft) {
    let agent = agent(repo_on(store).await, world, vec![says]);
    let run = agent.run(Some(Draft::user("go")));
    let mut run = std::pin::pin!(run);
    std::future::poll_fn(|context| {
        let polled = run.as_mut().poll(context);
        assert!(polled.is_pending(), "it hangs");
        match world.0.load(Ordering::SeqCst) {
            0 => std::task::Poll::Pending,
            _ => std::task::Poll::Ready(()),
        }
    })
    .await;
}

fn asks() -> Draft {
    Draft::assistant("").call("c1", "look", "{}").call("c2", "hang", "{}").call("c3", "hang", "{}")
}

#[test]
fn what_had_started_is_interrupted_and_what_had_not_is_not_executed() {
    block_on(async {
        let (store, world) = (memory(), Arc::new(World::default()));
        killed(&store, &world, asks()).await;
        let repo = repo_on(&store).await;
        assert_eq!(messages(&repo).await.len(), 2, "nothing is answered yet");
        let report =
            agent(repo.clone(), &world, vec![Draft::assistant("sorry")]).run(None).await.unwrap();
        assert_eq!((report.stop, report.calls), (Stop::Answered, 3));
        let said = said(&messages(&repo).await);
        assert!(said[2].starts_with("tool: not executed") && said[2].ends_with("<c1! look>"));
        for line in &said[3..5] {
            // Both were marked in the one write before the first of them ran.
            assert!(line.starts_with("tool: interrupted, outcome unknown"), "{line}");
        }
        assert_eq!(world.0.load(Ordering::SeqCst), 1, "no effect is repeated");
        let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
        let log = tract_engine::log(&repo, head, 99).await.unwrap().commits;
        let marks = log.iter().filter(|commit| {
            commit.op == Op::Note && commit.origin.id.as_deref() == Some("run/started")
        });
        assert_eq!(marks.count(), 1, "one mark for the turn");
    });
}

#[test]
fn what_cannot_have_had_an_effect_may_run_again() {
    block_on(async {
        let (store, world) = (memory(), Arc::new(World::default()));
        killed(&store, &world, asks()).await;
        let repo = repo_on(&store).await;
        let report = agent(repo.clone(), &world, vec![Draft::assistant("ok")])
            .on_resume(OnResume::Run)
            .run(None)
            .await
            .unwrap();
        assert_eq!(report.stop, Stop::Answered);
        let said = said(&messages(&repo).await);
        assert_eq!(said[2], "tool: seen <c1 look>");
        assert!(said[3].contains("interrupted") && said[4].contains("interrupted"), "{said:?}");
        assert_eq!(world.0.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_fork_that_is_run_again_repeats_no_effect() {
    block_on(async {
        let (store, world) = (memory(), Arc::new(World::default()));
        let repo = repo_on(&store).await;
        let asks = Draft::assistant("").call("c1", "act", "{}").call("c2", "act", "{}");
        let says = vec![asks, Draft::assistant("acted")];
        agent(repo.clone(), &world, says).run(Some(Draft::user("go"))).await.unwrap();
        assert_eq!(world.0.load(Ordering::SeqCst), 2);
        let asked = messages(&repo).await[1].commit;
        let again = repo.create_branch("again", asked).await.unwrap();
        let registry = Registry::builder().tool(Act).build().unwrap();
        let model = Script::new([Draft::assistant("again")]);
        let report = Agent::new(repo.clone(), again.clone(), model, registry)
            .context(ToolContext::new("").with_shared_resource(Arc::clone(&world)))
            .on_resume(OnResume::Run)
            .run(None)
            .await
            .unwrap();
        assert_eq!((report.stop, report.calls), (Stop::Answered, 2));
        assert_eq!(world.0.load(Ordering::SeqCst), 2, "the recorded answers are given");
        let compiled = repo.compile(report.head).await.unwrap();
        let said = said(&compiled.messages().cloned().collect::<Vec<_>>());
        assert_eq!(said[2..4], ["tool: effect 1 <c1 act>", "tool: effect 2 <c2 act>"]);
    });
}

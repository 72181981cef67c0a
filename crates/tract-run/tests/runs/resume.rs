use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::{AuthorKind, CommitId, Draft, JsonText, Op, Origin, RefName, block_on};
use tract_engine::Repo;
use tract_engine::plan::{Details, Request, Selection};
use tract_hooks::{Hooks, ToolResultAction, ToolResultReceived};
use tract_run::{Agent, OnResume, Report, Stop};
use tract_tools::{Registry, ToolContext, ToolError, tool};

use crate::support::{
    Look, Script, call, commit_at, fresh, head, main_branch, poll_until, reopened, run, texts,
    texts_on,
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

/// A repository in which calls were asked for on `main`, and what they have done to the world.
struct Aftermath {
    repo: Repo,
    world: Arc<SideEffects>,
    call_message: CommitId,
}

impl Aftermath {
    fn of(repo: Repo, world: Arc<SideEffects>) -> Self {
        Self { call_message: commit_at(&repo, 1), repo, world }
    }

    /// Continues `main` with an agent that has nothing more to ask for.
    fn resume(&self, on_resume: OnResume) -> Report {
        let says = vec![Draft::assistant("sorry")];
        let agent = agent(self.repo.clone(), main_branch(), &self.world, says);
        run(&agent.on_resume(on_resume), None)
    }

    /// Runs the calls again on a branch of its own; returns what is said there, too.
    fn run_again(&self, name: &str) -> (Report, Vec<String>) {
        let branch = block_on(self.repo.create_branch(name, self.call_message)).unwrap();
        let says = vec![Draft::assistant("again")];
        let agent = agent(self.repo.clone(), branch.clone(), &self.world, says);
        let report = run(&agent.on_resume(OnResume::Run), None);
        (report, texts_on(&self.repo, &branch))
    }

    #[track_caller]
    fn has_effects(&self, count: usize) {
        assert_eq!(self.world.0.load(Ordering::SeqCst), count, "no effect is repeated");
    }
}

/// Runs until the world has changed, as a process does that is killed then; returns what another
/// process finds.
fn killed() -> Aftermath {
    let (repo, world) = (fresh(), Arc::new(SideEffects::default()));
    let asks = call("c1", "look", "{}").call("c2", "hang", "{}").call("c3", "act", "{}");
    let agent = agent(repo.clone(), main_branch(), &world, vec![asks]);
    let run = std::pin::pin!(agent.run("go"));
    block_on(poll_until(run, || world.0.load(Ordering::SeqCst) > 0));
    Aftermath::of(reopened(&repo), world)
}

/// Acts twice on `main`, under handlers.
fn acted(hooks: Hooks) -> Aftermath {
    let (repo, world) = (fresh(), Arc::new(SideEffects::default()));
    let asks = call("c1", "act", "{}").call("c2", "act", "{}");
    let says = vec![asks, Draft::assistant("acted")];
    run(&agent(repo.with_hooks(hooks), main_branch(), &world, says), "go");
    let acted = Aftermath::of(repo, world);
    acted.has_effects(2);
    acted
}

#[test]
fn started_calls_are_interrupted_and_others_not_executed() {
    let killed = killed();
    assert_eq!(texts(&killed.repo).len(), 2, "nothing is answered yet");
    let report = killed.resume(OnResume::default());
    assert_eq!((report.stop, report.calls), (Stop::Answered, 3));
    let texts = texts(&killed.repo);
    assert!(texts[2].starts_with("tool: not executed") && texts[2].ends_with("<c1! look>"));
    assert!(texts[3].starts_with("tool: interrupted, outcome unknown"), "{}", texts[3]);
    assert!(texts[4].starts_with("tool: not executed"), "it was not begun: {}", texts[4]);
    killed.has_effects(1);
    let log = block_on(tract_engine::log(&killed.repo, head(&killed.repo), 99)).unwrap().commits;
    let marks = log.iter().filter(|commit| {
        commit.op == Op::Note && commit.origin.id.as_deref() == Some("run/started")
    });
    assert_eq!(marks.count(), 1, "one mark for the call that was begun");
}

#[test]
fn calls_without_an_effect_may_run_again() {
    let killed = killed();
    assert_eq!(killed.resume(OnResume::Run).stop, Stop::Answered);
    let texts = texts(&killed.repo);
    assert_eq!(texts[2], "tool: seen <c1 look>");
    assert!(texts[3].contains("interrupted"), "{texts:?}");
    assert_eq!(texts[4], "tool: effect 2 <c3 act>", "it was not begun before");
    killed.has_effects(2);
}

const EFFECTS: [&str; 2] = ["tool: effect 1 <c1 act>", "tool: effect 2 <c2 act>"];

#[test]
fn a_fork_that_is_run_again_repeats_no_effect_whatever_handlers_made_of_the_answers() {
    let changes: Vec<(Hooks, [&str; 2])> = vec![
        (Hooks::new(), EFFECTS),
        (
            Hooks::new().on("short", |event: &ToolResultReceived| match event.call_id.as_str() {
                "c1" => ToolResultAction::edit("in short"),
                _ => ToolResultAction::Reject("a secret".into()),
            }),
            ["tool: in short <c1 act>", "tool: rejected: a secret <c2! act>"],
        ),
        // A handler approved it, and it reads as it came.
        (Hooks::new().on("look", |_: &ToolResultReceived| ToolResultAction::Approve), EFFECTS),
    ];
    for (hooks, answers) in changes {
        let acted = acted(hooks);
        assert_eq!(texts(&acted.repo)[2..4], answers);
        // What the tools said is given again; here no handler changes it.
        let (report, again) = acted.run_again("again");
        assert_eq!((report.stop, report.calls), (Stop::Answered, 2));
        assert_eq!(again[2..4], EFFECTS);
        acted.has_effects(2);
    }
}

#[test]
fn a_call_that_was_summarized_since_is_not_repeated() {
    let acted = acted(Hooks::new());
    let all = Selection::Range { from: None, to: None };
    block_on(acted.repo.compress(&main_branch(), all, "they acted twice")).unwrap();
    assert_eq!(texts(&acted.repo).len(), 1, "nothing but the summary is shown");
    assert_eq!(acted.run_again("again").1[2..4], EFFECTS);
    acted.has_effects(2);
}

#[test]
fn a_branch_that_has_not_the_message_has_no_say() {
    let acted = acted(Hooks::new());
    let other = block_on(acted.repo.create_branch("other", commit_at(&acted.repo, 0))).unwrap();
    let details = Details {
        origin: Origin { id: Some("run/started".to_owned()), ..AuthorKind::Tool.into() },
        ..Details::default()
    };
    let content = Some(JsonText::new(r#"{"of":"another program"}"#).unwrap());
    block_on(acted.repo.write_one(&other, Request::Note { content, details })).unwrap();
    acted.run_again("again");
    acted.has_effects(2);
}

#[test]
fn a_fork_of_a_fork_knows_what_happened_before_both() {
    let acted = acted(Hooks::new());
    let (_, again) = acted.run_again("again");
    block_on(acted.repo.checkout("again")).unwrap();
    block_on(acted.repo.delete_branch("main")).unwrap();
    assert_eq!(acted.run_again("third").1, again);
    acted.has_effects(2);
}

#[test]
fn a_call_started_on_another_branch_is_not_run_again() {
    let killed = killed();
    let (_, texts) = killed.run_again("fork");
    assert_eq!(texts[2], "tool: seen <c1 look>", "looking has no effect");
    let line = &texts[3];
    assert!(line.starts_with("tool: interrupted, outcome unknown: "), "{line}");
    assert!(line.contains("another branch"), "{line}");
    assert_eq!(texts[4], "tool: effect 2 <c3 act>", "it was not begun before");
    killed.has_effects(2);
    // What the fork was answered is what a third branch is answered.
    killed.run_again("third");
    killed.has_effects(2);
}

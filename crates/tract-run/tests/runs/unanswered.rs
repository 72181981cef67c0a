//! A tool that was started and gave no answer may have run: the model reads it, and so do forks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tract_core::{
    CancellationToken, Draft, DynTool, RefName, ToolContext, ToolError, ToolResult, ToolSpec,
    ToolTraits, block_on,
};
use tract_run::{Agent, OnResume};
use tract_tools::Registry;
use tract_tools::dispatch::DispatchOptions;
use tract_tools::typed::ClosureTool;

use crate::support::{Script, call, commit_at, fresh, main_branch, run, texts, texts_on};

/// Why a started tool gives no answer.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Panic,
    OwnTime,
    Deadline,
    LostConnection,
    UnreadableResult,
    CancelledPolitely,
    CancelledWhileItHangs,
    OwnTimeWhileItHangs,
}

const CAUSES: [Cause; 8] = [
    Cause::Panic,
    Cause::OwnTime,
    Cause::Deadline,
    Cause::LostConnection,
    Cause::UnreadableResult,
    Cause::CancelledPolitely,
    Cause::CancelledWhileItHangs,
    Cause::OwnTimeWhileItHangs,
];

async fn end(
    cause: Cause,
    context: ToolContext,
    token: CancellationToken,
) -> Result<(), ToolError> {
    match cause {
        Cause::Panic => panic!("it broke"),
        Cause::OwnTime | Cause::Deadline => Err(ToolError::deadline_exceeded("no time left")),
        Cause::LostConnection => Err(ToolError::other("the server ended").outcome_unknown()),
        Cause::UnreadableResult => Err(ToolError::type_error("expected a number")),
        Cause::CancelledPolitely => {
            token.cancel();
            context.check()
        }
        Cause::CancelledWhileItHangs => {
            token.cancel();
            std::future::pending().await
        }
        Cause::OwnTimeWhileItHangs => std::future::pending().await,
    }
}

fn registry(
    cause: Cause,
    traits: ToolTraits,
    token: &CancellationToken,
    runs: &Arc<AtomicUsize>,
) -> Registry {
    let (token, runs) = (token.clone(), Arc::clone(runs));
    let spec = ToolSpec { traits, ..ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#) };
    let tool: Arc<dyn DynTool> = Arc::new(ClosureTool::new(spec, move |_, context| {
        runs.fetch_add(1, Ordering::SeqCst);
        let ended = end(cause, context, token.clone());
        async move { ended.await.map(|()| ToolResult::<()>::done("paid")) }
    }));
    Registry::builder().dyn_tool(tool).build().unwrap()
}

fn options(cause: Cause) -> DispatchOptions {
    let options = DispatchOptions { grace: Duration::from_millis(5), ..DispatchOptions::default() };
    match cause {
        Cause::OwnTime | Cause::OwnTimeWhileItHangs => {
            DispatchOptions { timeout: Some(Duration::from_millis(20)), ..options }
        }
        _ => options,
    }
}

#[test]
fn every_cause_is_reported_as_an_unknown_outcome_also_to_forks() {
    for cause in CAUSES {
        let (repo, token, runs) = (fresh(), CancellationToken::new(), Arc::default());
        let agent = |branch, token: CancellationToken, says| {
            let tools = registry(cause, ToolTraits::default(), &token, &runs);
            let agent = Agent::new(repo.clone(), branch, Script::new(says), tools);
            agent.cancellation(token).dispatch_options(options(cause))
        };
        let says = [call("c1", "pay", "{}"), Draft::assistant("done")];
        let _ = block_on(agent(main_branch(), token, says.to_vec()).run("pay"));
        let answer = &texts(&repo)[2];
        assert!(answer.contains("outcome unknown"), "{cause:?}: {answer}");
        assert!(answer.contains("it may have run: check"), "{cause:?}: {answer}");

        // A fork at the question, and one that may run calls that were left open.
        for (name, then) in [("answers", OnResume::Answer), ("runs", OnResume::Run)] {
            let fork = block_on(repo.create_branch(name, commit_at(&repo, 1))).unwrap();
            let says = vec![Draft::assistant("done")];
            let resumed = agent(fork.clone(), CancellationToken::new(), says).on_resume(then);
            run(&resumed, None);
            let answer = &texts_on(&repo, &fork)[2];
            assert!(answer.contains("may have run"), "{cause:?} on a fork that {name}: {answer}");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{cause:?}: it ran once");
    }
}

#[test]
fn a_fork_at_a_call_whose_answer_was_erased_continues_and_does_not_run_it_again() {
    for has_claims in [true, false] {
        let (repo, runs) = (fresh(), Arc::new(AtomicUsize::new(0)));
        let agent = |branch, says| {
            let runs = Arc::clone(&runs);
            let spec = ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#);
            let tool: Arc<dyn DynTool> = Arc::new(ClosureTool::new(spec, move |_, _| {
                runs.fetch_add(1, Ordering::SeqCst);
                async { Ok(ToolResult::<()>::done("paid for Alice")) }
            }));
            let tools = Registry::builder().dyn_tool(tool).build().unwrap();
            Agent::new(repo.clone(), branch, Script::new(says), tools)
        };
        let says = vec![call("c1", "pay", "{}"), Draft::assistant("done")];
        block_on(agent(main_branch(), says).run("pay")).unwrap();
        let (question, answer) = (commit_at(&repo, 1), commit_at(&repo, 2));
        if !has_claims {
            // As a store has it that was copied without what is outside of branches.
            for (name, _) in block_on(repo.documents("effects/")).unwrap() {
                let mut txn = tract_engine::Txn::new(&repo).unwrap();
                block_on(txn.move_ref(&name, None)).unwrap();
                let _ =
                    block_on(txn.apply("forget", &tract_engine::WriteOptions::default())).unwrap();
            }
        }
        // Another conversation, whose provider gives its calls the same ids.
        let other = RefName::branch("other").unwrap();
        let says = vec![call("c1", "pay", "{}"), Draft::assistant("done")];
        block_on(agent(other.clone(), says).run("pay for Alice, who had paid for Alice")).unwrap();
        runs.store(1, Ordering::SeqCst);
        let target = tract_engine::EraseTarget::Commit(answer);
        let request = tract_engine::EraseRequest::targets(vec![target], "a name");
        block_on(tract_engine::erase(&repo, &request)).unwrap();
        let mut answers: Vec<bool> = block_on(repo.documents("effects/"))
            .unwrap()
            .iter()
            .map(|(_, document)| {
                document.text().is_some_and(|text| text.contains("paid for Alice"))
            })
            .collect();
        answers.sort_unstable();
        let kept = if has_claims { vec![false, true] } else { vec![true] };
        assert_eq!(answers, kept, "the answer of the other conversation is its own");
        assert!(texts_on(&repo, &other)[2].contains("paid for Alice"));
        let fork = block_on(repo.create_branch("fork", question)).unwrap();
        let resumed = agent(fork.clone(), vec![Draft::assistant("done")]);
        run(&resumed, None);
        let texts = texts_on(&repo, &fork);
        assert!(texts[2].starts_with("tool: [erased: a name]"), "{has_claims}: {texts:?}");
        assert_eq!(texts[3], "assistant: done");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{has_claims}");
    }
}

#[test]
fn a_tool_that_only_reads_is_not_said_to_have_an_unknown_outcome() {
    for cause in CAUSES {
        let (repo, token, runs) = (fresh(), CancellationToken::new(), Arc::default());
        let tools = registry(cause, ToolTraits::READ_ONLY, &token, &runs);
        let says = [call("c1", "pay", "{}"), Draft::assistant("done")];
        let agent = Agent::new(repo.clone(), main_branch(), Script::new(says), tools);
        let agent = agent.cancellation(token).dispatch_options(options(cause));
        let _ = block_on(agent.run("pay"));
        let answer = &texts(&repo)[2];
        assert!(!answer.contains("may have run"), "{cause:?}: {answer}");
    }
}

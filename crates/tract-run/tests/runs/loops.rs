use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tract_core::{CancellationToken, Draft, Op, block_on};
use tract_run::{Agent, Progress, Stop, TurnEnd};
use tract_tools::budget::{Budget, BudgetTracker};
use tract_tools::dispatch::DispatchLimits;
use tract_tools::{Registry, ToolContext, ToolError, tool};

use crate::support::{
    Script, agent_on, call, fresh, head, main_branch, pause, run, run_all, texts,
};

/// Adds numbers.
#[tool(read_only)]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Fails.
#[tool]
async fn fail(panic: bool) -> Result<String, ToolError> {
    assert!(!panic, "on purpose");
    Err(ToolError::other("no luck").operator("ENOENT"))
}

/// Ends everything.
#[tool]
async fn abort() -> Result<String, ToolError> {
    Err(ToolError::evaluation("the desk is closed"))
}

fn tools() -> Registry {
    Registry::builder().tool(Add).tool(Fail).tool(Abort).build().unwrap()
}

#[test]
fn a_run_records_everything_it_does() {
    let repo = fresh();
    let model = Script::new([
        call("c1", "add", r#"{"a":1,"b":2}"#)
            .call("c2", "add", r#"{"a":"x"}"#)
            .call("c3", "fail", r#"{"panic":true}"#)
            .call("c4", "nothing", "{}"),
        Draft::assistant("3"),
    ]);
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let agent = Agent::new(repo.clone(), main_branch(), model.clone(), tools()).on_progress(
        move |progress| {
            let word = match progress {
                Progress::Asking { step, .. } => format!("asking {step}"),
                Progress::Replied { calls, .. } => format!("{calls} calls"),
                Progress::Answered(answered) => {
                    format!("{} {}", answered.call_id, answered.outcome)
                }
                Progress::Stopped(stop) => format!("stopped: {}", stop.code()),
                _ => return,
            };
            sink.lock().unwrap().push(word);
        },
    );
    let report = run(&agent, "1 + 2?");
    assert_eq!((report.stop, report.steps, report.calls), (Stop::Answered, 2, 4));
    assert_eq!((report.text.as_str(), report.usage.input_tokens), ("3", Some(20)));
    let texts = texts(&repo);
    assert_eq!(texts[0], "user: 1 + 2?");
    assert_eq!(texts[2], "tool: 3 <c1 add>");
    assert!(texts[3].ends_with("<c2! add>") && texts[3].contains("integer"), "{}", texts[3]);
    assert!(texts[4].ends_with("<c3! fail>") && !texts[4].contains("on purpose"), "{}", texts[4]);
    assert!(texts[5].ends_with("<c4! nothing>"), "{}", texts[5]);
    assert_eq!(texts[6], "assistant: 3");
    assert_eq!(
        *events.lock().unwrap(),
        [
            "asking 1",
            "4 calls",
            "c1 succeeded",
            "c2 invalid",
            "c3 panicked",
            "c4 invalid",
            "asking 2",
            "0 calls",
            "stopped: answered"
        ]
    );

    // What only operators read, and where arguments come from, is kept with each answer.
    let head = head(&repo);
    let log = block_on(tract_engine::log(&repo, head, 99)).unwrap();
    let answers: Vec<_> = log
        .commits
        .iter()
        .filter(|commit| matches!(commit.op, Op::Append { answers: Some(_), .. }))
        .collect();
    assert_eq!(answers.len(), 4);
    let batch = answers[0].batch;
    assert!(batch.is_some() && answers.iter().all(|answer| answer.batch == batch));
    for answer in &answers {
        let detail = answer.origin.detail.as_ref().unwrap().as_str();
        let provenance = answer.keeps[0];
        assert!(detail.contains(&provenance.to_hex()), "{detail}");
        let kept = block_on(repo.require_blob(provenance)).unwrap();
        assert!(kept.text().unwrap().contains("raw_arguments"));
    }
    assert!(
        answers.iter().any(|answer| {
            answer.origin.detail.as_ref().unwrap().as_str().contains("on purpose")
        }),
        "the operator reads what the panic said"
    );
    // The tools are those of the branch.
    assert_eq!(block_on(repo.tools_of(head)).unwrap().len(), 3);
    assert_eq!(model.offered(0).len(), 3);
}

#[test]
fn steps_budget_and_conditions_stop_a_run_that_can_continue() {
    let repo = fresh();
    let add = |id: &str| call(id, "add", r#"{"a":1,"b":1}"#);
    let model = Script::new([add("c1"), add("c2"), add("c3"), add("c4"), Draft::assistant("done")]);
    let agent = Agent::new(repo.clone(), main_branch(), model.clone(), tools());
    let one = run(&agent.clone().max_steps(1), "go");
    assert_eq!((one.stop, one.calls), (Stop::Steps(1), 1));
    let until = |word: &'static str| {
        move |turn: &tract_run::TurnDone| {
            turn.answers.iter().any(|answer| answer.call_id == word).then(|| word.to_owned())
        }
    };
    let condition = run(&agent.clone().stop_if(until("c2")), None);
    assert_eq!((condition.stop, condition.steps), (Stop::Condition("c2".into()), 1));
    let budget = Arc::new(
        BudgetTracker::new(Budget { total_tokens: Some(20), ..Budget::default() }).unwrap(),
    );
    let spent = run(&agent.clone().budget(budget), None);
    assert_eq!((spent.stop.code(), spent.steps), ("budget_exceeded", 2));
    assert_eq!(spent.estimated_tokens, 0, "the model reports them");
    assert_eq!(run(&agent, None).stop, Stop::Answered);
    assert_eq!(model.left(), 0);
    let again = run(&agent, None);
    assert_eq!((again.stop, again.steps), (Stop::Answered, 0), "it is a person's turn");
    assert_eq!(block_on(agent.turn()).unwrap_err().code(), "nothing_to_answer");
}

#[test]
fn a_call_that_ends_the_turn_leaves_no_call_open() {
    let repo = fresh();
    let asks = call("c1", "add", r#"{"a":1,"b":1}"#).call("c2", "abort", "{}");
    let says = [asks.call("c3", "add", r#"{"a":1,"b":1}"#), Draft::assistant("sorry")];
    let agent = agent_on(&repo, says, tools());
    let report = run(&agent, "go");
    match &report.stop {
        Stop::Ended { code, message, .. } => {
            assert_eq!(*code, "evaluation");
            assert!(message.contains("c2"), "{message}");
        }
        stop => panic!("{stop:?}"),
    }
    let texts = texts(&repo);
    assert_eq!(texts[2], "tool: 2 <c1 add>");
    assert!(texts[3].ends_with("<c2! abort>") && texts[4].ends_with("<c3! add>"), "{texts:?}");
    assert!(texts[4].contains("not executed"), "{}", texts[4]);
    assert_eq!(run(&agent, None).text, "sorry");
}

#[test]
fn a_cancelled_run_answers_what_was_asked_for() {
    let repo = fresh();
    let asks = call("c1", "add", r#"{"a":1,"b":1}"#).call("c2", "fail", r#"{"panic":false}"#);
    let agent = agent_on(&repo, [asks, Draft::assistant("later")], tools());
    let token = CancellationToken::new();
    let stop = token.clone();
    let cancelled = agent.clone().cancellation(token).on_progress(move |progress| {
        if matches!(progress, Progress::Replied { .. }) {
            stop.cancel();
        }
    });
    assert_eq!(run(&cancelled, "go").stop, Stop::Cancelled);
    let before = texts(&repo);
    assert_eq!(before.len(), 4, "both calls are answered: {before:?}");
    assert_eq!(run(&agent, None).text, "later");
}

#[test]
fn one_turn_at_a_time() {
    let repo = fresh();
    let says = [call("c1", "add", r#"{"a":2,"b":2}"#), Draft::assistant("4")];
    let agent = agent_on(&repo, says, tools());
    block_on(repo.append(&main_branch(), Draft::user("2 + 2?"))).unwrap();
    let first = block_on(agent.turn()).unwrap();
    assert!(matches!(first.end, TurnEnd::Called) && first.answers[0].text == "4");
    assert!(matches!(block_on(agent.turn()).unwrap().end, TurnEnd::Said));
    assert!(block_on(agent.turn()).is_err());
}

#[test]
fn without_an_answer_the_question_stays() {
    let repo = fresh();
    let error = block_on(agent_on(&repo, [], tools()).run("hello?")).unwrap_err();
    assert_eq!(error.code(), "model_error");
    assert_eq!(texts(&repo), ["user: hello?"]);
    assert_eq!(run(&agent_on(&repo, [Draft::assistant("hello")], tools()), None).text, "hello");
}

#[test]
fn agents_share_limits() {
    /// Waits for its turn a few times.
    #[tool]
    async fn slow(context: &ToolContext) -> Result<usize, ToolError> {
        let gauge = context.resource::<[AtomicUsize; 2]>()?;
        let now = gauge[0].fetch_add(1, Ordering::SeqCst) + 1;
        gauge[1].fetch_max(now, Ordering::SeqCst);
        pause(50).await;
        gauge[0].fetch_sub(1, Ordering::SeqCst);
        Ok(now)
    }
    for (most, expected) in [(1, 1), (2, 2), (9, 3)] {
        let gauge = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let limits = Arc::new(DispatchLimits::new(most));
        let run = |name: &'static str| {
            let (gauge, limits) = (Arc::clone(&gauge), Arc::clone(&limits));
            async move {
                let asks = call("c1", "slow", "{}").call("c2", "slow", "{}");
                let registry = Registry::builder().tool(Slow).build().unwrap();
                let agent = agent_on(&fresh(), [asks, Draft::assistant(name)], registry)
                    .context(ToolContext::new("").with_shared_resource(gauge))
                    .limits(limits);
                assert_eq!(agent.run("go").await.unwrap().text, name);
            }
        };
        block_on(run_all(["one", "two", "three"].map(run)));
        assert_eq!(gauge[1].load(Ordering::SeqCst), expected);
    }
}

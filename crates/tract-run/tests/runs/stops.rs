use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tract_core::{ChatModel, Draft, JsonText, ModelError, ModelRequest, Reply, StopReason};
use tract_engine::Repo;
use tract_run::{Agent, Stop};
use tract_tools::Registry;
use tract_tools::budget::{Budget, BudgetTracker};

use crate::support::{Look, Script, agent_on, call, fresh, main_branch, run, texts};

/// An agent without tools.
fn agent(repo: &Repo, says: impl IntoIterator<Item = Draft>) -> Agent {
    agent_on(repo, says, Registry::builder().build().unwrap())
}

fn reply(text: &str, reason: &str) -> Draft {
    let mut draft = Draft::assistant(text);
    draft.metadata = Some(JsonText::of(&serde_json::json!({ "stop_reason": reason })).unwrap());
    draft
}

#[test]
fn a_reply_that_was_cut_off_or_refused_is_no_answer_and_an_unknown_reason_is_reported() {
    for (reason, stop, unknown) in [
        ("max_tokens", Stop::Truncated, None),
        ("refusal", Stop::Refused, None),
        ("end_turn", Stop::Answered, None),
        ("stop_sequence", Stop::Answered, None),
        ("eos_token", Stop::Answered, Some("eos_token")),
        ("", Stop::Answered, None),
    ] {
        let repo = fresh();
        let report = run(&agent(&repo, [reply("half of", reason)]), "All of it.");
        assert_eq!((&report.stop, report.text.as_str()), (&stop, "half of"), "{reason}");
        assert_eq!(report.unknown_stop_reason.as_deref(), unknown, "{reason}");
        // Another process that continues from here reads the same.
        let report = run(&agent(&repo, []), None);
        assert_eq!(report.unknown_stop_reason.as_deref(), unknown, "{reason}");
        assert_eq!((report.stop, report.steps), (stop, 0), "{reason}");
    }
}

#[test]
fn a_paused_reply_is_sent_back_and_continued() {
    let replies = || [reply("searching", "pause_turn"), reply("found", "end_turn")];
    let (repo, model) = (fresh(), Script::new(replies()));
    let no_tools = Registry::builder().build().unwrap();
    let report = run(&Agent::new(repo.clone(), main_branch(), model.clone(), no_tools), "Look.");
    assert_eq!((&report.stop, report.steps), (&Stop::Answered, 2));
    assert_eq!(texts(&repo), ["user: Look.", "assistant: searching", "assistant: found"]);
    assert_eq!(model.read(1, 1), "searching", "it is sent back");

    // So it is by a process that continues after the first one ended.
    let (repo, [first, second]) = (fresh(), replies());
    assert_eq!(run(&agent(&repo, [first]).max_steps(1), "Look.").stop, Stop::Steps(1));
    let report = run(&agent(&repo, [second]), None);
    assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "found"));
}

/// A model whose replies end with this reason, and report no usage.
struct Cut(&'static str, Mutex<VecDeque<Draft>>);

#[async_trait]
impl ChatModel for Cut {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        let next = self.1.lock().unwrap().pop_front();
        let draft = next.ok_or_else(|| ModelError::other("the script is at its end"))?;
        let calls = draft.content.calls().count() > 0;
        let mut reply = Reply::new(draft.content);
        reply.stop_reason = match (calls, self.0) {
            (false, _) => Some(StopReason::EndTurn),
            (true, "max_tokens") => Some(StopReason::MaxTokens),
            (true, "refusal") => Some(StopReason::Refusal),
            _ => Some(StopReason::ToolUse),
        };
        Ok(reply)
    }
}

fn cut(reason: &'static str, calls: usize) -> Arc<Cut> {
    let calls = (0..calls).map(|n| call(&format!("c{n}"), "look", "{}"));
    Arc::new(Cut(reason, Mutex::new(calls.chain([Draft::assistant("done")]).collect())))
}

#[test]
fn calls_of_a_reply_that_was_cut_off_or_filtered_are_not_run() {
    for (reason, stop) in [("max_tokens", "answered"), ("refusal", "refused")] {
        let repo = fresh();
        let registry = Registry::builder().tool(Look).build().unwrap();
        let agent = Agent::new(repo.clone(), main_branch(), cut(reason, 1), registry);
        let report = run(&agent, "go");
        assert_eq!(report.stop.code(), stop, "{reason}");
        let answer = &texts(&repo)[2];
        assert!(answer.contains("not executed: the reply"), "{reason}: {answer}");
    }
}

#[test]
fn a_budget_of_tokens_holds_where_the_server_reports_none() {
    let repo = fresh();
    let registry = Registry::builder().tool(Look).build().unwrap();
    let budget = Arc::new(
        BudgetTracker::new(Budget { total_tokens: Some(60), ..Budget::default() }).unwrap(),
    );
    let agent = Agent::new(repo, main_branch(), cut("tool_use", 50), registry).budget(budget);
    let report = run(&agent, "go");
    assert_eq!(report.stop.code(), "budget_exceeded");
    assert!(report.steps < 20 && report.estimated_tokens > 60, "{report:?}");
}

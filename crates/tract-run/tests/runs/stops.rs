use tract_core::{Draft, JsonText};
use tract_engine::Repo;
use tract_run::{Agent, Stop};
use tract_tools::Registry;

use crate::support::{Script, agent_on, fresh, main_branch, run, texts};

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

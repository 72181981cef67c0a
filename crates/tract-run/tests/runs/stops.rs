use tract_core::{Draft, JsonText, block_on};
use tract_run::{Agent, Stop};
use tract_tools::Registry;

use crate::support::{Script, main_branch, memory, messages, repo_on, texts};

fn no_tools() -> Registry {
    Registry::builder().build().unwrap()
}

fn reply(text: &str, reason: &str) -> Draft {
    let mut draft = Draft::assistant(text);
    draft.metadata = Some(JsonText::of(&serde_json::json!({ "stop_reason": reason })).unwrap());
    draft
}

#[test]
fn a_reply_that_was_cut_off_or_refused_is_no_answer_and_an_unknown_reason_is_reported() {
    block_on(async {
        for (reason, stop, unknown) in [
            ("max_tokens", Stop::Truncated, None),
            ("refusal", Stop::Refused, None),
            ("end_turn", Stop::Answered, None),
            ("stop_sequence", Stop::Answered, None),
            ("eos_token", Stop::Answered, Some("eos_token")),
            ("", Stop::Answered, None),
        ] {
            let repo = repo_on(&memory()).await;
            let model = Script::new([reply("half of", reason)]);
            let agent = || Agent::new(repo.clone(), main_branch(), model.clone(), no_tools());
            let report = agent().run(Some(Draft::user("All of it."))).await.unwrap();
            assert_eq!((&report.stop, report.text.as_str()), (&stop, "half of"), "{reason}");
            assert_eq!(report.unknown_stop_reason.as_deref(), unknown, "{reason}");
            // Another process that continues from here reads the same.
            let report = agent().run(None).await.unwrap();
            assert_eq!(report.unknown_stop_reason.as_deref(), unknown, "{reason}");
            assert_eq!((report.stop, report.steps), (stop, 0), "{reason}");
        }
    });
}

#[test]
fn a_paused_reply_is_sent_back_and_continued() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        let model = Script::new([reply("searching", "pause_turn"), reply("found", "end_turn")]);
        let agent = Agent::new(repo.clone(), main_branch(), model.clone(), no_tools());
        let report = agent.run(Some(Draft::user("Look."))).await.unwrap();
        assert_eq!((&report.stop, report.steps), (&Stop::Answered, 2));
        assert_eq!(
            texts(&messages(&repo).await),
            ["user: Look.", "assistant: searching", "assistant: found"]
        );
        let sent_back = model.requests.lock().unwrap()[1].messages.last().unwrap().content.text();
        assert_eq!(sent_back, "searching");

        // So it is by a process that continues after the first one ended.
        let repo = repo_on(&memory()).await;
        let model = Script::new([reply("searching", "pause_turn"), reply("found", "end_turn")]);
        let agent = Agent::new(repo.clone(), main_branch(), model.clone(), no_tools());
        let report = agent.max_steps(1).run(Some(Draft::user("Look."))).await.unwrap();
        assert_eq!(report.stop, Stop::Steps(1));
        let agent = Agent::new(repo, main_branch(), model, no_tools());
        let report = agent.run(None).await.unwrap();
        assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "found"));
    });
}

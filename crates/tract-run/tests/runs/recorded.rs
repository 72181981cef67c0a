//! Recorded conversations, driven, killed and replayed.

pub(crate) mod kills;
pub(crate) mod points;
pub(crate) mod recording;
pub(crate) mod simulated;

use std::sync::Arc;

use tract_core::{Draft, block_on};
use tract_run::replay;

use self::kills::check;
use self::recording::airline;
use self::simulated::{Model, Setting, looks};
use crate::support::{main_branch, memory, messages, repo_on};

#[test]
fn recorded_conversations_run_to_what_was_recorded_and_replay() {
    for recording in airline(50) {
        block_on(async {
            let model = Arc::new(Model(Arc::clone(&recording)));
            let setting = Setting::new(memory(), model, &recording);
            setting.live_on().await;
            let repo = repo_on(&setting.store).await;
            check(&recording, &messages(&repo).await);
            let results = recording.messages.iter().flat_map(|message| &message.calls);
            let acted = results.clone().filter(|call| !looks(&call.name)).count();
            assert_eq!(setting.world.done().len(), acted, "each effect once");
            let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
            let replayed = replay(&repo, head).await.unwrap();
            assert_eq!(replayed.difference, None, "{}", recording.id);
            assert_eq!(replayed.messages, recording.messages.len());
            assert_eq!(replayed.calls, results.count());
        });
    }
}

#[test]
fn a_replay_names_the_first_difference() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        let tool = r#"{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}"#;
        let tool = tract_core::ToolSchema::parse(tool).unwrap();
        repo.set_tools(&main_branch(), vec![tool]).await.unwrap();
        let calls =
            Draft::assistant("").call("c1", "add", r#"{"a":1}"#).call("c2", "add", r#"{"a":"1"}"#);
        let drafts = [
            Draft::user("add"),
            calls,
            Draft::tool_result("c1", "1").tool_name("add"),
            // What took this call did not hold it against its schema.
            Draft::tool_result("c2", "1").tool_name("add"),
            Draft::assistant("2"),
        ];
        let made = repo.append_all(&main_branch(), drafts).await.unwrap();
        let replayed = replay(&repo, made[4].id()).await.unwrap();
        assert_eq!((replayed.messages, replayed.calls), (5, 2));
        let difference = replayed.difference.unwrap();
        assert_eq!((difference.message, difference.what), (4, "text"));
        assert_eq!(difference.commit, Some(made[3].id()));
        assert!(difference.found.contains("integer"), "{}", difference.found);
        // What came before is as it was.
        assert_eq!(replay(&repo, made[2].id()).await.unwrap().difference, None);
    });
}

//! Recorded conversations: what was said comes out as it went in, warm, cold and from a snapshot.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::{Snap, TestHistory, facts};
use tract_core::{CallRef, Content, Op, Priority, ToolSchema};
use tract_providers::ProviderConversation;
use tract_testkit::data;

#[test]
fn recorded_conversations_compile_as_they_were_said() {
    let mut conversations = 0;
    for line in data::lines(&data::find("trajectories").0) {
        let ProviderConversation { id, imported, .. } =
            ProviderConversation::read(&line, None).unwrap();
        let mut history = TestHistory::new();
        let schemas = imported.tools.unwrap_or_default();
        let schemas: Vec<&str> = schemas.iter().map(ToolSchema::text).collect();
        history.tools(&schemas);
        let mut recorded: Vec<Content> = Vec::new();
        let mut open: Vec<(String, CallRef)> = Vec::new();
        for content in imported.drafts.into_iter().map(|draft| draft.content) {
            let answers = match &content {
                Content::ToolResult(answer) => {
                    let at = open.iter().rposition(|(id, _)| *id == answer.call_id);
                    at.map(|at| open.remove(at).1)
                }
                _ => None,
            };
            let slot = history.append_with(content.clone(), answers, None);
            for (index, call) in content.calls().enumerate() {
                open.push((call.id.clone(), CallRef { slot, index: index as u32 }));
            }
            recorded.push(content);
        }
        let compiled = history.compile();
        let contents: Vec<Content> =
            compiled.messages().map(|message| message.content.clone()).collect();
        assert_eq!(contents, recorded, "{id:?}");
        let tools: Vec<&str> = compiled.tools().iter().map(|tool| &*tool.schema).collect();
        assert_eq!(tools, schemas);
        assert_eq!(facts(&history.cold(history.head)), facts(&compiled));

        // Half of it skipped, then a snapshot, then back again.
        let slots: Vec<_> = history.rows().iter().map(|row| row.slot).collect();
        let half: Vec<_> = slots.iter().copied().step_by(2).collect();
        let skip = history.annotate(&half, Priority::Skip);
        let record = history.record(Op::Note);
        history.write(record, &[], &[], Snap::Always);
        assert_eq!(history.cold(history.head).message_count(), slots.len() / 2);
        assert_eq!(facts(&history.cold(history.head)), facts(&history.compile()));
        if history.revert(skip).is_some() {
            assert_eq!(history.cold(history.head).view_id(), compiled.view_id());
        }
        conversations += 1;
    }
    assert!(conversations > 0, "some conversations are recorded");
    println!("{conversations} conversations");
}

//! Tool results under control: edit one, compress a batch, summarize automatically, look back.
//!
//! Run it with `cargo run -p tract --example tool_calling`. The summarizer here needs no model;
//! `tract::hooks::ModelSummarizer` takes any.
use std::collections::BTreeMap;

use tract::core::{ModelError, Summarizer, Summary, SummaryRequest};
use tract::engine::{CompressToolCalls, ToolQuery};
use tract::hooks::{Hooks, Summarize, ToolSummarization};
use tract::prelude::*;

/// Keeps the first line, and says how many more there were.
struct FirstLine;

#[async_trait::async_trait]
impl Summarizer for FirstLine {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        let mut lines = request.text.lines();
        let first = lines.next().unwrap_or_default();
        Ok(Summary {
            by: Some("first-line".to_owned()),
            ..Summary::new(format!("{first} (and {} lines more)", lines.count()))
        })
    }
}

pub(crate) fn main() -> tract::Result<()> {
    tract::block_on(async {
        let hooks = Hooks::new().summarizer(FirstLine);
        let tract = tract::open("memory:").await?.with_hooks(hooks);
        tract.user("Where is main, and what is next to it?").await?;
        let calls = Draft::assistant("").call("c1", "grep", r#"{"pattern":"main"}"#);
        tract.commit(calls.call("c2", "ls", r#"{"folder":"src"}"#)).await?;
        let grep = tract.tool_result("c1", listing("src/main.rs:", 40)).await?;
        tract.tool_result("c2", listing("src/file", 60)).await?;
        let before = tract.compile().await?.token_count().count;

        // One result, by hand: the original stays, and one revert shows it again.
        let edit = tract.turns().edit_result(&grep, "src/main.rs:7: fn main() {").await?;
        println!("edited: {}", tract.compile().await?.token_count().count);
        assert_eq!(
            tract.expand(&edit).await?.map(|content| content.text()),
            Some(listing("src/main.rs:", 40))
        );

        // All results of a tool, by the summarizer.
        let options = CompressToolCalls {
            query: ToolQuery::named(["ls"]),
            how: Summarize::to_tokens(20),
            ..CompressToolCalls::default()
        };
        let done = tract.compress_tool_calls(&options).await?;
        let after = tract.compile().await?.token_count().count;
        println!("compressed {} results: {before} tokens, now {after}", done.edits.len());
        for (result, why) in &done.left {
            println!("left {} as it is: {why}", result.short());
        }
        assert!(after < before);

        // From here on by itself, for all users of this repository.
        let config = ToolSummarization {
            instructions: BTreeMap::from([("grep".to_owned(), "keep paths".to_owned())]),
            auto_threshold: Some(50),
            ..ToolSummarization::default()
        };
        tract.repo().configure_tool_summarization(Some(&config)).await?;
        tract.commit(Draft::assistant("").call("c3", "cat", "{}")).await?;
        let cat = tract.tool_result("c3", listing("line", 200)).await?;
        let record = tract.decision_on(&cat).await?.expect("the rule decided");
        println!(
            "{} by {:?}: {:?} tokens before",
            record.action, record.handler, record.tokens_before
        );

        // What happened, turn by turn.
        for turn in tract.turns().find(&ToolQuery::default()).await? {
            println!(
                "{} {} {} tok",
                turn.call.short(),
                turn.tool_names.join(", "),
                turn.total_tokens()
            );
        }
        let results = tract.turns().find_results(&ToolQuery::default()).await?;
        assert_eq!(results.len(), 3, "edits are no further results");
        Ok(())
    })
}

fn listing(line: &str, count: usize) -> String {
    (1..=count).map(|n| format!("{line}{n}\n")).collect()
}

//! The handle, as programs use it.
#![cfg(feature = "engine")]
#![forbid(unsafe_code)]

use std::sync::Arc;

use tract::prelude::*;
use tract::{OpenOptions, block_on};

fn run<F: Future<Output = tract::Result<()>>>(test: F) {
    if let Err(error) = block_on(test) {
        panic!("{error:?}");
    }
}

#[test]
fn handles_and_their_futures_go_anywhere() {
    fn goes<T: Clone + Send + Sync + 'static>() {}
    fn sends<T: Send>(value: T) -> T {
        value
    }
    goes::<Tract>();
    run(async {
        let tract = sends(tract::open("memory:")).await?;
        sends(tract.user("Hi")).await?;
        sends(tract.compile()).await?;
        sends(tract.diff("HEAD", "HEAD")).await?;
        sends(tract.verify()).await?;
        sends(tract.undo()).await?;
        Ok(())
    });
}

#[test]
fn a_handle_keeps_its_branch() {
    run(async {
        let store = Arc::new(tract::core::memory());
        let tract = OpenOptions::new().open_store(Arc::clone(&store)).await?;
        let first = tract.user("Do I need a coat in Paris?").await?;
        let lyon = tract.fork("lyon", &first).await?;
        tract.checkout("lyon").await?;
        tract.assistant("Yes.").await?;
        assert_eq!((tract.branch_name(), lyon.branch_name()), ("main", "lyon"));
        // HEAD in text is the handle's own branch, regardless of the stored one.
        assert_ne!(tract.resolve("HEAD").await?, lyon.resolve("HEAD").await?);
        assert_eq!(tract.resolve("HEAD~1").await?, first.id());
        // The stored one is where opening begins.
        let later = OpenOptions::new().create(false).open_store(store).await?;
        assert_eq!(later.branch_name(), "lyon");
        Ok(())
    });
}

#[test]
fn repositories_are_apart_and_made_on_demand() {
    run(async {
        let store = Arc::new(tract::core::memory());
        let a = OpenOptions::new().repo("a").open_store(Arc::clone(&store)).await?;
        let message = a.user("Hi").await?;
        let absent =
            OpenOptions::new().repo("b").create(false).open_store(Arc::clone(&store)).await;
        assert_eq!(absent.expect_err("there is no b").code(), "no_repo");
        let b = OpenOptions::new().repo("b").open_store(store).await?;
        assert_eq!(b.head().await?, None);
        assert_eq!(b.compile().await?.message_count(), 0);
        let error = b.resolve(message.id().to_hex()).await.expect_err("it is a's");
        assert_eq!(error.code(), "unknown_revision");
        Ok(())
    });
}

#[test]
fn tools_come_in_any_shape_and_are_kept() {
    run(async {
        let tract = tract::open("memory:").await?;
        let text = r#"{ "name": "b", "input_schema": {"type": "object"} }"#;
        tract.set_tools([text]).await?;
        assert_eq!(&*tract.tools().in_force().await?[0].schema, text);
        let value = serde_json::json!({"type": "function", "function": {"name": "a"}});
        let set = tract.set_tools([value]).await?;
        assert_eq!(tract.tools().own(&set).await?[0].name, "a");
        let diff = tract.tools().diff("main~1", "main").await?;
        assert_eq!(diff.changes.len(), 2);
        tract.set_tools(Vec::<&str>::new()).await?;
        assert!(tract.tools().in_force().await?.is_empty());
        tract.set_tools([text]).await?;
        tract.tools().clear().await?;
        assert!(tract.tools().in_force().await?.is_empty(), "they are cleared");
        assert_eq!(tract.tools().history("a").await?.len(), 1);
        let error = tract.set_tools(["[]"]).await.expect_err("a list is no schema");
        assert_eq!(error.code(), "invalid_json");
        Ok(())
    });
}

#[test]
fn a_commit_reports_only_tools_that_it_was_given() {
    run(async {
        let names = |tools: Vec<tract::core::ActiveTool>| -> Vec<String> {
            tools.into_iter().map(|tool| tool.name).collect()
        };
        let tract = tract::open("memory:").await?;
        let schema = tract::ToolSchema::parse(r#"{"name":"a"}"#)?;
        let given = tract.commit(Draft::user("given").tools(vec![schema])).await?;
        let after = tract.user("after").await?;
        assert_eq!(names(tract.tools().own(&given).await?), ["a"]);
        assert!(tract.tools().own(&after).await?.is_empty());
        // They stay in force, for nothing was set to come back.
        assert_eq!(names(tract.tools().at(&after).await?), ["a"]);
        assert_eq!(tract.compile().await?.tools().len(), 1);

        tract.set_tools([r#"{"name":"b"}"#]).await?;
        let after = tract.user("after a set").await?;
        assert_eq!(names(tract.tools().own(&after).await?), ["b"]);
        Ok(())
    });
}

#[test]
fn a_stream_is_all_or_nothing() {
    use tract::core::stream::StreamOp;
    run(async {
        let tract = tract::open("memory:").await?;
        let steps = |lines: &[&str]| -> tract::Result<Vec<StreamOp>> {
            lines.iter().map(|line| Ok(StreamOp::parse(line)?)).collect()
        };
        let good =
            steps(&[r#"{"op":"user","text":"Hi"}"#, r#"{"op":"assistant","text":"Hello"}"#])?;
        assert_eq!(tract.apply(&good).await?.len(), 2);
        let bad = steps(&[r#"{"op":"user","text":"x"}"#, r#"{"op":"revert","target":"nowhere"}"#])?;
        let error = tract.apply(&bad).await.expect_err("nothing has that name");
        assert_eq!(
            (error.code(), error.to_string().contains("line 2")),
            ("unknown_revision", true)
        );
        assert_eq!(tract.compile().await?.message_count(), 2);
        Ok(())
    });
}

#[test]
fn hooks_are_asked_by_the_handle_that_has_them() {
    use tract::hooks::{BeforeCommit, CommitAction, Hooks};
    run(async {
        let tract = tract::open("memory:").await?;
        let hooks = Hooks::new().on("no-keys", |commit: &BeforeCommit| {
            if commit.draft.content.text().contains("sk-") {
                CommitAction::Reject("it holds a key".into())
            } else {
                CommitAction::Pass
            }
        });
        let guarded = tract.with_hooks(hooks);
        assert!(guarded.user("my key is sk-123").await.is_err());
        guarded.user("Hi").await?;
        tract.user("my key is sk-123").await?;
        assert_eq!(tract.compile().await?.message_count(), 2);
        Ok(())
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_keeps_what_was_committed() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("deep/agent.db").display());
        let absent = OpenOptions::new().create(false).open(&url).await;
        assert_eq!(absent.expect_err("there is no file").code(), "no_store");
        let head = tract::open(&url).await?.user("Hi").await?.id();
        assert_eq!(tract::open(&url).await?.head().await?, Some(head));
        Ok(())
    });
}

/// Counts a token for each letter.
struct Letters;

impl tract::core::TokenCounter for Letters {
    fn name(&self) -> &str {
        "letters"
    }

    fn count(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
}

#[test]
fn tokens_are_counted_by_the_counter_that_was_set() {
    run(async {
        let counted = async |options: OpenOptions| {
            let tract = options.open("memory:").await?;
            tract.user("one hundred and one").await?;
            Ok::<_, tract::Error>(tract.compile().await?.token_count().count)
        };
        let estimated = counted(OpenOptions::new()).await?;
        let exact = counted(OpenOptions::new().counter(Arc::new(Letters))).await?;
        assert!(exact >= 19 && exact > estimated, "{exact} {estimated}");
        Ok(())
    });
}

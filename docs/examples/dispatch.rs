use std::sync::Arc;

use tract::tools::dispatch::{DispatchOptions, Dispatcher, Outcome, Turn};
use tract::tools::fs::{Filesystem, FsPath, MemoryFs, add_fs_tools, bind};
use tract::tools::policy::{ApprovalRequired, ReadBeforeWrite};
use tract::tools::resource::Resources;
use tract::tools::{Call, CallContext, Registry, ToolContext, ToolError, tool};

/// Moves a file to the archive.
#[tool]
async fn archive(path: String, context: &ToolContext) -> Result<String, ToolError> {
    let files = context.filesystem()?;
    let kept = files.read(&FsPath::parse(&path)?)?;
    files.write(&FsPath::parse("archive")?, &kept)?;
    Err(ToolError::other("the shelf is full").operator("shelf 7 of 7"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFs::of([("notes", "milk")])?);
    let registry = add_fs_tools(Registry::builder()).tool(Archive).build()?;
    let dispatcher = Dispatcher {
        policies: vec![
            Arc::new(ReadBeforeWrite::of_fs_tools(files.clone())),
            Arc::new(ApprovalRequired::of_destructive()),
        ],
        options: DispatchOptions { concurrent: 4, ..DispatchOptions::default() },
        ..Dispatcher::new(Arc::new(registry))
    };
    let resources = Resources::builder().bind(bind(files.clone())).build()?;
    let turn = Turn { resources: Some(Arc::new(resources)), ..Turn::default() };

    // The calls of a turn: from a reply (`&reply`), from content, or written out.
    let calls = [
        Call::new("c1", "fs_write", r#"{"path":"notes","text":"eggs"}"#),
        Call::new("c2", "fs_read", r#"{"path":"./notes"}"#),
        Call::new("c3", "fs_write", r#"{"path":"notes","text":"eggs"}"#),
        Call::new("c4", "archive", r#"{"path":"notes"}"#),
        Call::new("c5", "fs_remove", r#"{"path":"notes"}"#),
    ];
    let done = dispatcher.run(&calls[..], &turn).await;
    let outcomes: Vec<Outcome> = done.answers.iter().map(|answer| answer.outcome()).collect();
    use Outcome::{Deferred, Denied, Failed, Succeeded};
    assert_eq!(outcomes, [Denied, Succeeded, Succeeded, Failed, Deferred]);

    // The model reads what went wrong, the operator why, and the write of `archive` is undone.
    assert_eq!(done.answers[3].text, "tool \"archive\" failed: the shelf is full");
    assert!(done.answers[3].operator.as_deref().is_some_and(|text| text.contains("shelf 7 of 7")));
    assert_eq!(files.entry(&FsPath::parse("archive")?)?, None);
    Ok(())
}

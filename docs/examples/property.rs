use tract::core::StreamOp;
use tract::engine::{ApplyOptions, StreamLine, apply_stream};
use tract::hooks::{BeforeCommit, BeforeCompress, CommitAction, CompressAction, Hooks};
use tract_testkit::proptest::{prelude::*, test_runner::TestRunner};
use tract_testkit::strategies;

/// The handlers under test: neither a message nor a summary with an angle bracket is committed.
fn no_markup() -> Hooks {
    Hooks::new()
        .on("messages", |event: &BeforeCommit| {
            if event.draft.content.text().contains('<') {
                CommitAction::Reject("markup".to_owned())
            } else {
                CommitAction::Pass
            }
        })
        .on("summaries", |event: &BeforeCompress| {
            if event.summary.text().contains('<') {
                CompressAction::Reject("markup".to_owned())
            } else {
                CompressAction::Pass
            }
        })
}

async fn contexts_have_no_markup(history: &[StreamOp]) -> tract::Result<bool> {
    let tract = tract::open("memory:").await?.with_hooks(no_markup());
    let lines = history.iter().cloned().enumerate();
    let lines = lines.map(|(at, step)| StreamLine::new(at + 1, Ok(step)));
    // A refused line changes nothing; the lines after it are tried, and marks are kept.
    apply_stream(
        tract.repo(),
        lines,
        &ApplyOptions { keep_going: true, ..ApplyOptions::default() },
        |_| {},
    )
    .await?;
    let context = tract.compile().await?;
    Ok(context.messages().all(|message| !message.content.text().contains('<')))
}

/// A history as a file that `tract apply --keep-going` replays.
fn stream(history: &[StreamOp]) -> String {
    history.iter().flat_map(StreamOp::to_line).map(|line| line + "\n").collect()
}

fn main() {
    let mut runner = TestRunner::default(); // or the macro `proptest!`
    let result = runner.run(&strategies::history(), |history| {
        let holds = tract::block_on(contexts_have_no_markup(&history));
        prop_assert!(holds.is_ok_and(|holds| holds), "replay:\n{}", stream(&history));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let small_talk = tract.user("Lovely weather.").await?;
    let question = tract.user("How much did I save?").await?;

    let shorter = tract.edit(&question, "How much did I save? One sentence.").await?;
    tract.annotate(&small_talk, Priority::Skip).await?; // leaves the context, stays in the history
    assert_eq!(tract.compile().await?.message_count(), 1);

    tract.revert(&shorter).await?; // a new commit with the inverse change
    tract.undo().await?; // moves the branch back by one command
    let before = tract.compile_at("main~2").await?; // the context as it was
    assert_eq!(before.message_count(), 2);

    let terse = tract.fork("terse", &question).await?; // another handle, on another branch
    terse.edit(&question, "How much?").await?;
    println!("{}", tract.diff("main", "terse").await?); // messages and tool sets
    Ok(())
}

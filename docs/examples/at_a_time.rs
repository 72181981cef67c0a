use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let question = tract.user("How much did I save?").await?;
    let answer = tract.assistant("550 kr.").await?;
    tract.annotate(&question, Priority::Skip).await?;
    for revision in [question.id(), answer.id()] {
        let context = tract.compile_at(revision).await?; // as it was after this commit
        println!("{} messages", context.message_count());
    }
    assert_eq!(tract.compile().await?.message_count(), 1);
    Ok(())
}

use tract::OpenOptions;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let url = "memory:"; // or "sqlite:agents.db", "postgres://agents@db.internal/agents"
    let anna = OpenOptions::new().repo("customer-42").open(url).await?;
    anna.user("Where is my order?").await?;
    println!("{}", anna.compile().await?.message_count());
    Ok(())
}

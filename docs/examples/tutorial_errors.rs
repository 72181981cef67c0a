#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    tract.user("Hi").await?;
    match tract.compile_at("mian").await {
        Ok(context) => println!("{} messages", context.message_count()),
        Err(error @ tract::Error::UnknownRevision { .. }) => {
            println!("{}: {error}", error.code()); // unknown_revision: unknown revision "mian"
            println!("{}", error.notes().join("\n")); // did you mean "main"?
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

use tract::import::{self, ImportOptions, Importer};

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    let mut importer = Importer::new(tract.repo(), ImportOptions::default())?;
    let line = r#"{"id":"chat-7","messages":[{"role":"user","content":"Hi"}]}"#;
    importer.add(import::read(line, None, "chats-1")?.conversation).await?;
    for done in importer.finish().await? {
        println!("{} {}", done.branch, done.status); // chat-7 created
    }
    assert_eq!(tract.branches().list().await?.len(), 1);
    Ok(())
}

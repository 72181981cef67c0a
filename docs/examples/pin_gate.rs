use tract::tools::{Call, Registry, hydrate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("memory:").await?;
    let listed = r#"{"name":"read","inputSchema":{"type":"object"}}"#;
    let gate = tract.pins().gate("files", [&tract::ToolSchema::parse(listed)?]).await?;
    let registry = Registry::builder().definition(listed).policy(gate).build()?;
    let refused = hydrate(Call::new("c1", "read", "{}"), &registry).remove(0);
    println!("{}", refused.error_text());
    assert!(!refused.success());
    Ok(())
}
